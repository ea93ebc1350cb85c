"""The records by which Resque's tools show workers and failures: ids of slots, what a failure says, heartbeats."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from datetime import datetime
from itertools import count

import msgspec

from tenure.bridges.custody import End
from tenure.core.after_fork import call_after_fork
from tenure.core.job import ErrorInfo, State

__all__ = ["Dead", "Slots", "backtrace", "dead_worker", "failure_of", "seconds_of"]

DEAD_AFTER = 300.0
"""Seconds without a heartbeat after which Ruby counts a worker as dead."""


class Slots:
    """The ids of one worker's slots, as Resque names workers: `host.tenure:pid+slot:queues`.

    The host is not the real one, because Ruby and pyres remove a worker of their own host whose process is none of theirs. Workers in
    one process have different slots.
    """

    def __init__(self, queues: Sequence[str]) -> None:
        self._queues = ",".join(queues)
        self._numbers: list[int] = []

    def of(self, slot: int | None) -> str:
        """The id of this slot, counted from 1; that of the first for a job that none of them ran."""
        while len(self._numbers) < (slot or 1):
            self._numbers.append(_numbers.take())
        host = socket.gethostname().replace(":", "-")
        return f"{host}.tenure:{os.getpid()}+{self._numbers[(slot or 1) - 1]}:{self._queues}"

    def free(self) -> None:
        """Let other workers of this process have the numbers."""
        _numbers.free(self._numbers)
        self._numbers = []


class _Numbers:
    """The numbers of the slots of all workers in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: set[int] = set()

    def take(self) -> int:
        with self._lock:
            number = next(each for each in count(1) if each not in self._taken)
            self._taken.add(number)
            return number

    def free(self, numbers: Sequence[int]) -> None:
        with self._lock:
            self._taken.difference_update(numbers)


_numbers = _Numbers()


def _forget_numbers() -> None:
    global _numbers  # noqa: PLW0603 - one per process
    _numbers = _Numbers()


call_after_fork(_forget_numbers)


def failure_of(end: End) -> bytes:
    """What an entry in `failed` says of this end, without the members that the script adds; empty if it is no failure."""
    if end.state in (State.SUCCEEDED, State.CANCELLED):
        return b""
    error = end.error or ErrorInfo(end.state.capitalize(), "")
    members = {"exception": error.type, "error": error.message, "backtrace": backtrace(error.traceback)}
    return msgspec.json.encode(members)[1:-1]


def backtrace(trace: str | None) -> list[str]:
    """The frames of a traceback, line by line, without the title and the message, which the entry has besides."""
    if not trace:
        return []
    causes, _, last = trace.rpartition(_TITLE)
    frames = last.splitlines()
    ends = next((number for number, line in enumerate(frames) if not line.startswith("  ")), len(frames))
    lines = [*causes.replace(_TITLE, "").splitlines(), *frames[:ends]]
    return [line.removeprefix("  ") for line in lines if line.strip(" ^~")]


_TITLE = "Traceback (most recent call last):\n"


class Dead(msgspec.Struct, frozen=True):
    """What `failed` says of the job of a worker that has died: the bytes before and after the time. Both are empty if it had none."""

    before: bytes = b""
    after: bytes = b""


def dead_worker(worker_id: str, record: bytes) -> Dead:
    """The failure of the job that a dead worker had, from its record, as Ruby writes it."""
    try:
        job = msgspec.json.decode(record, type=_Record)
        name = msgspec.json.decode(job.payload, type=_Payload).name
    except Exception:  # noqa: BLE001  (no record, or not one that says which job it had)
        return Dead()
    members = {
        "payload": job.payload,
        "exception": "Resque::PruneDeadWorkerDirtyExit",
        "error": f"Worker {worker_id} did not gracefully exit while processing {name}",
        "backtrace": [],
        "worker": worker_id,
        "queue": job.queue,
    }
    return Dead(b'{"failed_at":"', b'",' + msgspec.json.encode(members)[1:])


class _Record(msgspec.Struct):
    queue: str
    payload: msgspec.Raw


class _Payload(msgspec.Struct):
    name: str = msgspec.field(name="class")


def seconds_of(heartbeat: bytes) -> float | None:
    """A heartbeat as seconds since the epoch; None if it cannot be read."""
    try:
        found = datetime.fromisoformat(heartbeat.decode())
    except ValueError:
        return None
    return None if found.tzinfo is None else found.timestamp()
