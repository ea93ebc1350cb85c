"""Encodes enqueue calls as arguments of the scripts, and decodes their results and refusals."""

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
"""Most jobs in one call. One script stores them all, and every other client waits for it."""


def args(jobs: Sequence[NewJob]) -> list[ScriptArg]:
    """The arguments of new jobs: their number, then each job."""
    if len(jobs) > MAX_JOBS:
        raise InvalidOption(f"{len(jobs):,} jobs are too many for one call: enqueue up to {MAX_JOBS:,} at a time")
    found: list[ScriptArg] = [len(jobs)]
    for job in jobs:
        found += new_job_args(job)
    return found


def results(jobs: Sequence[NewJob], reply: Sequence[Any]) -> list[Enqueued]:
    """The results of an enqueue, from the script's reply; raises if the script refused the jobs."""
    if reply and isinstance(reply[0], bytes):
        raise refusal(jobs, reply)
    found = [Enqueued(job.id, State.WAITING) for job in jobs]
    for index, state, *owner in reply:
        job_id = id_of(owner[0]) if owner else jobs[index].id
        found[index] = Enqueued(job_id, STATES[state], duplicate=bool(owner))
    return found


def refusal(jobs: Sequence[NewJob], reply: Sequence[Any]) -> UniqueConflict | BlockerNotFound | MissingAttribute:
    """The error that a refusal of new jobs means."""
    word, index, about = reply
    kind, job = Refused(word.decode()), jobs[index]
    if kind == Refused.ATTRIBUTE:
        return MissingAttribute(job.task, about.decode())
    if kind == Refused.BLOCKER:
        return BlockerNotFound(id_of(about))
    assert job.unique is not None
    return UniqueConflict(job.task, job.unique, id_of(about))
