"""`tenure work`, end to end, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from .conftest import Tenure, document, run_process


def states(tenure: Tenure) -> list[str]:
    return sorted(job["state"] for job in document(tenure("jobs", "--json"))["jobs"])


def test_jobs_of_a_file_run_until_none_is_left(tenure: Tenure, program: str) -> None:
    tenure("enqueue", "send", "42", "--kwargs", '{"copies": 2}', "--app", program)
    tenure("enqueue", "refuse", '"no"', "--app", program)

    worked = run_process("work", program, "--until-empty", "-c", "2")

    assert worked.returncode == 0, worked.stderr
    assert states(tenure) == ["failed", "succeeded"]
    [job] = document(tenure("jobs", "--state", "succeeded", "--json"))["jobs"]
    assert document(tenure("job", job["id"], "--json"))["result"] == "2 to 42"


def test_a_module_of_the_working_directory_is_found(tenure: Tenure, program: str, tmp_path: Path) -> None:
    tenure("enqueue", "send", "42", "--app", program)

    worked = run_process("work", "program:app", "--until-empty", cwd=tmp_path)

    assert worked.returncode == 0, worked.stderr
    assert states(tenure) == ["succeeded"]


def test_only_the_named_queues_and_tasks_are_served(tenure: Tenure, program: str) -> None:
    tenure("enqueue", "send", "1", "--app", program)
    tenure("enqueue", "refuse", '"no"', "--app", program)

    worked = run_process("work", program, "--until-empty", "-q", "ma*,!mailbox", "--tasks", "send")

    assert worked.returncode == 0, worked.stderr
    assert states(tenure) == ["succeeded", "waiting"]


def test_a_worker_is_in_the_registry_while_it_runs_and_stops_when_told(tenure: Tenure, program: str) -> None:
    tenure("schema", "apply")
    worker = subprocess.Popen([sys.executable, "-m", "tenure", "work", program, "--id", "me", "-c", "3", "-q", "mail"])
    try:
        deadline = time.monotonic() + 20
        while not (found := document(tenure("workers", "--json"))["workers"]):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        shown = tenure("workers").stdout
        worker.send_signal(signal.SIGTERM)
        code = worker.wait(10)
    finally:
        worker.kill()
        worker.wait()

    assert code == 0
    assert (found[0]["id"], found[0]["pid"], found[0]["queues"], found[0]["concurrency"]) == (
        "me",
        worker.pid,
        ["mail"],
        3,
    )
    assert found[0]["missing"] is False
    assert ("me" in shown, "0/3" in shown) == (True, True)
    assert document(tenure("workers", "--json"))["workers"] == []


def test_each_v_says_more(tenure: Tenure, program: str) -> None:
    said = []
    for verbosity in ([], ["-v"], ["-vv"], ["--log-level", "error"]):
        tenure("enqueue", "send", "1", "--app", program)
        lines = run_process("work", program, "--until-empty", *verbosity).stderr.splitlines()
        said.append(len([line for line in lines if "latency" not in line]))  # of a disk that others keep busy it warns

    assert said[0] == said[3] == 1  # where it works and on what
    assert said[0] < said[1] < said[2]
