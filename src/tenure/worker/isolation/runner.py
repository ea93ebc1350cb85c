"""`ProcessRunner`: runs each attempt of an isolated task in a new child process, forked from a template.

What the rest of the worker uses:

    tasks               names of this worker's isolated tasks
    fork_template()     call it before there is a loop or a thread, if there are `tasks`; otherwise `start` forks, with a warning
    start()             call it on the worker's loop
    await prepare()     runs the `before_first_fork` hooks: in the template, or in the worker if there is none
    await run(attempt)  runs an attempt in a child process
    running             the attempts that run in children now
    terminate(attempts, grace)  sends aborted attempts their reason (`Aborted` is raised in the child, or the coroutine is
                        cancelled), and kills what is left after `grace` seconds
    kill(attempts)      kills at once; without an aborted signal that is a failed attempt
    await close()       ends the template and all children
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import socket
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from tenure.core.job import ErrorInfo
from tenure.core.lease import AbortReason
from tenure.core.lifecycle import Transition
from tenure.core.options import WorkerOptions
from tenure.core.outcome import Abandoned, Outcome, Raised
from tenure.errors import ChildDied, JobError
from tenure.tasks.completion.completion import await_despite_cancel
from tenure.tasks.completion.stage import StageEvent
from tenure.tasks.context import Middleware
from tenure.worker.attempt import Attempt
from tenure.worker.isolation import template
from tenure.worker.isolation.child import ChildMain
from tenure.worker.isolation.frames import (
    FROM_TEMPLATE,
    Exited,
    Fork,
    Frames,
    Kill,
    Logged,
    Prepare,
    Prepared,
    Refused,
    packed,
)
from tenure.worker.isolation.process import LINGER, ChildProcess, stopped_outcome
from tenure.worker.isolation.records import log_here
from tenure.worker.settings import SettingsByTask

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["ProcessRunner"]

TEMPLATE_EXIT_TIMEOUT = 2.0
"""Seconds that the template, and children whose job has ended, have to exit."""

NO_PROCESS_PAUSE = 1.0
"""Seconds before a job is released for which no process could be started."""

RESEND_AFTER = 0.01
"""Seconds before a message is sent again that did not fit into the template's socket."""

log = logging.getLogger("tenure.worker")


class ProcessRunner:
    """Runs attempts in child processes. Belongs to one worker, and from `start` on to its event loop."""

    def __init__(
        self,
        app: App,
        options: WorkerOptions,
        settings: SettingsByTask,
        middleware: Callable[[], Sequence[Middleware]],
    ) -> None:
        self._app = app
        self._options = options
        self._settings = settings
        self._middleware = middleware
        self._room = None if options.isolated is None else asyncio.Semaphore(options.isolated)
        self._control: socket.socket | None = None
        self._pid = 0
        self._frames = Frames(FROM_TEMPLATE)
        self._numbers = itertools.count(1)
        self._children: dict[int, ChildProcess] = {}
        self._known: tuple[str, ...] = ()
        self._prepared: asyncio.Future[ErrorInfo | None] | None = None
        self._reading = False
        self._state: dict[str, object] | None = None
        """Contents of `app.state` before `on_start` added what belongs to the worker's process."""

        _all_runners.add(self)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of this worker's isolated tasks."""
        return tuple(name for name in self._settings.known if self._settings[name].isolated)

    @property
    def running(self) -> list[Attempt]:
        """Attempts that run in child processes now."""
        return [child.attempt for child in self._children.values() if not child.ended.done()]

    # Starting and stopping.

    def fork_template(self) -> None:
        """Fork the template, if there is none yet."""
        if self._control is None:
            if self._state is None:
                self._state = dict(vars(self._app.state))
            self._pid, self._control = template.fork(self._app.internals.hooks, self._child_main, _abandon_all)
            self._frames = Frames(FROM_TEMPLATE)
            self._known = self._settings.known
            self._reading = False

    def start(self) -> None:
        """Start; call on the worker's loop."""
        self._loop = asyncio.get_running_loop()
        if self.tasks:
            self._have_template()

    async def prepare(self) -> None:
        """Run the `before_first_fork` hooks. Raises `RuntimeError` if one of them raises.

        They run in the template. A worker without a template runs them itself, on a thread, because they may block for
        long.
        """
        if not self._app.internals.hooks.of("before_first_fork"):
            return
        if self._control is None:
            error = await asyncio.to_thread(template.call_before_first_fork, self._app.internals.hooks)
        else:
            self._prepared = self._loop.create_future()
            self._send(Prepare())
            error = await self._prepared
        if error is not None:
            raise RuntimeError(f"before_first_fork failed: {error.type}: {error.message}\n{error.traceback or ''}")

    async def close(self) -> None:
        """End the template, and with it all children."""
        if self._control is None:
            return
        ending = [child.gone for child in self._children.values() if child.ended.done()]
        if ending:
            await asyncio.wait(ending, timeout=LINGER if self._options.run_atexit else TEMPLATE_EXIT_TIMEOUT)
        control, self._control = self._control, None
        if self._reading:
            self._loop.remove_reader(control)
        with contextlib.suppress(OSError):
            control.shutdown(socket.SHUT_RDWR)
        control.close()
        for child in list(self._children.values()):
            child.not_started(stopped_outcome(child.attempt))
        await asyncio.to_thread(_wait_for, self._pid)

    # Running.

    async def run(self, attempt: Attempt) -> Outcome | Transition:
        """Run an attempt in a new child process.

        Returns its outcome, or the transition of its job if the child has decided it.
        """
        try:
            outcome = await self._in_child(attempt)
        except asyncio.CancelledError:  # it was aborted while it waited for a process, or the worker stops
            outcome = stopped_outcome(attempt)
        except OSError as error:  # no descriptor or no process left, which is not the job's fault
            job = attempt.lease.job
            log.warning("cannot start a child process for job %s of task %s: released: %s", job.id, job.task, error)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(NO_PROCESS_PAUSE)
            outcome = Abandoned()
        if (completion := attempt.completion) is not None:
            completion.advance(StageEvent.PROCESS_ENDED)
            with contextlib.suppress(asyncio.CancelledError):
                await await_despite_cancel(completion.resolve())
        return outcome

    async def _in_child(self, attempt: Attempt) -> Outcome | Transition:
        if self._room is not None:
            await self._room.acquire()
        try:
            child = ChildProcess(attempt, next(self._numbers), self._kill)
        except BaseException:
            self._free_room()
            raise
        child.gone.add_done_callback(lambda _: self._forget(child))
        try:
            return await self._run(child)
        finally:
            child.give_up()

    async def _run(self, child: ChildProcess) -> Outcome | Transition:
        attempt = child.attempt
        if attempt.signal.aborted:
            return Abandoned()
        self._have_template()
        if attempt.lease.job.task not in self._known:
            late = JobError("its task was registered after the worker had started, so child processes do not know it")
            return Raised(late, ErrorInfo("JobError", str(late)))
        await self._fork(child)
        timer = None
        if attempt.settings.timeout is not None:
            timer = self._loop.call_later(attempt.settings.timeout, _time_out, attempt)
        try:
            return await child.ended
        finally:
            if timer is not None:
                timer.cancel()

    def terminate(self, attempts: Iterable[Attempt], grace: float) -> None:
        """Abort the jobs in child processes, and kill those that have not stopped after `grace` seconds; call on the
        worker's loop.

        Attempts that run in no child are skipped.
        """
        for attempt in attempts:
            if attempt.child is not None:
                attempt.child.terminate(grace)

    def kill(self, attempts: Iterable[Attempt]) -> None:
        """Kill the child processes of these attempts; call on the worker's loop.

        Attempts that run in no child are skipped.
        """
        for attempt in attempts:
            if attempt.child is not None:
                attempt.child.kill()

    # The template.

    def _child_main(self) -> template.RunChild:
        vars(self._app.state).clear()
        vars(self._app.state).update(self._state or {})
        return ChildMain(self._app, self._options, self._settings, self._middleware()).run

    def _have_template(self) -> socket.socket:
        self.fork_template()
        assert self._control is not None
        if not self._reading:
            self._reading = True
            self._loop.add_reader(self._control, self._read)
        return self._control

    async def _fork(self, child: ChildProcess) -> None:
        request = packed(Fork(child.number, len(child.descriptors)))
        while True:
            control = self._have_template()
            try:
                socket.send_fds(control, [request], child.descriptors)
                break
            except BlockingIOError:
                await asyncio.sleep(RESEND_AFTER)
            except OSError:
                self._template_gone()
        self._children[child.number] = child
        child.begin()

    def _kill(self, number: int) -> None:
        self._send(Kill(number))

    def _send(self, frame: msgspec.Struct) -> None:
        if self._control is None:
            return
        try:
            self._control.send(packed(frame))  # a frame is so short that it is sent as a whole or not at all
        except BlockingIOError:
            self._loop.call_later(RESEND_AFTER, self._send, frame)
        except OSError:
            self._template_gone()

    def _read(self) -> None:
        assert self._control is not None
        try:
            received = self._control.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        for frame in self._frames.cut(received):
            self._handle(frame)
        if not received:
            self._template_gone()

    def _handle(self, frame: Logged | Refused | Exited | Prepared) -> None:
        match frame:
            case Exited(number):
                if (child := self._children.get(number)) is not None:
                    child.exited(frame)
            case Refused(number, error, by_hook):
                if (child := self._children.get(number)) is not None:
                    self._refused(child, error, by_hook)
            case Prepared(error):
                if self._prepared is not None and not self._prepared.done():
                    self._prepared.set_result(error)
            case Logged():
                log_here(frame)

    def _refused(self, child: ChildProcess, error: ErrorInfo, by_hook: bool) -> None:
        if by_hook:
            child.not_started(Raised(ChildDied(error.message), error))
            return
        log.warning("cannot start a child process for job %s of task %s: released: %s", *child.job, error.message[:200])
        self._loop.call_later(NO_PROCESS_PAUSE, child.not_started, Abandoned())

    def _template_gone(self) -> None:
        """The template has exited; most likely it was killed. Its children are dead too. The next job forks another."""
        if self._control is None:
            return
        control, self._control = self._control, None
        if self._reading:
            self._loop.remove_reader(control)
        control.close()
        log.error(
            "the process that forks child processes for isolated tasks (pid %d) has exited, and so have they", self._pid
        )
        self._loop.run_in_executor(None, _wait_for, self._pid)
        if self._prepared is not None and not self._prepared.done():
            self._prepared.set_result(ErrorInfo("ChildDied", "the process that ran it died"))
        why = "its process died, because the process that forked it died"
        for child in list(self._children.values()):
            gone = stopped_outcome(child.attempt) if child.attempt.signal.aborted else None
            child.not_started(gone or Raised(ChildDied(why), ErrorInfo("ChildDied", why)))

    def _forget(self, child: ChildProcess) -> None:
        self._children.pop(child.number, None)
        self._free_room()

    def _free_room(self) -> None:
        if self._room is not None:
            self._room.release()

    def abandon(self) -> None:
        """Close the descriptors, in a process that was forked."""
        if self._control is not None:
            self._control.close()
        for child in self._children.values():
            child.close_descriptors()


def _time_out(attempt: Attempt) -> None:
    if attempt.signal.abort(AbortReason.TIMEOUT):
        attempt.interrupt()


def _wait_for(pid: int) -> None:
    """Wait until the template has exited, and kill it if it does not."""
    deadline = time.monotonic() + TEMPLATE_EXIT_TIMEOUT
    with contextlib.suppress(ChildProcessError):
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(0.002)


def _abandon_all() -> None:
    for runner in _all_runners:
        runner.abandon()


_all_runners: weakref.WeakSet[ProcessRunner] = weakref.WeakSet()
