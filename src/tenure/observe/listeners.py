"""Calls listeners with events on a separate thread, so that none of them slows or breaks what the events are about."""

from __future__ import annotations

import asyncio
import atexit
import inspect
import itertools
import logging
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Protocol

from tenure.core.after_fork import forget_after_fork
from tenure.errors import InvalidOption
from tenure.events import ALL, Event, Kind, bits_of

__all__ = ["BatchListener", "Listener", "Listeners", "checked_listener"]

Listener = Callable[[Any], object]
"""A function that is called with one event."""

BACKLOG = 20_000
"""Most events that wait for listeners. Further ones are dropped."""

GATHER = 0.02
"""Seconds between two rounds of calls, in which events gather: waking the thread for each would cost more than the calls."""

IDLE = 1.0
"""Seconds without an event after which the thread ends, so that an app that was dropped leaves none behind."""

FLUSH_TIMEOUT = 2.0
"""Seconds that the end of an app, or of the process, waits for listeners."""

log = logging.getLogger("tenure")


class BatchListener(Protocol):
    """A listener that takes many events at once, in two halves.

    `prepare` is called where the events happen, `take` on the listeners' thread. A thread that computes keeps the
    interpreter from the event loop for 5 ms at a time, so `prepare` does the short work on the loop, and `take` is left
    with what waits for I/O.
    """

    def wants(self) -> int:
        """Bits of the kinds that it wants at present."""
        ...

    def prepare(self, events: Sequence[Event]) -> Any:
        """What `take` needs of these events; None if nothing. There may be events of other kinds among them.

        Called on the thread on which they happen.
        """
        ...

    def take(self, prepared: Sequence[Any]) -> None:
        """Take what was prepared, in order; called on the listeners' thread."""
        ...


def checked_listener(listener: Listener) -> Listener:
    """`listener` itself; `InvalidOption` if it cannot be called as a listener."""
    if not callable(listener):
        raise InvalidOption(f"a listener is a function of one event, got {listener!r:.80}")
    if inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(getattr(listener, "__call__", None)):  # noqa: B004
        raise InvalidOption(
            f"listener {_name(listener)} is async, and listeners are called in a thread: make it a plain def, "
            "or use async for event in app.watch()"
        )
    return listener


_Batch = tuple[int, list[tuple[BatchListener, Any]]]
"""Number of events, and what each listener is to take of them."""


class _FunctionListener:
    """A user's function as a listener. An error costs that event only, and is logged once for each type of error."""

    def __init__(self, function: Listener, kinds: Sequence[Kind]) -> None:
        self._function = checked_listener(function)
        self._bits = bits_of(kinds) if kinds else ALL
        self._raised: set[type[BaseException]] = set()

    def wants(self) -> int:
        return self._bits

    def prepare(self, events: Sequence[Event]) -> Sequence[Event]:
        return events

    def take(self, prepared: Sequence[Sequence[Event]]) -> None:
        bits, function = self._bits, self._function
        for event in itertools.chain.from_iterable(prepared):
            if event.bit & bits:
                try:
                    function(event)
                except BaseException as error:  # noqa: BLE001  (no error of a listener may end the others)
                    self._log_once(event, error)

    def _log_once(self, event: Event, error: BaseException) -> None:
        if type(error) not in self._raised:
            self._raised.add(type(error))
            log.error(
                "listener %s failed with %r on an event of kind %s, and is still called; logged once for each type of error",
                _name(self._function), type(error).__name__, event.kind, exc_info=error,
            )  # fmt: skip


class Listeners:
    """All listeners of an app, and the thread that calls them. The first event starts the thread."""

    def __init__(self) -> None:
        self._listeners: list[BatchListener] = []
        self._begin()
        _instances.add(self)
        forget_after_fork(self)

    def _begin(self) -> None:
        # A reentrant lock and a SimpleQueue, because a signal handler may call `deliver` while it interrupts `deliver`.
        self._lock = threading.RLock()
        self._batches: SimpleQueue[_Batch] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._hurry = threading.Event()
        self._accepted = 0
        self._delivered = 0
        self._dropping = False
        self.dropped = 0
        """Number of events that were dropped because listeners were too slow."""

    def add(self, function: Listener, kinds: Sequence[Kind] = ()) -> None:
        """Call this function with every event of these kinds; with all events if there are no kinds."""
        self.add_batched(_FunctionListener(function, kinds))

    def add_batched(self, listener: BatchListener) -> None:
        self._listeners = [*self._listeners, listener]

    def wants(self) -> int:
        """Bits of the kinds that any listener wants at present."""
        found = 0
        for listener in self._listeners:
            found |= listener.wants()
        return found

    def deliver(self, events: Sequence[Event]) -> None:
        """Have the listeners called with these events soon; may be called from any thread. Never waits."""
        number = len(events)
        if self._accepted - self._delivered + number > BACKLOG:
            self._drop(number)
            return
        try:
            prepared = [(each, found) for each in self._listeners if (found := each.prepare(events)) is not None]
        except Exception:
            log.exception("events could not be delivered to a listener")
            return
        if not prepared:
            return
        with self._lock:
            self._accepted += number  # no call in between, so no signal handler runs here
            self._batches.put((number, prepared))
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="tenure-events", daemon=True)
                self._thread.start()

    def _drop(self, number: int) -> None:
        self.dropped += number
        if not self._dropping:
            self._dropping = True
            log.warning("listeners are slower than events arrive: some events are dropped until they have caught up")

    def flush(self, timeout: float | None = None) -> None:
        """Wait until listeners were called with all earlier events, up to `timeout` seconds; 2 by default."""
        for pause in self._flushing(timeout):
            threading.Event().wait(pause)

    async def aflush(self, timeout: float | None = None) -> None:
        """The async twin of `flush`."""
        for pause in self._flushing(timeout):
            await asyncio.sleep(pause)

    def _flushing(self, timeout: float | None) -> Iterable[float]:
        until, ends_at = self._accepted, monotonic() + (FLUSH_TIMEOUT if timeout is None else timeout)
        self._hurry.set()
        while self._delivered < until and threading.current_thread() is not self._thread and monotonic() < ends_at:
            yield 0.002
            self._hurry.set()

    def _serve(self) -> None:
        while True:
            try:
                first = self._batches.get(timeout=IDLE)
            except Empty:
                if self._end_if_idle():
                    return
                continue
            self._call_all([first, *(self._batches.get() for _ in range(self._batches.qsize()))])
            self._hurry.wait(GATHER)
            self._hurry.clear()
            if self._dropping and self._batches.empty():
                self._dropping = False
                log.warning("listeners have caught up; %d events were dropped in total", self.dropped)

    def _end_if_idle(self) -> bool:
        """Whether the thread must end, because no event has come for a while. The next event starts another."""
        with self._lock:
            if self._batches.empty():
                self._thread = None
            return self._thread is None

    def _call_all(self, batches: Sequence[_Batch]) -> None:
        number, taken = 0, defaultdict[BatchListener, list[Any]](list)
        for events, prepared in batches:
            number += events
            for listener, found in prepared:
                taken[listener].append(found)
        for listener, parts in taken.items():
            try:
                listener.take(parts)
            except Exception:
                log.exception("events could not be delivered to a listener")
        self._delivered += number

    def forget(self) -> None:
        """In a forked child, which does not have the thread: start afresh. The parent calls listeners with its events."""
        self._begin()


def _name(listener: Listener) -> str:
    return str(getattr(listener, "__qualname__", None) or repr(listener))[:200]


_instances: weakref.WeakSet[Listeners] = weakref.WeakSet()


@atexit.register
def _flush_all() -> None:
    ends_at = monotonic() + FLUSH_TIMEOUT
    for listeners in list(_instances):
        listeners.flush(max(ends_at - monotonic(), 0.0))
