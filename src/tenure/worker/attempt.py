"""`Attempt`: one leased job while a worker holds it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from tenure.core.job import Progress
from tenure.core.lease import AbortReason, Lease
from tenure.core.lifecycle import Finish
from tenure.core.options import Unset
from tenure.tasks.completion.completion import Completion
from tenure.tasks.completion.stage import Stage
from tenure.tasks.context import AbortSignal, Context
from tenure.worker.output import LiveTail, LogTail
from tenure.worker.settings import Settings

if TYPE_CHECKING:
    from tenure.worker.isolation.process import ChildProcess

__all__ = ["Attempt"]

MARGIN = 0.5
"""Seconds before the end of a lease at which the worker stops its job, because it could not renew the lease.

For leases shorter than 5 seconds: a tenth of the lease.
"""

UNCONFIRMED_LIMIT = 2.0
"""Seconds that a job with `renew=None` may go on after its lease has ended while the store does not confirm that the
worker still holds it.
"""

CHECK_INTERVAL = 0.5
"""Seconds between two checks of whether the worker still holds such a job."""

STILL_HELD: Final = frozenset({None, AbortReason.TIMEOUT, AbortReason.SHUTDOWN})
"""Abort reasons after which the worker still holds the lease.

After any other reason the lease is gone and the job's result is dropped.
"""


class Slot(Protocol):
    """Runs attempts in an asyncio task: a slot of the worker, or a test kit."""

    @property
    def attempt(self) -> Attempt | None:
        """The attempt that it runs."""
        ...

    @property
    def task(self) -> asyncio.Task[Any]: ...


class Attempt:
    """A leased job, from the lease until it is settled or lost. The worker's loop and its keeper share it."""

    __slots__ = (
        "child", "confirmed_at", "context", "ended", "failure_reported", "lease", "leased_at", "output", "renewed_at",
        "run_time", "settings", "signal", "slot", "started_at", "tail", "ttl", "was_renewed",
    )  # fmt: skip

    def __init__(self, lease: Lease, settings: Settings, leased_at: float) -> None:
        self.lease = lease
        self.settings = settings
        self.signal = AbortSignal()
        self.context: Context | None = None
        """Set when its function starts."""

        self.started_at = 0.0
        """When a slot took it, by `perf_counter`; 0 before that."""

        self.run_time = 0.0
        """Seconds that it ran, once it has ended; 0 if it has not started."""

        self.slot: Slot | None = None
        """What runs it; None before it has started."""

        self.child: ChildProcess | None = None
        """The child process that runs it, once it has started; None if the task is not isolated."""

        self.output: str | None = None
        """The last bytes that it logged or wrote; None if there are none, or its task has `output=0`."""

        self.tail: LiveTail | None = None
        """Adds its output to its progress while it runs; None until there is some."""

        self.ended = False
        """Whether its outcome is known. A second outcome, from a function that was abandoned, is dropped."""

        self.failure_reported = False
        """Whether the `on_failure` hooks have been called, or are being called."""

        # Times on the monotonic clock at which the request was sent. The store starts counting later, so these err on
        # the safe side.
        self.leased_at = leased_at
        self.renewed_at = leased_at
        self.confirmed_at = leased_at
        """When the request was sent whose answer last confirmed that the worker holds the job."""

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
        """The state of its `ctx.complete()` block; None if it has opened none."""
        return None if self.context is None else self.context._completion

    @property
    def completing(self) -> bool:
        """Whether that transaction may have committed, or may commit at any moment.

        Then only the lease token decides.
        """
        completion = self.completion
        return completion is not None and completion.may_be_final

    @property
    def may_be_complete(self) -> bool:
        """As `completing`; also True while a block is open in a child process, whose message that it commits may still
        be on its way.
        """
        completion = self.completion
        return completion is not None and (
            completion.may_be_final or (self.child is not None and completion.stage is Stage.OPEN)
        )

    @property
    def completed(self) -> Finish | None:
        """The transition that its own transaction has committed; None if none has."""
        completion = self.completion
        return completion.transition if completion is not None and completion.stage is Stage.FINAL else None

    @property
    def running(self) -> bool:
        """Whether a slot is running it."""
        return self.slot is not None and self.slot.attempt is self

    @property
    def wanted_ttl(self) -> float:
        """Seconds that the lease of this job should last: the job's own setting, else that of the task, the worker or
        the app.
        """
        own = self.lease.job.lease
        return self.settings.lease if own is None else own

    @property
    def has_wrong_ttl(self) -> bool:
        """Whether the lease has a different length than it should.

        The program that enqueued the job did not know the task's setting, or the worker leased it ahead. The first
        renewal corrects it.
        """
        return not self.was_renewed and self.ttl != self.wanted_ttl

    def renewal(self, now: float) -> float:
        """Seconds to ask for in a renewal sent now.

        With `renew=None`: what is left of the lease, had it started with the right length.
        """
        if self.settings.renew is None:
            return max(self.leased_at + self.wanted_ttl - now, 0.1)
        return self.wanted_ttl

    @property
    def renew_at(self) -> float | None:
        """When the next renewal is due; None if never."""
        interval = self.settings.renew
        if self.has_wrong_ttl:
            # A lease that is too long is corrected at once. One that is too short can wait until a third of it has
            # passed, because most jobs end before that.
            due = self.ttl / 3 if self.ttl < self.wanted_ttl else 0.0
            return self.leased_at + (min(due, interval) if isinstance(interval, float) else due)
        if interval is None:
            return None
        if isinstance(interval, Unset):
            return self.renewed_at + self.ttl - self.wanted_ttl * 2 / 3
        return self.renewed_at + interval

    @property
    def never_renewed(self) -> bool:
        """Whether its lease is left to run out (`renew=None`).

        Then the job may go on, and be settled, until another worker leases it.
        """
        return self.settings.renew is None and not self.has_wrong_ttl

    @property
    def check_at(self) -> float | None:
        """When to check whether the worker still holds the job, because its lease has ended; None if never."""
        return max(self.renewed_at + self.ttl, self.confirmed_at + CHECK_INTERVAL) if self.never_renewed else None

    @property
    def give_up_at(self) -> float:
        """When the worker must stop the job because the store may soon lease it to another worker, or already has."""
        ends = self.renewed_at + self.ttl
        if self.never_renewed:
            return max(ends, self.confirmed_at) + UNCONFIRMED_LIMIT
        return ends - max(min(self.ttl / 10, MARGIN), 0.1)

    def renewed(self, requested_at: float, ttl: float | None) -> None:
        """Record that the store confirmed the lease.

        `ttl` is its new length in seconds, counted from `requested_at`; None if it was not extended.
        """
        self.confirmed_at = requested_at
        if ttl is not None:
            self.renewed_at, self.ttl, self.was_renewed = requested_at, ttl, True

    def progress_to_store(self) -> Progress | None:
        """The progress to send with the next renewal, with the tail of its output; None if nothing is new."""
        if self.context is None:
            return None
        latest = self.context._progress
        if self.tail is None and isinstance(self.context._output, LogTail):
            self.tail = LiveTail(self.context._output)
        return latest if self.tail is None else self.tail.progress(latest)

    def progress_stored(self, progress: Progress) -> None:
        """Record that the store has this progress."""
        latest = progress if self.tail is None else self.tail.stored()
        if latest is not None and self.context is not None and self.context._progress is latest:
            self.context._progress = None

    def interrupt(self) -> None:
        """Stop its function; call on the worker's loop.

        A coroutine is cancelled, a child process is sent the reason, a thread only sees its abort signal.

        Does nothing while the `on_failure` hooks run, so that they can finish.
        """
        task = self.settings.task
        if self.failure_reported:
            return
        if self.child is not None:
            self.child.stop()
        elif self.context is not None and task is not None and (task._is_async or self.settings.isolated):
            self.give_up()

    def give_up(self) -> None:
        """Cancel the slot that waits for it; call on the worker's loop.

        A thread that still runs the function becomes a stray.
        """
        if self.slot is not None and self.slot.attempt is self:
            self.slot.task.cancel()
