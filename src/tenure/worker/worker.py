"""The worker: leases what its slots can take, runs it, settles it."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import StrEnum
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tenure.checks import Duration, seconds
from tenure.completion import Transactions
from tenure.context import Middleware
from tenure.lease import AbortReason, new_nonce
from tenure.lifecycle import RELEASE
from tenure.options import Unset, WorkerOptions
from tenure.patterns import checked
from tenure.stores.base import STEP, Health, Leased, LeaseRequest, Verdict, WorkerInfo
from tenure.worker import signals
from tenure.worker.attempt import Attempt
from tenure.worker.buffer import Buffer
from tenure.worker.executor import Executor
from tenure.worker.identity import Identity
from tenure.worker.inbox import Inbox
from tenure.worker.keeper import Keeper
from tenure.worker.outage import GONE, Outage
from tenure.worker.pace import Pace
from tenure.worker.pruner import Pruner
from tenure.worker.queues import Queues
from tenure.worker.reaper import Reaper
from tenure.worker.settings import SettingsOf
from tenure.worker.settler import Ended, Settler, settlements
from tenure.worker.slots import Slots
from tenure.worker.suspects import Clearing
from tenure.worker.threads import Threads
from tenure.worker.wakeup import Bell, Wakeup

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Status", "Worker"]

CLEAN_UP = 4.0
"""Seconds that jobs have to stop after they were told to, before they are released without waiting for them."""

LAST_WORD = 2.0
"""Seconds that a worker which stops with a grace gives the store to hear of what was released."""

DAY = 86400.0
"""Seconds between looks at the health of the store: disks fill up."""

log = logging.getLogger("tenure.worker")


class Status(StrEnum):
    """Where a worker is in its life; it goes through it once."""

    READY = "ready"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Worker:
    """Runs the jobs of an app: one event loop that leases what its slots can take, and settles what has ended.

    No error of the store, and nothing that a job does short of ending the process, ends it; `stop` does.
    """

    def __init__(self, app: App, options: WorkerOptions, middleware: Sequence[Middleware] = ()) -> None:
        self.status = Status.READY
        self.options = options
        self._app = app
        self._patterns = checked(options.queues)
        self._middleware = middleware
        self._settings = SettingsOf(app.tasks, options, app.options)
        self._lease = seconds(app.options.lease if isinstance(options.lease, Unset) else options.lease, "lease")
        self._poll = seconds(options.poll, "poll")
        self._prune_interval = seconds(options.prune_interval, "prune_interval")
        self._identity = Identity(options.id)
        self._until_empty = False

    @property
    def id(self) -> str | None:
        """Its name in the registry; None while it is not entered there."""
        return self._keeper.worker_id if self.status in (Status.RUNNING, Status.STOPPING) else None

    # Starting and stopping.

    async def start(self) -> Callable[..., Coroutine[Any, Any, None]]:
        """Begin to work, in the background; returns `stop`.

        A store that cannot be reached is waited for; one that a newer Tenure has written raises `LayoutTooNew`.
        """
        if self.status is not Status.READY:
            raise RuntimeError(f"a worker starts once, and this one is {self.status}: make another with app.worker()")
        self._assemble()
        try:
            await self._store.open()
        except GONE as error:
            self._outage.gone("worker", error)
        self.status = Status.RUNNING
        self._keeper.start()
        self._serving = asyncio.create_task(self._serve(), name="tenure-worker")
        return self.stop

    async def stop(self, grace: Duration | None = None) -> None:
        """Take no more jobs, finish those in hand, and end; those leased ahead are released, to the front.

        With a grace, what is still running after so many seconds is told to stop (`ctx.signal`, reason `shutdown`; a
        coroutine is cancelled) and released.
        """
        await self._stop(None if grace is None else seconds(grace, "grace"), CLEAN_UP)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def run(self, *, until_empty: bool = False) -> None:
        """Work until stopped by TERM or INT, or until there is nothing left to do now. Blocks.

        `until_empty`: ends once nothing is waiting or due in its queues, and it runs nothing itself; jobs scheduled for
        later do not hold it. TERM and INT tell jobs to stop and release those that do not within 4 s; another INT does
        not wait for them.
        """
        self._until_empty = until_empty
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        await self.start()
        stops: list[asyncio.Task[None]] = []

        def stop(signum: signal.Signals, again: bool) -> None:
            log.warning("worker %s stops: %s", self.id, signum.name)
            stops.append(asyncio.create_task(self._stop(0.0, 0.0 if again else CLEAN_UP)))

        with signals.handled(stop):
            await self._served()

    async def _stop(self, grace: float | None, clean_up: float) -> None:
        if self.status is Status.READY:
            self.status = Status.STOPPED
            return
        self._stop_leasing()
        if grace is not None and not await self._ended_within(grace):
            for attempt in self._slots.running:
                if attempt.signal.abort(AbortReason.SHUTDOWN):
                    attempt.interrupt()
            if not await self._ended_within(clean_up):
                self._release(self._slots.running)
                await self._ended_within(LAST_WORD)
                self._serving.cancel()
        await self._served()

    def _stop_leasing(self) -> None:
        if self.status is Status.RUNNING:
            self.status = Status.STOPPING
            self._release(self._buffer.claim_all())
            self._wakeup.set()

    async def _served(self) -> None:
        """Wait for the end, which is no less an end if it was forced."""
        await asyncio.wait([self._serving])
        if not self._serving.cancelled():
            self._serving.result()

    async def _ended_within(self, timeout: float) -> bool:
        ended, _ = await asyncio.wait([self._serving], timeout=timeout)
        return bool(ended)

    def _release(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self._settler.add(attempt, RELEASE)

    # Working.

    def _assemble(self) -> None:
        """Put the parts together; on the loop that they will live on."""
        options, app = self.options, self._app
        self._wakeup = Wakeup()
        self._store = app.new_store()
        self._queues = Queues(self._patterns, self._store, self._wakeup.set)
        self._bell = Bell(self._store, self._patterns, self._wakeup)
        self._inbox = Inbox(self._store, lambda: self._queues.names, app.options.payload_limit, taken=self._wakeup.set)
        self._buffer = Buffer()
        self._pace = Pace(options.concurrency, monotonic(), look_ahead=options.look_ahead)
        self._clearing = Clearing()
        self._alone = False
        self._outage = Outage(self._identity.stem)
        self._threads = Threads()
        self._keeper = Keeper(
            app.new_store,
            self._buffer,
            self._outage,
            entry=self._entry,
            beat=seconds(options.beat, "beat"),
            listens=app.options.wakeup,
            on_loop=lambda: self._slots.on_loop,
            gave_back=self._pace.stalled,
            wake=self._wakeup.set,
        )
        self._settler = Settler(self._keeper, self._wakeup)
        executor = Executor(
            self._store,
            self._settings,
            self._settler,
            self._threads,
            Transactions(self._store, seconds(app.options.complete_timeout, "complete_timeout"), self._keeper.secure),
            (*app.middlewares, *self._middleware),
            app.options.payload_limit,
        )
        self._slots = Slots(
            options.concurrency, self._buffer, executor.execute, self._pace,
            rest=seconds(options.job_delay, "job_delay"), freed=self._wakeup.set,
        )  # fmt: skip

    async def _serve(self) -> None:
        reaper = Reaper(self._store, lambda: self._queues.names)
        pruner = Pruner(self._store, self._app.options, self._prune_interval, lambda: self._settler.finished)
        chores: dict[str, Callable[[], Awaitable[float]]] = {"inbox": self._inbox.take_in, "examination": self._examine}
        if self._queues.changing:
            chores["queue list"] = self._queues.refresh
        if self.options.reap:
            chores |= {"reaper": reaper.reap, "pruner": pruner.prune}
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._outage.repeat(name, chore)) for name, chore in chores.items()]
                tasks.append(group.create_task(self._keeper.died()))
                await self._work()
                for task in tasks:
                    task.cancel()
        finally:
            self._bell.disarm()
            await self._slots.close()
            self._threads.close()
            # The keeper last: a job still finishing needs its lease until the moment it settles.
            await self._keeper.stop()
            await self._store.close()
            self.status = Status.STOPPED

    async def _work(self) -> None:
        """Settle what has ended and lease what there is room for, until stopped and empty-handed."""
        rest = 0.0
        while self.status is Status.RUNNING or self._slots.running or self._settler:
            await self._wakeup.wait(rest)  # for an ended job, new work, a rested slot, a new queue, stop(), or time
            rest = await self._turn()

    async def _turn(self) -> float:
        """Make one round trip, and act on what it brings; seconds until another is worth it although nothing happens."""
        ended, room, idle = self._settler.take(), self._room(), self._holds_nothing
        asked_at = monotonic()
        try:
            verdicts, leased = await self._exchange(ended, self._request(room))
        except GONE as error:
            self._settler.put_back(ended)
            # Not woken by jobs that end meanwhile: they could not be settled either.
            await asyncio.sleep(self._outage.gone("worker", error))
            return 0.0
        self._settler.settled(ended, verdicts)
        self._begin(leased, asked_at)
        if leased.inbox:
            self._inbox.notice()
        elif idle and room and not leased.leases and self._until_empty and not await self._queues_changed():
            # Held nothing when it asked, and got nothing: whatever its own last jobs have enqueued was there to be leased.
            self._stop_leasing()
        return await self._rest(leased, room)

    def _room(self) -> int:
        """How many jobs to lease now: for the free slots, and ahead of them while jobs are short."""
        if self.status is not Status.RUNNING or self._keeper.worker_id is None:
            return 0
        now = monotonic()
        if self._holds_nothing:
            self._clearing.reached()
        elif self._alone or self._clearing.left(now) > 0:
            return 0
        wanted = self._pace.wanted(self.options.concurrency - self._slots.busy, now)
        return min(max(wanted - len(self._buffer), 0), STEP)

    @property
    def _holds_nothing(self) -> bool:
        return not self._slots.busy and not self._buffer

    def _request(self, room: int) -> LeaseRequest | None:
        worker_id, queues = self._keeper.worker_id, self._queues.names
        if not room or not queues or worker_id is None:
            return None
        return LeaseRequest(
            queues=queues, limit=room, worker=worker_id, ttl=self._lease, nonce=new_nonce(), solo=self._holds_nothing
        )

    async def _exchange(self, ended: Sequence[Ended], request: LeaseRequest | None) -> tuple[Sequence[Verdict], Leased]:
        """Settle, lease, or both at once."""
        answer: tuple[Sequence[Verdict], Leased] = (), NOTHING
        try:
            if request is not None:
                answer = await self._store.settle_and_lease(settlements(ended), request)
            elif ended:
                answer = await self._store.settle(settlements(ended)), NOTHING
            else:
                return answer
        except GONE:
            raise
        except Exception:
            log.exception("worker %s: the store refused a whole batch, it is settled in parts", self._identity.stem)
            answer = await self._settler.settle_apart(self._store, ended), NOTHING
        self._outage.answered("worker")
        return answer

    def _begin(self, leased: Leased, asked_at: float) -> None:
        """Hand what was leased to the keeper and to the slots."""
        if leased.suspect_waiting:
            self._clearing.suspect_waits(asked_at)
        attempts = [Attempt(lease, self._settings[lease.job.task], asked_at) for lease in leased.leases]
        if self.status is not Status.RUNNING:
            self._release(attempts)  # stop() came while the leases were on their way
        elif attempts:
            self._alone = attempts[0].lease.solo
            self._keeper.hold(attempts)
            self._slots.wake()

    async def _rest(self, leased: Leased, room: int) -> float:
        """Seconds until the store is worth asking again although nothing happens."""
        poll = self._poll * random.uniform(0.9, 1.1)  # noqa: S311
        if len(leased.leases) >= room:
            self._bell.disarm()
            return 0.0 if room else poll
        # A ring that the known queues do not explain may come from a new one.
        if not leased.leases and self._bell.rang and await self._queues_changed():
            return 0.0
        if self._app.options.wakeup:
            self._bell.arm()
        return poll if leased.due_in is None else min(poll, max(leased.due_in, 0.001))

    async def _queues_changed(self) -> bool:
        """Look for new queues; whether the list is another now, or may be."""
        if not self._queues.changing:
            return False
        before = self._queues.names
        try:
            await self._queues.refresh()
        except GONE as error:
            await asyncio.sleep(self._outage.gone("worker", error))
            return True
        self._outage.answered("worker")
        return self._queues.names != before

    async def _examine(self) -> float:
        """Tell what is not as it should be with the store; seconds until another look."""
        for fact in await self._store.facts():
            if fact.health is not Health.OK:
                log.warning(
                    "worker %s: the store's %s is %s: %s", self._identity.stem, fact.name, fact.value, fact.advice
                )
        return DAY

    def _entry(self) -> WorkerInfo:
        """An entry for the registry, under a new name every time: who was retired comes back as somebody else."""
        return WorkerInfo(
            id=self._identity.take(),
            host=self._identity.host,
            pid=self._identity.pid,
            queues=self._patterns,
            tasks=self._settings.known,
            concurrency=self.options.concurrency,
        )


NOTHING = Leased([])


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The faster event loop, if it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
