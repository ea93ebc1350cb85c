"""What a job sees of its own run: who it is, whether it must stop, and how to tell how far it is."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.errors import Aborted
from tenure.job import JobRecord, NewJob, Progress
from tenure.lease import AbortReason, Lease, Token

if TYPE_CHECKING:
    from tenure.handle import Job
    from tenure.task import Call

__all__ = ["AbortSignal", "Context", "Middleware", "current"]

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
        self._call_when_aborted(lambda: _call_on(loop, _resolve, told))
        await told
        return self._given()

    def wait_blocking(self, timeout: float | None = None) -> AbortReason | None:
        """Wait, in a thread, until the job must stop; None if it need not after `timeout` seconds."""
        told = threading.Event()
        self._call_when_aborted(told.set)
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

    def _call_when_aborted(self, waiter: Callable[[], object]) -> None:
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

    __slots__ = ("_children", "_lease", "job", "said", "signal", "worker_id")

    def __init__(self, lease: Lease, worker_id: str, signal: AbortSignal) -> None:
        self.job: JobRecord = lease.job
        self.worker_id = worker_id
        self.signal = signal
        """Whether, and why, the job must stop."""
        self._lease = lease
        self.said: Progress | None = None
        """What the job said of its progress last, until it is written; for the worker."""

        self._children: list[NewJob] | None = None

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
        self.said = Progress(done, total, note)

    def enqueue(self, *calls: Call[Any]) -> list[Job[Any]]:
        """Enqueue jobs that come to exist if, and in the same step as, this one succeeds."""
        jobs = [call.new_job() for call in calls]
        if self._children is None:
            self._children = []
        self._children += jobs
        return [call.job(job) for call, job in zip(calls, jobs, strict=True)]

    @property
    def children(self) -> tuple[NewJob, ...]:
        """What was enqueued here, to be settled with the success; for the worker."""
        return tuple(self._children) if self._children else ()


class _JobLog(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        job: JobRecord = self.extra["job"]  # type: ignore[index,assignment]
        kwargs["extra"] = {"job_id": job.id, "task": job.task, "attempt": job.attempt, **(kwargs.get("extra") or {})}
        return f"{job.task} {job.id} #{job.attempt}: {msg}", kwargs


Middleware = Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Wraps each attempt: gets its context and what to call next, and returns, or changes, what that returns."""

running: ContextVar[Context] = ContextVar("tenure_context")
"""The context of the job that is running here; set by the executor."""


def current() -> Context:
    """The context of the job that is running here; `LookupError` outside of one."""
    try:
        return running.get()
    except LookupError:
        raise LookupError("no job is running here: current() works inside a task that a worker runs") from None
