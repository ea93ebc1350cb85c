"""hworker: jobs of Haskell programs run here, its monitors stay right, and nothing is lost or ended twice."""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest

from tenure import App, Fail, Retry
from tenure.bridges import Hworker, source
from tenure.bridges.custody import End
from tenure.bridges.hworker import HworkerForeign, QueueSettings
from tenure.core.job import ErrorInfo, State
from tenure.errors import InvalidOption, PayloadError
from tenure.stores.redis.address import Address
from tests.bridges.scenes import Monitor, There, keys_of, replay, scenes_of
from tests.servers.server import Server

TEXT = scenes_of("hworker-text")
CLIENT = scenes_of("hworker-client")
FAILED, RETRIED = ErrorInfo("ValueError", "no", "Traceback"), ErrorInfo("Retry", "")


class Send(msgspec.Struct, tag_field="tag"):
    to: str
    n: int = 0


class Again(msgspec.Struct, tag_field="tag"): ...


class Bad(msgspec.Struct, tag_field="tag"): ...


class Throw(msgspec.Struct, tag_field="tag"): ...


class Slow(msgspec.Struct, tag_field="tag"):
    contents: int


Job = Send | Again | Bad | Throw | Slow


ENTRIES, KILLS, SLOTS = 3000, 8, 3


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    yield app
    await app.aclose()


@pytest.fixture
def hworker(app: App, server: Server, there: There) -> Hworker:
    return Hworker(app, server.url)


class Clock:
    """A time that only the test moves."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 17, 17, 53, 41, 500_000, UTC)

    def __call__(self) -> datetime:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@asynccontextmanager
async def foreign_to(
    server: Server, clock: Clock, settings: QueueSettings | None = None, *, monitor: bool = False
) -> AsyncIterator[HworkerForeign]:
    foreign = HworkerForeign(
        Address.from_url(server.url),
        ["mail"],
        {"mail": settings or QueueSettings()},
        1_000_000,
        monitor=monitor,
        now=clock,
    )
    yield foreign
    await foreign.close()


async def until(happened: Callable[[], Any]) -> Any:
    """Wait until this is true, and return it."""
    async with asyncio.timeout(20):
        while not (found := happened()):
            await asyncio.sleep(0.01)
    return found


def held(there: There) -> int:
    """Jobs in custody."""
    count = there.hlen("hworker:tenure:custody")
    assert count == there.hlen("hworker:tenure:holds")
    assert isinstance(count, int)
    return count


TIME = re.compile(r'^"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)Z"$')


def same_form(value: Any) -> Any:
    """The same with all times in the form with six digits."""
    if isinstance(value, dict):
        return {key: same_form(each) for key, each in value.items()}
    if isinstance(value, list):
        return [same_form(each) for each in value]
    return TIME.sub(lambda time: f'"{time[1]}{time[2]:0<7}Z"', value)


# The traces.


async def test_every_scene_of_the_text_passes(server: Server, there: There) -> None:
    clock = Clock()

    def check(scene: str, monitor: Monitor) -> None:
        assert same_form(monitor.writes()) == [
            words for words in same_form(TEXT[scene].of("t")) if words[0] not in ("HGET", "HKEYS")
        ], scene
        assert keys_of(there) == same_form(TEXT[scene].keys), scene

    async def take(job_id: str) -> bytes:
        [taken] = await foreign.take("w", [job_id])
        clock.move(1)
        return taken.entry

    replay(there, TEXT["queue"].of("t"))
    async with foreign_to(server, clock, monitor=True) as foreign:
        with Monitor(server.port) as monitor:
            assert await take("1") == TEXT["take"].of("t")[1][2].encode()
            check("take", monitor)

            await foreign.record("w", [End("1", State.SUCCEEDED, "null")], (), ())
            check("success", monitor)

            await take("2")
            await foreign.record("w", [End("2", State.FAILED, error=RETRIED)], (), ())
            check("retry", monitor)

            await take("3")
            await foreign.record("w", [End("3", State.FAILED, error=FAILED)], (), ())
            check("failure", monitor)

            await take("4")
            there.hdel("hworker:tenure:custody", "4")  # as if a Haskell worker had taken it
            there.hdel("hworker:tenure:holds", "4")
            clock.move(119)
            await foreign.take_back_silent()
            assert there.hlen("hworker-progress-mail") == 1
            clock.move(0.001)
            assert await foreign.take_back_silent() == 12.0
            check("timed-out", monitor)
            clock.move(-119.001)

            replay(there, TEXT["broken"].of("t")[:2])
            await take("5")
            await foreign.record("w", [End("5", State.FAILED, error=FAILED)], (), ())
            check("broken", monitor)
            clock.move(1)

            await take("6")
            assert await foreign.renew("w", ["6"]) == []
            check("renewed", monitor)
            assert await foreign.held_there(["6", "other"]) == [True, False]
            await foreign.give_back(["6"])
    assert held(there) == 0


async def test_what_a_monitor_has_taken_back_gets_no_end_and_no_renewal(server: Server, there: There) -> None:
    clock = Clock()
    replay(there, TEXT["queue"].of("t")[:1])
    async with foreign_to(server, clock) as foreign:
        [taken] = await foreign.take("w", ["1"])
        there.hdel("hworker-progress-mail", taken.entry)
        there.rpush("hworker-jobs-mail", taken.entry)
        with Monitor(server.port) as monitor:
            assert await foreign.renew("w", ["1"]) == ["1"]
            assert await foreign.held_there(["1"]) == [False]

            # A Haskell worker takes it now: the same entry is in progress again, and is not ours.
            there.rpop("hworker-jobs-mail")
            there.hset("hworker-progress-mail", taken.entry, '"2026-11-17T17:53:44.181113936Z"')
            monitor.writes()
            assert await foreign.renew("w", ["1"]) == ["1"]
            await foreign.record("w", [End("1", State.FAILED, error=FAILED)], (), ())
            assert monitor.writes() == []
    assert held(there) == 0
    assert there.hgetall("hworker-progress-mail") == {taken.entry: b'"2026-11-17T17:53:44.181113936Z"'}


async def test_the_monitor_leaves_alone_what_is_ours_renewed_or_no_job(server: Server, there: There) -> None:
    clock = Clock()
    replay(there, TEXT["queue"].of("t")[:2])
    async with foreign_to(server, clock, QueueSettings(2.0), monitor=True) as foreign:
        await foreign.take("w", ["1"])
        times = {
            "false": '"2026-11-17T17:53:30.630360122Z"',
            "no time": "soon",
            "nine digits": '"2026-11-17T17:53:42.630360122Z"',
            "none": '"2026-11-17T17:53:42Z"',
        }
        there.hset("hworker-progress-mail", mapping=times)
        clock.move(3)
        await foreign.take_back_silent()
        assert there.lrange("hworker-jobs-mail", 1, -1) == [b"none"]
        clock.move(1)
        await foreign.take_back_silent()
        assert there.lrange("hworker-jobs-mail", 1, -1) == [b"none", b"nine digits"]
        assert there.hlen("hworker-progress-mail") == 3


async def test_the_monitor_leaves_a_job_that_was_renewed_or_ended_after_its_look(server: Server, there: There) -> None:
    there.hset("hworker-progress-mail", "renewed", "new")
    async with foreign_to(server, Clock()) as foreign:
        assert await foreign.run("take_back", "hworker", "mail", "renewed", "old", "ended", "old") == 0
    assert keys_of(there) == {"hworker-progress-mail": {"renewed": "new"}}


async def test_the_list_of_failures_keeps_the_newest(server: Server, there: There) -> None:
    for number in range(3):
        there.lpush("hworker-jobs-mail", f'["{number}",{number}]')
    async with foreign_to(server, Clock(), QueueSettings(failed_size=2)) as foreign:
        await foreign.take("w", ["a", "b", "c"])
        ends = [End(each, State.FAILED, error=FAILED) for each in "abc"]
        await foreign.record("w", ends, (), ())
        await foreign.record("w", ends, (), ())  # the first answer was lost
    assert there.lrange("hworker-failed-mail", 0, -1) == [b'["2",2]', b'["1",1]']


# Workers.


@pytest.mark.parametrize("on_exception", ["fail", "retry"])
async def test_jobs_of_the_library_end_as_its_own_workers_end_them(
    hworker: Hworker, there: There, on_exception: Literal["fail", "retry"]
) -> None:
    ran: list[Job] = []

    @hworker.queue("mail", on_exception=on_exception)
    def mail(job: Job) -> None:
        ran.append(job)
        match job:
            case Again() if ran.count(job) < 3:
                raise Retry
            case Bad():
                raise Fail("bad")
            case Throw() if ran.count(job) < 2:
                raise ValueError

    replay(there, CLIENT["queue"].of("c1"))
    nonsense = CLIENT["broken"].of("lua")[1][2]
    there.lpush("hworker-jobs-mail", nonsense)
    there.lpush("hworker-jobs-mail", "<mail/>")
    async with hworker.worker(concurrency=1):
        await until(lambda: there.hlen("hworker-broken-mail") == 2 and not held(there))
        await until(lambda: ran.count(Again()) == 3 and not held(there) and not there.exists("hworker-jobs-mail"))
    entries = {json.loads(words[2])[1]["tag"]: words[2].encode() for words in CLIENT["queue"].of("c1")}
    assert ran[:4] == [Send("anna@example.org", 1), Again(), Bad(), Throw()]
    assert ran.count(Throw()) == (1 if on_exception == "fail" else 2)
    failed = [entries["Bad"]] if on_exception == "retry" else [entries["Throw"], entries["Bad"]]
    assert there.lrange("hworker-failed-mail", 0, -1) == failed
    broken = there.hgetall("hworker-broken-mail")
    assert set(broken) == {nonsense.encode(), b"<mail/>"}
    assert all(TIME.match(time.decode()) for time in broken.values())
    assert sorted(there.scan_iter()) == [b"hworker-broken-mail", b"hworker-failed-mail"]


async def test_a_bridge_with_a_monitor_runs_the_job_of_a_dead_haskell_worker(
    app: App, server: Server, there: There
) -> None:
    ran = asyncio.Event()
    hworker = Hworker(app, server.url, monitor=True)

    @hworker.queue("mail", timeout=0.5)
    async def mail(job: int) -> None:
        ran.set()

    there.hset("hworker-progress-mail", '["1",7]', '"2026-11-17T17:53:46.137370642Z"')
    async with hworker.worker():
        async with asyncio.timeout(5):
            await ran.wait()
        await until(lambda: not held(there))
    assert list(there.scan_iter()) == []


async def test_what_a_job_raises_in_a_child_process_is_an_exception_too(
    hworker: Hworker, there: There, tmp_path: Path
) -> None:
    @hworker.queue("mail", on_exception="retry", isolation="process")
    def mail(job: str) -> None:
        if not (tmp_path / job).exists():
            (tmp_path / job).touch()
            raise Fail if job == "bad" else ValueError

    await hworker.aenqueue("mail", "good")
    await hworker.aenqueue("mail", "bad")
    async with hworker.worker(concurrency=1):
        await until(lambda: (tmp_path / "bad").exists() and not held(there) and not there.exists("hworker-jobs-mail"))
    assert [json.loads(entry)[1] for entry in there.lrange("hworker-failed-mail", 0, -1)] == ["bad"]
    assert len(await hworker.app.ajobs(queue="hworker:mail", state="succeeded")) == 1


async def test_jobs_given_back_are_next_in_their_old_order(hworker: Hworker, there: There) -> None:
    begun: list[int] = []

    @hworker.queue("mail")
    async def mail(job: int) -> None:
        begun.append(job)
        await asyncio.Event().wait()

    ids = [await hworker.aenqueue("mail", number) for number in range(4)]
    assert all(UUID(each).version == 4 for each in ids)
    stop = await hworker.worker(concurrency=2).start()
    await until(lambda: len(begun) == 2)
    await stop(0)

    assert list(there.scan_iter()) == [b"hworker-jobs-mail"]
    left = [json.loads(entry) for entry in there.lrange("hworker-jobs-mail", 0, -1)]
    assert left[::-1] == [[each, number] for number, each in enumerate(ids)]


async def test_a_worker_that_waits_takes_a_job_as_it_comes(
    hworker: Hworker, there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "POLL", 3.0)
    ran = asyncio.Event()

    @hworker.queue("other")
    async def other(job: object) -> None: ...

    @hworker.queue("mail")
    async def mail(job: object) -> None:
        ran.set()

    async with hworker.worker():
        await asyncio.sleep(0.3)  # it looks in vain
        there.lpush("hworker-jobs-mail", '["1",null]')
        async with asyncio.timeout(1.5):
            await ran.wait()


async def test_a_long_job_is_renewed_and_one_that_is_lost_gets_no_end(
    hworker: Hworker, there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "POLL", 0.1)
    begun: list[int] = []
    go_on = threading.Event()

    @hworker.queue("mail", timeout=0.3)
    def mail(job: int) -> None:  # a thread, which cannot be stopped
        begun.append(job)
        if len(begun) == 1:
            go_on.wait(20)
            raise ValueError

    await hworker.aenqueue("mail", 7)
    async with hworker.worker(concurrency=2):
        await until(lambda: begun)
        [(entry, first)] = there.hgetall("hworker-progress-mail").items()
        await until(lambda: there.hget("hworker-progress-mail", entry) > first)
        there.hdel("hworker-progress-mail", entry)
        there.rpush("hworker-jobs-mail", entry)  # as a monitor does
        await until(lambda: len(begun) == 2)
        await until(lambda: not held(there))
        go_on.set()
    assert begun == [7, 7]
    assert list(there.scan_iter()) == []  # the first has failed, and nothing says so


def start(server: Server, folder: Path, slots: int = 1) -> subprocess.Popen[bytes]:
    """Start a worker in a process of its own."""
    program = [sys.executable, "-m", "tests.bridges.declared_program", "hworker", server.url, str(folder), str(slots)]
    return subprocess.Popen(program, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def test_a_job_of_a_killed_worker_runs_again_and_ends_once(
    hworker: Hworker, there: There, server: Server, tmp_path: Path
) -> None:
    for job in ("t1", "t2"):
        await hworker.aenqueue("mail", job)

    def ran() -> list[str]:
        log = tmp_path / "ran"
        return log.read_text().split() if log.exists() else []

    first = start(server, tmp_path)
    try:
        await until(lambda: ran() == ["t1"])
    finally:
        first.kill()
        first.wait()
    (tmp_path / "go-on").touch()
    assert held(there)
    async with asyncio.timeout(20):
        while not all(worker.missing for worker in await hworker.app.aworkers()):
            await asyncio.sleep(0.05)
    second = start(server, tmp_path)
    try:
        await until(lambda: ran() == ["t1", "t1", "t2"] and not held(there))
    finally:
        second.terminate()
        second.wait(20)
    assert list(there.scan_iter()) == []


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_jobs_end_once_each_while_workers_are_killed(
    hworker: Hworker, there: There, server: Server, tmp_path: Path
) -> None:
    jobs = [f"t{number}" for number in range(ENTRIES)]
    for job in jobs:
        await hworker.aenqueue("mail", job)
    await kill_again_and_again(server, tmp_path, lambda _: not held(there) and not there.exists("hworker-jobs-mail"))
    failed = [json.loads(entry)[1] for entry in there.lrange("hworker-failed-mail", 0, -1)]
    assert sorted(failed) == sorted(job for job in jobs if job.endswith("0"))
    assert list(there.scan_iter()) == [b"hworker-failed-mail"]
    ran = (tmp_path / "ran").read_text().split()
    assert {*ran} == {*jobs}
    assert len(ran) <= ENTRIES + KILLS * SLOTS


async def kill_again_and_again(server: Server, folder: Path, done: Callable[[set[int]], bool]) -> None:
    """Let two workers at a time run everything; one of them is killed and replaced, again and again.

    `done` is asked with the process ids of those that live.
    """
    (folder / "go-on").touch()
    workers = [start(server, folder, SLOTS) for _ in range(2)]
    try:
        for _ in range(KILLS):
            await asyncio.sleep(1 + random.random())
            killed = workers.pop(0)
            killed.kill()
            killed.wait()
            workers.append(start(server, folder, SLOTS))
        async with asyncio.timeout(60):
            while not done({worker.pid for worker in workers}):
                await asyncio.sleep(0.1)
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(30)


# Producers and refusals.


def test_blocking_code_enqueues_what_a_haskell_worker_reads(hworker: Hworker, there: There) -> None:
    job_id = hworker.enqueue("mail", Send("anna@example.org", 1))
    assert there.lrange("hworker-jobs-mail", 0, -1) == [
        f'["{job_id}",{{"tag":"Send","to":"anna@example.org","n":1}}]'.encode()
    ]
    with pytest.raises(PayloadError, match="the job: "):
        hworker.enqueue("mail", float("nan"))

    @hworker.queue("mail")
    def mail(job: Job) -> None: ...

    hworker.enqueue("mail", Again())
    with pytest.raises(PayloadError, match="parameter 'job'"):
        hworker.enqueue("mail", 3)
    assert there.llen("hworker-jobs-mail") == 2


def test_wrong_declarations_are_refused(app: App, hworker: Hworker) -> None:
    with pytest.raises(InvalidOption, match="no cluster"):
        Hworker(app, "redis+cluster://localhost:7000")
    with pytest.raises(InvalidOption, match="on_exception must be 'fail' or 'retry'"):
        hworker.queue("mail", on_exception="ignore")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="timeout must be at least"):
        hworker.queue("mail", timeout=0)
    with pytest.raises(InvalidOption, match="failed_size"):
        hworker.queue("mail", failed_size=0)
    with pytest.raises(InvalidOption, match="would serve no queue of hworker"):
        hworker.worker()
