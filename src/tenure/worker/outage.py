"""A store that is gone, or refuses everything: said once when that begins and once when it ends, ridden out in between."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from tenure.errors import OutcomeUnknown, StoreError, StoreFull, StoreUnavailable

__all__ = ["STORE_OUTAGE", "Outage"]

STORE_OUTAGE: Final = (StoreUnavailable, OutcomeUnknown, StoreFull)
"""Errors that are the store's and pass by themselves; what was asked is asked again."""

FIRST, LONGEST = 0.1, 5.0
"""Seconds that the pause before another try is at most: the first one, and in the end."""

SURE: Final = 6
"""Tries of a chore after which it is the chore that is refused: of a store that is gone the other parts have heard by then."""

log = logging.getLogger("tenure.worker")


class Outage:
    """What every part of one worker knows of the store's absence; parts in different threads share it."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._tries: dict[str, int] = {}
        self._chores: dict[str, int] = {}
        self._refused: set[str] = set()
        self._since = 0.0
        self._said = ""

    @property
    def gone_for(self) -> float | None:
        """Seconds that the store has been gone for; None while it is there."""
        return time.monotonic() - self._since if self._tries else None

    @property
    def said(self) -> str:
        """The latest error of the store, while it is gone."""
        return self._said

    def gone(self, part: str, error: Exception, *, chore: bool = False) -> float:
        """Note that the store has failed this part of the worker; seconds to pause before the next try, with full jitter.

        A chore says nothing of the store as a whole: a full one takes nothing in, and a user may lack the right to prune.
        """
        with self._lock:
            if chore:
                tries = self._chores[part] = self._chores.get(part, 0) + 1
                if tries >= SURE and not self._tries and part not in self._refused:
                    self._refused.add(part)
                    log.warning("worker %s: the store refuses the %s, it is tried again: %s", self._worker, part, error)
            else:
                self._note(error)
                tries = self._tries[part] = self._tries.get(part, 0) + 1
        return random.uniform(0, min(FIRST * 2.0 ** min(tries, 10), LONGEST))  # noqa: S311

    def _note(self, error: Exception) -> None:
        self._said = str(error)
        if not self._tries:
            self._since = time.monotonic()
            log.warning(
                "worker %s: the store is gone, what was asked of it is asked again: %s",
                self._worker,
                error,
                exc_info=None if isinstance(error, StoreError) else error,
            )

    def answered(self, part: str) -> None:
        """Note that the store has answered this part of the worker."""
        if not self._tries and not self._chores:
            return  # read without the lock: every round trip comes by here
        with self._lock:
            if self._tries.pop(part, None) is not None and not self._tries:
                log.warning("worker %s: the store is back after %.1f s", self._worker, time.monotonic() - self._since)
            if self._chores.pop(part, None) is not None and part in self._refused:
                self._refused.remove(part)
                log.warning("worker %s: the store no longer refuses the %s", self._worker, part)

    async def repeat(
        self,
        part: str,
        step: Callable[[], Awaitable[float]],
        rest: Callable[[float], Awaitable[object]] = asyncio.sleep,
        *,
        chore: bool = False,
    ) -> NoReturn:
        """Do one thing over and over until cancelled, resting between as many seconds as it says.

        No error ends it: a store that is gone, or refuses, is ridden out. Anything else is tried again too, and logged when it
        begins.
        """
        failed: type[Exception] | None = None
        while True:
            try:
                pause = await step()
            except StoreError as error:
                pause = self.gone(part, error, chore=chore)
            except Exception as error:
                if failed is not type(error):
                    log.exception("worker %s: %s failed, it is tried again until it succeeds", self._worker, part)
                failed = type(error)
                pause = LONGEST * random.random()  # noqa: S311
            else:
                failed = None
                self.answered(part)
            await rest(pause)
