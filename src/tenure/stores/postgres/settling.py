"""Attempts that have come to their end, as the steps read them, and what they say to that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tenure.errors import BlockerNotFound, UniqueConflict
from tenure.job import State
from tenure.lifecycle import Finish, Park, Requeue, Transition
from tenure.stores.base import LEASE_LOST, NOT_FOUND, OK, Settlement, Verdict, refused
from tenure.stores.postgres.records import dumps, new_fields, stored, text_of

__all__ = ["operated", "refusal", "values", "verdicts"]

_loads = msgspec.json.Decoder().decode
_PLAIN = {"ok": OK, "lease_lost": LEASE_LOST, "not_found": NOT_FOUND}


def values(settlements: Sequence[Settlement]) -> list[list[Any]]:
    """Settlements as `settle` reads them: an array for each of its parameters, after the time."""
    found: list[list[Any]] = [[] for _ in range(9)]
    numbers, ids, fences, nonces, states, results, errors, steps, payloads = found
    for lease, step in settlements:
        numbers.append(lease.number)
        ids.append(lease.job.id)
        fences.append(lease.token.fence)
        nonces.append(lease.token.nonce)
        if isinstance(step, Finish):
            states.append(None if step.children else step.state)
            results.append(stored(step.result))
            errors.append(text_of(step.error))
            steps.append(_with_children(step, payloads) if step.children else None)
        else:
            states.append(None)
            results.append(None)
            errors.append(text_of(step.error) if isinstance(step, Requeue) else None)
            steps.append(_words(step))
    return found


def _with_children(step: Finish, payloads: list[bytes]) -> str:
    first = len(payloads) + 1
    payloads += [child.payload for child in step.children]
    children = [new_fields(child) for child in step.children]
    return dumps({"kind": "finish", "state": step.state, "first": first, "children": children})


def _words(step: Transition) -> str:
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
        case Park(timeout):
            return dumps({"kind": "park", "timeout": timeout})
        case Finish():
            raise AssertionError("an end without children needs no words")


def verdicts(settlements: Sequence[Settlement], told: Sequence[str] | None) -> list[Verdict]:
    """What became of each settlement."""
    if told is None:
        return [OK] * len(settlements)
    return [_PLAIN.get(verdict) or _refused(_loads(verdict)) for verdict in told]


def _refused(told: Sequence[str]) -> Verdict:
    error = refusal(told)
    return refused(str(error), other=told[-1])


def refusal(told: Sequence[str]) -> UniqueConflict | BlockerNotFound:
    """Why jobs cannot be enqueued."""
    return UniqueConflict(*told) if len(told) == 3 else BlockerNotFound(*told)


_REASONS = {
    "not final": "it is not final",
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
    return refused(_REASONS[why].format(*other), state=State(state), other=other[0] if other else None)
