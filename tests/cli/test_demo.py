"""`tenure demo` shows what it promises, and notices when it does not hold."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import httpx
import pytest

from tenure.cli.demo import conclude
from tenure.cli.demo.kinds import JOBS, KINDS, JobKind, summarize
from tenure.core.job import JobRecord, State

from .conftest import run_process

KIND = JobKind(task="task", about="", jobs=2, delay=3.0, attempts=2, losses=1)


def a_job(
    state: State = State.SUCCEEDED, *, attempt: int = 3, losses: int = 1, started_at: float | None = 103.5
) -> JobRecord:
    """A job of KIND that ended as it should have, if nothing else is said."""
    return JobRecord(
        "id", "task", "task", state, b"{}", attempt=attempt, losses=losses, created_at=100.0, started_at=started_at
    )


def test_jobs_that_ended_as_they_should_are_right() -> None:
    summary = summarize(KIND, [a_job(), a_job(attempt=4, losses=2)])

    assert (summary.wrong, summary.attempts, summary.losses) == (0, 7, 3)
    assert summary.ended == {"succeeded": 2}
    conclude([summary])


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        a_job(State.FAILED),
        a_job(State.WAITING),
        a_job(attempt=2),
        a_job(attempt=4),
        a_job(attempt=2, losses=0),
        a_job(started_at=102.9),
        a_job(started_at=None),
    ],
    ids=["gone", "failed", "unfinished", "too few attempts", "too many attempts", "not lost", "too early", "never started"],
)  # fmt: skip
def test_one_job_that_did_not_is_enough_for_a_bad_end(wrong: JobRecord | None) -> None:
    summary = summarize(KIND, [a_job(), wrong])

    assert summary.wrong == 1
    with pytest.raises(click.exceptions.Exit) as end:
        conclude([summarize(KIND, [a_job(), a_job()]), summary])
    assert end.value.exit_code == 1


def test_a_job_too_few_is_wrong() -> None:
    assert summarize(KIND, [a_job()]).wrong == 1


def test_the_demo_ends_well_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # F1
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    began = time.monotonic()

    shown = run_process("demo")

    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert time.monotonic() - began < 30
    assert shown.stderr == ""
    assert "kill -9" in shown.stdout
    assert f"All {JOBS} jobs ended as expected; nothing was lost." in shown.stdout
    assert [line.split()[-1] for line in shown.stdout.splitlines() if line.split()[:1] in [[kind.task] for kind in KINDS]] == ["ok"] * len(KINDS)  # fmt: skip
    assert list(tmp_path.iterdir()) == []
    last = shown.stdout.splitlines()[-1]
    assert re.fullmatch(r"See it in a browser, with more jobs to come: \S+( -m tenure)? demo --dashboard", last)


def test_the_demo_shows_its_jobs_in_a_browser_until_it_is_stopped(tmp_path: Path) -> None:
    opened, browser, folder = tmp_path / "opened", tmp_path / "xdg-open", tmp_path / "folder"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    folder.mkdir()
    given = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "BROWSER": str(browser), "TMPDIR": str(folder)}
    demo = subprocess.Popen(
        [sys.executable, "-m", "tenure", "demo", "--dashboard"],
        env={**os.environ, **given},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert demo.stdout is not None
        address = demo.stdout.readline().strip()
        with httpx.Client(follow_redirects=True, transport=httpx.HTTPTransport(retries=5)) as client:
            client.get(address)
            end, succeeded = time.monotonic() + 20, ""
            while time.monotonic() < end and "quick" not in succeeded:
                succeeded = client.get(address.partition("?")[0] + "jobs?state=succeeded").text
                time.sleep(0.2)
            assert "quick" in succeeded
        assert opened.read_text().strip() == address
        demo.send_signal(signal.SIGINT)
        _, said = demo.communicate(timeout=20)
    finally:
        demo.kill()
        demo.communicate()
    assert (demo.returncode, said.count("\n")) == (0, 1)
    assert list(folder.iterdir()) == []
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and str(folder).encode() in environment(pid)]


def test_a_demo_that_does_not_finish_ends_badly() -> None:
    code = "from tenure.cli.demo import story; story.TIME_LIMIT = 0.2; from tenure.cli import main; main(['demo'])"

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert shown.returncode == 1, shown.stdout
    assert "not finished after 0.2 s" in shown.stdout
    assert "jobs did not end as expected" in shown.stdout


def test_a_demo_that_is_ended_takes_its_workers_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    demo = subprocess.Popen([sys.executable, "-m", "tenure", "demo"], stdout=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    assert "demo-1 and demo-2 started" in demo.stdout.readline()

    demo.send_signal(signal.SIGTERM)

    with demo.stdout:
        assert demo.wait(30) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and str(tmp_path).encode() in environment(pid)]


def environment(pid: str) -> bytes:
    """The environment of a process; empty if it has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
