"""The bridge to Guild queues: scenes that its own client has played, with Tenure in place of a worker or a producer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tenure import App, Retry, State
from tenure.bridges import Guild
from tenure.bridges.custody import End
from tenure.bridges.guild.attributes import lookup_values
from tenure.bridges.guild.layout import GuildForeign
from tenure.core.job import ErrorInfo, new_id
from tenure.errors import InvalidOption, PayloadError, TenureError
from tenure.stores.redis.address import Address
from tests.servers.server import Server

TRACES = Path(__file__).parent / "traces"
DATABASE = 7
"""The database of these tests on the shared server: keys of Guild queues have no namespace."""

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Keys = dict[str, Any]


class Scene:
    """A scene of a trace: what was sent, and the keys that there were at its end."""

    def __init__(self, lines: list[str]) -> None:
        told = [json.loads(line) for line in lines if line.startswith(("[", "{"))]
        self.commands: list[list[str]] = [each for each in told if isinstance(each, list)]
        self.keys: Keys = {each["key"]: each["value"] for each in told if isinstance(each, dict)}

    def sent_by(self, *who: str) -> list[list[str]]:
        """The commands of these connections."""
        return [words for connection, *words in self.commands if connection in who]


def scenes(name: str) -> dict[str, Scene]:
    """The scenes of a trace, by name."""
    parts = re.split(r"^## ", (TRACES / f"{name}.trace").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {part.partition(":")[0]: Scene(part.splitlines()) for part in parts}


@pytest.fixture
def url(redis_server_url: str) -> str:
    return f"{redis_server_url}/{DATABASE}"


@pytest.fixture
def client(url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        client.flushdb()
        yield client
        client.flushdb()


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with App(f"memory://{new_id()}") as app:
        yield app


@pytest.fixture
async def guild(app: App, url: str, client: redis.Redis) -> AsyncIterator[Guild]:
    guild = Guild(app, url, flow="access", lookup=["userId", "roleIds"])
    yield guild
    await guild.aclose()


def replay(client: redis.Redis, commands: list[list[str]]) -> None:
    for words in commands:
        if words[0] not in ("MULTI", "EXEC") and not words[0].startswith("BL"):
            client.execute_command(*words)  # type: ignore[no-untyped-call]


def keys_of(client: redis.Redis) -> Keys:
    """Every key and its value, without what only bridges read, and without locks that have been given up."""
    read: dict[str, Callable[[str], Any]] = {
        "hash": client.hgetall,
        "list": lambda key: client.lrange(key, 0, -1),
        "string": client.get,
    }
    found = {key: read[str(client.type(key))](key) for key in client.scan_iter() if ":tenure:" not in key}
    assert all(client.ttl(key) > 0 for key in found if not key.startswith("queue:"))
    return {key: value for key, value in found.items() if value != "tenure:ended"}


def locks_of(client: redis.Redis) -> Keys:
    return {key: value for key, value in keys_of(client).items() if key.startswith("lock:")}


def without_locks(keys: Keys) -> Keys:
    return {key: value for key, value in keys.items() if not key.startswith("lock:")}


async def until(condition: Callable[[], object], within: float = 10) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it has not come true"
        await asyncio.sleep(0.01)


def no_custody(client: redis.Redis) -> bool:
    return not client.exists("guild:access:tenure:custody")


@contextlib.asynccontextmanager
async def steps_of(guild: Guild) -> AsyncIterator[GuildForeign]:
    foreign = guild.connect(["*"]) if guild.app.tasks else GuildForeign(Address.from_url(guild.url), guild.flow, {})
    yield foreign
    await foreign.close()


# Scenes.


async def test_each_step_leaves_the_keys_that_the_real_monitor_and_the_next_worker_were_seen_to_accept(
    guild: Guild, client: redis.Redis
) -> None:
    played = scenes("guild-tenure")

    @guild.queue("checking", then="granting", lock=2)
    def checking(userId: int, roleIds: list[str]) -> None: ...

    async with steps_of(guild) as foreign:
        replay(client, played["create"].sent_by("c2"))
        [taken] = await foreign.take("me", ["4f1c"])
        [job_id] = played["take"].keys["queue:checking:processing"]
        assert (taken.entry.decode(), taken.extra) == (job_id, (b"7", b'["r1","r2"]'))
        assert keys_of(client) == played["take"].keys
        assert 2 <= client.ttl(f"lock:checking:{job_id}") <= 3

        client.expire(f"lock:checking:{job_id}", 1)
        assert await foreign.renew("me", ["4f1c"]) == []
        assert keys_of(client) == played["renew"].keys
        assert client.ttl(f"lock:checking:{job_id}") >= 2

        await foreign.record("me", [End("4f1c", State.SUCCEEDED, '{"allowed":["r1"]}')], [], [])
        # Given up, but still there: the monitor asks for it after it has seen the job in `processing`.
        assert 1 <= client.ttl(f"lock:checking:{job_id}") <= 2
        assert client.lrange("queue:granting:waiting", 0, -1) == [job_id]
        client.delete("queue:granting:waiting")  # as the worker of granting does
        replay(client, played["complete"].sent_by("c5"))
        assert keys_of(client) == played["complete"].keys
        assert no_custody(client)


async def test_a_bridge_leaves_the_keys_that_the_client_s_own_workers_leave(guild: Guild, client: redis.Redis) -> None:
    played = scenes("guild")

    @guild.queue("checking", then="granting", lock=10)
    async def checking(userId: int, roleIds: list[str]) -> dict[str, object]:
        if userId == 13:
            raise ValueError("not 13")
        return {"allowed": ["r9"], "nextQueue": "granting"} if userId == 8 else {"allowed": roleIds[:1]}

    @guild.queue("granting", lock=10)
    def granting(userId: int, allowed: list[str]) -> dict[str, object]:
        return {"done": True, "granted": {"at": 1}}

    @guild.queue("parent:role", lock=10)
    def role(roleId: str) -> dict[str, object]:
        return {"done": True, "ok": roleId}

    replay(client, played["create"].sent_by("c1"))
    assert keys_of(client) == played["create"].keys
    async with guild.worker(["checking", "granting"]):
        for name in ("work", "fail", "next-queue"):
            replay(client, played[name].sent_by("c1"))
            # The client forgets the lock of a job that failed; a bridge does not.
            expected = without_locks(played[name].keys)
            await until(lambda expected=expected: keys_of(client) == expected and no_custody(client))  # type: ignore[misc]

    # Two children of ours, and the parent worker of the client.
    replay(client, played["delete"].sent_by("c1"))
    replay(client, played["parent"].sent_by("c8"))
    client.lmove("queue:parent:waiting", "queue:parent:processing", "LEFT", "RIGHT")
    parent_worker = played["parent"].sent_by("c9")
    made = next(at for at, words in enumerate(parent_worker) if words[0] == "HSET" and "children:parent:jobs" in words)
    replay(client, parent_worker[: made + 1])
    children = list(client.keys("job:parent:role:*"))
    async with guild.worker(["parent:role"]):
        await until(lambda: all(client.hget(key, "done") == "true" for key in children) and no_custody(client))
    replay(client, parent_worker[made + 1 :])
    assert keys_of(client) == without_locks(played["parent"].keys)


async def test_a_job_that_the_monitor_has_failed_is_cancelled_and_nothing_is_written(
    app: App, guild: Guild, client: redis.Redis
) -> None:
    played = scenes("guild-monitor")
    started, stopped = asyncio.Event(), asyncio.Event()

    @guild.queue("checking", then="granting", lock=2)
    async def checking(userId: int) -> dict[str, object]:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.set()
            raise
        return {"allowed": userId}

    async with guild.worker():
        replay(client, played["lease"].sent_by("c2"))
        await started.wait()
        [lock] = client.keys("lock:*")
        client.delete(lock)
        replay(client, played["monitor"].sent_by("c4"))
        await asyncio.wait_for(stopped.wait(), 10)
        await until(lambda: no_custody(client))
    assert keys_of(client) == played["monitor"].keys
    [job] = await app.ajobs()
    assert job.state is State.CANCELLED
    [failed] = await guild.afind(userId=9)
    assert (failed.done, failed.failed, failed.error) == (True, True, "checking lock time exceeded")


async def test_start_creates_the_keys_that_the_client_creates(guild: Guild, client: redis.Redis) -> None:
    guild_of_granting = Guild(guild.app, guild.url, flow="access", lookup=["userId", "roleIds"], first="checking")
    job_id = await guild_of_granting.astart(
        userId=7, roleIds=["r1", "r2"], name='Jöe "x"', flag=True, none=None, correlationId="corr-1"
    )
    assert UUID.fullmatch(job_id)
    expected = json.dumps(scenes("guild")["create"].keys, ensure_ascii=False)
    assert keys_of(client) == json.loads(UUID.sub(job_id, expected))
    assert all(86_390 < client.ttl(key) <= 86_400 for key in client.keys("job:*"))
    async with steps_of(guild_of_granting) as foreign:  # the answer of the first call may have been lost
        await foreign.start_job("checking", job_id, [("userId", "7")], {"userId": b"7"})
    assert keys_of(client) == json.loads(UUID.sub(job_id, expected))
    await guild_of_granting.aclose()


# Ends.


async def test_an_end_is_written_only_while_the_lock_is_ours_and_only_once(guild: Guild, client: redis.Redis) -> None:
    @guild.queue("checking", then="granting")
    def checking(userId: int) -> None: ...

    async with steps_of(guild) as foreign:
        gone, taken_over, removed, kept = [await guild.astart(userId=number) for number in range(4)]
        ids = [new_id() for _ in range(4)]
        before = {job: client.hgetall(f"job:access:{job}") for job in (gone, taken_over, removed, kept)}
        assert len(await foreign.take("me", ids)) == 4
        client.delete(f"lock:checking:{gone}")
        client.set(f"lock:checking:{taken_over}", "another")
        client.lrem("queue:checking:processing", 1, removed)

        assert await foreign.renew("me", ids) == ids[:2]
        for _ in range(2):
            await foreign.record("me", [End(each, State.SUCCEEDED, '{"ok":1}') for each in ids], [], [])

        assert client.lrange("queue:granting:waiting", 0, -1) == [kept]
        assert {job: client.hgetall(f"job:access:{job}") for job in before} == before | {
            kept: before[kept] | {"ok": "1", "completed-queue": '"checking"'}
        }
        assert client.get(f"lock:checking:{taken_over}") == "another"
        assert no_custody(client)


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (End("x", State.FAILED, error=ErrorInfo("ValueError", 'no "7"')), 'no "7"'),
        (End("x", State.FAILED, error=ErrorInfo("ValueError", "")), "ValueError"),
        (End("x", State.CANCELLED), "the job was cancelled"),
        (End("x", State.BROKEN, error=ErrorInfo("PayloadError", "no int")), "no int"),
        (End("x", State.SUCCEEDED, "[1]"), "a queue of Guild returns a mapping of attributes, or None, not [1]"),
    ],
)
async def test_every_end_but_success_fails_the_job_and_unlocks_it(
    guild: Guild, client: redis.Redis, end: End, message: str
) -> None:
    @guild.queue("checking", then="granting")
    def checking(userId: int) -> None: ...

    async with steps_of(guild) as foreign:
        job_id = await guild.astart(userId=7)
        await foreign.take("me", ["x"])
        await foreign.record("me", [end], [], [])
    found = await guild.ajob(job_id)
    assert found is not None
    assert found.attributes == {
        "userId": 7, "done": True, "failed": True, "failedQueue": "checking", "failedErrorMsg": message,
    }  # fmt: skip
    assert keys_of(client).keys() == {f"job:access:{job_id}", "job:access:userId:7"}


async def test_a_result_that_is_no_mapping_fails_and_so_does_a_child_that_is_not_done(
    guild: Guild, client: redis.Redis
) -> None:
    @guild.queue("checking")
    def checking(userId: int) -> Any:
        return [userId] if userId == 1 else {"nextQueue": 5}

    @guild.queue("parent:role")
    def role() -> dict[str, object]:
        return {"done": 1}

    first, second = await guild.astart(userId=1), await guild.astart(userId=2)
    child = f"job:parent:role:{new_id()}"
    client.hset(child, "roleId", '"a"')
    client.expire(child, 60)
    client.rpush("queue:parent:role:waiting", child.rpartition(":")[2])
    async with guild.worker():
        await until(lambda: client.hexists(child, "done") and no_custody(client))
    found = [await guild.ajob(each) for each in (first, second)]
    assert [each and each.error for each in found] == [
        "a queue of Guild returns a mapping of attributes, or None, not [1]",
        "nextQueue must be the name of a queue, not 5",
    ]
    assert "must return" in (client.hget(child, "failedErrorMsg") or "")


async def test_a_result_may_name_another_queue_than_then_and_none_goes_where_then_says(
    guild: Guild, client: redis.Redis
) -> None:
    @guild.queue("checking", then="granting")
    def checking(userId: int) -> dict[str, object] | None:
        return {"nextQueue": "refusing"} if userId == 1 else None

    jobs = [await guild.astart(userId=number) for number in range(2)]
    async with guild.worker():
        await until(lambda: all(client.hexists(f"job:access:{job}", "completed-queue") for job in jobs))
    assert client.lrange("queue:granting:waiting", 0, -1) == [jobs[0]]
    assert client.lrange("queue:refusing:waiting", 0, -1) == [jobs[1]]
    assert client.hgetall(f"job:access:{jobs[1]}") == {"userId": "1", "completed-queue": '"checking"'}


# Attributes.


async def test_parameters_read_attributes_and_missing_ones_are_none_or_the_default(
    guild: Guild, client: redis.Redis
) -> None:
    seen: list[tuple[object, ...]] = []

    @guild.queue("checking", reads={"children": "children:parent:jobs"})
    def checking(
        id: str,  # noqa: A002
        userId: int,
        children: list[str],
        missing: int | None,
        limit: int = 5,
        failed: bool = False,
    ) -> None:
        seen.append((id, userId, children, missing, limit, failed))

    job_id = await guild.astart(userId=7, failed="true", **{"children:parent:jobs": ["job:parent:role:1"]})
    async with guild.worker():
        await until(lambda: seen and no_custody(client))
    assert seen == [(job_id, 7, ["job:parent:role:1"], None, 5, True)]
    found = await guild.ajob(job_id)
    assert found is not None and found.completed_queue == "checking" and not found.done


async def test_what_cannot_be_read_fails_and_what_has_expired_is_dropped(guild: Guild, client: redis.Redis) -> None:
    @guild.queue("checking")
    def checking(userId: int) -> None: ...

    expired, unreadable, unfit = [await guild.astart(userId=number) for number in range(3)]
    client.delete(f"job:access:{expired}")
    client.hset(f"job:access:{unreadable}", "userId", "{")
    client.hset(f"job:access:{unfit}", "userId", '"seven"')
    async with guild.worker():
        await until(lambda: client.hexists(f"job:access:{unfit}", "done") and no_custody(client))
    assert await guild.ajob(expired) is None
    assert "not JSON" in (client.hget(f"job:access:{unreadable}", "failedErrorMsg") or "")
    assert "userId" in (client.hget(f"job:access:{unfit}", "failedErrorMsg") or "")
    assert not client.keys("queue:*")


async def test_nothing_is_written_to_a_job_whose_hash_expires_while_it_runs(guild: Guild, client: redis.Redis) -> None:
    @guild.queue("checking", then="granting")
    def checking(id: str) -> dict[str, object]:  # noqa: A002
        client.delete(f"job:access:{id}")
        return {"ok": True}

    await guild.astart(name="x")
    async with guild.worker():
        await until(lambda: not client.keys("queue:*") and no_custody(client))
    assert keys_of(client) == {}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b"7", ["7"]), (b"7.0", ["7"]), (b"7.5", ["7.5"]), (b'"r 1"', ["r 1"]), (b"true", []), (b"null", []), (b"{}", []),
        (b'["a",1,2.0,true,null,[1],{}]', ["a", "1", "2", "true", "null"]),
    ],
)  # fmt: skip
def test_jobs_are_found_by_the_values_that_javascript_writes(text: bytes, values: list[str]) -> None:
    assert lookup_values(text) == values


async def test_jobs_are_found_by_an_attribute_and_by_each_element_of_a_list(guild: Guild, client: redis.Redis) -> None:
    @guild.queue("checking")
    def checking() -> None: ...

    first = await guild.astart(userId=7, roleIds=["r1", "r2"])
    second = await guild.astart(userId=7, roleIds=["r2"])
    expired = await guild.astart(userId=7)
    client.delete(f"job:access:{expired}")
    assert [job.id for job in await guild.afind(userId=7)] == [first, second]
    assert [job.id for job in await guild.afind(roleIds="r1")] == [first]
    assert await guild.afind(userId=8) == []
    assert await asyncio.to_thread(guild.job, first) == await guild.ajob(first)
    assert [job.id for job in await asyncio.to_thread(guild.find, roleIds="r2")] == [first, second]
    third = await asyncio.to_thread(guild.start, userId=8)
    assert [job.id for job in await guild.afind(userId=8)] == [third]
    await asyncio.to_thread(guild.close)


# Retries, stops and deaths.


async def test_retry_delays_a_job_under_its_lock_and_an_exception_fails_it_at_once(
    guild: Guild, client: redis.Redis
) -> None:
    attempts: list[int] = []

    @guild.queue("checking", then="granting", lock=3)
    def checking(userId: int) -> dict[str, object]:
        attempts.append(userId)
        if userId == 1:
            raise ValueError("no")
        if len(attempts) < 3:
            assert client.keys("lock:*")
            raise Retry("rate limit", after=0.1)
        return {"attempts": len(attempts)}

    failing = await guild.astart(userId=1)
    async with guild.worker(concurrency=1):
        await until(lambda: client.hexists(f"job:access:{failing}", "failed"))
        delayed = await guild.astart(userId=2)
        await until(lambda: client.hexists(f"job:access:{delayed}", "attempts") and no_custody(client))
    assert attempts == [1, 2, 2]
    assert client.lrange("queue:granting:waiting", 0, -1) == [delayed]


async def test_a_worker_that_stops_returns_what_it_has_not_started_to_the_front(
    guild: Guild, client: redis.Redis
) -> None:
    @guild.queue("checking")
    def checking(userId: int) -> None: ...

    async with steps_of(guild) as foreign:
        ids = [await guild.astart(userId=number) for number in range(3)]
        taken_over = await guild.astart(userId=3)
        client.lmove("queue:checking:waiting", "queue:checking:waiting", "RIGHT", "LEFT")
        taken = await foreign.take("me", sorted(new_id() for _ in range(3)))
        client.set(f"lock:checking:{taken_over}", "another")
        await foreign.mark_returning([each.id for each in taken])
        for _ in range(2):
            await foreign.give_back([each.id for each in taken])
    assert client.lrange("queue:checking:waiting", 0, -1) == ids
    assert client.lrange("queue:checking:processing", 0, -1) == [taken_over]
    assert client.get(f"lock:checking:{taken_over}") == "another"
    assert client.get(f"lock:checking:{ids[0]}") == "tenure:ended"
    assert no_custody(client)


async def test_a_lock_that_expired_without_a_monitor_is_taken_again_but_not_one_that_another_has(
    guild: Guild, client: redis.Redis
) -> None:
    @guild.queue("checking", lock=5)
    def checking(userId: int) -> None: ...

    async with steps_of(guild) as foreign:
        expired, anothers, failed, without_hash = [await guild.astart(userId=number) for number in range(4)]
        ids = sorted(new_id() for _ in range(4))
        await foreign.take("me", ids)
        client.delete(f"lock:checking:{expired}", f"lock:checking:{failed}", f"job:access:{without_hash}")
        client.set(f"lock:checking:{anothers}", "another")
        client.lrem("queue:checking:processing", 1, failed)
        assert await foreign.held_there(ids) == [True, False, False, False]
        assert client.get(f"lock:checking:{expired}") == f"tenure:{ids[0]}"
        await foreign.let_go(ids[1:])
        assert client.get(f"lock:checking:{anothers}") == "another"
        assert client.lrange("queue:checking:processing", 0, -1) == [expired, anothers]
        assert client.hkeys("guild:access:tenure:custody") == [ids[0]]


async def test_what_a_dead_worker_took_and_never_stored_runs_with_its_attributes(
    guild: Guild, client: redis.Redis
) -> None:
    seen: list[int] = []

    @guild.queue("checking", then="granting")
    def checking(userId: int) -> None:
        seen.append(userId)

    async with steps_of(guild) as foreign:
        await guild.astart(userId=7)
        await foreign.take("dead", [new_id()])
        client.hset("guild:access:tenure:custody", "x", '["dead","another queue",1,false]\nentry')
    async with guild.worker():
        await until(lambda: client.llen("queue:granting:waiting") == 1)
    assert seen == [7]
    assert client.hkeys("guild:access:tenure:custody") == ["x"]  # for a bridge that has its code


def test_a_job_whose_worker_is_killed_goes_on_under_the_same_lock(
    url: str, client: redis.Redis, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path}/jobs.db"
    program = [sys.executable, "-m", "tests.bridges.guild_program", store, url, str(tmp_path)]
    workers: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        quiet = subprocess.DEVNULL
        workers.append(subprocess.Popen(program, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True))
        return workers[-1]

    def started() -> list[str]:
        return (tmp_path / "started").read_text().split() if (tmp_path / "started").exists() else []

    guild = Guild(App(store), url, flow="access", lookup=["userId"], first="checking")
    try:
        first = start()
        jobs = [guild.start(userId=number) for number in range(3)]
        asyncio.run(until(lambda: len(started()) == 2, 20))
        locks = locks_of(client)
        first.kill()
        start()
        asyncio.run(until(lambda: len(started()) >= 4, 30))
        assert {key: client.get(key) for key in locks} == locks
        (tmp_path / "go").touch()
        asyncio.run(until(lambda: client.llen("queue:granting:waiting") == 3 and no_custody(client), 20))
    finally:
        for each in workers:
            each.kill()
            each.wait()
        guild.close()
        guild.app.close()
    assert sorted(started()) == sorted([*jobs, *jobs[:2]])
    assert [client.hget(f"job:access:{job}", "checked") for job in jobs] == ["0", "1", "2"]
    assert not locks_of(client) and not client.keys("*processing")


async def test_a_queue_may_run_its_jobs_in_child_processes(url: str, client: redis.Redis, tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    guild = Guild(app, url, flow="access")
    guild.queue("checking", isolation="process")(in_a_child)
    good, bad = await guild.astart(userId=7), await guild.astart(userId=-1)
    async with guild.worker(concurrency=2):
        await until(lambda: client.hexists(f"job:access:{bad}", "failed") and no_custody(client), 20)
    assert client.hget(f"job:access:{good}", "double") == "14"
    assert "returns a mapping" in (client.hget(f"job:access:{bad}", "failedErrorMsg") or "")
    await guild.aclose()
    await app.aclose()


def in_a_child(userId: int) -> Any:
    return {"double": 2 * userId} if userId > 0 else "no mapping"


async def test_a_waiting_bridge_takes_a_new_job_at_once(guild: Guild) -> None:
    taken_at: list[float] = []

    @guild.queue("checking")
    def checking(userId: int) -> None:
        taken_at.append(time.monotonic())

    async with guild.worker():
        await asyncio.sleep(0.3)
        for number in range(5):
            started_at = time.monotonic()
            await guild.astart(userId=number)
            await until(lambda number=number: len(taken_at) > number)  # type: ignore[misc]
            assert taken_at[-1] - started_at < 0.5  # without a wake-up, a look comes every second
            await asyncio.sleep(0.05)


async def test_a_server_that_goes_away_for_a_moment_loses_no_end(tmp_path: Path) -> None:
    server = Server(tmp_path, "--appendonly", "yes", "--appendfsync", "always").start()
    app = App(f"memory://{new_id()}")
    guild = Guild(app, server.url, flow="access")
    go = asyncio.Event()

    @guild.queue("checking", then="granting")
    async def checking(userId: int) -> dict[str, object]:
        await go.wait()
        return {"checked": userId}

    jobs = [await guild.astart(userId=number) for number in range(4)]
    with server.client() as client:
        async with guild.worker(concurrency=2):
            await until(lambda: len(client.keys("lock:*")) >= 2)
            server.kill()
            go.set()  # two jobs end while the server is away
            await asyncio.sleep(0.2)
            server.start()
            await until(lambda: client.llen("queue:granting:waiting") == 4, 20)
        assert [client.hget(f"job:access:{job}", "checked") for job in jobs] == [b"0", b"1", b"2", b"3"]
        assert not client.exists("queue:checking:processing", "guild:access:tenure:custody")
    await guild.aclose()
    await app.aclose()
    server.kill()


# Refusals.


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (lambda guild: guild.queue("checking")(lambda: None), "has a function already"),
        (lambda guild: guild.queue("parent:role", then="x")(lambda: None), "takes no then="),
        (lambda guild: guild.queue("other", lock=0)(lambda: None), "lock must be at least 1"),
        (lambda guild: guild.queue("other", retrys=1)(lambda: None), "retrys"),
        (lambda guild: guild.queue("other")(lambda *many: many), "pass each by name"),
        (lambda guild: guild.queue("other", reads={"user": "userId"})(lambda: None), "'user', which is no parameter"),
        (lambda guild: guild.queue("other")(5), "a function"),
        (lambda guild: guild.queue(checking), "name of a queue"),
        (lambda guild: guild.app.tasks["access.checking"].enqueue(), "come from Guild"),
        (lambda guild: guild.connect(["granting"]), "no function for queue 'granting'"),
        (lambda guild: guild.start(), "at least one attribute"),
        (lambda guild: guild.start(id="x", userId=1), "none named id"),
        (lambda guild: guild.start(userId=object()), "attribute 'userId' cannot be written as JSON"),
        (lambda guild: guild.find(), "find takes one of the attributes in lookup="),
        (lambda guild: guild.find(name="x"), "userId, roleIds"),
        (lambda guild: guild.find(userId={}), "a text or a number"),
        (lambda guild: Guild(guild.app, "redis://localhost", flow="x").connect(["*"]), "has no queue here"),
        (lambda guild: Guild(guild.app, "redis+cluster://localhost", flow="access"), "no cluster"),
        (lambda guild: Guild(guild.app, "redis://localhost", flow=""), "name of a Guild flow"),
        (lambda guild: Guild(guild.app, "redis://localhost", flow="other").start(userId=1), "has no queue here"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_sent(do: Callable[[Guild], object], message: str) -> None:
    guild = Guild(App("memory://"), "redis://localhost:1", flow="access", lookup=["userId", "roleIds"])
    guild.queue("checking")(checking)
    with pytest.raises((InvalidOption, PayloadError), match=re.escape(message)):
        do(guild)
    assert list(guild.app.tasks) == ["access.checking"]


def checking(userId: int) -> None: ...


def test_a_server_that_does_not_answer_is_named() -> None:
    guild = Guild(App("memory://"), "redis://localhost:1?timeout=1", flow="access", first="checking")
    with pytest.raises(TenureError, match="localhost"):
        guild.start(userId=7)
