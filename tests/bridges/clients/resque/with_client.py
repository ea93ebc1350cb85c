"""The bridge beside the real Node and Python clients of Resque: `make test-clients` installs them and runs this.

`make test` does not collect this file, because it needs Node.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bridges.golden import golden, keys, replay
from tests.bridges.resque_program import Program, make_app
from tests.bridges.test_resque import entry, failures, push, worker_ids
from tests.servers.server import Server

HERE = Path(__file__).parent
PYRES = os.environ.get("PYRES_PYTHON", str(Path(sys.prefix) / "clients" / "bin" / "python"))


def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
    return value


class Node:
    """The program `play.cjs`."""

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen(
            ["node", "play.cjs", str(port)],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def ask(self, do: str, **given: object) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **given}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the Node client has ended"
        return json.loads(line)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def pyres(*words: str) -> str:
    return subprocess.run(
        [PYRES, "pyres_client.py", *words], cwd=HERE, capture_output=True, text=True, check=True, timeout=60
    ).stdout


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "redis").start()
    yield server
    server.kill()


@pytest.fixture
def there(server: Server) -> Iterator[Any]:
    with server.client() as client:
        yield client


@pytest.fixture
def node(server: Server) -> Iterator[Node]:
    node = Node(server.port)
    yield node
    node.kill()


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.mark.timeout(180)
def test_a_thousand_jobs_of_three_clients_run_once_each_beside_a_node_worker(
    server: Server, there: Any, node: Node, store: str
) -> None:
    there.set("resque:pause-all-workers", "true")  # Node does not heed it, so it begins last
    for queue in ("math", "other"):
        node.ask("enqueue", to=queue, name="note", calls=[[f"{queue}:{number}"] for number in range(170)])
        pyres("enqueue", str(server.port), queue, "170", "340")
        there.rpush(
            f"resque:queue:{queue}",
            *(json.dumps({"class": "note", "args": [f"{queue}:{n}"]}, separators=(",", ":")) for n in range(340, 500)),
        )
    with (
        Program(store, server.url, "math,other", concurrency=1),
        Program(store, server.url, "math,other", concurrency=1),
    ):
        until(lambda: there.scard("resque:workers") == 2)
        node.ask("work", queues=["math", "other"])
        there.delete("resque:pause-all-workers")
        until(lambda: there.get("resque:stat:processed") == b"1000", 120)
        node.ask("end")

    noted = [json.loads(each) for each in there.lrange("noted", 0, -1)]
    assert Counter(text for text, _ in noted) == Counter(f"{q}:{n}" for q in ("math", "other") for n in range(500))
    by_worker: dict[tuple[object, str], list[int]] = defaultdict(list)
    for text, worker in noted:
        queue, _, number = text.partition(":")
        by_worker[worker, queue].append(int(number))
    assert len({worker for worker, _ in by_worker}) == 3
    # Not of the two bridges: they share a store, where each may run what the other has just taken.
    assert all(numbers == sorted(numbers) for (worker, _), numbers in by_worker.items() if worker == "node")
    assert (there.get("resque:stat:failed"), there.hlen("resque:tenure:custody")) == (None, 0)


def test_one_bridge_keeps_the_order_of_each_queue_beside_a_node_worker(
    server: Server, there: Any, node: Node, store: str
) -> None:
    there.set("resque:pause-all-workers", "true")
    node.ask("enqueue", to="math", name="note", calls=[[number] for number in range(200)])
    with Program(store, server.url, "math", concurrency=1):
        until(lambda: there.scard("resque:workers") == 1)
        node.ask("work", queues=["math"])
        there.delete("resque:pause-all-workers")
        until(lambda: there.get("resque:stat:processed") == b"200")
        node.ask("end")

    noted = [json.loads(each) for each in there.lrange("noted", 0, -1)]
    ours = [number for number, worker in noted if worker != "node"]
    assert len(ours) > 10
    assert ours == sorted(ours)


def test_the_tools_of_the_clients_show_a_working_an_idle_and_a_failed_one(
    server: Server, there: Any, node: Node, store: str
) -> None:
    with Program(store, server.url, "math,other", concurrency=2) as program:
        node.ask("enqueue", to="math", name="boom", calls=[["x"]])
        until(lambda: there.llen("resque:failed"))
        node.ask("enqueue", to="math", name="slow", calls=[["y"]])
        until(lambda: there.llen("begun"))
        name = f"{os.uname().nodename}.tenure:{program.process.pid}"
        until(lambda: any(there.exists(f"resque:worker:{name}+{slot}:math,other") for slot in (1, 2)))
        seen = node.ask("look")

        assert seen["workers"] == {f"{name}+1": "math,other", f"{name}+2": "math,other"}
        working = [each for each in seen["working"].values() if each != "started"]
        assert len(seen["working"]) == 2
        assert [each["payload"] for each in working] == [{"class": "slow", "queue": "math", "args": ["y"]}]
        assert (seen["stats"]["processed"], seen["stats"]["failed"]) == ("1", "1")
        [failed] = seen["failed"]
        assert (failed["exception"], failed["error"]) == ("ValueError", "no: x")

        info = json.loads(pyres("info", str(server.port)))
        assert {key: info[key] for key in ("pending", "processed", "queues", "workers", "failed")} == {
            "pending": 0,
            "processed": 1,
            "queues": 1,
            "workers": 2,
            "failed": 1,
        }
        assert len(info["all"]) == 2
        assert len(info["working"]) == 1
        there.set("go", 1)


def test_node_retries_and_removes_failures_of_ours(server: Server, there: Any, node: Node, store: str) -> None:
    with Program(store, server.url, "math"):
        node.ask("enqueue", to="math", name="boom", calls=[["– ü \u2028 / \u0001"], ["second"]])
        until(lambda: there.llen("resque:failed") == 2)

        node.ask("retry")
        until(lambda: there.get("resque:stat:failed") == b"3")
        assert there.llen("resque:failed") == 2
        for left in (1, 0):
            node.ask("removeFailed")
            assert there.llen("resque:failed") == left


def test_node_removes_what_a_producer_has_enqueued_for_it(
    server: Server, there: Any, node: Node, tmp_path: Path
) -> None:
    from tenure import App
    from tenure.bridges import Resque

    with App("memory://", log=False) as app:
        resque = Resque(app, server.url)
        resque.enqueue("note", "ü", 1.5, None, queue="mail", client="node")
        assert node.ask("remove", to="mail", name="note", args=["ü", 1.5, None]) == 1
        resque.enqueue("note", "from Tenure", queue="mail")
        node.ask("work", queues=["mail"])
        until(lambda: there.lrange("noted", 0, -1) == [b'["from Tenure","node"]'])
        node.ask("end")


@pytest.mark.timeout(120)
def test_a_live_bridge_survives_the_starts_of_other_workers_on_its_host(server: Server, there: Any, store: str) -> None:
    with Program(store, server.url, "math", concurrency=2):
        ours = until(lambda: len(there.smembers("resque:workers")) == 2 and there.smembers("resque:workers"))
        replay(there, golden("resque-ruby-prune", "worker-start"), "c1")
        stale = f"{os.uname().nodename}:999999:math"
        there.sadd("resque:workers", stale)
        with subprocess.Popen(
            [PYRES, "pyres_client.py", "work", str(server.port), "other"],
            cwd=HERE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                until(lambda: not there.sismember("resque:workers", stale))  # pyres has looked for dead workers
                assert ours <= there.smembers("resque:workers")
            finally:
                os.killpg(process.pid, signal.SIGKILL)
        assert not any(b"tenure" in each for each in there.lrange("resque:failed", 0, -1) if b"999993" not in each)


# Deaths.


def test_a_killed_bridge_is_unregistered_by_another_and_nothing_fails(server: Server, there: Any, store: str) -> None:
    push(there, "math", entry("slow", "x"))
    with Program(store, server.url, "math", concurrency=1) as killed:
        until(lambda: there.llen("begun") == 1)
        [worker] = until(lambda: [each for each in worker_ids(there) if there.exists(f"resque:worker:{each}")])
        killed.kill()
    with Program(store, server.url, "math", concurrency=1):
        until(lambda: worker not in worker_ids(there), 15)
        assert not any(worker in key for key in keys(there))
        until(lambda: there.llen("begun") == 2)
        there.set("go", 1)
        until(lambda: there.get("resque:stat:processed") == b"1")

    assert failures(there) == []


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.timeout(120)
def test_remote_pushes_once_however_often_the_worker_is_killed(
    server: Server, there: Any, store: str, kills: int
) -> None:
    app, resque = make_app(store, server.url, log=False)
    with app:
        job = resque.remote("Notify", queue="mail").enqueue(1)
        for _ in range(kills):
            with Program(store, server.url, "none", env={"DIE_AFTER_PUSH": "1"}) as program:
                program.process.wait(20)
        with Program(store, server.url, "none"):
            until(lambda: app.job(job.id).state == "succeeded")

        assert there.llen("resque:queue:mail") == 1
        assert max(attempt.fence for attempt in app.job(job.id).attempts()) > kills
