"""The worker: its life from the first beat to the last word, and what it is told on the way."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from enum import StrEnum
from signal import Signals
from time import monotonic, time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tenure.core.checks import Duration, seconds
from tenure.core.identity import Identity
from tenure.core.lease import AbortReason
from tenure.core.options import WorkerOptions
from tenure.core.patterns import checked
from tenure.errors import STORE_OUTAGE, InvalidOption
from tenure.events import WorkerStopping
from tenure.hooks.lifetime import ExitHooks
from tenure.stores.values import WorkerInfo
from tenure.tasks.context import Middleware
from tenure.worker.chores import Chores
from tenure.worker.isolation.lane import Isolation
from tenure.worker.loop import Loop, event_loops
from tenure.worker.memory import occupied
from tenure.worker.pause import Pause
from tenure.worker.recycling import Recycling
from tenure.worker.settings import SettingsOf, shortened
from tenure.worker.signals import Caught
from tenure.worker.stopping import FINISH, Command, Exit, Stop
from tenure.worker.supervision.tether import Tether
from tenure.worker.watchdog import Watchdog

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Status", "Worker"]

LAST_WORD = 2.0
"""Seconds that a worker whose jobs' time is over gives the store to hear of what was released."""

log = logging.getLogger("tenure.worker")


class Status(StrEnum):
    """Where a worker is in its life; it goes through it once."""

    READY = "ready"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Worker:
    """Runs the jobs of an app, until it is stopped."""

    def __init__(self, app: App, options: WorkerOptions, middleware: Sequence[Middleware] = ()) -> None:
        self.status = Status.READY
        self.options = options
        self._app = app
        self._middleware = middleware
        self._settings = SettingsOf(app.tasks, options, app.options)
        self._identity = Identity(options.id)
        self._isolation = Isolation(app, options, self._settings, lambda: (*app.internals.middlewares, *middleware))
        self._recycling = Recycling(options, monotonic(), occupied)
        self._clean_up = seconds(options.term_timeout, "term_timeout")
        self._until_empty = False
        self._recycled = False
        self._beginning = True
        self._opened = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._background: list[asyncio.Task[None]] = []
        self._stops: set[asyncio.Task[None]] = set()
        self._exit_hooks = ExitHooks(app.internals.hooks, self._identity.stem)
        self._resourceful = False
        self.tether: Tether | None = None
        """To the supervisor that has started this process, if one has: set before the worker runs."""

        self.told_early: Sequence[int] = ()
        """Signals that came before it had handlers: set before the worker runs, which sends them again."""

        checked(options.queues)
        beat, silence = seconds(options.beat, "beat"), seconds(app.options.missing_after, "missing_after")
        if silence < 1.5 * beat:
            raise InvalidOption(
                f"a worker that beats every {beat:g} s would be taken for missing after {silence:g} s of silence: "
                f"give it a beat of at most {silence / 1.5:g} s, or the app missing_after={1.5 * beat:g} or more"
            )

    @property
    def id(self) -> str | None:
        """Its name in the registry; None while it is not entered there."""
        return self._loop.keeper.worker_id if self.status in (Status.RUNNING, Status.STOPPING) else None

    @property
    def health_port(self) -> int | None:
        """Where it tells of its health; None while it does not."""
        return self._loop.keeper.health_port if self.status in (Status.RUNNING, Status.STOPPING) else None

    # What it is told.

    async def start(self) -> Callable[..., Coroutine[Any, Any, None]]:
        """Begin to work, in the background; returns `stop`.

        A store that cannot be reached is waited for; one that a newer Tenure has written raises `LayoutTooNew`. A flow whose
        steps do not fit together is an `InvalidOption`.
        """
        if self.status is not Status.READY:
            raise RuntimeError(f"a worker starts once, and this one is {self.status}: make another with app.worker()")
        self._app.internals.import_included()
        self._app.internals.check_flows()
        self._say_what_it_runs()
        self._loop = self._assembled()
        self._pause = Pause(self._loop, self._app.internals.hooks)
        self.status = Status.RUNNING
        self._life = asyncio.create_task(self._live(), name="tenure-worker")
        opened = asyncio.create_task(self._opened.wait())
        try:
            await asyncio.wait([self._life, opened], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._life.cancel()
            raise
        finally:
            opened.cancel()
        if self._life.done():
            self._life.result()
        return self.stop

    async def stop(self, grace: Duration | None = None) -> None:
        """Take no more jobs, finish those in hand, and end; those leased ahead are released, to the front.

        With a grace, what is still running after so many seconds is told to stop (`ctx.signal`, reason `shutdown`; a
        coroutine is cancelled), and released if it has not within `term_timeout`.
        """
        if self.status is Status.READY:
            self.status = Status.STOPPED
        else:
            await self._stop(FINISH if grace is None else Stop(seconds(grace, "grace"), self._clean_up))
            await self._ended()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def run(self, *, until_empty: bool = False) -> Exit:
        """Work until a signal stops it, or until there is nothing left to do now. Blocks; the status to exit with.

        `until_empty`: ends once nothing is waiting or due in its queues, and it runs nothing itself; jobs scheduled for
        later do not hold it. `docs/worker.md` has the table of signals; in another thread than the main one it gets none.
        """
        self._until_empty = until_empty
        self._app.internals.import_included()
        try:
            with Caught() as caught:
                if self._isolation.tasks:
                    self._isolation.fork_template()
                with (
                    Watchdog(caught, self.options, self) as watchdog,
                    asyncio.Runner(loop_factory=event_loops()) as runner,
                ):
                    runner.run(self._run(watchdog))
        finally:
            self._exit_hooks.say_here()
        return Exit.RECYCLED if self._recycled else Exit.STOPPED

    async def pause(self) -> None:
        """Take no new jobs until `resume`, as USR2 asks; those in hand are finished, those leased ahead released."""
        self._must_run()
        await self._pause.begin(paused=True)

    async def resume(self) -> None:
        """Take jobs again, as CONT asks."""
        self._must_run()
        await self._pause.begin(paused=False)

    async def serve(self, queue: str) -> None:
        """Serve this queue, or pattern of queues, too: after the others. `InvalidOption` if a pattern excludes it."""
        self._must_run()
        await self._loop.serve(queue)

    async def leave(self, queue: str, *, finish: bool = False) -> None:
        """Serve this queue, or pattern of queues, no longer; comes back when no job of it is in hand.

        Its running jobs are told to stop, and released if they have not within `term_timeout`; with `finish` they are
        waited for. Those leased ahead are released in any case.
        """
        self._must_run()
        self._loop.leave(queue)
        if not finish:
            self._loop.tell(self._loop.unserved, self._clean_up)
            if not await self._loop.left_within(self._clean_up):
                self._loop.interrupt(self._loop.unserved)
        await self._loop.left_within(None)

    def _must_run(self) -> None:
        if self.status is not Status.RUNNING:
            raise RuntimeError(f"this can be asked of a running worker, and this one is {self.status}")

    # Its life.

    async def _run(self, watchdog: Watchdog) -> None:
        watchdog.begin()
        for early in self.told_early:
            os.kill(os.getpid(), early)
        if self.tether is not None:
            self.tether.watch(self._app.retire, self._trouble)
        await self.start()
        await self._ended()

    async def _live(self) -> None:
        """Begin, work and end; what was begun is ended, whatever goes wrong between."""
        try:
            async with asyncio.TaskGroup() as group:
                self._work = group.create_task(self._begin_and_work(group))
                if self.status is not Status.RUNNING:
                    self._work.cancel()  # it was stopped before it began
                await asyncio.wait([self._work])
                for task in self._background:
                    task.cancel()
        except ExceptionGroup as errors:
            await self._end_jobs()
            raise errors.exceptions[0] from None
        finally:
            self._finish()
            await self._end()

    async def _begin_and_work(self, group: asyncio.TaskGroup) -> None:
        """The beginning, in its order, and then the work."""
        loop, keeper = self._loop, self._loop.keeper
        self._isolation.start()
        await self._app.internals.start_stop.begin()
        self._resourceful = True
        try:
            await loop.store.open()
        except STORE_OUTAGE as error:
            loop.outage.gone("worker", error)
        keeper.start()
        self._background.append(group.create_task(keeper.died()))
        self._opened.set()
        await keeper.beaten()
        chores = Chores(self._app, self.options, loop, self._recycle if self._recycling.looks else None, self._advise)
        await chores.ahead("registry")
        await self._isolation.prepare()
        self._beginning = False
        keeper.register()
        self._background += [group.create_task(loop.outage.repeat(name, do, chore=True)) for name, do in chores.items()]
        await loop.run()

    async def _end_jobs(self) -> None:
        """End the jobs in hand although something else has failed: what can still be settled is settled."""
        self._finish()
        self._loop.tell(self._loop.running, self._clean_up)
        for patience in (self._clean_up, LAST_WORD):
            try:
                async with asyncio.timeout(patience):
                    await self._loop.run()
            except TimeoutError:
                self._loop.interrupt(self._loop.running)
            except Exception:
                log.exception("worker %s: what it holds cannot be settled, it waits for its leases to end", self.id)
                return

    async def _end(self) -> None:
        """The end, in its order; a step that fails does not keep the next from being taken."""
        keeper = self._loop.keeper
        # The keeper after the jobs: one still finishing needs its lease until the moment it settles.
        for step in (
            self._pause.close,
            self._loop.close,
            self._isolation.close,
            keeper.stop,
            self._leave_for_keeper,
            self._close_resources,
            self._loop.store.close,
            self._app.internals.audience.listeners.aflush,
        ):
            try:
                await step()
            except Exception:
                log.exception(
                    "worker %s: something could not be ended, it goes on to end the rest", self._identity.stem
                )
        self.status = Status.STOPPED
        await self._exit_hooks.say()

    async def _close_resources(self) -> None:
        if self._resourceful:
            await self._app.internals.start_stop.end()

    async def _leave_for_keeper(self) -> None:
        """Leave the registry, if the keeper has died and could not."""
        if (deserted := self._loop.keeper.deserted) is not None:
            with contextlib.suppress(TimeoutError, *STORE_OUTAGE):
                async with asyncio.timeout(LAST_WORD):
                    await self._loop.store.leave(deserted)

    def _finish(self) -> None:
        """Take no more jobs; a beginning that is not over is given up."""
        if self.status is Status.RUNNING:
            self.status = Status.STOPPING
            if self.id is not None:
                self._app.internals.audience.happened(WorkerStopping(time(), self.id))
            self._loop.finish()
            if self._beginning and self._work is not None:
                self._work.cancel()

    async def _stop(self, stop: Stop) -> None:
        """Bring the work to its end. Another stop may be under way: the one that ends first decides."""
        self._finish()
        if stop.finish is None or await self._worked_within(stop.finish):
            return
        self._loop.tell(self._loop.running, stop.clean_up)
        if await self._worked_within(stop.clean_up):
            return
        self._loop.interrupt(self._loop.running)
        if not await self._worked_within(LAST_WORD) and self._work is not None:
            self._work.cancel()

    async def _worked_within(self, timeout: float) -> bool:
        """Wait for the end of the work; False if it has not come after so many seconds."""
        if self._work is not None:
            await asyncio.wait([self._work], timeout=timeout)
        return self._work is None or self._work.done()

    async def _ended(self) -> None:
        """Wait for the end of all; raises what has ended it, if that was an error."""
        await asyncio.wait([self._life])
        if not self._life.cancelled():
            self._life.result()

    # Signals, and limits of its own.

    def heed(self, signum: Signals, asked: Stop | Command) -> None:
        """Do what a signal has asked; on the event loop."""
        match asked:
            case Stop():
                log.info("worker %s stops: %s", self.id or self._identity.stem, signum.name)
                self._recycled = False
                stop = asyncio.create_task(self._stop(asked), name="tenure-stop")
                self._stops.add(stop)
                stop.add_done_callback(self._stops.discard)
            case Command.KILL:
                running = self._isolation.running
                log.warning("worker %s kills %d isolated job(s): %s", self.id, len(running), signum.name)
                self._isolation.kill(running)
            case Command.PAUSE:
                log.warning("worker %s takes no new jobs: %s", self.id, signum.name)
                self._pause.begin(paused=True)
            case Command.RESUME:
                if self._loop.paused:
                    log.warning("worker %s takes jobs again: %s", self.id, signum.name)
                self._pause.begin(paused=False)

    @property
    def ended(self) -> bool:
        """Whether it holds nothing any more, and only its process goes on."""
        return self.status is Status.STOPPED

    def tell_all(self) -> None:
        """Tell all running jobs to stop; from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            for attempt in self._loop.running:
                if attempt.signal.abort(AbortReason.SHUTDOWN):
                    self._life.get_loop().call_soon_threadsafe(attempt.interrupt)

    def deafened(self, signums: Sequence[Signals]) -> None:
        """Warn that something has taken these signals from the worker, and that it has them back; on the event loop."""
        jobs = [f"job {attempt.lease.job.id} of task {attempt.lease.job.task}" for attempt in self._loop.running]
        log.warning(
            "worker %s: the handler of %s was replaced by SIG_IGN or SIG_DFL, and is restored. A signal handler belongs to the "
            "whole process: %s must not set one",
            self.id,
            ", ".join(signum.name for signum in signums),
            " or ".join(jobs[:3]) or "a job",
        )

    def abandon(self) -> None:
        """Release what is held, leave the registry, and end the process, whatever the event loop is at; from any thread."""
        if self.ended:
            log.warning("worker %s has ended, and a thread keeps its process: it ends without it", self._identity.stem)
        else:
            log.warning("worker %s ends without its event loop, which does not move: its jobs are released", self.id)
            self._loop.keeper.abandon(self._loop.unsettled())
        self._exit_hooks.say_here()
        self._app.internals.audience.listeners.flush()
        logging.shutdown()
        os._exit(Exit.STOPPED)

    def _recycle(self) -> None:
        """Stop, as QUIT does, if a limit is reached."""
        if self.status is Status.RUNNING and (why := self._recycling.reached(self._loop.ran, monotonic())) is not None:
            log.info("worker %s stops, for another to take its place: %s", self.id, why)
            self._recycled = True
            self._finish()

    # What it says.

    def _say_what_it_runs(self) -> None:
        queues, tasks = shortened(self.options.queues), shortened(self._settings.known)
        if tasks:
            log.info("worker %s: queues %s, tasks %s", self._identity.stem, queues, tasks)
        else:
            self._advise(
                "tasks",
                "no task is known, so no job can run: import the modules that define the tasks, or name them with app.include()",
            )

    def _advise(self, about: str, advice: str) -> None:
        """Warn of what should be mended, in the log of the supervisor if there is one: all its workers would say the same."""
        if self.tether is None:
            log.warning("worker %s: %s", self._identity.stem, advice)
        else:
            self.tether.tell(advice=[about, advice])

    # Its parts.

    def _assembled(self) -> Loop:
        return Loop(
            self._app,
            self.options,
            self._settings,
            self._middleware,
            self._isolation,
            self._recycling,
            stem=self._identity.stem,
            entry=self._entry,
            registered=self._registered,
            on_limit=self._recycle,
            on_empty=self._finish if self._until_empty else None,
        )

    def _entry(self) -> WorkerInfo:
        """An entry for the registry, under a new name every time: who was retired comes back as somebody else."""
        worker_id = self._identity.take()
        if self.tether is not None:
            self.tether.tell(id=worker_id)  # before it can hold anything under that name
        return WorkerInfo(
            id=worker_id,
            host=self._identity.host,
            pid=self._identity.pid,
            queues=self._loop.queues.patterns,
            tasks=self._settings.known,
            concurrency=self.options.concurrency,
            lanes=self._settings.lanes,
            missing_after=seconds(self._app.options.missing_after, "missing_after"),
        )

    def _trouble(self) -> str:
        """What keeps it from leasing jobs; empty if nothing does. From any thread."""
        return self._loop.keeper.trouble() if self._opened.is_set() else "it is starting"

    def _registered(self) -> None:
        if self.tether is not None:
            self.tether.tell(registered=True)
