"""Jobs leased by hand: `Held` is one of them, `Holder` registers, beats and renews for all of an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from contextvars import Context
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from tenure.core.checks import Duration
from tenure.core.failure import describe_exception
from tenure.core.identity import Identity
from tenure.core.job import JobRecord, NewJob
from tenure.core.lease import AbortReason, Lease, new_nonce
from tenure.core.lifecycle import RELEASE, Finish, next_transition
from tenure.core.options import Unset
from tenure.core.outcome import Abandoned, Answer, Done, Fail, Next, Outcome, Raised, Reschedule, Retry, Wait
from tenure.errors import JobError, LeaseLost, OutcomeUnknown, StoreError
from tenure.hooks.calling import awaiting
from tenure.jobs.enqueue_hooks import allowed, come_to_exist
from tenure.jobs.lost_answers import give_back
from tenure.stores.base import Store
from tenure.stores.values import JOBS_SHOWN, UNCHANGED, Leased, LeaseRequest, Pulse, Renewal, VerdictKind, WorkerInfo
from tenure.sync import blocking, refuse_on_loop, run

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Held", "Holder", "Kept"]


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


AGAIN = 0.05
"""Seconds until a renewal is asked for again, if a transaction has the job locked."""


class Held:
    """A job in the caller's hands until it is settled. Its lease is renewed in the background.

    `with held:` (or `async with held:`) finishes the job at the end of the block, and retries it if the block raises;
    an answer such as `Fail("why")` raised in the block decides itself and goes no further.
    """

    def __init__(self, app: App, holder: Holder, lease: Lease, queues: tuple[str, ...]) -> None:
        self._app = app
        self._holder = holder
        self._lease = lease
        self._settings = app.internals.settings(lease.job.task)
        self._settled = False
        self._kept = holder.keep(lease, self._settings.renew, queues)

    def __repr__(self) -> str:
        return f"<Held job {self.job.id} of {self.job.task}>"

    @property
    def job(self) -> JobRecord:
        """The job as it was leased."""
        return self._lease.job

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What it is to be called with, by annotation if its task is registered here; `PayloadError` if it cannot be read."""
        return self._app.internals.caller_of(self.job)._given(self.job)

    @property
    def lost(self) -> AbortReason | None:
        """Why the job must be let go: it was taken away, or (`error`) may have been, for it could not be renewed in time."""
        return self._kept.lost or (AbortReason.ERROR if monotonic() > self._kept.held_until else None)

    async def arenew(self) -> None:
        """Hold it for the length of its lease from now; `LeaseLost` if it has been taken away."""
        while True:
            asked_at = monotonic()
            [reason] = await self._app.internals.session.store.renew([Renewal(self._lease, self._lease.ttl)])
            if reason is None:
                self._kept.renewed_at = asked_at
                return
            if reason != UNCHANGED or (reason := self.lost) is not None:
                raise LeaseLost(self.job.id, reason)
            await asyncio.sleep(AGAIN)

    async def afinish(self, value: Any = None) -> None:
        """End the job as succeeded with this result, or a step as if its function had given this value.

        Like all that settle it, `LeaseLost` if it has been taken away; `UnknownTask` if it is a step whose flow is not here.
        """
        await self._settle(self._succeeded(value))

    async def arelease(self) -> None:
        """Give it back to the front of its queue, as if it had not been leased."""
        await self._settle(Abandoned())

    async def aretry(self, why: str = "", *, after: Duration | None = None) -> None:
        """Put it at the back of its queue, after so many seconds or by the backoff of its task."""
        await self._settle(Retry(why, after=after))

    async def afail(self, why: str = "") -> None:
        """End the job as failed."""
        await self._settle(Fail(why))

    def let_go(self) -> None:
        """Stop renewing, for nobody has it after all; for the other parts of Tenure."""
        self._holder.drop(self._kept)

    renew = blocking(arenew)
    finish = blocking(afinish)
    release = blocking(arelease)
    retry = blocking(aretry)
    fail = blocking(afail)

    def __enter__(self) -> Self:
        refuse_on_loop("held.__enter__", "use async with")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return run(self.__aexit__(kind, error, trace))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self._settled:
            await self._settle(self._succeeded(None) if error is None else self._outcome(error))
        return isinstance(error, Answer)

    def _succeeded(self, value: Any) -> Outcome:
        return self._app.internals.caller_of(self.job)._completed(self.job, value)

    def _outcome(self, error: BaseException) -> Outcome:
        match error:
            case Next() | Done():
                return self._succeeded(error)
            case Retry() | Fail() | Reschedule() | Wait():
                return error
            case Exception():
                return Raised(error, describe_exception(error))
            case _:  # KeyboardInterrupt, a cancellation: through no fault of the job
                return Abandoned()

    async def _settle(self, outcome: Outcome) -> None:
        step = next_transition(self.job, outcome, self._settings.policy)
        coming = step.children if isinstance(step, Finish) else ()
        if coming and self._app.internals.hooks.enqueues:
            await awaiting(allowed(self._app, coming))
        [verdict] = await self._app.internals.session.store.settle([(self._lease, step)])
        if verdict.kind is VerdictKind.REFUSED:
            raise JobError(f"job {self.job.id} does not end like this, and is still held: {verdict.reason}")
        self._settled = True
        self.let_go()
        match verdict.kind:
            case VerdictKind.OK:
                if coming and self._app.internals.hooks.enqueues:
                    await awaiting(come_to_exist(self._app, coming))
            case VerdictKind.NOT_FOUND:
                raise LeaseLost(self.job.id, AbortReason.NOT_FOUND)
            case _:
                raise LeaseLost(self.job.id, self._kept.lost or AbortReason.TAKEN)
