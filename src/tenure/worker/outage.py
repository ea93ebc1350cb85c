"""`Outage`: retries while the store is down, and logs once when that begins and once when it ends."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from tenure.core.jitter import full_jitter
from tenure.errors import StoreError

__all__ = ["Outage"]

FIRST, LONGEST = 0.1, 5.0
"""Upper bound of the pause before a retry, in seconds: for the first retry, and for all later ones."""

REFUSED_AFTER: Final = 6
"""Failures in a row after which only the chore is refused: if the store were down, other parts of the worker would have
noticed by then.
"""

log = logging.getLogger("tenure.worker")


class Outage:
    """Which parts of one worker the store, or another server, has failed. The parts share it across threads."""

    def __init__(self, worker: str, server: str = "the store") -> None:
        self._worker = worker
        self._server = server
        self._lock = threading.Lock()
        self._tries: dict[str, int] = {}
        self._chores: dict[str, int] = {}
        self._refused: set[str] = set()
        self._since = 0.0
        self._last_error = ""

    @property
    def down_for(self) -> float | None:
        """Seconds that the store has been down; None while it answers."""
        return time.monotonic() - self._since if self._tries else None

    @property
    def last_error(self) -> str:
        """The latest error message of the store, while it is down."""
        return self._last_error

    def failed(self, part: str, error: Exception, *, chore: bool = False) -> float:
        """Record that the store has failed this part of the worker.

        Returns the seconds to wait before the next try, with full jitter.

        A failed chore does not mean that the store is down: a full store refuses new jobs, and a database user may lack
        the right to prune.
        """
        with self._lock:
            if chore:
                tries = self._chores[part] = self._chores.get(part, 0) + 1
                if tries >= REFUSED_AFTER and not self._tries and part not in self._refused:
                    self._refused.add(part)
                    log.warning("worker %s: %s refuses the %s, retrying: %s", self._worker, self._server, part, error)
            else:
                self._went_down(error)
                tries = self._tries[part] = self._tries.get(part, 0) + 1
        return full_jitter(tries, FIRST, LONGEST)

    def _went_down(self, error: Exception) -> None:
        self._last_error = str(error)
        if not self._tries:
            self._since = time.monotonic()
            log.warning(
                "worker %s: %s is down, retrying: %s",
                self._worker,
                self._server,
                error,
                exc_info=None if isinstance(error, StoreError) else error,
            )

    def answered(self, part: str) -> None:
        """Record that the store has answered this part of the worker."""
        if not self._tries and not self._chores:
            return  # read without the lock, because every round trip calls this
        with self._lock:
            if self._tries.pop(part, None) is not None and not self._tries:
                log.warning(
                    "worker %s: %s is back after %.1f s", self._worker, self._server, time.monotonic() - self._since
                )
            if self._chores.pop(part, None) is not None and part in self._refused:
                self._refused.remove(part)
                log.warning("worker %s: %s no longer refuses the %s", self._worker, self._server, part)

    async def repeat(
        self,
        part: str,
        operation: Callable[[], Awaitable[float]],
        rest: Callable[[float], Awaitable[object]] = asyncio.sleep,
        *,
        chore: bool = False,
    ) -> NoReturn:
        """Run `operation` until cancelled, waiting between two runs as many seconds as it returns.

        No error ends it. Errors of the store are retried and reported by this object. Any other error is retried too,
        and logged when it first occurs.
        """
        failed: type[Exception] | None = None
        while True:
            try:
                pause = await operation()
            except StoreError as error:
                pause = self.failed(part, error, chore=chore)
            except Exception as error:
                if failed is not type(error):
                    log.exception("worker %s: %s failed, retrying until it succeeds", self._worker, part)
                failed = type(error)
                pause = LONGEST * random.random()  # noqa: S311
            else:
                failed = None
                self.answered(part)
            await rest(pause)
