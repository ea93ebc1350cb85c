"""One job in a worker's hands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tenure.completion.completion import Completion, Stage
from tenure.context import AbortSignal, Context
from tenure.lease import AbortReason, Lease
from tenure.lifecycle import Finish
from tenure.options import Unset
from tenure.worker.settings import Settings

if TYPE_CHECKING:
    from tenure.worker.isolation.parent import Child
    from tenure.worker.slots import Slot

__all__ = ["Attempt"]

STILL_HELD: Final = frozenset({None, AbortReason.TIMEOUT, AbortReason.SHUTDOWN})
"""Reasons to stop that leave the lease with the worker; with any other it is gone, and what the job gives is dropped."""


class Attempt:
    """A leased job from the moment it arrives until it is settled or lost; the worker's loop and its keeper share it."""

    __slots__ = (
        "began", "child", "context", "ended", "lease", "leased_at", "output", "renewed_at", "settings", "signal", "slot", "told",
        "ttl",
    )  # fmt: skip

    def __init__(self, lease: Lease, settings: Settings, leased_at: float) -> None:
        self.lease = lease
        self.settings = settings
        self.signal = AbortSignal()
        self.context: Context | None = None
        """Once its function has been started."""

        self.began = 0.0
        """When a slot took it, by `perf_counter`; 0 if none has."""

        self.slot: Slot | None = None
        self.child: Child | None = None
        """The process that runs it, if it is isolated and has begun."""

        self.output: str | None = None
        """The end of what it wrote, if that is kept, and there was anything."""

        self.ended = False
        """Whether its outcome is known: a second one (of a function that was given up) is dropped."""

        self.told = False
        """Whether hooks have heard, or are hearing, that it has failed."""

        # When the store was asked, on a monotonic clock: it counts from later than that.
        self.leased_at = leased_at
        self.renewed_at = leased_at
        self.ttl = lease.ttl

    def __str__(self) -> str:
        return f"job {self.lease.job.id} of task {self.lease.job.task}"

    @property
    def lost(self) -> bool:
        """Whether the lease is gone."""
        return self.signal.reason not in STILL_HELD

    @property
    def completion(self) -> Completion | None:
        """How far it is on its way to an end in a transaction of its own, if it has begun one."""
        return None if self.context is None else self.context.completion

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
        """Seconds that a renewal asks for."""
        return self.settings.lease if self.lease.job.lease is None else self.lease.ttl

    @property
    def renew_at(self) -> float | None:
        """When the next renewal is due; None: never."""
        interval = self.settings.renew
        if interval is None:
            return None
        if isinstance(interval, Unset):
            return self.renewed_at + self.ttl - self.wanted_ttl * 2 / 3
        return self.renewed_at + interval

    @property
    def give_up_at(self) -> float:
        """When the worker must let go by itself, because the store may soon give the job to another."""
        return self.renewed_at + self.ttl - max(self.ttl / 10, 0.1)

    def interrupt(self) -> None:
        """Stop what runs it; on the worker's loop. A coroutine is cancelled, a process told; a thread only sees its signal.

        Hooks that are told of its failure may end.
        """
        task = self.settings.task
        if self.told:
            return
        if self.child is not None:
            self.child.stop()
        elif self.context is not None and task is not None and (task.is_async or self.settings.isolated):
            self.give_up()

    def give_up(self) -> None:
        """Cancel whatever waits for its end; on the worker's loop. A thread that still runs it becomes a stray."""
        if self.slot is not None and self.slot.attempt is self:
            self.slot.task.cancel()
