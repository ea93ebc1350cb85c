"""`tenure work -p N` as it is run: real processes, real signals (F11, F12, I12, I18, R38)."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tenure.stores import open_store
from tenure.stores.values import Fact
from tests.conftest import a_url
from tests.faults.processes import Process, Processes, eventually
from tests.faults.scale import lengths

from .conftest import free_port
from .service import BEGUN, Service, alive, children

SOON = 3.0
"""Seconds that recovery may take on a machine that is busy with other tests; a third of it is promised."""


@pytest.fixture(params=lengths("sqlite", "redis", "postgres"))
def url(request: pytest.FixtureRequest) -> str:
    return a_url(request)


on_all = pytest.mark.parametrize("url", ["sqlite", "redis", "postgres"], indirect=True)


@pytest.fixture
def service(url: str, tmp_path: Path) -> Iterator[Service]:
    processes = Processes(tmp_path)
    service = Service(url, processes, tmp_path)
    try:
        yield service
    finally:
        processes.end()
        service.app.close()


@on_all
def test_the_jobs_of_a_process_that_dies_run_elsewhere_within_a_second(service: Service) -> None:  # F11, I12, T2
    supervisor = service.start("-p", "2")
    service.workers(2)
    [job] = service.enqueue("nap", 60)
    victim = service.holder(job)

    killed = time.monotonic()
    os.kill(victim.pid, signal.SIGKILL)
    heir = service.holder(job, other_than=[victim])

    assert time.monotonic() - killed < SOON
    assert heir.pid != victim.pid
    assert job.record is not None
    assert (job.record.losses, job.record.attempt) == (1, 2)
    assert job.record.error is not None
    assert "killed by SIGKILL" in job.record.error.message
    again = service.workers(2)
    assert victim.id not in {worker.id for worker in again}
    assert children(supervisor.pid) == {worker.pid for worker in again}


def test_processes_retire_each_other_where_only_they_know_the_store(service: Service) -> None:  # F11, I12
    service.start("-p", "2", made=True)
    workers = service.workers(2)
    jobs = service.enqueue("nap", 60, number=2)
    for job in jobs:
        service.holder(job)

    for worker in workers:  # the first may still be asked to retire the other
        os.kill(worker.pid, signal.SIGKILL)

    for job in jobs:
        service.holder(job, other_than=workers)
        assert job.record is not None
        assert (job.record.losses, job.record.attempt) == (1, 2)
    service.workers(2)


def test_orphans_stop_when_the_supervisor_is_killed(service: Service) -> None:  # F11
    supervisor = service.start("-p", "2", "-c", "2")
    workers = service.workers(2)
    jobs = service.enqueue("nap", 60, number=4)
    for job in jobs:
        service.holder(job)

    supervisor.kill()

    eventually(lambda: not any(alive(worker.pid) for worker in workers), "the end of the orphans")
    assert {job.refresh().state for job in jobs} == {"waiting"}
    assert {job.record and (job.record.attempt, job.record.losses) for job in jobs} == {(0, 0)}
    assert service.app.workers() == []


# Signals: what the supervisor passes on, row by row.


def stopping(supervisor: Process, signum: signal.Signals) -> int:
    """How many of its processes have heard that they are to stop."""
    return supervisor.log.read_text().count(f"stops: {signum.name}")


@pytest.mark.parametrize("signum", lengths(signal.SIGTERM, signal.SIGINT))
def test_term_and_int_release_the_jobs_of_all_processes(service: Service, signum: signal.Signals) -> None:  # R38, I18
    supervisor = service.start("-p", "2")
    service.workers(2)
    jobs = service.enqueue("nap", 60, number=3)
    service.holder(jobs[0])
    service.holder(jobs[1])

    supervisor.send(signum)

    assert supervisor.wait() == 0
    assert [job.id for job in service.app.jobs(state="waiting")] == [job.id for job in jobs]
    assert {job.refresh().record and job.record.losses for job in jobs} == {0}  # type: ignore[union-attr]
    assert service.app.workers() == []


def test_a_second_int_does_not_wait(service: Service) -> None:  # R38, F23
    supervisor = service.start("-p", "2", "--term-timeout", "60")
    service.workers(2)
    [job] = service.enqueue("sleep", 60)
    service.begun(supervisor, 1)

    supervisor.send(signal.SIGINT)
    eventually(lambda: stopping(supervisor, signal.SIGINT) == 2, "that both have heard it")
    told = time.monotonic()
    eventually(lambda: len(service.app.workers()) == 1, "the end of the idle one")
    time.sleep(max(told + 1.1 - time.monotonic(), 0))  # an earlier one is taken for an echo
    supervisor.send(signal.SIGINT)

    assert supervisor.wait() == 0
    assert job.refresh().state == "waiting"


def test_quit_finishes_what_runs_and_takes_nothing_new(service: Service) -> None:  # R38
    supervisor = service.start("-p", "2")
    service.workers(2)
    running = service.enqueue("nap", 2, number=2)
    service.begun(supervisor, 2)

    supervisor.send(signal.SIGQUIT)
    eventually(lambda: stopping(supervisor, signal.SIGQUIT) == 2, "that both have heard it")
    [late] = service.enqueue("nap", 0)

    assert supervisor.wait() == 0
    assert [job.refresh().state for job in (*running, late)] == ["succeeded", "succeeded", "waiting"]


def test_usr1_kills_isolated_jobs_and_the_processes_go_on(service: Service) -> None:  # R38, R42
    supervisor = service.start("-p", "2")
    workers = service.workers(2)
    jobs = service.enqueue("isolated", 60, number=2)
    for job in jobs:
        service.holder(job)
    # A job is held before it has a process, and what has none is not killed.
    templates = [template for worker in workers for template in children(worker.pid)]
    eventually(lambda: sum(len(children(template)) for template in templates) == 2, "the processes of the jobs")

    supervisor.send(signal.SIGUSR1)

    eventually(lambda: all(job.refresh().failed for job in jobs), "their failure")
    assert {worker.id for worker in service.workers(2)} == {worker.id for worker in workers}
    assert supervisor.silent()


def test_usr2_pauses_all_even_those_that_start_later_until_cont(service: Service) -> None:  # R38
    port = free_port()
    supervisor = service.start("-p", "2", "--health-port", str(port))
    [victim, _] = service.workers(2)
    eventually(lambda: health(port) == (200, ""), "health")
    supervisor.send(signal.SIGUSR2)
    eventually(lambda: supervisor.log.read_text().count("takes no new jobs") == 2, "both paused")
    [job] = service.enqueue("nap", 0)
    os.kill(victim.pid, signal.SIGKILL)
    eventually(lambda: supervisor.log.read_text().count("takes no new jobs") == 3, "the third one paused")
    eventually(lambda: victim.id not in {worker.id for worker in service.workers(2)}, "the third one at work")
    eventually(lambda: health(port)[0] == 503 and health(port)[1].count("it is paused") == 2, "what is the matter")

    resumed = time.time()
    supervisor.send(signal.SIGCONT)

    eventually(lambda: job.refresh().state == "succeeded", "the end of the job")
    assert job.record is not None
    assert job.record.started_at is not None
    assert job.record.started_at >= resumed
    eventually(lambda: health(port) == (200, ""), "health")


def health(port: int) -> tuple[int, str]:
    """How the supervisor is, as it tells over HTTP: the status, and what is the matter."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", "/")
    answer = connection.getresponse()
    told = json.loads(answer.read())
    connection.close()
    return answer.status, told["trouble"]


def test_a_supervisor_shows_the_metrics_of_all_its_processes(service: Service) -> None:
    port = free_port()
    service.start("-p", "2", "--health-port", str(port))
    [victim, _] = service.workers(2)

    def processes() -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        [memory] = [family for family in families if family.name == "tenure_worker_memory_bytes"]
        return {sample.labels["process"]: sample.value for sample in memory.samples}

    eventually(lambda: processes().keys() == {"1", "2"}, "the metrics of both")
    assert min(processes().values()) > 10_000_000
    os.kill(victim.pid, signal.SIGKILL)
    eventually(lambda: victim.id not in {worker.id for worker in service.workers(2)}, "the third one at work")
    eventually(lambda: processes().keys() == {"1", "2"}, "the metrics of the third under the number of the first")


def test_hup_replaces_all_processes_and_lets_the_old_ones_finish(service: Service) -> None:  # F12
    supervisor = service.start("-p", "2")
    old = {worker.pid for worker in service.workers(2)}
    jobs = service.enqueue("nap", 3, number=2)
    service.begun(supervisor, 2)

    supervisor.send(signal.SIGHUP)
    eventually(lambda: len({worker.pid for worker in service.app.workers()} - old) == 2, "two more workers")
    new = {worker.pid for worker in service.app.workers()} - old
    eventually(lambda: all(job.refresh().done for job in jobs), "the end of the jobs")

    assert {job.state for job in jobs} == {"succeeded"}
    assert {job.result() for job in jobs} == old
    eventually(lambda: children(supervisor.pid) == new, "the end of the old ones")


def test_code_that_does_not_start_replaces_nothing(service: Service) -> None:
    program = Program(service)
    supervisor = service.start("-p", "2", target=program.write(1))
    old = service.workers(2)

    program.path.write_text("raise ValueError('not yet')")
    supervisor.send(signal.SIGHUP)

    eventually(lambda: supervisor.log.read_text().count("the new code does not start") == 2, "both refused")
    assert program.version() == 1
    assert {worker.id for worker in service.workers(2)} == {worker.id for worker in old}
    program.write(2)
    supervisor.send(signal.SIGHUP)
    eventually(lambda: not {worker.id for worker in service.workers(2)} & {worker.id for worker in old}, "new ones")
    assert program.version() == 2


def test_without_a_supervisor_hup_stops(service: Service) -> None:
    worker = service.start()
    [job] = service.enqueue("nap", 60)
    assert service.holder(job).pid == worker.pid

    worker.send(signal.SIGHUP)

    assert worker.wait() == 0
    assert job.refresh().state == "waiting"


@pytest.mark.parametrize("options", [(), ("-p", "2")], ids=["alone", "supervised"])
def test_under_nohup_hup_does_nothing(service: Service, options: tuple[str, ...]) -> None:
    command = ("nohup", sys.executable, "-m", "tenure", "work", "tests.cli.service:app", *options)
    process = service.started.run(*command, SERVICE_URL=service.url, SERVICE_MADE="")
    before = {worker.pid for worker in service.workers(2 if options else 1)}

    process.send(signal.SIGHUP)
    [job] = service.enqueue("nap", 0)
    eventually(lambda: job.refresh().done, "the end of the job")

    assert job.result() in before
    [ignored] = re.findall(r"SigIgn:\s+(\w+)", Path(f"/proc/{process.pid}/status").read_text())
    assert int(ignored, 16) & 1 << signal.SIGHUP - 1


def test_programs_of_tests_heed_hup_though_the_suite_runs_under_nohup() -> None:
    this = f"{__file__}::test_hup_ends_a_program_that_a_test_starts"
    done = subprocess.run(
        ["nohup", sys.executable, "-m", "pytest", "-p", "no:cacheprovider", this],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert "1 passed" in done.stdout


def test_hup_ends_a_program_that_a_test_starts() -> None:
    done = subprocess.run(["sh", "-c", "kill -HUP $$"], check=False)
    assert done.returncode == -signal.SIGHUP


def test_term_while_they_start_stops_them(service: Service) -> None:  # F23
    supervisor = service.start("-p", "3")
    eventually(lambda: len(children(supervisor.pid)) == 3, "three processes")

    supervisor.send(signal.SIGTERM)

    assert supervisor.wait() == 0
    assert service.app.workers() == []


@pytest.mark.long
def test_a_process_that_cannot_stop_is_killed_and_retired(service: Service) -> None:
    supervisor = service.start("-p", "2", "--term-timeout", "0")
    service.workers(2)
    [job] = service.enqueue("nap", 60)
    holder = service.holder(job)
    os.kill(holder.pid, signal.SIGSTOP)

    supervisor.send(signal.SIGTERM)

    assert supervisor.wait() == 1
    assert job.refresh().state == "waiting"
    assert "has not stopped in time: killed" in supervisor.log.read_text()


# Restarting, recycling, reloading.


def test_a_process_that_has_run_its_jobs_is_replaced_at_once(service: Service) -> None:
    jobs = service.enqueue("nap", 0, number=6)
    supervisor = service.start("--max-jobs", "2", "--id", "recycled")
    eventually(lambda: all(job.refresh().done for job in jobs), "the end of the jobs")

    assert len({job.result() for job in jobs}) == 3
    assert {job.record and (job.record.attempt, job.record.losses) for job in jobs} == {(1, 0)}
    assert "another starts in" not in supervisor.log.read_text()
    assert all(worker.id.startswith("recycled:") for worker in service.app.workers())


def test_a_process_that_was_ordered_to_stop_is_replaced(service: Service) -> None:
    service.start("-p", "2")
    first, second = service.workers(2)
    [job] = service.enqueue("nap", 3)
    holder = service.holder(job)

    assert service.app.order(holder.id, "stop")

    eventually(lambda: holder.id not in {worker.id for worker in service.app.workers()}, "its end", step=0.05)
    assert (job.result(timeout=5), job.record and job.record.attempt) == (holder.pid, 1)
    after = {worker.id for worker in service.workers(2)}
    assert len(after & {first.id, second.id}) == 1


def test_with_reload_a_change_of_a_source_file_starts_all_anew(service: Service) -> None:
    program = Program(service)
    supervisor = service.start("--reload", target=program.write(1))
    assert program.version() == 1
    [interrupted] = service.enqueue("hold")
    service.holder(interrupted)

    program.write(2)
    eventually(lambda: interrupted.refresh().state == "succeeded", "the end of the job, with the new code", step=0.05)
    assert interrupted.result() == 2
    program.path.write_text("def broken(:")
    eventually(lambda: "waiting for a source file to change" in supervisor.log.read_text(), "the refusal")
    program.write(3)

    assert program.version() == 3
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0


# Others that it lives with.


def test_orphans_of_a_container_are_waited_for(service: Service) -> None:
    # Whoever has this attribute gets the orphans among its descendants, as pid 1 does; exec keeps it.
    adopt = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.executable, sys.argv[1:])"
    command = [sys.executable, "-m", "tenure", "work", "tests.cli.service:app", "-p", "2"]
    supervisor = service.started.run(sys.executable, "-c", adopt, *command, SERVICE_URL=service.url)
    service.workers(2)
    [job] = service.enqueue("orphan")

    left = job.result(timeout=20)

    eventually(lambda: not alive(left), "the end of the orphan")
    assert len(children(supervisor.pid)) == 2


@pytest.mark.parametrize("closed", [False, True])
def test_a_terminal_stops_the_supervisor_alone_by_ctrl_c_or_by_being_closed(
    service: Service, closed: bool
) -> None:  # R38
    ours, theirs = os.openpty()
    take = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY); os.execv(sys.executable, sys.argv[1:])"
    command = [sys.executable, "-m", "tenure", "work", "tests.cli.service:app", "-p", "2"]
    supervisor = subprocess.Popen(
        [sys.executable, "-c", take, *command],
        env={**os.environ, "SERVICE_URL": service.url},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        service.workers(2)
        [job] = service.enqueue("nap", 60)
        said = b""
        while f"{BEGUN}\r\n".encode() not in said:  # to the terminal, which must not be closed before
            said += os.read(ours, 1000)
        if closed:
            os.close(ours)
        else:
            os.write(ours, b"\x03")
        assert supervisor.wait(20) == 0
    finally:
        supervisor.kill()
        supervisor.wait()
        if not closed:
            os.close(ours)
    assert job.refresh().state == "waiting", job.record


class Program:
    """An app in a file of its own, of which there are several versions."""

    def __init__(self, service: Service) -> None:
        self.path = service.folder / "program.py"
        self._service = service

    def write(self, version: int) -> str:
        """Write this version; its target."""
        self.path.write_text(
            "import asyncio, os\n"
            "from tenure import App\n"
            "app = App(os.environ['SERVICE_URL'], lease=60)\n"
            "@app.task\n"
            f"async def version() -> int: return {version}\n"
            "@app.task\n"
            f"async def hold() -> int: await asyncio.sleep({60 if version == 1 else 0}); return {version}\n"
        )
        return f"{self.path}:app"

    def version(self) -> int:
        """The version that runs jobs now."""
        [job] = self._service.enqueue("version")
        found: int = job.result(timeout=20)
        return found


@on_all
def test_advice_about_the_store_is_logged_once_for_all_processes(service: Service) -> None:
    if service.url.startswith("sqlite"):
        Path(f"{service.url.removeprefix('sqlite:///')}-bells").write_text("in the way")
    about = [
        fact.name for fact in asyncio.run(examined(service.url)) if fact.health != "ok" and "latency" not in fact.name
    ]
    assert about
    supervisor = service.start("-p", "3")
    workers = service.workers(3)

    eventually(lambda: all(f"the store's {each}: " in supervisor.log.read_text() for each in about), "the advice")
    os.kill(workers[0].pid, signal.SIGKILL)
    eventually(lambda: workers[0].id not in {each.id for each in service.workers(3)}, "another process")
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0
    said = supervisor.log.read_text()
    assert [said.count(f"the store's {each}: ") for each in about] == [1] * len(about)


async def examined(url: str) -> list[Fact]:
    store = open_store(url)
    try:
        return await store.examine()
    finally:
        await store.close()


def test_a_stop_that_was_asked_for_is_no_warning(service: Service) -> None:
    supervisor = service.start("-p", "2")
    service.workers(2)
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0
    said = supervisor.log.read_text()
    assert stopping(supervisor, signal.SIGTERM) == 2
    assert [line for line in said.splitlines() if "stops" in line and " INFO " not in line] == []
