"""Attempts that have come to their end, as the scripts read them, and what they say to that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from tenure.core.job import State
from tenure.core.lifecycle import Finish
from tenure.errors import MissingAttribute
from tenure.stores.redis.encoding import Word, ref_of_lease, step_words, token_word
from tenure.stores.redis.enqueueing import refusal
from tenure.stores.redis.records import STATES, id_of, ref_of
from tenure.stores.values import LEASE_LOST, NOT_FOUND, OK, Settlement, Verdict, refused

__all__ = ["completed", "completion_words", "operated", "verdicts", "words"]

_PLAIN = (OK, LEASE_LOST, NOT_FOUND)


def words(settlements: Iterable[Settlement]) -> list[Word]:
    """Settlements as the scripts read them: in groups of one queue and worker."""
    groups = [(of, list(group)) for of, group in groupby(settlements, _queue_and_worker)]
    found: list[Word] = [len(groups)]
    for (queue, worker), group in groups:
        found += (queue, worker or "", len(group))
        for lease, step in group:
            found += (ref_of_lease(lease), token_word(lease.token), *step_words(step))
    return found


def _queue_and_worker(settlement: Settlement) -> tuple[str, str | None]:
    job = settlement[0].job
    return job.queue, job.worker


def verdicts(settlements: Sequence[Settlement], told: Sequence[Any]) -> list[Verdict]:
    """What became of each settlement."""
    return [
        _PLAIN[verdict] if isinstance(verdict, int) else _refused(settlement, verdict)
        for settlement, verdict in zip(settlements, told, strict=True)
    ]


def _refused(settlement: Settlement, told: Sequence[Any]) -> Verdict:
    step = settlement[1]
    assert isinstance(step, Finish)
    return _cannot_come(step, told[1:])


def _cannot_come(step: Finish, told: Sequence[Any]) -> Verdict:
    """A step whose children or successor cannot be enqueued."""
    jobs = step.children if step.successor is None else (*step.children, step.successor)
    error = refusal(jobs, told)
    return refused(str(error), other=None if isinstance(error, MissingAttribute) else id_of(told[2]))


def completion_words(job_id: str, step: Finish) -> list[Word]:
    """A completion from outside, as the script reads it."""
    return [ref_of(job_id), *step_words(step)]


def completed(step: Finish, told: Any) -> Verdict:
    """What became of it."""
    if not isinstance(told, int) and told[1] in {b"attribute", b"blocker", b"unique"}:
        return _cannot_come(step, told[1:])
    return operated([told])[0]


_REASONS = {
    b"final": "it is final already",
    b"not final": "it is not final",
    b"not scheduled": "it is not scheduled",
    b"not running": "it is not running",
    b"gone": "job {other}, which it waits for, is gone",
    b"unique": "job {other} holds its unique key",
    b"handed over": "it has handed over to job {other}",
}


def operated(told: Iterable[Any]) -> list[Verdict]:
    """What became of each job that an operator has acted on."""
    return [_PLAIN[verdict] if isinstance(verdict, int) else _stands_in_the_way(*verdict[1:]) for verdict in told]


def _stands_in_the_way(reason: bytes, number: int, ref: bytes | None = None) -> Verdict:
    other = None if ref is None else id_of(ref)
    state: State = STATES[number]
    in_the_way = None if reason == b"handed over" else other
    return refused(_REASONS[reason].format(other=other), state=state, other=in_the_way)
