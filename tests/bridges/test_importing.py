"""`tenure import` from Resque: what moves and what stays, in which order, whatever interrupts it."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tenure import App
from tenure.bridges.importing import origin_of
from tenure.bridges.importing.engine import Import, WorkersLive
from tenure.bridges.importing.values import Part
from tenure.errors import StoreUnavailable
from tests.conftest import KINDS

from .importing import Foreign, import_and_kill, imported, jobs_of
from .traces import restore

LATER = 1_900_000_000


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    made = App(f"sqlite:///{tmp_path}/jobs.db")

    @made.task(aliases=["Add"])
    def add(a: int, b: int) -> int:
        return a + b

    @made.task(queue="elsewhere", priority=3, max_attempts=7)
    def boom(why: str) -> None: ...

    yield made
    await made.aclose()


async def test_entries_become_jobs_in_their_order_with_the_options_of_their_task(app: App, foreign: Foreign) -> None:
    for number in range(7):
        foreign.push("math", "Add", number, 1)
    foreign.push("other", "boom", "x")

    account = await imported(app, "resque", foreign.url, batch=3)

    assert await jobs_of(app) == [
        *(("math", "add", [number, 1], {}, None) for number in range(7)),
        ("other", "boom", ["x"], {}, None),
    ]
    assert (account.found, account.moved, account.left, account.difference) == (8, 8, 0, None)
    assert foreign.keys() == [b"resque:queues"]
    [job] = await app.ajobs(task="boom")
    assert job.record is not None
    assert job.record.priority == 3


@pytest.mark.parametrize("kind", KINDS)
async def test_every_store_gets_all_entries_in_their_order(
    kind: str, foreign: Foreign, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}
    fixtures = {"redis": "redis_url", "postgres": "emptied_postgres_url"}
    app = App(urls.get(kind) or request.getfixturevalue(fixtures[kind]))

    @app.task
    def add(a: int, b: int) -> None: ...

    for number in range(30):
        foreign.push("math", "add", number, 1)
    foreign.delay(LATER, "math", "add", 30, 1)

    account = await imported(app, "resque", foreign.url, batch=7)

    assert [job[2][0] for job in await jobs_of(app)] == list(range(31))
    assert (account.moved, account.difference) == (31, None)
    await app.aclose()


async def test_entries_of_ruby_are_read_and_an_integer_that_no_store_holds_stays(app: App, foreign: Foreign) -> None:
    @app.task(name="Demo::Job")
    def demo(value: dict[str, object]) -> None: ...

    restore(foreign.client, "resque-ruby", "enqueue-odd")
    [_, odd, _] = foreign.waiting("math")

    account = await imported(app, "resque", foreign.url, queues=["math", "other"])

    assert [job[:3] for job in await jobs_of(app)] == [("math", "add", [1, 2]), ("other", "add", [1, 2])]
    assert foreign.waiting("math")[0] == odd
    assert "more than 64 bits" in str(account.reasons)


async def test_delayed_entries_become_scheduled_jobs(app: App, foreign: Foreign) -> None:
    restore(foreign.client, "resque-node", "enqueue-at")

    account = await imported(app, "resque", foreign.url)

    assert (account.moved, account.left) == (2, 0)
    assert await jobs_of(app) == [
        ("math", "add", [3, 4], {}, LATER),
        ("math", "add", [5, 6], {}, LATER),
    ]
    assert [key for key in [*foreign.keys()] if b"delayed" in key or b"timestamps" in key] == []


async def test_delayed_entries_without_a_time_or_a_queue_stay(app: App, foreign: Foreign) -> None:
    for second, entry in {"inf": {"queue": "math"}, "soon": {"queue": "math"}, str(LATER): {}}.items():
        foreign.client.rpush(f"resque:delayed:{second}", json.dumps({"class": "Add", "args": [1, 2], **entry}))
        foreign.client.zadd("resque:delayed_queue_schedule", {second: 1})

    account = await imported(app, "resque", foreign.url)

    assert (account.found, account.moved, account.left, len(account.reasons)) == (3, 0, 3, 3)
    assert foreign.client.llen("resque:delayed:soon") == 1


async def test_delayed_entries_stay_if_they_are_not_asked_for(app: App, foreign: Foreign) -> None:
    foreign.delay(LATER, "math", "Add", 1, 2)
    before = foreign.keys()

    account = await imported(app, "resque", foreign.url, scheduled=False)

    assert (account.found, account.moved, foreign.keys()) == (0, 0, before)


async def test_what_no_task_can_get_goes_back_in_its_old_order_with_a_reason(app: App, foreign: Foreign) -> None:
    stay = []
    for number in range(5):
        stay.append(foreign.push("math", "Unknown", number))
        foreign.push("math", "Add", number, 2)
        stay.append(foreign.push("math", "Add", number, 2, 3))
        foreign.client.rpush("resque:queue:math", b"\xff{")
        stay.append(b"\xff{")
    delayed = [foreign.delay(LATER, "math", "Unknown", number) for number in range(3)]
    keys_before = foreign.keys()

    account = await imported(app, "resque", foreign.url, batch=2)

    assert (account.found, account.moved, account.left, account.difference) == (23, 5, 18, None)
    assert foreign.waiting("math") == stay
    assert foreign.client.lrange(f"resque:delayed:{LATER}", 0, -1) == delayed
    assert foreign.keys() == keys_before
    reasons = {(task, number): reason for (_, task, reason), number in account.reasons.items()}
    assert "no task named 'Unknown'" in reasons["Unknown", 8]
    assert "do not fit task 'add'" in reasons["Add", 5]
    assert "not JSON" in reasons["", 5]


async def test_a_look_says_what_would_happen_and_changes_nothing(app: App, foreign: Foreign) -> None:
    foreign.push("math", "Add", 1, 2)
    foreign.push("math", "Unknown")
    foreign.delay(LATER, "other", "Add", 1, 2)
    foreign.client.rpush("resque:failed", json.dumps({"queue": "math", "payload": {"class": "Add", "args": [1, 2]}}))
    before = {key: foreign.client.dump(key) for key in [*foreign.keys()]}

    account = await imported(app, "resque", foreign.url, look=True)

    assert (account.found, account.moved, account.left) == (3, 2, 1)
    assert account.counts["math", "Add"] == {Part.WAITING: 1, Part.SCHEDULED: 0, Part.FAILED: 1, Part.RUNNING: 0}
    assert account.counts["other", "Add"][Part.SCHEDULED] == 1
    assert {key: foreign.client.dump(key) for key in [*foreign.keys()]} == before
    assert await jobs_of(app) == []


async def test_only_the_queues_that_are_asked_for_are_imported(app: App, foreign: Foreign) -> None:
    kept = foreign.push("slow", "Add", 0, 0)
    foreign.push("math", "Add", 1, 1)
    later = foreign.delay(LATER, "slow", "Add", 2, 2)
    foreign.delay(LATER, "math", "Add", 3, 3)

    account = await imported(app, "resque", foreign.url, queues=["*", "!slow"], to={"math": "sums"})

    assert (account.found, account.moved, account.left, account.difference) == (2, 2, 0, None)
    assert [job[:3] for job in await jobs_of(app)] == [("sums", "add", [1, 1]), ("sums", "add", [3, 3])]
    assert foreign.waiting("slow") == [kept]
    assert foreign.client.lrange(f"resque:delayed:{LATER}", 0, -1) == [later]


async def test_failures_stay_unless_they_are_to_be_retried(app: App, foreign: Foreign) -> None:
    restore(foreign.client, "resque-node", "work-long")
    failures = foreign.client.llen("resque:failed")
    assert isinstance(failures, int)
    retried = json.dumps({"queue": "q", "payload": {"class": "Add", "args": [1, 2]}, "retried_at": "2026/01/01"})
    foreign.client.rpush("resque:failed", retried)

    await imported(app, "resque", foreign.url, scheduled=False)
    assert foreign.client.llen("resque:failed") == failures + 1
    account = await imported(app, "resque", foreign.url, scheduled=False, failed=True)

    assert ("math", "boom", ["x"], {}, None) in await jobs_of(app)
    assert "retried there" in str(account.reasons)
    assert foreign.client.lrange("resque:failed", -1, -1) == [retried.encode()]
    assert account.difference is None


@pytest.mark.parametrize(
    ("age", "live"), [(10, True), (120, False), (None, True)], ids=["heartbeat", "silent", "unknown"]
)
async def test_an_import_is_refused_while_workers_live(
    app: App, foreign: Foreign, age: float | None, live: bool
) -> None:
    foreign.client.sadd("resque:workers", "hostr:30250:math,other")
    if age is not None:
        at = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() - age))
        foreign.client.hset("resque:workers:heartbeat", "hostr:30250:math,other", at)

    assert await origin_workers(foreign.url) == (["hostr:30250:math,other"] if live else [])
    if live:
        with pytest.raises(WorkersLive, match=r"hostr:30250.*--while-running"):
            await Import(app, origin_of("resque", foreign.url)).check_workers()


async def test_workers_of_node_live_as_long_as_they_ping_and_bridges_do_not_count(foreign: Foreign) -> None:
    restore(foreign.client, "resque-node", "worker-start")
    assert await origin_workers(foreign.url) == []  # its ping is old by now

    ping = {"time": int(time.time()), "name": "hostn:4242", "queues": "math,other"}
    foreign.client.set("resque:worker:ping:hostn:4242", json.dumps(ping))
    assert await origin_workers(foreign.url) == ["hostn:4242:math,other"]

    foreign.client.hset("resque:tenure:workers", "hostn:4242:math,other", "a bridge")
    assert await origin_workers(foreign.url) == []


async def origin_workers(url: str) -> list[str]:
    origin = origin_of("resque", url)
    try:
        return await origin.workers()
    finally:
        await origin.close()


class Interrupted(Exception):
    """Stands for a kill."""


def interrupt(owner: Any, name: str, calls: list[int], at: int, *, before: bool) -> None:
    """Interrupt the call of any such method that is the `at`th, before it is done or after it."""
    done: Callable[..., Awaitable[Any]] = getattr(owner, name)

    async def counted(*args: Any) -> Any:
        calls[0] += 1
        if calls[0] == at and before:
            raise Interrupted
        answer = await done(*args)
        if calls[0] == at:
            raise Interrupted
        return answer

    setattr(owner, name, counted)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_an_import_that_ends_at_any_step_is_finished_by_the_next(
    app: App, foreign: Foreign, before: bool
) -> None:
    at = 0
    while True:
        at += 1
        foreign.client.flushdb()
        entries = [foreign.push("math", ("Add", "Unknown")[number % 2], number, at) for number in range(8)]
        foreign.delay(LATER, "math", "Add", 8, at)
        origin = origin_of("resque", foreign.url)
        calls = [0]
        for step in ("take", "drop", "put_back"):
            interrupt(origin, step, calls, at, before=before)
        store = app.internals.session.store
        interrupt(store, "enqueue", calls, at, before=before)
        finished = False
        try:
            await Import(app, origin, batch=3).move()
            finished = True
        except Interrupted:
            pass
        finally:
            await origin.close()
            del store.enqueue
        account = await imported(app, "resque", foreign.url, batch=3)

        assert account.difference is None
        assert [job for job in await jobs_of(app) if job[2][1] == at] == [
            *(("math", "add", [number, at], {}, None) for number in (0, 2, 4, 6)),
            ("math", "add", [8, at], {}, LATER),
        ]
        assert foreign.waiting("math") == entries[1::2]
        assert foreign.keys() == [b"resque:queue:math", b"resque:queues"]
        if finished:
            break
    assert at > 8


async def test_an_unfinished_import_shows_in_a_look(app: App, foreign: Foreign) -> None:
    foreign.push("math", "Add", 1, 2)
    origin = origin_of("resque", foreign.url)
    [place] = await origin.places()
    await origin.take(place, ["one"])
    await origin.close()

    account = await imported(app, "resque", foreign.url, look=True)

    assert (account.found, account.moved) == (1, 1)


async def test_entries_that_come_meanwhile_are_moved_and_told(app: App, foreign: Foreign) -> None:
    foreign.push("math", "Add", 1, 2)
    origin = origin_of("resque", foreign.url)
    drop = origin.drop

    async def and_push(ids: Any) -> int:
        if foreign.client.incr("pushed") == 1:
            foreign.push("math", "Add", 3, 4)
        return await drop(ids)

    origin.drop = and_push  # type: ignore[method-assign]
    account = await Import(app, origin).move()
    await origin.close()

    assert (account.found, account.moved) == (1, 2)
    assert account.difference is not None
    assert "1 entry came while the import ran" in account.difference


async def test_entries_that_vanish_meanwhile_are_told(app: App, foreign: Foreign) -> None:
    foreign.push("math", "Add", 1, 2)
    origin = origin_of("resque", foreign.url)
    take = origin.take

    async def too_late(place: Any, ids: Any) -> Any:
        foreign.client.delete("resque:queue:math")
        return await take(place, ids)

    origin.take = too_late  # type: ignore[method-assign]
    account = await Import(app, origin).move()
    await origin.close()

    assert (account.found, account.moved) == (1, 0)
    assert account.difference is not None
    assert "1 entry could no longer be found" in account.difference


async def test_a_store_that_is_away_takes_nothing_out_of_custody(app: App, foreign: Foreign) -> None:
    foreign.push("math", "Add", 1, 2)
    store = app.internals.session.store

    async def away(_: Any) -> Any:
        raise StoreUnavailable("away")

    store.enqueue = away  # type: ignore[assignment,method-assign]
    with pytest.raises(StoreUnavailable):
        await imported(app, "resque", foreign.url)
    del store.enqueue

    assert (await imported(app, "resque", foreign.url)).moved == 1
    assert len(await jobs_of(app)) == 1


async def killed_imports(app: App, foreign: Foreign, waiting: int, delayed: int, kills: int, batch: int) -> None:
    """Import this many entries with a process that is killed this often, at random moments; check that all is exact."""
    with foreign.client.pipeline() as pipe:
        pipe.sadd("resque:queues", "math")
        entries = [json.dumps({"class": "add", "args": [number, 0]}) for number in range(waiting)]
        strangers = {number: json.dumps({"class": "Unknown", "args": [number]}) for number in range(0, waiting, 100)}
        for number, entry in enumerate(entries):
            if number in strangers:
                pipe.rpush("resque:queue:math", strangers[number])
            pipe.rpush("resque:queue:math", entry)
        pipe.execute()
    for number in range(delayed):
        foreign.delay(LATER + number // 3, "math", "add", number, 1)
    import_and_kill("resque", app.url, foreign.url, kills=kills, batch=batch)

    jobs = await jobs_of(app)

    assert [job[2] for job in jobs if job[4] is None] == [[number, 0] for number in range(waiting)]
    assert sorted(job[2][0] for job in jobs if job[4] is not None) == list(range(delayed))
    assert all(job[4] == LATER + job[2][0] // 3 for job in jobs if job[4] is not None)
    assert foreign.waiting("math") == [entry.encode() for entry in strangers.values()]
    assert foreign.keys() == [b"resque:queue:math", b"resque:queues"]


async def test_a_thousand_entries_are_moved_exactly_once_though_the_import_is_killed(
    app: App, foreign: Foreign
) -> None:
    await killed_imports(app, foreign, waiting=1000, delayed=50, kills=3, batch=40)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_ten_thousand_entries_are_moved_exactly_once_though_the_import_is_killed(
    app: App, foreign: Foreign
) -> None:
    await killed_imports(app, foreign, waiting=10_000, delayed=500, kills=20, batch=100)
