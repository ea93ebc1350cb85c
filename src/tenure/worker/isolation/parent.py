"""A child process as its worker sees it: what it is told, what it tells, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import socket
from collections.abc import Callable

import msgspec

from tenure.core.failure import storable
from tenure.core.job import ErrorInfo, State
from tenure.core.lease import AbortReason
from tenure.core.lifecycle import Finish, Transition
from tenure.core.outcome import Abandoned, Interrupted, Outcome, Raised
from tenure.errors import STORE_OUTAGE, ChildDied
from tenure.tasks.completion.completion import Completion, Stage
from tenure.worker.attempt import Attempt
from tenure.worker.executor import timed_out
from tenure.worker.isolation.frames import (
    FROM_CHILD,
    Abort,
    Begin,
    Ended,
    Exited,
    Failing,
    Frames,
    FromChild,
    Granted,
    Logged,
    Opening,
    Said,
    Staged,
    packed,
)
from tenure.worker.isolation.records import log_here

__all__ = ["Child", "let_go"]

GRACE = 4.0
"""Seconds that a job has to stop once its time is over, before its process is killed."""

SHORT = 0.5
"""The same for a job that is no longer the worker's: within a second of its cancellation it is gone."""

REMIND = 0.1
"""Seconds after which a child is told once more to stop, and then twice as many: a signal that comes when the interpreter is just about to wait is noticed with the next one."""

LINGER = 30.0
"""Seconds that a child has to end once its job has."""

log = logging.getLogger("tenure.worker")


class Child:
    """One child; on the worker's loop."""

    def __init__(self, attempt: Attempt, number: int, kill: Callable[[int], None]) -> None:
        self.attempt = attempt
        self.number = number
        self.ended: asyncio.Future[Outcome | Transition] = asyncio.get_running_loop().create_future()
        """What came of the attempt; the process may take a little longer."""

        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """When there is no process any more."""

        self._kill = kill
        self._killed = False
        self._begun = False
        self._loop = asyncio.get_running_loop()
        self._socket, self._theirs = socket.socketpair()
        self._socket.setblocking(False)
        self._output = Tail(self._loop, attempt.settings.output) if attempt.settings.output else None
        self._frames = Frames(FROM_CHILD)
        self._unsent = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._reminder: asyncio.TimerHandle | None = None
        self._granting: asyncio.Task[None] | None = None
        self._failed: Transition | None = None
        """What becomes of the job, once it has said that it tells hooks of a failure."""

    # Its beginning.

    @property
    def descriptors(self) -> list[int]:
        """What the template needs to fork it."""
        return [self._theirs.fileno(), *(() if self._output is None else (self._output.theirs,))]

    def begin(self) -> None:
        """It is being forked: tell it what to do, and hear it."""
        self._begun = True
        self._theirs.close()
        if self._output is not None:
            self._output.begin()
        self._loop.add_reader(self._socket, self._hear)
        self._send(Begin.of(self.attempt.lease))
        self.attempt.child = self

    # What the worker does to it.

    def stop(self) -> None:
        """Tell it to stop, for the reason that the signal has. Who stops the worker says how long it may take; else it is killed soon."""
        match self.attempt.signal.reason:
            case AbortReason.SHUTDOWN:
                self.terminate(None)
            case AbortReason.TIMEOUT:
                self.terminate(GRACE)
            case _:
                self.terminate(SHORT)

    def terminate(self, grace: float | None) -> None:
        """Tell it to stop, and kill it after so many seconds; None: do not."""
        if self.attempt.signal.reason is not None and not self.ended.done():
            if self._reminder is None:
                self._tell_to_stop(self.attempt.signal.reason, REMIND)
            if grace is not None:
                self._kill_after(grace)

    def _tell_to_stop(self, reason: AbortReason, again: float) -> None:
        if not self.ended.done():
            self._send(Abort(reason))
            self._reminder = self._loop.call_later(again, self._tell_to_stop, reason, again * 2)

    def kill(self) -> None:
        """End it at once, and whatever it has started."""
        if not self.gone.done():
            self._killed = True
            self._kill(self.number)

    def give_up(self) -> None:
        """Nobody waits for its job any more: end it at once, unless that has ended."""
        if not self._begun:
            self.refused(Abandoned())
        elif not self.ended.done():
            self.kill()

    @property
    def job(self) -> tuple[str, str]:
        """The id and the task of its job."""
        return self.attempt.lease.job.id, self.attempt.lease.job.task

    def forget(self) -> None:
        """It is gone, or is nobody's business any more."""
        if self._reminder is not None:
            self._reminder.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._granting is not None:
            self._granting.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            if self._unsent:
                self._loop.remove_writer(self._socket)
        self.abandon()
        if not self.gone.done():
            self.gone.set_result(None)

    def abandon(self) -> None:
        """Let go of the descriptors."""
        self._socket.close()
        self._theirs.close()
        if self._output is not None:
            self._output.close()

    # What becomes of it.

    def exited(self, exited: Exited) -> None:
        """The process has ended."""
        self._hear(math.inf)
        if not self.ended.done():
            self._end(self._failed or self._death(exited))
        self.forget()

    def refused(self, outcome: Outcome) -> None:
        """There is no process, and this is why."""
        self._end(outcome)
        self.forget()

    def _end(self, outcome: Outcome | Transition) -> None:
        if not self.ended.done():
            if self._output is not None:
                self.attempt.output = self._output.text() or None
            self.ended.set_result(outcome)

    def _death(self, exited: Exited) -> Outcome:
        """What it means that the process has ended before the job."""
        attempt = self.attempt
        task, limit = attempt.settings.task, attempt.settings.memory_limit
        assert task is not None
        if attempt.signal.reason is AbortReason.TIMEOUT:
            return timed_out(task, how=f": it did not stop within {GRACE:g} s, and was killed" if self._killed else "")
        if attempt.signal.aborted:
            return let_go(attempt)
        code = os.waitstatus_to_exitcode(exited.status)
        memory = f"it had occupied up to {exited.peak >> 20:,} MiB of memory"
        if limit is not None:
            memory += f", and its memory_limit is {limit >> 20:,} MiB beside what was loaded"
        if code >= 0:
            why = f"its process ended with exit code {code} before the job had; {memory}"
        elif self._killed:
            why = "its process was killed, as its worker was asked to"
        else:
            why = f"its process was killed by {_name(-code)}"
            why += " (which is what the kernel sends if memory runs out)" if code == -signal.SIGKILL else ""
            why += f"; {memory}"
        died = ChildDied(
            why, exit_code=code if code >= 0 else None, signal=-code if code < 0 else None, peak=exited.peak
        )
        return Raised(died, ErrorInfo("ChildDied", why))

    # What it tells.

    def _hear(self, times: float = 1) -> None:
        try:
            while received := self._socket.recv(1 << 16):
                for frame in self._frames.cut(received):
                    self._heard(frame)
                times -= 1
                if times <= 0:
                    return  # whoever talks without end gets its turn again, as do the others
        except BlockingIOError:
            return
        except OSError:
            pass
        except msgspec.DecodeError:
            log.exception("the process of job %s says what cannot be read: it is killed", self.attempt.lease.job.id)
            self.kill()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)

    def _heard(self, frame: FromChild) -> None:
        attempt = self.attempt
        context = attempt.context
        assert context is not None
        match frame:
            case Ended():
                if self._timer is not None:
                    self._timer.cancel()
                self._end(self._judged(frame.step))
                self._timer = self._loop.call_later(LINGER, self._lingers)
            case Failing(ended):
                self._failed = ended.step
            case Said(progress):
                context._said = progress
            case Logged():
                log_here(frame)
            case Opening():
                self._granting = self._loop.create_task(self._grant(context._begin_completion()))
            case Staged(stage, step):
                completion = context._begin_completion()
                completion.stage = Stage[stage]
                if step is not None:
                    completion.step = step

    def _judged(self, step: Transition) -> Outcome | Transition:
        """What it has decided; unless it did not know yet that its time was over."""
        task = self.attempt.settings.task
        too_late = self.attempt.signal.reason is AbortReason.TIMEOUT and self.attempt.completed is None
        if too_late and task is not None and isinstance(step, Finish) and step.state is State.SUCCEEDED:
            return timed_out(task)
        return step

    async def _grant(self, completion: Completion) -> None:
        try:
            await completion.transactions.make_room()
        except STORE_OUTAGE as error:
            self._send(Granted(str(error)))
        except Exception as error:  # the child must not wait for ever
            log.exception("the leases could not be secured for a transaction of job %s", self.attempt.lease.job.id)
            self._send(Granted(str(error)))
        else:
            self._send(Granted())

    # How.

    def _lingers(self) -> None:
        log.warning("job %s of task %s has ended, and its process has not: it is killed", *self.job)
        self.kill()

    def _kill_after(self, grace: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(grace, self.kill)

    def _send(self, frame: msgspec.Struct) -> None:
        if self._unsent:
            self._unsent += packed(frame)
            return
        message = packed(frame)
        try:
            sent = self._socket.send(message)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it has ended, and nobody reads this any more
        if sent < len(message):
            self._unsent += message[sent:]
            self._loop.add_writer(self._socket, self._send_rest)

    def _send_rest(self) -> None:
        """Send what the socket takes now."""
        try:
            del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
        if not self._unsent:
            self._loop.remove_writer(self._socket)


class Tail:
    """The end of what a child writes to stdout and stderr."""

    def __init__(self, loop: asyncio.AbstractEventLoop, size: int) -> None:
        self._loop = loop
        self._size = size
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._kept = bytearray()
        self._written = 0
        self._open = True
        self._open_theirs = True

    def begin(self) -> None:
        """The child has its end: read."""
        self._close_theirs()
        self._loop.add_reader(self._ours, self._read)

    def text(self) -> str:
        """What is kept, now."""
        if self._open:
            self._read()
        kept = storable(self._kept.decode(errors="backslashreplace"))
        return kept if self._written <= self._size else f"[{self._written - self._size:,} bytes cut] …{kept}"

    def close(self) -> None:
        self._close_theirs()
        if self._open:
            self._open = False
            self._loop.remove_reader(self._ours)
            os.close(self._ours)

    def _close_theirs(self) -> None:
        if self._open_theirs:
            self._open_theirs = False
            os.close(self.theirs)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while written := os.read(self._ours, 1 << 16):
                self._written += len(written)
                self._kept += written
                if len(self._kept) > 2 * self._size:
                    del self._kept[: -self._size]
            self._loop.remove_reader(self._ours)
        del self._kept[: -self._size]


def let_go(attempt: Attempt) -> Outcome:
    """What came of an attempt that was told to stop, or whose worker ends."""
    return Abandoned() if attempt.lost or attempt.child is None else Interrupted()


def _name(signum: int) -> str:
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"
