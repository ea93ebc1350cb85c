"""Jobs leased by hand, for code that is no task function."""

from __future__ import annotations

import asyncio
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tenure.checks import Duration
from tenure.completing import is_decision
from tenure.enqueueing import allowed, come_to_exist
from tenure.errors import JobError, LeaseLost, UnknownTask
from tenure.holder import Holder
from tenure.hooks import awaiting
from tenure.job import JobRecord
from tenure.lease import AbortReason, Lease
from tenure.lifecycle import Finish, next_step
from tenure.outcome import Answer, Done, Fail, Next, Outcome, Raised, Released, Reschedule, Retry, Succeeded, Wait
from tenure.step import Step
from tenure.stores.values import UNCHANGED, Renewal, VerdictKind
from tenure.sync import blocking, refuse_on_loop, run
from tenure.task import Task

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Held"]

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
        self._settings = app.settings(lease.job.task)
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
        caller = self._app.caller_of(self.job)
        if isinstance(caller, Step):
            return caller.given(self.job)
        return caller.decode(self.job.payload)

    @property
    def lost(self) -> AbortReason | None:
        """Why the job must be let go: it was taken away, or (`error`) may have been, for it could not be renewed in time."""
        return self._kept.lost or (AbortReason.ERROR if monotonic() > self._kept.held_until else None)

    async def arenew(self) -> None:
        """Hold it for the length of its lease from now; `LeaseLost` if it has been taken away."""
        while True:
            asked_at = monotonic()
            [reason] = await self._app.session.store.renew([Renewal(self._lease, self._lease.ttl)])
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
        await self._settle(Released())

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
        caller = self._app.caller_of(self.job)
        if isinstance(caller, Step) and is_decision(self.job):
            return caller.decided(self.job)  # what it was completed with elsewhere counts
        if isinstance(caller, Task):
            return caller.succeeded(self.job, value, returned=False)
        if self.job.run_id is not None:
            raise UnknownTask(self.job.task, self._app.tasks)  # what follows it is in the code
        return Succeeded(caller.results.encode(value))

    def _outcome(self, error: BaseException) -> Outcome:
        match error:
            case Next() | Done():
                return self._succeeded(error)
            case Retry() | Fail() | Reschedule() | Wait():
                return error
            case Exception():
                from tenure.worker.failure import error_info

                return Raised(error, error_info(error))
            case _:  # KeyboardInterrupt, a cancellation: through no fault of the job
                return Released()

    async def _settle(self, outcome: Outcome) -> None:
        step = next_step(self.job, outcome, self._settings.policy)
        coming = step.children if isinstance(step, Finish) else ()
        if coming and self._app.hooks.enqueues:
            await awaiting(allowed(self._app, coming))
        [verdict] = await self._app.session.store.settle([(self._lease, step)])
        if verdict.kind is VerdictKind.REFUSED:
            raise JobError(f"job {self.job.id} does not end like this, and is still held: {verdict.reason}")
        self._settled = True
        self.let_go()
        match verdict.kind:
            case VerdictKind.OK:
                if coming and self._app.hooks.enqueues:
                    await awaiting(come_to_exist(self._app, coming))
            case VerdictKind.NOT_FOUND:
                raise LeaseLost(self.job.id, AbortReason.NOT_FOUND)
            case _:
                raise LeaseLost(self.job.id, self._kept.lost or AbortReason.TAKEN)
