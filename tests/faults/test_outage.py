"""A store that goes away under workers, and comes back."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from tests.servers.postgres import Postgres
from tests.servers.server import Server

from .cluster import Cluster
from .processes import Process, eventually


def wait_for_word(workers: Sequence[Process], word: str) -> None:
    eventually(lambda: all(word in worker.log.read_text() for worker in workers), f"{word!r} in every log")


class Absence(Protocol):
    """How a store goes, and how it comes back."""

    def go(self) -> None: ...
    def come_back(self) -> None: ...


class Moved:
    """A file that is somewhere else."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._away = path.with_name("away.db")

    def go(self) -> None:
        self._path.rename(self._away)

    def come_back(self) -> None:
        self._away.rename(self._path)


class Killed:
    """A server that is dead."""

    def __init__(self, server: Server | Postgres, kill: Callable[[], None]) -> None:
        self.go = kill
        self.url = server.url
        self._server = server

    def come_back(self) -> None:
        self._server.start()


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def absence(request: pytest.FixtureRequest, path: Path, tmp_path: Path) -> Iterator[Absence]:
    match request.param:
        case "sqlite":
            yield Moved(path)
        case "redis":
            redis = Server(tmp_path / "redis", "--appendonly", "yes").start()
            yield Killed(redis, redis.kill)
            redis.kill()
        case "postgres":
            postgres = Postgres().start()
            yield Killed(postgres, lambda: postgres.stop(signal.SIGQUIT))
            postgres.remove()


@pytest.fixture
def url(absence: Absence, path: Path) -> str:
    return absence.url if isinstance(absence, Killed) else f"sqlite:///{path}"


def test_workers_ride_out_the_absence_of_the_store(cluster: Cluster, absence: Absence) -> None:  # F7, F17, G7, H23
    cluster.enqueue("quick", 1)
    [held] = cluster.enqueue("hold")
    # Short enough to be lost, long enough not to be lost once more while the store is slow to begin.
    workers = [cluster.worker("-c", "2", lease=3) for _ in range(2)]
    cluster.wait_for_start(held)
    eventually(lambda: len(cluster.app.workers()) == 2, "both workers")
    effects = cluster.folder / "effects"

    absence.go()
    eventually(effects.exists, "the end of the job that could not be held")
    wait_for_word(workers, "the store is down")
    absence.come_back()
    wait_for_word(workers, "the store is back")
    again = cluster.wait_for_start(held, times=2)
    [after] = cluster.enqueue("quick", 7)

    assert after.result(timeout=20) == 7
    reason, aborted = effects.read_text().split()
    assert reason == "error"
    assert float(aborted) < again.at, "it let go before the store gave the job to another"
    held.cancel()
    cluster.wait_for_end()
    assert cluster.violations() == []
    # Calls that were under way when the store came back may tell of its absence once more.
    eventually(
        lambda: all(told(each, "is down") == told(each, "is back") for each in workers), "as many ends as beginnings"
    )
    assert max(told(each, "is down") for each in workers) <= 3


def told(worker: Process, what: str) -> int:
    return worker.log.read_text().count(f"the store {what}")
