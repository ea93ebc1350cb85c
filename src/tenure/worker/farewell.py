"""The last that a worker does: the functions for `worker_exit`, once, on whichever way it ends."""

from __future__ import annotations

import asyncio
import logging
import threading

from tenure.hooks import Hooks, Steps, awaiting, coroutine_of, moment, waiting

__all__ = ["Farewell"]

log = logging.getLogger("tenure.worker")


class Farewell:
    """Calls them, if nobody has before; an error ends them, and is logged."""

    def __init__(self, hooks: Hooks, worker: str) -> None:
        self._hooks = hooks
        self._worker = worker
        self._said = threading.Lock()

    async def say(self) -> None:
        """On the worker's loop."""
        if self._said.acquire(blocking=False):
            await awaiting(self._calls())

    def say_here(self) -> None:
        """On a thread without a loop."""
        if self._said.acquire(blocking=False):
            waiting(self._calls(), lambda awaitable: asyncio.run(coroutine_of(awaitable)))

    def _calls(self) -> Steps[None]:
        try:
            yield from moment(self._hooks.of("worker_exit"))
        except Exception:
            log.exception("worker %s: a function for worker_exit failed", self._worker)
