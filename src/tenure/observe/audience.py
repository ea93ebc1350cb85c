"""Who wants to know what happens: listeners in this process, watchers in any."""

from __future__ import annotations

import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Protocol

from tenure.core.failure import AttemptFailure
from tenure.events import ALL, Event
from tenure.observe import deriving
from tenure.observe.listeners import Listeners
from tenure.stores.values import OK, Settlement

__all__ = ["Audience", "Teller"]

ASK = 2.0
"""Seconds between questions whether anybody watches, while something happens."""

PENDING = 500
"""Events that wait to be told to watchers at most: of what comes faster the latest."""


class Teller(Protocol):
    """Who can tell watchers."""

    def tell_soon(self) -> None:
        """Have them told; from any thread."""
        ...


class Audience:
    """What the parts of an app share about who wants to know: every store object asks it before it makes events.

    Whether anybody watches is asked of the store only while something happens, and every two seconds at most. What happens until
    the answer is there is kept for it: so a process that was idle tells a watcher all that it does.
    """

    def __init__(self) -> None:
        self.listeners = Listeners()
        self.wants = ALL
        """The bits of the kinds that are wanted, as far as is known."""

        self.ask_at = 0.0
        """When it is time, on a monotonic clock, to ask the store again whether anybody watches."""

        self.took: dict[str, float] = {}
        """Seconds that attempts have run which are about to be settled, by the id of the job."""

        self.failures: dict[str, AttemptFailure] = {}
        """The exceptions of attempts that have failed and are about to be settled, by the id of the job; for the log."""

        self.missing: set[str] = set()
        """Workers that were told to be missing."""

        self.voices: weakref.WeakSet[Teller] = weakref.WeakSet()
        """Those of the store objects that are open."""

        self._heard = 0
        self._watched: bool | None = None
        self._pending: deque[Event] = deque(maxlen=PENDING)
        _all_of_them.add(self)

    def refresh(self) -> None:
        """See anew what is wanted: a listener has come, or wants something else."""
        self._heard = self.listeners.wants()
        self.wants = self._heard if self._watched is False else ALL

    def wanted(self) -> int:
        """What is wanted now; all, once it is time to ask who watches."""
        if monotonic() < self.ask_at:
            return self.wants
        self.refresh()
        return ALL  # of this one, somebody may be told who has begun to watch

    @property
    def waits(self) -> bool:
        """Whether there is something that watchers are to be told, if there are any."""
        return bool(self._pending)

    def tell(self, events: Sequence[Event], soon: Callable[[], None] | None = None) -> None:
        """Let everybody know who wants to; from any thread. `soon` has watchers told, if the caller can do so at less cost than others."""
        if not events:
            return
        if self._heard:
            self.listeners.tell(events)
        if self._watched is not False or monotonic() >= self.ask_at:
            self._pending.extend(events)
            if soon is not None:
                soon()
            elif (publisher := next(iter(list(self.voices)), None)) is not None:
                publisher.tell_soon()

    def happened(self, event: Event, soon: Callable[[], None] | None = None) -> None:
        """Tell one, if anybody wants it."""
        if self.wanted() & event.bit:
            self.tell([event], soon)

    def settled(self, settlement: Settlement) -> None:
        """An attempt has ended in a transaction of the job's own, which is committed."""
        if self.wants & deriving.ENDS or monotonic() >= self.ask_at:
            self.tell(list(deriving.settled(self.wanted(), time.time(), [settlement], [OK], self.took)))

    def to_ask(self) -> bool:
        """Whether the store is to be asked who watches; whoever is told so asks, and says what it was told with `answered`."""
        now = monotonic()
        if now < self.ask_at:
            return False
        self.ask_at = now + ASK
        if not self._watched:
            self._watched = None  # so that what happens meanwhile is kept
        self.refresh()
        return True

    def answered(self, *, watched: bool) -> None:
        """Somebody watches, or nobody does."""
        self._watched = watched
        if not watched:
            self._pending.clear()
        self.refresh()

    def take(self) -> list[Event]:
        """What is to be told to watchers."""
        taken = []
        while self._pending:
            taken.append(self._pending.popleft())
        return taken

    def forget(self) -> None:
        """In the child of a fork: what was not told yet is the parent's to tell."""
        self._pending.clear()
        self.took.clear()
        self.failures.clear()
        self.voices.clear()
        self._watched, self.ask_at, self.wants = None, 0.0, ALL


_all_of_them: weakref.WeakSet[Audience] = weakref.WeakSet()


def _forget_all() -> None:
    for audience in _all_of_them:
        audience.forget()


os.register_at_fork(after_in_child=_forget_all)
