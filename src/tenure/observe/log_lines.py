"""Formats log records as lines, for people or as JSON. One record is one line, and names the job it was made in."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import msgspec

from tenure.core.escape import escaped
from tenure.core.failure import AttemptFailure
from tenure.core.running import running
from tenure.events import Event

__all__ = ["FORMATS", "Bound", "Human", "Json", "Lines", "LogLine", "bind"]

BOUND = ("job_id", "task", "attempt", "worker")
"""Fields that a record made in a job has."""

TEXT = 10_000
"""Longest text, in characters, of a value that JSON cannot express."""

_KNOWN = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName", *BOUND}


LogLine = tuple[float, int, str, Event, AttemptFailure | None]
"""A line to write: time, level, escaped message, event, and the exception if there is one."""


class Bound(logging.Filter):
    """Adds to every record which job it was made in: `job_id`, `task`, `attempt`, `worker`. Drops no record.

    Outside of a job they are empty, so that a format may name them. The job is known by a context variable: on the loop, in
    threads and in child processes.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        fields = vars(record)
        ctx = running.get(None)
        if ctx is not None:
            job = ctx.job
            fields.setdefault("job_id", job.id)
            fields.setdefault("task", job.task)
            fields.setdefault("attempt", job.attempt)
            fields.setdefault("worker", ctx.worker_id)
        else:
            for name in BOUND:
                fields.setdefault(name, "")
        return True


def bind(*handlers: logging.Handler) -> None:
    """Add the job to the records of these handlers; without any, of the handlers of the root logger."""
    for handler in handlers or logging.root.handlers:
        if not any(isinstance(each, Bound) for each in handler.filters):
            handler.addFilter(Bound())


class Human(logging.Formatter):
    """For people. Escapes the message and every line of a traceback.

    A traceback is indented, so that it cannot pass for another record.
    """

    def __init__(
        self, fmt: str = "%(asctime)s %(levelname)-7s %(name)s  %(message)s", datefmt: str | None = "%H:%M:%S"
    ) -> None:
        super().__init__(fmt, datefmt)
        self._clock = (0, "")

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        parts = [self.formatMessage(record)]
        # Not cached in `exc_text`, as the standard formatter does: another handler would get the indented text.
        if record.exc_text:
            parts.append(_indented(record.exc_text))
        elif record.exc_info:
            parts.append(self.formatException(record.exc_info))
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return "\n".join(parts)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        line = super().formatMessage(record)
        fields = vars(record)
        if (job_id := fields.get("job_id")) and str(job_id) not in line:
            line += f"  [{fields.get('task')} #{fields.get('attempt')} {job_id}]"
        return escaped(line)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return _indented(stack_info)

    def line(self, name: str, log_line: LogLine) -> str:
        """What `format` returns for a record of this logger with this line and nothing else."""
        at, level, message, _, failure = log_line
        second = int(at)
        if second != self._clock[0]:
            self._clock = second, time.strftime("%H:%M:%S", time.localtime(second))
        line = f"{self._clock[1]} {_PADDED[level]} {name}  {message}"
        return line if failure is None else f"{line}\n{_indented(failure.trace)}"


def _indented(text: str) -> str:
    return "\n".join(f"    {escaped(line)}" for line in text.rstrip("\n").split("\n"))


_PADDED = {
    level: f"{logging.getLevelName(level):<7}"
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
}


class Json(logging.Formatter):
    """For programs: one JSON object a line.

    It has `time`, `level`, `logger`, `message`, the fields of the job, and all fields of `extra`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._clock = (0, "")

    def format(self, record: logging.LogRecord) -> str:
        fields = vars(record)
        document = {name: value for name in BOUND if (value := fields.get(name)) not in (None, "")}
        document |= {name: _plain(value) for name, value in fields.items() if name not in _KNOWN}
        if record.exc_info or record.exc_text:
            trace = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type]
            document["exception"] = trace.rstrip("\n")
        if record.stack_info:
            document["stack"] = record.stack_info
        head = self._head(record.created, record.levelno, record.name, record.getMessage())
        return _harmless(_json(head | document))

    def line(self, name: str, log_line: LogLine) -> str:
        """What `format` returns for a record of this logger with this line and nothing else."""
        at, level, message, event, failure = log_line
        head = _json(self._head(at, level, name, message))
        kind, _, fields = _json(event).split(",", 2)  # the time is in the head already
        trace = "" if failure is None else f"{_json({'exception': failure.trace.rstrip(chr(10))})[:-1]},"
        return _harmless(f"{head[:-1]},{trace[1:]}{kind[1:]},{fields}")

    def _head(self, at: float, level: int, name: str, message: str) -> dict[str, Any]:
        second = int(at)
        if second != self._clock[0]:
            self._clock = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return {
            "time": f"{self._clock[1]}.{int((at - second) * 1000):03d}Z",
            "level": logging.getLevelName(level).lower(),
            "logger": name,
            "message": message,
        }


def _json(document: dict[str, Any] | Event) -> str:
    try:
        return _encode(document).decode()
    except (UnicodeError, msgspec.EncodeError, TypeError, ValueError):  # half of a surrogate pair, for one
        document = {"event": document.kind, "at": 0, **document.fields()} if isinstance(document, Event) else document
        return json.dumps(document, default=repr, separators=(",", ":"))


_encode = msgspec.json.Encoder(enc_hook=repr).encode


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str | dict | list):
        return value
    try:
        return repr(value)[:TEXT]
    except Exception as error:  # noqa: BLE001  (shown in its place)
        return f"<its repr raised {type(error).__name__}>"


def _harmless(text: str) -> str:
    r"""JSON text in which characters that a terminal would obey are escaped, as `\u202e`. It reads the same."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


FORMATS: dict[str, type[Human | Json]] = {"human": Human, "json": Json}


class Lines(logging.StreamHandler[TextIO]):
    """Writes records as lines; many at once if they come from `tenure.jobs` and no other handler gets them."""

    def __init__(self, form: str = "human", stream: TextIO | None = None) -> None:
        """`form` is one of `FORMATS`. The default stream is stderr."""
        super().__init__(stream)
        self.form = FORMATS[form]()
        self.setFormatter(self.form)
        self.addFilter(Bound())

    def text(self, name: str, log_lines: Iterable[LogLine]) -> str:
        """The text of these lines, as records of this logger."""
        level, formatted = self.level, self.form.line
        return "".join([formatted(name, each) + "\n" for each in log_lines if each[1] >= level])

    def write(self, text: str) -> None:
        """Write text at once."""
        with self.lock or _unlocked:
            self.stream.write(text)
            self.flush()

    @classmethod
    def only(cls, logger: logging.Logger) -> Lines | None:
        """The handler that alone gets all records of this logger, if it is a plain `Lines`; else None."""
        found: Sequence[logging.Handler] = ()
        at: logging.Logger | None = logger
        while at is not None:
            found = [*found, *at.handlers]
            at = at.parent if at.propagate else None
        if len(found) != 1 or logger.filters or logging.root.manager.disable or len(found[0].filters) != 1:
            return None
        [handler] = found
        # Not a subclass, and not one with another formatter.
        return handler if type(handler) is cls and handler.formatter is handler.form else None


class _Unlocked:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


_unlocked = _Unlocked()
