"""`take_in` turns inbox entries of other programs into jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenure.core.checks import name as checked_name
from tenure.core.inbox import read
from tenure.core.job import NewJob, State
from tenure.stores.memory.data import Data
from tenure.stores.memory.ending import end
from tenure.stores.memory.enqueueing import enqueue
from tenure.stores.values import Change

__all__ = ["put_in", "take_in"]


def put_in(data: Data, queue: str, entry: bytes) -> None:
    """Put an entry in the inbox of a queue, which is created if it does not exist."""
    data.queue(checked_name("queue", queue)).inbox.append(entry)
    data.wake(queue)


def take_in(data: Data, names: Sequence[str], limit: int, entry_limit: int, raw: Mapping[str, NewJob]) -> int:
    """Turn entries into jobs. Returns the number of entries removed."""
    taken = 0
    for queue in data.existing(names):
        while queue.inbox and taken < limit:
            new, error = read(queue.name, queue.inbox.popleft(), entry_limit, raw.get(queue.name))
            known = new.id in data.jobs
            [answer] = enqueue(data, [new])
            if error is not None:
                end(data, data.jobs[new.id], State.BROKEN, error=error)
            if not known and not answer.duplicate:
                job = data.jobs[new.id]
                data.report(Change.ENQUEUED if error is None else Change.BROKEN, job)
            taken += 1
    return taken
