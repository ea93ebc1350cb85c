"""What a job sees of its own run: who it is, whether it must stop, and how to tell how far it is."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from tenure.core.after import NewJobs
from tenure.core.job import JobRecord, NewJob, Progress
from tenure.core.lease import AbortReason, Lease, Token
from tenure.core.running import running
from tenure.errors import Aborted, InvalidOption
from tenure.hooks.calling import awaiting, waiting
from tenure.hooks.registry import name_of
from tenure.jobs.enqueue_hooks import allowed, in_job
from tenure.tasks.completion.blocks import Completing, CompletingJoined, Preparing, PreparingJoined
from tenure.tasks.completion.completion import Completion, Transactions

if TYPE_CHECKING:
    from tenure.jobs.handle import Job
    from tenure.jobs.run import FlowRun
    from tenure.tasks.flow import Start
    from tenure.tasks.task import Call, Task

__all__ = ["AbortSignal", "Context", "Middleware", "current"]

R = TypeVar("R")

_waiters_lock = threading.Lock()
"""One for all signals: a lock in each would cost every job, and hardly any job ever waits for its signal."""


class AbortSignal:
    """Tells a running job to stop, and why. May be read, waited for and set from any thread; the first reason stays.

    A function that stops because of it raises (`raise_if_aborted` does): a plain return says that the work is done.
    """

    __slots__ = ("_waiters", "reason")

    def __init__(self) -> None:
        self.reason: AbortReason | None = None
        self._waiters: list[Callable[[], object]] | None = None

    @property
    def aborted(self) -> bool:
        return self.reason is not None

    def raise_if_aborted(self) -> None:
        """Raise `Aborted` if the job must stop."""
        if self.reason is not None:
            raise Aborted(self.reason)

    async def wait(self) -> AbortReason:
        """Wait until the job must stop."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[None] = loop.create_future()
        self.call_when_aborted(lambda: _call_on(loop, _resolve, told))
        await told
        return self._given()

    def wait_blocking(self, timeout: float | None = None) -> AbortReason | None:
        """Wait, in a thread, until the job must stop; None if it need not after `timeout` seconds."""
        told = threading.Event()
        self.call_when_aborted(told.set)
        return self._given() if told.wait(timeout) else None

    def abort(self, reason: AbortReason) -> bool:
        """Tell the job to stop; False if it has been told before."""
        with _waiters_lock:
            if self.reason is not None:
                return False
            self.reason = reason
            waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            waiter()
        return True

    def call_when_aborted(self, waiter: Callable[[], object]) -> None:
        """Call this once the job must stop, on the thread that says so; now, if it must already."""
        with _waiters_lock:
            if self.reason is None:
                if self._waiters is None:
                    self._waiters = []
                self._waiters.append(waiter)
                return
        waiter()

    def _given(self) -> AbortReason:
        assert self.reason is not None
        return self.reason


def _call_on(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: object) -> None:
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        return  # the loop is closed: nobody waits any more


def _resolve(told: asyncio.Future[None]) -> None:
    if not told.done():
        told.set_result(None)


class Context:
    """One attempt, as the function that runs it sees it: injected by annotation, or found with `current()`."""

    __slots__ = ("_completion", "_lease", "_new_jobs", "_said", "_task", "_transactions", "job", "signal", "worker_id")

    def __init__(
        self,
        lease: Lease,
        worker_id: str,
        signal: AbortSignal,
        task: Task[..., Any] | None = None,
        transactions: Transactions | None = None,
    ) -> None:
        self.job: JobRecord = lease.job
        self.worker_id = worker_id
        self.signal = signal
        """Whether, and why, the job must stop."""

        self._lease = lease
        """For the worker."""

        self._completion: Completion | None = None
        """Once the job has asked for a transaction; for the worker."""

        self._task = task
        self._transactions = transactions
        self._said: Progress | None = None
        """What the job said of its progress last, until it is written; for the worker."""

        self._new_jobs: list[NewJob] | None = None

    @property
    def attempt(self) -> int:
        """Which run of this job it is; the first is 1."""
        return self.job.attempt

    @property
    def token(self) -> Token:
        """Proof of the lease: grows with every lease of the job, so that a stale holder can be told from a current one."""
        return self._lease.token

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that puts task, job and attempt before every message."""
        return _JobLog(logging.getLogger("tenure.job"), {"job": self.job})

    @property
    def results(self) -> list[Any]:
        """What the jobs that this one waited for have given, in the order of `after`."""
        return [None if result is None else msgspec.json.decode(result) for result in self.job.results]

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Say how far the job is. Costs nothing: what is said is joined to one write a second, the latest wins."""
        self._said = Progress(done, total, note)

    @overload
    def enqueue(self, *calls: Call[R]) -> list[Job[R]]: ...
    @overload
    def enqueue(self, *calls: Start) -> list[FlowRun]: ...
    @overload
    def enqueue(self, *calls: Call[Any] | Start) -> list[Job[Any] | FlowRun]: ...
    def enqueue(self, *calls: Call[Any] | Start) -> Sequence[Job[Any] | FlowRun]:
        """Enqueue jobs, and start runs, that come to exist if, and in the same step as, this one succeeds.

        Waits for nothing, unless there is an async `before_enqueue` hook: a coroutine then needs `await ctx.aenqueue(…)`.
        """
        coming = NewJobs()
        jobs = [coming.add(call) for call in calls]
        if calls and calls[0].caller.app.internals.hooks.enqueues:
            waiting(allowed(calls[0].caller.app, coming.jobs), in_job)
        self._adopt(coming.jobs)
        return [call.handle(job) for call, job in zip(calls, jobs, strict=True)]

    @overload
    async def aenqueue(self, *calls: Call[R]) -> list[Job[R]]: ...
    @overload
    async def aenqueue(self, *calls: Start) -> list[FlowRun]: ...
    @overload
    async def aenqueue(self, *calls: Call[Any] | Start) -> list[Job[Any] | FlowRun]: ...
    async def aenqueue(self, *calls: Call[Any] | Start) -> Sequence[Job[Any] | FlowRun]:
        """The async twin of `enqueue`, which waits for async hooks."""
        coming = NewJobs()
        jobs = [coming.add(call) for call in calls]
        if calls and calls[0].caller.app.internals.hooks.enqueues:
            await awaiting(allowed(calls[0].caller.app, coming.jobs))
        self._adopt(coming.jobs)
        return [call.handle(job) for call, job in zip(calls, jobs, strict=True)]

    def _adopt(self, jobs: list[NewJob]) -> None:
        if self._new_jobs is None:
            self._new_jobs = []
        self._new_jobs += jobs

    @overload
    def prepare(self) -> Preparing: ...
    @overload
    def prepare(self, *, connection: Any) -> PreparingJoined: ...
    def prepare(self, *, connection: Any = None) -> Preparing | PreparingJoined:
        """Read what the job needs, in a transaction of its own: `async with ctx.prepare() as tx:`, or `with` in a plain `def`.

        `LeaseLost` if the job is no longer held. All reads see one state of the database, and nothing can be written. With
        `connection` that transaction is the caller's.
        """
        if connection is None:
            return Preparing(self._completion_for("prepare"), self)
        return PreparingJoined(self._completion_for("prepare"), self, connection)

    @overload
    def complete(self) -> Completing: ...
    @overload
    def complete(self, *, connection: Any) -> CompletingJoined: ...
    def complete(self, *, connection: Any = None) -> Completing | CompletingJoined:
        """Write, and end the job, in one transaction: `async with ctx.complete() as tx:`, or `with` in a plain `def`.

        Left normally, the writes, `tx.result` and the jobs of `ctx.enqueue` are committed together and the job is final: what the
        function returns or raises later changes nothing. If the block raises, all of it is rolled back and the
        exception decides as usual; the block may be tried again. If the lease was lost, it is rolled back too: `LeaseLost`.

        With `connection` the job is settled in the caller's transaction, which the caller commits before the function returns.
        """
        if connection is None:
            return Completing(self._completion_for("complete"), self)
        return CompletingJoined(self._completion_for("complete"), self, connection)

    def _completion_for(self, method: str) -> Completion:
        if self._completion is None:
            if self._transactions is None or self._task is None or not self._transactions.store.transactional:
                raise InvalidOption(
                    f"ctx.{method}() needs a worker whose jobs are in a SQL database, sqlite:/// or postgresql://: "
                    "this job's store has no transactions"
                )
            self._completion = self._transactions.completion(self, self._task)
        return self._completion

    def _begin_completion(self) -> Completion:
        """The way to an end in a transaction, which goes on elsewhere; for the worker."""
        assert self._transactions is not None
        assert self._task is not None
        if self._completion is None:
            self._completion = self._transactions.completion(self, self._task)
        return self._completion

    @property
    def _children(self) -> tuple[NewJob, ...]:
        """What was enqueued here, to be settled with the success; for the worker."""
        return tuple(self._new_jobs) if self._new_jobs else ()


class _JobLog(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        job: JobRecord = self.extra["job"]  # type: ignore[index,assignment]
        kwargs["extra"] = {"job_id": job.id, "task": job.task, "attempt": job.attempt, **(kwargs.get("extra") or {})}
        return f"{job.task} {job.id} #{job.attempt}: {msg}", kwargs


Middleware = Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Wraps each attempt: gets its context and what to call next, and returns, or changes, what that returns."""


def checked_middleware(layer: Any) -> Any:
    """The same, if it can be one."""
    if not callable(layer):
        raise InvalidOption(f"middleware is an async function of (ctx, call_next), got {layer!r:.80}")
    if inspect.isfunction(layer):
        try:
            inspect.signature(layer).bind("ctx", "call_next")
        except TypeError:
            raise InvalidOption(
                f"middleware is called with (ctx, call_next), and {name_of(layer)}{inspect.signature(layer)} does not take that"
            ) from None
    return layer


def current() -> Context:
    """The context of the job that is running here; `LookupError` outside of one."""
    try:
        return running.get()
    except LookupError:
        raise LookupError("no job is running here: current() works inside a task that a worker runs") from None
