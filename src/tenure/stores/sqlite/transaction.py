"""One call's share of a transaction: the connection, the time, and what must follow from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain
from typing import Any

import msgspec

from tenure.core.clock import Clock
from tenure.errors import TenureError
from tenure.stores.callers.connection import SqliteConnection
from tenure.stores.sqlite.queries import sql
from tenure.stores.values import Announcement, AnnouncementKind, Change, Consequence

__all__ = ["NotPlain", "Row", "Transaction"]

Row = tuple[Any, ...]

_decode = msgspec.json.Decoder().decode

COUNTS = ("waiting", "scheduled", "blocked", "running", "succeeded", "failed", "cancelled", "broken", "passed")
TOTALS = tuple(
    f"total_{name}" for name in ("processed", "succeeded", "failed", "retried", "lost", "cancelled", "broken")
)


COUNTERS = COUNTS + TOTALS
_NOTHING = (0,) * len(COUNTERS)
_GROUP = "(" + ", ".join("?" * (2 + len(COUNTERS))) + ")"
_EACH = 10
"""Queues that are counted by one statement at most."""

_COUNT = [sql["count_queues"].replace(_GROUP, ", ".join([_GROUP] * (rows or 1))) for rows in range(_EACH + 1)]


class NotPlain(Exception):
    """A call that took the usual case for granted met another: it is taken back, and run again with `plainly` False."""


class Transaction:
    """What the operations work with. Counter changes are gathered and written once, by `flush`."""

    __slots__ = (
        "_connection", "_queues", "_workers", "boot", "consequences", "edges", "plainly", "signals", "wall", "work",
    )  # fmt: skip

    def __init__(self, connection: SqliteConnection, clock: Clock, *, plainly: bool = True) -> None:
        self._connection = connection
        self.plainly = plainly
        """Whether to take the usual case for granted, raising `NotPlain` if it is not."""

        self.wall = clock.wall()
        self.boot = clock.boot()
        self._queues: dict[str, dict[str, int]] = {}
        self._workers: dict[str, dict[str, int]] = {}
        self.work: dict[str, int] = {}
        """Jobs that came in line, by queue: idle workers to wake after the commit."""

        self.edges = False
        """Whether any edge was open when a seq was last drawn."""

        self.signals: list[tuple[str, Announcement]] = []
        """Doorbells to ring after the commit, and what to tell them."""

        self.consequences: list[Consequence] = []
        """What became of jobs that the caller did not name."""

    def all(self, query: str, *values: object) -> list[Row]:
        """Run a query of `queries/` and give its rows."""
        return self._connection.execute(sql[query], values).fetchall()

    def one(self, query: str, *values: object) -> Row | None:
        """Run a query and give its first row."""
        row: Row | None = self._connection.execute(sql[query], values).fetchone()
        return row

    def array(self, query: str, *values: object) -> list[Any]:
        """Run a query whose one row is a JSON array, and give its items.

        Each row of an ordinary query gives up the interpreter lock, and waits for a busy thread of the application to have
        it back; large answers come as one.
        """
        row = self.one(query, *values)
        assert row is not None
        items: list[Any] = _decode(row[0])
        return items

    def run(self, query: str, *values: object) -> int:
        """Run a statement that returns nothing, and give how many rows it changed."""
        self._connection.execute(sql[query], values)
        return self._connection.changes()

    def execute(self, statement: str, values: Sequence[object]) -> int:
        """Run a statement that had to be put together, and give how many rows it changed."""
        self._connection.execute(statement, values)
        return self._connection.changes()

    def select(self, statement: str, values: Sequence[object]) -> Iterable[Row]:
        """Run a statement that had to be put together (listings), lazily."""
        return self._connection.execute(statement, values)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Take back all that a block did, and what was to follow from it, if it raises an error of the contract or `NotPlain`."""
        before = deepcopy((self._queues, self._workers, self.work, self.signals))
        noted = len(self.consequences)
        self._connection.execute("SAVEPOINT attempt")
        try:
            yield
        except (TenureError, NotPlain):
            self._connection.execute("ROLLBACK TO attempt")
            self._connection.execute("RELEASE attempt")
            self._queues, self._workers, self.work, self.signals = before
            del self.consequences[noted:]
            raise
        self._connection.execute("RELEASE attempt")

    # Counting.

    def count(self, queue: str, place: str, number: int) -> None:
        """So many jobs more (or fewer) of the queue are in this place."""
        counts = self._queues.setdefault(queue, defaultdict(int))
        counts[place] += number

    def moved(self, queue: str, origin: str, target: str, number: int = 1) -> None:
        """So many jobs of the queue went from one place to another."""
        counts = self._queues.setdefault(queue, defaultdict(int))
        counts[origin] -= number
        counts[target] += number

    def total(self, what: str, queue: str, worker: str | None = None, number: int = 1) -> None:
        """It has happened so many times more, in this queue, through this worker."""
        self._queues.setdefault(queue, defaultdict(int))["total_" + what] += number
        if worker is not None:
            self._workers.setdefault(worker, defaultdict(int))["total_" + what] += number

    def seq(self, number: int) -> int:
        """Draw so many places at the back of the line, and give the first; writes the counters gathered so far."""
        return self._count(number) - number + 1

    def flush(self) -> None:
        """Write the counters gathered so far, and wake nobody for queues that are paused."""
        if self._queues:
            self._count(0)
        for worker, counts in self._workers.items():
            self.run("count_worker", worker, *[counts[name] for name in TOTALS])
        self._workers.clear()

    def _count(self, places: int) -> int:
        """Write the counters of queues, and reserve so many places at the back of the line; the last of them."""
        rows: list[Sequence[object]] = [
            (queue, 0, *[counts[name] for name in COUNTERS]) for queue, counts in self._queues.items()
        ]
        if places:
            rows.append(("", places, *_NOTHING))
        self._queues.clear()
        last = 0
        for start in range(0, len(rows), _EACH):
            group = rows[start : start + _EACH]
            counted = self._connection.execute(_COUNT[len(group)], list(chain.from_iterable(group)))
            for name, seq, paused, edges in counted:
                self.edges = bool(edges)
                last = seq
                if paused:
                    self.work.pop(name, None)
        return last

    # Telling.

    def note(self, change: Change, job_id: str, task: str, queue: str) -> None:
        """Note what has become of a job that the caller did not name."""
        self.consequences.append(Consequence(change, job_id, task, queue))

    def came_in_line(self, queue: str, number: int = 1) -> None:
        """Wake as many idle workers of this queue after the commit."""
        self.work[queue] = self.work.get(queue, 0) + number

    def tell_holder(self, worker: str | None, kind: AnnouncementKind, job_id: str) -> None:
        """Tell the worker that holds a job what has become of it."""
        if worker is not None and (row := self.one("bell_of_worker", worker)):
            self.signals.append((row[0], Announcement(kind, job_id)))

    def tell_waiters(self, job_id: str, kind: AnnouncementKind) -> None:
        """Tell whoever waits for a job that it is final or gone."""
        for (bell,) in self.all("take_waiters", job_id):
            self.signals.append((bell, Announcement(kind, job_id)))
