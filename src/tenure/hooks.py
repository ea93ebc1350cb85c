"""What a user wants called at certain moments of a worker's life."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Hook", "Hooks", "call"]

Hook = Callable[[], Any]


class Hooks:
    """Functions by the moment at which they are called; each moment calls its own in the order in which they were registered."""

    def __init__(self) -> None:
        self.before_first_fork: list[Hook] = []
        """In the process whose memory the children of isolated tasks inherit, before the first of them."""

        self.before_fork: list[Hook] = []
        """There, before each of them."""

        self.after_fork: list[Hook] = []
        """In the child, before its task is called; `tenure.current()` tells which job it is for."""

        self.worker_exit: list[Hook] = []
        """In the worker's process, when it has left the registry or has failed to start."""


def call(hooks: list[Hook]) -> None:
    """Call these one after the other; the first error ends it."""
    for hook in hooks:
        hook()
