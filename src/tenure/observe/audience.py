"""Who wants to know what happens: listeners in this process, watchers in any."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Protocol

from tenure.core.after_fork import forget_after_fork
from tenure.core.failure import Failure
from tenure.events import ALL, Event
from tenure.observe import derived_events
from tenure.observe.listeners import Listeners
from tenure.stores.values import OK, Settlement

__all__ = ["Audience", "Publisher"]

CHECK_INTERVAL = 2.0
"""Seconds between questions whether anybody watches, while something happens."""

PENDING_LIMIT = 500
"""Events that wait to be told to watchers at most: of what comes faster the latest."""


class Publisher(Protocol):
    """Who can tell watchers."""

    def publish_soon_threadsafe(self) -> None:
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

        self.check_at = 0.0
        """When it is time, on a monotonic clock, to ask the store again whether anybody watches."""

        self.durations: dict[str, float] = {}
        """Seconds that attempts have run which are about to be settled, by the id of the job."""

        self.failures: dict[str, Failure] = {}
        """The exceptions of attempts that have failed and are about to be settled, by the id of the job; for the log."""

        self.missing_workers: set[str] = set()
        """Workers that were told to be missing."""

        self.publishers: weakref.WeakSet[Publisher] = weakref.WeakSet()
        """Those of the store objects that are open."""

        self._listener_wants = 0
        self._watched: bool | None = None
        self._pending: deque[Event] = deque(maxlen=PENDING_LIMIT)
        forget_after_fork(self)

    def refresh(self) -> None:
        """See anew what is wanted: a listener has come, or wants something else."""
        self._listener_wants = self.listeners.wants()
        self.wants = self._listener_wants if self._watched is False else ALL

    def current_wants(self) -> int:
        """What is wanted now; all, once it is time to ask who watches."""
        if monotonic() < self.check_at:
            return self.wants
        self.refresh()
        return ALL  # of this one, somebody may be told who has begun to watch

    @property
    def has_pending(self) -> bool:
        """Whether there is something that watchers are to be told, if there are any."""
        return bool(self._pending)

    def emit(self, events: Sequence[Event], publish_soon: Callable[[], None] | None = None) -> None:
        """Let everybody know who wants to; from any thread. `soon` has watchers told, if the caller can do so at less cost than others."""
        if not events:
            return
        if self._listener_wants:
            self.listeners.deliver(events)
        if self._watched is not False or monotonic() >= self.check_at:
            self._pending.extend(events)
            if publish_soon is not None:
                publish_soon()
            elif (publisher := next(iter(list(self.publishers)), None)) is not None:
                publisher.publish_soon_threadsafe()

    def emit_if_wanted(self, event: Event, publish_soon: Callable[[], None] | None = None) -> None:
        """Tell one, if anybody wants it."""
        if self.current_wants() & event.bit:
            self.emit([event], publish_soon)

    def settled(self, settlement: Settlement) -> None:
        """An attempt has ended in a transaction of the job's own, which is committed."""
        if self.wants & derived_events.ENDS or monotonic() >= self.check_at:
            self.emit(
                list(derived_events.settled(self.current_wants(), time.time(), [settlement], [OK], self.durations))
            )

    def start_watch_check(self) -> bool:
        """Whether the store is to be asked who watches; whoever is told so asks, and says what it was told with `answered`."""
        now = monotonic()
        if now < self.check_at:
            return False
        self.check_at = now + CHECK_INTERVAL
        if not self._watched:
            self._watched = None  # so that what happens meanwhile is kept
        self.refresh()
        return True

    def set_watched(self, *, watched: bool) -> None:
        """Somebody watches, or nobody does."""
        self._watched = watched
        if not watched:
            self._pending.clear()
        self.refresh()

    def take_pending(self) -> list[Event]:
        """What is to be told to watchers."""
        taken = []
        while self._pending:
            taken.append(self._pending.popleft())
        return taken

    def forget(self) -> None:
        """In the child of a fork: what was not told yet is the parent's to tell."""
        self._pending.clear()
        self.durations.clear()
        self.failures.clear()
        self.publishers.clear()
        self._watched, self.check_at, self.wants = None, 0.0, ALL
