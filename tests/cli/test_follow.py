"""`tenure jobs --follow` and `tenure job ID --follow`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure import App
from tenure.cli.follow import new_part

from .conftest import Tenure

Follow = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def app(url: str) -> App:
    with App(url) as first:
        first.resume(
            "mail"
        )  # so that the store has been used; by another app, because one that has looked for watchers waits
    app = App(url, log=False, retry=None)

    @app.task(queue="mail")
    def send(user: int) -> None:
        if not user:
            raise KeyError("nobody\x1b[2J")

    return app


@pytest.fixture
def follow(url: str) -> Iterator[Follow]:
    """Begin to follow; returns once it does."""
    started: list[subprocess.Popen[str]] = []

    def begin(*options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tenure", "jobs", "--follow", "--url", url, *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stderr is not None
        assert process.stderr.readline().startswith("tenure: following sqlite:///")
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_jobs_are_printed_as_they_end(app: App, follow: Follow) -> None:
    everything, failed = follow("--limit", "3"), follow("--json", "--state", "failed", "-q", "mail")
    jobs = [app.tasks["send"].enqueue(user) for user in (1, 0)]
    app.worker().run(until_empty=True)
    jobs.append(app.tasks["send"].enqueue(2))
    jobs[2].cancel()

    lines = everything.communicate(timeout=30)[0].splitlines()
    assert [line.split()[2:6] for line in lines] == [
        ["succeeded", "send", "mail", jobs[0].id],
        ["failed", "send", "mail", jobs[1].id],
        ["cancelled", "send", "mail", jobs[2].id],
    ]
    assert r"KeyError: 'nobody\x1b[2J'" in lines[1]
    assert everything.returncode == 0
    assert failed.stdout is not None
    shown = json.loads(failed.stdout.readline())
    assert (shown["id"], shown["state"], shown["error"]["type"]) == (jobs[1].id, "failed", "KeyError")
    failed.send_signal(signal.SIGINT)
    assert failed.wait(20) == 0


def test_only_jobs_that_end_can_be_followed(app: App, tenure: Tenure) -> None:
    refused = tenure("jobs", "--follow", "--state", "running")
    assert refused.exit_code == 2
    assert "no job ends running" in refused.output


# `tenure job ID --follow`.

TALKING = """
import logging, sys, time
from tenure import App
from tenure.cli.follow import new_part
logging.basicConfig(level="INFO", stream=open("/dev/null", "w"))
app = App({url!r}, retry=None)

@app.task(output=10_000)
def talk(lines: int) -> None:
    for number in range(lines):
        logging.getLogger("shop").info("line %d\\x1b[2J", number)
        time.sleep(0.25)
    if lines == 3:
        raise KeyError("three")
"""


@pytest.mark.parametrize(("lines", "code"), [(5, 0), (3, 1)])
def test_the_output_of_a_job_is_printed_while_it_runs(url: str, tmp_path: Path, lines: int, code: int) -> None:
    (tmp_path / "talking.py").write_text(TALKING.format(url=url))
    with App(url) as app:
        job = app.remote("talk").enqueue(lines)
    following = subprocess.Popen(
        [sys.executable, "-m", "tenure", "job", job.id, "--follow", "--url", url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    working = subprocess.Popen(
        [sys.executable, "-m", "tenure", "work", f"{tmp_path}/talking.py:app", "--until-empty", "--log-level", "info"],
        stderr=subprocess.DEVNULL,
    )
    try:
        out, err = following.communicate(timeout=30)
    finally:
        working.kill()
        working.wait()
        following.kill()

    assert [line.partition(": ")[2] for line in out.splitlines()] == [f"line {n}\\x1b[2J" for n in range(lines)], out
    assert following.returncode == code
    assert f"tenure: job {job.id} is running, attempt 1 on " in err
    assert err.splitlines()[-1].startswith(f"tenure: job {job.id} is {'succeeded' if not code else 'failed: KeyError'}")


def test_a_job_that_has_ended_is_shown_and_no_more_is_waited_for(app: App, tenure: Tenure) -> None:
    job = app.tasks["send"].enqueue(1)
    app.worker().run(until_empty=True)

    shown, as_json = tenure("job", job.id, "--follow"), tenure("job", job.id, "--follow", "--json")

    assert (shown.exit_code, shown.stdout, as_json.exit_code) == (0, "", 0)
    assert json.loads(as_json.stdout)["state"] == "succeeded"


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        ("", "a\nb\n", "a\nb\n"),
        ("a\nb\n", "a\nb\n", ""),
        ("a\nb\n", "a\nb\nc\n", "c\n"),
        ("a\nb\n", "b\nc\n", "c\n"),
        ("a\nb\n", "x\ny\n", "x\ny\n"),
        ("b\n", "[3 bytes cut] …b\nc\n", "c\n"),
    ],
)
def test_only_what_is_new_is_printed(before: str, now: str, new: str) -> None:
    assert new_part(before, now) == new
