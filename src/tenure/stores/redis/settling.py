"""Encodes settlements for the scripts, and decodes the verdicts of settlements and operators' calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from tenure.core.job import State
from tenure.core.lifecycle import Finish
from tenure.stores.redis.encoding import ScriptArg, ref_of_lease, token_bytes, transition_args
from tenure.stores.redis.enqueueing import refusal
from tenure.stores.redis.records import STATES, id_of, ref_of
from tenure.stores.redis.replies import Refused
from tenure.stores.values import (
    ALREADY_FINAL,
    LEASE_LOST,
    NOT_FINAL,
    NOT_FOUND,
    NOT_RUNNING,
    NOT_SCHEDULED,
    OK,
    BlockerGone,
    Refusal,
    Settlement,
    UniqueHeld,
    Verdict,
    handed_over,
    refused,
    refused_by,
)

__all__ = ["args", "completion_args", "completion_verdict", "operator_verdicts", "verdicts"]

_BY_CODE = (OK, LEASE_LOST, NOT_FOUND)
"""Verdicts by their `Code`."""

_OF_NEW_JOBS = {Refused.UNIQUE, Refused.BLOCKER, Refused.ATTRIBUTE}


def args(settlements: Iterable[Settlement]) -> list[ScriptArg]:
    """The arguments of settlements, in groups of the same queue and worker."""
    groups = [(of, list(group)) for of, group in groupby(settlements, _queue_and_worker)]
    found: list[ScriptArg] = [len(groups)]
    for (queue, worker), group in groups:
        found += (queue, worker or "", len(group))
        for lease, transition in group:
            found += (ref_of_lease(lease), token_bytes(lease.token), *transition_args(transition))
    return found


def _queue_and_worker(settlement: Settlement) -> tuple[str, str | None]:
    job = settlement[0].job
    return job.queue, job.worker


def verdicts(settlements: Sequence[Settlement], reply: Sequence[Any]) -> list[Verdict]:
    """The verdict of each settlement."""
    return [
        _BY_CODE[verdict] if isinstance(verdict, int) else _refused(settlement, verdict)
        for settlement, verdict in zip(settlements, reply, strict=True)
    ]


def _refused(settlement: Settlement, reply: Sequence[Any]) -> Verdict:
    transition = settlement[1]
    assert isinstance(transition, Finish)
    return _new_jobs_refused(transition, reply[1:])


def _new_jobs_refused(transition: Finish, reply: Sequence[Any]) -> Verdict:
    """The verdict on a transition whose children or successor cannot be enqueued."""
    jobs = transition.children if transition.successor is None else (*transition.children, transition.successor)
    return refused_by(refusal(jobs, reply))


def completion_args(job_id: str, transition: Finish) -> list[ScriptArg]:
    """The arguments of a completion from outside."""
    return [ref_of(job_id), *transition_args(transition)]


def completion_verdict(transition: Finish, reply: Any) -> Verdict:
    """The verdict of a completion from outside."""
    if not isinstance(reply, int) and reply[1].decode() in _OF_NEW_JOBS:
        return _new_jobs_refused(transition, reply[1:])
    return operator_verdicts([reply])[0]


_REFUSALS: Mapping[Refused, Callable[..., Refusal]] = {
    Refused.FINAL: lambda: ALREADY_FINAL,
    Refused.NOT_FINAL: lambda: NOT_FINAL,
    Refused.NOT_SCHEDULED: lambda: NOT_SCHEDULED,
    Refused.NOT_RUNNING: lambda: NOT_RUNNING,
    Refused.BLOCKER_GONE: BlockerGone,
    Refused.UNIQUE: UniqueHeld,
    Refused.HANDED_OVER: handed_over,
}


def operator_verdicts(reply: Iterable[Any]) -> list[Verdict]:
    """The verdict of each job that an operator has acted on."""
    return [_BY_CODE[verdict] if isinstance(verdict, int) else _operator_refused(*verdict[1:]) for verdict in reply]


def _operator_refused(word: bytes, number: int, *refs: bytes) -> Verdict:
    state: State = STATES[number]
    return refused(_REFUSALS[Refused(word.decode())](*map(id_of, refs)), state=state)
