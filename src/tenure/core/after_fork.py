"""Registers what a forked child must drop: connections, threads and unsent events that belong to its parent."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable
from typing import Protocol

__all__ = ["Forgets", "abandon", "call_after_fork", "forget_after_fork"]

log = logging.getLogger("tenure")


class Forgets(Protocol):
    """An object with parts that a forked child must not use."""

    def forget(self) -> None:
        """Drop those parts without closing them, because the parent still uses them, and start afresh."""
        ...


def forget_after_fork(holder: Forgets) -> None:
    """Call `holder.forget()` in every forked child. `holder` is referenced weakly."""
    _holders.add(holder)


def call_after_fork(function: Callable[[], None]) -> None:
    """Call `function` in every forked child: for the state of a module, which no object holds."""
    _functions.append(function)


def abandon(*parts: object) -> None:
    """Keep `parts` of the parent alive for as long as this process lives: collecting them could close what the parent uses."""
    _abandoned.append(parts)


_functions: list[Callable[[], None]] = []
_holders: weakref.WeakSet[Forgets] = weakref.WeakSet()
_abandoned: list[object] = []


def _forget_all() -> None:
    for forget in [*_functions, *(holder.forget for holder in list(_holders))]:
        try:
            forget()
        except Exception:
            log.exception("a forked process could not drop what belongs to its parent")


os.register_at_fork(after_in_child=_forget_all)
