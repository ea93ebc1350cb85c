"""A log, or its index, that is deleted while processes use the file (F15)."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest

from tenure.errors import StoreUnavailable
from tenure.stores.sqlite import schema
from tenure.stores.sqlite.library import Connection
from tenure.stores.sqlite.store import SqliteStore
from tenure.stores.values import Search
from tests.inspection import counted, recounted, rows, sound

from . import logless
from .clients import a_job
from .processes import Process, Processes, eventually

VICTIMS = pytest.mark.parametrize("victims", [["-wal"], ["-shm"], ["-wal", "-shm"]], ids=" and ".join)


def delete(path: Path, victims: list[str]) -> None:
    """Delete these files, once all of them are there: a process that goes on after the last time makes them anew."""
    paths = [Path(f"{path}{suffix}") for suffix in victims]
    eventually(lambda: all(each.exists() for each in paths), f"new files {victims}")
    for each in paths:
        each.unlink(missing_ok=True)  # SQLite deletes the second one itself if the process closes the file just now


def stored_in(path: Path) -> set[str]:
    return {str(job) for (job,) in rows(path, "SELECT id FROM tenure_jobs")}


def made_at(job: str) -> float:
    """When an id was made, by the wall clock: its first 48 bits are milliseconds."""
    return (uuid.UUID(job).int >> 80) / 1000


class Heard:
    """What a producer has said."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.stored: list[str] = []
        self.refused: list[str] = []

    def listen(self, stored: int) -> None:
        """Hear until it has stored so many more jobs."""
        wanted = len(self.stored) + stored
        while len(self.stored) < wanted:
            self._hear()

    def listen_beyond(self, instant: float) -> None:
        """Hear until it has stored a job that it made after this time: what it says before may have waited in the pipe."""
        while not self.stored or made_at(self.stored[-1]) <= instant:
            self._hear()

    def _hear(self) -> None:
        word, what = self._process.hear_any()
        (self.stored if word == "stored" else self.refused).append(what)


@VICTIMS
@pytest.mark.parametrize("producers", [1, 3])
def test_no_acknowledged_job_is_lost_with_the_log(
    path: Path, processes: Processes, victims: list[str], producers: int
) -> None:  # F15, W2
    working = [Heard(processes.start(logless.produce, path)) for _ in range(producers)]
    for heard in working:
        heard.listen(20)

    for _ in range(2):
        delete(path, victims)
        deleted_at = time.time()
        for heard in working:
            heard.listen_beyond(deleted_at)  # or the log would be lost with a process that has not noticed yet
            heard.listen(20)
    for heard in working:
        heard._process.kill()
        with pytest.raises(AssertionError, match="ended before"):
            heard.listen(10**9)

    acknowledged = {job for heard in working for job in heard.stored}
    assert stored_in(path) >= acknowledged
    assert sound(path)
    assert counted(path) == recounted(path)
    assert all({*heard.refused} == {"StoreUnavailable"} for heard in working)


@pytest.mark.parametrize("library", ["apsw", "sqlite3"])
@pytest.mark.parametrize("word", ["main", "thread", "list"])
def test_what_the_log_held_is_saved_before_the_next_answer(
    path: Path, processes: Processes, word: str, library: str
) -> None:
    producer = processes.start(logless.obey, f"sqlite:///{path}?library={library}")
    expected = {enqueued(producer, each) for each in ("main", "thread") * 5}
    delete(path, ["-wal"])

    producer.tell(word)
    said, what = producer.hear_any()
    if said == "stored":
        expected.add(what)
    if word == "list":  # which does not save by itself: the writer does, soon
        assert said == "refused"
        expected.add(eventually_enqueued(producer))
    producer.kill()

    assert stored_in(path) >= expected
    assert sound(path)


@VICTIMS
async def test_a_process_goes_on_with_a_new_log(path: Path, processes: Processes, victims: list[str]) -> None:
    producer = processes.start(logless.obey, f"sqlite:///{path}")
    expected = {enqueued(producer, "main")}
    delete(path, victims)

    producer.tell("list")
    [why] = producer.hear("refused")
    expected.add(eventually_enqueued(producer))
    producer.tell("list")

    assert "was deleted or replaced while in use: nothing was stored now, try again" in why
    assert producer.hear("listed") == [2]
    assert all(Path(f"{path}{suffix}").exists() for suffix in victims)
    store = SqliteStore(path)
    assert {job.id for job in (await store.search(Search())).jobs} == expected
    await store.close()


@VICTIMS
async def test_who_opens_the_file_waits_until_the_log_is_saved(
    path: Path, processes: Processes, victims: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.stores.sqlite.files.OPENING", 0.1)
    producer = processes.start(logless.obey, f"sqlite:///{path}")
    expected = {enqueued(producer, "main")}
    delete(path, victims)

    store = SqliteStore(path)
    for use in (store.open, store.layout, store.queues, lambda: store.enqueue([a_job()])):
        with pytest.raises(StoreUnavailable, match="another process still has the file open: try again when"):
            await use()
    expected.add(eventually_enqueued(producer))
    mine = a_job()
    await store.enqueue([mine])
    producer.tell("list")

    assert producer.hear("listed") == [3]
    await store.close()
    producer.kill()
    assert stored_in(path) == {*expected, mine.id}
    assert sound(path)


@VICTIMS
async def test_a_log_that_is_deleted_while_the_file_is_opened_is_noticed(
    path: Path, victims: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    once = [victims]
    prepare = schema.void_leases_of_other_boots

    def prepare_and_delete(connection: Connection) -> None:
        prepare(connection)
        if once:
            delete(path, once.pop())

    monkeypatch.setattr(schema, "void_leases_of_other_boots", prepare_and_delete)
    store = SqliteStore(path)
    with pytest.raises(
        StoreUnavailable, match="was deleted or replaced while in use: nothing was stored now, try again"
    ):
        await store.enqueue([a_job()])

    job = a_job()
    await store.enqueue([job])
    assert all(Path(f"{path}{suffix}").exists() for suffix in victims)
    await store.close()
    assert stored_in(path) == {job.id}
    assert sound(path)


async def test_a_log_that_was_deleted_when_no_process_ran_keeps_no_process_from_starting(
    path: Path, processes: Processes
) -> None:
    producer = processes.start(logless.obey, f"sqlite:///{path}")
    enqueued(producer, "main")
    producer.kill()
    delete(path, ["-wal"])

    store = SqliteStore(path)
    await store.enqueue([a_job()])
    await store.close()
    assert sound(path)


def enqueued(producer: Process, word: str) -> str:
    producer.tell(word)
    [job] = producer.hear("stored")
    return str(job)


def eventually_enqueued(producer: Process) -> str:
    """Have it enqueue until it can."""
    while True:
        producer.tell("thread")
        word, what = producer.hear_any()
        if word == "stored":
            return str(what)
