"""`Loop`: settles jobs that have ended, leases as many as there is room for, and waits."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from time import monotonic, time
from typing import TYPE_CHECKING

from tenure.core.checks import seconds
from tenure.core.lease import AbortReason, new_nonce
from tenure.core.lifecycle import RELEASE, next_transition
from tenure.core.options import Unset, WorkerOptions
from tenure.core.outcome import Interrupted
from tenure.core.patterns import serves
from tenure.errors import STORE_OUTAGE, Aborted, StoreError, StoreFull, StoreUnavailable
from tenure.events import LeaseLost
from tenure.stores.base import BATCH
from tenure.stores.values import Leased, LeaseRequest, Order, Settlement, Verdict, WorkerInfo
from tenure.tasks.completion.completion import Transactions
from tenure.tasks.context import Middleware
from tenure.worker.attempt import Attempt
from tenure.worker.background_hooks import BackgroundHooks
from tenure.worker.buffer import Buffer
from tenure.worker.draining import Draining
from tenure.worker.executor import Executor
from tenure.worker.health import WorkerHealth
from tenure.worker.historian import Historian
from tenure.worker.inbox import Inbox
from tenure.worker.isolation.runner import ProcessRunner
from tenure.worker.keeper import Keeper
from tenure.worker.look_ahead import LookAhead
from tenure.worker.meter import Meters
from tenure.worker.outage import Outage
from tenure.worker.peers import Peers
from tenure.worker.queues import Queues
from tenure.worker.recycling import Recycling
from tenure.worker.settings import SettingsByTask
from tenure.worker.settler import EndedAttempt, Settler, settlements
from tenure.worker.slots import Slots
from tenure.worker.sources import Host, Room, Source, Sources
from tenure.worker.threads import Threads
from tenure.worker.vitals import Vitals
from tenure.worker.wakeup import Wakeup, WorkListener

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Loop"]

LEAVE_CHECK_INTERVAL = 0.02
"""Seconds between checks of whether the jobs of a queue that was left have ended."""

AHEAD_FOR = 10.0
"""Longest lease, in seconds, while some of its jobs have no free slot yet.

If the worker dies, they are leased again that soon.
"""

LISTEN_PAUSE = 0.02
"""Seconds for which a worker that found only jobs of unknown tasks does not listen, so that the next announcement wakes
another worker.
"""

NOTHING = Leased([])

log = logging.getLogger("tenure.worker")


class Loop:
    """Builds the parts of a worker on its event loop, and makes one round trip to the store after the other.

    No error of the store ends it, and nothing that a job does, unless the job ends the process. `finish` ends it.
    """

    def __init__(
        self,
        app: App,
        options: WorkerOptions,
        settings: SettingsByTask,
        middleware: Sequence[Middleware],
        process_runner: ProcessRunner,
        recycling: Recycling,
        *,
        stem: str,
        entry: Callable[[], WorkerInfo],
        registered: Callable[[], None],
        ordered: Callable[[Order], None],
        on_limit: Callable[[], None],
        on_empty: Callable[[], None] | None,
        sources: Sequence[Source] = (),
    ) -> None:
        self._app = app
        self._options = options
        self._settings = settings
        self._process_runner = process_runner
        self._isolated = process_runner.tasks
        self._recycling = recycling
        self.stem = stem
        self._on_limit = on_limit
        self._on_empty = on_empty
        self.sources = Sources(sources, stem)
        self._has_sources = bool(sources)
        self._lease = seconds(app.options.lease if isinstance(options.lease, Unset) else options.lease, "lease")
        self._poll = seconds(options.poll, "poll")

        self._wakeup = Wakeup()
        self._finish_wakeup = Wakeup()
        self._room_for_sources = Room(self._wakeup.set)
        self.store = app.internals.new_store()
        self.queues = Queues(options.queues, self.store, self._wakeup.set)
        self._work_listener = WorkListener(self.store, self._wakeup, self.queues.add)
        self.peers = Peers(self.store, settings)
        self.inbox = Inbox(
            self.store,
            lambda: self.queues.names,
            app.options.payload_limit,
            app.internals.raw_inboxes,
            taken=self._wakeup.set,
        )
        self._buffer = Buffer()
        self._look_ahead = LookAhead(options.concurrency, monotonic(), enabled=options.look_ahead)
        self._draining = Draining()
        self._runs_suspect = False
        self.paused = False
        """Whether it takes no jobs until `resume`."""

        self._finishing = False
        self.outage = Outage(stem)
        self._health = WorkerHealth(self.outage, self._poll)
        self._vitals = Vitals()
        self._threads = Threads()
        meters = Meters() if app.options.history else None
        self.keeper = Keeper(
            app.internals.new_store,
            self._buffer,
            self.outage,
            entry=entry,
            registered=registered,
            ordered=ordered,
            beat=seconds(options.beat, "beat"),
            listens=app.options.wakeup,
            served=lambda: self.queues.patterns,
            strays=lambda: self._threads.strays,
            health=self._health,
            vitals=self._vitals,
            busy=lambda: self._slots.busy,
            listening=None if options.health_port is None else (options.health_host, options.health_port),
            on_loop=lambda: self._slots.on_loop,
            gave_back=self._look_ahead.stalled,
            gave_up=self._on_given_up,
            wake=self._wakeup.set,
            historian=None if meters is None else Historian(meters, app.options.release),
            sources=self.sources,
        )
        self.background_hooks = BackgroundHooks(app, self._threads)
        self._queue_empty = app.internals.hooks.of("queue_empty")
        self._worked = False
        """Whether it has had jobs since its queues were last empty."""

        self._settler = Settler(
            self.keeper, self._wakeup, self.background_hooks, app.internals.audience, meters, self._vitals,
            ended=self.sources.ended if sources else None,
        )  # fmt: skip
        self._executor = Executor(
            self.store,
            settings,
            self.peers,
            self._settler,
            self._threads,
            Transactions(
                self.store, seconds(app.options.complete_timeout, "complete_timeout"), self.keeper.extend_leases
            ),
            (*app.internals.middlewares, *middleware),
            app.options.payload_limit,
            app.internals.raw_inboxes,
            process_runner,
        )
        self._slots: Slots = Slots(
            options.concurrency, self._buffer, self._executor.execute, self._look_ahead,
            rest=seconds(options.job_delay, "job_delay"), freed=self._wakeup.set,
            began=self.sources.began if sources else None,
        )  # fmt: skip
        self._attach_sources()

    # Called by the worker.

    @property
    def running(self) -> list[Attempt]:
        """Jobs that have started and whose outcome is not known."""
        return self._slots.running

    @property
    def ran(self) -> int:
        """Number of attempts that have ended."""
        return self._slots.ran

    @property
    def finished(self) -> int:
        """Number of jobs that this worker has made final."""
        return self._settler.finished

    @property
    def takes_jobs(self) -> bool:
        """Whether it takes new jobs."""
        return not (self.paused or self._finishing)

    async def run(self) -> None:
        """Settle and lease until `finish` was called and nothing is left to settle."""
        rest = 0.0
        while not self._finishing or self._slots.running or self._settler:
            await self._wakeup.wait(rest)  # until a job ends, new work, a rested slot, other queues, finish(), or time
            rest = await self._round_trip()

    def finish(self) -> None:
        """Take no more jobs; those leased ahead are released."""
        self._finishing = self._health.stopping = True
        self._room_for_sources.withdraw()
        self._release_buffer()
        self._finish_wakeup.set()

    def pause(self) -> None:
        """Take no jobs until `resume`; those leased ahead are released."""
        self.paused = self._health.paused = True
        self._room_for_sources.withdraw()
        self._release_buffer()

    def resume(self) -> None:
        """Take jobs again."""
        self.paused = self._health.paused = False
        self._wakeup.set()

    def stop_jobs(self, attempts: Sequence[Attempt], grace: float) -> None:
        """Abort running jobs: coroutines are cancelled, threads see the signal, child processes are killed after
        `grace` seconds.
        """
        for attempt in attempts:
            if attempt.signal.abort(AbortReason.SHUTDOWN) and attempt.child is None:
                attempt.interrupt()
        if grace:
            self._process_runner.terminate(attempts, grace)
        else:
            self._process_runner.kill(attempts)

    def interrupt(self, attempts: Sequence[Attempt]) -> None:
        """Stop waiting for running jobs: kill those in child processes, and release or fail all of them."""
        self._process_runner.kill(attempts)
        for attempt in attempts:
            transition = next_transition(attempt.lease.job, Interrupted(), attempt.settings.policy)
            if not attempt.may_be_complete:
                self.background_hooks.failed(attempt, Aborted(AbortReason.SHUTDOWN), transition)
            self._settler.add(attempt, transition)

    def unsettled(self) -> list[Settlement]:
        """All unsettled jobs, running ones as interrupted. Used when this loop is blocked."""
        ended = self._settler.take()
        return settlements(ended) + [
            (attempt.lease, next_transition(attempt.lease.job, Interrupted(), attempt.settings.policy))
            for attempt in self.running
            if not attempt.may_be_complete
        ]

    async def serve(self, queue: str) -> None:
        """Serve this queue, or pattern of queues, from now on."""
        self.queues.join(queue)
        self._work_listener.stop()
        self.keeper.beat_soon()
        await self._queues_changed()
        self._wakeup.set()

    def leave(self, queue: str) -> None:
        """Stop serving it; its jobs that were leased ahead are released."""
        self.queues.leave(queue)
        self._work_listener.stop()
        self.keeper.beat_soon()
        self._buffer.put(self._release(self._buffer.claim_all(), self._unserved))

    @property
    def unserved(self) -> list[Attempt]:
        """Running jobs of queues that are no longer served."""
        return [attempt for attempt in self.running if self._unserved(attempt)]

    async def left_within(self, timeout: float | None) -> bool:
        """Wait until no job of a queue that was left is held.

        Returns False after `timeout` seconds; None waits for ever.
        """
        ends_at = None if timeout is None else monotonic() + timeout
        while any(map(self._unserved, self.keeper.held)) and not self._finishing:
            if ends_at is not None and monotonic() >= ends_at:
                return False
            await asyncio.sleep(LEAVE_CHECK_INTERVAL)
        return True

    async def close(self) -> None:
        """Cancel the slots of jobs that have not ended, and end the threads."""
        self._work_listener.stop()
        await self._slots.close()
        await self.background_hooks.close()
        self._threads.close()
        self._executor.close()

    # One round trip.

    async def _round_trip(self) -> float:
        """Make one round trip and act on its answer.

        Returns the seconds until the next one, if nothing wakes the loop sooner.
        """
        ended, room, idle, served = self._settler.take(), self._room(), self._holds_nothing, self.queues.patterns
        request, requested_at = self._request(room), monotonic()
        try:
            answer = await self._exchange(ended, request)
        except Exception as error:  # noqa: BLE001  (no error of the store ends the worker, and none counts as a job's)
            self._settler.put_back(ended)
            if request is not None and not isinstance(error, StoreUnavailable | StoreFull):
                self.keeper.recover(request)
            # Jobs that end meanwhile do not wake it: they could not be settled either.
            await self._finish_wakeup.wait(self.outage.failed("worker", error))
            return 0.0
        verdicts, leased = answer
        self._health.round_done()
        if ended or request is not None:
            self._vitals.round_trip(monotonic() - requested_at)
        self._settler.settled(ended, verdicts)
        self._start_leased(leased, requested_at, served)
        if self._has_sources:
            await self._offer_room(request, room - len(leased.leases), requested_at)
        if not self._recycling.jobs_left(self._slots.ran):
            self._on_limit()
        if leased.inbox:
            self.inbox.notice()
        elif idle and room and not leased.leases and self._reports_empty:
            # It held nothing when it asked and got nothing, so jobs that its own last jobs enqueued were there to be
            # leased.
            # The list is compared with what was asked for: a chore may have found more queues since then.
            asked = () if request is None else request.queues
            if await self._queues_changed() or not {*asked}.issuperset(self.queues.names):
                return 0.0
            if not self.sources.empty:
                return await self._next_round_in(leased, room)
            if self._worked:
                self._worked = False
                self.background_hooks.call("queue_empty", self._queue_empty)
            if self._on_empty:
                self._on_empty()
        return await self._next_round_in(leased, room)

    def _attach_sources(self) -> None:
        host = Host(
            store=self.store,
            stem=self.stem,
            room=self._room_for_sources,
            worker_id=lambda: self.keeper.worker_id,
            held=lambda: frozenset(attempt.lease.job.id for attempt in self.keeper.held),
            wake=self._wakeup.set,
            slots=self._options.concurrency,
        )
        for source in self.sources:
            source.attach(host)

    async def _offer_room(self, request: LeaseRequest | None, missing: int, requested_at: float) -> None:
        """Let the sources fill the free slots if the own store could not: it had `missing` jobs less than the worker asked for."""
        if missing and request is None and self._room_for_sources.claimed and await self._queues_changed():
            # No queue was known, so nothing was leased: there are jobs after all, or the store does not answer.
            self._wakeup.set()
            missing = 0
        free = self._options.concurrency - self._slots.busy - len(self._buffer)
        self._room_for_sources.offer(min(free, missing) if self.takes_jobs else 0, requested_at)

    @property
    def _reports_empty(self) -> bool:
        """Whether to report that there is no work. Making sure costs a round trip, for which the next job might have to wait."""
        return self._on_empty is not None or (self._worked and bool(self._queue_empty))

    def _room(self) -> int:
        """How many jobs to lease now: for the free slots, and ahead of them while jobs are short."""
        if not self.takes_jobs or self.keeper.worker_id is None:
            return 0
        now = monotonic()
        if self._holds_nothing:
            self._draining.done()
        elif self._runs_suspect or self._draining.remaining(now) > 0:
            return 0
        wanted = self._look_ahead.wanted(self._options.concurrency - self._slots.busy, now)
        room = min(max(wanted - len(self._buffer), 0), BATCH)
        return min(room, self._recycling.jobs_left(self._slots.ran + self._slots.busy + len(self._buffer)))

    @property
    def _holds_nothing(self) -> bool:
        return not self._slots.busy and not self._buffer

    def _request(self, room: int) -> LeaseRequest | None:
        worker_id, queues = self.keeper.worker_id, self.queues.names
        if not room or not queues or worker_id is None:
            return None
        solo = self._holds_nothing
        # Never ahead of a free slot: a suspect that has not even started when the worker dies must not be blamed.
        free = self._options.concurrency - self._slots.busy - len(self._buffer)
        return LeaseRequest(
            queues=queues, limit=room, worker=worker_id, ttl=self._lease, nonce=new_nonce(), solo=solo,
            isolated=self._isolated if free > 0 and not solo else (),
            skip_tasks=self.peers.skipped, at_most=AHEAD_FOR if room > free else None,
        )  # fmt: skip

    async def _exchange(
        self, ended: Sequence[EndedAttempt], request: LeaseRequest | None
    ) -> tuple[Sequence[Verdict], Leased]:
        """Settle, lease, or both in one call.

        Raises the store's error unless one item causes it: then that item fails alone.
        """
        answer: tuple[Sequence[Verdict], Leased] = (), NOTHING
        try:
            if request is not None:
                answer = await self.store.settle_and_lease(settlements(ended), request)
            elif ended:
                answer = await self.store.settle(settlements(ended)), NOTHING
            else:
                return answer
        except STORE_OUTAGE:
            raise
        except Exception as error:  # noqa: BLE001
            answer = await self._settler.settle_apart(self.store, ended, error), NOTHING
        self.outage.answered("worker")
        return answer

    def _start_leased(self, leased: Leased, requested_at: float, served: Sequence[str]) -> None:
        """Pass the leased jobs to the keeper and the slots."""
        if leased.suspect_waiting:
            self._draining.begin(requested_at)
        attempts = [Attempt(lease, self._settings[lease.job.task], requested_at) for lease in leased.leases]
        # The worker may have been stopped, paused or given other queues while the answer was on its way.
        if not self.takes_jobs:
            attempts = self._release(attempts, lambda _: True)
        elif served is not self.queues.patterns:
            attempts = self._release(attempts, self._unserved)
        if attempts:
            self._worked = True
            self.queues.leased_from(attempts[0].lease.job.queue)
            self._runs_suspect = attempts[0].lease.solo and not attempts[0].settings.isolated
            self.keeper.hold(attempts)
            self._slots.wake()

    async def _next_round_in(self, leased: Leased, room: int) -> float:
        """Seconds until the next round trip, if nothing wakes the loop sooner."""
        poll = self._poll * random.uniform(0.9, 1.1)  # noqa: S311
        # A suspect is leased alone. If it runs in a child process by now, others may run beside it.
        if len(leased.leases) >= room or (leased.leases and leased.leases[0].solo):
            self._work_listener.stop()
            return 0.0 if room else poll
        # An announcement without a job in the known queues may come from a new queue.
        if not leased.leases and self._work_listener.fired and await self._queues_changed():
            return 0.0
        # Only the first queues were asked for, and they have no more jobs; the next ones may.
        if self.queues.truncated and (self.queues.advance() or await self._queues_changed()):
            return 0.0
        if leased.passed_over and self._work_listener.fired:
            await self._wake_peers(leased.passed_over)
        if self._app.options.wakeup:
            self._work_listener.start(
                self.queues.patterns, self.peers.skipped, LISTEN_PAUSE if leased.passed_over else 0.0
            )
        return poll if leased.due_in is None else min(poll, max(leased.due_in, 0.001))

    async def _wake_peers(self, tasks: Sequence[str]) -> None:
        """Wake workers that know these tasks, because this worker received the announcement meant for them."""
        try:
            await self.peers.pass_on(tasks)
        except STORE_OUTAGE as error:
            log.debug("worker %s: could not wake workers for the jobs that it passed over: %s", self.stem, error)

    async def _queues_changed(self) -> bool:
        """Look for queues with jobs. Returns whether the list has changed, or may have."""
        if not self.queues.changing:
            return False
        before = self.queues.found
        try:
            await self.queues.refresh()
        except StoreError as error:
            await self._finish_wakeup.wait(self.outage.failed("worker", error))
            return True
        self.outage.answered("worker")
        return self.queues.found != before

    # Releasing.

    def _release_buffer(self) -> None:
        self._release(self._buffer.claim_all(), lambda _: True)
        self._wakeup.set()

    def _release(self, attempts: Iterable[Attempt], unwanted: Callable[[Attempt], bool]) -> list[Attempt]:
        """Release the unwanted attempts and return the others."""
        wanted = []
        for attempt in attempts:
            if unwanted(attempt):
                self._settler.add(attempt, RELEASE)
            else:
                wanted.append(attempt)
        return wanted

    def _on_given_up(self, attempt: Attempt) -> None:
        """The keeper gave up a job whose lease it could not renew in time."""
        job = attempt.lease.job
        self._app.internals.audience.emit_if_wanted(
            LeaseLost(time(), job.id, job.task, job.queue, job.run_id, job.attempt, job.worker, AbortReason.ERROR)
        )

    def _unserved(self, attempt: Attempt) -> bool:
        return not serves(self.queues.patterns, attempt.lease.job.queue)
