"""What a worker, its template and their children tell each other: values, and how they travel through a socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

from tenure.core.job import ErrorInfo, Progress
from tenure.core.lease import AbortReason, Lease
from tenure.core.lifecycle import Finish, Park, Requeue, Transition

__all__ = [
    "FROM_CHILD",
    "FROM_TEMPLATE",
    "TO_CHILD",
    "TO_TEMPLATE",
    "Abort",
    "AttemptEnded",
    "Begin",
    "Exited",
    "FailureDecided",
    "Fork",
    "Frames",
    "Granted",
    "Kill",
    "Logged",
    "Opening",
    "Prepare",
    "Prepared",
    "ProgressUpdate",
    "Refused",
    "StageChanged",
    "packed",
]

F = TypeVar("F")

# To a child.


class Begin(msgspec.Struct, tag=1):
    """What to run; the first thing that a child is told."""

    lease: Lease
    worker: str
    number: str
    """Of the lease, which may be too large for a number here."""

    @classmethod
    def of(cls, lease: Lease) -> Begin:
        return cls(msgspec.structs.replace(lease, number=0), lease.job.worker or "", f"{lease.number:x}")

    @property
    def original_lease(self) -> Lease:
        return msgspec.structs.replace(self.lease, number=int(self.number, 16))


class Abort(msgspec.Struct, tag=2):
    """Stop, and why."""

    reason: AbortReason


class Granted(msgspec.Struct, tag=3):
    """The worker is ready for the transaction that was announced; or why it is not."""

    error: str | None = None


# From a child.


class ProgressUpdate(msgspec.Struct, tag=1):
    """How far the job is."""

    progress: Progress


class Logged(msgspec.Struct, tag=2):
    """A log record; the template sends them too."""

    name: str
    level: int
    message: str
    created: float
    path: str
    line: int
    function: str | None = None
    thread: str | None = None
    pid: int | None = None
    trace: str | None = None
    extra: dict[str, Any] = {}


class Opening(msgspec.Struct, tag=3):
    """The job begins a transaction that may end it; it waits for `Granted`."""


class StageChanged(msgspec.Struct, tag=4):
    """How far that transaction is: the name of a `Stage`, and once it is final, what was committed."""

    stage: str
    transition: Finish | None = None


class AttemptEnded(msgspec.Struct, tag=5):
    """What becomes of the job: one of the three."""

    finish: Finish | None = None
    requeue: Requeue | None = None
    park: Park | None = None

    @classmethod
    def of(cls, transition: Transition) -> AttemptEnded:
        match transition:
            case Finish():
                return cls(finish=transition)
            case Requeue():
                return cls(requeue=transition)
            case Park():
                return cls(park=transition)

    @property
    def transition(self) -> Transition:
        transition = self.finish or self.requeue or self.park
        assert transition is not None
        return transition


class FailureDecided(msgspec.Struct, tag=6):
    """The attempt has failed, which leads to this, and now hooks are told: whatever becomes of the child meanwhile."""

    ended: AttemptEnded


# To the template.


class Fork(msgspec.Struct, tag=1):
    """Fork a child, to be known by this number; so many descriptors come with it: its socket, and one for its output."""

    number: int
    descriptors: int


class Kill(msgspec.Struct, tag=2):
    """Kill that child, and whatever it has started, if it is still there."""

    number: int


class Prepare(msgspec.Struct, tag=3):
    """ChildAttempt the hooks that come before the first fork."""


# From the template.


class Refused(msgspec.Struct, tag=12):
    """There is no such child: a hook of the user's has raised this, or no process can be had now."""

    number: int
    error: ErrorInfo
    by_hook: bool


class Exited(msgspec.Struct, tag=13):
    """The child has ended, with this wait status, having occupied at most so many bytes."""

    number: int
    status: int
    peak: int


class Prepared(msgspec.Struct, tag=14):
    """The hooks have run; or what one of them has raised."""

    error: ErrorInfo | None = None


FromChild = ProgressUpdate | Logged | Opening | StageChanged | AttemptEnded | FailureDecided
FromTemplate = Logged | Refused | Exited | Prepared

TO_CHILD: msgspec.msgpack.Decoder[Begin | Abort | Granted] = msgspec.msgpack.Decoder(Begin | Abort | Granted)
FROM_CHILD: msgspec.msgpack.Decoder[FromChild] = msgspec.msgpack.Decoder(FromChild)
TO_TEMPLATE: msgspec.msgpack.Decoder[Fork | Kill | Prepare] = msgspec.msgpack.Decoder(Fork | Kill | Prepare)
FROM_TEMPLATE: msgspec.msgpack.Decoder[FromTemplate] = msgspec.msgpack.Decoder(FromTemplate)

_encode = msgspec.msgpack.Encoder().encode


def packed(frame: msgspec.Struct) -> bytes:
    """A frame as it travels: its length in four bytes, and itself."""
    body = _encode(frame)
    return len(body).to_bytes(4, "big") + body


class Frames(Generic[F]):
    """Cuts what comes out of a socket into frames."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[F]) -> None:
        self._decoder = decoder
        self._bytes = bytearray()

    def cut(self, received: bytes) -> Iterator[F]:
        """The frames that are whole with this; `msgspec.DecodeError` if it was none of ours who sent them."""
        self._bytes += received
        while len(self._bytes) >= 4:
            end = 4 + int.from_bytes(self._bytes[:4], "big")
            if len(self._bytes) < end:
                return
            frame = self._decoder.decode(memoryview(self._bytes)[4:end])
            del self._bytes[:end]
            yield frame
