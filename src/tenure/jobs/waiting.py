"""Waits for the results of many jobs with one request to the store, for all callers of one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextvars import Context

from tenure.core.job import JobRecord
from tenure.errors import OutcomeUnknown, StoreUnavailable
from tenure.stores.base import BATCH, Store
from tenure.stores.values import AnnouncementKind

__all__ = ["Waiting"]

log = logging.getLogger("tenure")

POLL = 1.0
"""Seconds after which all jobs are looked up again, in case an announcement was lost."""

Waiter = asyncio.Future[JobRecord | None]


class Waiting:
    """Returns the records of jobs as they become final. Belongs to one event loop.

    The store announces jobs that are final; announcements that arrive during a lookup are answered by the next one
    together. It rides out an outage of the store, until the caller's own timeout.
    """

    def __init__(self, store: Store, *, wakeup: bool) -> None:
        self._store = store
        self._wakeup = wakeup
        self._waiters: dict[str, set[Waiter]] = {}
        self._to_look_up: set[str] = set()
        self._look_up_needed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._store_is_gone = False

    async def final(self, job_id: str) -> JobRecord | None:
        """Wait until this job is final; None if there is no such job."""
        if not self._tasks:
            self._start()
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(job_id, set()).add(waiter)
        self._look_up_soon(job_id)
        try:
            return await waiter
        finally:
            # Also if the caller gave up: no one else would remove the waiter.
            if (others := self._waiters.get(job_id)) is not None:
                others.discard(waiter)
                if not others:
                    del self._waiters[job_id]

    async def close(self) -> None:
        """Stop waiting. Callers that still wait get `StoreUnavailable`."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._give_up(StoreUnavailable("the app was closed while a caller waited for a result"))

    def _start(self) -> None:
        loops = [self._answer(), self._listen()] if self._wakeup else [self._answer()]
        # An empty context, because these tasks outlive the caller and must not keep its variables alive.
        self._tasks = [asyncio.get_running_loop().create_task(loop, context=Context()) for loop in loops]

    async def _answer(self) -> None:
        clock = asyncio.get_running_loop().time
        poll_at = clock() + POLL
        while True:
            await self._wait_for_lookups(poll_at - clock())
            if clock() >= poll_at:
                self._to_look_up.update(self._waiters)
                poll_at = clock() + POLL
            ids, self._to_look_up = list(self._to_look_up & self._waiters.keys()), set()
            for start in range(0, len(ids), BATCH):
                await self._look_up(ids[start : start + BATCH])

    async def _wait_for_lookups(self, timeout: float) -> None:
        """Return when there is a job to look up, or when it is time to look up all of them."""
        self._look_up_needed.clear()
        if not self._to_look_up:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(timeout, 0) if self._waiters else None):
                    await self._look_up_needed.wait()

    async def _look_up(self, ids: list[str]) -> None:
        try:
            found = await self._store.wait(ids)
        except (StoreUnavailable, OutcomeUnknown) as error:
            if not self._store_is_gone:
                log.warning("the store is gone while callers wait for results; asking again every second: %s", error)
                self._store_is_gone = True
            return
        except Exception as error:  # noqa: BLE001 - raised to every caller that waits
            self._give_up(error)
            return
        if self._store_is_gone:
            log.warning("the store is back")
            self._store_is_gone = False
        for job_id, record in found.items():
            for waiter in self._waiters.pop(job_id, ()):
                if not waiter.done():
                    waiter.set_result(record)

    async def _listen(self) -> None:
        while True:
            try:
                async for announcement in self._store.announcements():
                    if announcement.kind is AnnouncementKind.DONE:
                        self._look_up_soon(announcement.job_id)
            except StoreUnavailable:
                pass
            except Exception:
                log.exception("the announcements of results failed; polling continues")
            await asyncio.sleep(POLL)

    def _look_up_soon(self, job_id: str) -> None:
        self._to_look_up.add(job_id)
        self._look_up_needed.set()

    def _give_up(self, error: Exception) -> None:
        waiting, self._waiters = self._waiters, {}
        for waiters in waiting.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(error)
