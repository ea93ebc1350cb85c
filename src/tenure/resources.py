"""What a worker process opens before its first job and closes after its last: `on_start`, `on_stop`."""

from __future__ import annotations

import asyncio
import inspect
import logging
from weakref import WeakKeyDictionary

from tenure.hooks import Hooks, awaiting, moment, name_of

__all__ = ["Resources"]

log = logging.getLogger("tenure.worker")


class _Here:
    """How far they are on one event loop."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.workers = 0


class Resources:
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
