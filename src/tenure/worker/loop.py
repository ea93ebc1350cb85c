"""The loop of a worker: settle what has ended, lease what there is room for, run it, wait."""

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
from tenure.stores.values import Leased, LeaseRequest, Settlement, Verdict, WorkerInfo
from tenure.tasks.completion.completion import Transactions
from tenure.tasks.context import Middleware
from tenure.worker.attempt import Attempt
from tenure.worker.background_hooks import BackgroundHooks
from tenure.worker.buffer import Buffer
from tenure.worker.draining import Draining
from tenure.worker.executor import Executor
from tenure.worker.health import Health
from tenure.worker.inbox import Inbox
from tenure.worker.isolation.lane import Isolation
from tenure.worker.keeper import Keeper
from tenure.worker.look_ahead import LookAhead
from tenure.worker.outage import Outage
from tenure.worker.peers import Peers
from tenure.worker.queues import Queues
from tenure.worker.recycling import Recycling
from tenure.worker.settings import SettingsOf
from tenure.worker.settler import Ended, Settler, settlements
from tenure.worker.slots import Slots
from tenure.worker.threads import Threads
from tenure.worker.wakeup import Bell, Wakeup

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Loop", "event_loops"]

LOOK = 0.02
"""Seconds between looks whether the jobs of a queue that was left have ended."""

AHEAD_FOR = 10.0
"""Seconds that leases last at most if some of their jobs have no free slot yet: should the worker die, they come back that soon."""

ASIDE = 0.02
"""Seconds for which a worker that has found only jobs of others does not listen: so the next one wakes another worker."""

NOTHING = Leased([])

log = logging.getLogger("tenure.worker")


class Loop:
    """What a worker works with, put together on the event loop that it lives on; and the round that it makes, over and over.

    No error of the store, and nothing that a job does short of ending the process, ends it; `finish` does.
    """

    def __init__(
        self,
        app: App,
        options: WorkerOptions,
        settings: SettingsOf,
        middleware: Sequence[Middleware],
        isolation: Isolation,
        recycling: Recycling,
        *,
        stem: str,
        entry: Callable[[], WorkerInfo],
        registered: Callable[[], None],
        on_limit: Callable[[], None],
        on_empty: Callable[[], None] | None,
    ) -> None:
        self._app = app
        self._options = options
        self._settings = settings
        self._isolation = isolation
        self._isolated = isolation.tasks
        self._recycling = recycling
        self.stem = stem
        self._on_limit = on_limit
        self._on_empty = on_empty
        self._lease = seconds(app.options.lease if isinstance(options.lease, Unset) else options.lease, "lease")
        self._poll = seconds(options.poll, "poll")

        self._wakeup = Wakeup()
        self._stir = Wakeup()
        self.store = app.internals.new_store()
        self.queues = Queues(options.queues, self.store, self._wakeup.set)
        self._bell = Bell(self.store, self._wakeup, self.queues.add)
        self.peers = Peers(self.store, settings)
        self.inbox = Inbox(
            self.store,
            lambda: self.queues.names,
            app.options.payload_limit,
            app.internals.raw_inboxes,
            taken=self._wakeup.set,
        )
        self._buffer = Buffer()
        self._pace = LookAhead(options.concurrency, monotonic(), look_ahead=options.look_ahead)
        self._clearing = Draining()
        self._alone = False
        self.paused = False
        """Whether it takes no jobs until it is told to."""

        self._finishing = False
        self.outage = Outage(stem)
        self._health = Health(self.outage, self._poll)
        self._threads = Threads()
        self.keeper = Keeper(
            app.internals.new_store,
            self._buffer,
            self.outage,
            entry=entry,
            registered=registered,
            beat=seconds(options.beat, "beat"),
            listens=app.options.wakeup,
            served=lambda: self.queues.patterns,
            strays=lambda: self._threads.strays,
            health=self._health,
            listening=None if options.health_port is None else (options.health_host, options.health_port),
            on_loop=lambda: self._slots.on_loop,
            gave_back=self._pace.stalled,
            gave_up=self._gave_up,
            wake=self._wakeup.set,
        )
        self.background_hooks = BackgroundHooks(app, self._threads)
        self._queue_empty = app.internals.hooks.of("queue_empty")
        self._worked = False
        """Whether it has had jobs since it last found nothing to do."""

        self._settler = Settler(self.keeper, self._wakeup, self.background_hooks, app.internals.audience)
        executor = Executor(
            self.store,
            settings,
            self.peers,
            self._settler,
            self._threads,
            Transactions(self.store, seconds(app.options.complete_timeout, "complete_timeout"), self.keeper.secure),
            (*app.internals.middlewares, *middleware),
            app.options.payload_limit,
            app.internals.raw_inboxes,
            isolation,
        )
        self._slots = Slots(
            options.concurrency, self._buffer, executor.execute, self._pace,
            rest=seconds(options.job_delay, "job_delay"), freed=self._wakeup.set,
        )  # fmt: skip

    # What the worker asks of it.

    @property
    def running(self) -> list[Attempt]:
        """The jobs that have started and whose outcome is not known."""
        return self._slots.running

    @property
    def ran(self) -> int:
        """Attempts that have ended."""
        return self._slots.ran

    @property
    def finished(self) -> int:
        """Jobs that have become final here."""
        return self._settler.finished

    @property
    def takes(self) -> bool:
        """Whether it takes new jobs."""
        return not (self.paused or self._finishing)

    async def run(self) -> None:
        """Settle what has ended and lease what there is room for, until it is to finish and is empty-handed."""
        rest = 0.0
        while not self._finishing or self._slots.running or self._settler:
            await self._wakeup.wait(rest)  # for an ended job, new work, a rested slot, other queues, finish(), or time
            rest = await self._turn()

    def finish(self) -> None:
        """Take no more jobs; those leased ahead are released."""
        self._finishing = self._health.stopping = True
        self._let_go()
        self._stir.set()

    def pause(self) -> None:
        """Take no jobs until `resume`; those leased ahead are released."""
        self.paused = self._health.paused = True
        self._let_go()

    def resume(self) -> None:
        """Take jobs again."""
        self.paused = self._health.paused = False
        self._wakeup.set()

    def tell(self, attempts: Sequence[Attempt], grace: float) -> None:
        """Tell running jobs to stop: coroutines are cancelled, threads see the signal, processes are killed after so many seconds."""
        for attempt in attempts:
            if attempt.signal.abort(AbortReason.SHUTDOWN) and attempt.child is None:
                attempt.interrupt()
        if grace:
            self._isolation.terminate(attempts, grace)
        else:
            self._isolation.kill(attempts)

    def interrupt(self, attempts: Sequence[Attempt]) -> None:
        """Wait no longer for running jobs: kill those in processes, and release or fail all of them."""
        self._isolation.kill(attempts)
        for attempt in attempts:
            step = next_transition(attempt.lease.job, Interrupted(), attempt.settings.policy)
            if not attempt.may_be_complete:
                self.background_hooks.failed(attempt, Aborted(AbortReason.SHUTDOWN), step)
            self._settler.add(attempt, step)

    def unsettled(self) -> list[Settlement]:
        """What the store has not been told, running jobs as interrupted ones; for when this loop no longer moves."""
        ended = self._settler.take()
        return settlements(ended) + [
            (attempt.lease, next_transition(attempt.lease.job, Interrupted(), attempt.settings.policy))
            for attempt in self.running
            if not attempt.may_be_complete
        ]

    async def serve(self, queue: str) -> None:
        """Serve this queue, or pattern of queues, from now on."""
        self.queues.join(queue)
        self._bell.disarm()
        self.keeper.beat_soon()
        await self._queues_changed()
        self._wakeup.set()

    def leave(self, queue: str) -> None:
        """Serve it no longer; its jobs that were leased ahead are released."""
        self.queues.leave(queue)
        self._bell.disarm()
        self.keeper.beat_soon()
        self._buffer.put(self._released(self._buffer.claim_all(), self._unserved))

    @property
    def unserved(self) -> list[Attempt]:
        """Running jobs of queues that are no longer served."""
        return [attempt for attempt in self.running if self._unserved(attempt)]

    async def left_within(self, timeout: float | None) -> bool:
        """Wait until none is in hand, and the store knows; False if that takes more than so many seconds."""
        ends_at = None if timeout is None else monotonic() + timeout
        while any(map(self._unserved, self.keeper.held)) and not self._finishing:
            if ends_at is not None and monotonic() >= ends_at:
                return False
            await asyncio.sleep(LOOK)
        return True

    async def close(self) -> None:
        """Take the slots from jobs that have not ended, and let go of the threads."""
        self._bell.disarm()
        await self._slots.close()
        await self.background_hooks.close()
        self._threads.close()

    # One round.

    async def _turn(self) -> float:
        """Make one round trip, and act on what it brings; seconds until another is worth it although nothing happens."""
        ended, room, idle, served = self._settler.take(), self._room(), self._holds_nothing, self.queues.patterns
        request, asked_at = self._request(room), monotonic()
        try:
            answer = await self._exchange(ended, request)
        except Exception as error:  # noqa: BLE001  (no error of the store ends the worker, and none is taken for a job's)
            self._settler.put_back(ended)
            if request is not None and not isinstance(error, StoreUnavailable | StoreFull):
                self.keeper.lost_answers(request)
            # Not woken by jobs that end meanwhile: they could not be settled either.
            await self._stir.wait(self.outage.gone("worker", error))
            return 0.0
        verdicts, leased = answer
        self._health.turned()
        self._settler.settled(ended, verdicts)
        self._begin(leased, asked_at, served)
        if not self._recycling.left(self._slots.ran):
            self._on_limit()
        if leased.inbox:
            self.inbox.notice()
        elif idle and room and not leased.leases and (self._worked or self._on_empty):
            # Held nothing when it asked, and got nothing: whatever its own last jobs have enqueued was there to be leased.
            if await self._queues_changed():
                return 0.0
            if self._worked:
                self._worked = False
                self.background_hooks.call("queue_empty", self._queue_empty)
            if self._on_empty:
                self._on_empty()
        return await self._rest(leased, room)

    def _room(self) -> int:
        """How many jobs to lease now: for the free slots, and ahead of them while jobs are short."""
        if not self.takes or self.keeper.worker_id is None:
            return 0
        now = monotonic()
        if self._holds_nothing:
            self._clearing.reached()
        elif self._alone or self._clearing.left(now) > 0:
            return 0
        wanted = self._pace.wanted(self._options.concurrency - self._slots.busy, now)
        room = min(max(wanted - len(self._buffer), 0), BATCH)
        return min(room, self._recycling.left(self._slots.ran + self._slots.busy + len(self._buffer)))

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

    async def _exchange(self, ended: Sequence[Ended], request: LeaseRequest | None) -> tuple[Sequence[Verdict], Leased]:
        """Settle, lease, or both at once. Raises what the store says unless an item is to blame, which fails alone."""
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

    def _begin(self, leased: Leased, asked_at: float, served: Sequence[str]) -> None:
        """Hand what was leased to the keeper and to the slots."""
        if leased.suspect_waiting:
            self._clearing.suspect_waits(asked_at)
        attempts = [Attempt(lease, self._settings[lease.job.task], asked_at) for lease in leased.leases]
        # A stop, a pause or another list of queues may have come while the leases were on their way.
        if not self.takes:
            attempts = self._released(attempts, lambda _: True)
        elif served is not self.queues.patterns:
            attempts = self._released(attempts, self._unserved)
        if attempts:
            self._worked = True
            self.queues.leased_from(attempts[0].lease.job.queue)
            self._alone = attempts[0].lease.solo and not attempts[0].settings.isolated
            self.keeper.hold(attempts)
            self._slots.wake()

    async def _rest(self, leased: Leased, room: int) -> float:
        """Seconds until the store is worth asking again although nothing happens."""
        poll = self._poll * random.uniform(0.9, 1.1)  # noqa: S311
        # A suspect comes alone, and if it is in a child by now others may run beside it.
        if len(leased.leases) >= room or (leased.leases and leased.leases[0].solo):
            self._bell.disarm()
            return 0.0 if room else poll
        # A ring that the known queues do not explain may come from another one.
        if not leased.leases and self._bell.rang and await self._queues_changed():
            return 0.0
        # Those that were asked for have no more; the next ones may.
        if self.queues.cut and await self._queues_changed():
            return 0.0
        if leased.passed_over and self._bell.rang:
            await self._pass_on(leased.passed_over)
        if self._app.options.wakeup:
            self._bell.arm(self.queues.patterns, self.peers.skipped, ASIDE if leased.passed_over else 0.0)
        return poll if leased.due_in is None else min(poll, max(leased.due_in, 0.001))

    async def _pass_on(self, tasks: Sequence[str]) -> None:
        """Wake workers that know these tasks, for the ring that they did not hear."""
        try:
            await self.peers.pass_on(tasks)
        except STORE_OUTAGE as error:
            log.debug("worker %s: others were not told of jobs for them: %s", self.stem, error)

    async def _queues_changed(self) -> bool:
        """Look for queues that have something to do; whether the list is another now, or may be."""
        if not self.queues.changing:
            return False
        before = self.queues.names
        try:
            await self.queues.refresh()
        except StoreError as error:
            await self._stir.wait(self.outage.gone("worker", error))
            return True
        self.outage.answered("worker")
        return self.queues.names != before

    # Giving back.

    def _let_go(self) -> None:
        self._released(self._buffer.claim_all(), lambda _: True)
        self._wakeup.set()

    def _released(self, attempts: Iterable[Attempt], unwanted: Callable[[Attempt], bool]) -> list[Attempt]:
        """Release what is not wanted; the rest."""
        wanted = []
        for attempt in attempts:
            if unwanted(attempt):
                self._settler.add(attempt, RELEASE)
            else:
                wanted.append(attempt)
        return wanted

    def _gave_up(self, attempt: Attempt) -> None:
        """The keeper has let go of a job that it could not renew in time."""
        job = attempt.lease.job
        self._app.internals.audience.happened(
            LeaseLost(time(), job.id, job.task, job.queue, job.run_id, job.attempt, job.worker, AbortReason.ERROR)
        )

    def _unserved(self, attempt: Attempt) -> bool:
        return not serves(self.queues.patterns, attempt.lease.job.queue)


def event_loops() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the fastest event loop that is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
