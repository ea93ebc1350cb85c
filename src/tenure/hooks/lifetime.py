"""Calls the hooks at the start and the end of a worker: `on_start`, `on_stop`, `worker_exit`."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from weakref import WeakKeyDictionary

from tenure.hooks.calling import HookCalls, acall_hooks, call_hooks, coroutine_of, in_turn
from tenure.hooks.registry import Hooks, name_of

__all__ = ["ExitHooks", "StartStopHooks"]

log = logging.getLogger("tenure.worker")


class _LoopState:
    """How far they are on one event loop."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.workers = 0


class StartStopHooks:
    """Calls the hooks once for all workers of an app that share an event loop: before the first of them, after the last."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._states: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopState] = WeakKeyDictionary()

    async def begin(self) -> None:
        """Open them, unless another worker has. If that fails, or is cancelled, they are closed again."""
        state = self._state()
        async with state.lock:
            if not state.workers:
                try:
                    await acall_hooks(in_turn(self._hooks.of("on_start")))
                except BaseException:
                    await self._close()
                    raise
            state.workers += 1

    async def end(self) -> None:
        """Close them, unless another worker needs them still; only after `begin` has succeeded. What cannot be closed is logged."""
        state = self._state()
        async with state.lock:
            state.workers -= 1
            if not state.workers:
                await self._close()

    def _state(self) -> _LoopState:
        loop = asyncio.get_running_loop()
        return self._states.setdefault(loop, _LoopState())

    async def _close(self) -> None:
        for hook in self._hooks.of("on_stop"):
            try:
                answer = hook()
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                log.exception("%s, for on_stop, has failed", name_of(hook))


class ExitHooks:
    """Calls them, if nobody has before; an error ends them, and is logged."""

    def __init__(self, hooks: Hooks, worker: str) -> None:
        self._hooks = hooks
        self._worker = worker
        self._called = threading.Lock()

    async def call(self) -> None:
        """On the worker's loop."""
        if self._called.acquire(blocking=False):
            await acall_hooks(self._calls())

    def call_blocking(self) -> None:
        """On a thread without a loop."""
        if self._called.acquire(blocking=False):
            call_hooks(self._calls(), lambda awaitable: asyncio.run(coroutine_of(awaitable)))

    def _calls(self) -> HookCalls[None]:
        try:
            yield from in_turn(self._hooks.of("worker_exit"))
        except Exception:
            log.exception("worker %s: a function for worker_exit failed", self._worker)
