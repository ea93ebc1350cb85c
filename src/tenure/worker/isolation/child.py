"""What runs in a child process: one attempt of one job, and then the end."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import ctypes
import faulthandler
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from tenure.core.checks import seconds
from tenure.core.failure import describe_exception, error_summary
from tenure.core.job import JobRecord, State
from tenure.core.lease import AbortReason, Lease, Token
from tenure.core.lifecycle import Finish, Transition, next_transition
from tenure.core.options import WorkerOptions
from tenure.core.outcome import Abandoned, Outcome, Raised
from tenure.core.running import running
from tenure.errors import Aborted
from tenure.hooks.around import error_of, has_failed, tell_failure, tell_failure_here
from tenure.hooks.calling import awaiting, moment, waiting
from tenure.sync import loop_factory, private_loop, run, stop
from tenure.tasks.completion.completion import Stage
from tenure.tasks.context import AbortSignal, Context, Middleware
from tenure.worker.executor import after_completion, perform
from tenure.worker.isolation.frames import Begin, Ended, Failing, packed
from tenure.worker.isolation.lazy_store import LazyStore
from tenure.worker.isolation.limits import limited_memory
from tenure.worker.isolation.link import Link
from tenure.worker.isolation.records import SendRecords
from tenure.worker.isolation.reporting import ReportingContext, ReportingTransactions
from tenure.worker.isolation.template import NOT_OURS
from tenure.worker.settings import Settings, SettingsOf, resolve

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["ChildMain"]

HANDLED = (*NOT_OURS, signal.SIGIO)
"""Signals that mean something else to a child than to other processes, or nothing."""

REHEARSALS = 16
"""How often an attempt is rehearsed in the template."""

log = logging.getLogger("tenure.worker")


class ChildMain:
    """What all children have in common, made in the template: as little as possible is left to each."""

    def __init__(
        self, app: App, options: WorkerOptions, settings: SettingsOf, middleware: Sequence[Middleware]
    ) -> None:
        self._app = app
        self._settings = {name: settings[name] for name in settings.known}
        self._middleware = middleware
        self._run_atexit = options.run_atexit
        self._timeout = seconds(app.options.complete_timeout, "complete_timeout")
        self._die_with_parent = _dying_with_parent()
        self._attempt: ChildAttempt | None = None
        # Here, once, and not in each child.
        signal.signal(signal.SIGTERM, self._terminated)
        signal.signal(signal.SIGIO, self._arrived)
        self._rehearse()
        self._blocked = threading.local()
        os.register_at_fork(
            before=self._hold_signals, after_in_parent=self._let_signals_come, after_in_child=self._heed_signals_again
        )

    def _hold_signals(self) -> None:
        """A job is about to fork. One that would come to the new process before it heeds signals again would be lost."""
        if self._attempt is not None:
            self._blocked.before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)

    def _let_signals_come(self) -> None:
        if self._attempt is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked.before)

    def _heed_signals_again(self) -> None:
        """In a process that a job has forked: it is the job's, and to be ended as any other."""
        if self._attempt is not None:
            for signum in HANDLED:
                signal.signal(signum, signal.SIG_DFL)
            self._let_signals_come()

    def _rehearse(self) -> None:
        """Go through the motions: Python adapts code as it runs, and each child would pay for that with pages of its own."""
        app = self._app.internals.stand_in()
        task = app.task(name="rehearsed")(_nothing)
        lease = Lease(JobRecord("", task.name, "default", State.RUNNING, task.bind().payload), Token(1, 1), 1.0)
        for _ in range(REHEARSALS):
            ours, theirs = socket.socketpair()
            ours.sendall(packed(Begin.of(lease)))
            link = Link(theirs)
            attempt = ChildAttempt(
                app, resolve(task, WorkerOptions(), app.options), (), link.begin(), link, self._timeout
            )
            link.send(Ended.of(copy_context().run(attempt.step)))
            ours.close()
            theirs.close()

    def _terminated(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._attempt is not None:
            self._attempt.main.interrupt()

    def _arrived(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._attempt is not None:
            self._attempt.link.arrived()

    def run(self, own: socket.socket, output: int | None) -> NoReturn:
        """ChildAttempt the job that comes through this socket, and end; what it writes goes to `output`."""
        code = 1
        try:
            self._die_with_parent()
            if output is not None:
                _write_to(output)
            link = Link(own)
            for handler in logging.root.handlers:
                if isinstance(handler, SendRecords):
                    handler.redirect(link.send)
            begin = link.begin()
            settings = self._settings[begin.lease.job.task]
            self._attempt = attempt = ChildAttempt(self._app, settings, self._middleware, begin, link, self._timeout)
            link.listen(attempt.abort)
            step = attempt.step()
            if os.getpid() == link.pid:  # else it is a process that the job has forked, and returned from
                _flush()
                self._app.internals.audience.listeners.flush()
                link.send(Ended.of(step))
                attempt.close()
                if self._run_atexit:
                    threading._shutdown()  # type: ignore[attr-defined]
                    atexit._run_exitfuncs()
                    _flush()
            code = 0
        except BaseException:
            log.exception("a child process has failed")
        finally:
            os._exit(code)


class ChildAttempt:
    """One attempt, here."""

    def __init__(
        self, app: App, settings: Settings, middleware: Sequence[Middleware], begin: Begin, link: Link, timeout: float
    ) -> None:
        assert settings.task is not None
        self._app = app
        self._settings = settings
        self._task = settings.task
        self._middleware = middleware
        self.link = link
        self._signal = AbortSignal()
        self._reach = LazyStore(app.internals.make_store, app.url)
        app.internals.make_store = self._reach.store
        self._transactions = ReportingTransactions(app, timeout, link)
        self._context = ReportingContext(begin.given, begin.worker, self._signal, self._task, self._transactions)
        self._context.link = link
        self.main = MainThread(self._signal, self._context, link)
        self._cancel: Callable[[], object] | None = None
        self._runner: asyncio.Runner | None = None
        self._outcome: Outcome = Abandoned()

    def step(self) -> Transition:
        """ChildAttempt it; what becomes of the job."""
        job = self._context.job
        try:
            running.set(self._context)
            self._perform()
            if self._reach.failed and isinstance(self._outcome, Raised):
                log.warning(
                    "job %s of task %s is released: it could not reach the store: %s",
                    job.id, job.task, error_summary(self._outcome.error),
                )  # fmt: skip
                self._outcome = Abandoned()
            step = next_transition(job, self._outcome, self._settings.policy)
            if self._settings.failing and has_failed(step) and not self._complete_already:
                self._tell(step)
            return step
        except Exception as error:
            log.exception("job %s of task %s could not be judged, it fails", job.id, job.task)
            return Finish(State.FAILED, error=describe_exception(error))

    def close(self) -> None:
        """Let go of connections as a program does that ends well."""
        if self._runner is not None:
            self._runner.close()
        stop()

    @property
    def _complete_already(self) -> bool:
        completion = self._context._completion
        return completion is not None and completion.stage is Stage.FINAL

    def _tell(self, step: Transition) -> None:
        """Let hooks know that it has failed; the worker knows what follows from that, should they end this process."""
        self.link.send(Failing(Ended.of(step)))
        failing, error = self._settings.failing, error_of(self._outcome)
        if self._runner is not None:
            telling = tell_failure(self._task, failing, self._context, error, step, self.main)
            self._runner.get_loop().run_until_complete(telling)
        else:
            tell_failure_here(failing, self._context, error, step)

    def _perform(self) -> None:
        layers = self._middleware
        if self._settings.memory_limit is not None:
            layers = (*layers, limited_memory(self._settings.memory_limit))
        if self._task._is_async:
            self._on_loop(layers)
            return
        try:
            waiting(moment(self._app.internals.hooks.of("after_fork")))
        except BaseException as error:  # noqa: BLE001  (the outcome of the job, whatever it is)
            self._outcome = Raised(error, describe_exception(error))
            return
        if self._middleware or (self._task._is_step and self._app.internals.hooks.enqueues):
            self._beside_loop(layers)
        else:
            self._without_loop(layers)

    def _on_loop(self, layers: Sequence[Middleware]) -> None:
        """A coroutine, with its middleware, on a loop of its own."""

        async def performed() -> None:
            self._transactions.on_loop(asyncio.get_running_loop())
            try:
                await awaiting(moment(self._app.internals.hooks.of("after_fork")))
            except BaseException as error:  # noqa: BLE001  (the outcome of the job, whatever it is)
                self._outcome = Raised(error, describe_exception(error))
                return
            self._outcome = await perform(self._task, self._context, layers, self.main, self._settings.performing)
            self._cancel = None
            await self._complete()

        self._runner = asyncio.Runner(loop_factory=loop_factory())
        loop = self._runner.get_loop()
        task = loop.create_task(performed())
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if self._signal.aborted:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):  # that came when the function had ended
            loop.run_until_complete(task)

    def _beside_loop(self, layers: Sequence[Middleware]) -> None:
        """A function on this thread, its middleware on the loop of blocking code."""
        performing = perform(self._task, self._context, layers, self.main, self._settings.performing)
        ended = asyncio.run_coroutine_threadsafe(performing, private_loop())
        self.main.serve(ended)
        self._outcome = ended.result()
        if self._context._completion is not None:
            run(self._complete())

    def _without_loop(self, layers: Sequence[Middleware]) -> None:
        """A function on this thread, without a loop unless it asks for something that needs one."""
        performing = perform(self._task, self._context, layers, self.main, self._settings.performing)
        try:
            performing.send(None)
        except StopIteration as ended:
            self._outcome = ended.value
        else:
            raise RuntimeError("the function of a plain def has waited for something")
        if self._context._completion is not None:
            run(self._complete())

    async def _complete(self) -> None:
        if self._context._completion is not None:
            self._outcome = await after_completion(self._context._completion, self._outcome)

    def abort(self, reason: AbortReason) -> None:
        """The worker says that the job must stop; on the thread of the link."""
        if self._signal.abort(reason):
            if self._task._is_async:
                if (cancel := self._cancel) is not None:
                    cancel()
            else:
                signal.pthread_kill(self.main.ident, signal.SIGTERM)


class MainThread:
    """Calls blocking functions on the main thread, where a job that is to stop can be interrupted."""

    def __init__(self, abort: AbortSignal, ctx: Context, link: Link) -> None:
        self.ident = threading.get_ident()
        self._signal = abort
        self._ctx = ctx
        self._link = link
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._in_function = False
        self._interrupted = False

    async def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function there, from there or from a loop elsewhere, with the context variables that are set here."""
        if threading.get_ident() == self.ident:
            return self._call(function, args, kwargs)
        loop, context = asyncio.get_running_loop(), copy_context()
        ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def there() -> None:
            value: Any = None
            error: BaseException | None = None
            try:
                value = context.run(self._call, function, args, kwargs)
            except BaseException as raised:  # noqa: BLE001  (the outcome of the job, whatever it is)
                error = raised
            loop.call_soon_threadsafe(ended.set_result, (value, error))

        self._calls.put(there)
        value, error = await ended
        if error is not None:
            raise error
        return value

    def serve(self, asking: concurrent.futures.Future[Any]) -> None:
        """Call what others ask for, or have asked for already, until they have ended."""
        asking.add_done_callback(lambda _: self._calls.put(None))
        while (there := self._calls.get()) is not None:
            there()

    def interrupt(self) -> None:
        """A handler of TERM: raise `Aborted` in the function, once, if the worker wants it to stop; a TERM of anybody else means nothing.

        A service manager sends TERM to every process that there is: what it means for the jobs, the worker decides.
        """
        reason = self._signal.reason
        if reason is None or self._interrupted or not self._in_function or threading.get_ident() != self.ident:
            return
        if self._ctx._completion is not None and self._ctx._completion.under_way:
            return  # it is about to end well
        if self._link.sending:
            self._link.interrupted()
            return
        self._interrupted = True
        raise Aborted(reason)

    def _call(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self._in_function = True
        try:
            self._signal.raise_if_aborted()
            return function(*args, **kwargs)
        finally:
            self._in_function = False


def _nothing() -> None:
    """Is rehearsed."""


def _dying_with_parent() -> Callable[[], object]:
    """What lets a child be killed when the template is: by the kernel, where it can."""
    if sys.platform != "linux":
        return _nothing
    prctl, die, kill = ctypes.CDLL(None).prctl, 1, int(signal.SIGKILL)
    return lambda: prctl(die, kill)


def _write_to(output: int) -> None:
    """Let this process, and those that it starts, write there."""
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    # Line by line: whatever ends the process, what it had written is there.
    sys.stdout, sys.stderr = (
        open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        for descriptor in (1, 2)
    )
    faulthandler.enable(2)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112  (nobody is left to be told)
            continue
