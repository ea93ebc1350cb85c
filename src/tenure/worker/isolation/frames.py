"""Messages between a worker, its template and their children, and how they travel through a socket."""

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
    """The job to run: the first message to a child."""

    lease: Lease
    worker: str
    number: str
    """Lease number in hexadecimal: it may be too large for a msgpack integer."""

    @classmethod
    def of(cls, lease: Lease) -> Begin:
        return cls(msgspec.structs.replace(lease, number=0), lease.job.worker or "", f"{lease.number:x}")

    @property
    def original_lease(self) -> Lease:
        return msgspec.structs.replace(self.lease, number=int(self.number, 16))


class Abort(msgspec.Struct, tag=2):
    """Stop the job, for this reason."""

    reason: AbortReason


class Granted(msgspec.Struct, tag=3):
    """The worker is ready for the transaction that was announced. `error` says why it is not."""

    error: str | None = None


# From a child.


class ProgressUpdate(msgspec.Struct, tag=1):
    """Progress of the job."""

    progress: Progress


class Logged(msgspec.Struct, tag=2):
    """A log record. The template sends these too."""

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
    """The job is about to begin a transaction that may end it, and waits for `Granted`."""


class StageChanged(msgspec.Struct, tag=4):
    """The stage of that transaction: the name of a `Stage`, and once it is final, the transition that was committed."""

    stage: str
    transition: Finish | None = None


class AttemptEnded(msgspec.Struct, tag=5):
    """The attempt has ended with one of these three transitions."""

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
    """The attempt has failed with this transition, and the `on_failure` hooks are called next.

    The transition holds even if the child dies meanwhile.
    """

    ended: AttemptEnded


# To the template.


class Fork(msgspec.Struct, tag=1):
    """Fork a child with this number.

    `descriptors` is the number of file descriptors sent along: its socket, and one for its output.
    """

    number: int
    descriptors: int


class Kill(msgspec.Struct, tag=2):
    """Kill this child, and all processes that it has started."""

    number: int


class Prepare(msgspec.Struct, tag=3):
    """Run the `before_first_fork` hooks."""


# From the template.


class Refused(msgspec.Struct, tag=12):
    """The child could not be forked: a hook raised this error, or the system refused a process."""

    number: int
    error: ErrorInfo
    by_hook: bool


class Exited(msgspec.Struct, tag=13):
    """The child has exited with this wait status. `peak` is its largest resident memory, in bytes."""

    number: int
    status: int
    peak: int


class Prepared(msgspec.Struct, tag=14):
    """The hooks have run. `error` is what one of them raised."""

    error: ErrorInfo | None = None


FromChild = ProgressUpdate | Logged | Opening | StageChanged | AttemptEnded | FailureDecided
FromTemplate = Logged | Refused | Exited | Prepared

TO_CHILD: msgspec.msgpack.Decoder[Begin | Abort | Granted] = msgspec.msgpack.Decoder(Begin | Abort | Granted)
FROM_CHILD: msgspec.msgpack.Decoder[FromChild] = msgspec.msgpack.Decoder(FromChild)
TO_TEMPLATE: msgspec.msgpack.Decoder[Fork | Kill | Prepare] = msgspec.msgpack.Decoder(Fork | Kill | Prepare)
FROM_TEMPLATE: msgspec.msgpack.Decoder[FromTemplate] = msgspec.msgpack.Decoder(FromTemplate)

_encode = msgspec.msgpack.Encoder().encode


def packed(frame: msgspec.Struct) -> bytes:
    """A frame as bytes: its length in four bytes, then its body."""
    body = _encode(frame)
    return len(body).to_bytes(4, "big") + body


class Frames(Generic[F]):
    """Splits the bytes from a socket into frames."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[F]) -> None:
        self._decoder = decoder
        self._bytes = bytearray()

    def cut(self, received: bytes) -> Iterator[F]:
        """The frames completed by these bytes.

        Raises `msgspec.DecodeError` if another program has written to the socket.
        """
        self._bytes += received
        while len(self._bytes) >= 4:
            end = 4 + int.from_bytes(self._bytes[:4], "big")
            if len(self._bytes) < end:
                return
            frame = self._decoder.decode(memoryview(self._bytes)[4:end])
            del self._bytes[:end]
            yield frame
