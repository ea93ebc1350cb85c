"""`Pause`: pauses and resumes a worker, and calls the hooks before and after."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any

from tenure.hooks.registry import Hooks, name_of
from tenure.worker.loop import Loop

__all__ = ["Pause"]

log = logging.getLogger("tenure.worker")


class Pause:
    """Pauses and resumes a loop, one request after the other. A hook that fails is logged and does not prevent it."""

    def __init__(self, loop: Loop, hooks: Hooks) -> None:
        self._loop = loop
        self._before = hooks.of("before_pause")
        self._after = hooks.of("after_pause")
        self._latest: asyncio.Task[None] | None = None

    def begin(self, *, paused: bool) -> asyncio.Future[None]:
        """Pause or resume.

        The future is done when that has happened and the hooks have returned. Does nothing if the loop is already in
        that state.
        """
        if not self._before and not self._after:
            self._change(paused)
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done
        self._latest = asyncio.create_task(self._in_turn(self._latest, paused), name="tenure-pause")
        return self._latest

    async def close(self) -> None:
        """Cancel a pause or resume that is under way."""
        if self._latest is not None and not self._latest.done():
            self._latest.cancel()
            await asyncio.wait([self._latest])

    async def _in_turn(self, previous: asyncio.Task[None] | None, paused: bool) -> None:
        if previous is not None:
            await asyncio.wait([previous])
        if paused is self._loop.paused:
            return
        if paused:
            await self._call("before_pause", self._before)
        self._change(paused)
        if not paused:
            await self._call("after_pause", self._after)

    def _change(self, paused: bool) -> None:
        if paused:
            self._loop.pause()
        else:
            self._loop.resume()

    async def _call(self, name: str, hooks: Sequence[Callable[[], Any]]) -> None:
        for hook in hooks:
            try:
                result = hook()
                if inspect.isawaitable(result):
                    await result
            except Exception:
                log.exception("%s, for %s, failed", name_of(hook), name)
