"""`Slots`: run a worker's jobs, a fixed number at a time."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from time import perf_counter
from typing import Any

from tenure.core.lease import AbortReason
from tenure.worker.attempt import Attempt
from tenure.worker.buffer import Buffer
from tenure.worker.fork_guard import ForkGuard
from tenure.worker.look_ahead import LookAhead

__all__ = ["Slot", "Slots"]

MAX_TURN = 0.001
"""Seconds after which a slot whose jobs never wait yields to the event loop, so that settling goes on beside them."""

Execute = Callable[[Attempt], Coroutine[Any, Any, None]]


class Slots:
    """Runs the jobs in the buffer, at most `size` at a time. `freed` is called when a slot has rested after a job.

    A slot is one long-lived asyncio task. One slot is woken for a full buffer and runs job after job; only when a job
    waits for something does it wake two others. So a job that never waits costs no task and no wake-up, and jobs that
    do wait are all running after a few passes of the loop.
    """

    def __init__(
        self,
        size: int,
        buffer: Buffer,
        execute: Execute,
        look_ahead: LookAhead,
        *,
        rest: float,
        freed: Callable[[], None],
        began: Callable[[Attempt, int], None] | None = None,
    ) -> None:
        self.size = size
        self.buffer = buffer
        self.execute = execute
        self.look_ahead = look_ahead
        self.rest = rest
        self.freed = freed
        self.began = began
        """Called with each job that starts and the number of its slot, from 1; None: not called."""

        self.busy = 0
        """Number of slots that run a job, or rest after one."""

        self.ran = 0
        """Number of attempts that have ended."""

        self.on_loop: Attempt | None = None
        """The job whose code runs on the event loop at this moment. The keeper reads it from its thread."""

        self.closed = False
        self.fork_guard = ForkGuard()
        self._slots: list[Slot] = []
        self._parked: list[asyncio.Future[None]] = []

    @property
    def running(self) -> list[Attempt]:
        """Jobs that have started and whose outcome is not known."""
        return [slot.attempt for slot in self._slots if slot.attempt is not None and not slot.attempt.ended]

    def wake(self) -> None:
        """Wake an idle slot if the buffer has jobs."""
        if not self.buffer:
            return
        while self._parked:
            parked = self._parked.pop()
            if not parked.done():
                parked.set_result(None)
                return
        if len(self._slots) < self.size:
            self._slots.append(Slot(self, len(self._slots) + 1))

    async def park(self) -> None:
        """Wait to be woken."""
        parked = asyncio.get_running_loop().create_future()
        self._parked.append(parked)
        await parked

    async def close(self) -> None:
        """End the slots. A job that cannot be cancelled is left behind."""
        self.closed = True
        tasks = [slot.task for slot in self._slots]
        for slot in self._slots:
            if slot.attempt is not None:
                slot.attempt.signal.abort(AbortReason.SHUTDOWN)
            slot.task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=0.1)


class Slot:
    """Runs one job at a time, in a loop."""

    def __init__(self, slots: Slots, number: int) -> None:
        self.number = number
        self.attempt: Attempt | None = None
        self._slots = slots
        self._waited = False
        self.task = asyncio.create_task(self._work(), name="tenure-slot")

    async def _work(self) -> None:
        slots = self._slots
        turn_began = perf_counter()
        while True:
            attempt = slots.buffer.claim()
            if attempt is None:
                await slots.park()
                turn_began = perf_counter()
                continue
            slots.busy += 1
            self.attempt = attempt
            attempt.slot = self
            self._waited = False
            if slots.began is not None:
                slots.began(attempt, self.number)
            started = attempt.started_at = perf_counter()
            await self._drive(attempt)
            ended = perf_counter()
            self.attempt = None
            slots.ran += 1
            slots.look_ahead.ran(ended - started)
            if slots.closed:
                return
            while self.task.cancelling():
                self.task.uncancel()  # the job was cancelled, or cancelled itself, and not the slot
            if slots.rest:
                await asyncio.sleep(slots.rest)
                slots.freed()
            slots.busy -= 1
            if self._waited:
                turn_began = ended
            elif ended - turn_began > MAX_TURN:
                await asyncio.sleep(0)
                turn_began = perf_counter()

    @types.coroutine
    def _drive(self, attempt: Attempt) -> Generator[Any, Any, None]:
        """Run the job in a copy of the context variables. asyncio offers that only for a new task, which would cost
        more.
        """
        slots = self._slots
        context = copy_context()
        coroutine = slots.execute(attempt)
        resume: Callable[[Any], Any] = coroutine.send
        value: Any = None
        while True:
            slots.on_loop = attempt
            try:
                awaited = context.run(resume, value)
            except StopIteration:
                return
            finally:
                slots.on_loop = None
                slots.fork_guard.exit_if_forked(attempt)
            if not self._waited:
                self._waited = True
                slots.wake()
                slots.wake()
            try:
                value = yield awaited
                resume = coroutine.send
            except BaseException as error:  # noqa: BLE001  (a cancellation, which is the job's)
                value = error
                resume = coroutine.throw
