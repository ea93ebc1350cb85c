"""What commands show, and to whom: at a terminal of 80 columns, in a pipe, to programs; and ids that are not typed whole."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tenure import App, Backoff, Wait
from tenure.core.job import Progress
from tenure.stores import open_store
from tenure.stores.values import LeaseRequest, Renewal
from tests.conftest import a_url

from .conftest import Tenure, document, run_process

LONG = ", ".join(["the provider has answered 502 Bad Gateway"] * 12)


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return a_url(request)


on_one = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


@pytest.fixture
def app(url: str) -> Iterator[App]:
    """An app whose jobs wait for a person, for each other, and fail."""
    with App(url, retry=Backoff(initial=0, jitter=0), max_attempts=2, log=False) as app:

        @app.task(queue="approvals")
        async def approve(amount: int) -> str | Wait:
            return Wait(timeout=3600)

        @app.task
        async def join(results: list[str]) -> int:
            return len(results)

        @app.task
        async def charge() -> None:
            raise ConnectionError(LONG)

        yield app


def on_terminal(url: str, *arguments: str, columns: int = 80) -> list[str]:
    """The lines that a command writes to a terminal, without colours."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TENURE_URL": url, "COLUMNS": str(columns), "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "tenure", *arguments],
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment,
    ) as process:  # fmt: skip
        os.close(theirs)
        written = b""
        while True:
            try:
                written += os.read(ours, 65536)
            except OSError:
                break
        process.wait(30)
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", written.decode()).replace("\r", "").split("\n")


def failed_job(app: App) -> str:
    job = app.tasks["charge"].enqueue()
    app.worker().run(until_empty=True)
    return job.id


@on_one
def test_a_long_error_can_be_read_at_80_columns(app: App, url: str) -> None:
    lines = on_terminal(url, "job", failed_job(app))

    assert max(map(len, lines)) <= 80
    assert "state      failed" in [line.rstrip() for line in lines]
    at = lines.index("error")
    assert lines[at + 1].startswith("  ConnectionError: the provider has answered")
    assert len(lines[at + 1].rstrip()) > 60, "it has the width of the terminal"
    [attempt] = [line for line in lines if "attempt 1: retried" in line]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\S+ ago  attempt 1: retried after \S+", attempt.rstrip())
    at = lines.index(attempt)
    assert lines[at + 1].strip().startswith("on ")
    below = lines[at + 2]
    assert below.strip().startswith("ConnectionError: the provider")
    assert below.rstrip().endswith("…")


@on_one
def test_a_listing_has_short_ids_on_a_narrow_terminal_which_commands_take(app: App, url: str) -> None:
    job_id = failed_job(app)
    [row] = [line for line in on_terminal(url, "failed") if "charge" in line]
    short = row.split()[0]
    assert job_id.startswith(short)
    assert len(short) < 36
    assert any(job_id in line for line in on_terminal(url, "job", short))
    assert any(job_id in line for line in on_terminal(url, "failed", columns=160))


@on_one
def test_a_pipe_gets_tabs_and_nothing_is_padded_or_cut(app: App, tenure: Tenure) -> None:
    job_id = failed_job(app)
    app.remote("quick", queue="other").enqueue()

    for command in (["jobs"], ["failed"], ["queues"], ["stats"], ["job", job_id], ["doctor"]):
        shown = tenure(*command).stdout
        assert "  \n" not in shown
        assert not [line for line in shown.split("\n") if line != line.rstrip()], command
    head, quick, failed = tenure("jobs").stdout.splitlines()
    assert head.split("\t") == ["id", "task", "queue", "state", "created"]
    assert quick.split("\t")[1:4] == ["quick", "other", "waiting"]
    assert failed.split("\t")[0] == job_id
    assert failed.endswith(LONG)
    facts = dict(line.split("\t", 1) for line in tenure("job", job_id).stdout.split("\n\n")[0].split("\n"))
    assert (facts["job"], facts["state"]) == (job_id, "failed")


def test_an_approval_is_told_apart_from_a_job_that_waits_for_jobs(app: App, tenure: Tenure) -> None:
    parked = app.tasks["approve"].enqueue(5)
    app.worker().run(until_empty=True)
    blocked = app.tasks["join"].using(after=[parked]).enqueue()

    shown = {job["id"]: job for job in document(tenure("jobs", "--state", "blocked", "--json"))["jobs"]}
    assert {id_: (job["label"], job["parked"], job["state"]) for id_, job in shown.items()} == {
        parked.id: ("parked", True, "blocked"),
        blocked.id: ("blocked", False, "blocked"),
    }
    rows = {line.split("\t")[0]: line.split("\t")[3:] for line in tenure("jobs").stdout.splitlines()}
    assert (rows[parked.id][0], rows[parked.id][2]) == ("parked", "waits for its completion")
    assert (rows[blocked.id][0], rows[blocked.id][2]) == ("blocked", "waits for 1 job")
    assert f"its completion: tenure complete {parked.id}" in tenure("job", parked.id).stdout
    assert "waits for\t1 job\n" in tenure("job", blocked.id).stdout
    assert "is parked in queue approvals" in tenure("explain", parked.id).stdout
    assert document(tenure("job", parked.id, "--json"))["label"] == "parked"


@on_one
def test_progress_has_a_per_cent(app: App, url: str, tenure: Tenure) -> None:
    job = app.remote("count").enqueue()

    async def run_it() -> None:
        store = open_store(url)
        request = LeaseRequest(queues=("default",), limit=1, worker="w", ttl=600, nonce=1)
        [lease] = (await store.lease(request)).leases
        assert await store.renew([Renewal(lease, 600, Progress(30, 120, "rows"))]) == [None]
        await store.close()

    asyncio.run(run_it())
    assert document(tenure("job", job.id, "--json"))["progress"] == {
        "done": 30.0, "total": 120.0, "percent": 25.0, "note": "rows", "tail": None,
    }  # fmt: skip
    assert "on w, 30/120 (25%) rows" in tenure("jobs").stdout


@on_one
def test_nothing_failed_is_said_so(app: App, tenure: Tenure) -> None:
    app.remote("quick").enqueue()
    assert tenure("failed").stderr == "tenure: there are no failed jobs\n"
    assert tenure("broken").stderr == "tenure: there are no broken jobs\n"
    assert tenure("jobs", "--state", "running", "--task", "x").stderr == "tenure: there are no running jobs of task x\n"


def test_queues_and_stats_say_why_they_differ(app: App, url: str, tenure: Tenure) -> None:
    job_id = failed_job(app)
    assert tenure("queues").stderr == tenure("stats").stderr == ""
    tenure("delete", job_id)

    for command in ("queues", "stats"):
        said = tenure(command)
        assert "tenure queues counts the finished jobs that are in the store now (0)" in said.stderr
        assert "tenure stats counts every job that has ended since the store was created (1)" in said.stderr
        assert tenure(command, "--json").stderr == ""


class TestShortIds:
    """A unique beginning of an id will do, wherever one is asked for."""

    def test_every_command_takes_one(self, app: App, tenure: Tenure) -> None:
        job_id = failed_job(app)
        short = job_id[:22]
        assert document(tenure("job", short, "--json"))["id"] == job_id
        assert job_id in tenure("explain", short).stdout
        assert document(tenure("failed", "show", short, "--json"))["id"] == job_id
        assert tenure("failed", "retry", short).stdout == "put back: 1 job\n"
        assert tenure("cancel", short).stdout == "cancelled: 1 job\n"
        assert tenure("retry", short).stdout == "put back: 1 job\n"
        assert tenure("complete", short).stdout == "completed: 1 job\n"
        assert tenure("delete", short).stdout == "deleted: 1 job\n"
        assert "there is no job" in tenure("job", short).stderr
        later = app.remote("t").using(delay=60).enqueue()
        assert tenure("trigger", later.id[:22]).stdout == "put in line: 1 job\n"

    def test_several_candidates_are_named(self, app: App, tenure: Tenure) -> None:
        ids = [job.id for job in app.enqueue(*[app.remote("t").bind() for _ in range(3)])]
        common = ids[0][: next(at for at in range(36) if len({each[at] for each in ids}) > 1)]
        assert len(common) >= 6

        refused = tenure("cancel", common)

        assert refused.exit_code == 2
        assert f"several ids begin with {common}: {', '.join(sorted(ids))}; type more of it" in refused.stderr
        assert {job["state"] for job in document(tenure("jobs", "--json"))["jobs"]} == {"waiting"}

    def test_less_than_six_characters_are_none(self, app: App, tenure: Tenure) -> None:
        job = app.remote("t").enqueue()
        assert "there is no job" in tenure("job", job.id[:5]).stderr
        assert tenure("job", job.id[:6]).exit_code == 0

    @pytest.mark.parametrize("odd", ["******", "a%b_c_d", "..\x1b[2J..", "órdenes"])
    def test_what_can_be_no_id_finds_nothing(self, app: App, tenure: Tenure, odd: str) -> None:
        app.remote("t").enqueue()
        assert tenure("job", odd).exit_code == 2


@on_one
def test_runs_have_short_ids_too(app: App, tenure: Tenure) -> None:
    flow = app.flow("order")

    @flow.step()
    def ask() -> Wait:
        return Wait()

    run = flow.start()
    app.worker().run(until_empty=True)
    shown = document(tenure("run", run.id[:20], "--json"))
    assert (shown["id"], shown["label"], shown["parked"]) == (run.id, "parked", True)
    assert "waits for its completion" in tenure("flows").stdout
    assert "waits for\tits completion\n" in tenure("run", run.id).stdout


def test_a_process_in_a_pipe(url: str, app: App) -> None:
    app.remote("t").enqueue()
    shown = run_process("jobs", "--url", url)
    assert shown.stdout.splitlines()[0] == "id\ttask\tqueue\tstate\tcreated"
