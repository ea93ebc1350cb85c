"""How isolated attempts end: by themselves, by a signal, for want of memory or time, because the job is cancelled or the worker stops."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tenure import App, Backoff, Context
from tenure.core.job import State
from tenure.core.lease import AbortReason
from tenure.errors import Aborted, ChildDied, JobFailed
from tenure.stores.base import Store
from tenure.worker import executor
from tenure.worker.isolation import process as child_process
from tenure.worker.isolation import runner as process_runner
from tests.faults.scale import on

from .conftest import Start, eventually, record_of, single_try_app, whatever_the_store

Lines = Callable[[str], list[str]]


app = single_try_app


def alive(pid: int) -> bool:
    """Whether the process is there, and not only waiting for its parent to take note of its end."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return sys.platform != "linux"


def hold_the_gil(seconds: float) -> None:
    """A C call that does not let go of the interpreter, and that no signal interrupts."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


# By themselves.


def exhaust() -> None:
    kept = []
    while True:
        kept.append(bytearray(1 << 20))


DEATHS: dict[str, tuple[Callable[[], object], str]] = {
    "exit code": (lambda: os._exit(3), "ChildDied: its process ended with exit code 3 "),
    "exit code 0": (lambda: os._exit(0), "ChildDied: its process ended with exit code 0 "),
    "segfault": (lambda: ctypes.string_at(0), "ChildDied: its process was killed by SIGSEGV;"),
    "abort": (os.abort, "ChildDied: its process was killed by SIGABRT;"),
    "kill": (
        lambda: os.kill(os.getpid(), signal.SIGKILL),
        r"ChildDied: its process was killed by SIGKILL \(which the kernel sends",
    ),
    "SystemExit": (lambda: sys.exit("enough"), "SystemExit: enough"),
    "memory": (exhaust, "MemoryError: the attempt has reached its memory_limit of 67,108,864 bytes"),
}


@whatever_the_store
async def test_what_kills_a_child_is_the_error_of_a_failed_attempt(
    app: App, store: Store, start: Start
) -> None:  # F6, R33
    @app.task(isolation="process", memory_limit=64 << 20)
    def dies(how: str) -> None:
        faulthandler.disable()  # a traceback in the output of the tests would look like a crash of theirs
        DEATHS[how][0]()

    @app.task(isolation="process", memory_limit=64 << 20)
    async def dies_async(how: str) -> None:
        await asyncio.sleep(0)
        faulthandler.disable()
        DEATHS[how][0]()

    @app.task(isolation="process")
    def lives() -> int:
        return len(bytearray(100 << 20))

    await start(app, concurrency=4)
    for task in (dies, dies_async):
        jobs = {how: await task.aenqueue(how) for how in DEATHS}
        for how, (_, error) in DEATHS.items():
            with pytest.raises(JobFailed, match=f"failed with {error}"):
                await jobs[how].aresult(timeout=30)
            record = await record_of(store, jobs[how].id)
            assert (record.state, record.attempt, record.losses) == (State.FAILED, 1, 0)
    assert await (await lives.aenqueue()).aresult(timeout=30) == 100 << 20


@whatever_the_store
async def test_a_death_is_retried_as_the_policy_says(app: App, store: Store, start: Start, tmp_path: Path) -> None:
    @app.task(isolation="process", retry=Backoff(initial=0.01, on=(ChildDied,)), max_attempts=3)
    def dies_twice(ctx: Context) -> int:
        if ctx.attempt < 3:
            os._exit(9)
        return ctx.attempt

    @app.task(isolation="process", retry=Backoff(initial=0.01, never=(ChildDied,)))
    def dies() -> None:
        os._exit(9)

    await start(app, concurrency=2)
    assert await (await dies_twice.aenqueue()).aresult(timeout=30) == 3
    job = await dies.aenqueue()
    with pytest.raises(JobFailed):
        await job.aresult(timeout=30)
    assert (await record_of(store, job.id)).attempt == 1


@whatever_the_store
async def test_a_death_leaves_a_traceback_in_the_output(app: App, store: Store, start: Start) -> None:
    @app.task(isolation="process", output=10_000)
    def crashes_here() -> None:
        ctypes.string_at(0)

    await start(app)
    job = await crashes_here.aenqueue()
    with pytest.raises(JobFailed):
        await job.aresult(timeout=30)
    error = (await record_of(store, job.id)).error
    assert error is not None
    assert "in crashes_here" in (error.output or "")


# Timeouts, in every lane.


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be less patient with what does not stop."""
    monkeypatch.setattr(executor, "STRAY", 1.0)
    monkeypatch.setattr(child_process, "TIMEOUT_GRACE", 3.0)


@whatever_the_store
async def test_a_timeout_ends_an_attempt_in_every_lane(app: App, start: Start, soon: None, lines: Lines) -> None:  # F21
    ended = threading.Event()

    @app.task(timeout=1)
    async def on_loop() -> None:
        await asyncio.sleep(60)

    @app.task(timeout=1)
    def in_thread(ctx: Context) -> None:
        ctx.signal.wait_blocking(60)
        ctx.signal.raise_if_aborted()

    @app.task(timeout=1)
    def stray() -> None:
        ended.wait(60)

    @app.task(isolation="process", timeout=1)
    async def isolated_coroutine() -> None:
        await asyncio.sleep(60)

    @app.task(isolation="process", timeout=1)
    def isolated() -> None:
        time.sleep(60)

    @app.task(isolation="process", timeout=1)
    def stubborn() -> None:
        while True:
            with contextlib.suppress(Exception):
                time.sleep(60)

    @app.task(isolation="process", timeout=1)
    def deaf() -> None:
        hold_the_gil(60)

    @app.task(isolation="process", timeout=1)
    def late() -> str:
        with contextlib.suppress(Aborted):
            time.sleep(60)
        return "nobody wants it any more"

    @app.task(isolation="process", timeout=1)
    def hardly_late() -> str:
        ctypes.PyDLL(None).sleep(60)  # interrupted by what tells of the end, before it is told
        return "nobody wants it either"

    await start(app, concurrency=9, beat=0.05)
    killed = {"stubborn", "deaf"}
    jobs = {
        task.name: await task.aenqueue()
        for task in (on_loop, in_thread, stray, isolated_coroutine, isolated, stubborn, deaf, late, hardly_late)
    }
    for name, job in jobs.items():
        how = ": it did not stop within 3 s, and was killed" if name in killed else "$"
        with pytest.raises(JobFailed, match=f"TimeoutError: the attempt took longer than its timeout of 1 s{how}"):
            await job.aresult(timeout=30)
    assert [name for name in jobs if any(name in line for line in lines("has not stopped"))] == ["stray"]
    await eventually(lambda: _strays(app, 1))
    ended.set()
    await eventually(lambda: _strays(app, 0))


async def test_what_has_taken_too_long_fails_on_every_store(
    app: App, store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:  # F21
    monkeypatch.setattr(child_process, "TIMEOUT_GRACE", 0.1)

    @app.task(isolation="process", timeout=0.2)
    def deaf() -> None:
        hold_the_gil(60)

    await start(app)
    job = await deaf.aenqueue()
    with pytest.raises(JobFailed, match=r"TimeoutError: the attempt took longer than its timeout of 0\.2 s"):
        await job.aresult(timeout=30)
    assert (await record_of(store, job.id)).losses == 0


async def _strays(app: App, number: int) -> bool:
    return [worker.strays for worker in await app.aworkers()] == [number]


@whatever_the_store
async def test_a_stray_thread_does_not_cost_its_slot(app: App, start: Start, soon: None) -> None:  # F21
    ended = threading.Event()

    @app.task(timeout=0.05)
    def stray() -> None:
        ended.wait(60)

    @app.task
    def next_one() -> str:
        return threading.current_thread().name

    await start(app, concurrency=1)
    job = await stray.aenqueue()
    follower = await next_one.aenqueue()
    assert await follower.aresult(timeout=30)
    with pytest.raises(JobFailed, match="TimeoutError"):
        await job.aresult(timeout=30)
    ended.set()


# Being told to stop.


@on("memory", "postgres")
async def test_a_cancelled_child_is_gone_within_a_second_with_all_that_it_has_started(
    app: App, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(name: str) -> None:
        sleeper = subprocess.Popen(["sleep", "60"])
        (tmp_path / f"{name}.new").write_text(f"{os.getpid()} {sleeper.pid}")
        (tmp_path / f"{name}.new").rename(tmp_path / name)

    @app.task(isolation="process")
    def obedient() -> None:
        begin("obedient")
        try:
            time.sleep(60)
        except Aborted as aborted:
            (tmp_path / "told").write_text(aborted.reason)
            raise

    @app.task(isolation="process")
    async def stubborn() -> None:
        begin("stubborn")
        while True:
            with contextlib.suppress(BaseException):
                await asyncio.sleep(60)

    await start(app, concurrency=2)
    jobs = [await obedient.aenqueue(), await stubborn.aenqueue()]
    both = tmp_path / "obedient", tmp_path / "stubborn"
    await eventually(lambda: all(path.exists() for path in both))
    pids = [int(pid) for path in both for pid in path.read_text().split()]
    for job, gone, killed_after in ((jobs[0], pids[:1], 10.0), (jobs[1], pids[2:], child_process.LOST_GRACE)):
        monkeypatch.setattr(
            child_process, "LOST_GRACE", killed_after
        )  # who obeys may be slow to do so, and is not to be killed
        began = time.monotonic()
        await job.acancel()
        await eventually(lambda gone=gone: not any(map(alive, gone)))  # type: ignore[misc]
        assert time.monotonic() - began < 3  # a second, if nothing else is going on

    assert (tmp_path / "told").read_text() == AbortReason.CANCELLED
    assert alive(pids[1])  # who ends well may leave something behind
    os.kill(pids[1], signal.SIGKILL)
    assert [(await app.ajob(job.id)).state for job in jobs] == [State.CANCELLED] * 2


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@whatever_the_store
async def test_a_signal_that_the_worker_did_not_announce_means_nothing_to_a_child(
    app: App, start: Start, tmp_path: Path
) -> None:  # R38
    @app.task(isolation="process")
    def goes_on() -> str:
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            for pid in (os.getpid(), os.getppid()):
                os.kill(pid, signum)
            time.sleep(0.01)  # handlers that interrupt each other need more stack than faulthandler gives them
        started = subprocess.run(["sleep", "60"], timeout=0.1, check=False)
        return f"not reached: {started}"

    @app.task(isolation="process")
    def starts() -> int:
        sleeper = subprocess.Popen(["sleep", "60"])
        sleeper.terminate()
        return sleeper.wait(10)

    await start(app, concurrency=2)
    with pytest.raises(JobFailed, match="TimeoutExpired"):
        await (await goes_on.aenqueue()).aresult(timeout=30)
    assert await (await starts.aenqueue()).aresult(timeout=30) == -signal.SIGTERM


@pytest.mark.parametrize("how", ["told", "killed"])
@pytest.mark.parametrize("fails", [False, True])
@whatever_the_store
async def test_a_worker_that_stops_releases_or_fails_what_its_children_run(
    app: App, store: Store, start: Start, tmp_path: Path, how: str, fails: bool
) -> None:  # R40
    @app.task(isolation="process")
    def runs() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        if how == "killed":
            hold_the_gil(60)
        time.sleep(60)

    worker = await start(app, term_timeout=0.3, fail_interrupted=fails)
    job = await runs.aenqueue()
    pid = int(await eventually(lambda: _read(tmp_path / "pid")))
    await worker.stop(grace=0)

    record = await record_of(store, job.id)
    if fails:
        assert record.state is State.FAILED
        assert record.error is not None
        assert record.error.type == "Interrupted"
    else:
        assert (record.state, record.attempt) == (State.WAITING, 0)
    assert not alive(pid)


@whatever_the_store
async def test_children_killed_by_command_are_failed_attempts_and_the_worker_goes_on(
    app: App, store: Store, start: Start, tmp_path: Path
) -> None:  # R38
    @app.task(isolation="process")
    def runs() -> None:
        (tmp_path / "here").touch()
        time.sleep(60)

    @app.task(isolation="process")
    def next_one() -> int:
        return 1

    worker = await start(app)
    job = await runs.aenqueue()
    await eventually((tmp_path / "here").exists)
    lane = worker._process_runner
    lane.kill(lane.running)
    with pytest.raises(JobFailed, match="ChildDied: its process was killed, because its worker was asked to kill it"):
        await job.aresult(timeout=30)
    assert await (await next_one.aenqueue()).aresult(timeout=30) == 1


@whatever_the_store
async def test_another_template_is_forked_when_the_first_is_killed(
    app: App, start: Start, tmp_path: Path, lines: Lines
) -> None:
    @app.task(isolation="process")
    def runs() -> None:
        (tmp_path / "pid").write_text(f"{os.getpid()} {os.getppid()}")
        hold_the_gil(60)

    @app.task(isolation="process")
    def next_one() -> int:
        return os.getppid()

    await start(app)
    job = await runs.aenqueue()
    child, template = map(int, (await eventually(lambda: _read(tmp_path / "pid"))).split())
    os.kill(template, signal.SIGKILL)
    with pytest.raises(JobFailed, match="ChildDied: its process died, because the process that forked it died"):
        await job.aresult(timeout=30)
    assert await (await next_one.aenqueue()).aresult(timeout=30) != template
    if sys.platform == "linux":
        await eventually(lambda: not alive(child))
    assert lines("has exited, and so have they")


@whatever_the_store
async def test_a_job_for_which_no_process_can_be_had_is_given_back(
    app: App, start: Start, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    monkeypatch.setattr(process_runner, "NO_PROCESS_PAUSE", 0.05)

    @app.task(isolation="process")
    def runs(ctx: Context) -> int:
        return ctx.attempt

    await start(app, isolated=1)
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, usual[1]))
    try:
        job = await runs.aenqueue()
        await eventually(lambda: len(lines("cannot start a child process")) > 2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
    assert await job.aresult(timeout=30) == 1


# The lease.


@pytest.mark.parametrize("url", ["sqlite", "redis"], indirect=True)
async def test_a_call_that_holds_the_interpreter_does_not_cost_an_isolated_job_its_lease(
    app: App, store: Store, start: Start
) -> None:  # F5
    @app.task(isolation="process", lease=1)
    def deaf() -> str:
        hold_the_gil(2.5)
        return "still mine"

    await start(app)
    job = await deaf.aenqueue()
    assert await job.aresult(timeout=30) == "still mine"
    record = await record_of(store, job.id)
    assert (record.attempt, record.losses, record.fence) == (1, 0, 1)
