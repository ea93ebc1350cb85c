"""Attempts that have come to their end, as the steps read them, and what they say to that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tenure.core.job import NewJob, State, Writes
from tenure.core.lifecycle import Finish, Park, Requeue
from tenure.errors import BlockerNotFound, MissingAttribute, UniqueConflict
from tenure.stores.postgres.records import are_alike, dumps, is_special, new_fields, stored, text_of, written
from tenure.stores.values import LEASE_LOST, NOT_FOUND, OK, Settlement, Verdict, awaited_inside, refused

__all__ = ["AGAIN", "LOST", "completed", "ending", "in_words", "operated", "refusal", "values", "verdicts"]

_loads = msgspec.json.Decoder().decode
LOST = "lease_lost"
"""The word for a job whose lease was lost; nothing is leased along with it."""

_PLAIN = {"ok": OK, LOST: LEASE_LOST, "not_found": NOT_FOUND}
_NO_ARGUMENTS = b"{}"

AGAIN = "again"
"""What `settle_all` says to a step that it could not do together with others: it is to be put in words."""


def values(settlements: Sequence[Settlement]) -> list[Any]:
    """Settlements as `settle_all` reads them, after the time."""
    found = in_words(settlements, plainly=_plain)
    return found + (_of_runs(settlements, found) if any(lease.job.run_id for lease, _ in settlements) else _NO_RUNS)


def in_words(
    settlements: Sequence[Settlement],
    plainly: Callable[[Finish], bool] = lambda step: not _comes_with(step),
    *,
    known: bool = False,
) -> list[Any]:
    """Settlements as `settle` reads them: an array for each of its parameters, after the time.

    Those that do not end `plainly` are put in words that say everything, and so are those that a job waits for which comes with
    another: they end in their turn. `known`: the id of a job that comes with one of them may exist.
    """
    awaited = awaited_inside(settlements)
    found: list[Any] = [[] for _ in range(9)]
    numbers, ids, fences, nonces, states, results, errors, steps, payloads = found
    for lease, step in settlements:
        numbers.append(lease.number)
        ids.append(lease.job.id)
        fences.append(lease.token.fence)
        nonces.append(lease.token.nonce)
        if isinstance(step, Finish):
            plain = plainly(step) and not (awaited and (lease.job.id in awaited or lease.job.run_id in awaited))
            states.append(step.state if plain else None)
            results.append(stored(step.result))
            errors.append(text_of(step.left))
            steps.append(None if plain else ending(step, payloads, known=known))
        else:
            states.append(None)
            results.append(None)
            errors.append(text_of(step.error) if isinstance(step, Requeue) else None)
            steps.append(_words(step))
    return found


_NO_RUNS: list[Any] = [None] * 11


def _of_runs(settlements: Sequence[Settlement], found: list[Any]) -> list[Any]:
    """What there is to say of steps of runs that end plainly."""
    states = found[4]
    runs = [lease.job.run_id for lease, _ in settlements]
    successors: list[str | None] = []
    coming: list[dict[str, Any]] = []
    needs: list[tuple[int, str]] = []
    attributes: list[tuple[int, str, str]] = []
    lookups: list[tuple[int, str, str | None]] = []
    for at, ((lease, step), state) in enumerate(zip(settlements, states, strict=True), 1):
        successor = step.successor if state is not None and isinstance(step, Finish) else None
        successors.append(None if successor is None else successor.id)
        if state is None or not isinstance(step, Finish):
            continue
        if step.writes is not None:
            attributes += [(at, name, value) for name, value in step.writes.attributes.items()]
            for name, values in step.writes.lookups.items():
                lookups += [(at, name, value) for value in values or (None,)]
        if successor is not None:
            coming.append(new_fields(successor) | {"at": at})
            needs += [(at, name) for name in _needed(successor, step.writes, lease.job.attributes)]
    return [runs, successors, dumps(coming), *_lists(needs, 2), *_lists(attributes, 3), *_lists(lookups, 3)]


def _lists(rows: Sequence[tuple[Any, ...]], number: int) -> list[list[Any]]:
    return [[row[at] for row in rows] for at in range(number)]


def _comes_with(step: Finish) -> bool:
    """Whether anything else comes with this end."""
    return bool(step.children or step.successor or step.writes)


def _plain(step: Finish) -> bool:
    """Whether nothing can be said against what comes with this end but that it needs an attribute."""
    if step.children:
        return False
    successor = step.successor
    return successor is None or (
        successor.unique is None and not successor.after and successor.payload == _NO_ARGUMENTS
    )


def _needed(successor: NewJob, writes: Writes | None, given: Mapping[str, str] | None = None) -> list[str]:
    """The attributes that the run must have already, besides those that are written now or were given with the lease."""
    if successor.step is None:
        return []
    known = {**(given or {}), **(writes.attributes if writes else {})}
    return [name for name in successor.step.needs if name not in known]


def ending(step: Finish, payloads: list[bytes], *, known: bool = False) -> str:
    """All that an end brings, in words; the payloads of the jobs that come with it are added to the others.

    `known`: the id of one of them may exist.
    """
    words: dict[str, Any] = {"kind": "finish", "state": step.state, **written(step.writes)}
    coming = step.children if step.successor is None else (*step.children, step.successor)
    if coming:
        plain = (
            0 if known or is_special(step.children) or any(job.step for job in step.children) else len(step.children)
        )
        words["first"] = len(payloads) + 1
        if plain and are_alike(step.children):
            words |= {"alike": new_fields(step.children[0]), "ids": [job.id for job in step.children]}
        elif plain:
            words["plain"] = [new_fields(job) for job in step.children]
        payloads += [job.payload for job in coming]
        if others := [new_fields(job) for job in coming[plain:]]:
            words["jobs"] = others
        if plain and step.successor is not None and _awaits(step.successor, step.children):
            after = list(others[-1].pop("after"))
            words["awaits"] = [] if after == words.get("ids") else after  # none: all that have come
    if step.successor is not None:
        words |= {"hands": True, "needs": _needed(step.successor, step.writes)}
    return dumps(words)


def _awaits(successor: NewJob, children: Sequence[NewJob]) -> bool:
    """Whether it waits, and for nothing but these."""
    return (
        bool(successor.after) and successor.unique is None and {job.id for job in children}.issuperset(successor.after)
    )


def _words(step: Requeue | Park) -> str:
    match step:
        case Requeue():
            return dumps(
                {
                    "kind": "requeue",
                    "delay": step.delay,
                    "run_at": step.run_at,
                    "counts": step.counts,
                    "front": step.front,
                    "missed": step.missed,
                }
            )
        case Park():
            return dumps({"kind": "park", "timeout": step.timeout, "on_timeout": step.on_timeout})


def verdicts(settlements: Sequence[Settlement], told: Sequence[str] | None) -> list[Verdict]:
    """What became of each settlement."""
    if told is None:
        return [OK] * len(settlements)
    return [_PLAIN.get(verdict) or _refused(verdict) for verdict in told]


def completed(told: str) -> Verdict:
    """What became of a job that was to be completed from outside."""
    if verdict := _PLAIN.get(told):
        return verdict
    return _refused(told) if told.startswith("[") else refused("it is final already", state=State(told))


def _refused(told: str) -> Verdict:
    error = refusal(_loads(told))
    match error:
        case UniqueConflict():
            return refused(str(error), other=error.holder)
        case BlockerNotFound():
            return refused(str(error), other=error.blocker)
        case MissingAttribute():
            return refused(str(error))


def refusal(told: Sequence[str]) -> UniqueConflict | BlockerNotFound | MissingAttribute:
    """Why jobs cannot be enqueued."""
    match told:
        case [blocker]:
            return BlockerNotFound(blocker)
        case [task, attribute]:
            return MissingAttribute(task, attribute)
        case _:
            return UniqueConflict(*told)


_REASONS = {
    "not final": "it is not final",
    "handed over": "it has handed over to job {}",
    "gone": "job {}, which it waits for, is gone",
    "unique": "job {} holds its unique key",
}


def operated(told: Iterable[str], reason: str = "") -> list[Verdict]:
    """What became of each job that an operator has acted on. `reason`: what a state alone stands for, in place of a verdict."""
    return [_PLAIN.get(verdict) or _in_the_way(verdict, reason) for verdict in told]


def _in_the_way(verdict: str, reason: str) -> Verdict:
    if not verdict.startswith("["):
        return refused(reason, state=State(verdict))
    state, why, *other = _loads(verdict)
    return refused(
        _REASONS[why].format(*other),
        state=State(state),
        other=other[0] if other and why != "handed over" else None,
    )
