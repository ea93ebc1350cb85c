"""`Context`: what a running job sees of its attempt, with its abort signal, its progress and its transactions."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from tenure.core.job import JobRecord, NewJob, Progress
from tenure.core.lease import AbortReason, Lease, Token
from tenure.core.running import running
from tenure.errors import Aborted, InvalidOption
from tenure.hooks.calling import acall_hooks, call_hooks
from tenure.hooks.registry import name_of
from tenure.jobs.enqueue import prepare_calls
from tenure.jobs.enqueue_hooks import before_enqueue, wait_in_job
from tenure.tasks.completion.blocks import Completing, CompletingJoined, Preparing, PreparingJoined
from tenure.tasks.completion.completion import Completion, Transactions

if TYPE_CHECKING:
    from tenure.jobs.handle import Job
    from tenure.jobs.run import FlowRun
    from tenure.tasks.flow import Start
    from tenure.tasks.task import Call, Task
    from tenure.worker.output import LogTail

__all__ = ["AbortSignal", "Context", "Middleware", "current"]

R = TypeVar("R")

_waiters_lock = threading.Lock()
"""One lock for all signals: a lock in each would cost every job, and hardly any job ever waits for its signal."""


class AbortSignal:
    """Says that a running job must stop, and why. The first reason stays.

    It may be read, waited for and set from any thread. A function that stops because of it must raise, as
    `raise_if_aborted` does: a plain return would mean that the work is done.
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
        """Wait until the job must stop. Returns the reason."""
        loop = asyncio.get_running_loop()
        aborted: asyncio.Future[None] = loop.create_future()
        self.call_when_aborted(lambda: _call_on(loop, _resolve, aborted))
        await aborted
        return self._require_reason()

    def wait_blocking(self, timeout: float | None = None) -> AbortReason | None:
        """Wait, in a thread, until the job must stop. Returns the reason; None after `timeout` seconds."""
        aborted = threading.Event()
        self.call_when_aborted(aborted.set)
        return self._require_reason() if aborted.wait(timeout) else None

    def abort(self, reason: AbortReason) -> bool:
        """Set the reason. False if there is one already."""
        with _waiters_lock:
            if self.reason is not None:
                return False
            self.reason = reason
            waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            waiter()
        return True

    def call_when_aborted(self, waiter: Callable[[], object]) -> None:
        """Call `waiter` once the job must stop, on the thread that aborts it; at once if it must stop already."""
        with _waiters_lock:
            if self.reason is None:
                if self._waiters is None:
                    self._waiters = []
                self._waiters.append(waiter)
                return
        waiter()

    def _require_reason(self) -> AbortReason:
        assert self.reason is not None
        return self.reason


def _call_on(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: object) -> None:
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        return  # the loop is closed, so nothing waits


def _resolve(aborted: asyncio.Future[None]) -> None:
    if not aborted.done():
        aborted.set_result(None)


class Context:
    """One attempt of a job, as its function sees it.

    A parameter that is annotated with `Context` gets it; `tenure.current()` finds it anywhere in the call.

    ```python
    @app.task
    def export(table: str, ctx: Context) -> None:
        for done, rows in enumerate(chunks(table)):
            ctx.signal.raise_if_aborted()
            ctx.progress(done, total=100)
            ctx.log.info("exported %d rows", len(rows))
    ```

    `ctx.enqueue` creates jobs together with the success of this one. `ctx.complete` ends the job in a transaction with your
    own writes.
    """

    __slots__ = (
        "_completion",
        "_lease",
        "_new_jobs",
        "_output",
        "_progress",
        "_task",
        "_transactions",
        "job",
        "signal",
        "worker_id",
    )

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
        """Whether the job must stop, and why."""

        self._lease = lease
        """The lease of this attempt."""

        self._completion: Completion | None = None
        """The completion in a transaction; None until the job has begun one."""

        self._task = task
        self._transactions = transactions
        self._progress: Progress | None = None
        """The latest progress that has not been written yet."""

        self._new_jobs: list[NewJob] | None = None
        self._output: LogTail | int = 0
        """What the attempt has logged; before its first line, how many bytes of it are kept. 0: none, or it runs in a child process."""

    @property
    def attempt(self) -> int:
        """Attempt number, from 1."""
        return self.job.attempt

    @property
    def token(self) -> Token:
        """The fencing token of the lease. It grows with every lease of the job, so that a stale holder can be recognized."""
        return self._lease.token

    @property
    def tick(self) -> datetime | None:
        """The instant that a schedule has enqueued this job for, in UTC; None if no schedule has. Steps of a run share it."""
        return self.job.tick

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that puts task, job id and attempt before every message."""
        return _JobLog(logging.getLogger("tenure.job"), {"job": self.job})

    @property
    def results(self) -> list[Any]:
        """The results of the jobs that this one waited for, in the order of `after`."""
        return [None if result is None else msgspec.json.decode(result) for result in self.job.results]

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Report progress. The call is cheap: the latest report is written with the next renewal, once a second at most."""
        self._progress = Progress(done, total, note)

    @overload
    def enqueue(self, *calls: Call[R]) -> list[Job[R]]: ...
    @overload
    def enqueue(self, *calls: Start) -> list[FlowRun]: ...
    @overload
    def enqueue(self, *calls: Call[Any] | Start) -> list[Job[Any] | FlowRun]: ...
    def enqueue(self, *calls: Call[Any] | Start) -> Sequence[Job[Any] | FlowRun]:
        """Enqueue jobs, and start runs, if this job succeeds: they are created in the same atomic operation that ends it.

        Returns at once. If there is an async `before_enqueue` hook, a coroutine must `await ctx.aenqueue(…)` instead.
        """
        if not calls:
            return []
        app = calls[0].caller.app
        handles, pending, _ = prepare_calls(app, calls)
        jobs = [new for new, _ in pending]
        if app.internals.hooks.enqueues:
            call_hooks(before_enqueue(app, jobs), wait_in_job)
        self._add_children(jobs)
        return handles

    @overload
    async def aenqueue(self, *calls: Call[R]) -> list[Job[R]]: ...
    @overload
    async def aenqueue(self, *calls: Start) -> list[FlowRun]: ...
    @overload
    async def aenqueue(self, *calls: Call[Any] | Start) -> list[Job[Any] | FlowRun]: ...
    async def aenqueue(self, *calls: Call[Any] | Start) -> Sequence[Job[Any] | FlowRun]:
        """The async twin of `enqueue`, which awaits async hooks."""
        if not calls:
            return []
        app = calls[0].caller.app
        handles, pending, _ = prepare_calls(app, calls)
        jobs = [new for new, _ in pending]
        if app.internals.hooks.enqueues:
            await acall_hooks(before_enqueue(app, jobs))
        self._add_children(jobs)
        return handles

    def _add_children(self, jobs: Sequence[NewJob]) -> None:
        if self._new_jobs is None:
            self._new_jobs = []
        self._new_jobs += jobs

    @overload
    def prepare(self) -> Preparing: ...
    @overload
    def prepare(self, *, connection: Any) -> PreparingJoined: ...
    def prepare(self, *, connection: Any = None) -> Preparing | PreparingJoined:
        """Read in one transaction what the job needs: `async with ctx.prepare() as tx:`, or `with` in a plain `def`.

        It is read-only, and all reads see one snapshot of the database. `LeaseLost` if the job is no longer held. With
        `connection` the transaction is the caller's, who also ends it.
        """
        if connection is None:
            return Preparing(self._completion_for("prepare"), self)
        return PreparingJoined(self._completion_for("prepare"), self, connection)

    @overload
    def complete(self) -> Completing: ...
    @overload
    def complete(self, *, connection: Any) -> CompletingJoined: ...
    def complete(self, *, connection: Any = None) -> Completing | CompletingJoined:
        """Write and end the job in one transaction: `async with ctx.complete() as tx:`, or `with` in a plain `def`.

        When the block ends, its writes, `tx.result` as the job's result and the jobs of `ctx.enqueue` are committed
        together, and the job is final: what the function returns or raises afterwards changes nothing. If the block raises,
        everything is rolled back and the exception decides as usual; the block may be tried again. If the lease was lost,
        everything is rolled back too: `LeaseLost`.

        With `connection` the job is settled in the caller's transaction, which the caller must commit before the function
        returns.
        """
        if connection is None:
            return Completing(self._completion_for("complete"), self)
        return CompletingJoined(self._completion_for("complete"), self, connection)

    def _completion_for(self, method: str) -> Completion:
        if self._completion is None:
            if self._transactions is None or self._task is None or not self._transactions.store.transactional:
                raise InvalidOption(
                    f"ctx.{method}() needs a worker whose jobs are in a SQL database, sqlite:/// or postgresql://: "
                    "the store of this job has no transactions"
                )
            self._completion = self._transactions.completion(self, self._task)
        return self._completion

    def _begin_completion(self) -> Completion:
        """The completion, begun if there is none: its transaction is in a child process."""
        assert self._transactions is not None
        assert self._task is not None
        if self._completion is None:
            self._completion = self._transactions.completion(self, self._task)
        return self._completion

    @property
    def _children(self) -> tuple[NewJob, ...]:
        """The jobs of `ctx.enqueue`, to be settled with the success."""
        return tuple(self._new_jobs) if self._new_jobs else ()


class _JobLog(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        job: JobRecord = self.extra["job"]  # type: ignore[index,assignment]
        kwargs["extra"] = {"job_id": job.id, "task": job.task, "attempt": job.attempt, **(kwargs.get("extra") or {})}
        return f"{job.task} {job.id} #{job.attempt}: {msg}", kwargs


Middleware = Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Wraps each attempt: an async function of the context and the next function to call. It returns the value of the attempt."""


def checked_middleware(layer: Any) -> Any:
    """`layer` itself; `InvalidOption` if it cannot be called as middleware."""
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
    """The context of the job that is running here. `LookupError` outside of a job."""
    try:
        return running.get()
    except LookupError:
        raise LookupError("no job is running here: current() works inside a task that a worker runs") from None
