"""running: the context variable that holds the `Context` of the job that runs here; the executor sets it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.tasks.context import Context

__all__ = ["running"]

running: ContextVar[Context] = ContextVar("tenure_context")
