"""log_to_stderr: writes the log of a worker to stderr, one line for each record."""

from __future__ import annotations

import logging

from tenure.observe.log_lines import Lines, bind

__all__ = ["log_to_stderr"]


def log_to_stderr(level: str, form: str = "human") -> None:
    """Log to stderr from this level on, unless the user's code has set up logging. Records carry the job they belong to."""
    logging.basicConfig(level=level.upper(), handlers=[Lines(form)])
    bind()
