"""An exception as text that every store can hold: bounded, and without what some of them refuse."""

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
    "storable",
]

MESSAGE = 2_000
"""Characters of a message that are kept: its beginning."""

TRACEBACK = 8_000
"""Characters of a traceback that are kept: its end, where the exception was raised."""

FRAMES = 60
"""Frames of a traceback that are formatted at most; a recursion has a thousand."""

_TENURE = Path(__file__).parents[1]
_OURS = str(_TENURE / "worker"), str(_TENURE / "hooks")
"""Where the frames between the worker and the function of a job are."""


class AttemptFailure(NamedTuple):
    """The exception that an attempt has failed with, as a log record carries it."""

    error: BaseException
    frames: TracebackType | None
    """Where it was raised, from the job's function on; None if it was raised in another process."""

    trace: str
    """Its traceback as text."""


def describe_exception(error: BaseException) -> ErrorInfo:
    """Describe an exception, however ill it behaves: one whose `__str__` raises, a message of 50 MB, no memory left."""
    message = _message(error)
    try:
        frames = _since_the_job(error.__traceback__)
        description = traceback.TracebackException(type(error), error, frames, limit=-FRAMES, compact=True)
        trace = "".join(description.format())
    except BaseException as unreadable:  # noqa: BLE001  (told in place of the traceback)
        trace = f"<its traceback cannot be read: {type(unreadable).__name__}>"
    return ErrorInfo(type(error).__name__, bounded(message), _end_of(trace))


def error_summary(error: BaseException | ErrorInfo) -> str:
    """The type and the beginning of the message, on one line, for the log."""
    kind, message = (
        (error.type, error.message) if isinstance(error, ErrorInfo) else (type(error).__name__, _message(error))
    )
    return escaped(f"{kind}: {message[:200]}")


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as unreadable:  # noqa: BLE001  (told in place of the message)
        return f"<its message cannot be read: __str__ raised {type(unreadable).__name__}>"


class RemoteError(Exception):
    """Stands for an exception that was raised in a child process, which has kept it: it has its type's name and its message."""


class RemoteTraceback(Exception):
    """The cause of a `RemoteError`: the traceback, as the child process has written it."""


def remote_exception(error: ErrorInfo | None) -> BaseException | None:
    """An exception for what a child process tells of one; None if it tells nothing."""
    if error is None:
        return None
    raised: BaseException = type(error.type, (RemoteError,), {})(error.message)
    if error.traceback:
        raised.__cause__ = RemoteTraceback(f'\n"""\n{error.traceback}"""')
    return raised


def attempt_failure(error: BaseException, transition: Transition) -> AttemptFailure | None:
    """What the log says of an exception that an attempt has failed with; None if it has no traceback."""
    info = None if isinstance(transition, Park) else transition.error
    trace = None if info is None else info.traceback
    if trace is None and isinstance(transition, Finish) and error.__traceback__ is not None:
        trace = describe_exception(error).traceback  # of an answer, whose record has none
    return AttemptFailure(error, _since_the_job(error.__traceback__), trace) if trace else None


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
    while job is not None and job.tb_frame.f_code.co_filename.startswith(_OURS):
        job = job.tb_next
    return job or frames
