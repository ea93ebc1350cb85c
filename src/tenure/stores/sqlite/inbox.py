"""What other programs have inserted into the inbox, becoming jobs."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.inbox import read
from tenure.job import ErrorInfo, NewJob, State
from tenure.stores.sqlite.ending import end
from tenure.stores.sqlite.enqueueing import enqueue
from tenure.stores.sqlite.rows import facts
from tenure.stores.sqlite.transaction import Transaction

__all__ = ["take_in"]

TOGETHER = 100
"""Entries that are in memory at a time: each may be as long as its producer likes."""


def take_in(tx: Transaction, queues: Sequence[str], limit: int, entry_limit: int) -> int:
    """Make jobs of entries, which go in the same transaction; how many went.

    It need not be synced: if a power cut takes it back, the entries are where they were.
    """
    taken = 0
    for queue in dict.fromkeys(queues):
        while entries := tx.all("inbox_entries", queue, min(limit - taken, TOGETHER)):
            _enqueue(tx, [read(queue, entry, entry_limit) for _, entry in entries])
            tx.run("empty_inbox", queue, entries[-1][0])
            taken += len(entries)
        tx.run("mark_inbox", queue)
    return taken


def _enqueue(tx: Transaction, entries: Sequence[tuple[NewJob, ErrorInfo | None]]) -> None:
    jobs = [job for job, _ in entries]
    # Entries of one id may differ in all else: the second has to find what the first has become.
    together = len({job.id for job in jobs}) == len(jobs)
    for batch in [jobs] if together else [[job] for job in jobs]:
        enqueue(tx, batch)
    for job, error in entries:
        if error is not None:
            end(tx, facts(tx, [job.id])[job.id], State.BROKEN, error=error)
