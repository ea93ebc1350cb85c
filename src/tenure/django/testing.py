"""For tests of Django projects: `run_tasks` runs what was enqueued, `forget_tasks` empties the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from asgiref.sync import AsyncToSync, async_to_sync, sync_to_async

from tenure.core.job import JobRecord
from tenure.core.lease import new_nonce
from tenure.core.lifecycle import RELEASE
from tenure.core.options import WorkerOptions
from tenure.django.backend import TenureBackend
from tenure.django.framework import TaskResult, task_backends
from tenure.django.registry import registry
from tenure.django.results import result_of
from tenure.errors import InvalidOption
from tenure.hooks.around import Blocking
from tenure.stores.values import LeaseRequest
from tenure.sync import private_loop, refuse_on_loop
from tenure.testing.driver import Lane, StillSettings

__all__ = ["forget_tasks", "run_tasks"]

WORKER = "run-tasks"

T = TypeVar("T")


def run_tasks(alias: str = "default", *, limit: int = 1_000) -> list[TaskResult[Any]]:
    """Run the tasks that are due, and those that they enqueue, until none is left. Returns their results, in the order they ended.

    Plain functions, and Django's async methods, run on this thread, so they see the transaction of the test. A task that fails
    is retried at once only if its delay is over. Tasks whose transaction has not committed are not there: in a `TestCase` that is all of them, unless
    the database is in memory. `InvalidOption` in that case, and after `limit` attempts.
    """
    refuse_on_loop("run_tasks", "await sync_to_async(run_tasks)()")
    registry.discover()
    backend = _backend(alias)
    app = backend.app
    if backend.on_commit == "join" and not app.internals.in_memory and backend._in_transaction:
        raise InvalidOption(
            "run_tasks() runs what has been committed, and this test is in a transaction: use TransactionTestCase, or a test "
            "database in memory"
        )

    async def run(threads: Blocking) -> list[JobRecord]:
        store = app.internals.session.store
        settings = StillSettings(app.tasks, WorkerOptions(), app.options)
        lane, ended = Lane(app, store, settings, threads), list[JobRecord]()
        for _ in range(limit + 1):
            queues = tuple(queue.name for queue in await store.queues())
            request = LeaseRequest(queues=queues, limit=1, worker=WORKER, ttl=600, nonce=new_nonce(), solo=True)
            leases = (await store.lease(request)).leases if queues else ()
            if not leases:
                return ended
            [lease] = leases
            if len(ended) >= limit:
                await store.settle([(lease, RELEASE)])
                break
            attempt = lane.attempt(lease)
            end = await lane.run(attempt)
            if end.transition is not None and not end.settled:
                await store.settle([(lease, end.transition)])
            [job] = await store.get([lease.job.id])
            if job is not None:
                ended.append(job)
        raise InvalidOption(f"still busy after {limit:,} attempts: find out why tasks go on, or give a higher limit=")

    try:
        jobs = _run_with_this_thread(run)
    finally:
        app.internals.audience.listeners.flush()  # lines of the log belong to the test that caused them
    known = [(task, job) for job in jobs if (task := registry.task(job.task)) is not None]
    return [result_of(task, job, alias) for task, job in known]


def forget_tasks(alias: str = "default") -> None:
    """Delete all jobs, so that a test begins with none: call it in `setUp` of a `TransactionTestCase`."""
    app = _backend(alias).app
    if app.internals.in_memory:
        app.reset()
        return
    while jobs := app.jobs(limit=1_000):
        app.delete(*jobs, cascade=True)


def _backend(alias: str) -> TenureBackend:
    backend = task_backends[alias]
    if not isinstance(backend, TenureBackend):
        raise InvalidOption(f"TASKS[{alias!r}] is no TenureBackend, but {type(backend).__name__}")
    backend.check_access()
    return backend


def _run_with_this_thread(make: Callable[[Blocking], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on the private event loop; what blocks is called on this thread.

    `async_to_sync` serves the calls here, because Django's async methods look for the thread that is in it. In an async test
    they would otherwise wait for this very thread, for ever, and elsewhere use another connection than the test.
    """
    here = _AsgirefThread()

    async def run(executor: Any) -> T:
        AsyncToSync.executors.current = executor  # asgiref does not hand it on to a thread that it has not started
        return await make(here)

    async def wait() -> T:
        here.working = asyncio.run_coroutine_threadsafe(run(AsyncToSync.executors.current), private_loop())
        return await asyncio.wrap_future(here.working)

    try:
        value: T = async_to_sync(wait)()
    except BaseException:
        here.cancel()
        if here.interrupt is not None:
            raise here.interrupt from None
        raise
    return value


class _AsgirefThread:
    """Calls blocking functions on the thread that is in `async_to_sync`."""

    def __init__(self) -> None:
        self.working: Future[Any] | None = None
        self.interrupt: KeyboardInterrupt | None = None

    async def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a function there. A KeyboardInterrupt is meant for the caller of `run_tasks`, and ends it."""
        value, error = await sync_to_async(self._call)(function, args, kwargs)
        if error is not None:
            raise error
        return value

    def cancel(self) -> None:
        if self.working is not None:
            self.working.cancel()

    def _call(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[Any, BaseException | None]:
        """Return what is raised, because asgiref changes the traceback of what it raises."""
        try:
            return function(*args, **kwargs), None
        except KeyboardInterrupt as interrupt:
            self.interrupt = interrupt
            self.cancel()
            return None, asyncio.CancelledError()
        except BaseException as error:  # noqa: BLE001 - the outcome of the job
            return None, error
