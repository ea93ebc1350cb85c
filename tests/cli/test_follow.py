"""`tenure jobs --follow`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tenure import App

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
