"""`Template`: the process that forks child processes.

It has the app imported and one thread, so that its children start clean.

A worker has an event loop, threads and connections, none of which survives a fork intact. So it forks this process
before it has any of them, and requests every child from it. The template also kills children, because only the parent
of a process knows whether a pid is still its child.
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
from tenure.hooks.calling import call_hooks_without_loop
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
from tenure.worker.isolation.records import ForwardingHandler

__all__ = ["GROUP_SIGNALS", "RunChild", "call_before_first_fork", "fork"]

GROUP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that a terminal or a service manager sends to the whole process group: the worker decides what they mean."""

RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in the unit of `ru_maxrss`."""

RunChild = Callable[[socket.socket, int | None], NoReturn]
"""Runs a child: called with its socket, and the descriptor for its output."""

log = logging.getLogger("tenure.worker")


def fork(hooks: Hooks, prepare: Callable[[], RunChild], abandon: Callable[[], None]) -> tuple[int, socket.socket]:
    """Fork a template. Returns its pid and the socket to it; the template exits when that socket is closed.

    In the template, `abandon` closes what belongs to the worker, and `prepare` returns the function that children run.
    """
    others = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    if others:
        log.warning(
            "the process for isolated tasks is forked while other threads run (%s): locks that they hold stay locked "
            "in it; start with worker.run() or `tenure work` before there are any",
            ", ".join(sorted(others)),
        )
    ours, theirs = socket.socketpair()
    _flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of the same as we do above
        pid = os.fork()
    if pid:
        theirs.close()
        ours.setblocking(False)
        return pid, ours
    code = 1
    try:
        ours.close()
        _reset_process()
        abandon()
        template = Template(theirs, hooks, prepare())
        gc.collect()
        gc.freeze()
        template.serve()
        code = 0
    except BaseException:
        log.exception("the process that forks child processes for isolated tasks failed")
    finally:
        os._exit(code)


class Template:
    """Forks children on request, and reports each exit."""

    def __init__(self, control: socket.socket, hooks: Hooks, run: RunChild) -> None:
        self._control = control
        self._hooks = hooks
        self._run = run
        self._frames = Frames(TO_TEMPLATE)
        self._descriptors: list[int] = []
        self._children: dict[int, int] = {}
        """Process ids by child number."""

        self._prepared = False
        ForwardingHandler(self._send).install()

    def serve(self) -> None:
        """Serve the worker's requests until it is gone; then kill all children."""
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
                if self._control.fileno() in ready and not self._serve_requests():
                    return
        except (BrokenPipeError, ConnectionResetError):
            return  # the worker is gone
        finally:
            for number in self._children:
                self._kill(number)

    def _serve_requests(self) -> bool:
        """Serve the requests that have arrived; False if the worker is gone."""
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
        """Run the `before_first_fork` hooks, once; returns what one of them raised."""
        if self._prepared:
            return None
        error = call_before_first_fork(self._hooks)
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
            except OSError as error:  # no process or no memory left
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
        # Its own process group, so that what the job starts is killed with it.
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for descriptor in (self._control.detach(), *self._pipe):
            os.close(descriptor)
        own, *output = descriptors
        self._run(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, own), output[0] if output else None)

    def _kill(self, number: int) -> None:
        pid = self._children.get(number)
        if pid is not None:
            for kill in (os.killpg, os.kill):  # it may not have its process group yet
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Report children that have exited. Waits for each by pid, because a hook may have started other processes."""
        for number, child in list(self._children.items()):
            pid, status, usage = os.wait4(child, os.WNOHANG)
            if pid:
                del self._children[number]
                self._send(Exited(number, status, usage.ru_maxrss * RSS_UNIT))

    def _send(self, frame: msgspec.Struct) -> None:
        self._control.sendall(packed(frame))


def call_before_first_fork(hooks: Hooks) -> ErrorInfo | None:
    """Call the `before_first_fork` hooks here; returns what one of them raised."""
    return _called(hooks, "before_first_fork")


def _called(hooks: Hooks, name: str) -> ErrorInfo | None:
    try:
        call_hooks_without_loop(hooks.of(name))
    except Exception as error:  # noqa: BLE001  (the worker decides what follows)
        return describe_exception(error)
    return None


def _reset_process() -> None:
    """Reset what the worker's process has set up: signal handlers, atexit functions, event loop, stdin."""
    for signum in signal.valid_signals():
        if callable(signal.getsignal(signum)):
            signal.signal(signum, signal.SIG_DFL)
    for signum in GROUP_SIGNALS:
        # A handler that does nothing, inherited by the children. SIG_IGN would be inherited by programs that jobs
        # start.
        signal.signal(signum, _nothing)
    # What should happen when the worker exits must not happen when each child exits.
    atexit._clear()
    asyncio._set_running_loop(None)
    asyncio.set_event_loop(None)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)


def _nothing(signum: int, frame: FrameType | None) -> None:
    """Do nothing, so that the signal only interrupts."""


def _drain(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass


def _flush() -> None:
    """Flush, because otherwise the child would write the buffered output again."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
