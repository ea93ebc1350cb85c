"""`ChildProcess`: the worker's side of a child process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import re
import signal
import socket
from collections.abc import Callable

import msgspec

from tenure.core.escape import escaped
from tenure.core.failure import storable
from tenure.core.job import ErrorInfo, State
from tenure.core.lease import AbortReason
from tenure.core.lifecycle import Finish, Transition
from tenure.core.outcome import Abandoned, Interrupted, Outcome, Raised
from tenure.errors import STORE_OUTAGE, ChildDied
from tenure.tasks.completion.completion import Completion
from tenure.tasks.completion.stage import Stage
from tenure.worker.attempt import Attempt
from tenure.worker.executor import timed_out
from tenure.worker.isolation.frames import (
    FROM_CHILD,
    Abort,
    AttemptEnded,
    Begin,
    Exited,
    FailureDecided,
    Frames,
    FromChild,
    Granted,
    Logged,
    Opening,
    ProgressUpdate,
    StageChanged,
    packed,
)
from tenure.worker.isolation.records import log_here
from tenure.worker.output import LiveTail

__all__ = ["ChildProcess", "stopped_outcome"]

TIMEOUT_GRACE = 4.0
"""Seconds that a job has to stop after its timeout, before its process is killed."""

LOST_GRACE = 0.5
"""Seconds that a job has to stop whose lease is lost: within a second of its cancellation it is gone."""

REMIND_AFTER = 0.1
"""Seconds after which `Abort` is sent again, doubled each time.

A signal that arrives just as the interpreter is about to wait is only noticed with the next one.
"""

LINGER = 30.0
"""Seconds that a child has to exit once its job has ended."""

log = logging.getLogger("tenure.worker")


class ChildProcess:
    """One child process. All methods are called on the worker's loop."""

    def __init__(self, attempt: Attempt, number: int, kill: Callable[[int], None]) -> None:
        self.attempt = attempt
        self.number = number
        self.ended: asyncio.Future[Outcome | Transition] = asyncio.get_running_loop().create_future()
        """Outcome or transition of the attempt. The process may take a little longer to exit."""

        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the process has exited."""

        self._kill = kill
        self._killed = False
        self._begun = False
        self._loop = asyncio.get_running_loop()
        self._socket, self._theirs = socket.socketpair()
        self._socket.setblocking(False)
        self._output = OutputTail(self._loop, attempt.settings.output) if attempt.settings.output else None
        self._frames = Frames(FROM_CHILD)
        self._unsent = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._reminder: asyncio.TimerHandle | None = None
        self._granting: asyncio.Task[None] | None = None
        self._failed: Transition | None = None
        """The transition of a failed attempt whose `on_failure` hooks are running in the child."""

    # Starting.

    @property
    def descriptors(self) -> list[int]:
        """File descriptors that the template passes to the child."""
        return [self._theirs.fileno(), *(() if self._output is None else (self._output.theirs,))]

    def begin(self) -> None:
        """Send the job to the child that is being forked, and read its messages."""
        self._begun = True
        self._theirs.close()
        if self._output is not None:
            self._output.begin()
        self._loop.add_reader(self._socket, self._read)
        self._send(Begin.of(self.attempt.lease))
        self.attempt.child = self
        if self._output is not None:
            self.attempt.tail = LiveTail(self._output)

    # Stopping.

    def stop(self) -> None:
        """Send it the abort reason of its signal.

        After a timeout or a lost lease it is killed soon; on shutdown the caller decides when.
        """
        match self.attempt.signal.reason:
            case AbortReason.SHUTDOWN:
                self.terminate(None)
            case AbortReason.TIMEOUT:
                self.terminate(TIMEOUT_GRACE)
            case _:
                self.terminate(LOST_GRACE)

    def terminate(self, grace: float | None) -> None:
        """Send it the abort reason, and kill it after `grace` seconds; None: do not kill it."""
        if self.attempt.signal.reason is not None and not self.ended.done():
            if self._reminder is None:
                self._send_abort(self.attempt.signal.reason, REMIND_AFTER)
            if grace is not None:
                self._kill_after(grace)

    def _send_abort(self, reason: AbortReason, again: float) -> None:
        if not self.ended.done():
            self._send(Abort(reason))
            self._reminder = self._loop.call_later(again, self._send_abort, reason, again * 2)

    def kill(self) -> None:
        """Kill it at once, with all processes that it has started."""
        if not self.gone.done():
            self._killed = True
            self._kill(self.number)

    def give_up(self) -> None:
        """Kill it, because its slot no longer waits for the job. If the job has ended, the process exits by itself."""
        if not self._begun:
            self.not_started(Abandoned())
        elif not self.ended.done():
            self.kill()

    @property
    def job(self) -> tuple[str, str]:
        """Id and task name of its job."""
        return self.attempt.lease.job.id, self.attempt.lease.job.task

    def forget(self) -> None:
        """Release timers, readers and descriptors, because the process has exited or no longer matters."""
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
        self.close_descriptors()
        if not self.gone.done():
            self.gone.set_result(None)

    def close_descriptors(self) -> None:
        """Close the descriptors."""
        self._socket.close()
        self._theirs.close()
        if self._output is not None:
            self._output.close()

    # How it ends.

    def exited(self, exited: Exited) -> None:
        """The process has exited."""
        self._read(math.inf)
        if not self.ended.done():
            self._end(self._failed or self._death(exited))
        self.forget()

    def not_started(self, outcome: Outcome) -> None:
        """The process was not started, with this outcome for the attempt."""
        self._end(outcome)
        self.forget()

    def _end(self, outcome: Outcome | Transition) -> None:
        if not self.ended.done():
            if self._output is not None:
                self.attempt.output = self._output.text() or None
            self.ended.set_result(outcome)

    def _death(self, exited: Exited) -> Outcome:
        """The outcome of an attempt whose process exited before the job had ended."""
        attempt = self.attempt
        task, limit = attempt.settings.task, attempt.settings.memory_limit
        assert task is not None
        if attempt.signal.reason is AbortReason.TIMEOUT:
            return timed_out(
                task, how=f": it did not stop within {TIMEOUT_GRACE:g} s, and was killed" if self._killed else ""
            )
        if attempt.signal.aborted:
            return stopped_outcome(attempt)
        code = os.waitstatus_to_exitcode(exited.status)
        memory = f"it had occupied up to {exited.peak >> 20:,} MiB of memory"
        if limit is not None:
            memory += f", and its memory_limit is {limit >> 20:,} MiB beside what was loaded"
        if code >= 0:
            why = f"its process ended with exit code {code} before the job had; {memory}"
        elif self._killed:
            why = "its process was killed, because its worker was asked to kill it"
        else:
            why = f"its process was killed by {_name(-code)}"
            why += " (which the kernel sends when memory runs out)" if code == -signal.SIGKILL else ""
            why += f"; {memory}"
        died = ChildDied(
            why, exit_code=code if code >= 0 else None, signal=-code if code < 0 else None, peak=exited.peak
        )
        return Raised(died, ErrorInfo("ChildDied", why))

    # Messages from the child.

    def _read(self, times: float = 1) -> None:
        try:
            while received := self._socket.recv(1 << 16):
                for frame in self._frames.cut(received):
                    self._handle(frame)
                times -= 1
                if times <= 0:
                    return  # a child that never stops writing must not keep the others waiting
        except BlockingIOError:
            return
        except OSError:
            pass
        except msgspec.DecodeError:
            log.exception("the process of job %s sent an unreadable message: killed", self.attempt.lease.job.id)
            self.kill()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)

    def _handle(self, frame: FromChild) -> None:
        attempt = self.attempt
        context = attempt.context
        assert context is not None
        match frame:
            case AttemptEnded():
                if self._timer is not None:
                    self._timer.cancel()
                self._end(self._unless_timed_out(frame.transition))
                self._timer = self._loop.call_later(LINGER, self._lingers)
            case FailureDecided(ended):
                self._failed = ended.transition
            case ProgressUpdate(progress):
                context._progress = progress
            case Logged():
                log_here(frame)
            case Opening():
                self._granting = self._loop.create_task(self._grant(context._begin_completion()))
            case StageChanged(stage, transition):
                context._begin_completion().mirror(Stage[stage], transition)

    def _unless_timed_out(self, transition: Transition) -> Outcome | Transition:
        """The child's transition, unless the child did not know yet that its timeout was over."""
        task = self.attempt.settings.task
        too_late = self.attempt.signal.reason is AbortReason.TIMEOUT and self.attempt.completed is None
        if too_late and task is not None and isinstance(transition, Finish) and transition.state is State.SUCCEEDED:
            return timed_out(task)
        return transition

    async def _grant(self, completion: Completion) -> None:
        try:
            await completion.transactions.secure_leases()
        except STORE_OUTAGE as error:
            self._send(Granted(str(error)))
        except Exception as error:  # the child must not wait for ever
            log.exception("could not extend the leases for a transaction of job %s", self.attempt.lease.job.id)
            self._send(Granted(str(error)))
        else:
            self._send(Granted())

    # Timers and the socket.

    def _lingers(self) -> None:
        log.warning("job %s of task %s has ended, but its process has not: killed", *self.job)
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
            return  # the process has exited, so the message does not matter
        if sent < len(message):
            self._unsent += message[sent:]
            self._loop.add_writer(self._socket, self._send_rest)

    def _send_rest(self) -> None:
        """Send as much of the rest as the socket takes now."""
        try:
            del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
        if not self._unsent:
            self._loop.remove_writer(self._socket)


class OutputTail:
    """Keeps the last bytes that a child writes to stdout and stderr."""

    def __init__(self, loop: asyncio.AbstractEventLoop, size: int) -> None:
        self._loop = loop
        self._size = size
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._kept = bytearray()
        self.written = 0
        """Bytes that were written, in all."""

        self._open = True
        self._open_theirs = True

    def begin(self) -> None:
        """Start to read, once the child has the other end."""
        self._close_theirs()
        self._loop.add_reader(self._ours, self._read)

    def tail(self, most: int) -> str:
        """The last `most` characters of what was read so far; may be called on any thread."""
        kept = bytes(self._kept[-4 * most :]).decode(errors="backslashreplace")
        return "".join(escaped(line) if line != "\n" else line for line in re.split("(\n)", kept))[-most:]

    def text(self) -> str:
        """The output so far."""
        if self._open:
            self._read()
        kept = storable(self._kept.decode(errors="backslashreplace"))
        return kept if self.written <= self._size else f"[{self.written - self._size:,} bytes cut] …{kept}"

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
                self.written += len(written)
                self._kept += written
                if len(self._kept) > 2 * self._size:
                    del self._kept[: -self._size]
            self._loop.remove_reader(self._ours)
        del self._kept[: -self._size]


def stopped_outcome(attempt: Attempt) -> Outcome:
    """The outcome of an attempt that was aborted, or whose worker stops."""
    return Abandoned() if attempt.lost or attempt.child is None else Interrupted()


def _name(signum: int) -> str:
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"
