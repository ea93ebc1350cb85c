"""The codes and words that scripts answer with or write into records: one table for Python and Lua.

A script names them as Python does, `Code.OK` or `Refused.FINAL`. `with_literals` replaces each name by its literal when
the script is loaded, because Lua would build a table again at every call.
"""

from __future__ import annotations

import re
from enum import IntEnum, StrEnum

__all__ = ["Code", "RecordedError", "Refused", "with_literals"]


class Code(IntEnum):
    """What became of one item of a batch. A refusal is an array: `REFUSED`, a word of `Refused`, then its details."""

    OK = 0
    LEASE_LOST = 1
    NOT_FOUND = 2
    REFUSED = 3


class Refused(StrEnum):
    """Why a script refused an item or a whole call."""

    UNIQUE = "unique"
    """Another job owns the unique key."""

    BLOCKER = "blocker"
    """A new job waits for a job that does not exist."""

    ATTRIBUTE = "attribute"
    """A new step needs an attribute that its run does not have."""

    FINAL = "final"
    NOT_FINAL = "not final"
    NOT_SCHEDULED = "not scheduled"
    NOT_RUNNING = "not running"
    HANDED_OVER = "handed over"
    """The job is a step that has a successor."""

    BLOCKER_GONE = "gone"
    """The blocker of an open edge of the job no longer exists."""


class RecordedError(StrEnum):
    """The first word of an error that a script writes into a record. Errors of workers are JSON instead."""

    EXPIRED = "expired"
    WAIT_TIMEOUT = "wait_timeout"
    LOST = "lost"
    """Followed by the number of losses, and by the reason if the caller gave one."""

    BLOCKER_FAILED = "blocker_failed"
    """Followed by how the blocker ended and by its id."""


_TABLES: dict[str, type[Code | Refused | RecordedError]] = {
    table.__name__: table for table in (Code, Refused, RecordedError)
}
_NAME = re.compile(rf"\b({'|'.join(_TABLES)})\.(\w+)")


def with_literals(source: str) -> str:
    """A script with the literal of each code and word in place of its name; `KeyError` for an unknown name."""
    return _NAME.sub(lambda name: repr(_TABLES[name[1]][name[2]].value), source)
