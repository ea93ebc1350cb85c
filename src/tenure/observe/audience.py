"""`Audience`: which events are wanted, by listeners in this process and by watchers in any process."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Protocol

from tenure.core.after_fork import forget_after_fork
from tenure.core.failure import AttemptFailure
from tenure.events import ALL, Event
from tenure.observe import derived_events
from tenure.observe.listeners import Listeners
from tenure.stores.values import OK, Settlement

__all__ = ["Audience", "Publisher"]

CHECK_INTERVAL = 2.0
"""Seconds between two checks whether anyone watches, while events happen."""

PENDING_LIMIT = 500
"""Most events that wait to be published. Of more, the latest are kept."""


class Publisher(Protocol):
    """Publishes pending events to watchers."""

    def publish_soon_threadsafe(self) -> None:
        """Publish pending events soon; may be called from any thread."""
        ...


class Audience:
    """Knows which kinds of events are wanted. All stores of an app share one, and ask it before they make events.

    Whether anyone watches is asked of the store only while events happen, every two seconds at most. Events that happen
    until the answer arrives are kept for it, so that a process that was idle publishes everything that it does to a
    watcher.
    """

    def __init__(self) -> None:
        self.listeners = Listeners()
        self.wants = ALL
        """Bits of the kinds that are wanted, at the latest check."""

        self.check_at = 0.0
        """When the store is to be asked again whether anyone watches, on the monotonic clock."""

        self.durations: dict[str, float] = {}
        """Seconds that attempts have run which are about to be settled, by job id."""

        self.failures: dict[str, AttemptFailure] = {}
        """Exceptions of failed attempts that are about to be settled, by job id; for the log."""

        self.missing_workers: set[str] = set()
        """Workers for which an event said that they are missing."""

        self.publishers: weakref.WeakSet[Publisher] = weakref.WeakSet()
        """The publishers of the open stores."""

        self._listener_wants = 0
        self._watched: bool | None = None
        self._pending: deque[Event] = deque(maxlen=PENDING_LIMIT)
        forget_after_fork(self)

    def refresh(self) -> None:
        """Compute anew which kinds are wanted, because a listener was added or wants other kinds."""
        self._listener_wants = self.listeners.wants()
        self.wants = self._listener_wants if self._watched is False else ALL

    def current_wants(self) -> int:
        """Bits of the kinds that are wanted now; all kinds once it is time for a check."""
        if monotonic() < self.check_at:
            return self.wants
        self.refresh()
        return ALL  # a watcher may have come that wants this one

    @property
    def has_pending(self) -> bool:
        """Whether events wait to be published."""
        return bool(self._pending)

    def emit(self, events: Sequence[Event], publish_soon: Callable[[], None] | None = None) -> None:
        """Deliver events to listeners, and keep them for watchers; may be called from any thread.

        `publish_soon` starts the publishing, if the caller can do that at less cost than another store of the app.
        """
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
        """Emit one event, if its kind is wanted."""
        if self.current_wants() & event.bit:
            self.emit([event], publish_soon)

    def settled(self, settlement: Settlement) -> None:
        """Emit the end of an attempt that was settled in a transaction of the job, which has been committed."""
        if self.wants & derived_events.ENDS or monotonic() >= self.check_at:
            self.emit(
                list(derived_events.settled(self.current_wants(), time.time(), [settlement], [OK], self.durations))
            )

    def start_watch_check(self) -> bool:
        """Whether the caller must ask the store now if anyone watches, and report it with `set_watched`."""
        now = monotonic()
        if now < self.check_at:
            return False
        self.check_at = now + CHECK_INTERVAL
        if not self._watched:
            self._watched = None  # so that events are kept until the answer arrives
        self.refresh()
        return True

    def set_watched(self, *, watched: bool) -> None:
        """Record whether anyone watches."""
        self._watched = watched
        if not watched:
            self._pending.clear()
        self.refresh()

    def take_pending(self) -> list[Event]:
        """Remove and return the events that are to be published."""
        taken = []
        while self._pending:
            taken.append(self._pending.popleft())
        return taken

    def forget(self) -> None:
        """In a forked child: drop the events of the parent, which publishes them itself."""
        self._pending.clear()
        self.durations.clear()
        self.failures.clear()
        self.publishers.clear()
        self._watched, self.check_at, self.wants = None, 0.0, ALL
