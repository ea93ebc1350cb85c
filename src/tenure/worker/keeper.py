"""The thread that keeps a worker's leases alive, whatever its jobs do to its event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import NoReturn

from tenure.lease import AbortReason
from tenure.lifecycle import RELEASE
from tenure.stores.base import Renewal, Store, WorkerInfo
from tenure.worker.attempt import Attempt
from tenure.worker.buffer import Buffer
from tenure.worker.outage import GONE, Outage
from tenure.worker.wakeup import Wakeup

__all__ = ["Keeper"]

LOOK = 1 / 3
"""Seconds between looks at the leases: a third of the shortest that there is."""

SECOND = 1.0
"""Seconds between writes of progress, and, if there are no signals to listen to, between questions whether jobs are still held."""

BLOCKED = 1.0
"""Seconds for which the worker's loop must not have moved before that is worth a warning."""

START_WITHIN = 0.050
"""Seconds within which a job that is leased ahead must have started; else it is given back, for somebody who is idle."""

FAREWELL = 2.0
"""Seconds that signing off may take."""

log = logging.getLogger("tenure.worker")


class Keeper:
    """Beats, renews, listens and gives back, from a thread with its own event loop and its own store object.

    A job that blocks the worker's loop, or computes in Python for minutes, must not cost that job or any other its lease.
    Every part is a loop of its own, so that a call that hangs holds up nothing but itself; above all not the part that
    lets go of jobs whose lease can no longer be counted on.
    """

    def __init__(
        self,
        new_store: Callable[[], Store],
        buffer: Buffer,
        outage: Outage,
        *,
        entry: Callable[[], WorkerInfo],
        beat: float,
        listens: bool,
        on_loop: Callable[[], Attempt | None],
        gave_back: Callable[[int], None],
        wake: Callable[[], None],
    ) -> None:
        self._new_store = new_store
        self._buffer = buffer
        self._outage = outage
        self._entry = entry
        self._interval = beat
        self._listens = listens
        self._on_loop = on_loop
        self._gave_back = gave_back
        self._wake = wake
        self.worker_id: str | None = None
        """Under which the worker is registered; None while it is not, and then it must not lease."""

        self._lock = threading.Lock()
        self._held: set[Attempt] = set()
        self._returning: list[Attempt] = []
        self._doubted: set[str] = set()
        self._next_second = 0.0
        self._pinged_at: float | None = None
        self._warned = False
        self._watches_buffer = False

        self._look = Wakeup()
        self._renewing = asyncio.Lock()
        self._filled = asyncio.Event()
        self._leaving = asyncio.Event()
        self._ended = asyncio.Event()

    # What the worker calls, on its own loop.

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._worker_loop = asyncio.get_running_loop()
        self._worker_thread = threading.get_ident()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tenure-keeper", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Sign off, and end the thread."""
        _call(self._loop, self._leaving.set)
        await self._ended.wait()
        self._thread.join()

    async def died(self) -> NoReturn:
        """Wait for the thread to end, and raise: a worker whose leases nobody renews must not go on."""
        await self._ended.wait()
        raise RuntimeError(f"the keeper of worker {self.worker_id} has died")

    def hold(self, attempts: list[Attempt]) -> None:
        """Keep these leases alive until they are dropped, and put the jobs into the buffer."""
        with self._lock:
            self._held.update(attempts)
        self._buffer.put(attempts)
        # One job starts at once; if it does not, the look at the buffer every third of a second is soon enough.
        if len(attempts) > 1 and not self._watches_buffer:
            self._watches_buffer = True
            _call(self._loop, self._filled.set)

    def drop(self, attempts: Iterable[Attempt]) -> None:
        """Keep these no longer: they are settled, or lost."""
        with self._lock:
            self._held.difference_update(attempts)

    async def secure(self, seconds: float) -> None:
        """Hold everything for so many seconds more than usual, in which nothing can be renewed. Raises what the store raises."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._secure(seconds), self._loop))

    # The thread.

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._keep())
        except Exception:
            log.exception("the keeper of worker %s has died, the worker stops", self.worker_id)
        finally:
            _call(self._worker_loop, self._ended.set)

    async def _keep(self) -> None:
        self._store = self._new_store()
        repeat = self._outage.repeat
        async with asyncio.TaskGroup() as parts:
            tasks = [
                parts.create_task(repeat("watch", self._watch)),
                parts.create_task(repeat("beat", self._beat)),
                # Woken at every look, however long the store has been gone: the leases run on.
                parts.create_task(repeat("renewal", self._renew, self._look.wait)),
                parts.create_task(repeat("release", self._give_back)),
            ]
            if self._listens:
                tasks.append(parts.create_task(repeat("signals", self._hear)))
            await self._leaving.wait()
            for task in tasks:
                task.cancel()
        with contextlib.suppress(TimeoutError, *GONE):
            async with asyncio.timeout(FAREWELL):
                await self._return(self._returning)
                if self.worker_id is not None:
                    await self._store.leave(self.worker_id)
        await self._store.close()

    async def _beat(self) -> float:
        """Enter the registry, and show there that the worker lives."""
        if self.worker_id is None:
            entry = self._entry()
            await self._store.register(entry)
            self.worker_id = entry.id
            _call(self._worker_loop, self._wake)
        elif not await self._store.beat(self.worker_id, len(self._held)):
            log.warning("worker %s was retired: it drops its jobs and goes on under another name", self.worker_id)
            self.worker_id = None
            for attempt in self._snapshot():
                self._abort(attempt, AbortReason.TAKEN)
            return 0.0
        return self._interval

    async def _renew(self) -> float:
        """Renew in one call all that is due; with it go what jobs say of their progress, and doubts about being held."""
        async with self._renewing:
            now = monotonic()
            doubted, self._doubted = self._doubted, set()
            every_second = now >= self._next_second
            asked: list[tuple[Attempt, Renewal]] = []
            for attempt in self._snapshot():
                due = attempt.renew_at is not None and attempt.renew_at <= now
                said = attempt.context.said if every_second and attempt.context is not None else None
                if due or said is not None or attempt.lease.job.id in doubted or (every_second and not self._listens):
                    asked.append((attempt, Renewal(attempt.lease, attempt.wanted_ttl if due else None, said)))
            try:
                await self._ask(asked, now)
            except GONE:
                self._doubted |= doubted
                raise
        if every_second:
            self._next_second = now + SECOND
        times = [at for attempt in self._snapshot() if (at := attempt.renew_at) is not None]
        return max(min(times, default=now + 60.0) - monotonic(), 0.01)

    async def _secure(self, seconds: float) -> None:
        # One after the other: a renewal of the usual length that came second would count.
        async with self._renewing:
            kept = [attempt for attempt in self._snapshot() if attempt.settings.renew is not None]
            asked = [(attempt, Renewal(attempt.lease, attempt.wanted_ttl + seconds)) for attempt in kept]
            await self._ask(asked, monotonic())

    async def _ask(self, asked: Sequence[tuple[Attempt, Renewal]], now: float) -> None:
        """Have the store renew these, and let go of those that it does not."""
        if not asked:
            return
        answers = await self._store.renew([renewal for _, renewal in asked])
        for (attempt, renewal), reason in zip(asked, answers, strict=True):
            if reason is not None:
                self._abort(attempt, reason)
                continue
            if renewal.ttl is not None:
                attempt.renewed_at, attempt.ttl = now, renewal.ttl
            if attempt.context is not None and attempt.context.said is renewal.progress:
                attempt.context.said = None

    async def _hear(self) -> float:
        """Doubt jobs of which the store signals something: a signal may be late and mean an older lease, a renewal tells."""
        with contextlib.suppress(*GONE):
            async for signal in self._store.signals():
                self._doubted.add(signal.job_id)
                self._look.set()
        return 1.0

    async def _give_back(self) -> float:
        """Release what was leased ahead and has not started in time."""
        self._returning += self._buffer.claim_stale(monotonic() - START_WITHIN)
        await self._return(self._returning)
        self._returning = []
        if not self._buffer:
            self._watches_buffer = False
            await self._filled.wait()
            self._filled.clear()
        return START_WITHIN / 2

    async def _return(self, attempts: list[Attempt]) -> None:
        if attempts:
            self._gave_back(len(attempts))
            await self._store.settle([(attempt.lease, RELEASE) for attempt in attempts])
            self.drop(attempts)

    async def _watch(self) -> float:
        """Let go of what can no longer be counted on, and see whether the worker's loop moves. Never waits for the store."""
        now = monotonic()
        # What has ended and is not settled is not given up: the token decides, however late the settle comes.
        kept = self._snapshot()
        held = [attempt for attempt in kept if not (attempt.ended or attempt.completing)]
        overdue = [attempt for attempt in held if attempt.give_up_at <= now]
        for attempt in overdue:
            self._abort(attempt, AbortReason.ERROR)
        if overdue:
            job = overdue[0].lease.job
            log.warning(
                "worker %s gives up %d job(s) that it could not renew in time, the first is job %s of task %s",
                self.worker_id, len(overdue), job.id, job.task,
            )  # fmt: skip
        self._check_loop(now, busy=bool(held))
        if kept:
            self._look.set()
        if self._buffer:
            self._filled.set()
        return max(min([LOOK, *(attempt.give_up_at - now for attempt in held)]), 0.0)

    def _check_loop(self, now: float, *, busy: bool) -> None:
        if self._pinged_at is None:
            if busy:
                self._pinged_at = now
                self._warned = False
                _call(self._worker_loop, self._moved)
        elif now - self._pinged_at > BLOCKED and not self._warned:
            self._warned = True
            attempt, frame = self._on_loop(), sys._current_frames().get(self._worker_thread)  # noqa: SLF001
            log.warning(
                "worker %s: %s has blocked the event loop for over a second, now at %s: "
                "make it a plain def, or await something that does not block",
                self.worker_id,
                "something" if attempt is None else f"job {attempt.lease.job.id} of task {attempt.lease.job.task}",
                "an unknown place" if frame is None else f"{frame.f_code.co_filename!r}, line {frame.f_lineno}",
            )

    def _moved(self) -> None:
        self._pinged_at = None

    def _abort(self, attempt: Attempt, reason: AbortReason) -> None:
        """Tell a job that its lease is gone: what runs in a thread sees it at once, a coroutine is cancelled on its loop."""
        self.drop([attempt])
        if attempt.completing and reason in (AbortReason.COMPLETED, AbortReason.NOT_FOUND, AbortReason.TAKEN):
            return  # by its own transaction, most likely; the executor asks
        if attempt.signal.abort(reason):
            _call(self._worker_loop, attempt.interrupt)

    def _snapshot(self) -> list[Attempt]:
        with self._lock:
            return list(self._held)


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: object) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: its part of the worker has ended
        loop.call_soon_threadsafe(callback, *args)
