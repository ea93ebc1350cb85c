"""Inline: runs jobs where they are enqueued, for scripts and tests; run_with_this_thread: on the caller's thread."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from tenure.core.job import ErrorInfo, State
from tenure.core.lease import Lease, new_nonce
from tenure.core.lifecycle import Finish, Requeue, Transition, next_transition
from tenure.core.outcome import Next, Outcome, Reschedule, Unknown
from tenure.core.running import running
from tenure.errors import JobError, UnknownTask
from tenure.hooks.around import Blocking, call_failure_hooks, error_of, has_failed
from tenure.hooks.calling import acall_hooks
from tenure.jobs.enqueue_hooks import after_enqueue_of_children
from tenure.jobs.handle import Handle
from tenure.jobs.run import FlowRun
from tenure.jobs.session import Session
from tenure.observe.observed import observed
from tenure.stores.base import BATCH, Store
from tenure.stores.values import AttributeMissing, LeaseRequest, Search, VerdictKind
from tenure.sync import PerLoop, private_loop, refuse_on_loop, run
from tenure.tasks.context import AbortSignal, Context

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.worker.settings import Settings

__all__ = ["Inline", "run_with_this_thread"]

WORKER = "inline"

T = TypeVar("T")


class Inline:
    """A block, `with app.inline():` or `async with app.inline():`, in which an enqueue or a start returns after the jobs have run.

    The jobs are in a separate store in memory, which is discarded at the end of the block; the app's store is not touched. They are
    handled as by a worker, except that delays and backoffs are skipped. A job that reschedules itself, waits to be completed or has no
    task here stays as it is. If blocking code enqueues, a plain `def` runs in the same thread. If a coroutine enqueues, it runs in
    another thread, so that it may block.

    With `raises`, the outermost call raises the exception of the first job that failed for good, after all jobs have run. An enqueue
    inside a job does not raise: that job goes on, as it would in a worker.
    """

    def __init__(self, app: App, *, raises: bool) -> None:
        from tenure.stores.memory import Data, MemoryStore

        data = Data()
        self._raises = raises
        self._failures: list[BaseException] = []
        self.sessions = PerLoop(lambda: Session(observed(MemoryStore(data), app.internals.audience), app.options))
        self._app = app
        self._postponed: set[str] = set()

    def __enter__(self) -> Self:
        refuse_on_loop("with app.inline", "use async with")
        self._app.internals.inlines.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run(self.__aexit__(kind, error, trace))

    async def __aenter__(self) -> Self:
        self._app.internals.inlines.append(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._app.internals.inlines.remove(self)
        await self.sessions.close()
        await self._app.internals.audience.listeners.aflush()  # lines of the log belong to the test that caused them

    def run_pending_here(self, handles: Sequence[Handle]) -> None:
        """The blocking twin of `run_pending`: plain functions run on this thread."""
        run_with_this_thread(lambda here: self._run_pending(handles, here))
        self._raise_failure()

    async def run_pending(self, handles: Sequence[Handle]) -> None:
        """Run all waiting jobs until none is left, and update these handles."""
        from tenure.worker.threads import Threads

        threads = Threads()
        try:
            await self._run_pending(handles, threads)
        finally:
            threads.close()
        self._raise_failure()

    def _raise_failure(self) -> None:
        """Raise the exception of the first job that failed, unless this call is inside a job."""
        if running.get(None) is None:
            failures, self._failures = self._failures, []
            if self._raises and failures:
                raise failures[0]

    async def _run_pending(self, handles: Sequence[Handle], threads: Blocking) -> None:
        store = self.sessions.here().store
        while (lease := await self._next(store)) is not None:
            outcome = await self._outcome(lease, threads)
            if isinstance(outcome, Reschedule | Unknown):
                self._postponed.add(lease.job.id)
            settings = self._app.internals.settings(lease.job.task)
            transition = next_transition(lease.job, outcome, settings.policy)
            if isinstance(transition, Requeue) and transition.error is not None and not transition.missed:
                # The delay is not waited for, so the log must not mention one.
                transition = msgspec.structs.replace(transition, delay=0.0)
            failure = error_of(outcome) if has_failed(transition) else None
            if failure is not None and settings.failing:
                await self._call_failure_hooks(settings, lease, failure, transition, threads)
            [verdict] = await store.settle([(lease, transition)])
            if verdict.kind is VerdictKind.REFUSED:
                error = ErrorInfo(
                    "MissingAttribute" if isinstance(verdict.refusal, AttributeMissing) else "EnqueueRefused",
                    verdict.reason,
                )
                transition = Finish(State.FAILED, error=error)
                failure = JobError(verdict.reason)
                await store.settle([(lease, transition)])
                if settings.failing:
                    await self._call_failure_hooks(settings, lease, failure, transition, threads)
            elif isinstance(transition, Finish) and transition.children and self._app.internals.hooks.enqueues:
                await acall_hooks(after_enqueue_of_children(self._app, transition.children))
            if failure is not None and isinstance(transition, Finish):
                self._failures.append(failure)
        for handle, record in zip(handles, await store.get([handle.id for handle in handles]), strict=True):
            if isinstance(handle, FlowRun):
                if (found := await store.run(handle.id)) is not None:
                    handle._update_run(found)
            elif record is not None:
                handle._update(record)

    async def _next(self, store: Store) -> Lease | None:
        waiting = (await store.search(Search(state=State.WAITING, limit=BATCH))).jobs
        await store.trigger([job.id for job in waiting if job.run_at is not None and job.id not in self._postponed])
        queues = tuple(dict.fromkeys(job.queue for job in waiting))
        request = LeaseRequest(queues=queues, limit=1, worker=WORKER, ttl=60, nonce=new_nonce(), solo=True)
        return next(iter((await store.lease(request)).leases), None)

    async def _call_failure_hooks(
        self, settings: Settings, lease: Lease, error: BaseException, transition: Transition, threads: Blocking
    ) -> None:

        assert settings.task is not None
        context = Context(lease, WORKER, AbortSignal())
        await call_failure_hooks(settings.task, settings.failing, context, error, transition, threads)

    async def _outcome(self, lease: Lease, threads: Blocking) -> Outcome:
        from tenure.worker.executor import outcome_of_answer, perform

        task = self._app.tasks.get(lease.job.task)
        if task is None:
            unknown = UnknownTask(lease.job.task, self._app.tasks)
            return Unknown(ErrorInfo("UnknownTask", str(unknown)), known_elsewhere=False)
        if lease.job.on_timeout is not None:
            return outcome_of_answer(Next(lease.job.on_timeout), task, lease.job)
        context = Context(lease, WORKER, AbortSignal())
        hooks = self._app.internals.settings(task.name).performing
        outcome = await perform(task, context, self._app.internals.middlewares, threads, hooks)
        if (caller := asyncio.current_task()) is not None and caller.cancelling():
            raise asyncio.CancelledError  # the coroutine that enqueued was cancelled, not the job
        return outcome


class _CallersThread:
    """Calls functions on the thread that runs `serve`, for a coroutine on the private event loop."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a function on that thread, with the context variables of this coroutine."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        call = functools.partial(copy_context().run, function, *args, **kwargs)

        def there() -> None:
            value: Any = None
            error: BaseException | None = None
            try:
                value = call()
            except KeyboardInterrupt:
                raise
            except BaseException as raised:  # noqa: BLE001 - the outcome of the job
                error = raised
            loop.call_soon_threadsafe(_resolve, done, (value, error))

        self._calls.put(there)
        value, error = await done
        if error is not None:
            raise error
        return value

    def serve(self) -> None:
        """Make the calls until `close`, or until a KeyboardInterrupt, which is meant for the caller and not for the job."""
        while (call := self._calls.get()) is not None:
            call()

    def close(self) -> None:
        self._calls.put(None)


def _resolve(done: asyncio.Future[T], value: T) -> None:
    if not done.done():  # it is cancelled if the function has outlasted its timeout
        done.set_result(value)


def run_with_this_thread(make: Callable[[Blocking], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on the private event loop and wait for it; it can call blocking functions on this thread.

    `make` gets what calls them, and returns the coroutine.
    """
    here = _CallersThread()
    working = asyncio.run_coroutine_threadsafe(make(here), private_loop())
    working.add_done_callback(lambda _: here.close())
    try:
        here.serve()
    except BaseException:
        working.cancel()
        raise
    return working.result()
