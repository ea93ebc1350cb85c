"""`tenure watch`, and what `tenure work` writes, with real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure import App

from .conftest import Tenure, run_process

WITHIN = 20.0

LANES = """
import logging
from tenure import App

app = App({url!r})
log = logging.getLogger("shop")

@app.task
async def on_loop(secret: str) -> None:
    log.warning("on the loop")

@app.task
def in_thread(secret: str) -> None:
    log.warning("in a thread\\x1b[2J\\nERROR forged")

@app.task(isolation="process")
def in_process(secret: str) -> None:
    log.warning("in a process")

@app.task(retry=None)
def fails(secret: str) -> None:
    raise ValueError("no\\nway")
"""


@pytest.fixture
def watch(url: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Begin to watch; returns once it does."""
    started: list[subprocess.Popen[str]] = []

    def begin(*options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tenure", "watch", "--url", url, *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stderr is not None
        assert process.stderr.readline().startswith("tenure: watching sqlite:///")
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> list[str]:
    """The lines of a watcher that has ended well."""
    out, err = process.communicate(timeout=WITHIN)
    assert (process.returncode, err) == (0, "")
    return out.splitlines()


def test_events_are_printed_as_they_come(  # W31
    url: str, tenure: Tenure, watch: Callable[..., subprocess.Popen[str]]
) -> None:
    with App(url) as app:
        app.queues()
    all_of_them, of_mail = watch("--limit", "3"), watch("-q", "mail", "--json", "--limit", "1")
    tenure("enqueue", "send", "--queue", "default")
    job_id = tenure("enqueue", "send", "--queue", "mail").stdout.strip()
    tenure("pause", "mail")

    first, second, third = ended(all_of_them)
    assert "enqueued" in first
    assert "send default" in first
    assert f"enqueued        send mail {job_id}" in second
    assert "queue paused    mail" in third
    [event] = map(json.loads, ended(of_mail))
    assert {name: event[name] for name in ("event", "job_id", "task", "queue")} == {
        "event": "enqueued", "job_id": job_id, "task": "send", "queue": "mail",
    }  # fmt: skip
    assert event["at"].endswith("+00:00")


def test_interrupted_it_ends_well(url: str, watch: Callable[..., subprocess.Popen[str]]) -> None:
    with App(url) as app:
        app.queues()
    process = watch("-k", "failed")
    process.send_signal(signal.SIGINT)
    assert ended(process) == []


def test_a_kind_that_there_is_not_is_refused(url: str, tenure: Tenure) -> None:
    with App(url) as app:
        app.queues()
    refused = tenure("watch", "-k", "sucess")
    assert refused.exit_code == 2
    assert "no kind of event named 'sucess'" in refused.stderr


@pytest.fixture
def lanes(url: str, tmp_path: Path) -> str:
    """An app with a task for each lane, and a job for each task."""
    path = tmp_path / "lanes.py"
    path.write_text(LANES.format(url=url))
    with App(url) as app:
        for task in ("on_loop", "in_thread", "in_process", "fails"):
            app.remote(task).enqueue("s3cret")
    return f"{path}:app"


def test_json_lines_say_which_job_they_are_of_in_every_lane(lanes: str) -> None:
    worked = run_process("work", lanes, "--until-empty", "-v", "--log-format", "json")

    lines = [json.loads(line) for line in worked.stderr.splitlines() if line.startswith("{")]
    assert "s3cret" not in worked.stderr
    said = {line["task"]: line for line in lines if line["logger"] == "shop"}
    ends: dict[str, dict[str, Any]] = {line["task"]: line for line in lines if line["logger"] == "tenure.jobs"}
    assert [said[task]["message"] for task in ("on_loop", "in_thread", "in_process")] == [
        "on the loop", "in a thread\x1b[2J\nERROR forged", "in a process",
    ]  # fmt: skip
    for task, line in said.items():
        assert (line["job_id"], line["worker"], line["attempt"]) == (ends[task]["job_id"], ends[task]["worker"], 1)
    assert {task: (end["event"], end["level"]) for task, end in ends.items()} == {
        "on_loop": ("succeeded", "info"),
        "in_thread": ("succeeded", "info"),
        "in_process": ("succeeded", "info"),
        "fails": ("failed", "error"),
    }
    assert ends["fails"]["error"] == {"type": "ValueError", "message": "no\nway"}
    assert len([line for line in lines if line["logger"] == "tenure.jobs"]) == 4


def test_lines_for_people_are_one_each_and_name_the_job(lanes: str) -> None:
    worked = run_process("work", lanes, "--until-empty", "-v")

    assert "s3cret" not in worked.stderr
    lines = worked.stderr.splitlines()
    [forged] = [line for line in lines if "forged" in line]
    assert r"WARNING shop  in a thread\x1b[2J\nERROR forged  [in_thread #1 " in forged
    [failed] = [line for line in lines if "ended as failed" in line]
    assert failed.endswith(r": ValueError: no\nway")
    assert len([line for line in lines if " tenure.jobs  job " in line]) == 4
