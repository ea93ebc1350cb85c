"""`Held`, a job that was leased by hand, and `Holder`, which registers, renews and reaps for all of them."""

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
from tenure.hooks.calling import acall_hooks
from tenure.jobs.enqueue_hooks import after_enqueue_of_children, before_enqueue
from tenure.jobs.lost_answers import release_granted
from tenure.stores.base import Store
from tenure.stores.values import JOBS_SHOWN, UNCHANGED, Leased, LeaseRequest, Pulse, Renewal, VerdictKind, WorkerInfo
from tenure.sync import blocking, refuse_on_loop, run

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Held", "HeldLease", "Holder"]

log = logging.getLogger("tenure")

INTERVAL = 1.0
"""Longest pause in seconds between two rounds: of asking for jobs if no wake-up comes, and of renewing and reaping."""

LOCKED_PAUSE = 0.05
"""Seconds until a renewal is tried again, if a transaction has the job locked."""


class Held:
    """A job that was leased by hand with `app.lease`, held until it is settled. Its lease is renewed in the background.

    ```python
    for held in app.lease("orders", wait=10):
        with held:  # or: async with held:
            args, kwargs = held.arguments
            deliver(*args, **kwargs)
    ```

    The block finishes the job at its end, and retries it if it raises. An answer that it raises, such as `Fail("why")`,
    decides for itself and is not raised further. Without a block, call one of `finish`, `retry`, `fail` and `release`.

    Whatever settles the job raises `LeaseLost` if the job has been taken away. Every method has an async twin whose name
    begins with `a`.
    """

    def __init__(self, app: App, holder: Holder, lease: Lease, queues: tuple[str, ...]) -> None:
        self._app = app
        self._holder = holder
        self._lease = lease
        self._settings = app.internals.settings(lease.job.task)
        self._settled = False
        self._held_lease = holder.hold(lease, self._settings.renew, queues)

    def __repr__(self) -> str:
        return f"<Held job {self.job.id} of {self.job.task}>"

    @property
    def job(self) -> JobRecord:
        """The record of the job at the time of the lease."""
        return self._lease.job

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of the call, converted by annotation if the task is registered here.

        `PayloadError` if they cannot be decoded.
        """
        return self._app.internals.caller_of(self.job)._given(self.job)

    @property
    def lost(self) -> AbortReason | None:
        """Why the job is no longer held; None while it is.

        `error` means that the lease could not be renewed in time, so that the job may have been taken away.
        """
        return self._held_lease.lost or (AbortReason.ERROR if monotonic() > self._held_lease.held_until else None)

    async def arenew(self) -> None:
        """Renew the lease for its full length from now. `LeaseLost` if the job has been taken away."""
        while True:
            sent_at = monotonic()
            [reason] = await self._app.internals.session.store.renew([Renewal(self._lease, self._lease.ttl)])
            if reason is None:
                self._held_lease.renewed_at = sent_at
                return
            if reason != UNCHANGED or (reason := self.lost) is not None:
                raise LeaseLost(self.job.id, reason)
            await asyncio.sleep(LOCKED_PAUSE)

    async def afinish(self, value: Any = None) -> None:
        """End the job as succeeded with this result; a step, as if its function had returned it.

        `LeaseLost` if the job has been taken away. `UnknownTask` for a step whose flow is not registered here.
        """
        await self._settle(self._succeeded(value))

    async def arelease(self) -> None:
        """Put the job back at the front of its queue, as if it had not been leased."""
        await self._settle(Abandoned())

    async def aretry(self, why: str = "", *, after: Duration | None = None) -> None:
        """Put the job at the back of its queue, after `after` seconds; by default after the backoff of its task."""
        await self._settle(Retry(why, after=after))

    async def afail(self, why: str = "") -> None:
        """End the job as failed."""
        await self._settle(Fail(why))

    def _stop_renewing(self) -> None:
        """Stop renewing the lease, which no one uses."""
        self._holder.drop(self._held_lease)

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
            case _:  # KeyboardInterrupt or a cancellation, which is not the fault of the job
                return Abandoned()

    async def _settle(self, outcome: Outcome) -> None:
        transition = next_transition(self.job, outcome, self._settings.policy)
        children = transition.children if isinstance(transition, Finish) else ()
        if children and self._app.internals.hooks.enqueues:
            await acall_hooks(before_enqueue(self._app, children))
        [verdict] = await self._app.internals.session.store.settle([(self._lease, transition)])
        if verdict.kind is VerdictKind.REFUSED:
            raise JobError(f"job {self.job.id} cannot end like this and is still held: {verdict.reason}")
        self._settled = True
        self._stop_renewing()
        match verdict.kind:
            case VerdictKind.OK:
                if children and self._app.internals.hooks.enqueues:
                    await acall_hooks(after_enqueue_of_children(self._app, children))
            case VerdictKind.NOT_FOUND:
                raise LeaseLost(self.job.id, AbortReason.NOT_FOUND)
            case _:
                raise LeaseLost(self.job.id, self._held_lease.lost or AbortReason.TAKEN)


class Holder:
    """Registers like a worker while it holds jobs, and beats, renews and reaps for them. Belongs to one event loop."""

    def __init__(self, store: Store, entry_limit: int, raw_inboxes: Mapping[str, NewJob], missing_after: float) -> None:
        self._identity = Identity(None)
        self.id = self._identity.take()
        self._store = store
        self._entry_limit = entry_limit
        self._missing_after = missing_after
        self._raw_inboxes = raw_inboxes
        self._loop = asyncio.get_running_loop()
        self._held: set[HeldLease] = set()
        self._reaped_at: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._registered = False
        self._task: asyncio.Task[None] | None = None
        self._store_is_gone = False
        self._served = asyncio.Event()

    async def lease(self, queues: tuple[str, ...], limit: int, ttl: float, wait: float, *, wakeup: bool) -> list[Lease]:
        """Lease up to `limit` jobs from `queues`, waiting up to `wait` seconds for the first."""
        deadline = self._loop.time() + wait
        while True:
            with contextlib.suppress(StoreError):  # if the store is gone, the lease raises it
                await self._reap(queues)
            answer = await self._lease(
                LeaseRequest(
                    queues=queues, limit=limit, worker=self.id, ttl=ttl, nonce=new_nonce(), solo=not self._held
                )
            )
            if answer.inbox and await self._take_in(queues, answer) and not answer.leases:
                continue
            left = deadline - self._loop.time()
            if answer.leases or left <= 0:
                return answer.leases
            pause = min(left, INTERVAL, INTERVAL if answer.due_in is None else answer.due_in)
            await (self._store.wait_for_work(queues, pause) if wakeup else asyncio.sleep(pause))

    async def _lease(self, request: LeaseRequest) -> Leased:
        try:
            return await self._store.lease(request)
        except OutcomeUnknown:
            with contextlib.suppress(StoreError):  # the leases will expire
                await release_granted(self._store, request)
            raise

    async def _take_in(self, queues: tuple[str, ...], answer: Leased) -> int:
        """Turn the entries of the inboxes into jobs. Returns how many."""
        try:
            return await self._store.take_in(queues, entry_limit=self._entry_limit, raw=self._raw_inboxes)
        except StoreError:
            if not answer.leases:
                raise
            return 0  # the jobs that were leased must not be lost for this

    async def _reap(self, queues: Iterable[str]) -> None:
        """Reap expired leases of these queues, as a worker does: each queue once a second."""
        now = monotonic()
        self._reaped_at = {queue: at for queue, at in self._reaped_at.items() if now < at + INTERVAL}
        due = [queue for queue in dict.fromkeys(queues) if queue not in self._reaped_at]
        if due:
            self._reaped_at |= dict.fromkeys(due, now)
            if any(now > each.held_until for each in self._held):
                # The event loop was blocked for longer than a lease: the reaping would take this holder's own jobs.
                await self._renew()
            await self._store.reap(due)

    def hold(self, lease: Lease, renew: float | Unset | None, queues: tuple[str, ...]) -> HeldLease:
        """Renew this lease until it is dropped or lost."""
        interval = lease.ttl / 3 if isinstance(renew, Unset) else renew
        held = HeldLease(lease, interval, queues, monotonic())
        self._held.add(held)
        if self._task is None:
            self._task = self._loop.create_task(self._serve(), context=Context())
        self._changed.set()
        return held

    async def wait_registered(self) -> None:
        """Wait until this holder is registered, so that an operator can retire it if its process dies, or the store is gone."""
        while self._held and not self._registered and not self._store_is_gone:
            self._served.clear()
            await self._served.wait()

    def drop(self, held: HeldLease) -> None:
        """Stop renewing this lease, because its job is settled. May be called from any thread."""
        self._held.discard(held)
        if not self._held:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and this holder with it
                self._loop.call_soon_threadsafe(self._changed.set)

    async def close(self) -> None:
        """Release the jobs that are still held, and leave the registry."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        held, self._held = self._held, set()
        self._served.set()
        with contextlib.suppress(StoreError):  # the leases will expire
            await self._store.settle([(each.lease, RELEASE) for each in held])
            await self._store.leave(self.id)

    async def _serve(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self._serve_once()
            except StoreError as error:
                if not self._store_is_gone:
                    log.warning("the store is gone while jobs are held; their leases may be lost: %s", error)
                self._store_is_gone = True
            except Exception:
                log.exception("an internal error while renewing held jobs; trying again")
                self._store_is_gone = True
            else:
                self._store_is_gone = False
            self._served.set()
            held = tuple(self._held)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min([INTERVAL, *(each.lease.ttl / 3 for each in held)]) if held else None):
                    await self._changed.wait()

    async def _serve_once(self) -> None:
        if self._held:
            # False: an operator has retired this holder. Its jobs are gone, but those it leased since need it to be registered.
            if not (self._registered and await self._store.beat(self.id, self._pulse())):
                await self._store.register(self._info())
                self._registered = True
            await self._renew()
            await self._reap(queue for each in tuple(self._held) for queue in each.queues)
        elif self._registered:
            await self._store.leave(self.id)
            self._registered = False

    async def _renew(self) -> None:
        """Renew the leases that are due, and find out which jobs have been taken away."""
        held, sent_at = tuple(self._held), monotonic()
        due = [each.interval is not None and sent_at - each.renewed_at >= each.interval for each in held]
        renewals = [
            Renewal(each.lease, each.lease.ttl if is_due else None) for each, is_due in zip(held, due, strict=True)
        ]
        for each, is_due, reason in zip(held, due, await self._store.renew(renewals), strict=True):
            if reason is None:
                each.renewed_at = sent_at if is_due else each.renewed_at
            elif reason != UNCHANGED:
                each.lost = reason
                self._held.discard(each)

    def _pulse(self) -> Pulse:
        held = tuple(self._held)
        jobs = tuple(each.lease.job.id for each in held[:JOBS_SHOWN])
        return Pulse(held=len(held), jobs=jobs, missing_after=self._missing_after)

    def _info(self) -> WorkerInfo:
        held = tuple(self._held)
        queues = tuple(sorted({each.lease.job.queue for each in held}))
        return WorkerInfo(
            id=self.id, host=self._identity.host, pid=self._identity.pid, queues=queues, tasks=(),
            concurrency=len(held), held=len(held), missing_after=self._missing_after,
        )  # fmt: skip


class HeldLease(msgspec.Struct, eq=False):
    """One lease that a holder renews."""

    lease: Lease
    interval: float | None
    """Seconds from one renewal to the next; None if it is not renewed."""

    queues: tuple[str, ...]
    """The queues that were asked for the job; they are reaped while it is held."""

    renewed_at: float
    """When the latest renewal was sent, on the monotonic clock. The store counts from a later time."""

    lost: AbortReason | None = None

    @property
    def held_until(self) -> float:
        return self.renewed_at + self.lease.ttl
