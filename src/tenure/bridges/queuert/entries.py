"""Reads rows of Queuert as entries, and decides what the end of a job makes of its row. Pure: no I/O."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from tenure.bridges.custody import Custody, End
from tenure.core.codec import MAX_DEPTH, check_limits, reason
from tenure.core.job import ErrorInfo, State
from tenure.errors import PayloadError

__all__ = ["AGAIN", "CONTINUE", "Again", "Complete", "Entry", "custody_of", "read_entry", "verdict_of"]

CONTINUE = "$continue"
AGAIN = "$again"
"""The first keys of the results of jobs that gave `Continue`, or asked to run again."""

_HOLD = re.compile(r"tenure(-returning)?:(.*):([0-9a-f-]{36})", re.DOTALL)


class Entry(msgspec.Struct, frozen=True):
    """A row as a worker takes it."""

    row: str
    """The id of the row."""

    attempt: int
    """How often it was taken, with this time."""

    input: msgspec.Raw = msgspec.Raw(b"null")
    results: msgspec.Raw = msgspec.Raw(b"null")
    """The outputs of the chains that it waited for, as an array; null if it waited for none."""


class Complete(NamedTuple):
    """The row is completed, with an output or with the next row of its chain."""

    id: str
    output: str | None
    next_type: str | None = None
    next_input: str | None = None


class Again(NamedTuple):
    """The row runs again: after `delay` seconds, at a time, or after the backoff of its attempts."""

    id: str
    reason: str
    delay: float | None = None
    at: float | None = None


def read_entry(entry: bytes) -> Entry:
    """The row that an entry describes. `PayloadError` if its input is beyond the limits of Tenure's payloads."""
    found = msgspec.json.decode(entry, type=Entry)
    try:
        values = msgspec.json.decode(found.input), msgspec.json.decode(found.results)
    except Exception as error:
        raise PayloadError(f"the input of the row cannot be read: {reason(error)}") from error
    check_limits(list(values), MAX_DEPTH + 1)
    return found


def custody_of(leased_by: str, type_name: str, entry: str) -> Custody:
    """The custody that a row with this holder stands for."""
    hold = _HOLD.fullmatch(leased_by)
    assert hold is not None  # the statements select no other rows
    return Custody(hold[3], hold[2], type_name, entry.encode(), returning=hold[1] is not None)


def verdict_of(end: End) -> Complete | Again:
    """What the end of a job makes of its row. Queuert knows no failed rows: they run again until they succeed."""
    if end.state is not State.SUCCEEDED:
        return Again(end.id, _reason(end.state, end.error))
    result = end.result or "null"
    if result.startswith(f'{{"{CONTINUE}":'):
        following = msgspec.json.decode(result, type=_Following)
        return Complete(end.id, None, following.type, bytes(following.input).decode())
    if result.startswith(f'{{"{AGAIN}":'):
        wish = msgspec.json.decode(result, type=_Wish)
        return Again(end.id, wish.reason, wish.after, wish.at)
    return Complete(end.id, result)


class _Following(msgspec.Struct):
    type: str = msgspec.field(name=CONTINUE)
    input: msgspec.Raw


class _Wish(msgspec.Struct):
    reason: str = msgspec.field(name=AGAIN)
    after: float | None = None
    at: float | None = None


def _reason(state: State, error: ErrorInfo | None) -> str:
    if error is None:
        return f"the job was {state} in Tenure"
    first = f"{error.type}: {error.message}" if error.message else error.type
    text = f"{first}\n{error.traceback}" if error.traceback else first
    return text.replace("\0", "\\x00")  # which PostgreSQL does not store
