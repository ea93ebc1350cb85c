"""Real uvicorn servers, with a worker inside or beside them: asked by a real client, stopped and killed."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenure import App, State
from tests.documentation import ROOT, blocks
from tests.faults.processes import Process, Processes, eventually


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path)
    yield started
    started.end()


def program(name: str, folder: Path) -> None:
    """Write a program of docs/web.md to a file."""
    [code] = [block.code for block in blocks(ROOT / "docs" / "web.md") if block.code.startswith(f"# {name}\n")]
    (folder / name).write_text(code)


def serve(processes: Processes, target: str, folder: Path, *options: str, **environment: str) -> Process:
    return processes.run(
        sys.executable, "-m", "uvicorn", target, "--app-dir", str(folder), "--port", "0", *options,
        TENURE_URL=f"sqlite:///{folder}/jobs.db", **environment,
    )  # fmt: skip


def url(server: Process) -> str:
    """Its address, once it serves."""
    found: list[str] = []

    def serves() -> bool:
        assert not server.ended, server.last_words()
        log = server.log.read_text()
        found[:] = re.findall(r"running on (http://\S+)", log)
        return bool(found) and "Application startup complete" in log

    eventually(serves, server.last_words)
    return found[0]


def test_what_a_killed_server_had_in_hand_is_finished_by_the_next(processes: Processes, tmp_path: Path) -> None:
    """One is killed, another is told to stop; a third finishes the jobs of both."""
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    app.queues()
    killed, stopped = (
        serve(processes, "tests.worker.served:api", tmp_path, QUEUES=queue, SECONDS="60", LEASE=lease)
        for queue, lease in (("killed", "1"), ("stopped", "30"))
    )
    jobs: dict[Process, list[Any]] = {}
    for server in (killed, stopped):
        ids = [httpx.post(f"{url(server)}/{task}").text for task in ("on_the_loop", "in_a_thread")]
        jobs[server] = [app.job(each) for each in ids]
        eventually(lambda server=server: all(job.refresh().state == "running" for job in jobs[server]))  # type: ignore[misc]

    stopped.send(signal.SIGTERM)
    killed.kill()
    assert stopped.wait(10) in {0, -signal.SIGTERM}, "a thread that goes on does not keep the process alive"
    assert [job.refresh().state for job in jobs[stopped]] == [State.WAITING] * 2, "released, and at once"

    url(serve(processes, "tests.worker.served:api", tmp_path, QUEUES="killed stopped", SECONDS="0"))
    for server in (stopped, killed):
        assert [job.result(timeout=20) for job in jobs[server]] == ["loop", "thread"]
    assert [job.refresh().record.losses for job in jobs[stopped]] == [0, 0]
    assert min(job.refresh().record.losses for job in jobs[killed]) >= 1
    app.close()


def test_a_page_follows_a_job_to_its_end_over_http(processes: Processes, tmp_path: Path) -> None:
    """The first program of docs/web.md: polling, and server-sent events. A page that stays open does not keep it alive."""
    program("shop.py", tmp_path)
    server = serve(processes, "shop:api", tmp_path, "--timeout-graceful-shutdown", "0")
    with httpx.Client(base_url=url(server), timeout=20) as client:
        answer = client.post("/pictures", params={"name": "cat.png"})
        job_id = answer.json()["job"]
        assert answer.status_code == 202
        assert client.get(f"/pictures/{job_id}").json()["state"] in {"waiting", "running", "succeeded"}
        with client.stream("GET", f"/pictures/{job_id}/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            states = [json.loads(line.removeprefix("data: "))["state"] for line in stream.iter_lines() if line]
        assert states[-1] == "succeeded"
        assert client.get(f"/pictures/{job_id}").json()["state"] == "succeeded"
        with App(f"sqlite:///{tmp_path}/jobs.db") as app:
            app.pause("default")
            waiting = client.post("/pictures", params={"name": "dog.png"}).json()["job"]
            with client.stream("GET", f"/pictures/{waiting}/events") as stream:
                lines = stream.iter_lines()  # kept, because its end would close the connection
                assert json.loads(next(lines).removeprefix("data: "))["state"] == "waiting"
                server.send(signal.SIGTERM)
                server.wait(10)
            assert "Cancel 1 running task(s)" in server.log.read_text()
            assert app.workers() == []


def test_several_web_processes_share_workers_of_their_own(processes: Processes, tmp_path: Path) -> None:
    """As docs/web.md says: two web processes without a worker, and `tenure work`."""
    program("desk.py", tmp_path)
    database = f"sqlite:///{tmp_path}/jobs.db"
    server = serve(processes, "desk:api", tmp_path, "--workers", "2")
    worker = processes.work(f"{tmp_path}/desk.py:jobs", "-c", "2", TENURE_URL=database)
    assert httpx.post(f"{url(server)}/sums", params={"a": 2, "b": 3}, timeout=20).json() == 5
    with App(database) as app:
        [only] = app.workers()
        assert only.pid == worker.pid
    server.send(signal.SIGTERM)
    server.wait(10)
