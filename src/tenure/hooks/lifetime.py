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
    """How many workers use the hooks on one event loop."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.workers = 0


class StartStopHooks:
    """Calls `on_start` before the first worker of an app on an event loop, and `on_stop` after the last one."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._states: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopState] = WeakKeyDictionary()

    async def begin(self) -> None:
        """Call `on_start`, unless another worker has. If that fails or is cancelled, `on_stop` is called."""
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
        """Call `on_stop`, unless another worker still runs; only after a successful `begin`. Errors of hooks are logged."""
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
                log.exception("the on_stop hook %s failed", name_of(hook))


class ExitHooks:
    """Calls the `worker_exit` hooks, at most once. An error ends the calls and is logged."""

    def __init__(self, hooks: Hooks, worker: str) -> None:
        self._hooks = hooks
        self._worker = worker
        self._called = threading.Lock()

    async def call(self) -> None:
        """Call them on the worker's loop."""
        if self._called.acquire(blocking=False):
            await acall_hooks(self._calls())

    def call_blocking(self) -> None:
        """Call them on a thread without a loop."""
        if self._called.acquire(blocking=False):
            call_hooks(self._calls(), lambda awaitable: asyncio.run(coroutine_of(awaitable)))

    def _calls(self) -> HookCalls[None]:
        try:
            yield from in_turn(self._hooks.of("worker_exit"))
        except Exception:
            log.exception("worker %s: a worker_exit hook failed", self._worker)
