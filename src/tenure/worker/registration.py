"""`Registration`: a worker's entry in the registry, and its heartbeat."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tenure.stores.base import Store
from tenure.stores.values import Order, Pulse, WorkerInfo
from tenure.worker.wakeup import Wakeup

__all__ = ["Registration"]

log = logging.getLogger("tenure.worker")


class Registration:
    """Registers a worker, sends its heartbeats, and registers it again under a new id if it was retired.

    Belongs to one event loop.
    """

    def __init__(
        self,
        interval: float,
        *,
        entry: Callable[[], WorkerInfo],
        pulse: Callable[[], Pulse],
        store_answered: Callable[[], object],
        entered: Callable[[WorkerInfo], None],
        retired: Callable[[], None],
        ordered: Callable[[Order], object],
    ) -> None:
        self._interval = interval
        self._entry = entry
        self._pulse = pulse
        self._store_answered = store_answered
        self._on_entry = entered
        self._on_retirement = retired
        self._on_order = ordered
        self._order = Order.GO_ON
        self._pending_entry: WorkerInfo | None = None
        self.worker_id: str | None = None
        """The worker's id in the registry. None while it is not registered; then it must not lease."""

        self.admitted = asyncio.Event()
        """Set when it may register. Until then it only checks that the store answers."""

        self.beat_soon = Wakeup()

    @property
    def name(self) -> str | None:
        """The id under which the registry knows the worker, or may know it."""
        return self.worker_id or (None if self._pending_entry is None else self._pending_entry.id)

    async def beat(self, store: Store) -> float:
        """Register, or send a heartbeat. Returns the seconds until the next one."""
        if self.worker_id is None:
            await self._enter(store)
            self._obey(Order.GO_ON)
        elif (order := await store.beat(self.worker_id, self._pulse())) is not None:
            self._obey(order)
        else:
            log.warning("worker %s was retired: it drops its jobs and continues under a new id", self.worker_id)
            self.worker_id = None
            self._on_retirement()
            return 0.0
        return self._interval

    def _obey(self, order: Order) -> None:
        """Pass on an order that differs from the one before. An order that stands does not undo what a signal has done since."""
        if order is not self._order:
            self._order = order
            self._on_order(order)

    async def leave(self, store: Store) -> None:
        if self.name is not None:
            await store.leave(self.name)

    async def _enter(self, store: Store) -> None:
        # The entry is reused until the store has accepted it, however often the store fails, because each id is
        # generated once.
        entry = self._pending_entry = self._pending_entry or self._entry()
        if not self.admitted.is_set():
            await store.beat(entry.id, Pulse())  # the id is not registered, but now the store has answered
            self._store_answered()
            await self.admitted.wait()
        await store.register(entry)
        self.worker_id, self._pending_entry = entry.id, None
        self._on_entry(entry)
