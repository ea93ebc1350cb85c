"""Encodes settlements for the scripts, and decodes the verdicts of settlements and operators' calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from tenure.core.job import State
from tenure.core.lifecycle import Finish
from tenure.errors import MissingAttribute
from tenure.stores.redis.encoding import ScriptArg, ref_of_lease, token_bytes, transition_args
from tenure.stores.redis.enqueueing import refusal
from tenure.stores.redis.records import STATES, id_of, ref_of
from tenure.stores.redis.replies import Refused
from tenure.stores.values import LEASE_LOST, NOT_FOUND, OK, Settlement, Verdict, refused

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
    error = refusal(jobs, reply)
    return refused(str(error), other=None if isinstance(error, MissingAttribute) else id_of(reply[2]))


def completion_args(job_id: str, transition: Finish) -> list[ScriptArg]:
    """The arguments of a completion from outside."""
    return [ref_of(job_id), *transition_args(transition)]


def completion_verdict(transition: Finish, reply: Any) -> Verdict:
    """The verdict of a completion from outside."""
    if not isinstance(reply, int) and reply[1].decode() in _OF_NEW_JOBS:
        return _new_jobs_refused(transition, reply[1:])
    return operator_verdicts([reply])[0]


_REASONS = {
    Refused.FINAL: "it is final already",
    Refused.NOT_FINAL: "it is not final",
    Refused.NOT_SCHEDULED: "it is not scheduled",
    Refused.NOT_RUNNING: "it is not running",
    Refused.BLOCKER_GONE: "job {other}, which it waits for, is gone",
    Refused.UNIQUE: "job {other} holds its unique key",
    Refused.HANDED_OVER: "it has handed over to job {other}",
}


def operator_verdicts(reply: Iterable[Any]) -> list[Verdict]:
    """The verdict of each job that an operator has acted on."""
    return [_BY_CODE[verdict] if isinstance(verdict, int) else _operator_refused(*verdict[1:]) for verdict in reply]


def _operator_refused(word: bytes, number: int, ref: bytes | None = None) -> Verdict:
    reason = Refused(word.decode())
    other = None if ref is None else id_of(ref)
    state: State = STATES[number]
    in_the_way = None if reason is Refused.HANDED_OVER else other
    return refused(_REASONS[reason].format(other=other), state=state, other=in_the_way)
