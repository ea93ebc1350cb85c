"""Takes in inbox entries, which other programs have inserted, and turns them into jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenure.core.inbox import read
from tenure.core.job import ErrorInfo, NewJob, State
from tenure.stores.sqlite.ending import end
from tenure.stores.sqlite.enqueueing import enqueue
from tenure.stores.sqlite.rows import dumps, facts
from tenure.stores.sqlite.transaction import Transaction
from tenure.stores.values import Change

__all__ = ["take_in"]

ENTRIES_EACH = 100
"""Entries in memory at a time at most, because each may be very long."""


def take_in(tx: Transaction, queues: Sequence[str], limit: int, entry_limit: int, raw: Mapping[str, NewJob]) -> int:
    """Turn entries into jobs, and delete the entries in the same transaction. Returns how many.

    The commit need not be synced: if a power cut undoes it, the entries are still in the inbox.
    """
    taken = 0
    for queue in dict.fromkeys(queues):
        while entries := tx.all("inbox_entries", queue, min(limit - taken, ENTRIES_EACH)):
            _enqueue(tx, [read(queue, entry, entry_limit, raw.get(queue)) for _, entry in entries])
            tx.run("delete_inbox_entries", queue, entries[-1][0])
            taken += len(entries)
        tx.run("update_inbox_flag", queue)
    return taken


def _enqueue(tx: Transaction, entries: Sequence[tuple[NewJob, ErrorInfo | None]]) -> None:
    # Entries with the same id may differ otherwise: the second must see the job that the first has become.
    distinct = len({job.id for job, _ in entries}) == len(entries)
    for batch in [entries] if distinct else [[entry] for entry in entries]:
        known = set(tx.array("existing_jobs", dumps([job.id for job, _ in batch])))
        answers = enqueue(tx, [job for job, _ in batch])
        for (job, error), answer in zip(batch, answers, strict=True):
            if error is not None:
                end(tx, facts(tx, [job.id])[job.id], State.BROKEN, error=error)
            if job.id not in known and not answer.duplicate:
                tx.add_consequence(Change.ENQUEUED if error is None else Change.BROKEN, job.id, job.task, job.queue)
