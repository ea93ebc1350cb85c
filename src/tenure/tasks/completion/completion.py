"""`Completion`: one attempt's way to its end in a transaction, from the opened block to the store's answer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from tenure.core.jitter import full_jitter
from tenure.core.job import State
from tenure.core.lease import AbortReason, Lease
from tenure.core.lifecycle import Finish
from tenure.errors import Aborted, JobError, LeaseLost, MissingAttribute, StoreError, WrongState
from tenure.hooks.calling import HookCalls
from tenure.jobs.enqueue_hooks import before_enqueue
from tenure.stores.base import OwnTransaction, Store
from tenure.stores.callers import Work
from tenure.stores.values import AttributeMissing, LeaseStatus, Verdict, VerdictKind
from tenure.tasks.completion.stage import Stage, StageEvent, next_stage

if TYPE_CHECKING:
    from tenure.tasks.context import Context
    from tenure.tasks.task import Task

__all__ = ["Completion", "Transactions", "await_despite_cancel"]

T = TypeVar("T")

ASK_TIMEOUT = 30.0
"""Seconds for which the store is asked what became of a transaction; it may be gone, or the commit still under way."""


class Transactions:
    """Opens the transactions of a worker's jobs. Created on the worker's loop."""

    def __init__(self, store: Store, timeout: float, secure: Callable[[float], Awaitable[None]]) -> None:
        """`secure` makes sure that no lease expires although none can be renewed for the given number of seconds."""
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._timeout = timeout
        self._secure = secure

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the transactions and of their store."""
        return self._loop

    @property
    def store(self) -> Store:
        return self._store

    def completion(self, ctx: Context, task: Task[..., Any]) -> Completion:
        """A new completion for one attempt."""
        return Completion(ctx, task, self)

    async def secure_leases(self) -> None:
        """Secure the worker's leases before a transaction that blocks every other write of the store."""
        if self.store.one_writer:
            await self._secure(self._timeout)

    async def begin(self, *, writes: bool) -> OwnTransaction:
        """Open a transaction."""
        return await self.store.begin(writes=writes, timeout=self._timeout)

    async def lease_status(self, lease: Lease) -> LeaseStatus | None:
        """Ask the store for the status of a lease until it answers; None after `ASK_TIMEOUT` seconds."""
        deadline = monotonic() + ASK_TIMEOUT
        for tries in itertools.count():
            with suppress(StoreError):
                return await self.store.lease_status(lease)
            if monotonic() > deadline:
                break
            await asyncio.sleep(full_jitter(tries, first=0.1, longest=2.0))
        return None


class Completion:
    """One attempt's way to its end in a transaction, shared by its blocks and by the worker."""

    def __init__(self, ctx: Context, task: Task[..., Any], transactions: Transactions) -> None:
        self.transactions = transactions
        self._stage = Stage.RUNNING
        self.transition = Finish(State.SUCCEEDED)
        """How the job has ended, once it is final."""

        self.finishing: asyncio.Future[None] | None = None
        """The future that settles and commits, on the worker's loop; None while that is not under way."""

        self._ctx = ctx
        self._task = task

    @property
    def lease(self) -> Lease:
        return self._ctx._lease

    @property
    def stage(self) -> Stage:
        """The current stage."""
        return self._stage

    def advance(self, event: StageEvent) -> None:
        """Change to the stage that follows from this event."""
        self._enter(next_stage(self._stage, event))

    def mirror(self, stage: Stage, transition: Finish | None) -> None:
        """Copy the stage, and how the job has ended, from the completion in a child process."""
        self._enter(stage)
        if transition is not None:
            self.transition = transition

    def _enter(self, stage: Stage) -> None:
        self._stage = stage

    @property
    def may_be_final(self) -> bool:
        """Whether the job may have become final, or may do so at any moment."""
        return self.stage not in (Stage.RUNNING, Stage.OPEN)

    def check_signal(self) -> None:
        """Raise if the job is known to be lost or out of time. During a shutdown it may still be completed."""
        match self._ctx.signal.reason:
            case None | AbortReason.SHUTDOWN:
                return
            case AbortReason.TIMEOUT as reason:
                raise Aborted(reason)
            case reason:
                raise LeaseLost(self.lease.job.id, reason)

    async def check_held(self) -> None:
        """Raise if the store says that the job is no longer held. Takes no lock, because a transaction may be open."""
        self.check_signal()
        [job] = await self.transactions.store.get([self.lease.job.id])
        if job is None:
            raise self._lost(LeaseStatus.GONE)
        if job.state is not State.RUNNING or job.fence != self.lease.token.fence:
            raise self._lost(LeaseStatus.LOST)

    async def open(self) -> None:
        """Enter a block. `WrongState` if the job is complete, or another block is open."""
        job_id = self.lease.job.id
        if self.stage is Stage.JOINED:
            await self.resolve()  # the caller may have rolled it back, to try again
        if self.stage is Stage.FINAL:
            raise WrongState(job_id, State.SUCCEEDED, "running: it is completed once")
        self.check_signal()
        if self.stage is not Stage.RUNNING:
            raise WrongState(job_id, "in ctx.complete() already", "in no other")
        self.advance(StageEvent.ENTERED)

    def settle_work(self, result: Any) -> Work[Verdict]:
        """The work that settles the job in a transaction: with this result, or value of a step, and with its children.

        From now on the token alone decides.
        """
        self.check_signal()
        self.transition = self._task._finish(self.lease.job, result, self._ctx._children)
        return self.transactions.store.settling((self.lease, self.transition))

    def before_enqueue(self) -> HookCalls[None]:
        """Call the hooks for the jobs that are created because the next step waits for them; `EnqueueRefused` if one refuses."""
        if self._task.app.internals.hooks.enqueues:
            yield from before_enqueue(self._task.app, self.transition.children[len(self._ctx._children) :])

    def raise_unless_settled(self, verdict: Verdict) -> None:
        """Raise unless the store has accepted the settle."""
        match verdict.kind:
            case VerdictKind.OK:
                return
            case VerdictKind.REFUSED:
                if isinstance(verdict.refusal, AttributeMissing):
                    raise MissingAttribute(verdict.refusal.task, verdict.refusal.attribute)
                raise JobError(f"the store refused the jobs that job {self.lease.job.id} enqueues: {verdict.reason}")
            case kind:
                raise self._lost(LeaseStatus.GONE if kind is VerdictKind.NOT_FOUND else LeaseStatus.LOST)

    async def resolve(self) -> None:
        """Find out whether the job is final, if that is not known yet."""
        if self.finishing is not None:
            await asyncio.wait([self.finishing])
        if self.stage is Stage.JOINED:
            await self.ask_store()

    async def ask_store(self) -> None:
        """Ask the store whether the transaction was committed."""
        status = await self.transactions.lease_status(self.lease)
        if status is LeaseStatus.SETTLED or (status is LeaseStatus.GONE and self.lease.job.keep == 0):
            self.advance(StageEvent.FOUND_COMMITTED)
            return
        self.advance(StageEvent.NOT_FOUND_OUT if status is None else StageEvent.FOUND_UNCOMMITTED)
        if status is not LeaseStatus.HELD:
            self._lost(status)

    def _lost(self, status: LeaseStatus | None) -> LeaseLost:
        """Abort the job because it is no longer held. Returns the error to raise."""
        reason = {LeaseStatus.GONE: AbortReason.NOT_FOUND, None: AbortReason.ERROR}.get(status, AbortReason.TAKEN)
        self._ctx.signal.abort(reason)
        return LeaseLost(self.lease.job.id, self._ctx.signal.reason or reason)


async def await_despite_cancel(action: Awaitable[T]) -> T:
    """Wait until the action has ended, even if the caller is cancelled; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(action)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        with suppress(asyncio.CancelledError):
            task.exception()  # retrieved, or asyncio would log it; the caller gets the cancellation
        raise cancelled
    return task.result()
