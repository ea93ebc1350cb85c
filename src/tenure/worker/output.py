"""`LogTail` keeps the end of what one attempt logs; `LiveTail` adds the end of its output to its progress."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Protocol

from msgspec.structs import replace

from tenure.core.escape import escaped
from tenure.core.failure import storable
from tenure.core.job import Progress
from tenure.core.running import running

__all__ = ["TAIL", "LiveTail", "LogTail", "OutputHandler", "capture_logs", "line_of", "stop_capturing"]

TAIL = 2_000
"""Characters of the output of a running job that are written with its progress."""


class Output(Protocol):
    """The output of an attempt, as it grows. `tail` may be called on any thread."""

    @property
    def written(self) -> int:
        """A number that grows with every piece of output."""
        ...

    def tail(self, most: int) -> str:
        """The last `most` characters."""
        ...


class LogTail:
    """Keeps the last `size` bytes of the lines that one attempt logs. It is made when the first line comes."""

    __slots__ = ("_cut", "_dropped", "_lines", "_room", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._lines: list[str] = []
        self._dropped = 0
        """Lines that were dropped, or joined to one."""

        self._cut = 0
        """Bytes that were dropped."""

        self._room = 2 * size + TAIL
        """Characters that may be added before some are dropped."""

    @property
    def written(self) -> int:
        """Lines that were logged, in all."""
        return self._dropped + len(self._lines)

    def add(self, line: str) -> None:
        """Add text that ends with a line feed."""
        # Without a lock: a job may log from several threads, but appending is atomic, and a wrong `_room` only drops later.
        self._lines.append(line)
        self._room -= len(line)
        if self._room < 0:
            self._drop()

    def _drop(self) -> None:
        with _lock:
            number = len(self._lines)
            whole, most = "".join(self._lines[:number]), max(self._size, TAIL)
            kept = whole[-most:]
            self._cut += len(whole[:-most].encode())
            self._dropped += number - 1
            self._lines[:number] = [kept]
            self._room = 2 * self._size + TAIL - len(kept)

    def tail(self, most: int) -> str:
        return "".join(self._lines)[-most:]

    def text(self) -> str:
        """What is kept with the attempt."""
        whole = "".join(self._lines)
        if not self._cut and 4 * len(whole) <= self._size:
            return whole
        data = whole.encode()
        kept = data[-self._size :].decode(errors="ignore")
        cut = self._cut + len(data) - len(kept.encode())
        return f"[{cut:,} bytes cut] …{kept}" if cut else kept


class LiveTail:
    """Adds the end of an attempt's output to the progress that is written once a second. The keeper's thread uses it."""

    __slots__ = ("_last", "_output", "_pending", "_stored")

    def __init__(self, output: Output) -> None:
        self._output = output
        self._stored = 0
        """`written` of the output when its tail was last stored."""

        self._last: Progress | None = None
        """The latest progress that the job has reported."""

        self._pending: tuple[Progress | None, int] = None, 0

    def progress(self, latest: Progress | None) -> Progress | None:
        """The progress to store, with the tail. `latest` is what the job has reported since; None if nothing is new."""
        written = self._output.written
        if latest is None and written == self._stored:
            return None
        self._last = latest or self._last
        self._pending = latest, written
        tail = self._output.tail(TAIL) if written else ""
        return replace(self._last or Progress(0.0), tail=tail or None)

    def stored(self) -> Progress | None:
        """Record that the last one was stored. Returns the `latest` that it was made of."""
        latest, self._stored = self._pending
        return latest


class OutputHandler(logging.Handler):
    """Adds each record that is made while a job runs to the output of that job. Levels of loggers apply; it never raises."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Add a record. There are no filters and no lock, because each line that a job logs comes here."""
        context = running.get(None)
        if context is not None and (output := context._output):
            if isinstance(output, int):
                context._output = output = LogTail(output)
            output.add(line_of(record))
        if len(logging.root.handlers) == 1 and logging.root.handlers[0] is self:
            _print_as_without(record)
        return True


def _print_as_without(record: logging.LogRecord) -> None:
    """Print a warning on stderr, as Python does for a logger without handlers: it would, without this handler."""
    last = logging.lastResort
    if last is not None and record.levelno >= last.level and not _has_other_handler(record.name):
        last.handle(record)


def line_of(record: logging.LogRecord) -> str:
    """A record as one line, with the time in UTC, and a line for each line of its traceback. Raises nothing."""
    try:
        # The formatters of other handlers, which come first, have left the message there.
        message = record.__dict__.get("message") or record.getMessage()
        if not message.isprintable():
            message = escaped(message)
    except Exception as error:  # noqa: BLE001 - the arguments of a user's log call do not fit, or their text cannot be made
        message = escaped(f"{record.msg!s:.200} (its arguments cannot be shown: {type(error).__name__})")
    now, then = int(record.created), _second
    line = f"{then[1] if then[0] == now else _clock(now)}{_MILLISECONDS[int(record.msecs)]}{record.levelname} {record.name}: {message}\n"
    if record.exc_info or record.exc_text:
        line += "".join(f"  {escaped(each)}\n" for each in _traceback(record))
    return storable(line) if not line.isascii() else line


def _traceback(record: logging.LogRecord) -> Iterator[str]:
    try:
        yield from (record.exc_text or logging.Formatter().formatException(record.exc_info)).splitlines()  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001 - an exception whose text cannot be made
        yield f"(the traceback cannot be shown: {type(error).__name__})"


_MILLISECONDS = [f".{number:03d} " for number in range(1001)]
"""Each number of milliseconds as text, because formatting one takes longer than the rest of a line."""

_second = (0, "")
"""A second and its text, because most records are of the same second as the one before."""


def _clock(now: int) -> str:
    global _second  # noqa: PLW0603
    text = time.strftime("%H:%M:%S", time.gmtime(now))
    _second = now, text
    return text


def _has_other_handler(name: str) -> bool:
    """Whether a logger between this one and the root logger has a handler."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None and logger is not logging.root:
        if logger.handlers:
            return True
        logger = logger.parent if logger.propagate else None
    return False


_handler = OutputHandler()
_users = 0
_lock = threading.Lock()


def capture_logs() -> None:
    """Put the handler on the root logger, if it is not there. Call `stop_capturing` once for each call."""
    global _users  # noqa: PLW0603
    with _lock:
        _users += 1
        logging.root.addHandler(_handler)


def stop_capturing() -> None:
    """Remove the handler, if no other worker in this process needs it."""
    global _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        if not _users:
            logging.root.removeHandler(_handler)
