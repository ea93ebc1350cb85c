"""A store that is gone: told once when it goes and once when it is back, ridden out in between."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from tenure.errors import OutcomeUnknown, StoreFull, StoreUnavailable

__all__ = ["GONE", "Outage"]

GONE: Final = (StoreUnavailable, OutcomeUnknown, StoreFull)
"""Errors that are the store's and pass by themselves; what was asked is asked again."""

FIRST, LONGEST = 0.1, 5.0
"""Seconds that the pause before another try is at most: the first one, and in the end."""

log = logging.getLogger("tenure.worker")


class Outage:
    """What every part of one worker knows of the store's absence; parts in different threads share it."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._tries: dict[str, int] = {}
        self._since = 0.0

    @property
    def gone_for(self) -> float | None:
        """Seconds that the store has been gone for; None while it is there."""
        return time.monotonic() - self._since if self._tries else None

    def gone(self, part: str, error: Exception) -> float:
        """Note that the store has failed this part of the worker; seconds to pause before the next try, with full jitter."""
        with self._lock:
            if not self._tries:
                self._since = time.monotonic()
                log.warning(
                    "worker %s: the store is gone, what was asked of it is asked again: %r", self._worker, str(error)
                )
            tries = self._tries[part] = self._tries.get(part, 0) + 1
        return random.uniform(0, min(FIRST * 2.0 ** min(tries, 10), LONGEST))  # noqa: S311

    def answered(self, part: str) -> None:
        """Note that the store has answered this part of the worker."""
        if not self._tries:
            return  # read without the lock: every round trip comes by here
        with self._lock:
            if self._tries.pop(part, None) is not None and not self._tries:
                log.warning("worker %s: the store is back after %.1f s", self._worker, time.monotonic() - self._since)

    async def repeat(
        self,
        part: str,
        step: Callable[[], Awaitable[float]],
        rest: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> NoReturn:
        """Do one thing over and over until cancelled, resting between as many seconds as it says.

        No error ends it: a store that is gone is ridden out, anything else is logged and tried again.
        """
        while True:
            try:
                pause = await step()
            except GONE as error:
                pause = self.gone(part, error)
            except Exception:
                log.exception("worker %s: %s failed, it is tried again", self._worker, part)
                pause = LONGEST * random.random()  # noqa: S311
            else:
                self.answered(part)
            await rest(pause)
