"""Functions that are called with events, in a thread of their own, so that none of them slows or breaks what it is told of."""

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
"""Called with one event."""

BACKLOG = 20_000
"""Events that wait for listeners at most; what comes then is dropped."""

GATHER = 0.02
"""Seconds between two rounds of calls, in which events gather: to wake a thread for each would cost more than the calls."""

IDLE = 1.0
"""Seconds without an event after which the thread ends: an app that was dropped leaves none behind."""

FLUSH_TIMEOUT = 2.0
"""Seconds that the end of an app, or of the process, waits for listeners."""

log = logging.getLogger("tenure")


class BatchListener(Protocol):
    """A listener that takes many events at once, in two halves: what must be quick where they happen, the rest in the thread.

    A thread that computes for long keeps the interpreter from the event loop that it serves, 5 ms each time: so what is only a little
    work is done where the events are, and the thread is left with what waits.
    """

    def wants(self) -> int:
        """The bits of the kinds that it takes at this time."""
        ...

    def prepare(self, events: Sequence[Event]) -> Any:
        """What `take` needs of these, among which may be others than it wants; None: nothing. On the thread on which they happen."""
        ...

    def take(self, prepared: Sequence[Any]) -> None:
        """Have what was prepared, in order; on the thread of listeners."""
        ...


def checked_listener(listener: Listener) -> Listener:
    """The same; `InvalidOption` if it cannot be called as listeners are."""
    if not callable(listener):
        raise InvalidOption(f"a listener is a function of one event, got {listener!r:.80}")
    if inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(getattr(listener, "__call__", None)):  # noqa: B004
        raise InvalidOption(
            f"listener {_name(listener)} is async, and listeners are called in a thread: make it a plain def, "
            "or use async for event in app.watch()"
        )
    return listener


_Batch = tuple[int, list[tuple[BatchListener, Any]]]
"""How many events it was, and what every listener is to take of it."""


class _FunctionListener:
    """A function of the user's. What it raises is logged, once for each type of error, and costs that event alone."""

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
                except BaseException as error:  # noqa: BLE001  (nothing that a listener raises may end the others)
                    self._log_once(event, error)

    def _log_once(self, event: Event, error: BaseException) -> None:
        if type(error) not in self._raised:
            self._raised.add(type(error))
            log.error(
                "listener %s has failed with %r of %s, and is called on; this is said once",
                _name(self._function), type(error).__name__, event.kind, exc_info=error,
            )  # fmt: skip


class Listeners:
    """All listeners of an app, and the thread that calls them, which begins with the first event."""

    def __init__(self) -> None:
        self._listeners: list[BatchListener] = []
        self._begin()
        _instances.add(self)
        forget_after_fork(self)

    def _begin(self) -> None:
        # This lock, and a queue of this kind, are for signal handlers: one may tell something while it keeps `deliver` itself waiting.
        self._lock = threading.RLock()
        self._batches: SimpleQueue[_Batch] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._hurry = threading.Event()
        self._accepted = 0
        self._delivered = 0
        self._dropping = False
        self.dropped = 0
        """Events that no listener was called with, because they were too slow."""

    def add(self, function: Listener, kinds: Sequence[Kind] = ()) -> None:
        """Call this with every event of these kinds; without any, with all."""
        self.add_batched(_FunctionListener(function, kinds))

    def add_batched(self, listener: BatchListener) -> None:
        self._listeners = [*self._listeners, listener]

    def wants(self) -> int:
        """The bits of the kinds that anybody takes at this time."""
        found = 0
        for listener in self._listeners:
            found |= listener.wants()
        return found

    def deliver(self, events: Sequence[Event]) -> None:
        """Have listeners called with these, soon; from any thread. Never waits."""
        number = len(events)
        if self._accepted - self._delivered + number > BACKLOG:
            self._drop(number)
            return
        try:
            prepared = [(each, found) for each in self._listeners if (found := each.prepare(events)) is not None]
        except Exception:
            log.exception("events could not be told")
            return
        if not prepared:
            return
        with self._lock:
            self._accepted += number  # calls nothing in between, so no handler runs there
            self._batches.put((number, prepared))
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="tenure-events", daemon=True)
                self._thread.start()

    def _drop(self, number: int) -> None:
        self.dropped += number
        if not self._dropping:
            self._dropping = True
            log.warning(
                "listeners are slower than events come: from here on some are dropped, until they have caught up"
            )

    def flush(self, timeout: float | None = None) -> None:
        """Wait until listeners were called with all that was told before; no longer than so many seconds, or two."""
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
                log.warning("listeners have caught up: %d events were dropped in all", self.dropped)

    def _end_if_idle(self) -> bool:
        """Whether the thread ends, nothing having happened for a while; the next event begins another."""
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
                log.exception("events could not be told")
        self._delivered += number

    def forget(self) -> None:
        """In the child of a fork, which has not the thread: begin anew, what the parent was told is the parent's."""
        self._begin()


def _name(listener: Listener) -> str:
    return str(getattr(listener, "__qualname__", None) or repr(listener))[:200]


_instances: weakref.WeakSet[Listeners] = weakref.WeakSet()


@atexit.register
def _flush_all() -> None:
    ends_at = monotonic() + FLUSH_TIMEOUT
    for listeners in list(_instances):
        listeners.flush(max(ends_at - monotonic(), 0.0))
