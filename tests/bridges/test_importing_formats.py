"""`tenure import` from RQ, arq, Celery, Huey and Dramatiq: their traces are imported, what cannot be read stays."""

from __future__ import annotations

import base64
import json
import pickle
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tenure import App
from tenure.bridges.importing import KINDS, origin_of
from tenure.errors import InvalidOption

from .importing import Foreign, imported, jobs_of
from .traces import restore

Y2030 = 1893456000.0


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    made = App(f"sqlite:///{tmp_path}/jobs.db")

    @made.task(aliases=["mod.add", "shop.add", "tasks.add"])
    def add(a: int | datetime, b: int = 0) -> None: ...

    yield made
    await made.aclose()


async def test_jobs_of_arq_are_imported_from_their_pickles(app: App, foreign: Foreign) -> None:
    restore(foreign.client, "import-arq")

    account = await imported(app, "arq", foreign.url)

    assert await jobs_of(app) == [
        ("arq:queue", "add", [1], {"b": 2}, None),
        ("arq:queue", "add", [3], {}, Y2030),
    ]
    assert (account.found, account.moved, account.difference) == (2, 2, None)
    assert foreign.keys() == []


async def test_jobs_that_arq_runs_stay_and_do_not_hide_those_behind_them(app: App, foreign: Foreign) -> None:
    restore(foreign.client, "import-arq")
    foreign.client.set("arq:in-progress:a1", b"1")

    look = await imported(app, "arq", foreign.url, look=True)
    assert (look.found, look.moved, look.left) == (1, 1, 0)
    account = await imported(app, "arq", foreign.url)

    assert [job[2] for job in await jobs_of(app)] == [[3]]
    assert foreign.client.zrange("arq:queue", 0, -1) == [b"a1"]
    assert (account.found, account.moved, account.left, account.difference) == (1, 1, 0, None)


async def test_jobs_of_arq_that_no_task_can_get_stay_in_their_place(app: App, foreign: Foreign) -> None:
    restore(foreign.client, "import-arq")
    jobs = {"expired": None, "unknown": pickle.dumps({"f": "unknown", "a": (), "k": {}}), "odd": b"\x80\x04K\x01."}
    for number, (name, body) in enumerate(jobs.items()):
        if body is not None:
            foreign.client.set(f"arq:job:{name}", body)
        foreign.client.zadd("arq:queue", {name: number})

    look = await imported(app, "arq", foreign.url, look=True)
    account = await imported(app, "arq", foreign.url, batch=2)

    assert (account.found, account.moved, account.left, account.difference) == (5, 2, 3, None)
    assert (look.moved, look.left, look.reasons) == (2, 3, account.reasons)
    assert foreign.client.zrange("arq:queue", 0, -1, withscores=True) == [(b"expired", 0), (b"unknown", 1), (b"odd", 2)]
    assert foreign.keys() == [b"arq:job:odd", b"arq:job:unknown", b"arq:queue"]


async def test_a_queue_of_arq_with_another_name_is_found_by_that_name(app: App, foreign: Foreign) -> None:
    foreign.client.set("arq:job:one", pickle.dumps({"t": None, "f": "add", "a": (1,), "k": {}, "et": 1}))
    foreign.client.zadd("mail", {"one": 1})

    await imported(app, "arq", foreign.url, queues=["mail"])

    assert [job[0] for job in await jobs_of(app)] == ["mail"]


@pytest.mark.parametrize("trace", ["import-rq", "import-rq-json"])
async def test_jobs_of_rq_are_imported_from_json_and_from_pickles(app: App, foreign: Foreign, trace: str) -> None:
    restore(foreign.client, trace)
    second = "2030-01-01T00:00:00" if trace == "import-rq" else 1

    account = await imported(app, "rq", foreign.url)

    assert await jobs_of(app) == [
        ("mail", "add", [1], {"b": 2}, None),
        ("mail", "add", [second], {}, None),
        ("mail", "add", [5], {}, Y2030),
    ]
    assert (account.found, account.moved, account.difference) == (3, 3, None)
    assert foreign.keys() == [b"rq:queues"]


async def test_jobs_of_rq_that_a_task_cannot_stand_for_stay_in_their_order(app: App, foreign: Foreign) -> None:
    restore(foreign.client, "import-rq")

    def job(name: str, data: Any, **fields: str) -> None:
        foreign.client.hset(f"rq:job:{name}", "data", pickle.dumps(data))
        for field, value in fields.items():
            foreign.client.hset(f"rq:job:{name}", field, value)
        foreign.client.lpush("rq:queue:mail", name)

    job("method", ("mod.add", Path("x"), (1,), {}))
    job("object", ("mod.add", 7, (1,), {}))
    job("callback", ("mod.add", None, (1,), {}), success_callback_name="mod.done")
    job("repeats", ("mod.add", None, (1,), {}), repeats_left="3")
    job("blocker", ("mod.add", None, (1,), {}))
    foreign.client.sadd("rq:job:blocker:dependents", "blocked")
    foreign.client.zadd("rq:deferred:mail", {"blocked": 1})
    job("odd", [1, 2])
    foreign.client.lpush("rq:queue:mail", "gone")
    before = foreign.client.lrange("rq:queue:mail", 0, 6)

    look = await imported(app, "rq", foreign.url, look=True)
    account = await imported(app, "rq", foreign.url, batch=2)

    assert (account.found, account.moved, account.left, account.difference) == (11, 3, 8, None)
    assert (look.found, look.moved, look.left, look.reasons) == (11, 3, 8, account.reasons)
    assert foreign.client.lrange("rq:queue:mail", 0, -1) == before
    assert len(account.reasons) == 8
    assert all(foreign.client.exists(f"rq:job:{name}") for name in ("method", "callback", "blocker"))


async def test_failed_jobs_of_rq_are_moved_if_they_are_to_be_retried(app: App, foreign: Foreign) -> None:
    restore(foreign.client, "import-rq")
    foreign.client.lrem("rq:queue:mail", 0, "j1")
    foreign.client.zadd("rq:failed:mail", {"j1": 99})

    assert (await imported(app, "rq", foreign.url)).moved == 2
    assert (await imported(app, "rq", foreign.url, failed=True)).moved == 1
    assert foreign.keys() == [b"rq:queues"]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("3f3d9b19-4141-4418-8474-7ed05522c152", True),
        ("2ed6657d-e927-568b-95e1-2665a8aea6a2", False),  # made of a name, so it may come again
        ("nightly", False),
    ],
)
async def test_only_a_random_uuid_of_the_other_system_is_the_id_of_the_job(
    app: App, foreign: Foreign, name: str, kept: bool
) -> None:
    for number in range(2):
        foreign.client.set(f"arq:job:{name}", pickle.dumps({"f": "add", "a": (number,), "k": {}}))
        foreign.client.zadd("arq:queue", {name: 1})
        await imported(app, "arq", foreign.url)

    ids = [job.id for job in await app.ajobs()]
    assert (name in ids) is kept
    assert len(ids) == (1 if kept else 2)


async def test_a_job_is_kept_long_enough_for_an_import_to_be_repeated(app: App, foreign: Foreign) -> None:
    @app.task(keep=0)
    def forgotten() -> None: ...

    foreign.push("math", "forgotten")
    foreign.push("math", "add", 1)

    await imported(app, "resque", foreign.url)

    keeps = {job.task: job.record.keep for job in await app.ajobs() if job.record is not None}
    assert keeps == {"forgotten": 600, "add": None}


async def test_dates_of_a_pickle_need_a_task_that_takes_dates(app: App, foreign: Foreign) -> None:
    @app.task
    def untyped(value: Any) -> None: ...

    foreign.client.set("arq:job:one", pickle.dumps({"f": "untyped", "a": (datetime(2030, 1, 1),), "k": {}}))
    foreign.client.zadd("arq:queue", {"one": 1})

    account = await imported(app, "arq", foreign.url)

    assert (account.moved, account.left) == (0, 1)
    assert "annotate it" in str(account.reasons)


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("arq", [("SET", "arq:queue:health-check", "Nov-17 18:01:45 j_complete=0")]),
        ("dramatiq", [("ZADD", "dramatiq:__heartbeats__", "9e15", "f00")]),
        ("rq", [("SADD", "rq:workers", "rq:worker:w1"), ("HSET", "rq:worker:w1", "state", "idle")]),
    ],
)
async def test_live_workers_are_seen(foreign: Foreign, kind: str, keys: list[tuple[str, ...]]) -> None:
    origin = origin_of(kind, foreign.url)
    assert await origin.workers() == []
    for command in keys:
        foreign.client.execute_command(*command)  # type: ignore[no-untyped-call]
    assert len(await origin.workers()) == 1
    await origin.close()


@pytest.mark.parametrize("kind", ["arq", "rq"])
def test_a_prefix_is_refused_where_there_is_none(kind: str) -> None:
    with pytest.raises(InvalidOption, match="leave the prefix out"):
        origin_of(kind, "redis://localhost", "mine")


@pytest.mark.parametrize("kind", KINDS)
async def test_an_empty_server_has_nothing_to_import(app: App, foreign: Foreign, kind: str) -> None:
    account = await imported(app, kind, foreign.url)

    assert (account.found, account.moved, account.left, account.difference) == (0, 0, 0, None)
    assert foreign.keys() == []


def celery_message(foreign: Foreign, queue: str, body: bytes | None = None, **headers: Any) -> bytes:
    """Enqueue a message as Celery does: at the left of the list."""
    made = {
        "lang": "py",
        "task": "shop.add",
        "id": "11111111-4141-4418-8474-7ed05522c152",
        "eta": None,
        "expires": None,
    }
    message = {
        "body": base64.b64encode(body or b"[[1], {}, {}]").decode(),
        "content-encoding": "utf-8",
        "content-type": headers.pop("content_type", "application/json"),
        "headers": made | headers,
        "properties": {"priority": 0, "body_encoding": "base64", "delivery_info": {"routing_key": queue}},
    }
    data = json.dumps(message).encode()
    foreign.client.lpush(queue, data)
    foreign.client.sadd(f"_kombu.binding.{queue}", f"{queue}\x06\x16\x06\x16{queue}")
    return data


async def test_messages_of_celery_are_imported_with_time_expiry_priority_and_id(app: App, foreign: Foreign) -> None:
    restore(foreign.client, "import-celery")
    [chain] = [each for each in foreign.client.lrange("celery", 0, -1) if b"(1, 1)" in each]

    look = await imported(app, "celery", foreign.url, look=True)
    account = await imported(app, "celery", foreign.url, to={"celery": "default"})

    assert await jobs_of(app) == [
        ("default", "add", [1], {"b": 2}, None),
        ("mail", "add", [3], {"b": 4}, Y2030),
    ]
    later = (await app.ajob("f6971f96-4757-462d-b3a0-0a81f0188780")).record
    assert later is not None
    assert later.priority == 5
    assert later.expires_at == pytest.approx(Y2030 + 365 * 86400, abs=5)
    assert foreign.client.lrange("celery", 0, -1) == [chain]
    assert (account.found, account.moved, account.left, account.difference) == (3, 2, 1, None)
    assert (look.found, look.moved, look.left) == (3, 2, 1)
    assert "chain" in str(account.reasons)
    assert not foreign.client.exists("mail\x06\x163")


async def test_a_pickle_of_celery_is_not_read(app: App, foreign: Foreign) -> None:
    restore(foreign.client, "import-celery-pickle")
    before = foreign.client.lrange("celery", 0, -1)

    account = await imported(app, "celery", foreign.url)

    assert (account.moved, account.left) == (0, 1)
    assert "only JSON is read" in str(account.reasons)
    assert foreign.client.lrange("celery", 0, -1) == before


async def test_messages_of_celery_that_would_lose_something_stay_in_their_order(app: App, foreign: Foreign) -> None:
    odd = [
        celery_message(foreign, "celery", b"not JSON"),
        celery_message(foreign, "celery", b'[[1], {}, {"callbacks": [{"task": "x"}]}]'),
        celery_message(foreign, "celery", b'[[1], {}, {"chord": {"task": "x"}}]'),
        celery_message(foreign, "celery", b'[[{"__type__": "time", "__value__": "10:00"}], {}, {}]'),
        celery_message(foreign, "celery", b'[[{"__type__": "datetime", "__value__": "no"}], {}, {}]'),
        celery_message(foreign, "celery", expires="2020-01-01T00:00:00"),
        celery_message(foreign, "celery", eta="soon"),
        celery_message(foreign, "celery", content_type="application/x-yaml"),
        celery_message(foreign, "celery", compression="application/x-gzip"),
        celery_message(foreign, "celery", task=None),
    ]
    celery_message(foreign, "celery")

    account = await imported(app, "celery", foreign.url, batch=3)

    assert (account.found, account.moved, account.left, account.difference) == (11, 1, 10, None)
    assert foreign.client.lrange("celery", 0, -1) == odd[::-1]
    assert len(account.reasons) == 9 + 1


async def test_values_that_celery_marks_by_type_are_read(app: App, foreign: Foreign) -> None:
    celery_message(foreign, "celery", b'[[{"__type__": "datetime", "__value__": "2030-01-01T00:00:00+00:00"}], {}, {}]')

    await imported(app, "celery", foreign.url)

    assert [job[2] for job in await jobs_of(app)] == [["2030-01-01T00:00:00Z"]]


async def test_what_dead_workers_of_celery_had_fetched_is_imported(app: App, foreign: Foreign) -> None:
    for number, queue in enumerate(["celery", "mail"]):
        data = celery_message(
            foreign, queue, id=f"{number}1111111-4141-4418-8474-7ed05522c152", eta="2030-01-01T00:00:00+00:00"
        )
        foreign.client.delete(queue)
        foreign.client.hset("unacked", f"tag{number}", json.dumps([json.loads(data), "", queue]))
        foreign.client.zadd("unacked_index", {f"tag{number}": number})
    foreign.client.hset("unacked", "odd", b"[1]")
    foreign.client.zadd("unacked_index", {"odd": 7})

    none = await imported(app, "celery", foreign.url, scheduled=False, queues=["mail"])
    assert (none.found, none.moved) == (0, 0)
    look = await imported(app, "celery", foreign.url, look=True)
    account = await imported(app, "celery", foreign.url)

    assert await jobs_of(app) == [("celery", "add", [1], {}, Y2030), ("mail", "add", [1], {}, Y2030)]
    assert (account.found, account.moved, account.left, account.difference) == (3, 2, 1, None)
    assert (look.found, look.moved, look.left) == (3, 2, 1)
    assert foreign.client.hgetall("unacked") == {b"odd": b"[1]"}
    assert foreign.client.zrange("unacked_index", 0, -1, withscores=True) == [(b"odd", 7)]


async def test_what_live_workers_of_celery_have_fetched_stays(app: App, foreign: Foreign) -> None:
    foreign.client.hset("unacked", "tag", json.dumps([{}, "", "celery"]))
    foreign.client.zadd("unacked_index", {"tag": 1})
    with foreign.client.pubsub() as worker:  # type: ignore[no-untyped-call]
        worker.psubscribe("/9.celery.pidbox")
        worker.get_message(timeout=5)
        origin = origin_of("celery", foreign.url)
        assert len(await origin.workers()) == 1
        await origin.close()
        account = await imported(app, "celery", foreign.url)

    assert (account.found, account.moved, account.left) == (0, 0, 0)
    assert foreign.client.hexists("unacked", "tag")


async def test_keys_of_celery_may_have_a_prefix(app: App, foreign: Foreign) -> None:
    celery_message(foreign, "celery")
    foreign.client.rename("celery", "shop-celery")
    foreign.client.rename("_kombu.binding.celery", "shop-_kombu.binding.celery")

    assert (await imported(app, "celery", foreign.url, prefix="shop-")).moved == 1


async def test_messages_of_huey_are_imported_from_their_pickles(app: App, foreign: Foreign) -> None:
    restore(foreign.client, "import-huey")
    later = bytes(foreign.client.lrange("huey.redis.shop", 0, -1)[0])  # type: ignore[arg-type]
    foreign.client.zadd("huey.schedule.shop", {later: 1})  # as a consumer does
    foreign.client.ltrim("huey.redis.shop", 1, -1)

    look = await imported(app, "huey", foreign.url, look=True)
    account = await imported(app, "huey", foreign.url)

    assert await jobs_of(app) == [("shop", "add", [1], {"b": 2}, None), ("shop", "add", [3], {}, Y2030)]
    assert (look.found, look.moved, account.found, account.moved, account.difference) == (2, 2, 2, 2, None)
    assert (await app.ajob("9c717a48-e3e3-45f2-a66f-8b5eead3c67b")).task == "add"
    assert foreign.keys() == []


async def test_messages_of_huey_that_are_signed_or_follow_others_stay_in_their_order(
    app: App, foreign: Foreign
) -> None:
    restore(foreign.client, "import-huey")
    message = bytes(foreign.client.lrange("huey.redis.shop", 0, -1)[1])  # type: ignore[arg-type]
    foreign.client.delete("huey.redis.shop")
    odd = [message + b":signature", pickle.dumps(7), message.replace(b"NNNNNNK", b"}NNNNNK"), b"\x1f\x8b compressed"]
    for each in (*odd, message):
        foreign.client.lpush("huey.redis.shop", each)
    foreign.client.zadd("huey.redis.urgent", {b"x": 1})

    account = await imported(app, "huey", foreign.url, batch=2)

    assert (account.found, account.moved, account.left, account.difference) == (6, 1, 5, None)
    assert foreign.client.lrange("huey.redis.shop", 0, -1) == odd[::-1]
    assert all(word in str(account.reasons) for word in ("signature", "follow", "no message", "priorities"))


async def test_messages_of_dramatiq_are_imported_with_their_time(app: App, foreign: Foreign) -> None:
    restore(foreign.client, "import-dramatiq")
    [(name, later)] = foreign.client.hgetall("dramatiq:mail.DQ.msgs").items()
    foreign.client.hset("dramatiq:mail.DQ.msgs", name, bytes(later).replace(b"1794942105590", b"1893456000000"))  # type: ignore[arg-type]

    look = await imported(app, "dramatiq", foreign.url, look=True)
    account = await imported(app, "dramatiq", foreign.url)

    assert await jobs_of(app) == [("mail", "add", [1], {"b": 2}, None), ("mail", "add", [3], {}, Y2030)]
    assert (look.found, look.moved, account.found, account.moved, account.difference) == (2, 2, 2, 2, None)
    assert foreign.keys() == [b"dramatiq:__heartbeats__"]


async def test_messages_of_dramatiq_with_followers_or_without_a_body_stay(app: App, foreign: Foreign) -> None:
    messages: dict[str, Any] = {
        "piped": {"actor_name": "add", "args": [1], "kwargs": {}, "options": {"pipe_target": {"actor_name": "x"}}},
        "gone": None,
        "odd": [],
    }
    for name, message in messages.items():
        foreign.client.rpush("dramatiq:mail", name)
        if message is not None:
            foreign.client.hset("dramatiq:mail.msgs", name, json.dumps(message))

    account = await imported(app, "dramatiq", foreign.url)

    assert (account.found, account.moved, account.left, len(account.reasons)) == (3, 0, 3, 3)
    assert foreign.client.lrange("dramatiq:mail", 0, -1) == [b"piped", b"gone", b"odd"]
    assert sorted(foreign.client.hkeys("dramatiq:mail.msgs")) == [b"odd", b"piped"]


@pytest.mark.parametrize("live", [True, False])
async def test_what_workers_of_dramatiq_have_fetched_is_imported_once_they_are_dead(
    app: App, foreign: Foreign, live: bool
) -> None:
    message = {"actor_name": "add", "args": [1], "kwargs": {}, "options": {"eta": Y2030 * 1000}}
    foreign.client.hset("dramatiq:mail.DQ.msgs", "one", json.dumps(message))
    foreign.client.sadd("dramatiq:__acks__.f00.mail.DQ", "one")
    foreign.client.zadd("dramatiq:__heartbeats__", {"f00": (time.time() - (1 if live else 100)) * 1000})

    account = await imported(app, "dramatiq", foreign.url)

    assert account.moved == len(await jobs_of(app)) == (0 if live else 1)
    assert bool(foreign.client.exists("dramatiq:mail.DQ.msgs")) is live


async def test_dead_letters_of_dramatiq_are_moved_if_they_are_to_be_retried(app: App, foreign: Foreign) -> None:
    message = {"actor_name": "add", "args": [1], "kwargs": {}, "options": {"eta": 1, "retries": 20}}
    foreign.client.hset("dramatiq:mail.XQ.msgs", "one", json.dumps(message))
    foreign.client.zadd("dramatiq:mail.XQ", {"one": 1})

    assert (await imported(app, "dramatiq", foreign.url)).moved == 0
    assert (await imported(app, "dramatiq", foreign.url, failed=True)).moved == 1
    assert [job[0] for job in await jobs_of(app)] == ["mail"]
    assert foreign.keys() == []
