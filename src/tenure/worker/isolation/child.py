"""`ChildMain`: runs one attempt of one job in a child process, then exits."""

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
from tenure.hooks.around import call_failure_hooks, call_failure_hooks_blocking, error_of, has_failed
from tenure.hooks.calling import acall_hooks, call_hooks, in_turn
from tenure.sync import loop_factory, private_loop, run, stop
from tenure.tasks.completion.stage import Stage
from tenure.tasks.context import AbortSignal, Context, Middleware
from tenure.worker.executor import after_completion, perform
from tenure.worker.isolation.frames import AttemptEnded, Begin, FailureDecided, packed
from tenure.worker.isolation.lazy_store import LazyStores
from tenure.worker.isolation.limits import limited_memory
from tenure.worker.isolation.link import WorkerLink
from tenure.worker.isolation.records import ForwardingHandler
from tenure.worker.isolation.reporting import ReportingContext, ReportingTransactions
from tenure.worker.isolation.template import GROUP_SIGNALS
from tenure.worker.settings import Settings, SettingsByTask, resolve

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["ChildMain"]

HANDLED = (*GROUP_SIGNALS, signal.SIGIO)
"""Signals that a child process handles differently from other processes, or ignores."""

REHEARSALS = 16
"""How many times an attempt is rehearsed in the template."""

log = logging.getLogger("tenure.worker")


class ChildMain:
    """What all children share. It is created in the template, so that each child has as little to do as possible."""

    def __init__(
        self, app: App, options: WorkerOptions, settings: SettingsByTask, middleware: Sequence[Middleware]
    ) -> None:
        self._app = app
        self._settings = {name: settings[name] for name in settings.known}
        self._middleware = middleware
        self._run_atexit = options.run_atexit
        self._timeout = seconds(app.options.complete_timeout, "complete_timeout")
        self._die_with_parent = _dying_with_parent()
        self._attempt: ChildAttempt | None = None
        # Set here, once, and not in each child.
        signal.signal(signal.SIGTERM, self._terminated)
        signal.signal(signal.SIGIO, self._data_arrived)
        self._rehearse()
        self._blocked = threading.local()
        os.register_at_fork(
            before=self._block_signals, after_in_parent=self._unblock_signals, after_in_child=self._reset_signals
        )

    def _block_signals(self) -> None:
        """Block signals before a job forks.

        A signal that reached the new process before its handlers are reset would be lost.
        """
        if self._attempt is not None:
            self._blocked.before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)

    def _unblock_signals(self) -> None:
        if self._attempt is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked.before)

    def _reset_signals(self) -> None:
        """Reset signal handlers in a process that a job has forked, so that it can be ended like any other."""
        if self._attempt is not None:
            for signum in HANDLED:
                signal.signal(signum, signal.SIG_DFL)
            self._unblock_signals()

    def _rehearse(self) -> None:
        """Run a dummy attempt.

        Python specializes code as it runs, and otherwise each child would pay for that with its own memory pages.
        """
        app = self._app.internals.stand_in()
        task = app.task(name="rehearsed")(_nothing)
        lease = Lease(JobRecord("", task.name, "default", State.RUNNING, task.bind().payload), Token(1, 1), 1.0)
        for _ in range(REHEARSALS):
            ours, theirs = socket.socketpair()
            ours.sendall(packed(Begin.of(lease)))
            link = WorkerLink(theirs)
            attempt = ChildAttempt(
                app, resolve(task, WorkerOptions(), app.options), (), link.begin(), link, self._timeout
            )
            link.send(AttemptEnded.of(copy_context().run(attempt.run)))
            ours.close()
            theirs.close()

    def _terminated(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._attempt is not None:
            self._attempt.main.interrupt()

    def _data_arrived(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._attempt is not None:
            self._attempt.link.data_arrived()

    def run(self, own: socket.socket, output: int | None) -> NoReturn:
        """Run the job that arrives through this socket, then exit. `output` is the descriptor for stdout and stderr."""
        code = 1
        try:
            self._die_with_parent()
            if output is not None:
                _write_to(output)
            link = WorkerLink(own)
            for handler in logging.root.handlers:
                if isinstance(handler, ForwardingHandler):
                    handler.redirect(link.send, writes=output is not None)
            begin = link.begin()
            settings = self._settings[begin.lease.job.task]
            self._attempt = attempt = ChildAttempt(self._app, settings, self._middleware, begin, link, self._timeout)
            link.listen(attempt.abort)
            transition = attempt.run()
            if (
                os.getpid() == link.pid
            ):  # otherwise this is a process that the job has forked, which returned from its function
                _flush()
                self._app.internals.audience.listeners.flush()
                link.send(AttemptEnded.of(transition))
                attempt.close()
                if self._run_atexit:
                    threading._shutdown()  # type: ignore[attr-defined]
                    atexit._run_exitfuncs()
                    _flush()
            code = 0
        except BaseException:
            log.exception("a child process failed")
        finally:
            os._exit(code)


class ChildAttempt:
    """One attempt, in its child process."""

    def __init__(
        self,
        app: App,
        settings: Settings,
        middleware: Sequence[Middleware],
        begin: Begin,
        link: WorkerLink,
        timeout: float,
    ) -> None:
        assert settings.task is not None
        self._app = app
        self._settings = settings
        self._task = settings.task
        self._middleware = middleware
        self.link = link
        self._signal = AbortSignal()
        self._stores = LazyStores(app.internals.make_store, in_memory=app.internals.in_memory)
        app.internals.make_store = self._stores.store
        self._transactions = ReportingTransactions(app, timeout, link)
        self._context = ReportingContext(
            begin.original_lease, begin.worker, self._signal, self._task, self._transactions
        )
        self._context.link = link
        self.main = MainThread(self._signal, self._context, link)
        self._cancel: Callable[[], object] | None = None
        self._runner: asyncio.Runner | None = None
        self._outcome: Outcome = Abandoned()

    def run(self) -> Transition:
        """Run the attempt; returns the transition of its job."""
        job = self._context.job
        try:
            running.set(self._context)
            self._perform()
            if self._stores.unreachable and isinstance(self._outcome, Raised):
                log.warning(
                    "job %s of task %s could not reach the store: released: %s",
                    job.id, job.task, error_summary(self._outcome.error),
                )  # fmt: skip
                self._outcome = Abandoned()
            transition = next_transition(job, self._outcome, self._settings.policy)
            if self._settings.failing and has_failed(transition) and not self._complete_already:
                self._report_failure(transition)
            return transition
        except Exception as error:
            log.exception(
                "internal error while deciding the outcome of job %s of task %s: marked failed", job.id, job.task
            )
            return Finish(State.FAILED, error=describe_exception(error))

    def close(self) -> None:
        """Close connections, as a program does that ends normally."""
        if self._runner is not None:
            self._runner.close()
        stop()

    @property
    def _complete_already(self) -> bool:
        completion = self._context._completion
        return completion is not None and completion.stage is Stage.FINAL

    def _report_failure(self, transition: Transition) -> None:
        """Call the `on_failure` hooks. The worker is sent the transition first, in case the hooks end this process."""
        self.link.send(FailureDecided(AttemptEnded.of(transition)))
        failing, error = self._settings.failing, error_of(self._outcome)
        if self._runner is not None:
            calling = call_failure_hooks(self._task, failing, self._context, error, transition, self.main)
            self._runner.get_loop().run_until_complete(calling)
        else:
            call_failure_hooks_blocking(failing, self._context, error, transition)

    def _perform(self) -> None:
        layers = self._middleware
        if self._settings.memory_limit is not None:
            layers = (*layers, limited_memory(self._settings.memory_limit))
        if self._task._is_async:
            self._on_loop(layers)
            return
        try:
            call_hooks(in_turn(self._app.internals.hooks.of("after_fork")))
        except BaseException as error:  # noqa: BLE001  (any error becomes the outcome of the job)
            self._outcome = Raised(error, describe_exception(error))
            return
        if self._middleware or (self._task._is_step and self._app.internals.hooks.enqueues):
            self._beside_loop(layers)
        else:
            self._without_loop(layers)

    def _on_loop(self, layers: Sequence[Middleware]) -> None:
        """Run a coroutine and its middleware on a new event loop."""

        async def performed() -> None:
            self._transactions.on_loop(asyncio.get_running_loop())
            try:
                await acall_hooks(in_turn(self._app.internals.hooks.of("after_fork")))
            except BaseException as error:  # noqa: BLE001  (any error becomes the outcome of the job)
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
        with contextlib.suppress(asyncio.CancelledError):  # cancelled after the function had ended
            loop.run_until_complete(task)

    def _beside_loop(self, layers: Sequence[Middleware]) -> None:
        """Run a function on this thread, and its middleware on the private loop."""
        performing = perform(self._task, self._context, layers, self.main, self._settings.performing)
        ended = asyncio.run_coroutine_threadsafe(performing, private_loop())
        self.main.serve(ended)
        self._outcome = ended.result()
        if self._context._completion is not None:
            run(self._complete())

    def _without_loop(self, layers: Sequence[Middleware]) -> None:
        """Run a function on this thread, without an event loop unless the function needs one."""
        performing = perform(self._task, self._context, layers, self.main, self._settings.performing)
        try:
            performing.send(None)
        except StopIteration as ended:
            self._outcome = ended.value
        else:
            raise RuntimeError("a plain def was suspended: it awaited something outside an event loop")
        if self._context._completion is not None:
            run(self._complete())

    async def _complete(self) -> None:
        if self._context._completion is not None:
            self._outcome = await after_completion(self._context._completion, self._outcome)

    def abort(self, reason: AbortReason) -> None:
        """Abort the job, because the worker says so; called on the link's thread."""
        if self._signal.abort(reason):
            if self._task._is_async:
                if (cancel := self._cancel) is not None:
                    cancel()
            else:
                signal.pthread_kill(self.main.ident, signal.SIGTERM)


class MainThread:
    """Calls blocking functions on the main thread, where a signal can interrupt a job that should stop."""

    def __init__(self, abort: AbortSignal, ctx: Context, link: WorkerLink) -> None:
        self.ident = threading.get_ident()
        self._signal = abort
        self._ctx = ctx
        self._link = link
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._in_function = False
        self._interrupted = False

    async def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function on the main thread, with the current context variables.

        May be awaited there or on a loop elsewhere.
        """
        if threading.get_ident() == self.ident:
            return self._call(function, args, kwargs)
        loop, context = asyncio.get_running_loop(), copy_context()
        ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def there() -> None:
            value: Any = None
            error: BaseException | None = None
            try:
                value = context.run(self._call, function, args, kwargs)
            except BaseException as raised:  # noqa: BLE001  (any error becomes the outcome of the job)
                error = raised
            loop.call_soon_threadsafe(ended.set_result, (value, error))

        self._calls.put(there)
        value, error = await ended
        if error is not None:
            raise error
        return value

    def serve(self, asking: concurrent.futures.Future[Any]) -> None:
        """Make the calls that other threads request, until `asking` is done."""
        asking.add_done_callback(lambda _: self._calls.put(None))
        while (there := self._calls.get()) is not None:
            there()

    def interrupt(self) -> None:
        """Handler of TERM: raise `Aborted` in the function, once, if the worker has aborted the job.

        Any other TERM is ignored.

        A service manager sends TERM to every process. What that means for the jobs is decided by the worker.
        """
        reason = self._signal.reason
        if reason is None or self._interrupted or not self._in_function or threading.get_ident() != self.ident:
            return
        if self._ctx._completion is not None and self._ctx._completion.may_be_final:
            return  # it is about to commit
        if self._link.sending:
            self._link.interrupt_later()
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
    """The function of the rehearsed task."""


def _dying_with_parent() -> Callable[[], object]:
    """A function that makes the kernel kill this process when the template dies, where the system supports it."""
    if sys.platform != "linux":
        return _nothing
    prctl, die, kill = ctypes.CDLL(None).prctl, 1, int(signal.SIGKILL)
    return lambda: prctl(die, kill)


def _write_to(output: int) -> None:
    """Redirect stdout and stderr of this process, and of those that it starts."""
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    # Line buffered, so that whatever ends the process, its output is not lost.
    sys.stdout, sys.stderr = (
        open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        for descriptor in (1, 2)
    )
    faulthandler.enable(2)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112  (there is nothing left to report to)
            continue
