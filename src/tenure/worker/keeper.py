"""The thread that keeps a worker's leases alive, whatever its jobs do to its event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import NoReturn

from tenure.core.lease import AbortReason
from tenure.core.lifecycle import RELEASE
from tenure.errors import StoreError
from tenure.jobs.lost_answers import LostAnswers
from tenure.stores.base import Store
from tenure.stores.values import (
    JOBS_SHOWN,
    MISSING_AFTER,
    UNCHANGED,
    AnnouncementKind,
    LeaseRequest,
    Pulse,
    Renewal,
    Settlement,
    WorkerInfo,
)
from tenure.worker.attempt import Attempt
from tenure.worker.buffer import Buffer
from tenure.worker.health import WorkerHealth, listener, serve
from tenure.worker.loop_monitor import LoopMonitor
from tenure.worker.memory import occupied
from tenure.worker.outage import Outage
from tenure.worker.registration import Registration
from tenure.worker.wakeup import Wakeup

__all__ = ["Keeper"]

WATCH_INTERVAL = 1 / 3
"""Seconds between looks at the leases: a third of the shortest that there is."""

PROGRESS_INTERVAL = 1.0
"""Seconds between writes of progress."""

CHECK_INTERVAL = 0.5
"""Seconds between questions whether jobs are still held, where no signal tells: with a look to wait for, less than a second."""

START_WITHIN = 0.050
"""Seconds within which a job that is leased ahead must have started; else it is given back, for somebody who is idle."""

SIGN_OFF_TIMEOUT = 2.0
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
        registered: Callable[[], None] = lambda: None,
        beat: float,
        listens: bool,
        served: Callable[[], tuple[str, ...]],
        strays: Callable[[], int],
        health: WorkerHealth,
        listening: tuple[str, int] | None = None,
        on_loop: Callable[[], Attempt | None],
        gave_back: Callable[[int], None],
        gave_up: Callable[[Attempt], None],
        wake: Callable[[], None],
    ) -> None:
        self._new_store = new_store
        self._buffer = buffer
        self._outage = outage
        self._registered = registered
        self._listens = listens
        self._served = served
        self._strays = strays
        self._health = health
        self._address = listening
        self._listening: socket.socket | None = None
        self._on_loop = on_loop
        self._gave_back = gave_back
        self._gave_up = gave_up
        self._wake = wake
        self._registration = Registration(
            beat,
            entry=entry,
            pulse=self._pulse,
            store_answered=lambda: _call_on(self._worker_loop, self._first_beat.set),
            entered=self._entered,
            retired=self._retired,
        )
        self._lock = threading.Lock()
        self._held: set[Attempt] = set()
        self._to_release: list[Attempt] = []
        self._to_check: set[str] = set()
        self._lost_answers = LostAnswers()
        self._next_progress = 0.0
        self._next_check = 0.0
        self._seen_epoch = 0
        self._entered_with: tuple[str, ...] = ()
        self._missing_after = MISSING_AFTER
        self._buffer_watched = False

        self._thread: threading.Thread | None = None
        self._signed_off = False
        self._renewal_wakeup = Wakeup()
        self._renewing = asyncio.Lock()
        self._filled = asyncio.Event()
        self._first_beat = asyncio.Event()
        self._leaving = asyncio.Event()
        self._ended = asyncio.Event()

    @property
    def worker_id(self) -> str | None:
        """Under which the worker is registered; None while it is not, and then it must not lease."""
        return self._registration.worker_id

    # What the worker calls, on its own loop.

    @property
    def health_port(self) -> int | None:
        """Where it tells of its health, once it has started."""
        return None if self._listening is None else self._listening.getsockname()[1]

    def start(self) -> None:
        """Begin, in a thread of its own; `InvalidOption` if others listen where it is to tell of its health."""
        if self._address is not None:
            self._listening = listener(*self._address)
        self._worker_loop = asyncio.get_running_loop()
        self._loop_monitor = LoopMonitor(self._on_loop)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tenure-keeper", daemon=True)
        self._thread.start()

    async def first_beat(self) -> None:
        """Wait for the first beat: from then on it is known that the store answers."""
        await self._first_beat.wait()

    def register(self) -> None:
        """Enter the registry; before this it does not."""
        _call_on(self._loop, self._registration.admitted.set)

    def beat_soon(self) -> None:
        """Tell at once what has changed."""
        _call_on(self._loop, self._registration.beat_soon.set)

    async def stop(self) -> None:
        """Sign off, and end the thread; nothing happens if it has not started."""
        if self._thread is not None:
            _call_on(self._loop, self._leaving.set)
            await self._ended.wait()
            self._thread.join()

    def abandon(self, settlements: Sequence[Settlement]) -> None:
        """Settle these and sign off, from a thread that waits for it, while the worker's loop does not move."""
        if self._thread is not None:
            signing_off = asyncio.run_coroutine_threadsafe(self._sign_off(settlements), self._loop)
            with contextlib.suppress(TimeoutError, RuntimeError):
                signing_off.result(SIGN_OFF_TIMEOUT * 2)

    async def died(self) -> NoReturn:
        """Wait for the thread to end, and raise: a worker whose leases nobody renews must not go on."""
        await self._ended.wait()
        raise RuntimeError(f"the keeper of worker {self.worker_id} has died")

    @property
    def left_behind(self) -> str | None:
        """The name that it has left in the registry, because it has died."""
        return None if self._signed_off else self._registration.name

    def hold(self, attempts: list[Attempt]) -> None:
        """Keep these leases alive until they are dropped, and put the jobs into the buffer."""
        with self._lock:
            self._held.update(attempts)
        self._buffer.put(attempts)
        # One job starts at once; if it does not, the look at the buffer every third of a second is soon enough.
        if len(attempts) > 1 and not self._buffer_watched:
            self._buffer_watched = True
            _call_on(self._loop, self._filled.set)

    @property
    def held(self) -> list[Attempt]:
        """What it keeps alive, at this moment."""
        with self._lock:
            return list(self._held)

    def drop(self, attempts: Iterable[Attempt]) -> None:
        """Keep these no longer: they are settled, or lost."""
        with self._lock:
            self._held.difference_update(attempts)

    def recover(self, request: LeaseRequest) -> None:
        """Give back what the store has handed out on this request, for its answer was lost."""
        _call_on(self._loop, self._lost_answers.add, request)

    async def extend_leases(self, seconds: float) -> None:
        """Hold everything for so many seconds more than usual, in which nothing can be renewed. Raises what the store raises."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._extend_leases(seconds), self._loop))

    # The thread.

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._keep())
        except Exception:
            log.exception("the keeper of worker %s has died, the worker stops", self.worker_id)
        finally:
            _call_on(self._worker_loop, self._ended.set)

    async def _keep(self) -> None:
        self._store = self._new_store()
        repeat = self._outage.repeat
        async with asyncio.TaskGroup() as parts:
            tasks = [
                parts.create_task(repeat("watch", self._watch)),
                parts.create_task(
                    repeat("beat", lambda: self._registration.beat(self._store), self._registration.beat_soon.wait)
                ),
                # Woken at every look, however long the store has been gone: the leases run on.
                parts.create_task(repeat("renewal", self._renew, self._renewal_wakeup.wait)),
                parts.create_task(repeat("release", self._release_stale)),
                parts.create_task(repeat("recovery", self._recover)),
            ]
            if self._listens:
                tasks.append(parts.create_task(repeat("signals", self._listen)))
            if self._listening is not None:
                tasks.append(parts.create_task(serve(self._listening, self._health_report)))
            await self._leaving.wait()
            for task in tasks:
                task.cancel()
        await self._sign_off([])
        await self._store.close()

    async def _sign_off(self, settlements: Sequence[Settlement]) -> None:
        self._signed_off = True
        with contextlib.suppress(TimeoutError, StoreError):
            async with asyncio.timeout(SIGN_OFF_TIMEOUT):
                if settlements:
                    await self._store.settle(settlements)
                await self._release(self._to_release)
                await self._lost_answers.give_back(self._store)
                await self._registration.leave(self._store)

    def _entered(self, entry: WorkerInfo) -> None:
        self._entered_with, self._missing_after = entry.queues, entry.missing_after
        self._seen_epoch = self._store.announcement_epoch
        self._registered()
        _call_on(self._worker_loop, self._wake)

    def _retired(self) -> None:
        """Let go of everything; what it was still given under the name that it has lost need not wait for its lease to end."""
        for attempt in self.held:
            if not (attempt.ended or attempt.may_be_complete):
                self._to_release.append(attempt)
            self._abort(attempt, AbortReason.TAKEN)
        self._filled.set()

    def _pulse(self) -> Pulse:
        """How the worker is."""
        held, served = self.held, self._served()
        running = sorted((attempt.leased_at, attempt.lease.job.id) for attempt in held if attempt.running)
        return Pulse(
            held=len(held),
            jobs=tuple(job_id for _, job_id in running[:JOBS_SHOWN]),
            memory=occupied(),
            strays=self._strays(),
            trouble=self.trouble(),
            queues=None if served == self._entered_with else served,
            missing_after=self._missing_after,
        )

    def trouble(self) -> str:
        """What keeps the worker from leasing jobs; empty if nothing does. From any thread."""
        return self._health.trouble(
            registered=self.worker_id is not None, blocked_by=self._loop_monitor.blocked(monotonic())
        )

    def _health_report(self) -> dict[str, object]:
        """What somebody is told who asks for the worker's health."""
        trouble = self.trouble()
        return {"status": "stuck" if trouble else "ok", "trouble": trouble, "worker": self.worker_id}

    def _missed_announcements(self, now: float) -> bool:
        """Whether something may have happened to jobs of which no signal told."""
        announcement_epoch = self._store.announcement_epoch if self._listens else 0
        missed = announcement_epoch != self._seen_epoch or (announcement_epoch == 0 and now >= self._next_check)
        self._seen_epoch = announcement_epoch
        if missed:
            self._next_check = now + CHECK_INTERVAL
        return missed

    async def _renew(self) -> float:
        """Renew in one call all that is due; with it go what jobs say of their progress, and doubts about being held."""
        async with self._renewing:
            now = monotonic()
            to_check, self._to_check = self._to_check, set()
            progress_due = now >= self._next_progress
            missed = self._missed_announcements(now)
            renewals: list[tuple[Attempt, Renewal]] = []
            for attempt in self.held:
                due = attempt.renew_at is not None and attempt.renew_at <= now
                unconfirmed = attempt.check_at is not None and attempt.check_at <= now
                progress = attempt.context._said if progress_due and attempt.context is not None else None
                if due or unconfirmed or missed or progress is not None or attempt.lease.job.id in to_check:
                    renewals.append((attempt, Renewal(attempt.lease, attempt.renewal(now) if due else None, progress)))
            try:
                await self._send_renewals(renewals, now)
            except Exception:
                self._to_check |= to_check
                if missed:
                    self._seen_epoch = 0  # to be renewals again
                raise
        if progress_due:
            self._next_progress = now + PROGRESS_INTERVAL
        times = [at for attempt in self.held for at in (attempt.renew_at, attempt.check_at) if at is not None]
        return max(min(times, default=now + 60.0) - monotonic(), 0.1 if self._to_check else 0.01)

    async def _extend_leases(self, seconds: float) -> None:
        # One after the other: a renewal of the usual length that came second would count.
        async with self._renewing:
            kept = [attempt for attempt in self.held if attempt.settings.renew is not None]
            renewals = [(attempt, Renewal(attempt.lease, attempt.wanted_ttl + seconds)) for attempt in kept]
            await self._send_renewals(renewals, monotonic())

    async def _send_renewals(self, renewals: Sequence[tuple[Attempt, Renewal]], now: float) -> None:
        """Have the store renew these, and let go of those that it does not."""
        if not renewals:
            return
        answers = await self._store.renew([renewal for _, renewal in renewals])
        for (attempt, renewal), reason in zip(renewals, answers, strict=True):
            if reason == UNCHANGED:
                attempt.renewed(now, None)
                self._to_check.add(attempt.lease.job.id)
                continue
            if reason is not None:
                self._abort(attempt, reason)
                if reason is AbortReason.TAKEN:
                    self._registration.beat_soon.set()  # by a retirement, maybe: to be noticed before it leases more
                continue
            attempt.renewed(now, renewal.ttl)
            if attempt.context is not None and attempt.context._said is renewal.progress:
                attempt.context._said = None

    async def _listen(self) -> float:
        """Doubt jobs of which the store signals something: a signal may be late and mean an older lease, a renewal tells.

        Look for work if the signal says that there is some.
        """
        with contextlib.suppress(StoreError):
            async for announcement in self._store.announcements():
                if announcement.kind is AnnouncementKind.WORK:
                    _call_on(self._worker_loop, self._wake)
                    continue
                self._to_check.add(announcement.job_id)
                self._renewal_wakeup.set()
        return 1.0

    async def _release_stale(self) -> float:
        """Release what was leased ahead and has not started in time."""
        self._to_release += self._buffer.claim_stale(monotonic() - START_WITHIN)
        number = len(self._to_release)
        await self._release(self._to_release[:number])
        del self._to_release[:number]
        if not (self._buffer or self._to_release):
            self._buffer_watched = False
            await self._filled.wait()
            self._filled.clear()
        return START_WITHIN / 2

    async def _recover(self) -> float:
        """Release what was leased without this worker's knowing."""
        await self._lost_answers.come()
        return await self._lost_answers.give_back(self._store)

    async def _release(self, attempts: list[Attempt]) -> None:
        if attempts:
            self._gave_back(len(attempts))
            await self._store.settle([(attempt.lease, RELEASE) for attempt in attempts])
            self.drop(attempts)

    async def _watch(self) -> float:
        """Let go of what can no longer be counted on, and see whether the worker's loop moves. Never waits for the store."""
        now = monotonic()
        # What has ended and is not settled is not given up: the token decides, however late the settle comes.
        kept = self.held
        self._loop_monitor.look(self.worker_id, now, kept)
        held = [attempt for attempt in kept if not (attempt.ended or attempt.completing)]
        overdue = [attempt for attempt in held if attempt.give_up_at <= now]
        for attempt in overdue:
            self._abort(attempt, AbortReason.ERROR)
            self._gave_up(attempt)
        if overdue:
            job = overdue[0].lease.job
            log.warning(
                "worker %s gives up %d job(s) that it cannot be sure to hold any more, the first is job %s of task %s",
                self.worker_id, len(overdue), job.id, job.task,
            )  # fmt: skip
        if held or self._loop_monitor.blocked(now):
            self._loop_monitor.check(self.worker_id, now)
        if kept:
            self._renewal_wakeup.set()
        if self._buffer:
            self._filled.set()
        pause = max(min([WATCH_INTERVAL, *(attempt.give_up_at - now for attempt in held)]), 0.0)
        self._loop_monitor.expected_at = now + pause
        return pause

    def _abort(self, attempt: Attempt, reason: AbortReason) -> None:
        """Tell a job that its lease is gone: what runs in a thread sees it at once, a coroutine is cancelled on its loop."""
        self.drop([attempt])
        if attempt.may_be_complete and reason in (AbortReason.COMPLETED, AbortReason.NOT_FOUND, AbortReason.TAKEN):
            return  # by its own transaction, most likely; the executor asks
        if attempt.signal.abort(reason):
            _call_on(self._worker_loop, attempt.interrupt)


def _call_on(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: object) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: its part of the worker has ended
        loop.call_soon_threadsafe(callback, *args)
