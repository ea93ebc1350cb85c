"""What a worker process does at each signal: the table of docs/worker.md, row by row, with real processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tenure import App
from tenure.core.job import JobRecord
from tests.conftest import KINDS, a_url
from tests.faults.processes import Processes, eventually
from tests.faults.scale import lengths

from . import signalled
from .hosting import CallerConnection, Host, host

__all__ = ["host"]

RELEASED = ["waiting", 0, 0, None]
SUCCEEDED = ["succeeded", 1, 0, None]
INTERRUPTED = ["failed", 1, 0, "Interrupted"]

Start = Callable[..., CallerConnection]


@pytest.fixture
def start(host: Host) -> Iterator[Start]:
    """Start a worker process with a job of each of these tasks in line; it is gone when the test ends."""
    guests: list[CallerConnection] = []

    def begin(url: str, tasks: list[str], **options: Any) -> CallerConnection:
        if not url.startswith("memory"):
            with signalled.make_app(url) as app:
                app.enqueue(*(app.tasks[task].bind() for task in tasks))
            tasks = []
        guests.append(host.start(signalled.work, url, tasks, options))
        return guests[-1]

    yield begin
    for guest in guests:
        guest.end()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return a_url(request)


@dataclass(frozen=True)
class Row:
    """One row of the table: what is sent to a worker with a job in hand, and what comes of it."""

    deeds: str
    """Signals without their SIG, seconds to wait, and `finish`, which lets the job in a thread end."""

    job: str
    ends: list[Any]
    """What became of the job, see `signalled.ended`."""

    told: bool = False
    """Whether the job was told to stop."""

    within: tuple[float, float] = (0.0, 3.0)
    """Seconds between the last deed and the end of the process."""

    options: dict[str, Any] = field(default_factory=dict)
    says_goodbye: bool = True
    """Whether the program comes to its own end."""

    def __str__(self) -> str:
        options = " ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.deeds} {self.job} {options}".strip().replace(" ", "-")


LONG = {"term_timeout": 60}

TABLE = [
    # TERM and INT: told, and released as soon as they stop.
    Row("TERM", "coroutine", RELEASED, told=True, options=LONG),
    Row("INT", "coroutine", RELEASED, told=True, options=LONG),
    Row("TERM", "child", RELEASED, told=True, options=LONG),
    # What does not stop has term_timeout; then a child is killed, and all are released.
    Row("TERM", "thread", RELEASED, within=(0.5, 3.5), options={"term_timeout": 0.5}),
    Row("TERM", "deaf_child", RELEASED, told=True, within=(0.5, 3.5), options={"term_timeout": 0.5}),
    Row("TERM finish", "thread", SUCCEEDED, options=LONG),
    # Nothing of that with term_timeout=0 or without term_child.
    Row("TERM", "thread", RELEASED, options={"term_timeout": 0}),
    Row("TERM", "deaf_child", RELEASED, options={"term_child": False, **LONG}),
    Row("INT", "child", RELEASED, options={"term_child": False, **LONG}),
    # With pre_shutdown_timeout they are not told before it is over.
    Row("TERM", "coroutine", RELEASED, told=True, within=(0.5, 3.5), options={"pre_shutdown_timeout": 0.5, **LONG}),
    Row("TERM finish", "thread", SUCCEEDED, options={"pre_shutdown_timeout": 60, "term_timeout": 0}),
    # Another INT forces, unless it comes at once.
    Row("INT 1.05 INT", "thread", RELEASED, options=LONG),
    Row("INT 1.05 INT", "deaf_child", RELEASED, told=True, options=LONG),
    Row("TERM 1.05 INT", "thread", RELEASED, options=LONG),
    Row("INT 0.3 INT", "thread", RELEASED, within=(0.5, 4.5), options={"term_timeout": 2}),
    Row("TERM 1.05 TERM finish", "thread", SUCCEEDED, options=LONG),
    # QUIT finishes, and TERM does too with graceful_term; a signal that is more urgent still counts.
    Row("QUIT finish", "thread", SUCCEEDED),
    Row("TERM finish", "thread", SUCCEEDED, options={"graceful_term": True, "term_timeout": 0}),
    Row("QUIT TERM", "coroutine", RELEASED, told=True, options=LONG),
    Row("TERM INT", "coroutine", RELEASED, told=True, options={"graceful_term": True, **LONG}),
    # fail_interrupted fails what would be released.
    Row("TERM", "coroutine", INTERRUPTED, told=True, options={"fail_interrupted": True, **LONG}),
    Row("TERM", "thread", INTERRUPTED, options={"fail_interrupted": True, "term_timeout": 0}),
    Row("TERM", "child", INTERRUPTED, told=True, options={"fail_interrupted": True, **LONG}),
    Row("QUIT finish", "thread", SUCCEEDED, options={"fail_interrupted": True}),
    # A pause does not keep it from stopping.
    Row("USR2 TERM", "coroutine", RELEASED, told=True, options=LONG),
    # A loop that a job blocks, or a thread that nobody can end, does not keep the process from ending.
    Row("TERM", "blocking", RELEASED, within=(0.5, 4.0), options={"term_timeout": 0.5}, says_goodbye=False),
    Row("TERM", "computing", RELEASED, within=(0.5, 4.0), options={"term_timeout": 0.5}, says_goodbye=False),
    Row("TERM", "executor", RELEASED, within=(0.5, 4.0), options={"term_timeout": 0.5}, says_goodbye=False),
]  # fmt: skip

EVERYWHERE = [row for row in TABLE if row.deeds in ("TERM", "QUIT finish") and row.options in ({}, LONG)]
ELSEWHERE = [row for row in TABLE if row not in EVERYWHERE]


@pytest.mark.parametrize("url", KINDS, indirect=True)
@pytest.mark.parametrize("row", EVERYWHERE, ids=str)
def test_a_row_of_the_table(start: Start, url: str, row: Row) -> None:  # R38, R39, R40, T13, I18
    check(start, url, row)


@pytest.mark.parametrize("url", lengths("sqlite", "postgres", "redis"), indirect=True)
@pytest.mark.parametrize("row", ELSEWHERE, ids=str)
def test_another_row_of_the_table(start: Start, url: str, row: Row) -> None:  # R38, R39, R40, T13, I18, F23
    check(start, url, row)


def check(start: Start, url: str, row: Row) -> None:
    worker = start(url, [row.job, "quick"], **row.options)
    [_, pid] = worker.hear("started")

    before = time.monotonic()
    for deed in row.deeds.split():
        if deed == "finish":
            eventually(lambda: f"stops: SIG{row.deeds.split()[0]}" in worker.log, "the signal heard")
            worker.tell()
        elif deed[0].isdigit():
            eventually(lambda: "stops: SIG" in worker.log, "the signal heard")  # from then on it counts
            time.sleep(float(deed))
            assert not gone(worker.pid), f"it ended before it was to: {worker.last_words()}"
        else:
            worker.send(signal.Signals[f"SIG{deed}"])
    last = before if len(row.deeds.split()) == 1 else time.monotonic()

    said = worker.rest()
    took = time.monotonic() - last
    assert worker.wait() == 0, worker.last_words()
    least, most = row.within
    if row.options.get("term_timeout") == LONG["term_timeout"]:
        most = 15.0  # which tells it from waiting as well, and a busy machine may need it
    assert least <= took < most, worker.last_words()
    assert ("told" in said) == row.told, said
    assert said["moment"][-1] == ["worker_exit"], "the hook is called whatever ends it"
    assert ("ended" in said) == row.says_goodbye
    if url.startswith("memory"):
        [[_, ends]] = said["ended"]
        assert ends == [row.ends, RELEASED]
    else:
        assert jobs(url) == [row.ends, RELEASED]
        assert not registered(url)
    if "child" in row.job:
        eventually(lambda: gone(pid), "the end of the child")


def jobs(url: str) -> list[list[Any]]:
    """What has become of all jobs, the oldest first."""
    with signalled.make_app(url) as app:
        return [signalled.ended(job) for job in reversed(app.jobs())]


def registered(url: str) -> bool:
    with signalled.make_app(url) as app:
        return bool(app.workers())


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_usr1_kills_the_isolated_jobs_and_the_worker_goes_on(start: Start, url: str) -> None:  # R38, T13
    worker = start(url, ["coroutine", "child"], concurrency=2)
    pids = dict((worker.hear("started"), worker.hear("started")))

    worker.send(signal.SIGUSR1)

    [kind, again] = worker.hear("started")
    assert kind == "child"
    assert again != pids["child"]
    assert gone(pids["child"])
    [coroutine, child] = jobs(url)
    assert coroutine == ["running", 1, 0, None], "what is not isolated goes on"
    assert child == ["running", 2, 0, "ChildDied"], "a failed attempt, and under its policy another one"
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


def test_usr1_means_nothing_where_nothing_is_isolated(start: Start, url: str) -> None:  # R42
    worker = start(url, ["thread", "quick"])
    worker.hear("started")
    worker.send(signal.SIGUSR1)
    eventually(lambda: "SIGUSR1" in worker.log, "the signal heard")
    worker.tell()
    worker.hear("ran")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert jobs(url) == [SUCCEEDED, SUCCEEDED]


def test_usr2_takes_no_new_jobs_until_cont(start: Start, url: str) -> None:  # R38
    worker = start(url, ["thread", "quick"], concurrency=2)
    worker.hear("ran")
    worker.send(signal.SIGUSR2)
    eventually(lambda: "SIGUSR2" in worker.log, "the signal heard")
    with signalled.make_app(url) as app:
        [late] = app.enqueue(app.tasks["quick"].bind())
        worker.tell()
        running = app.jobs()[-1]
        eventually(lambda: running.refresh().done, "the end of what was in hand")
        time.sleep(1.2)  # longer than it polls
        assert signalled.ended(late) == RELEASED

        worker.send(signal.SIGCONT)

        assert late.result(timeout=10) == "done"
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


def test_jobs_leased_ahead_are_released_by_a_pause(start: Start, url: str) -> None:  # R38, I9
    with signalled.make_app(url) as app:
        app.tasks["quick"].using(queue="ahead").enqueue_many([()] * 300)  # short jobs make it look ahead
        app.tasks["thread"].using(queue="ahead").enqueue()
        behind = app.tasks["quick"].using(queue="ahead").enqueue_many([()] * 5)
        worker = start(url, [], queues=["ahead"])
        worker.hear("started")
        worker.send(signal.SIGUSR2)
        eventually(lambda: "SIGUSR2" in worker.log, "the signal heard")
        eventually(lambda: [signalled.ended(job) for job in behind] == [RELEASED] * 5, "their release")
        worker.tell()
        worker.send(signal.SIGCONT)
        assert behind[-1].result(timeout=10) == "done"
        records = [record(app, job.id) for job in behind]
    starts = [each.started_at or 0.0 for each in records]
    assert starts == sorted(starts), "in their order"


def record(app: App, job_id: str) -> JobRecord:
    found = app.job(job_id).record
    assert found is not None
    return found


@pytest.mark.parametrize("url", KINDS, indirect=True)
def test_an_idle_worker_stops_at_once(start: Start, url: str) -> None:
    took: list[float] = []
    while len(took) < 5 and min(took, default=1.0) >= 0.6:  # 0.2 s, on a machine that has nothing else to do
        worker = start(url, ["quick"])
        worker.hear("ran")
        time.sleep(0.3)  # until it waits for work
        before = time.monotonic()
        worker.send(signal.SIGTERM)
        worker.hear("ended")
        took.append(time.monotonic() - before)
        assert worker.wait() == 0
    assert min(took) < 0.6, took


@pytest.mark.parametrize("url", ["redis"], indirect=True)  # where an idle worker sleeps
def test_other_signals_find_their_handlers_at_once(start: Start, url: str) -> None:
    worker = start(url, ["quick"], poll=30)
    worker.hear("ran")
    time.sleep(0.3)  # until it waits for work
    before = time.monotonic()
    for _ in range(30):
        worker.send(signal.SIGALRM)
        worker.hear("alarm")
    assert time.monotonic() - before < 6, "a loop that is not woken for it moves now and then"
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_job_that_ignores_signals_does_not_make_the_worker_deaf(start: Start, url: str) -> None:  # R40
    worker = start(url, ["deafening"], term_timeout=0.5)
    worker.hear("started")
    eventually(lambda: "the handler of SIGTERM, SIGQUIT was replaced by SIG_IGN" in worker.log, "the warning")
    assert "of task deafening must not set one" in worker.log
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert jobs(url) == [RELEASED]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_job_may_have_a_handler_of_its_own_beside_the_worker_s(start: Start, url: str) -> None:
    worker = start(url, ["listening"], term_timeout=0.5)
    worker.hear("started")
    worker.send(signal.SIGTERM)
    worker.hear("heard")
    assert worker.wait() == 0
    assert "was replaced" not in worker.log


def test_a_signal_to_a_process_that_a_job_has_forked_does_not_stop_the_worker(start: Start, url: str) -> None:  # F22
    worker = start(url, ["forks", "quick"])
    [child] = worker.hear("forked")
    os.kill(child, signal.SIGTERM)
    worker.hear("ran")
    [forks, _] = jobs(url)
    assert forks == SUCCEEDED
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("job", ["child", "deaf_child"])
def test_a_signal_to_the_whole_group_is_one_to_the_worker(
    tmp_path: Path, url: str, signum: signal.Signals, job: str
) -> None:  # T13, R40
    processes = Processes(tmp_path)
    try:
        with signalled.make_app(url) as app:
            app.tasks[job].enqueue()
        worker = processes.start(signalled.work, url, [], {"term_timeout": 0.5})
        worker.hear("started")
        os.killpg(worker.pid, signum)
        assert worker.wait() == 0, worker.last_words()
        assert jobs(url) == [RELEASED]
        assert not registered(url)
    finally:
        processes.end()
