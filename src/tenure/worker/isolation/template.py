"""The process that forks: it has the app imported, one thread and nothing else to do, so that its children begin clean.

A worker has an event loop, threads and connections, none of which survives a fork in one piece. So it forks this process before
it has any of them, and asks it for every child. Only the parent of a process knows whether a pid is still its child: so it is
the template too that kills.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import logging
import os
import select
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

import msgspec

from tenure.core.failure import describe_exception
from tenure.core.job import ErrorInfo
from tenure.hooks.calling import call
from tenure.hooks.registry import Hooks
from tenure.worker.isolation.frames import (
    TO_TEMPLATE,
    Exited,
    Fork,
    Frames,
    Kill,
    Prepare,
    Prepared,
    Refused,
    packed,
)
from tenure.worker.isolation.records import SendRecords

__all__ = ["NOT_OURS", "ChildAttempt", "first_fork", "fork"]

NOT_OURS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that a terminal or a service manager sends to the whole group of processes: the worker decides what they mean."""

RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in the unit of `ru_maxrss`."""

ChildAttempt = Callable[[socket.socket, int | None], NoReturn]
"""What a child does with its socket, and the descriptor that its output goes to."""

log = logging.getLogger("tenure.worker")


def fork(hooks: Hooks, prepare: Callable[[], ChildAttempt], abandon: Callable[[], None]) -> tuple[int, socket.socket]:
    """Fork a template; its pid, and the socket to speak with it. It ends when that socket does.

    There, `abandon` lets go of what belongs to the worker, and `prepare` gives what the children run.
    """
    others = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    if others:
        log.warning(
            "the process for isolated tasks is forked beside other threads (%s): what they hold locked stays locked "
            "in it; begin with worker.run() or `tenure work`, before there are any",
            ", ".join(sorted(others)),
        )
    ours, theirs = socket.socketpair()
    _flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 says the same as we do above
        pid = os.fork()
    if pid:
        theirs.close()
        ours.setblocking(False)
        return pid, ours
    code = 1
    try:
        ours.close()
        _settle_down()
        abandon()
        template = Template(theirs, hooks, prepare())
        gc.collect()
        gc.freeze()
        template.serve()
        code = 0
    except BaseException:
        log.exception("the process that forks children for isolated tasks has failed")
    finally:
        os._exit(code)


class Template:
    """Forks on request, and tells of every end."""

    def __init__(self, control: socket.socket, hooks: Hooks, run: ChildAttempt) -> None:
        self._control = control
        self._hooks = hooks
        self._run = run
        self._frames = Frames(TO_TEMPLATE)
        self._descriptors: list[int] = []
        self._children: dict[int, int] = {}
        """Process ids by number."""

        self._prepared = False
        SendRecords(self._send).install()

    def serve(self) -> None:
        """Do what the worker asks for, until it is gone; then no child is left."""
        woken, wakes = os.pipe()
        self._pipe = woken, wakes
        os.set_blocking(woken, False)
        os.set_blocking(wakes, False)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        waiting = select.poll()
        waiting.register(self._control, select.POLLIN)
        waiting.register(woken, select.POLLIN)
        try:
            while True:
                ready = [descriptor for descriptor, _ in waiting.poll()]
                if woken in ready:
                    _drain(woken)
                    self._reap()
                if self._control.fileno() in ready and not self._hear():
                    return
        except (BrokenPipeError, ConnectionResetError):
            return  # the worker is gone
        finally:
            for number in self._children:
                self._kill(number)

    def _hear(self) -> bool:
        """Do what was asked for; False if nobody is there to ask any more."""
        received, descriptors, _, _ = socket.recv_fds(self._control, 65536, 64)
        self._descriptors += descriptors
        for frame in self._frames.cut(received):
            match frame:
                case Fork(number, count):
                    given, self._descriptors = self._descriptors[:count], self._descriptors[count:]
                    self._fork(number, given)
                case Kill(number):
                    self._kill(number)
                case Prepare():
                    self._send(Prepared(self._prepare()))
        return bool(received)

    def _prepare(self) -> ErrorInfo | None:
        """ChildAttempt the hooks before the first fork, once; what one of them has raised."""
        if self._prepared:
            return None
        error = first_fork(self._hooks)
        if error is None:
            self._prepared = True
            gc.freeze()
        return error

    def _fork(self, number: int, descriptors: list[int]) -> None:
        try:
            refused = self._prepare() or self._before_fork()
            if refused is not None:
                return self._send(Refused(number, refused, by_hook=True))
            _flush()
            try:
                pid = os.fork()
            except OSError as error:  # no process or no memory to be had
                return self._send(Refused(number, describe_exception(error), by_hook=False))
            if not pid:
                self._be_child(descriptors)
            self._children[number] = pid
            return None
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _before_fork(self) -> ErrorInfo | None:
        return _called(self._hooks, "before_fork")

    def _be_child(self, descriptors: list[int]) -> NoReturn:
        # A group of its own: what the job starts is killed with it.
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for descriptor in (self._control.detach(), *self._pipe):
            os.close(descriptor)
        own, *output = descriptors
        self._run(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, own), output[0] if output else None)

    def _kill(self, number: int) -> None:
        pid = self._children.get(number)
        if pid is not None:
            for kill in (os.killpg, os.kill):  # it may not have begun to be a group
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Tell of children that have ended. Asked one by one: a hook may have started processes of the user's own."""
        for number, child in list(self._children.items()):
            pid, status, usage = os.wait4(child, os.WNOHANG)
            if pid:
                del self._children[number]
                self._send(Exited(number, status, usage.ru_maxrss * RSS_UNIT))

    def _send(self, frame: msgspec.Struct) -> None:
        self._control.sendall(packed(frame))


def first_fork(hooks: Hooks) -> ErrorInfo | None:
    """Call the hooks `before_first_fork` here; returns what one of them has raised."""
    return _called(hooks, "before_first_fork")


def _called(hooks: Hooks, name: str) -> ErrorInfo | None:
    try:
        call(hooks.of(name))
    except Exception as error:  # noqa: BLE001  (the worker decides what follows)
        return describe_exception(error)
    return None


def _settle_down() -> None:
    """Leave behind what the worker's process was doing."""
    for signum in signal.valid_signals():
        if callable(signal.getsignal(signum)):
            signal.signal(signum, signal.SIG_DFL)
    for signum in NOT_OURS:
        # A handler that does nothing, which the children inherit; what is ignored would be so in programs that jobs start.
        signal.signal(signum, _nothing)
    # What was to happen at the end of the worker must not happen at the end of every child.
    atexit._clear()
    asyncio._set_running_loop(None)
    asyncio.set_event_loop(None)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)


def _nothing(signum: int, frame: FrameType | None) -> None:
    """Be interrupted, and go on."""


def _drain(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass


def _flush() -> None:
    """Else the child would write once more what lies in the buffers."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
