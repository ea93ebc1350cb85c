"""What a worker writes to stderr: one line a record, whatever is in it."""

from __future__ import annotations

import logging

from tenure.observe.log_lines import Lines, bind

__all__ = ["log_to_stderr"]


def log_to_stderr(level: str, form: str = "human") -> None:
    """Log to stderr from this level on, unless the user's code has set up logging by itself; records say which job they are of."""
    logging.basicConfig(level=level.upper(), handlers=[Lines(form)])
    bind()
