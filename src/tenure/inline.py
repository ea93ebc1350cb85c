"""Running jobs where they are enqueued, for scripts and tests."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from contextvars import copy_context
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from tenure.core.job import ErrorInfo, State
from tenure.core.lease import Lease, new_nonce
from tenure.core.lifecycle import Finish, Requeue, Transition, next_transition
from tenure.core.outcome import Next, Outcome, Reschedule, Unknown
from tenure.core.running import running
from tenure.errors import JobError, UnknownTask
from tenure.hooks.calling import awaiting
from tenure.jobs.enqueue_hooks import come_to_exist
from tenure.jobs.handle import Handle
from tenure.jobs.run import FlowRun
from tenure.jobs.session import Session
from tenure.observe.observed import observed
from tenure.stores.base import BATCH, Store
from tenure.stores.values import LeaseRequest, Search, VerdictKind
from tenure.sync import PerLoop, private_loop, refuse_on_loop, run
from tenure.tasks.context import AbortSignal, Context

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.hooks.around import Blocking
    from tenure.worker.settings import Settings

__all__ = ["Inline"]

WORKER = "inline"


class Inline:
    """`with app.inline():` or `async with app.inline():`, what is enqueued in the block, or started, has run when the call returns.

    The jobs live in a store of their own, in memory, which goes with the block; the app's store is not touched. Their
    life is the usual one, except that no delay and no backoff is waited for. A job that reschedules itself, waits to be
    completed or has no task here stays where it is. A plain `def` runs in the thread that enqueued its job, in blocking code; a
    coroutine's jobs run theirs in another thread, so that they may block.

    With `raises`, the outermost call raises the exception of the first job that failed for good, once all have run. An enqueue
    inside a job does not: that job goes on, as it would in a worker.
    """

    def __init__(self, app: App, *, raises: bool) -> None:
        from tenure.stores.memory import Data, MemoryStore

        data = Data()
        self._raises = raises
        self._failures: list[BaseException] = []
        self.sessions = PerLoop(lambda: Session(observed(MemoryStore(data), app.internals.audience), app.options))
        self._app = app
        self._resting: set[str] = set()

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

    def work_off_here(self, handles: Sequence[Handle]) -> None:
        """The blocking twin of `work_off`: plain functions run on this thread."""
        here = _CallersThread()
        working = asyncio.run_coroutine_threadsafe(self._work_off(handles, here), private_loop())
        working.add_done_callback(lambda _: here.close())
        try:
            here.serve()
        except BaseException:
            working.cancel()
            raise
        working.result()
        self._raise_failure()

    async def work_off(self, handles: Sequence[Handle]) -> None:
        """Run whatever waits, until nothing does, and let these handles know how it ended."""
        from tenure.worker.threads import Threads

        threads = Threads()
        try:
            await self._work_off(handles, threads)
        finally:
            threads.close()
        self._raise_failure()

    def _raise_failure(self) -> None:
        """Raise what the first failed job has failed of, unless this is inside a job."""
        if running.get(None) is None:
            failures, self._failures = self._failures, []
            if self._raises and failures:
                raise failures[0]

    async def _work_off(self, handles: Sequence[Handle], threads: Blocking) -> None:
        from tenure.hooks.around import error_of, has_failed

        store = self.sessions.here().store
        while (lease := await self._next(store)) is not None:
            outcome = await self._outcome(lease, threads)
            if isinstance(outcome, Reschedule | Unknown):
                self._resting.add(lease.job.id)
            settings = self._app.internals.settings(lease.job.task)
            step = next_transition(lease.job, outcome, settings.policy)
            if isinstance(step, Requeue) and step.error is not None and not step.missed:
                step = msgspec.structs.replace(step, delay=0.0)  # it is not waited for, and so not told of in the log
            failure = error_of(outcome) if has_failed(step) else None
            if failure is not None and settings.failing:
                await self._tell(settings, lease, failure, step, threads)
            [verdict] = await store.settle([(lease, step)])
            if verdict.kind is VerdictKind.REFUSED:
                error = ErrorInfo("MissingAttribute" if verdict.other is None else "EnqueueRefused", verdict.reason)
                step = Finish(State.FAILED, error=error)
                failure = JobError(verdict.reason)
                await store.settle([(lease, step)])
                if settings.failing:
                    await self._tell(settings, lease, failure, step, threads)
            elif isinstance(step, Finish) and step.children and self._app.internals.hooks.enqueues:
                await awaiting(come_to_exist(self._app, step.children))
            if failure is not None and isinstance(step, Finish):
                self._failures.append(failure)
        for handle, record in zip(handles, await store.get([handle.id for handle in handles]), strict=True):
            if isinstance(handle, FlowRun):
                if (found := await store.run(handle.id)) is not None:
                    handle._read(found)
            elif record is not None:
                handle._note(record)

    async def _next(self, store: Store) -> Lease | None:
        waiting = (await store.search(Search(state=State.WAITING, limit=BATCH))).jobs
        await store.trigger([job.id for job in waiting if job.run_at is not None and job.id not in self._resting])
        queues = tuple(dict.fromkeys(job.queue for job in waiting))
        request = LeaseRequest(queues=queues, limit=1, worker=WORKER, ttl=60, nonce=new_nonce(), solo=True)
        return next(iter((await store.lease(request)).leases), None)

    async def _tell(
        self, settings: Settings, lease: Lease, error: BaseException, step: Transition, threads: Blocking
    ) -> None:
        from tenure.hooks.around import tell_failure

        assert settings.task is not None
        context = Context(lease, WORKER, AbortSignal())
        await tell_failure(settings.task, settings.failing, context, error, step, threads)

    async def _outcome(self, lease: Lease, threads: Blocking) -> Outcome:
        from tenure.worker.executor import answered, perform

        task = self._app.tasks.get(lease.job.task)
        if task is None:
            unknown = UnknownTask(lease.job.task, self._app.tasks)
            return Unknown(ErrorInfo("UnknownTask", str(unknown)), known_elsewhere=False)
        if lease.job.on_timeout is not None:
            return answered(Next(lease.job.on_timeout), task, lease.job)
        context = Context(lease, WORKER, AbortSignal())
        hooks = self._app.internals.settings(task.name).performing
        outcome = await perform(task, context, self._app.internals.middlewares, threads, hooks)
        if (caller := asyncio.current_task()) is not None and caller.cancelling():
            raise asyncio.CancelledError  # whoever enqueued has been cancelled, not the job
        return outcome


class _CallersThread:
    """Calls functions on the thread that is in `serve`, for a coroutine on the private loop."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a function there, with the context variables that are set here."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
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
            loop.call_soon_threadsafe(ended.set_result, (value, error))

        self._calls.put(there)
        value, error = await ended
        if error is not None:
            raise error
        return value

    def serve(self) -> None:
        """Make the calls that come, until `close`; or until a KeyboardInterrupt, which is the caller's and not the job's."""
        while (call := self._calls.get()) is not None:
            call()

    def close(self) -> None:
        self._calls.put(None)
