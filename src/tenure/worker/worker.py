"""`Worker`: starts, runs and stops everything that runs an app's jobs."""

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
from tenure.core.loops import call_soon
from tenure.core.options import WorkerOptions
from tenure.core.patterns import checked
from tenure.errors import STORE_OUTAGE, InvalidOption
from tenure.events import WorkerStopping
from tenure.hooks.lifetime import ExitHooks
from tenure.stores.values import Order, WorkerInfo
from tenure.sync import loop_factory
from tenure.tasks.context import Middleware
from tenure.worker.chores import Chores
from tenure.worker.isolation.runner import ProcessRunner
from tenure.worker.loop import Loop
from tenure.worker.memory import occupied
from tenure.worker.pause import Pause
from tenure.worker.recycling import Recycling
from tenure.worker.settings import SettingsByTask, shortened
from tenure.worker.signals import SignalCatcher
from tenure.worker.sources import Source
from tenure.worker.stopping import FINISH, ExitStatus, Stop, WorkerCommand
from tenure.worker.supervision.tether import Tether
from tenure.worker.vitals import VitalSigns
from tenure.worker.watchdog import Watchdog

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Status", "Worker"]

SETTLE_TIMEOUT = 2.0
"""Seconds that a worker whose jobs' time is over has to settle what it released."""

log = logging.getLogger("tenure.worker")


class Status(StrEnum):
    """State of a worker. It passes through these states once, in this order."""

    READY = "ready"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Worker:
    """Runs the jobs of an app until it is stopped."""

    def __init__(
        self,
        app: App,
        options: WorkerOptions,
        middleware: Sequence[Middleware] = (),
        sources: Sequence[Source] = (),
    ) -> None:
        self.status = Status.READY
        self.options = options
        self._app = app
        self._middleware = middleware
        self._sources = sources
        self._settings = SettingsByTask(app.tasks, options, app.options)
        self._identity = Identity(options.id)
        self._process_runner = ProcessRunner(
            app, options, self._settings, lambda: (*app.internals.middlewares, *middleware)
        )
        self._recycling = Recycling(options, monotonic(), occupied)
        self._clean_up = seconds(options.term_timeout, "term_timeout")
        self._until_empty = False
        self._recycled = False
        self._starting = True
        self._opened = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._background: list[asyncio.Task[None]] = []
        self._stops: set[asyncio.Task[None]] = set()
        self._exit_hooks = ExitHooks(app.internals.hooks, self._identity.stem)
        self._resources_started = False
        self.tether: Tether | None = None
        """Connection to the supervisor that started this process; None without one. Set before the worker runs."""

        self.early_signals: Sequence[int] = ()
        """Signals that arrived before the worker had handlers. Set before it runs; it sends them to itself again."""

        checked(options.queues)
        beat, silence = seconds(options.beat, "beat"), seconds(app.options.missing_after, "missing_after")
        if silence < 1.5 * beat:
            raise InvalidOption(
                f"a worker that beats every {beat:g} s would count as missing after {silence:g} s of silence: "
                f"give it a beat of at most {silence / 1.5:g} s, or the app missing_after={1.5 * beat:g} or more"
            )

    @property
    def id(self) -> str | None:
        """The worker's id in the registry; None while it is not registered."""
        return self._loop.keeper.worker_id if self.status in (Status.RUNNING, Status.STOPPING) else None

    @property
    def health_port(self) -> int | None:
        """Port of the health server; None while it has none."""
        return self._loop.keeper.health_port if self.status in (Status.RUNNING, Status.STOPPING) else None

    # Public methods.

    async def start(self) -> Callable[..., Coroutine[Any, Any, None]]:
        """Start to work in the background; returns `stop`.

        Waits for a store that cannot be reached; raises `LayoutTooNew` if a newer Tenure has written it. Raises
        `InvalidOption` for a flow whose steps do not fit together.
        """
        if self.status is not Status.READY:
            raise RuntimeError(
                f"a worker can be started once, and this one is {self.status}: create another with app.worker()"
            )
        self._app.internals.import_included()
        self._app.internals.check_code()
        self._log_queues_and_tasks()
        self._loop = self._build_loop()
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
        """Take no more jobs, finish the running ones, and stop. Jobs leased ahead are released, to the front.

        With `grace`, jobs that still run after this time are aborted (`ctx.signal` with reason `shutdown`; a coroutine
        is cancelled). Those that have not stopped within `term_timeout` are released.
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

    def run(self, *, until_empty: bool = False) -> ExitStatus:
        """Work until a signal stops it, or until there is nothing left to do. Blocks; returns the exit status.

        `until_empty`: stop once no job is waiting or due in its queues and it runs none itself. Jobs scheduled for
        later do not count. `docs/worker.md` has the table of signals; on a thread other than the main one it receives
        none.
        """
        self._until_empty = until_empty
        self._app.internals.import_included()
        try:
            with SignalCatcher() as signals:
                if self._process_runner.tasks:
                    self._process_runner.fork_template()
                with (
                    Watchdog(signals, self.options, self) as watchdog,
                    asyncio.Runner(loop_factory=loop_factory()) as runner,
                ):
                    runner.run(self._run(watchdog))
        finally:
            self._exit_hooks.call_blocking()
        return ExitStatus.RECYCLED if self._recycled else ExitStatus.STOPPED

    async def pause(self) -> None:
        """Take no new jobs until `resume`, as on USR2. Running jobs are finished, those leased ahead released."""
        self._must_run()
        await self._pause.begin(paused=True)

    async def resume(self) -> None:
        """Take jobs again, as on CONT."""
        self._must_run()
        await self._pause.begin(paused=False)

    async def serve(self, queue: str) -> None:
        """Serve this queue, or pattern of queues, too, after the others.

        Raises `InvalidOption` if a pattern excludes it.
        """
        self._must_run()
        await self._loop.serve(queue)

    async def leave(self, queue: str, *, finish: bool = False) -> None:
        """Stop serving this queue, or pattern of queues; returns when no job of it is held.

        Its running jobs are aborted, and released if they have not stopped within `term_timeout`. With `finish`, they
        may finish. Jobs leased ahead are released in any case.
        """
        self._must_run()
        self._loop.leave(queue)
        if not finish:
            self._loop.stop_jobs(self._loop.unserved, self._clean_up)
            if not await self._loop.left_within(self._clean_up):
                self._loop.interrupt(self._loop.unserved)
        await self._loop.left_within(None)

    def _must_run(self) -> None:
        if self.status is not Status.RUNNING:
            raise RuntimeError(f"this needs a running worker, and this one is {self.status}")

    # Start, work, stop.

    async def _run(self, watchdog: Watchdog) -> None:
        watchdog.begin()
        for early in self.early_signals:
            os.kill(os.getpid(), early)
        if self.tether is not None:
            self.tether.watch(self._app.retire, self._trouble, self._vital_signs)
        await self.start()
        await self._ended()

    async def _live(self) -> None:
        """Start, work and stop. Everything that was started is stopped, whatever goes wrong in between."""
        try:
            async with asyncio.TaskGroup() as group:
                self._work = group.create_task(self._begin_and_work(group))
                if self.status is not Status.RUNNING:
                    self._work.cancel()  # it was stopped before it started
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
        """Start all parts in order, then work."""
        loop, keeper = self._loop, self._loop.keeper
        self._process_runner.start()
        await self._app.internals.start_stop.begin()
        self._resources_started = True
        try:
            await loop.store.open()
        except STORE_OUTAGE as error:
            loop.outage.failed("worker", error)
        keeper.start()
        self._background.append(group.create_task(keeper.died()))
        self._opened.set()
        await keeper.first_beat()
        chores = Chores(
            self._app, self.options, loop, self._recycle if self._recycling.needs_polling else None, self._advise
        )
        await chores.run_early("registry")
        await chores.run_early("schedules")  # what the code declares is stored before the first lease
        await self._process_runner.prepare()
        self._starting = False
        keeper.register()
        self._background += [group.create_task(loop.outage.repeat(name, do, chore=True)) for name, do in chores.items()]
        await loop.run()

    async def _end_jobs(self) -> None:
        """Stop the running jobs after a failure, and settle as many as possible."""
        self._finish()
        self._loop.stop_jobs(self._loop.running, self._clean_up)
        for patience in (self._clean_up, SETTLE_TIMEOUT):
            try:
                async with asyncio.timeout(patience):
                    await self._loop.run()
            except TimeoutError:
                self._loop.interrupt(self._loop.running)
            except Exception:
                log.exception(
                    "worker %s: cannot settle the jobs that it holds: they come back when their leases end", self.id
                )
                return

    async def _end(self) -> None:
        """Stop all parts in order. If one fails, the next is stopped all the same."""
        keeper = self._loop.keeper
        # The keeper after the jobs: a job that is still finishing needs its lease until the moment it settles.
        for close in (
            self._pause.close,
            self._loop.close,
            self._process_runner.close,
            self._loop.sources.close,
            keeper.stop,
            self._leave_for_keeper,
            self._close_resources,
            self._loop.store.close,
            self._app.internals.audience.listeners.aflush,
        ):
            try:
                await close()
            except Exception:
                log.exception("worker %s: a shutdown step failed; continuing with the next", self._identity.stem)
        self.status = Status.STOPPED
        await self._exit_hooks.call()

    async def _close_resources(self) -> None:
        if self._resources_started:
            await self._app.internals.start_stop.end()

    async def _leave_for_keeper(self) -> None:
        """Leave the registry if the keeper died and could not do so."""
        if (deserted := self._loop.keeper.left_behind) is not None:
            with contextlib.suppress(TimeoutError, *STORE_OUTAGE):
                async with asyncio.timeout(SETTLE_TIMEOUT):
                    await self._loop.store.leave(deserted)

    def _finish(self) -> None:
        """Take no more jobs. A start that is under way is cancelled."""
        if self.status is Status.RUNNING:
            self.status = Status.STOPPING
            if self.id is not None:
                self._app.internals.audience.emit_if_wanted(WorkerStopping(time(), self.id))
            self._loop.finish()
            if self._starting and self._work is not None:
                self._work.cancel()

    async def _stop(self, stop: Stop) -> None:
        """Stop the work. If several stops are under way, the one that ends first decides."""
        self._finish()
        if stop.finish is None or await self._worked_within(stop.finish):
            return
        self._loop.stop_jobs(self._loop.running, stop.clean_up)
        if await self._worked_within(stop.clean_up):
            return
        self._loop.interrupt(self._loop.running)
        if not await self._worked_within(SETTLE_TIMEOUT) and self._work is not None:
            self._work.cancel()

    async def _worked_within(self, timeout: float) -> bool:
        """Wait until the work has ended; False if it has not after `timeout` seconds."""
        if self._work is not None:
            await asyncio.wait([self._work], timeout=timeout)
        return self._work is None or self._work.done()

    async def _ended(self) -> None:
        """Wait until the worker has stopped; raises the error that stopped it, if any."""
        await asyncio.wait([self._life])
        if not self._life.cancelled():
            self._life.result()

    # Signals and limits.

    def handle_signal(self, signum: Signals, action: Stop | WorkerCommand) -> None:
        """Act on a signal; called on the event loop."""
        match action:
            case Stop():
                log.info("worker %s stops: %s", self.id or self._identity.stem, signum.name)
                self._recycled = False
                stop = asyncio.create_task(self._stop(action), name="tenure-stop")
                self._stops.add(stop)
                stop.add_done_callback(self._stops.discard)
            case WorkerCommand.KILL:
                running = self._process_runner.running
                log.warning("worker %s kills %d isolated job(s): %s", self.id, len(running), signum.name)
                self._process_runner.kill(running)
            case WorkerCommand.PAUSE:
                log.warning("worker %s takes no new jobs: %s", self.id, signum.name)
                self._pause.begin(paused=True)
            case WorkerCommand.RESUME:
                if self._loop.paused:
                    log.warning("worker %s takes jobs again: %s", self.id, signum.name)
                self._pause.begin(paused=False)

    def _obey(self, order: Order) -> None:
        """Act on an order of an operator, as on the signal that means the same; called on the event loop."""
        if self.status is not Status.RUNNING:
            return
        match order:
            case Order.QUIET:
                log.warning("worker %s takes no new jobs: an operator's order", self.id)
                self._pause.begin(paused=True)
            case Order.GO_ON:
                log.warning("worker %s takes jobs again: an operator's order", self.id)
                self._pause.begin(paused=False)
            case Order.STOP:
                log.info("worker %s stops: an operator's order", self.id)
                self._recycled = False
                self._finish()

    @property
    def ended(self) -> bool:
        """Whether it has stopped, and only its process is left."""
        return self.status is Status.STOPPED

    def stop_all_jobs(self) -> None:
        """Abort all running jobs; from any thread."""
        for attempt in self._loop.running:
            if attempt.signal.abort(AbortReason.SHUTDOWN):
                call_soon(self._life.get_loop(), attempt.interrupt)

    def handlers_restored(self, signums: Sequence[Signals]) -> None:
        """Warn that these signal handlers were replaced and have been reinstalled; called on the event loop."""
        jobs = [f"job {attempt.lease.job.id} of task {attempt.lease.job.task}" for attempt in self._loop.running]
        log.warning(
            "worker %s: the handler of %s was replaced by SIG_IGN or SIG_DFL, and is restored. A signal handler belongs to the "
            "whole process: %s must not set one",
            self.id,
            ", ".join(signum.name for signum in signums),
            " or ".join(jobs[:3]) or "a job",
        )

    def abandon(self) -> None:
        """Release all jobs, leave the registry, and end the process, although the event loop is blocked; from any
        thread.
        """
        if self.ended:
            log.warning(
                "worker %s has stopped, but a thread keeps its process alive: exiting without it", self._identity.stem
            )
        else:
            log.warning("worker %s: the event loop is blocked: releasing the jobs and exiting without it", self.id)
            self._loop.keeper.abandon(self._loop.unsettled())
        self._exit_hooks.call_blocking()
        self._app.internals.audience.listeners.flush()
        logging.shutdown()
        os._exit(ExitStatus.STOPPED)

    def _recycle(self) -> None:
        """Stop, as on QUIT, if a limit is reached."""
        if (
            self.status is Status.RUNNING
            and (why := self._recycling.limit_reached(self._loop.ran, monotonic())) is not None
        ):
            log.info("worker %s stops, to be replaced: %s", self.id, why)
            self._recycled = True
            self._finish()

    # Log lines at the start.

    def _log_queues_and_tasks(self) -> None:
        queues, tasks = shortened(self.options.queues), shortened(self._settings.known)
        if tasks:
            log.info("worker %s: queues %s, tasks %s", self._identity.stem, queues, tasks)
        else:
            self._advise(
                "tasks",
                "no task is registered, so no job can run: import the modules that define the tasks, or name them with app.include()",
            )

    def _advise(self, about: str, advice: str) -> None:
        """Warn of a problem that the operator should fix.

        Under a supervisor, the supervisor logs it, because all its workers would log the same.
        """
        if self.tether is None:
            log.warning("worker %s: %s", self._identity.stem, advice)
        else:
            self.tether.send(advice=[about, advice])

    # Building its parts.

    def _build_loop(self) -> Loop:
        return Loop(
            self._app,
            self.options,
            self._settings,
            self._middleware,
            self._process_runner,
            self._recycling,
            stem=self._identity.stem,
            entry=self._entry,
            registered=self._registered,
            ordered=self._obey,
            on_limit=self._recycle,
            on_empty=self._finish if self._until_empty else None,
            sources=self._sources,
        )

    def _entry(self) -> WorkerInfo:
        """A registry entry with a new id: a worker that was retired registers again under another one."""
        worker_id = self._identity.take()
        if self.tether is not None:
            self.tether.send(id=worker_id)  # before it can hold a lease under this id
        return WorkerInfo(
            id=worker_id,
            host=self._identity.host,
            pid=self._identity.pid,
            queues=self._loop.queues.patterns,
            tasks=self._settings.registered,
            concurrency=self.options.concurrency,
            lanes=self._settings.lanes,
            missing_after=seconds(self._app.options.missing_after, "missing_after"),
            release=self._app.options.release,
        )

    def _trouble(self) -> str:
        """What keeps it from leasing jobs, as a phrase; empty if it can. May be called from any thread."""
        return self._loop.keeper.trouble() if self._opened.is_set() else "it is starting"

    def _vital_signs(self) -> VitalSigns | None:
        """What its supervisor shows as metrics; None while it is starting."""
        return self._loop.keeper.vital_signs() if self._opened.is_set() else None

    def _registered(self) -> None:
        if self.tether is not None:
            self.tether.send(registered=True)
