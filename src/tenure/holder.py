"""Who holds the jobs that are leased by hand."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from contextvars import Context
from time import monotonic

import msgspec

from tenure.errors import OutcomeUnknown, StoreError
from tenure.job import NewJob
from tenure.lease import AbortReason, Lease, new_nonce
from tenure.lifecycle import RELEASE
from tenure.options import Unset
from tenure.stores.base import Store
from tenure.stores.values import JOBS_SHOWN, UNCHANGED, Leased, LeaseRequest, Pulse, Renewal, WorkerInfo
from tenure.worker.identity import Identity
from tenure.worker.unanswered import give_back

__all__ = ["Holder", "Kept"]

log = logging.getLogger("tenure")

LOOK = 1.0
"""Seconds between looks: for jobs, if no wake-up came; at the leases, sooner if the shortest of them needs it."""


class Kept(msgspec.Struct, eq=False):
    """One lease in a holder's care."""

    lease: Lease
    interval: float | None
    """Seconds from one renewal to the next; None: never."""

    queues: tuple[str, ...]
    """Which it was leased from, and which are reaped while it is held."""

    renewed_at: float
    """When the store was asked, on a monotonic clock: it counts from later than that."""

    lost: AbortReason | None = None

    @property
    def held_until(self) -> float:
        return self.renewed_at + self.lease.ttl


class Holder:
    """Looks after the held jobs of one event loop: registered like a worker, beating, renewing and reaping while there are any."""

    def __init__(self, store: Store, entry_limit: int, raw_inboxes: Mapping[str, NewJob], missing_after: float) -> None:
        self._identity = Identity(None)
        self.id = self._identity.take()
        self._store = store
        self._entry_limit = entry_limit
        self._missing_after = missing_after
        self._raw_inboxes = raw_inboxes
        self._loop = asyncio.get_running_loop()
        self._kept: set[Kept] = set()
        self._reaped_at: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._registered = False
        self._task: asyncio.Task[None] | None = None
        self._store_is_gone = False
        self._looked = asyncio.Event()

    async def lease(self, queues: tuple[str, ...], limit: int, ttl: float, wait: float, *, wakeup: bool) -> list[Lease]:
        """Lease up to `limit` jobs of these queues, waiting up to `wait` seconds for the first."""
        deadline = self._loop.time() + wait
        while True:
            with contextlib.suppress(StoreError):  # if the store is gone, the lease says so
                await self._reap(queues)
            answer = await self._ask(
                LeaseRequest(
                    queues=queues, limit=limit, worker=self.id, ttl=ttl, nonce=new_nonce(), solo=not self._kept
                )
            )
            if answer.inbox and await self._take_in(queues, answer) and not answer.leases:
                continue
            left = deadline - self._loop.time()
            if answer.leases or left <= 0:
                return answer.leases
            pause = min(left, LOOK, LOOK if answer.due_in is None else answer.due_in)
            await (self._store.wait_for_work(queues, pause) if wakeup else asyncio.sleep(pause))

    async def _ask(self, request: LeaseRequest) -> Leased:
        try:
            return await self._store.lease(request)
        except OutcomeUnknown:
            with contextlib.suppress(StoreError):  # the leases will expire
                await give_back(self._store, request)
            raise

    async def _take_in(self, queues: tuple[str, ...], answer: Leased) -> int:
        """Make jobs of what lies in the inboxes; how many."""
        try:
            return await self._store.take_in(queues, entry_limit=self._entry_limit, raw=self._raw_inboxes)
        except StoreError:
            if not answer.leases:
                raise
            return 0  # what is in hand is not given up for what is still to come

    async def _reap(self, queues: Iterable[str]) -> None:
        """Take jobs from dead peers in these queues, as a worker does: in each of them once a second."""
        now = monotonic()
        self._reaped_at = {queue: at for queue, at in self._reaped_at.items() if now < at + LOOK}
        due = [queue for queue in dict.fromkeys(queues) if queue not in self._reaped_at]
        if due:
            self._reaped_at |= dict.fromkeys(due, now)
            if any(now > each.held_until for each in self._kept):
                await (
                    self._renew()
                )  # its loop was held up for longer than a lease, and its own jobs are not to be taken
            await self._store.reap(due)

    def keep(self, lease: Lease, renew: float | Unset | None, queues: tuple[str, ...]) -> Kept:
        """Renew this lease until it is dropped or lost."""
        interval = lease.ttl / 3 if isinstance(renew, Unset) else renew
        kept = Kept(lease, interval, queues, monotonic())
        self._kept.add(kept)
        if self._task is None:
            self._task = self._loop.create_task(self._look_after_them(), context=Context())
        self._changed.set()
        return kept

    async def entered(self) -> None:
        """Come back once this holder is registered, so that an operator can retire it if its process dies; or the store is gone."""
        while self._kept and not self._registered and not self._store_is_gone:
            self._looked.clear()
            await self._looked.wait()

    def drop(self, kept: Kept) -> None:
        """Stop renewing: the job is settled. May be called from any thread."""
        self._kept.discard(kept)
        if not self._kept:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and this holder with it
                self._loop.call_soon_threadsafe(self._changed.set)

    async def close(self) -> None:
        """Give back what is still held and leave the registry."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        kept, self._kept = self._kept, set()
        self._looked.set()
        with contextlib.suppress(StoreError):  # the leases will expire
            await self._store.settle([(each.lease, RELEASE) for each in kept])
            await self._store.leave(self.id)

    async def _look_after_them(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self._look()
            except StoreError as error:
                if not self._store_is_gone:
                    log.warning("the store is gone while jobs are held, their leases may be lost: %s", error)
                self._store_is_gone = True
            except Exception:
                log.exception("looking after jobs that are held failed, it is tried again")
                self._store_is_gone = True
            else:
                self._store_is_gone = False
            self._looked.set()
            kept = tuple(self._kept)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min([LOOK, *(each.lease.ttl / 3 for each in kept)]) if kept else None):
                    await self._changed.wait()

    async def _look(self) -> None:
        if self._kept:
            # False: an operator has retired this holder. Its jobs are gone, and those leased since need it registered.
            if not (self._registered and await self._store.beat(self.id, self._pulse())):
                await self._store.register(self._info())
                self._registered = True
            await self._renew()
            await self._reap(queue for each in tuple(self._kept) for queue in each.queues)
        elif self._registered:
            await self._store.leave(self.id)
            self._registered = False

    async def _renew(self) -> None:
        """Hold for longer what is due for it, and hear of everything that has been taken away."""
        kept, asked_at = tuple(self._kept), monotonic()
        due = [k.interval is not None and asked_at - k.renewed_at >= k.interval for k in kept]
        renewals = [Renewal(k.lease, k.lease.ttl if is_due else None) for k, is_due in zip(kept, due, strict=True)]
        for each, is_due, reason in zip(kept, due, await self._store.renew(renewals), strict=True):
            if reason is None:
                each.renewed_at = asked_at if is_due else each.renewed_at
            elif reason != UNCHANGED:
                each.lost = reason
                self._kept.discard(each)

    def _pulse(self) -> Pulse:
        kept = tuple(self._kept)
        jobs = tuple(each.lease.job.id for each in kept[:JOBS_SHOWN])
        return Pulse(held=len(kept), jobs=jobs, missing_after=self._missing_after)

    def _info(self) -> WorkerInfo:
        kept = tuple(self._kept)
        queues = tuple(sorted({each.lease.job.queue for each in kept}))
        return WorkerInfo(
            id=self.id, host=self._identity.host, pid=self._identity.pid, queues=queues, tasks=(),
            concurrency=len(kept), held=len(kept), missing_after=self._missing_after,
        )  # fmt: skip
