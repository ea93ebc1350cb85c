"""Jobs on their way into Redis, as the scripts read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenure.core.job import NewJob, State
from tenure.errors import BlockerNotFound, InvalidOption, MissingAttribute, UniqueConflict
from tenure.stores.redis.encoding import Word, new_words
from tenure.stores.redis.records import STATES, id_of
from tenure.stores.values import Enqueued

__all__ = ["answers", "refusal", "words"]

MOST = 100_000
"""Jobs in one call: all of them are stored in one step, for which everybody else waits."""


def words(jobs: Sequence[NewJob]) -> list[Word]:
    """New jobs as the scripts read them."""
    if len(jobs) > MOST:
        raise InvalidOption(f"{len(jobs):,} jobs are too many for one step of Redis: enqueue up to {MOST:,} at a time")
    found: list[Word] = [len(jobs)]
    for job in jobs:
        found += new_words(job)
    return found


def answers(jobs: Sequence[NewJob], told: Sequence[Any]) -> list[Enqueued]:
    """What a script has told of these jobs; raises if it has refused them."""
    if told and isinstance(told[0], bytes):
        raise refusal(jobs, told)
    found = [Enqueued(job.id, State.WAITING) for job in jobs]
    for index, state, *holder in told:
        job_id = id_of(holder[0]) if holder else jobs[index].id
        found[index] = Enqueued(job_id, STATES[state], duplicate=bool(holder))
    return found


def refusal(jobs: Sequence[NewJob], told: Sequence[Any]) -> UniqueConflict | BlockerNotFound | MissingAttribute:
    """Why these jobs cannot be enqueued."""
    kind, index, about = told
    job = jobs[index]
    if kind == b"attribute":
        return MissingAttribute(job.task, about.decode())
    if kind == b"blocker":
        return BlockerNotFound(id_of(about))
    assert job.unique is not None
    return UniqueConflict(job.task, job.unique, id_of(about))
