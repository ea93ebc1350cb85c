"""Blocking and async twins, event loops and forks."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from inspect import getattr_static
from pathlib import Path
from typing import Any

import pytest

from tenure import App, Flow, FlowRun, Job, Schedule, events, sync
from tenure.bridges import Resque
from tenure.errors import JobNotFound, StoreError, StoreUnavailable, UseAsync
from tenure.jobs.by_hand import Held
from tenure.stores.memory import Data, MemoryStore
from tenure.stores.sqlite.engine import Engine
from tenure.tasks.task import Caller
from tenure.testing import Kit


def twins(owner: type) -> list[str]:
    """Names of the blocking methods of a class: those that have an async twin."""
    return [name for name in dir(owner) if not name.startswith("_") and hasattr(owner, f"a{name}")]


def test_every_blocking_method_has_an_async_twin() -> None:
    for owner in (App, Job, Held, Caller, FlowRun, Flow, Schedule, Kit, Resque):
        for name in twins(owner):
            assert not inspect.iscoroutinefunction(getattr_static(owner, name))
            assert inspect.iscoroutinefunction(getattr_static(owner, f"a{name}"))
        lone = [
            name
            for name, value in vars(owner).items()
            if inspect.iscoroutinefunction(value)
            and not name.startswith("_")
            and name not in {f"a{t}" for t in twins(owner)}
        ]
        assert set(lone) <= {"runs_found"}  # for the other parts of Tenure
    handles = {"refresh", "result", "cancel", "retry", "trigger", "release", "delete", "complete"}
    assert set(twins(Job)) == {*handles, "attempts"}
    assert set(twins(Held)) == {"renew", "finish", "release", "retry", "fail"}
    assert set(twins(FlowRun)) == {*handles, "attributes", "steps"}
    assert set(twins(Resque)) == {"enqueue"}
    assert set(twins(Flow)) == {"start", "start_many", "find"}
    assert set(twins(App)) == {
        "actions", "attention", "explain", "history", "mark", "order", "retry",
        "enqueue", "job", "jobs", "queues", "workers", "stats", "cancel", "delete", "pause", "resume", "purge",
        "retire", "lease", "reset", "close", "run", "flows", "create_schedule", "get_schedule", "schedules",
    }  # fmt: skip
    assert set(twins(Kit)) == {"run_until_idle", "run_one", "perform"}
    assert set(twins(Schedule)) == {
        "refresh", "pause", "resume", "change", "clear", "trigger", "backfill", "delete",
    }  # fmt: skip


def test_twins_take_the_same_arguments_and_tell_the_same() -> None:
    for owner in (App, Job, Held, FlowRun, Flow, Schedule, Kit):
        for name in twins(owner):
            blocking, twin = getattr_static(owner, name), getattr_static(owner, f"a{name}")
            assert inspect.signature(blocking) == inspect.signature(twin), name
            assert blocking.__name__ == name
            assert blocking.__qualname__ in {f"{each.__name__}.{name}" for each in owner.__mro__}
            assert blocking.__doc__


async def test_blocking_methods_are_refused_where_a_loop_runs_naming_the_twin(app: App) -> None:
    @app.task
    def add(a: int) -> int:
        return a

    job = await add.aenqueue(1)
    [held] = await app.alease("default")
    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (add.enqueue, (1,)),
        (app.enqueue, (add.bind(1),)),
        (app.job, (job.id,)),
        (app.jobs, ()),
        (app.cancel, (job,)),
        (app.close, ()),
        (job.result, ()),
        (job.refresh, ()),
        (held.finish, ()),
    ]
    for method, args in calls:
        with pytest.raises(UseAsync, match=rf"{method.__name__}\(\).*await a{method.__name__}\(\)"):
            method(*args)
    with pytest.raises(UseAsync, match="enqueue"):
        add.enqueue_many([(1,)])
    with pytest.raises(UseAsync, match="async with"):
        app.batch().__enter__()
    with pytest.raises(UseAsync, match="async with"):
        held.__enter__()


class Counted(MemoryStore):
    """A memory store object that tells when it is made and closed."""

    made = 0
    closed = 0

    def __init__(self, data: Data) -> None:
        super().__init__(data)
        type(self).made += 1
        self.loop = asyncio.get_running_loop()

    async def close(self) -> None:
        assert asyncio.get_running_loop() is self.loop
        type(self).closed += 1
        await super().close()


@pytest.fixture
def counted() -> type[Counted]:
    return type("Counted", (Counted,), {})


@pytest.fixture
def counted_app(counted: type[Counted]) -> App:
    data = Data()
    return App(lambda: counted(data))


def test_each_event_loop_has_a_store_object_that_is_closed_with_it(counted_app: App, counted: type[Counted]) -> None:
    async def use() -> int:
        await asyncio.gather(*(counted_app.remote("t").aenqueue(n) for n in range(5)))
        return len(await counted_app.ajobs())

    assert [asyncio.run(use()) for _ in range(3)] == [5, 10, 15]
    assert (counted.made, counted.closed) == (3, 3)


def test_blocking_code_of_all_threads_shares_one_store_object(counted_app: App, counted: type[Counted]) -> None:
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(counted_app.remote("t").enqueue, range(50)))

    assert len({job.id for job in jobs}) == 50
    assert counted.made == 1
    counted_app.close()
    assert counted.closed == 1


def test_a_closed_app_opens_again_when_it_is_used(counted_app: App, counted: type[Counted]) -> None:
    counted_app.remote("t").enqueue(1)
    counted_app.close()
    counted_app.close()

    assert len(counted_app.jobs()) == 1
    counted_app.close()
    assert (counted.made, counted.closed) == (2, 2)


def test_closing_from_async_code_closes_what_blocking_code_has_used(counted_app: App, counted: type[Counted]) -> None:
    async def main() -> None:
        await counted_app.ajobs()
        await asyncio.to_thread(counted_app.jobs)
        await counted_app.aclose()
        assert (counted.made, counted.closed) == (2, 2)

    asyncio.run(main())


def test_a_loop_that_ended_without_a_word_is_forgotten(counted_app: App, counted: type[Counted]) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(counted_app.ajobs())
    loop.close()

    assert asyncio.run(counted_app.ajobs()) == []
    assert len(counted_app.internals.sessions._entries) == 0
    assert counted.made == 2


def test_what_a_dropped_app_has_is_closed_on_its_loop_before_it_is_finalized(counted: type[Counted]) -> None:
    ends: list[str] = []
    data = Data()

    class Told(counted):  # type: ignore[valid-type, misc]
        async def close(self) -> None:
            await super().close()
            ends.append("closed")

        def __del__(self) -> None:  # as that of a connection, which reaches into the loop
            ends.append("gone")

    app = App(lambda: Told(data))
    app.queues()
    app.itself = app  # type: ignore[attr-defined]  # so that only the collector finds it, here
    del app
    gc.collect()

    wait_until(lambda: len(ends) == 2)
    assert ends == ["closed", "gone"]


def test_a_dropped_app_closes_its_connections(url: str) -> None:
    app = App(url)

    @app.listen
    def listen(event: events.Event) -> None: ...

    app.remote("t").enqueue()
    assert app.internals.sessions.private is not None
    dropped: list[weakref.ref[Any]] = [weakref.ref(app), weakref.ref(app.internals.sessions.private.store)]

    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)  # of connections that are finalized open
        del app
        sync.run(asyncio.sleep(0.1))  # after which the loop has let go of the last call
        gc.collect()
        wait_until(lambda: not any(each() for each in dropped))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
        gc.collect()


async def test_a_finalizer_that_the_collector_runs_on_a_thread_of_the_store_does_not_wait_for_itself(
    tmp_path: Path,
) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    await app.aqueues()
    refusals: list[str] = []

    class Dropped:
        def __del__(self) -> None:
            for method in (app.remote("t").enqueue, app.queues):
                with pytest.raises(StoreError) as refusal:
                    method()
                refusals.append(str(refusal.value))

    engine = Engine.of(f"{tmp_path}/jobs.db")  # the one that the app has
    async with asyncio.timeout(10):
        await engine.write(lambda _: Dropped() and None, durable=False)
        await engine.read(lambda _: Dropped() and None)
    engine.release()

    assert [refusal.partition(" ")[0] for refusal in refusals] == ["enqueue()", "queues()"] * 2
    assert await app.ajobs() == []
    await app.aclose()


def test_context_variables_and_exceptions_cross_over(app_url: str) -> None:
    app = App(app_url)

    with pytest.raises(JobNotFound) as error:
        app.job("nobody")

    assert error.traceback[0].path == Path(__file__)
    app.close()


@pytest.fixture
def app_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


def test_an_interrupt_ends_a_blocking_wait_and_leaves_the_app_usable(app_url: str) -> None:
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background jobs are started without it
    app = App(app_url)
    job = app.remote("t").enqueue(1)

    def interrupt() -> None:
        """Not before somebody waits: whatever runs then would be interrupted."""
        while (session := app.internals.sessions.private) is None or not session.waiting._waiters:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    started = time.monotonic()

    with pytest.raises(KeyboardInterrupt):
        job.result(timeout=20)

    assert time.monotonic() - started < 5
    job.cancel()
    app.close()
    signal.signal(signal.SIGINT, before)


def test_a_forked_child_uses_connections_of_its_own_and_leaves_the_parents_alone(app_url: str) -> None:  # F22
    app = App(app_url)
    before = app.remote("t").enqueue("parent")

    child = os.fork()
    if child == 0:
        code = 1
        try:
            job = app.remote("t").enqueue("child")
            code = 0 if {each.id for each in app.jobs()} >= {before.id, job.id} else 2
        finally:
            os._exit(code)
    after = app.remote("t").enqueue("parent")
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert len(app.jobs()) == 3
    assert (before.refresh().state, after.refresh().state) == ("waiting", "waiting")
    app.close()


def test_what_a_forked_child_was_acknowledged_outlives_the_parents_closing(app_url: str) -> None:  # I1, F22
    app = App(app_url)
    app.remote("t").enqueue("parent")
    child_ready, parent_closed = os.pipe(), os.pipe()

    child = os.fork()
    if child == 0:
        code = 1
        try:
            app.remote("t").enqueue("child, before")
            os.write(child_ready[1], b"x")
            os.read(parent_closed[0], 1)
            app.remote("t").enqueue("child, after")
            code = 0
        finally:
            os._exit(code)
    os.read(child_ready[0], 1)
    app.close()
    os.write(parent_closed[1], b"x")
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert len(app.jobs()) == 3
    app.close()
    for end in (*child_ready, *parent_closed):
        os.close(end)


def test_a_fork_while_other_threads_enqueue_leaves_a_child_that_can(app_url: str) -> None:  # F22
    app = App(app_url)
    app.remote("t").enqueue(0)
    stop = threading.Event()

    def produce() -> None:
        while not stop.is_set():
            app.remote("t").enqueue(0)

    threads = [threading.Thread(target=produce) for _ in range(2)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if app.remote("child").enqueue(1).refresh().state == "waiting" else 2
            finally:
                os._exit(code)
        children.append(child)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    stop.set()
    for thread in threads:
        thread.join()

    assert statuses == [0, 0, 0]
    assert len(app.jobs(task="child")) == 3
    app.close()


def run_program(program: str, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=cwd, timeout=30, check=False
    )


def test_a_program_that_never_closes_its_app_ends_quietly_and_gives_back_what_it_holds(tmp_path: Path) -> None:
    ended = run_program(
        "from tenure import App\n"
        "app = App()\n"
        "job = app.remote('t').enqueue(1)\n"
        "[held] = app.lease('default')\n"
        "print(held.job.id)\n",
        cwd=tmp_path,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    app = App(f"sqlite:///{tmp_path}/tenure.db")
    assert (app.job(ended.stdout.strip()).state, app.workers()) == ("waiting", [])
    app.close()


def test_an_async_program_that_never_closes_its_app_ends_quietly(tmp_path: Path) -> None:
    ended = run_program(
        "import asyncio\n"
        "from tenure import App\n"
        "app = App()\n"
        "async def main():\n"
        "    job = await app.remote('t').aenqueue(1)\n"
        "    waiter = asyncio.create_task(job.aresult())\n"
        "    [held] = await app.alease('default')\n"
        "    await asyncio.sleep(0.05)\n"
        "asyncio.run(main())\n",
        cwd=tmp_path,
    )

    assert (ended.returncode, ended.stderr) == (0, "")


WITHOUT_UVLOOP = "raise ImportError('not installed')"


@pytest.mark.parametrize("uvloop", [None, WITHOUT_UVLOOP], ids=["uvloop", "asyncio"])
def test_the_first_use_of_an_app_may_come_after_the_main_thread_has_ended(
    url: str, tmp_path: Path, uvloop: str | None
) -> None:
    if uvloop is not None:
        (tmp_path / "uvloop.py").write_text(uvloop)
    ended = run_program(
        "import threading\n"
        "from tenure import App\n"
        f"app = App({url.replace('127.0.0.1', 'localhost')!r})\n"
        "def late():\n"
        "    threading.main_thread().join()\n"
        "    try:\n"
        "        print(app.job(app.remote('t').enqueue(1).id).state)\n"
        "        app.close()\n"
        "    except RuntimeError as error:\n"
        "        print(error)\n"
        "threading.Thread(target=late).start()\n",
        cwd=tmp_path,
    )

    # Some releases of Python 3.12 start no thread any more at that point.
    assert ended.stdout in ("waiting\n", "can't create new thread at interpreter shutdown\n")
    assert ended.stdout == "waiting\n" or sys.version_info[:2] == (3, 12)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_event_loop_that_cannot_start_is_an_error_of_the_call(tmp_path: Path) -> None:
    (tmp_path / "uvloop.py").write_text("raise RuntimeError('built for another Python')")

    ended = run_program("from tenure import App\nApp('memory://').queues()\n", cwd=tmp_path)

    assert ended.stderr.endswith("RuntimeError: built for another Python\n")
    assert ended.stderr.count("Traceback") == 1


def test_importing_tenure_is_fast_and_brings_no_driver(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "import asyncio, msgspec, logging, inspect\n"
        "started = time.process_time()\n"
        "import tenure\n"
        "print(time.process_time() - started)\n"
        "print(sorted({'apsw', 'rich', 'click', 'sqlite3', 'pydantic'} & set(sys.modules)))\n"
    )
    runs = [run_program(program, cwd=tmp_path).stdout.splitlines() for _ in range(3)]

    assert {run[1] for run in runs} == {"[]"}
    assert min(float(run[0]) for run in runs) < 0.1


def test_a_store_that_cannot_be_reached_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.jobs.session.ENQUEUE_TIMEOUT", 0.1)
    (tmp_path / "file").touch()
    app = App(f"sqlite:///{tmp_path}/file/jobs.db")

    with pytest.raises(StoreUnavailable) as error:
        app.remote("t").enqueue(1)

    assert "\n" not in str(error.value)
    app.close()
