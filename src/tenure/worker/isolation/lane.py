"""The process lane: each attempt in a child process of its own, forked from a template.

What the rest of the worker uses:

    Isolation.tasks             the tasks of this worker that run in children
    Isolation.fork_template()   before there is a loop or a thread, if there are `tasks`; `start` does it else, with a warning
    Isolation.start()           on the worker's loop
    await Isolation.prepare()   runs `before_first_fork`: in the template, or in the worker if there is none; raises what a hook
                                raised, as RuntimeError
    Isolation.running           the attempts that are in children now
    Isolation.terminate(attempts, grace)   their signals have been aborted: tell the children (`Aborted` is raised in them, or
                                           the coroutine is cancelled), kill what is left of them after so many seconds
    Isolation.kill(attempts)    at once; without an aborted signal that is a failed attempt
    await Isolation.close()     ends the template and whatever children there are
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
from tenure.tasks.completion.completion import Stage, to_the_end
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
from tenure.worker.isolation.parent import LINGER, Child, let_go
from tenure.worker.isolation.records import log_here
from tenure.worker.settings import SettingsOf

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Isolation"]

FAREWELL = 2.0
"""Seconds that the template, and children whose job has ended, have to end too."""

NO_PROCESS = 1.0
"""Seconds until a job is given back for which no process could be had."""

FULL = 0.01
"""Seconds until the template is told again what did not fit into its socket."""

log = logging.getLogger("tenure.worker")


class Isolation:
    """Runs attempts in child processes; belongs to one worker, and from `start` on to its event loop."""

    def __init__(
        self,
        app: App,
        options: WorkerOptions,
        settings: SettingsOf,
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
        self._children: dict[int, Child] = {}
        self._known: tuple[str, ...] = ()
        self._prepared: asyncio.Future[ErrorInfo | None] | None = None
        self._heard_from = False
        self._state: dict[str, object] | None = None
        """What was in `app.state` before `on_start` put there what is of the worker's process only."""

        _all_of_them.add(self)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks of this worker that run in children."""
        return tuple(name for name in self._settings.known if self._settings[name].isolated)

    @property
    def running(self) -> list[Attempt]:
        """The attempts that are in children now."""
        return [child.attempt for child in self._children.values() if not child.ended.done()]

    # Starting and stopping.

    def fork_template(self) -> None:
        """Fork the process that forks, if there is none yet."""
        if self._control is None:
            if self._state is None:
                self._state = dict(vars(self._app.state))
            self._pid, self._control = template.fork(self._app.internals.hooks, self._for_children, _abandon_all)
            self._frames = Frames(FROM_TEMPLATE)
            self._known = self._settings.known
            self._heard_from = False

    def start(self) -> None:
        """Begin, on the worker's loop."""
        self._loop = asyncio.get_running_loop()
        if self.tasks:
            self._have_template()

    async def prepare(self) -> None:
        """ChildAttempt the hooks `before_first_fork`; `RuntimeError` if one of them raises.

        They run in the template. A worker that has no template runs them itself, in a thread, because they may block for long.
        """
        if not self._app.internals.hooks.of("before_first_fork"):
            return
        if self._control is None:
            error = await asyncio.to_thread(template.first_fork, self._app.internals.hooks)
        else:
            self._prepared = self._loop.create_future()
            self._tell(Prepare())
            error = await self._prepared
        if error is not None:
            raise RuntimeError(f"before_first_fork has failed: {error.type}: {error.message}\n{error.traceback or ''}")

    async def close(self) -> None:
        """End the template, and with it every child that there is."""
        if self._control is None:
            return
        ending = [child.gone for child in self._children.values() if child.ended.done()]
        if ending:
            await asyncio.wait(ending, timeout=LINGER if self._options.run_atexit else FAREWELL)
        control, self._control = self._control, None
        if self._heard_from:
            self._loop.remove_reader(control)
        with contextlib.suppress(OSError):
            control.shutdown(socket.SHUT_RDWR)
        control.close()
        for child in list(self._children.values()):
            child.refused(let_go(child.attempt))
        await asyncio.to_thread(_wait_for, self._pid)

    # Running.

    async def run(self, attempt: Attempt) -> Outcome | Transition:
        """ChildAttempt an attempt in a child of its own; what came of it, or what becomes of its job if the child has decided that."""
        try:
            outcome = await self._in_child(attempt)
        except asyncio.CancelledError:  # it was told to stop while it waited for a process, or the worker ends
            outcome = let_go(attempt)
        except OSError as error:  # no descriptor or no process to be had: nothing that the job could help
            job = attempt.lease.job
            log.warning("no process can be had for job %s of task %s, it is given back: %s", job.id, job.task, error)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(NO_PROCESS)
            outcome = Abandoned()
        if (completion := attempt.completion) is not None:
            if completion.stage is Stage.SETTLING:
                completion.stage = Stage.JOINED  # it died while it committed: the store is asked
            elif completion.stage is Stage.OPEN:
                completion.stage = Stage.RUNNING
            with contextlib.suppress(asyncio.CancelledError):
                await to_the_end(completion.resolve())
        return outcome

    async def _in_child(self, attempt: Attempt) -> Outcome | Transition:
        if self._room is not None:
            await self._room.acquire()
        try:
            child = Child(attempt, next(self._numbers), self._kill)
        except BaseException:
            self._free_room()
            raise
        child.gone.add_done_callback(lambda _: self._forget(child))
        try:
            return await self._run(child)
        finally:
            child.give_up()

    async def _run(self, child: Child) -> Outcome | Transition:
        attempt = child.attempt
        if attempt.signal.aborted:
            return Abandoned()
        self._have_template()
        if attempt.lease.job.task not in self._known:
            late = JobError("its task was registered after the worker had started, and children do not know it")
            return Raised(late, ErrorInfo("JobError", str(late)))
        await self._fork(child)
        timer = None
        if attempt.settings.timeout is not None:
            timer = self._loop.call_later(attempt.settings.timeout, _time_is_over, attempt)
        try:
            return await child.ended
        finally:
            if timer is not None:
                timer.cancel()

    def terminate(self, attempts: Iterable[Attempt], grace: float) -> None:
        """Tell children to stop, and kill those that have not after so many seconds; on the worker's loop.

        Attempts that are in no child are passed over.
        """
        for attempt in attempts:
            if attempt.child is not None:
                attempt.child.terminate(grace)

    def kill(self, attempts: Iterable[Attempt]) -> None:
        """Kill children; on the worker's loop. Attempts that are in no child are passed over."""
        for attempt in attempts:
            if attempt.child is not None:
                attempt.child.kill()

    # The template.

    def _for_children(self) -> template.ChildAttempt:
        vars(self._app.state).clear()
        vars(self._app.state).update(self._state or {})
        return ChildMain(self._app, self._options, self._settings, self._middleware()).run

    def _have_template(self) -> socket.socket:
        self.fork_template()
        assert self._control is not None
        if not self._heard_from:
            self._heard_from = True
            self._loop.add_reader(self._control, self._hear)
        return self._control

    async def _fork(self, child: Child) -> None:
        request = packed(Fork(child.number, len(child.descriptors)))
        while True:
            control = self._have_template()
            try:
                socket.send_fds(control, [request], child.descriptors)
                break
            except BlockingIOError:
                await asyncio.sleep(FULL)
            except OSError:
                self._template_gone()
        self._children[child.number] = child
        child.begin()

    def _kill(self, number: int) -> None:
        self._tell(Kill(number))

    def _tell(self, frame: msgspec.Struct) -> None:
        if self._control is None:
            return
        try:
            self._control.send(packed(frame))  # a frame is so short that it goes as a whole or not at all
        except BlockingIOError:
            self._loop.call_later(FULL, self._tell, frame)
        except OSError:
            self._template_gone()

    def _hear(self) -> None:
        assert self._control is not None
        try:
            received = self._control.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        for frame in self._frames.cut(received):
            self._heard(frame)
        if not received:
            self._template_gone()

    def _heard(self, frame: Logged | Refused | Exited | Prepared) -> None:
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

    def _refused(self, child: Child, error: ErrorInfo, by_hook: bool) -> None:
        if by_hook:
            child.refused(Raised(ChildDied(error.message), error))
            return
        log.warning(
            "no process can be had for job %s of task %s, it is given back: %s", *child.job, error.message[:200]
        )
        self._loop.call_later(NO_PROCESS, child.refused, Abandoned())

    def _template_gone(self) -> None:
        """It was killed, most likely: so are its children, and another must be forked for the next job."""
        if self._control is None:
            return
        control, self._control = self._control, None
        if self._heard_from:
            self._loop.remove_reader(control)
        control.close()
        log.error("the process that forks children for isolated tasks (pid %d) has ended, and they with it", self._pid)
        self._loop.run_in_executor(None, _wait_for, self._pid)
        if self._prepared is not None and not self._prepared.done():
            self._prepared.set_result(ErrorInfo("ChildDied", "the process that it ran in has died"))
        why = "the process that had forked its process has died, and it with that"
        for child in list(self._children.values()):
            gone = let_go(child.attempt) if child.attempt.signal.aborted else None
            child.refused(gone or Raised(ChildDied(why), ErrorInfo("ChildDied", why)))

    def _forget(self, child: Child) -> None:
        self._children.pop(child.number, None)
        self._free_room()

    def _free_room(self) -> None:
        if self._room is not None:
            self._room.release()

    def abandon(self) -> None:
        """In a process that was forked off: let go of the descriptors."""
        if self._control is not None:
            self._control.close()
        for child in self._children.values():
            child.abandon()


def _time_is_over(attempt: Attempt) -> None:
    if attempt.signal.abort(AbortReason.TIMEOUT):
        attempt.interrupt()


def _wait_for(pid: int) -> None:
    """Wait until the template has ended, and kill it if it does not."""
    deadline = time.monotonic() + FAREWELL
    with contextlib.suppress(ChildProcessError):
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(0.002)


def _abandon_all() -> None:
    for isolation in _all_of_them:
        isolation.abandon()


_all_of_them: weakref.WeakSet[Isolation] = weakref.WeakSet()
