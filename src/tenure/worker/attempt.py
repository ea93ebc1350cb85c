"""One job in a worker's hands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tenure.core.lease import AbortReason, Lease
from tenure.core.lifecycle import Finish
from tenure.core.options import Unset
from tenure.tasks.completion.completion import Completion, Stage
from tenure.tasks.context import AbortSignal, Context
from tenure.worker.settings import Settings

if TYPE_CHECKING:
    from tenure.worker.isolation.process import ChildProcess
    from tenure.worker.slots import Slot

__all__ = ["Attempt"]

MARGIN = 0.5
"""Seconds before the end of a lease at which the worker lets go by itself; a tenth of a lease that is shorter than 5 seconds."""

UNCONFIRMED_LIMIT = 2.0
"""Seconds for which a job that is never renewed may go on after its lease, while the store does not say that it is still held."""

CHECK_INTERVAL = 0.5
"""Seconds between questions whether such a job is still held."""

STILL_HELD: Final = frozenset({None, AbortReason.TIMEOUT, AbortReason.SHUTDOWN})
"""Reasons to stop that leave the lease with the worker; with any other it is gone, and what the job gives is dropped."""


class Attempt:
    """A leased job from the moment it arrives until it is settled or lost; the worker's loop and its keeper share it."""

    __slots__ = (
        "child", "confirmed_at", "context", "ended", "failure_reported", "lease", "leased_at", "output", "renewed_at",
        "settings", "signal", "slot", "started_at", "ttl", "was_renewed",
    )  # fmt: skip

    def __init__(self, lease: Lease, settings: Settings, leased_at: float) -> None:
        self.lease = lease
        self.settings = settings
        self.signal = AbortSignal()
        self.context: Context | None = None
        """Once its function has been started."""

        self.started_at = 0.0
        """When a slot took it, by `perf_counter`; 0 if none has."""

        self.slot: Slot | None = None
        self.child: ChildProcess | None = None
        """The process that runs it, if it is isolated and has begun."""

        self.output: str | None = None
        """The end of what it wrote, if that is kept, and there was anything."""

        self.ended = False
        """Whether its outcome is known: a second one (of a function that was given up) is dropped."""

        self.failure_reported = False
        """Whether hooks have heard, or are hearing, that it has failed."""

        # When the store was asked, on a monotonic clock: it counts from later than that.
        self.leased_at = leased_at
        self.renewed_at = leased_at
        self.confirmed_at = leased_at
        """When the store was last asked whether the job is held, and said so."""

        self.ttl = lease.ttl
        self.was_renewed = False

    def __str__(self) -> str:
        return f"job {self.lease.job.id} of task {self.lease.job.task}"

    @property
    def lost(self) -> bool:
        """Whether the lease is gone."""
        return self.signal.reason not in STILL_HELD

    @property
    def completion(self) -> Completion | None:
        """How far it is on its way to an end in a transaction of its own, if it has begun one."""
        return None if self.context is None else self.context._completion

    @property
    def completing(self) -> bool:
        """Whether such a transaction may have made it final, or may any moment: then its token alone decides."""
        completion = self.completion
        return completion is not None and completion.under_way

    @property
    def may_be_complete(self) -> bool:
        """The same, or a block is open in a child process, whose word that it settles may still be on its way."""
        completion = self.completion
        return completion is not None and (
            completion.under_way or (self.child is not None and completion.stage is Stage.OPEN)
        )

    @property
    def completed(self) -> Finish | None:
        """How such a transaction has ended it, if one has."""
        completion = self.completion
        return completion.step if completion is not None and completion.stage is Stage.FINAL else None

    @property
    def running(self) -> bool:
        """Whether a slot is at work on it."""
        return self.slot is not None and self.slot.attempt is self

    @property
    def wanted_ttl(self) -> float:
        """Seconds that the lease of this job should last: as the job says, or else its task, the worker or the app."""
        own = self.lease.job.lease
        return self.settings.lease if own is None else own

    @property
    def has_wrong_ttl(self) -> bool:
        """Whether the lease has another length than it should have: the program that enqueued the job did not know what its task
        says, or the worker has leased it ahead. The first renewal mends that.
        """
        return not self.was_renewed and self.ttl != self.wanted_ttl

    def renewal(self, now: float) -> float:
        """Seconds that a renewal asks for now. Who is never renewed gets what is left of a lease that should have begun earlier."""
        if self.settings.renew is None:
            return max(self.leased_at + self.wanted_ttl - now, 0.1)
        return self.wanted_ttl

    @property
    def renew_at(self) -> float | None:
        """When the next renewal is due; None: never."""
        interval = self.settings.renew
        if self.has_wrong_ttl:
            # What is too long is mended at once; what is too short while enough of it is left, for most jobs end before.
            due = self.ttl / 3 if self.ttl < self.wanted_ttl else 0.0
            return self.leased_at + (min(due, interval) if isinstance(interval, float) else due)
        if interval is None:
            return None
        if isinstance(interval, Unset):
            return self.renewed_at + self.ttl - self.wanted_ttl * 2 / 3
        return self.renewed_at + interval

    @property
    def never_renewed(self) -> bool:
        """Whether its lease just ends: then it may go on, and be settled, until somebody really takes it."""
        return self.settings.renew is None and not self.has_wrong_ttl

    @property
    def check_at(self) -> float | None:
        """When to ask whether the job is still held, because its lease is over; None: never."""
        return max(self.renewed_at + self.ttl, self.confirmed_at + CHECK_INTERVAL) if self.never_renewed else None

    @property
    def give_up_at(self) -> float:
        """When the worker must let go by itself, because the store may soon give the job to another, or may have."""
        ends = self.renewed_at + self.ttl
        if self.never_renewed:
            return max(ends, self.confirmed_at) + UNCONFIRMED_LIMIT
        return ends - max(min(self.ttl / 10, MARGIN), 0.1)

    def renewed(self, requested_at: float, ttl: float | None) -> None:
        """Note that the store, asked at this time, holds it for `ttl` seconds from then; None: until when it did before."""
        self.confirmed_at = requested_at
        if ttl is not None:
            self.renewed_at, self.ttl, self.was_renewed = requested_at, ttl, True

    def interrupt(self) -> None:
        """Stop what runs it; on the worker's loop. A coroutine is cancelled, a process failure_reported; a thread only sees its signal.

        Hooks that are failure_reported of its failure may end.
        """
        task = self.settings.task
        if self.failure_reported:
            return
        if self.child is not None:
            self.child.stop()
        elif self.context is not None and task is not None and (task._is_async or self.settings.isolated):
            self.give_up()

    def give_up(self) -> None:
        """Cancel whatever waits for its end; on the worker's loop. A thread that still runs it becomes a stray."""
        if self.slot is not None and self.slot.attempt is self:
            self.slot.task.cancel()
