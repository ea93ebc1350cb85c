"""AttemptFailure and ErrorInfo of an exception: text of bounded length, in characters that every store accepts."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tenure.core.escape import escaped
from tenure.core.job import ErrorInfo
from tenure.core.lifecycle import Finish, Park, Transition

__all__ = [
    "AttemptFailure",
    "attempt_failure",
    "bounded",
    "describe_exception",
    "error_summary",
    "remote_exception",
    "since_the_job",
    "storable",
]

MESSAGE = 2_000
"""Characters of a message that are stored, from its beginning."""

TRACEBACK = 8_000
"""Characters of a traceback that are stored, up to its end, where the exception was raised."""

FRAMES = 60
"""The most frames of a traceback that are formatted; a recursion error has a thousand."""

_TENURE = Path(__file__).parents[1]
_OURS = tuple(str(_TENURE / room) for room in ("worker", "hooks", "django", "inline.py"))
"""Folders and files of the frames between the worker and the function of a job; these are left out of tracebacks."""


class AttemptFailure(NamedTuple):
    """The exception that an attempt failed with, as a log record carries it."""

    error: BaseException
    frames: TracebackType | None
    """Its traceback from the job's function on; None if it was raised in another process."""

    trace: str
    """Its traceback as text."""


def describe_exception(error: BaseException) -> ErrorInfo:
    """Describe any exception as text, also one whose `__str__` raises, with a message of 50 MB, or if memory has run out."""
    message = _message(error)
    try:
        frames = since_the_job(error.__traceback__)
        description = traceback.TracebackException(type(error), error, frames, limit=-FRAMES, compact=True)
        trace = "".join(description.format())
    except BaseException as unreadable:  # noqa: BLE001  (stands in place of the traceback)
        trace = f"<its traceback cannot be read: {type(unreadable).__name__}>"
    return ErrorInfo(type(error).__name__, bounded(message), _end_of(trace))


def error_summary(error: BaseException | ErrorInfo) -> str:
    """The type and the first 200 characters of the message, on one line, for the log."""
    kind, message = (
        (error.type, error.message) if isinstance(error, ErrorInfo) else (type(error).__name__, _message(error))
    )
    return escaped(f"{kind}: {message[:200]}")


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as unreadable:  # noqa: BLE001  (stands in place of the message)
        return f"<its message cannot be read: __str__ raised {type(unreadable).__name__}>"


class RemoteError(Exception):
    """Stands for an exception that stays in the child process that raised it; has the name of its type and its message."""


class RemoteTraceback(Exception):
    """The cause of a `RemoteError`: holds the traceback as the child process formatted it."""


def remote_exception(error: ErrorInfo | None) -> BaseException | None:
    """An exception made from the error that a child process reported; None if it reported none."""
    if error is None:
        return None
    raised: BaseException = type(error.type, (RemoteError,), {})(error.message)
    if error.traceback:
        raised.__cause__ = RemoteTraceback(f'\n"""\n{error.traceback}"""')
    return raised


def attempt_failure(error: BaseException, transition: Transition) -> AttemptFailure | None:
    """The failure to log for the exception that an attempt failed with; None if it has no traceback."""
    info = None if isinstance(transition, Park) else transition.error
    trace = None if info is None else info.traceback
    if trace is None and isinstance(transition, Finish) and error.__traceback__ is not None:
        trace = describe_exception(error).traceback  # an answer (`Fail`, `Retry`) is stored without a traceback
    return AttemptFailure(error, since_the_job(error.__traceback__), trace) if trace else None


def bounded(message: str) -> str:
    """The message as every store accepts it, cut and marked as cut if it is longer than `MESSAGE`."""
    kept = storable(str(message[:MESSAGE]))
    return kept if len(message) <= MESSAGE else f"{kept}… [cut, it has {len(message):,} characters]"


def _end_of(trace: str) -> str:
    kept = storable(trace[-TRACEBACK:])
    return kept if len(trace) <= TRACEBACK else f"[cut, it has {len(trace):,} characters] …{kept}"


def storable(text: str) -> str:
    """The text with those characters escaped that some store refuses."""
    # PostgreSQL stores no NUL, and no store accepts half of a surrogate pair.
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def since_the_job(frames: TracebackType | None) -> TracebackType | None:
    """The traceback without the worker's frames at its beginning; all of it if it has no other frames."""
    job = frames
    while job is not None and job.tb_frame.f_code.co_filename.startswith(_OURS):
        job = job.tb_next
    return job or frames
