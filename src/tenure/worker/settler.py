"""What became of jobs, on its way into the store."""

from __future__ import annotations

import logging
from collections.abc import Sequence
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
from tenure.observe.deriving import ENDS
from tenure.stores.base import BATCH, Store
from tenure.stores.values import LEASE_LOST, OK, Settlement, Verdict, VerdictKind
from tenure.worker.attempt import Attempt
from tenure.worker.background_hooks import BackgroundHooks
from tenure.worker.wakeup import Wakeup

if TYPE_CHECKING:
    from tenure.worker.keeper import Keeper

__all__ = ["Ended", "Settler"]

Ended = tuple[Attempt, Transition]

log = logging.getLogger("tenure.worker")


class Settler:
    """Collects what became of jobs, so that all that end while one round trip is under way go together in the next.

    What it has taken in stays until the store has answered, through any outage.
    """

    def __init__(self, keeper: Keeper, wakeup: Wakeup, background_hooks: BackgroundHooks, audience: Audience) -> None:
        self._keeper = keeper
        self._audience = audience
        self._background_hooks = background_hooks
        self._wakeup = wakeup
        self._ended: list[Ended] = []
        self.finished = 0
        """Jobs made final by this worker so far; what the pruner goes by."""

    def __len__(self) -> int:
        return len(self._ended)

    def add(self, attempt: Attempt, step: Transition, error: BaseException | None = None) -> None:
        """Have this step settled with the next round trip; only the first of an attempt counts. `error` is what it has failed with.

        One that a transaction of its own has ended is settled already. While that is still open, nothing is sent: whoever settles
        waits for it, and all others of the round trip would.
        """
        if attempt.ended:
            return
        attempt.ended = True
        if attempt.began and self._audience.wants & ENDS:
            self._audience.took[attempt.lease.job.id] = perf_counter() - attempt.began
        if attempt.completion is None or not attempt.completing:
            self._ended.append((attempt, step))
            if error is not None and (failure := attempt_failure(error, step)) is not None:
                self._audience.failures[attempt.lease.job.id] = failure
        elif (completed := attempt.completed) is not None:
            self._audience.settled((attempt.lease, completed))
            self.settled([(attempt, completed)], [OK])
        else:
            self.lost(attempt)
        self._wakeup.set()

    def lost(self, attempt: Attempt) -> None:
        """Let go of a job that is no longer the worker's, or whose end others decide."""
        job = attempt.lease.job
        log.debug("job %s of task %s lost its lease: %s", job.id, job.task, attempt.signal.reason)
        self._keeper.drop([attempt])

    def take(self) -> list[Ended]:
        """What is to be settled now; `settled` or `put_back` must follow."""
        batch, self._ended = self._ended[:BATCH], self._ended[BATCH:]
        return batch

    def put_back(self, batch: Sequence[Ended]) -> None:
        """Keep what the store could not be told."""
        self._ended[:0] = batch

    def settled(self, batch: Sequence[Ended], verdicts: Sequence[Verdict]) -> None:
        """Let go of what the store has answered."""
        if failures := self._audience.failures:  # they have been logged
            for attempt, _ in batch:
                failures.pop(attempt.lease.job.id, None)
        refused = []
        for (attempt, step), verdict in zip(batch, verdicts, strict=True):
            if verdict.kind is VerdictKind.REFUSED:
                refused.append(attempt)
                self._refused(attempt, verdict)
            elif verdict.kind is not VerdictKind.OK:
                job = attempt.lease.job
                log.debug("job %s of task %s lost its lease before it was settled", job.id, job.task)
            elif isinstance(step, Finish):
                self.finished += 1
                if step.children:
                    self._background_hooks.enqueued(step.children)
        self._keeper.drop(attempt for attempt, _ in batch if attempt not in refused)

    async def settle_apart(self, store: Store, batch: Sequence[Ended], error: Exception) -> list[Verdict]:
        """Settle a batch that the store has refused: halve it until the bad item stands alone, and fail that one.

        An item is bad only if the store settles something else at that moment. If it does not, no item is to blame: raises
        what the store said, and the whole batch can be settled later.
        """
        if not batch or not await _settles(store, batch[0][0].lease):
            raise error
        if len(batch) > 1:
            middle = len(batch) // 2
            return [
                *await self._settle_part(store, batch[:middle]),
                *await self._settle_part(store, batch[middle:]),
            ]
        [(attempt, step)] = batch
        try:
            return await store.settle(settlements(batch))  # the store may have refused for a moment, and not this one
        except STORE_OUTAGE:
            raise
        except Exception as again:
            if not await _settles(store, attempt.lease):
                raise
            job = attempt.lease.job
            log.exception(
                "the store refuses the outcome of job %s of task %s, and no other: the job fails", job.id, job.task
            )
            if isinstance(step, Finish) and step.state is State.FAILED:
                return [LEASE_LOST]  # not even that can be said: its lease will expire
            failed = Finish(State.FAILED, error=describe_exception(again))
            self._background_hooks.failed(attempt, again, failed)
            return await self._settle_part(store, [(attempt, failed)])

    async def _settle_part(self, store: Store, batch: Sequence[Ended]) -> list[Verdict]:
        try:
            return await store.settle(settlements(batch))
        except STORE_OUTAGE:
            raise
        except Exception as error:  # noqa: BLE001
            return await self.settle_apart(store, batch, error)

    def _refused(self, attempt: Attempt, verdict: Verdict) -> None:
        """The children cannot be enqueued: a failure of the attempt, under the task's policy.

        A step that hands over without an attribute that the next one needs would do so again: it has failed.
        """
        error = JobError(verdict.reason)
        if verdict.other is None:
            step: Transition = Finish(
                State.FAILED, error=ErrorInfo("MissingAttribute", verdict.reason, output=attempt.output)
            )
        else:
            why = ErrorInfo("EnqueueRefused", verdict.reason, output=attempt.output)
            step = next_transition(attempt.lease.job, Raised(error, why), attempt.settings.policy)
        self._background_hooks.failed(attempt, error, step)
        attempt.ended = False
        self.add(attempt, step)


async def _settles(store: Store, lease: Lease) -> bool:
    """Whether the store settles what nothing can be wrong with: a lease that it has never given, which changes nothing."""
    job = msgspec.structs.replace(lease.job, id=new_id(), run_id=None, attempt=0)
    never_given = msgspec.structs.replace(lease, job=job, token=Token(0, new_nonce()), number=0)
    try:
        await store.settle([(never_given, RELEASE)])
    except STORE_OUTAGE:
        raise
    except Exception:  # noqa: BLE001
        return False
    return True


def settlements(batch: Sequence[Ended]) -> list[Settlement]:
    return [(attempt.lease, step) for attempt, step in batch]
