"""Encodes settlements as the arguments of `settle_all` and `settle`, and decodes their verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tenure.core.job import JobRecord, NewJob, State, Writes
from tenure.core.lifecycle import Finish, Park, Requeue
from tenure.errors import BlockerNotFound, MissingAttribute, UniqueConflict
from tenure.stores.postgres.records import (
    are_alike,
    dumps,
    encode_error,
    encode_result,
    is_special,
    new_fields,
    writes_fields,
)
from tenure.stores.values import (
    ALREADY_FINAL,
    LEASE_LOST,
    NOT_FINAL,
    NOT_FOUND,
    OK,
    BlockerGone,
    Refusal,
    Settlement,
    UniqueHeld,
    Verdict,
    awaited_inside,
    handed_over,
    refused,
    refused_by,
)

__all__ = [
    "AGAIN",
    "LOST",
    "completion_verdict",
    "finish_json",
    "operator_verdicts",
    "refusal",
    "settle_all_arguments",
    "settle_arguments",
    "verdicts",
]

_loads = msgspec.json.Decoder().decode
LOST = "lease_lost"
"""The verdict on a lease that was lost. `lease_work` leases nothing together with one."""

_PLAIN = {"ok": OK, LOST: LEASE_LOST, "not_found": NOT_FOUND}
_NO_ARGUMENTS = b"{}"

AGAIN = "again"
"""The verdict of `settle_all` on a transition that it could not apply with the others: it must be sent again as JSON."""


def settle_all_arguments(settlements: Sequence[Settlement]) -> list[Any]:
    """The arguments of `settle_all` after the time."""
    found = settle_arguments(settlements, is_plain=_is_plain)
    return found + (
        _run_arguments(settlements, found) if any(lease.job.run_id for lease, _ in settlements) else _NO_RUNS
    )


def _wanted_keys(settlements: Sequence[Settlement]) -> set[tuple[str, str]]:
    """Task and unique key of each new job of these settlements that has one; empty for a single settlement."""
    found: set[tuple[str, str]] = set()
    if len(settlements) > 1:
        for _, transition in settlements:
            if isinstance(transition, Finish):
                coming = (*transition.children, *(() if transition.successor is None else (transition.successor,)))
                found.update((job.task, job.unique) for job in coming if job.unique is not None)
    return found


def _may_free(job: JobRecord, keys: set[tuple[str, str]]) -> bool:
    """Whether the end of this job may free one of these keys. A later step may, because it ends the run and frees its key."""
    if job.run_id is not None and job.run_id != job.id:
        return True
    return job.unique is not None and (job.task, job.unique) in keys


def settle_arguments(
    settlements: Sequence[Settlement],
    is_plain: Callable[[Finish], bool] = lambda transition: not _brings_more(transition),
    *,
    known: bool = False,
) -> list[Any]:
    """The arguments of `settle` after the time: one array for each of its parameters.

    A Finish for which `is_plain` is false is sent as JSON. So is one that a new job of the same call waits for, and one that
    may free a unique key that such a job wants, because they must end in their turn. `known`: the id of a new job may exist already.
    """
    awaited, wanted_keys = awaited_inside(settlements), _wanted_keys(settlements)
    found: list[Any] = [[] for _ in range(9)]
    numbers, ids, fences, nonces, states, results, errors, transitions, payloads = found
    for lease, transition in settlements:
        numbers.append(lease.number)
        ids.append(lease.job.id)
        fences.append(lease.token.fence)
        nonces.append(lease.token.nonce)
        if isinstance(transition, Finish):
            plain = (
                is_plain(transition)
                and not (awaited and (lease.job.id in awaited or lease.job.run_id in awaited))
                and not (wanted_keys and _may_free(lease.job, wanted_keys))
            )
            states.append(transition.state if plain else None)
            results.append(encode_result(transition.result))
            errors.append(encode_error(transition.left))
            transitions.append(None if plain else finish_json(transition, payloads, known=known))
        else:
            states.append(None)
            results.append(None)
            errors.append(encode_error(transition.error) if isinstance(transition, Requeue) else None)
            transitions.append(_other_json(transition))
    return found


_NO_RUNS: list[Any] = [None] * 11


def _run_arguments(settlements: Sequence[Settlement], found: list[Any]) -> list[Any]:
    """The arguments of `settle_all` for steps that end plainly."""
    states = found[4]
    runs = [lease.job.run_id for lease, _ in settlements]
    successors: list[str | None] = []
    coming: list[dict[str, Any]] = []
    needs: list[tuple[int, str]] = []
    attributes: list[tuple[int, str, str]] = []
    lookups: list[tuple[int, str, str | None]] = []
    for at, ((lease, transition), state) in enumerate(zip(settlements, states, strict=True), 1):
        successor = transition.successor if state is not None and isinstance(transition, Finish) else None
        successors.append(None if successor is None else successor.id)
        if state is None or not isinstance(transition, Finish):
            continue
        if transition.writes is not None:
            attributes += [(at, name, value) for name, value in transition.writes.attributes.items()]
            for name, values in transition.writes.lookups.items():
                lookups += [(at, name, value) for value in values or (None,)]
        if successor is not None:
            coming.append(new_fields(successor) | {"at": at})
            needs += [(at, name) for name in _needed(successor, transition.writes, lease.job.attributes)]
    return [runs, successors, dumps(coming), *_columns(needs, 2), *_columns(attributes, 3), *_columns(lookups, 3)]


def _columns(rows: Sequence[tuple[Any, ...]], number: int) -> list[list[Any]]:
    return [[row[at] for row in rows] for at in range(number)]


def _brings_more(transition: Finish) -> bool:
    """Whether this Finish brings children, a successor or writes."""
    return bool(transition.children or transition.successor or transition.writes)


def _is_plain(transition: Finish) -> bool:
    """Whether this Finish can only be refused because its successor needs an attribute."""
    if transition.children:
        return False
    successor = transition.successor
    return successor is None or (
        successor.unique is None and not successor.after and successor.payload == _NO_ARGUMENTS
    )


def _needed(successor: NewJob, writes: Writes | None, given: Mapping[str, str] | None = None) -> list[str]:
    """The attributes that the run must have, apart from those written now or carried by the lease."""
    if successor.step is None:
        return []
    known = {**(given or {}), **(writes.attributes if writes else {})}
    return [name for name in successor.step.needs if name not in known]


def finish_json(transition: Finish, payloads: list[bytes], *, known: bool = False) -> str:
    """A Finish with all that it brings, as JSON. Appends the payloads of its new jobs to `payloads`.

    `known`: the id of a new job may exist already.
    """
    fields: dict[str, Any] = {"kind": "finish", "state": transition.state, **writes_fields(transition.writes)}
    coming = transition.children if transition.successor is None else (*transition.children, transition.successor)
    if coming:
        plain = (
            0
            if known or is_special(transition.children) or any(job.step for job in transition.children)
            else len(transition.children)
        )
        fields["first"] = len(payloads) + 1
        if plain and are_alike(transition.children):
            fields |= {"alike": new_fields(transition.children[0]), "ids": [job.id for job in transition.children]}
        elif plain:
            fields["plain"] = [new_fields(job) for job in transition.children]
        payloads += [job.payload for job in coming]
        if others := [new_fields(job) for job in coming[plain:]]:
            fields["jobs"] = others
        if plain and transition.successor is not None and _awaits(transition.successor, transition.children):
            after = list(others[-1].pop("after"))
            fields["awaits"] = [] if after == fields.get("ids") else after  # empty: all plain children
    if transition.successor is not None:
        fields |= {"hands": True, "needs": _needed(transition.successor, transition.writes)}
    return dumps(fields)


def _awaits(successor: NewJob, children: Sequence[NewJob]) -> bool:
    """Whether the successor waits, and only for these children."""
    return (
        bool(successor.after) and successor.unique is None and {job.id for job in children}.issuperset(successor.after)
    )


def _other_json(transition: Requeue | Park) -> str:
    match transition:
        case Requeue():
            return dumps(
                {
                    "kind": "requeue",
                    "delay": transition.delay,
                    "run_at": transition.run_at,
                    "counts": transition.counts,
                    "front": transition.front,
                    "missed": transition.missed,
                }
            )
        case Park():
            return dumps({"kind": "park", "timeout": transition.timeout, "on_timeout": transition.on_timeout})


def verdicts(settlements: Sequence[Settlement], answers: Sequence[str] | None) -> list[Verdict]:
    """The verdict on each settlement. `answers` is None if all are ok."""
    if answers is None:
        return [OK] * len(settlements)
    return [_PLAIN.get(verdict) or _refused(verdict) for verdict in answers]


def completion_verdict(answer: str) -> Verdict:
    """The verdict on a job that an operator completes."""
    if verdict := _PLAIN.get(answer):
        return verdict
    return _refused(answer) if answer.startswith("[") else refused(ALREADY_FINAL, state=State(answer))


def _refused(answer: str) -> Verdict:
    return refused_by(refusal(_loads(answer)))


def refusal(answer: Sequence[str]) -> UniqueConflict | BlockerNotFound | MissingAttribute:
    """The error for jobs that cannot be enqueued, from the details that the server sent."""
    match answer:
        case [blocker]:
            return BlockerNotFound(blocker)
        case [task, attribute]:
            return MissingAttribute(task, attribute)
        case _:
            return UniqueConflict(*answer)


_REFUSALS: Mapping[str, Callable[..., Refusal]] = {
    "not final": lambda: NOT_FINAL,
    "handed over": handed_over,
    "gone": BlockerGone,
    "unique": UniqueHeld,
}


def operator_verdicts(answers: Iterable[str], refusal: Refusal = ALREADY_FINAL) -> list[Verdict]:
    """The verdict on each job of an operator's call. `refusal`: why a job is refused if the answer is just its state."""
    return [_PLAIN.get(verdict) or _obstacle(verdict, refusal) for verdict in answers]


def _obstacle(verdict: str, refusal: Refusal) -> Verdict:
    if not verdict.startswith("["):
        return refused(refusal, state=State(verdict))
    state, why, *details = _loads(verdict)
    return refused(_REFUSALS[why](*details), state=State(state))
