"""One attempt's way to its end in a transaction: how far it is, and what came of it."""

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
from tenure.stores.values import LeaseStatus, Verdict, VerdictKind
from tenure.tasks.completion.stage import Stage, StageEvent, next_stage

if TYPE_CHECKING:
    from tenure.tasks.context import Context
    from tenure.tasks.task import Task

__all__ = ["Completion", "Transactions", "await_despite_cancel"]

T = TypeVar("T")

ASK_TIMEOUT = 30.0
"""Seconds that the store is asked what became of a transaction: it may be gone, or the transaction may not have ended."""


class Transactions:
    """Where the transactions of a worker's jobs come from; made on the worker's loop."""

    def __init__(self, store: Store, timeout: float, secure: Callable[[float], Awaitable[None]]) -> None:
        """`secure` makes sure that no lease is lost although none can be renewed for so many seconds."""
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._timeout = timeout
        self._secure = secure

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where they live, and the store that they are in."""
        return self._loop

    @property
    def store(self) -> Store:
        return self._store

    def completion(self, ctx: Context, task: Task[..., Any]) -> Completion:
        """One attempt's way to its end in a transaction."""
        return Completion(ctx, task, self)

    async def secure_leases(self) -> None:
        """Let the worker be ready for a transaction that writes."""
        if self.store.one_writer:
            await self._secure(self._timeout)

    async def begin(self, *, writes: bool) -> OwnTransaction:
        """Open one."""
        return await self.store.begin(writes=writes, timeout=self._timeout)

    async def lease_status(self, lease: Lease) -> LeaseStatus | None:
        """What a lease is worth, asked again and again while nobody can tell; None if that takes too long."""
        deadline = monotonic() + ASK_TIMEOUT
        for tries in itertools.count():
            with suppress(StoreError):
                return await self.store.lease_status(lease)
            if monotonic() > deadline:
                break
            await asyncio.sleep(full_jitter(tries, first=0.1, longest=2.0))
        return None


class Completion:
    """One attempt's way to its end in a transaction; its blocks, and the worker that runs it, share it."""

    def __init__(self, ctx: Context, task: Task[..., Any], transactions: Transactions) -> None:
        self.transactions = transactions
        self._stage = Stage.RUNNING
        self.transition = Finish(State.SUCCEEDED)
        """How the job has ended, once it is final."""

        self.finishing: asyncio.Future[None] | None = None
        """What settles and commits; on the worker's loop."""

        self._ctx = ctx
        self._task = task

    @property
    def lease(self) -> Lease:
        return self._ctx._lease

    @property
    def stage(self) -> Stage:
        """How far it is."""
        return self._stage

    def advance(self, event: StageEvent) -> None:
        """Go on to the stage that follows from this event."""
        self._enter(next_stage(self._stage, event))

    def mirror(self, stage: Stage, transition: Finish | None) -> None:
        """Take over the stage, and how the job has ended if it has, from the completion in a child process."""
        self._enter(stage)
        if transition is not None:
            self.transition = transition

    def _enter(self, stage: Stage) -> None:
        self._stage = stage

    @property
    def may_be_final(self) -> bool:
        """Whether the job may have become final, or may any moment."""
        return self.stage not in (Stage.RUNNING, Stage.OPEN)

    def check_signal(self) -> None:
        """Raise if the job is no longer held, or has run out of time; one that is to stop soon may still end well."""
        match self._ctx.signal.reason:
            case None | AbortReason.SHUTDOWN:
                return
            case AbortReason.TIMEOUT as reason:
                raise Aborted(reason)
            case reason:
                raise LeaseLost(self.lease.job.id, reason)

    async def check_held(self) -> None:
        """Raise if the job is no longer held, as the store knows. Waits for nobody: it may be asked with a transaction open."""
        self.check_signal()
        [job] = await self.transactions.store.get([self.lease.job.id])
        if job is None:
            raise self._lost(LeaseStatus.GONE)
        if job.state is not State.RUNNING or job.fence != self.lease.token.fence:
            raise self._lost(LeaseStatus.LOST)

    async def open(self) -> None:
        """Begin a block, unless there is nothing left to complete."""
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
        """What makes the job final with this result, or value of a step, and its children exist; from now on the token alone decides."""
        self.check_signal()
        self.transition = self._task._finish(self.lease.job, result, self._ctx._children)
        return self.transactions.store.settling((self.lease, self.transition))

    def before_enqueue(self) -> HookCalls[None]:
        """Ask the hooks about jobs that come to exist because the next step is to wait for them; `EnqueueRefused` if one says no."""
        if self._task.app.internals.hooks.enqueues:
            yield from before_enqueue(self._task.app, self.transition.children[len(self._ctx._children) :])

    def raise_unless_settled(self, verdict: Verdict) -> None:
        """Raise unless the settle was accepted."""
        match verdict.kind:
            case VerdictKind.OK:
                return
            case VerdictKind.REFUSED:
                successor = self.transition.successor
                if verdict.other is None and successor is not None and successor.step is not None:
                    needs = successor.step.needs
                    missing = next((name for name in needs if f"attribute {name!r}" in verdict.reason), needs[0])
                    raise MissingAttribute(successor.task, missing)
                raise JobError(f"the jobs that job {self.lease.job.id} enqueues are refused: {verdict.reason}")
            case kind:
                raise self._lost(LeaseStatus.GONE if kind is VerdictKind.NOT_FOUND else LeaseStatus.LOST)

    async def resolve(self) -> None:
        """Find out whether the job is final, as far as that is not known yet."""
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
        """Let the worker know that the job is no longer its own; what to raise."""
        reason = {LeaseStatus.GONE: AbortReason.NOT_FOUND, None: AbortReason.ERROR}.get(status, AbortReason.TAKEN)
        self._ctx.signal.abort(reason)
        return LeaseLost(self.lease.job.id, self._ctx.signal.reason or reason)


async def await_despite_cancel(action: Awaitable[T]) -> T:
    """Wait for this to end, whatever happens to the caller, whose cancellation is passed on only then."""
    task = asyncio.ensure_future(action)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        with suppress(asyncio.CancelledError):
            task.exception()  # seen: the cancellation is what the caller is told
        raise cancelled
    return task.result()
