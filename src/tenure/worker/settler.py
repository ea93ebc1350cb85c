"""`Settler`: collects the transitions of ended jobs until the store has stored them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from tenure.core.failure import attempt_failure, describe_exception
from tenure.core.job import ErrorInfo, State, new_id
from tenure.core.lease import Lease, Token, new_nonce
from tenure.core.lifecycle import RELEASE, Finish, Transition, next_transition
from tenure.core.outcome import Raised
from tenure.errors import STORE_OUTAGE, JobError
from tenure.observe.audience import Audience
from tenure.observe.derived_events import ENDS
from tenure.stores.base import BATCH, Store
from tenure.stores.values import LEASE_LOST, OK, AttributeMissing, Settlement, Verdict, VerdictKind
from tenure.worker.attempt import Attempt
from tenure.worker.background_hooks import BackgroundHooks
from tenure.worker.meter import Meters
from tenure.worker.vitals import Vitals
from tenure.worker.wakeup import Wakeup

if TYPE_CHECKING:
    from tenure.worker.keeper import Keeper

__all__ = ["EndedAttempt", "Settler"]

EndedAttempt = tuple[Attempt, Transition]

log = logging.getLogger("tenure.worker")


class Settler:
    """Collects transitions, so that all jobs that end during one round trip are settled by the next.

    A transition stays here until the store has answered, through any outage.
    """

    def __init__(
        self,
        keeper: Keeper,
        wakeup: Wakeup,
        background_hooks: BackgroundHooks,
        audience: Audience,
        meters: Meters | None,
        vitals: Vitals,
        *,
        ended: Callable[[Attempt, Transition], None] | None = None,
    ) -> None:
        """`ended` is called with each attempt that the store has settled; None: not called."""
        self._keeper = keeper
        self._audience = audience
        self._background_hooks = background_hooks
        self._wakeup = wakeup
        self._meters = meters
        self._vitals = vitals
        self._on_ended = ended
        self._ended: list[EndedAttempt] = []
        self.finished = 0
        """Number of jobs that this worker has made final; the pruner reads it."""

    def __len__(self) -> int:
        return len(self._ended)

    def add(self, attempt: Attempt, transition: Transition, error: BaseException | None = None) -> None:
        """Settle `transition` with the next round trip.

        Only the first transition of an attempt counts. `error` is what the attempt failed with.

        A job that has ended in its own transaction is already settled. While that transaction is open nothing is sent,
        because the settle would wait for it, and with it all others of the round trip.
        """
        if attempt.ended:
            return
        attempt.ended = True
        if attempt.started_at:
            attempt.run_time = perf_counter() - attempt.started_at
            if self._audience.wants & ENDS:
                self._audience.durations[attempt.lease.job.id] = attempt.run_time
        if attempt.completion is None or not attempt.completing:
            self._ended.append((attempt, transition))
            if error is not None and (failure := attempt_failure(error, transition)) is not None:
                self._audience.failures[attempt.lease.job.id] = failure
        elif (completed := attempt.completed) is not None:
            self._audience.settled((attempt.lease, completed))
            self.settled([(attempt, completed)], [OK])
        else:
            self.lost(attempt)
        self._wakeup.set()

    def lost(self, attempt: Attempt) -> None:
        """Drop a job whose lease is lost, or whose end is decided elsewhere."""
        job = attempt.lease.job
        log.debug("job %s of task %s lost its lease: %s", job.id, job.task, attempt.signal.reason)
        self._keeper.drop([attempt])

    def take(self) -> list[EndedAttempt]:
        """The transitions to settle now. The caller must then call `settled` or `put_back`."""
        batch, self._ended = self._ended[:BATCH], self._ended[BATCH:]
        return batch

    def put_back(self, batch: Sequence[EndedAttempt]) -> None:
        """Put back transitions that did not reach the store."""
        self._ended[:0] = batch

    def settled(self, batch: Sequence[EndedAttempt], verdicts: Sequence[Verdict]) -> None:
        """Process the store's verdicts for a batch."""
        if failures := self._audience.failures:  # they have been logged
            for attempt, _ in batch:
                failures.pop(attempt.lease.job.id, None)
        refused = []
        for (attempt, transition), verdict in zip(batch, verdicts, strict=True):
            if verdict.kind is VerdictKind.REFUSED:
                refused.append(attempt)
                self._refused(attempt, verdict)
            elif verdict.kind is not VerdictKind.OK:
                job = attempt.lease.job
                self._vitals.refused += 1
                log.debug("job %s of task %s lost its lease before it was settled", job.id, job.task)
            else:
                if self._on_ended is not None:
                    self._on_ended(attempt, transition)
                if isinstance(transition, Finish):
                    self.finished += 1
                    if transition.children:
                        self._background_hooks.enqueued(transition.children)
        if self._meters is not None:
            self._meters.count(batch, verdicts)
        self._keeper.drop(attempt for attempt, _ in batch if attempt not in refused)

    async def settle_apart(self, store: Store, batch: Sequence[EndedAttempt], error: Exception) -> list[Verdict]:
        """Settle a batch that the store has refused: halve it until the bad item is alone, and fail that job.

        An item is bad only if the store settles something else at that moment. If it does not, no item is to blame:
        raises the store's error, and the whole batch can be settled later.
        """
        if not batch or not await _accepts_settlements(store, batch[0][0].lease):
            raise error
        if len(batch) > 1:
            middle = len(batch) // 2
            return [
                *await self._settle_part(store, batch[:middle]),
                *await self._settle_part(store, batch[middle:]),
            ]
        [(attempt, transition)] = batch
        try:
            return await store.settle(
                settlements(batch)
            )  # the store may have refused for a moment, and not because of this item
        except STORE_OUTAGE:
            raise
        except Exception as again:
            if not await _accepts_settlements(store, attempt.lease):
                raise
            job = attempt.lease.job
            log.exception(
                "the store refuses the outcome of job %s of task %s, but accepts others: the job is marked failed",
                job.id,
                job.task,
            )
            if isinstance(transition, Finish) and transition.state is State.FAILED:
                return [LEASE_LOST]  # the store refuses even this failure: the lease will expire
            failed = Finish(State.FAILED, error=describe_exception(again))
            self._background_hooks.failed(attempt, again, failed)
            return await self._settle_part(store, [(attempt, failed)])

    async def _settle_part(self, store: Store, batch: Sequence[EndedAttempt]) -> list[Verdict]:
        try:
            return await store.settle(settlements(batch))
        except STORE_OUTAGE:
            raise
        except Exception as error:  # noqa: BLE001
            return await self.settle_apart(store, batch, error)

    def _refused(self, attempt: Attempt, verdict: Verdict) -> None:
        """Fail an attempt whose children the store refuses to enqueue, under the task's policy.

        A step that hands over without an attribute that the next one needs fails for good, because it would do so
        again.
        """
        error = JobError(verdict.reason)
        if isinstance(verdict.refusal, AttributeMissing):
            transition: Transition = Finish(
                State.FAILED, error=ErrorInfo("MissingAttribute", verdict.reason, output=attempt.output)
            )
        else:
            why = ErrorInfo("EnqueueRefused", verdict.reason, output=attempt.output)
            transition = next_transition(attempt.lease.job, Raised(error, why), attempt.settings.policy)
        self._background_hooks.failed(attempt, error, transition)
        attempt.ended = False
        self.add(attempt, transition)


async def _accepts_settlements(store: Store, lease: Lease) -> bool:
    """Whether the store accepts a settle that cannot be at fault: for a lease that never existed, which changes
    nothing.
    """
    job = msgspec.structs.replace(lease.job, id=new_id(), run_id=None, attempt=0)
    never_given = msgspec.structs.replace(lease, job=job, token=Token(0, new_nonce()), number=0)
    try:
        await store.settle([(never_given, RELEASE)])
    except STORE_OUTAGE:
        raise
    except Exception:  # noqa: BLE001
        return False
    return True


def settlements(batch: Sequence[EndedAttempt]) -> list[Settlement]:
    return [(attempt.lease, transition) for attempt, transition in batch]
