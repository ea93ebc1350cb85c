"""Python's own SQLite library and Tenure on one file, in one process: neither undoes what the other relies on (F15)."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tenure import App
from tenure.errors import StoreUnavailable
from tenure.stores.sqlite.engine import Engine
from tenure.stores.sqlite.library import Library
from tests.inspection import counted, recounted, rows, run, sound

from . import libraries
from .processes import Process, Processes
from .scale import lengths

KINDS = pytest.mark.parametrize(
    ("library", "used"),
    [("?library=sqlite3", False), ("", False), ("", True)],
    ids=["said so", "found out", "used before"],
)
"""How Tenure comes to use that library too."""


@pytest.fixture
def url(path: Path) -> str:
    """A store, beside a table of the application's own."""
    with App(f"sqlite:///{path}") as app:
        app.queues()
    run(path, "CREATE TABLE orders (a, b)")
    return f"sqlite:///{path}"


def enqueued(process: Process) -> set[str]:
    """The ids that a process was told are stored."""
    ids: set[str] = set()
    while (said := process.hear_any())[0] != "done":
        ids.update(said[1:])
    return ids


def stored(path: Path) -> set[str]:
    return {job_id for (job_id,) in rows(path, "SELECT id FROM tenure_jobs")}


@KINDS
def test_a_connection_that_comes_and_goes_leaves_our_locks_alone(
    url: str, library: str, used: bool, processes: Processes
) -> None:  # F15
    process = processes.start(libraries.hold_locks, url + library, used)

    assert process.hear("before") == ["-shm", "file"]
    assert process.hear("after") == ["-shm", "file"]


@KINDS
def test_an_enqueue_waits_for_a_transaction_in_the_same_process(
    url: str, library: str, used: bool, path: Path, processes: Processes
) -> None:  # F15
    process = processes.start(libraries.write_at_once, url + library, used)

    process.hear("waits")
    ids = {*process.hear("inside"), *process.hear("outside")}

    assert process.wait() == 0
    assert stored(path) == ids
    assert sound(path)


@pytest.mark.parametrize("times", lengths(40, 1000))
@KINDS
def test_processes_in_which_connections_come_and_go_lose_nothing(
    url: str, library: str, used: bool, path: Path, processes: Processes, times: int
) -> None:  # F15
    started = [processes.start(libraries.come_and_go, url + library, used, times) for _ in range(3)]
    for process in started:
        process.hear("ready")
    for process in started:
        process.tell("go")

    told = set().union(*(enqueued(process) for process in started))

    assert [process.wait() for process in started] == [0, 0, 0]
    kept = times - times // 5
    assert len(told) == 3 * (times + 2 * kept)
    assert stored(path) == told
    assert rows(path, "SELECT count(*) FROM orders") == [(3 * kept,)]
    assert sound(path)
    assert counted(path) == recounted(path)  # I20


@pytest.mark.parametrize("commit", [False, True], ids=["before", "after"])
def test_a_kill_around_the_commit_leaves_both_or_neither(
    url: str, path: Path, processes: Processes, commit: bool
) -> None:  # F15, I2
    process = processes.start(libraries.bring, url, commit)
    brought = process.hear("brought")

    process.kill()

    assert stored(path) == (set(brought) if commit else set())
    assert rows(path, "SELECT count(*) FROM orders") == [(int(commit),)]
    assert counted(path) == recounted(path)  # I20
    assert sound(path)


@pytest.mark.parametrize("library", ["apsw", "sqlite3"])
def test_a_fork_takes_back_the_transactions_that_are_open(
    url: str, library: str, path: Path, processes: Processes
) -> None:  # F22
    process = processes.start(libraries.fork_in_a_transaction, url, library)

    [first] = process.hear("enqueued")
    [why] = process.hear("refused")
    [last] = process.hear("enqueued")

    assert "the process has forked" in why
    assert process.wait() == 0
    assert stored(path) == {first, last}
    assert sound(path)


@KINDS
def test_a_child_goes_on_with_the_library_of_its_parent(
    url: str, library: str, used: bool, path: Path, processes: Processes
) -> None:  # F22
    process = processes.start(libraries.fork_after_bringing, url + library, used)

    told = enqueued(process)

    assert process.wait() == 0
    assert len(told) == 8
    assert stored(path) == told
    assert sound(path)


# Connections of apsw that other threads use while the store looks for the library of a file.


@contextlib.contextmanager
def busy(path: Path, seconds: float = 60.0) -> Iterator[None]:
    """Another thread runs a statement on a connection of apsw to this file, until the block ends or `seconds` have passed."""
    connection = apsw.Connection(str(path))

    def run_for_ever() -> None:
        with contextlib.suppress(apsw.InterruptError):
            connection.execute(
                "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT count(*) FROM n"
            )

    thread = threading.Thread(target=run_for_ever)
    thread.start()
    with pytest.raises(apsw.ThreadingViolationError):
        while thread.is_alive():
            assert connection.filename
    end = threading.Timer(seconds, connection.interrupt)
    end.start()
    try:
        yield
    finally:
        end.cancel()
        connection.interrupt()
        end.join()
        thread.join()
        connection.close()


def test_a_busy_connection_to_another_file_keeps_no_store_from_opening(tmp_path: Path, path: Path) -> None:
    with busy(tmp_path / "other.db"), App(f"sqlite:///{path}") as app:
        assert app.queues() == []


def test_a_busy_connection_is_waited_for_if_the_file_is_open(url: str, tmp_path: Path, path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM orders")
        with busy(tmp_path / "other.db", 0.1), App(url) as app:
            assert app.queues() == []
            assert Engine._chosen[str(path)] is Library.PYTHON


def test_a_file_that_a_busy_connection_has_open_is_used_through_its_library(url: str, path: Path) -> None:
    with busy(path, 0.1), App(url) as app:
        assert app.queues() == []
        assert str(path) not in Engine._chosen


def test_a_connection_that_stays_busy_leaves_the_choice_to_the_url(
    url: str, tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.stores.sqlite.engine.BUSY_TIMEOUT", 0.1)
    with contextlib.closing(sqlite3.connect(path)) as connection, busy(tmp_path / "other.db"):
        connection.execute("SELECT * FROM orders")
        with (
            App(url) as app,
            pytest.raises(StoreUnavailable, match=r"add \?library=apsw or \?library=sqlite3 to the URL"),
        ):
            app.queues()
        with App(f"{url}?library=sqlite3") as app:
            assert app.queues() == []
