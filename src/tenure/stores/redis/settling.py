"""Attempts that have come to their end, as the scripts read them, and what they say to that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from tenure.job import State
from tenure.lifecycle import Finish
from tenure.stores.base import LEASE_LOST, NOT_FOUND, OK, Settlement, Verdict, refused
from tenure.stores.redis.enqueueing import refusal
from tenure.stores.redis.records import STATES, Word, id_of, ref_of_lease, step_words, token_word

__all__ = ["operated", "verdicts", "words"]

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
    error = refusal(step.children, told[1:])
    return refused(str(error), other=id_of(told[3]))


_REASONS = {
    b"final": "it is final already",
    b"not final": "it is not final",
    b"not scheduled": "it is not scheduled",
    b"gone": "job {other}, which it waits for, is gone",
    b"unique": "job {other} holds its unique key",
}


def operated(told: Iterable[Any]) -> list[Verdict]:
    """What became of each job that an operator has acted on."""
    return [_PLAIN[verdict] if isinstance(verdict, int) else _stands_in_the_way(*verdict[1:]) for verdict in told]


def _stands_in_the_way(reason: bytes, number: int, ref: bytes | None = None) -> Verdict:
    other = None if ref is None else id_of(ref)
    state: State = STATES[number]
    return refused(_REASONS[reason].format(other=other), state=state, other=other)
