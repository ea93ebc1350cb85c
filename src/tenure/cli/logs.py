"""What a worker writes to stderr: one line an event, whatever is in it."""

from __future__ import annotations

import logging

from tenure.cli.escape import escaped

__all__ = ["log_to_stderr"]


def log_to_stderr(level: str) -> None:
    """Log to stderr from this level on, unless the user's code has set up logging by itself."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("%(asctime)s %(levelname)-7s %(name)s  %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=level.upper(), handlers=[handler])


class OneLine(logging.Formatter):
    """Escapes the message and every line of a traceback, which is indented so that it cannot pass for another event."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return escaped(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802
        return "\n".join(f"    {escaped(line)}" for line in super().formatException(ei).split("\n"))  # type: ignore[arg-type]
