"""An exception as text that every store can hold: bounded, and without what some of them refuse."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from tenure.job import ErrorInfo

__all__ = ["bounded", "error_info", "storable"]

MESSAGE = 2_000
"""Characters of a message that are kept: its beginning."""

TRACEBACK = 8_000
"""Characters of a traceback that are kept: its end, where the exception was raised."""

FRAMES = 60
"""Frames of a traceback that are formatted at most; a recursion has a thousand."""

_HERE = str(Path(__file__).parent)


def error_info(error: BaseException) -> ErrorInfo:
    """Describe an exception, however ill it behaves: one whose `__str__` raises, a message of 50 MB, no memory left."""
    kind = type(error).__name__
    try:
        message = str(error)
    except BaseException as unreadable:  # noqa: BLE001  (told in place of the message)
        message = f"<its message cannot be read: __str__ raised {type(unreadable).__name__}>"
    try:
        frames = _since_the_job(error.__traceback__)
        description = traceback.TracebackException(type(error), error, frames, limit=-FRAMES, compact=True)
        trace = "".join(description.format())
    except BaseException as unreadable:  # noqa: BLE001  (told in place of the traceback)
        trace = f"<its traceback cannot be read: {type(unreadable).__name__}>"
    return ErrorInfo(kind, bounded(message), _end_of(trace))


def bounded(message: str) -> str:
    """The message, cut and marked if it is long, without what some store could not hold."""
    kept = storable(str(message[:MESSAGE]))
    return kept if len(message) <= MESSAGE else f"{kept}… [cut, it has {len(message):,} characters]"


def _end_of(trace: str) -> str:
    kept = storable(trace[-TRACEBACK:])
    return kept if len(trace) <= TRACEBACK else f"[cut, it has {len(trace):,} characters] …{kept}"


def storable(text: str) -> str:
    """The text without what some store could not hold."""
    # PostgreSQL holds no NUL, and no store holds half of a surrogate pair.
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def _since_the_job(frames: TracebackType | None) -> TracebackType | None:
    """The traceback without the worker's own frames at its beginning; all of it if there is nothing else."""
    job = frames
    while job is not None and job.tb_frame.f_code.co_filename.startswith(_HERE):
        job = job.tb_next
    return job or frames
