"""`Running`: the methods of a kit that run jobs, on the thread of the test or with a real worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from tenure.core.job import JobRecord, State, attempts_of
from tenure.core.lease import Lease, Token, new_nonce
from tenure.core.lifecycle import Finish, Park, Requeue
from tenure.errors import InvalidOption
from tenure.hooks.around import Blocking
from tenure.inline import run_with_this_thread
from tenure.sync import refuse_on_loop, run
from tenure.tasks.task import Call
from tenure.testing.clock import ManualClock
from tenure.testing.driver import Driver, Performed, Ran, outcome_of
from tenure.testing.ledger import Ledger
from tenure.worker.threads import Threads

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Running"]

T = TypeVar("T")


class Running:
    """Runs what is due. Part of `Kit`, which sets the attributes."""

    _app: App
    _clock: ManualClock
    _driver: Driver
    _ledger: Ledger

    def run_until_idle(self, *, skip: bool = False, limit: int = 1000, worker: bool = False) -> list[Ran]:
        """Run what is due, one attempt at a time, until nothing is. Returns the attempts, with their outcomes.

        Queues are served in the order of their names, and each in the order of its line. `skip`: then move the clock to what is due next,
        a delayed job, a retry, a lost lease or the timeout of a wait, and go on; ticks of schedules do not count. `limit`: `StillBusy`
        if another attempt is due after this many. `worker`: run what is due with a real worker instead, with its threads and child
        processes.
        """
        if worker:
            refuse_on_loop("run_until_idle")
            return self._by_a_worker(skip=skip)
        return self._here("run_until_idle", lambda threads: self._driver.run(threads, skip=skip, limit=limit))

    async def arun_until_idle(self, *, skip: bool = False, limit: int = 1000, worker: bool = False) -> list[Ran]:
        """The async twin of `run_until_idle`. Coroutines run on this event loop, plain functions in another thread.

        With `worker`, the worker runs in another thread, on another event loop.
        """
        if worker:
            return await asyncio.to_thread(self._by_a_worker, skip=skip)
        return await self._there(lambda threads: self._driver.run(threads, skip=skip, limit=limit))

    def run_one(self, queue: str | None = None) -> Ran | None:
        """Run the next attempt that is due, of this queue or of any; None if none is due."""
        return self._here("run_one", lambda threads: self._driver.run_one(threads, queue))

    async def arun_one(self, queue: str | None = None) -> Ran | None:
        """The async twin of `run_one`."""
        return await self._there(lambda threads: self._driver.run_one(threads, queue))

    def perform(self, call: Call[Any], *, attempt: int = 1) -> Performed:
        """Run one call of a task, `task.bind(…)`, through codec, hooks and middleware, and store nothing. Returns what came of it."""
        return self._here("perform", lambda threads: self._perform(threads, call, attempt))

    async def aperform(self, call: Call[Any], *, attempt: int = 1) -> Performed:
        """The async twin of `perform`."""
        return await self._there(lambda threads: self._perform(threads, call, attempt))

    async def _perform(self, threads: Blocking, call: Call[Any], attempt: int) -> Performed:
        new = call.new_job()
        now = self._clock.wall()
        record = JobRecord(
            id=new.id, task=new.task, queue=new.queue, state=State.RUNNING, payload=new.payload, raw=new.raw,
            priority=new.priority, created_at=now, started_at=now, attempt=attempt, fence=attempt,
            max_attempts=new.max_attempts, max_losses=new.max_losses, lease=new.lease, tags=new.tags,
            unique=new.unique, worker=self._driver.worker, headers=new.headers,
        )  # fmt: skip
        with _job_log() as lines:
            tried, end = await self._driver.perform(threads, Lease(record, Token(attempt, new_nonce()), 60.0))
        transition = end.transition
        children = transition.children if isinstance(transition, Finish) else ()
        result = transition.result if isinstance(transition, Finish) and transition.state is State.SUCCEEDED else None
        return Performed(
            outcome=outcome_of(transition),
            result=None if result is None else call.caller._results.decode(result),
            delay=_delay_of(transition, now),
            error=None if transition is None or isinstance(transition, Park) else transition.error,
            exception=end.error,
            children=tuple(self._ledger.entry_of(child) for child in children),
            progress=None if tried.context is None else tried.context._progress,
            log=tuple(lines),
        )

    def _here(self, method: str, make: Callable[[Blocking], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the private loop; blocking functions run on this thread."""
        refuse_on_loop(method)
        try:
            return run_with_this_thread(make)
        finally:
            self._app.internals.audience.listeners.flush()  # lines of the log belong to the test that caused them

    async def _there(self, make: Callable[[Blocking], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on this loop; blocking functions run in another thread."""
        threads = Threads()
        try:
            return await make(threads)
        finally:
            threads.close()
            await self._app.internals.audience.listeners.aflush()

    def _by_a_worker(self, *, skip: bool) -> list[Ran]:
        """Run what is due with a real worker, and read from the store what it has done."""
        if skip:
            raise InvalidOption("a real worker does not move the clock: give either skip= or worker=")
        run(self._driver.look_after())
        before = {job.id: {each.fence for each in attempts_of(job)} for job in run(self._ledger.records())}
        # Without reaping it fires no schedules either: look_after has done both, as this kit wants it.
        self._app.worker(reap=False).run(until_empty=True)
        ran = [
            Ran(self._app.internals.job_of(job), each.number, each.outcome.value, each.error)
            for job in run(self._ledger.records())
            for each in attempts_of(job)
            if each.outcome is not None and each.fence not in before.get(job.id, ())
        ]
        self._driver.ran += ran
        self._app.internals.audience.listeners.flush()
        return ran


def _delay_of(transition: Any, now: float) -> float | None:
    """Seconds until the next attempt after this transition; None if there is none."""
    if not isinstance(transition, Requeue):
        return None
    return transition.delay if transition.run_at is None else max(transition.run_at - now, 0.0)


@contextmanager
def _job_log() -> Iterator[list[str]]:
    """Collect the messages that jobs write to `ctx.log` inside the block, of every level."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger, handler = logging.getLogger("tenure.job"), Lines()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
