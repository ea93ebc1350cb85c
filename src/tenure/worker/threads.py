"""`Threads`: runs blocking functions in daemon threads."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, NamedTuple

from tenure.core.loops import call_soon
from tenure.worker.fork_guard import ForkGuard

__all__ = ["Threads"]


class _Call(NamedTuple):
    ended: asyncio.Future[tuple[Any, BaseException | None]]
    context: Context
    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


class Threads:
    """Runs blocking functions, as many at a time as are called. Belongs to one event loop.

    The threads are daemons, so one that never ends cannot keep the process alive. All results since the last wake-up
    return to the loop in one call: a call for each would cost more than the job.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._feed: SimpleQueue[_Call | None] = SimpleQueue()
        self._ended: deque[tuple[_Call, Any, BaseException | None]] = deque()
        self._hop_under_way = False
        self._fork_guard = ForkGuard()
        self._started = 0
        self._busy = 0
        self.strays = 0
        """Number of functions that were abandoned and have not ended."""

    async def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function in a thread, with the current context variables.

        If cancelled, it leaves the function running. Its thread becomes a stray, another takes its place, and its
        result is dropped.
        """
        self._busy += 1
        if self._busy > self._started:
            self._started += 1
            threading.Thread(target=self._serve, name="tenure-job", daemon=True).start()
        ended = self._loop.create_future()
        self._feed.put(_Call(ended, copy_context(), function, args, kwargs))
        try:
            value, error = await ended
        except asyncio.CancelledError:
            if not ended.done() or ended.cancelled():
                self.strays += 1
            raise
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Let every thread end once its function has."""
        for _ in range(self._started):
            self._feed.put(None)

    def _serve(self) -> None:
        while (call := self._feed.get()) is not None:
            value: Any = None
            error: BaseException | None = None
            if not call.ended.cancelled():
                try:
                    value = call.context.run(call.function, *call.args, **call.kwargs)
                except BaseException as raised:  # noqa: BLE001  (any error becomes the outcome of the job)
                    error = raised
                self._fork_guard.exit_if_forked(call.function)
            self._hand_back((call, value, error))
            del call, value, error  # otherwise an idle thread keeps the last job's arguments and result alive

    def _hand_back(self, ended: tuple[_Call, Any, BaseException | None]) -> None:
        self._ended.append(ended)
        # The flag is cleared before the deque is emptied, so a thread that appends later finds it cleared and wakes the
        # loop again.
        if not self._hop_under_way:
            self._hop_under_way = True
            call_soon(self._loop, self._resolve)  # if the loop is closed, no job waits any more

    def _resolve(self) -> None:
        self._hop_under_way = False
        while self._ended:
            call, value, error = self._ended.popleft()
            self._busy -= 1
            if not call.ended.done():
                call.ended.set_result((value, error))
            elif call.ended.cancelled():
                self.strays -= 1
