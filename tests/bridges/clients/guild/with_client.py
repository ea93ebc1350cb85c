"""The bridge beside the real client of Guild queues, which must be installed: `npm ci --prefix tests/bridges/clients/guild`.

`make test` does not collect this file, because it needs Node: `python -m pytest tests/bridges/clients/guild/with_client.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tenure import App
from tenure.bridges import Guild
from tenure.core.job import new_id
from tests.servers.server import Server

HERE = Path(__file__).parent


class Node:
    """The program `play.cjs`, which works the queues `granting` and `parent`, and watches `checking` with a FlowMonitor."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            ["node", "play.cjs", url],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def ask(self, do: str, **given: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **given}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Bridges:
    """Workers of the program `guild_worker.py`, each in a process of its own."""

    def __init__(self, store: str, url: str, folder: Path) -> None:
        self._arguments = [sys.executable, str(HERE / "guild_worker.py"), store, url, str(folder)]
        self._log = folder / "log"
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, lock: int = 2) -> None:
        with self._log.open("ab") as log:
            arguments = [*self._arguments, str(lock)]
            quiet = subprocess.DEVNULL
            self.running.append(
                subprocess.Popen(arguments, stdin=quiet, stdout=log, stderr=log, start_new_session=True)
            )

    def close(self) -> None:
        for each in self.running:
            each.kill()
            each.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("guild")).start()
    yield server
    server.kill()


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        client.flushall()
        yield client


@pytest.fixture
def node(server: Server, client: redis.Redis) -> Iterator[Node]:
    node = Node(server.url)
    yield node
    node.close()


@pytest.fixture
def bridges(server: Server, tmp_path: Path) -> Iterator[Bridges]:
    bridges = Bridges(f"sqlite:///{tmp_path}/jobs.db", server.url, tmp_path)
    yield bridges
    bridges.close()


@pytest.fixture
def guild(server: Server) -> Iterator[Guild]:
    guild = Guild(
        App(f"memory://{new_id()}"), server.url, flow="access", lookup=["userId", "roleIds"], first="checking"
    )
    yield guild
    guild.close()


def until(condition: Callable[[], object], within: float = 30) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it has not come true"
        time.sleep(0.02)


def nothing_is_left(client: redis.Redis) -> bool:
    """Whether no job is in a queue or in custody; what shows that a bridge lives may be there."""
    ours = [key for key in client.keys("guild:*") if ":tenure:beat:" not in str(key)]
    return not (client.keys("queue:*") or ours)


def started(folder: Path) -> list[int]:
    file = folder / "started"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def test_node_creates_tenure_checks_and_node_grants(node: Node, bridges: Bridges, client: redis.Redis) -> None:
    bridges.start()
    node.ask("create", jobs=[{"userId": number, "roleIds": [f"r{number}", "x"]} for number in range(200)])
    until(lambda: len(client.keys("job:access:????????-*")) == 200 and nothing_is_left(client))
    for number in range(200):
        [job] = node.ask("look", userId=number)
        job.pop("id")
        roles = [f"r{number}", "x"]
        assert job == {
            "userId": number, "roleIds": roles, "correlationId": "corr-1", "allowed": roles, "granted": roles, "done": True,
            "completed-queue": "granting",
        }  # fmt: skip
    assert node.ask("warnings") == []


def test_node_finishes_and_finds_a_job_that_tenure_has_started(
    node: Node, bridges: Bridges, client: redis.Redis, guild: Guild
) -> None:
    bridges.start()
    job_id = guild.start(userId=7, roleIds=["r1"], correlationId="corr-7")
    until(lambda: nothing_is_left(client))
    found = guild.job(job_id)
    assert found is not None and found.done and not found.failed
    assert node.ask("look", userId=7) == [{"id": job_id, **found.attributes}]
    assert guild.find(roleIds="r1") == [found]


def test_a_parent_with_two_children_of_ours_goes_on(node: Node, bridges: Bridges, client: redis.Redis) -> None:
    bridges.start()
    node.ask("parent", children=["a", "b"], userId=5)
    until(lambda: any(job.get("done") for job in node.ask("look", userId=5)) and nothing_is_left(client))
    [job] = node.ask("look", userId=5)
    assert sorted(child["ok"] for child in job["children:parent:jobs"]) == ["a", "b"]
    assert job["completed-queue"] == "granting"
    assert node.ask("warnings") == []


def test_the_monitor_leaves_a_job_alone_that_runs_longer_than_its_lock(
    node: Node, bridges: Bridges, client: redis.Redis, tmp_path: Path
) -> None:
    bridges.start()
    node.ask("create", jobs=[{"userId": 1000, "roleIds": []}])  # waits for the file `go`
    until(lambda: started(tmp_path) == [1000])
    time.sleep(5)  # its lock lasts for three seconds
    (tmp_path / "go").touch()
    until(lambda: nothing_is_left(client))
    [job] = node.ask("look", userId=1000)
    assert job["done"] is True and "failed" not in job
    assert started(tmp_path) == [1000]


def test_a_job_that_the_monitor_fails_is_not_written_to(
    node: Node, bridges: Bridges, client: redis.Redis, tmp_path: Path
) -> None:
    bridges.start()
    node.ask("create", jobs=[{"userId": 1000, "roleIds": []}])
    until(lambda: started(tmp_path) == [1000])
    [lock] = client.keys("lock:*")
    client.delete(lock)
    until(lambda: node.ask("look", userId=1000)[0].get("failed"))
    (tmp_path / "go").touch()
    until(lambda: nothing_is_left(client))
    [job] = node.ask("look", userId=1000)
    assert job["failedErrorMsg"] == "checking lock time exceeded"
    assert "allowed" not in job and "granted" not in job


def test_jobs_of_a_killed_bridge_go_on_in_another_and_the_monitor_fails_none(
    node: Node, bridges: Bridges, client: redis.Redis, tmp_path: Path
) -> None:
    lock = 15  # longer than it takes to notice that a worker is missing
    bridges.start(lock)
    bridges.start(lock)
    node.ask("create", jobs=[{"userId": 1000 + number, "roleIds": ["r"]} for number in range(12)])
    seen = 3
    for kills in range(4):
        # At least one more has started: a job that was lost may run alone.
        until(lambda seen=seen: len(started(tmp_path)) > seen)  # type: ignore[misc]
        seen = len(started(tmp_path))
        bridges.running[kills].kill()
        bridges.start(lock)
    (tmp_path / "go").touch()
    until(lambda: nothing_is_left(client))
    jobs = [node.ask("look", userId=1000 + number)[0] for number in range(12)]
    assert [job.get("granted") for job in jobs] == [["r"]] * 12
    assert not any("failed" in job for job in jobs)
    assert node.ask("warnings") == []
    assert len(started(tmp_path)) - 12 <= 4 * 2  # only what ran at a kill ran again
