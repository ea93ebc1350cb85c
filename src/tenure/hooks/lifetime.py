"""Calls the hooks at the start and the end of a worker: `on_start`, `on_stop`, `worker_exit`."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from weakref import WeakKeyDictionary

from tenure.hooks.calling import HookCalls, awaiting, coroutine_of, moment, waiting
from tenure.hooks.registry import Hooks, name_of

__all__ = ["ExitHooks", "StartStopHooks"]

log = logging.getLogger("tenure.worker")


class _Here:
    """How far they are on one event loop."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.workers = 0


class StartStopHooks:
    """Calls the hooks once for all workers of an app that share an event loop: before the first of them, after the last."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._found: WeakKeyDictionary[asyncio.AbstractEventLoop, _Here] = WeakKeyDictionary()

    async def begin(self) -> None:
        """Open them, unless another worker has. If that fails, or is cancelled, they are closed again."""
        here = self._here()
        async with here.lock:
            if not here.workers:
                try:
                    await awaiting(moment(self._hooks.of("on_start")))
                except BaseException:
                    await self._close()
                    raise
            here.workers += 1

    async def end(self) -> None:
        """Close them, unless another worker needs them still; only after `begin` has succeeded. What cannot be closed is logged."""
        here = self._here()
        async with here.lock:
            here.workers -= 1
            if not here.workers:
                await self._close()

    def _here(self) -> _Here:
        loop = asyncio.get_running_loop()
        return self._found.setdefault(loop, _Here())

    async def _close(self) -> None:
        for hook in self._hooks.of("on_stop"):
            try:
                said = hook()
                if inspect.isawaitable(said):
                    await said
            except Exception:
                log.exception("%s, for on_stop, has failed", name_of(hook))


class ExitHooks:
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

    def _calls(self) -> HookCalls[None]:
        try:
            yield from moment(self._hooks.of("worker_exit"))
        except Exception:
            log.exception("worker %s: a function for worker_exit failed", self._worker)
