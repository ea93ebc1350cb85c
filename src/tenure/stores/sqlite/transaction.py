"""One call's `Transaction`: runs its queries, and gathers its counters and its announcements for the commit."""

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

__all__ = ["Row", "Transaction"]

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
"""Rows in one statement at most."""

_COUNT = [sql["add_queue_counts"].replace(_GROUP, ", ".join([_GROUP] * (rows or 1))) for rows in range(_EACH + 1)]


class Transaction:
    """The object that all operations work with. Changes of counters are gathered, and written once by `flush`."""

    __slots__ = (
        "_connection", "_queues", "_workers", "announcements", "boot", "consequences", "edges", "ready", "wall",
    )  # fmt: skip

    def __init__(self, connection: SqliteConnection, clock: Clock) -> None:
        self._connection = connection
        self.wall = clock.wall()
        self.boot = clock.boot()
        self._queues: dict[str, dict[str, int]] = {}
        self._workers: dict[str, dict[str, int]] = {}
        self.ready: dict[str, int] = {}
        """By queue, the number of jobs that are ready to be leased: as many idle workers are woken after the commit."""

        self.edges = False
        """Whether any edge was open when counters were last written."""

        self.announcements: list[tuple[str, Announcement]] = []
        """Announcements to send after the commit, each with the doorbell to ring."""

        self.consequences: list[Consequence] = []
        """What has happened to jobs that the caller did not name."""

    def all(self, query: str, *values: object) -> list[Row]:
        """Run a query of `queries/` and return its rows."""
        return self._connection.execute(sql[query], values).fetchall()

    def one(self, query: str, *values: object) -> Row | None:
        """Run a query and return its first row; None if there is none."""
        row: Row | None = self._connection.execute(sql[query], values).fetchone()
        return row

    def array(self, query: str, *values: object) -> list[Any]:
        """Run a query whose one row is a JSON array, and return its items.

        For large answers, because every row of an ordinary query gives up the interpreter lock, and then waits for it if a thread of
        the application is busy.
        """
        row = self.one(query, *values)
        assert row is not None
        items: list[Any] = _decode(row[0])
        return items

    def run(self, query: str, *values: object) -> int:
        """Run a statement that returns no rows. Returns how many rows it changed."""
        self._connection.execute(sql[query], values)
        return self._connection.changes()

    def execute(self, statement: str, values: Sequence[object]) -> int:
        """Run a statement that is not in `queries/`. Returns how many rows it changed."""
        self._connection.execute(statement, values)
        return self._connection.changes()

    def select(self, statement: str, values: Sequence[object]) -> Iterable[Row]:
        """Run a query that is not in `queries/`, as listings do, and read its rows lazily."""
        return self._connection.execute(statement, values)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Roll back everything that the block did, including gathered counters and announcements, if it raises a `TenureError`."""
        before = deepcopy((self._queues, self._workers, self.ready, self.announcements))
        consequences = len(self.consequences)
        self._connection.execute("SAVEPOINT attempt")
        try:
            yield
        except TenureError:
            self._connection.execute("ROLLBACK TO attempt")
            self._connection.execute("RELEASE attempt")
            self._queues, self._workers, self.ready, self.announcements = before
            del self.consequences[consequences:]
            raise
        self._connection.execute("RELEASE attempt")

    # Counting.

    def count(self, queue: str, counter: str, number: int) -> None:
        """Add `number` (which may be negative) to a counter of the queue."""
        counts = self._queues.setdefault(queue, defaultdict(int))
        counts[counter] += number

    def count_move(self, queue: str, origin: str, target: str, number: int = 1) -> None:
        """Move `number` jobs of the queue from one counter to another."""
        counts = self._queues.setdefault(queue, defaultdict(int))
        counts[origin] -= number
        counts[target] += number

    def count_total(self, what: str, queue: str, worker: str | None = None, number: int = 1) -> None:
        """Add `number` to a total of the queue, and of the worker if there is one."""
        self._queues.setdefault(queue, defaultdict(int))["total_" + what] += number
        if worker is not None:
            self._workers.setdefault(worker, defaultdict(int))["total_" + what] += number

    def reserve_seqs(self, number: int) -> int:
        """Reserve `number` seqs at the back of the line, and return the first. Also writes the counters gathered so far."""
        return self._count(number) - number + 1

    def flush(self) -> None:
        """Write the counters gathered so far. Workers are not woken for queues that turn out to be paused."""
        if self._queues:
            self._count(0)
        for worker, counts in self._workers.items():
            self.run("add_worker_totals", worker, *[counts[name] for name in TOTALS])
        self._workers.clear()

    def _count(self, places: int) -> int:
        """Write the counters of queues, and reserve this many seqs. Returns the last one."""
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
                    self.ready.pop(name, None)
        return last

    # Announcing.

    def add_consequence(self, change: Change, job_id: str, task: str, queue: str) -> None:
        """Report what has happened to a job that the caller did not name."""
        self.consequences.append(Consequence(change, job_id, task, queue))

    def wake_workers(self, queue: str, number: int = 1) -> None:
        """Wake up to `number` idle workers of this queue after the commit."""
        self.ready[queue] = self.ready.get(queue, 0) + number

    def notify_holder(self, worker: str | None, kind: AnnouncementKind, job_id: str) -> None:
        """Announce to the worker that holds a job what has happened to it."""
        if worker is not None and (row := self.one("bell_of_worker", worker)):
            self.announcements.append((row[0], Announcement(kind, job_id)))

    def notify_waiters(self, job_id: str, kind: AnnouncementKind) -> None:
        """Announce to all waiters of a job that it is final or deleted."""
        for (bell,) in self.all("pop_waiters", job_id):
            self.announcements.append((bell, Announcement(kind, job_id)))
