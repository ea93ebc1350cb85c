"""`Keeper`: a thread that renews a worker's leases, whatever its jobs do to the worker's event loop."""

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
from tenure.core.loops import call_soon
from tenure.errors import StoreError
from tenure.jobs.lost_answers import LostAnswers
from tenure.observe.http import listener, serve
from tenure.stores.base import Store
from tenure.stores.values import (
    JOBS_SHOWN,
    MISSING_AFTER,
    UNCHANGED,
    AnnouncementKind,
    LeaseRequest,
    Order,
    Pulse,
    Renewal,
    Settlement,
    WorkerInfo,
)
from tenure.worker.attempt import Attempt
from tenure.worker.buffer import Buffer
from tenure.worker.health import WorkerHealth, respond
from tenure.worker.historian import Historian
from tenure.worker.loop_monitor import LoopMonitor
from tenure.worker.memory import occupied
from tenure.worker.outage import Outage
from tenure.worker.registration import Registration
from tenure.worker.sources import Sources
from tenure.worker.vitals import Vitals, VitalSigns, exposition
from tenure.worker.wakeup import Wakeup

__all__ = ["Keeper"]

WATCH_INTERVAL = 1 / 3
"""Seconds between checks of the held leases: a third of the shortest lease allowed."""

PROGRESS_INTERVAL = 1.0
"""Seconds between writes of job progress to the store."""

CHECK_INTERVAL = 0.5
"""Seconds between checks of whether jobs are still held while no announcements arrive.

With the time until the next check of the leases that makes less than a second.
"""

START_WITHIN = 0.050
"""Seconds within which a job that is leased ahead must start. Otherwise it is released, for an idle worker to take."""

SIGN_OFF_TIMEOUT = 2.0
"""Seconds that signing off may take."""

log = logging.getLogger("tenure.worker")


class Keeper:
    """Sends heartbeats, renews leases, listens to announcements and releases jobs, from a thread with its own event
    loop and store object.

    A job that blocks the worker's loop, or computes in Python for minutes, must not cost that job or any other its
    lease. Each part is its own asyncio task, so that a call that hangs holds up only that part, and never the part that
    stops jobs whose lease may have ended.
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
        vitals: Vitals,
        busy: Callable[[], int],
        listening: tuple[str, int] | None = None,
        on_loop: Callable[[], Attempt | None],
        gave_back: Callable[[int], None],
        gave_up: Callable[[Attempt], None],
        wake: Callable[[], None],
        ordered: Callable[[Order], None],
        historian: Historian | None,
        sources: Sources,
    ) -> None:
        self._new_store = new_store
        self._buffer = buffer
        self._outage = outage
        self._registered = registered
        self._listens = listens
        self._served = served
        self._strays = strays
        self._health = health
        self._vitals = vitals
        self._busy = busy
        self._address = listening
        self._listening: socket.socket | None = None
        self._on_loop = on_loop
        self._gave_back = gave_back
        self._gave_up = gave_up
        self._wake = wake
        self._historian = historian
        self._sources = sources
        self._registration = Registration(
            beat,
            entry=entry,
            pulse=self._pulse,
            store_answered=lambda: call_soon(self._worker_loop, self._first_beat.set),
            entered=self._entered,
            retired=self._retired,
            ordered=lambda order: call_soon(self._worker_loop, ordered, order),
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
        """The worker's id in the registry. None while it is not registered; then it must not lease."""
        return self._registration.worker_id

    # Called by the worker, on its own loop.

    @property
    def health_port(self) -> int | None:
        """Port of the health server; None before it has started."""
        return None if self._listening is None else self._listening.getsockname()[1]

    def start(self) -> None:
        """Start the thread. Raises `InvalidOption` if the health port is in use."""
        if self._address is not None:
            self._listening = listener(*self._address, "health_port")
        self._worker_loop = asyncio.get_running_loop()
        self._loop_monitor = LoopMonitor(self._on_loop)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tenure-keeper", daemon=True)
        self._thread.start()

    async def first_beat(self) -> None:
        """Wait until the first heartbeat has reached the store."""
        await self._first_beat.wait()

    def register(self) -> None:
        """Let the keeper register the worker. Until then it only checks that the store answers."""
        call_soon(self._loop, self._registration.admitted.set)

    def beat_soon(self) -> None:
        """Send a heartbeat now, because something has changed."""
        call_soon(self._loop, self._registration.beat_soon.set)

    async def stop(self) -> None:
        """Sign off and end the thread. Does nothing if the thread was not started."""
        if self._thread is not None:
            call_soon(self._loop, self._leaving.set)
            await self._ended.wait()
            self._thread.join()

    def abandon(self, settlements: Sequence[Settlement]) -> None:
        """Settle these and sign off while the worker's loop is blocked. Called from another thread, which waits."""
        if self._thread is not None:
            signing_off = asyncio.run_coroutine_threadsafe(self._sign_off(settlements), self._loop)
            with contextlib.suppress(TimeoutError, RuntimeError):
                signing_off.result(SIGN_OFF_TIMEOUT * 2)

    async def died(self) -> NoReturn:
        """Wait for the thread to end, then raise: a worker must not go on when its leases are no longer renewed."""
        await self._ended.wait()
        raise RuntimeError(f"the keeper of worker {self.worker_id} died")

    @property
    def left_behind(self) -> str | None:
        """The worker id that is still in the registry because the keeper died; None if it has signed off."""
        return None if self._signed_off else self._registration.name

    def hold(self, attempts: list[Attempt]) -> None:
        """Renew these leases until they are dropped, and put the jobs into the buffer."""
        with self._lock:
            self._held.update(attempts)
        self._buffer.put(attempts)
        # A single job usually starts at once. If it does not, the check every third of a second is soon enough.
        if len(attempts) > 1 and not self._buffer_watched:
            self._buffer_watched = True
            call_soon(self._loop, self._filled.set)

    @property
    def held(self) -> list[Attempt]:
        """The attempts whose leases it renews now."""
        with self._lock:
            return list(self._held)

    def drop(self, attempts: Iterable[Attempt]) -> None:
        """Stop renewing these: they are settled or lost."""
        with self._lock:
            self._held.difference_update(attempts)

    def recover(self, request: LeaseRequest) -> None:
        """Release what the store leased for this request, because its answer was lost."""
        call_soon(self._loop, self._lost_answers.add, request)

    async def extend_leases(self, seconds: float) -> None:
        """Extend all leases by `seconds` more than usual, for a time in which they cannot be renewed.

        Raises what the store raises.
        """
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._extend_leases(seconds), self._loop))

    # On the keeper's thread.

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._keep())
        except Exception:
            log.exception("the keeper of worker %s died: the worker stops", self.worker_id)
        finally:
            call_soon(self._worker_loop, self._ended.set)

    async def _keep(self) -> None:
        self._store = self._new_store()
        repeat = self._outage.repeat
        async with asyncio.TaskGroup() as parts:
            tasks = [
                parts.create_task(repeat("watch", self._watch)),
                parts.create_task(
                    repeat("beat", lambda: self._registration.beat(self._store), self._registration.beat_soon.wait)
                ),
                # Woken at every check, however long the store has been down, because the leases keep running out.
                parts.create_task(repeat("renewal", self._renew, self._renewal_wakeup.wait)),
                parts.create_task(repeat("release", self._release_stale)),
                parts.create_task(repeat("recovery", self._recover)),
            ]
            if self._listens:
                tasks.append(parts.create_task(repeat("signals", self._listen)))
            if (historian := self._historian) is not None:
                tasks.append(parts.create_task(repeat("history", lambda: historian.run(self._store), chore=True)))
            tasks += [
                parts.create_task(repeat(f"renewal in {source!r}", source.renew, chore=True))
                for source in self._sources
            ]
            if self._listening is not None:
                tasks.append(parts.create_task(serve(self._listening, respond(self._health_report, self._metrics))))
            await self._leaving.wait()
            for task in tasks:
                task.cancel()
        await self._sources.close_renewing()
        await self._sign_off([])
        await self._store.close()

    async def _sign_off(self, settlements: Sequence[Settlement]) -> None:
        self._signed_off = True
        with contextlib.suppress(TimeoutError, StoreError):
            async with asyncio.timeout(SIGN_OFF_TIMEOUT):
                if settlements:
                    await self._store.settle(settlements)
                await self._release(self._to_release)
                await self._lost_answers.release_all(self._store)
                await self._registration.leave(self._store)
                if self._historian is not None:
                    await self._historian.write(self._store)

    def _entered(self, entry: WorkerInfo) -> None:
        self._entered_with, self._missing_after = entry.queues, entry.missing_after
        self._seen_epoch = self._store.announcement_epoch
        self._registered()
        call_soon(self._worker_loop, self._wake)

    def _retired(self) -> None:
        """Drop all jobs.

        Those leased under the retired id are released, so that they need not wait for their leases to end.
        """
        for attempt in self.held:
            if not (attempt.ended or attempt.may_be_complete):
                self._to_release.append(attempt)
            self._abort(attempt, AbortReason.TAKEN)
        self._filled.set()

    def _pulse(self) -> Pulse:
        """The worker's state for its next heartbeat."""
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
        """What keeps the worker from leasing jobs, as a phrase; empty if it can. May be called from any thread."""
        return self._health.trouble(
            registered=self.worker_id is not None, blocked_by=self._loop_monitor.blocked(monotonic())
        )

    def _health_report(self) -> dict[str, object]:
        """The body of the answer to a health request."""
        trouble = self.trouble()
        return {"status": "stuck" if trouble else "ok", "trouble": trouble, "worker": self.worker_id}

    def vital_signs(self) -> VitalSigns:
        """What only this worker knows about itself. May be called from any thread."""
        return self._vitals.signs(lag=self._loop_monitor.lag(monotonic()), memory=occupied(), busy=self._busy())

    def _metrics(self) -> str:
        """The answer to a request for metrics: this worker is the only process."""
        return exposition([("1", self.vital_signs())])

    def _missed_announcements(self, now: float) -> bool:
        """Whether announcements about held jobs may have been missed."""
        announcement_epoch = self._store.announcement_epoch if self._listens else 0
        missed = announcement_epoch != self._seen_epoch or (announcement_epoch == 0 and now >= self._next_check)
        self._seen_epoch = announcement_epoch
        if missed:
            self._next_check = now + CHECK_INTERVAL
        return missed

    async def _renew(self) -> float:
        """Renew all leases that are due, in one call.

        The same call sends the jobs' progress and checks jobs that may have been lost.
        """
        async with self._renewing:
            now = monotonic()
            to_check, self._to_check = self._to_check, set()
            progress_due = now >= self._next_progress
            missed = self._missed_announcements(now)
            renewals: list[tuple[Attempt, Renewal]] = []
            for attempt in self.held:
                due = attempt.renew_at is not None and attempt.renew_at <= now
                unconfirmed = attempt.check_at is not None and attempt.check_at <= now
                progress = attempt.progress_to_store() if progress_due else None
                if due or unconfirmed or missed or progress is not None or attempt.lease.job.id in to_check:
                    renewals.append((attempt, Renewal(attempt.lease, attempt.renewal(now) if due else None, progress)))
            try:
                await self._send_renewals(renewals, now)
            except Exception:
                self._to_check |= to_check
                if missed:
                    self._seen_epoch = 0  # so that they are checked again
                raise
        if progress_due:
            self._next_progress = now + PROGRESS_INTERVAL
        times = [at for attempt in self.held for at in (attempt.renew_at, attempt.check_at) if at is not None]
        return max(min(times, default=now + 60.0) - monotonic(), 0.1 if self._to_check else 0.01)

    async def _extend_leases(self, seconds: float) -> None:
        # Under the lock, because a concurrent renewal of the usual length would undo the extension.
        async with self._renewing:
            kept = [attempt for attempt in self.held if attempt.settings.renew is not None]
            renewals = [(attempt, Renewal(attempt.lease, attempt.wanted_ttl + seconds)) for attempt in kept]
            await self._send_renewals(renewals, monotonic())

    async def _send_renewals(self, renewals: Sequence[tuple[Attempt, Renewal]], now: float) -> None:
        """Send these renewals, and drop the jobs that the store no longer gives to this worker."""
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
                    self._registration.beat_soon.set()  # maybe by a retirement, which must be noticed before the worker leases more
                continue
            attempt.renewed(now, renewal.ttl)
            self._vitals.renewals += renewal.ttl is not None
            if renewal.progress is not None:
                attempt.progress_stored(renewal.progress)

    async def _listen(self) -> float:
        """Check the jobs that announcements name.

        An announcement may be late and concern an older lease, so a renewal decides.

        An announcement of new work wakes the worker's loop.
        """
        with contextlib.suppress(StoreError):
            async for announcement in self._store.announcements():
                if announcement.kind is AnnouncementKind.WORK:
                    call_soon(self._worker_loop, self._wake)
                    continue
                self._to_check.add(announcement.job_id)
                self._renewal_wakeup.set()
        return 1.0

    async def _release_stale(self) -> float:
        """Release jobs that were leased ahead and have not started in time."""
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
        """Release jobs whose lease answers were lost."""
        await self._lost_answers.wait()
        return await self._lost_answers.release_all(self._store)

    async def _release(self, attempts: list[Attempt]) -> None:
        if attempts:
            self._gave_back(len(attempts))
            await self._store.settle([(attempt.lease, RELEASE) for attempt in attempts])
            self.drop(attempts)

    async def _watch(self) -> float:
        """Stop jobs whose lease may have ended, and check that the worker's loop moves. Never waits for the store."""
        now = monotonic()
        # An attempt that has ended and is not settled is not given up: its token decides, however late the settle
        # comes.
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
                "worker %s gives up %d job(s) whose leases it could not renew in time, the first is job %s of task %s",
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
        """Abort a job whose lease is gone.

        A thread sees its signal at once; a coroutine is cancelled on the worker's loop.
        """
        self.drop([attempt])
        if attempt.may_be_complete and reason in (AbortReason.COMPLETED, AbortReason.NOT_FOUND, AbortReason.TAKEN):
            return  # most likely its own transaction has ended it; the executor finds out
        if attempt.signal.abort(reason):
            call_soon(self._worker_loop, attempt.interrupt)
