"""Failed and broken jobs on the command line: listed, shown, put back in line, deleted; and why a job does not run."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from tenure.cli import COMMANDS, main
from tenure.stores import open_store
from tenure.stores.values import WorkerInfo

from .conftest import Tenure, document, run_process

PROGRAM = """
import os
import signal

from tenure import App, Backoff, Context, Retry

app = App({url!r})

@app.task(queue="mail", retry=None)
async def send(user: int) -> str:
    raise ConnectionError(f"no route to {{user}}")

@app.task(queue="mail", retry=Backoff(initial=0), max_attempts=2)
async def post(user: int) -> str:
    raise ValueError(f"no address of {{user}}")

@app.task(queue="slow", isolation="process", retry=Backoff(initial=0), max_attempts=3)
def crash(ctx: Context) -> str:
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if ctx.attempt == 2:
        raise Retry("not yet", after=0)
    return "at last"
"""


@pytest.fixture
def program(tmp_path: Path, url: str) -> str:
    """The target of an app whose tasks go wrong, in a file of its own."""
    path = tmp_path / "failing.py"
    path.write_text(PROGRAM.format(url=url))
    return f"{path}:app"


def enqueued(tenure: Tenure, *arguments: str) -> str:
    result = tenure("enqueue", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


@pytest.fixture
def gone_wrong(tenure: Tenure, program: str) -> dict[str, str]:
    """The ids of jobs that have ended, by how."""
    ids = {
        "send": enqueued(tenure, "send", "1", "--app", program, "--tag", "red"),
        "post": enqueued(tenure, "post", "2", "--app", program),
        "broken": enqueued(tenure, "send", '"nobody"', "-q", "mail"),
    }
    assert tenure("work", program, "--until-empty").exit_code == 0
    return ids


def test_they_are_listed_the_latest_first(tenure: Tenure, gone_wrong: dict[str, str]) -> None:
    failed = document(tenure("failed", "--json"))

    assert {job["id"] for job in failed["jobs"]} == {gone_wrong["send"], gone_wrong["post"]}
    assert [job["id"] for job in document(tenure("broken", "--json"))["jobs"]] == [gone_wrong["broken"]]
    assert [job["id"] for job in document(tenure("failed", "--task", "post", "--json"))["jobs"]] == [gone_wrong["post"]]
    assert document(tenure("failed", "--tag", "red", "-q", "mail", "--json"))["jobs"][0]["id"] == gone_wrong["send"]
    page = document(tenure("failed", "--limit", "1", "--json"))
    rest = document(tenure("failed", "--limit", "1", "--cursor", page["cursor"], "--json"))
    assert [job["id"] for job in page["jobs"] + rest["jobs"]] == [job["id"] for job in failed["jobs"]]
    shown = tenure("failed").stdout
    assert "ConnectionError: no route to 1" in shown
    assert "ended" in shown.splitlines()[0]
    assert tenure("failed", "-q", "none").stderr == "tenure: there are no failed jobs of queue none\n"


def test_one_is_shown_with_its_timeline(tenure: Tenure, gone_wrong: dict[str, str]) -> None:
    shown = tenure("failed", "show", gone_wrong["post"]).stdout
    told = document(tenure("failed", "show", gone_wrong["post"], "--json"))

    lines = [" ".join(line.split()) for line in shown.splitlines()]
    [timeline] = [number for number, line in enumerate(lines) if line.startswith("when")]
    for line, event in zip(
        lines[timeline + 1 :],
        ["enqueued", "attempt 1: retried", "attempt 2: failed", "ended: failed"],
        strict=True,
    ):
        assert event in line
    assert "ValueError: no address of 2" in lines[timeline + 2]
    assert [(each["number"], each["outcome"], each["error"]["type"]) for each in told["attempts"]] == [
        (1, "retried", "ValueError"),
        (2, "failed", "ValueError"),
    ]
    assert "no address of 2" in told["attempts"][0]["error"]["traceback"]
    other = tenure("broken", "show", gone_wrong["post"])
    assert (other.exit_code, "is failed, not broken: tenure job" in other.stderr) == (2, True)


def test_a_timeline_tells_what_killed_an_attempt_and_when_the_next_is_due(tenure: Tenure, program: str) -> None:
    job = enqueued(tenure, "crash", "--app", program)
    ran = run_process("work", program, "--until-empty")
    assert ran.returncode == 0, ran.stderr

    killed, retried, succeeded = document(tenure("job", job, "--json"))["attempts"]

    assert (killed["outcome"], signal.SIGKILL.name in killed["error"]["message"]) == ("retried", True)
    assert (retried["outcome"], retried["error"]["message"]) == ("retried", "not yet")
    assert (succeeded["outcome"], succeeded["error"]) == ("succeeded", None)
    assert killed["started_at"] <= killed["ended_at"] <= retried["started_at"]
    later = enqueued(tenure, "post", "1", "--delay", "3600")
    assert "due" in tenure("job", later).stdout


def test_chosen_ones_are_put_back_in_line(tenure: Tenure, gone_wrong: dict[str, str]) -> None:
    assert tenure("failed", "retry", gone_wrong["send"]).stdout == "put back: 1 job\n"
    assert document(tenure("failed", "retry", gone_wrong["post"], "--json")) == {"retried": 1}
    assert tenure("broken", "retry", gone_wrong["broken"]).stdout == "put back: 1 job\n"
    assert len(document(tenure("jobs", "--state", "waiting", "--json"))["jobs"]) == 3
    again = tenure("failed", "retry", gone_wrong["post"])
    assert (again.exit_code, again.stdout) == (2, "")
    assert "is waiting, not failed: nothing was done" in again.stderr


def test_all_that_fit_are_counted_before_they_are_put_back(
    tenure: Tenure, gone_wrong: dict[str, str], url: str
) -> None:
    asked = tenure("failed", "retry", "--all", "-q", "mail")
    assert (asked.exit_code, asked.stdout) == (1, "")
    assert "Retry 2 failed jobs? [y/N]" in asked.stderr
    assert document(tenure("queues", "--json"))["queues"][0]["failed"] == 2

    assert tenure("failed", "retry", "--error", "ValueError", "--yes").stdout == "put back: 1 job\n"
    assert document(tenure("failed", "retry", "--all", "--tag", "red", "--yes", "--json")) == {"retried": 1}
    none = tenure("failed", "retry", "--all")
    assert (none.exit_code, none.stdout, "no failed job matches" in none.stderr) == (0, "put back: 0 jobs\n", True)
    confirmed = CliRunner().invoke(
        main, ["broken", "retry", "--all"], input="y\n", env={"TENURE_URL": url}, prog_name="tenure"
    )
    assert (confirmed.exit_code, confirmed.stdout) == (0, "put back: 1 job\n")


def test_they_are_deleted(tenure: Tenure, gone_wrong: dict[str, str]) -> None:
    assert tenure("failed", "delete", gone_wrong["send"]).stdout == "deleted: 1 job\n"
    asked = tenure("failed", "delete", "--all")
    assert (asked.exit_code, "Delete 1 failed job? [y/N]" in asked.stderr) == (1, True)
    assert tenure("failed", "delete", "--all", "--yes").stdout == "deleted: 1 job\n"
    assert document(tenure("broken", "delete", "--all", "--yes", "--json")) == {"deleted": 1}
    assert document(tenure("jobs", "--json"))["jobs"] == []


@pytest.mark.parametrize("action", ["retry", "delete"])
def test_what_is_meant_must_be_clear(tenure: Tenure, gone_wrong: dict[str, str], action: str) -> None:
    for arguments in ([], ["--yes"], [gone_wrong["send"], "--all"], [gone_wrong["send"], "-q", "mail"]):
        result = tenure("failed", action, *arguments)
        assert (result.exit_code, result.stdout, "name the failed jobs" in result.stderr) == (2, "", True)
    before = tenure("failed", "-q", "mail", action, "--all", "--yes")
    assert (before.exit_code, f"put the options after {action}" in before.stderr) == (2, True)
    unknown = tenure("failed", action, gone_wrong["send"], "nobody")
    assert (unknown.exit_code, "no job 'nobody'" in unknown.stderr) == (2, True)
    assert len(document(tenure("failed", "--json"))["jobs"]) == 2


def test_why_a_job_does_not_run_is_explained(tenure: Tenure) -> None:
    job = enqueued(tenure, "send", "-q", "mail")
    tenure("pause", "mail")

    shown = tenure("explain", job)
    told = document(tenure("explain", job, "--json"))

    assert shown.stdout.splitlines()[:3] == [
        f"Job {job} of task send is waiting in queue mail.",
        "- queue mail is paused",
        "  tenure resume mail",
    ]
    assert (told["id"], told["state"], told["summary"]) == (job, "waiting", shown.stdout.splitlines()[0])
    assert [reason["kind"] for reason in told["reasons"]] == ["paused", "no_worker", "in_line"]
    assert told["reasons"][0] == {
        "kind": "paused", "queue": "mail", "sentence": "queue mail is paused", "advice": "tenure resume mail",
    }  # fmt: skip


def test_instants_are_told_to_programs_as_everywhere(tenure: Tenure) -> None:
    job = enqueued(tenure, "send", "--delay", "3600")

    [scheduled, _] = document(tenure("explain", job, "--json"))["reasons"]

    assert scheduled["at"] == document(tenure("job", job, "--json"))["run_at"]


def test_an_id_that_no_job_has_is_explained_too(tenure: Tenure) -> None:
    enqueued(tenure, "send", "-q", "mail")

    shown = tenure("explain", "nobody")

    assert shown.exit_code == 2
    assert shown.stdout.startswith("No job has the id nobody.\n- job nobody never existed")
    assert "no live worker serves mail" in shown.stdout


async def test_totals_are_shown_by_queue_and_by_worker(tenure: Tenure, url: str, gone_wrong: dict[str, str]) -> None:
    # T20, R52
    store = open_store(url)
    await store.register(WorkerInfo(id="w1", host="h", pid=1, queues=("*",), tasks=(), concurrency=1))
    await store.close()

    shown = [line.split() for line in (await asyncio.to_thread(tenure, "stats")).stdout.splitlines()]

    counts = ["processed", "succeeded", "failed", "retried", "lost", "cancelled", "broken"]
    assert shown[0] == ["queue", *counts]
    assert shown[1:3] == [[name, "3", "0", "2", "1", "0", "0", "1"] for name in ("mail", "all")]
    assert shown[4:] == [["worker", *counts], ["w1", *"0000000"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_does_fits_in_a_line_of_the_help(command: str) -> None:
    [line] = [
        line for line in CliRunner().invoke(main, ["--help"]).output.splitlines() if line.split()[:1] == [command]
    ]

    assert line.split(maxsplit=1)[1] == COMMANDS[command][1]
