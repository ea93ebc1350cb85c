"""`ForwardingHandler`: forwards log records of child processes to the worker, which logs them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from tenure.worker.isolation.frames import Logged
from tenure.worker.output import line_of

__all__ = ["ForwardingHandler", "log_here"]

MAX_TEXT = 100_000
"""Characters of a message or a traceback that are sent, at most."""

_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}
"""Attributes that every record has. All others come from `extra`, or from a record factory of the user's."""


class ForwardingHandler(logging.Handler):
    """Sends records to the worker, whose handlers are those that the user has configured.

    The filters of those handlers are called here too, because they may add values from context variables, which are not
    sent.
    """

    def __init__(self, send: Callable[[Logged], None]) -> None:
        super().__init__()
        self.send = send
        self.pid = os.getpid()
        self.writes = False
        """Whether records are also written to stderr, which is kept with the attempt (`output=`)."""

        self._filters: list[tuple[str, Any]] = []
        """Logger name prefixes, each with a filter to call for its records."""

    def install(self) -> None:
        """Become the only handler; levels stay as they are."""
        for logger in logging.root.manager.loggerDict.values():
            if isinstance(logger, logging.Logger) and logger.handlers:
                self._filters += [(f"{logger.name}.", each) for handler in logger.handlers for each in handler.filters]
                logger.handlers = []
                logger.propagate = True
        self._filters += [("", each) for handler in logging.root.handlers for each in handler.filters]
        logging.root.handlers = [self]

    def redirect(self, send: Callable[[Logged], None], *, writes: bool) -> None:
        """Send records by another function from now on, from this process, and write them to stderr if `writes`."""
        self.send, self.pid, self.writes = send, os.getpid(), writes

    def emit(self, record: logging.LogRecord) -> None:
        if os.getpid() != self.pid:
            return _to_stderr(record)  # a process that the job has forked must not write to the socket
        try:
            for name, filtering in self._filters:
                if f"{record.name}.".startswith(name):
                    # The handlers in the worker decide whether a record is dropped.
                    (filtering.filter if hasattr(filtering, "filter") else filtering)(record)
            if self.writes:
                sys.stderr.write(line_of(record))
            self.send(_logged(record))
        except Exception:  # noqa: BLE001  (as all handlers do)
            self.handleError(record)
        return None


def log_here(logged: Logged) -> None:
    """Log a record of another process here."""
    logger = logging.getLogger(logged.name)
    if logger.isEnabledFor(logged.level):
        record = logger.makeRecord(
            logged.name, logged.level, logged.path, logged.line, "%s", (logged.message,), None, logged.function
        )
        record.created = logged.created
        record.msecs = (logged.created - int(logged.created)) * 1000
        record.process, record.threadName, record.exc_text = logged.pid, logged.thread, logged.trace
        extra = {name: value for name, value in logged.extra.items() if name not in _STANDARD}
        vars(record).update(extra)
        if extra and type(record) is logging.LogRecord:
            record.__class__ = _ForwardedRecord
            vars(record)["_forwarded"] = extra.keys()
        logger.handle(record)


class _ForwardedRecord(logging.LogRecord):
    """A record whose extra attributes, set in the other process, cannot be overwritten by filters of this one."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in vars(self).get("_forwarded", ()):
            super().__setattr__(name, value)


def _logged(record: logging.LogRecord) -> Logged:
    trace = record.exc_text
    if trace is None and record.exc_info:
        trace = _format.formatException(record.exc_info)
    if record.stack_info:
        trace = f"{trace}\n{record.stack_info}" if trace else record.stack_info
    return Logged(
        name=record.name,
        level=record.levelno,
        message=_text(record.getMessage()[:MAX_TEXT]),
        created=record.created,
        path=record.pathname,
        line=record.lineno,
        function=record.funcName,
        thread=record.threadName,
        pid=record.process,
        trace=None if trace is None else _text(trace[-MAX_TEXT:]),
        extra={name: _plain(value) for name, value in vars(record).items() if name not in _STANDARD},
    )


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate cannot be encoded


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    try:
        return _text((value if isinstance(value, str) else repr(value))[:MAX_TEXT])
    except Exception as error:  # noqa: BLE001  (its error is logged in its place)
        return f"<its repr raised {type(error).__name__}>"


def _to_stderr(record: logging.LogRecord) -> None:
    if logging.lastResort is not None:
        logging.lastResort.handle(record)


_format = logging.Formatter()
