"""Jobs on their way into Redis, as the scripts read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenure.core.job import NewJob, State
from tenure.errors import BlockerNotFound, InvalidOption, MissingAttribute, UniqueConflict
from tenure.stores.redis.encoding import ScriptArg, new_job_args
from tenure.stores.redis.records import STATES, id_of
from tenure.stores.redis.replies import Refused
from tenure.stores.values import Enqueued

__all__ = ["args", "refusal", "results"]

MAX_JOBS = 100_000
"""Jobs in one call: all of them are stored in one step, for which everybody else waits."""


def args(jobs: Sequence[NewJob]) -> list[ScriptArg]:
    """New jobs as the scripts read them."""
    if len(jobs) > MAX_JOBS:
        raise InvalidOption(
            f"{len(jobs):,} jobs are too many for one step of Redis: enqueue up to {MAX_JOBS:,} at a time"
        )
    found: list[ScriptArg] = [len(jobs)]
    for job in jobs:
        found += new_job_args(job)
    return found


def results(jobs: Sequence[NewJob], reply: Sequence[Any]) -> list[Enqueued]:
    """What a script has told of these jobs; raises if it has refused them."""
    if reply and isinstance(reply[0], bytes):
        raise refusal(jobs, reply)
    found = [Enqueued(job.id, State.WAITING) for job in jobs]
    for index, state, *owner in reply:
        job_id = id_of(owner[0]) if owner else jobs[index].id
        found[index] = Enqueued(job_id, STATES[state], duplicate=bool(owner))
    return found


def refusal(jobs: Sequence[NewJob], reply: Sequence[Any]) -> UniqueConflict | BlockerNotFound | MissingAttribute:
    """Why these jobs cannot be enqueued."""
    word, index, about = reply
    kind, job = Refused(word.decode()), jobs[index]
    if kind == Refused.ATTRIBUTE:
        return MissingAttribute(job.task, about.decode())
    if kind == Refused.BLOCKER:
        return BlockerNotFound(id_of(about))
    assert job.unique is not None
    return UniqueConflict(job.task, job.unique, id_of(about))
