"""Doorbells wake idle workers in other processes that share the file, and deliver announcements to them.

A doorbell is a Unix datagram socket in a folder beside the file. To ring it is to send it a datagram (decision 0002).

    jobs.db-bells/4f1c…                 the doorbell of one store object
    jobs.db-bells/idle/4f1c….3~mail,*   an idle mark: waiter 3 of that store object waits for work in these queues

A process that has put a job in line removes one idle mark with a matching queue, and rings that doorbell. Only one process can
remove a mark, so one new job wakes one worker and two new jobs wake two. All of this is a hint: if a datagram is lost, the worker
finds the job at its next look at the file's change counter.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import count
from pathlib import Path

import msgspec

from tenure.core.patterns import serves
from tenure.stores.sqlite.transaction import Transaction
from tenure.stores.values import Announcement

__all__ = ["Delivery", "Doorbell", "Doorbells"]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Announcement]).decode

ANNOUNCEMENTS_EACH = 500
"""Announcements in one datagram at most: well below the smallest limit of a Unix socket (200 kB)."""


class Delivery(Enum):
    """What became of a datagram."""

    DONE = "done"
    FULL = "full"
    """The receiver's buffer is full."""

    LOST = "lost"
    """There is no receiver, or it cannot be reached."""


class Doorbells:
    """The sending side: finds and rings all doorbells of one file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.folder = Path(path + "-bells")
        self._idle = f"{self.folder}/idle"
        self._lock = threading.RLock()  # reentrant, because a signal handler may ring too
        self._socket: socket.socket | None = None
        self._folder_descriptor: int | None = None
        self._addresses = ""
        """The folder part of all socket addresses, once the folder is open."""

    def address(self, name: str) -> str:
        """The address of a socket, through a descriptor of the folder, because the path itself may be too long for a socket."""
        if self._folder_descriptor is None:
            self._create_folders()
            self._folder_descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            here = f"/proc/self/fd/{self._folder_descriptor}"
            self._addresses = here if os.path.isdir(here) else str(self.folder)
        return f"{self._addresses}/{name}"

    def bind(self, bell: socket.socket, name: str) -> None:
        """Bind a socket to this name, so that it can be rung."""
        try:
            bell.bind(self.address(name))
        except FileNotFoundError:
            self.recreate_folder()
            bell.bind(self.address(name))

    def recreate_folder(self) -> None:
        """Create the folder again after it was deleted."""
        if self._folder_descriptor is not None:
            os.close(self._folder_descriptor)
            self._folder_descriptor = None
        self._create_folders()

    def _create_folders(self) -> None:
        """Create the folders, with permissions that match those of the file: 0700 beside a file of 0600."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.folder, self._mode())
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._idle, self._mode())

    def _mode(self) -> int:
        try:
            granted = os.stat(self._path).st_mode
        except OSError:
            granted = 0
        # Users who may write to the file get full access to the folder, users who may read it may list it.
        return 0o700 | sum((7 if granted >> shift & 2 else 5) << shift for shift in (3, 0) if granted >> shift & 6)

    def ring(self, transaction: Transaction) -> None:
        """Wake idle workers and send announcements after this transaction has committed; on any thread.

        Not before the commit: on a machine with few processors, a worker that wakes up would compete with the commit it waits for.
        """
        with self._lock:
            for queue, number in transaction.ready.items():
                self._wake(queue, number)
            by_bell: dict[str, list[Announcement]] = {}
            for bell, announcement in transaction.announcements:
                by_bell.setdefault(bell, []).append(announcement)
            for bell, announcements in by_bell.items():
                for start in range(0, len(announcements), ANNOUNCEMENTS_EACH):
                    self.send(bell, _encode(announcements[start : start + ANNOUNCEMENTS_EACH]))

    def wake(self, queue: str, number: int) -> None:
        """Wake up to `number` idle workers that serve this queue; on any thread."""
        with self._lock:
            self._wake(queue, number)

    def _wake(self, queue: str, number: int) -> None:
        try:
            marks = os.listdir(self._idle)
        except OSError:
            return
        if len(marks) > 1:
            random.shuffle(marks)
        for mark in marks:
            if number <= 0:
                return
            waiter, _, patterns = mark.partition("~")
            if (
                serves(patterns.split(","), queue)
                and self._remove_mark(mark)
                and self.send(waiter.partition(".")[0], os.fsencode(waiter)) is Delivery.DONE
            ):
                number -= 1

    def _remove_mark(self, mark: str) -> bool:
        try:
            os.unlink(f"{self._idle}/{mark}")
        except OSError:
            return False  # another process woke it, it found work by itself, or we have no permission
        return True

    def send(self, bell: str, message: bytes) -> Delivery:
        """Ring a doorbell with a message. Never blocks."""
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            try:
                self._socket.sendto(message, self.address(bell))
            except FileNotFoundError:
                if not os.path.lexists(self.folder / bell):
                    return Delivery.LOST
                self.recreate_folder()  # the folder that we hold open was deleted and created again
                self._socket.sendto(message, self.address(bell))
        except ConnectionRefusedError:
            self.take_down(bell)  # the process that owned it has died
            return Delivery.LOST
        except BlockingIOError:
            return Delivery.FULL
        except OSError:
            return Delivery.LOST  # no folder: the worker finds the job by the change counter
        return Delivery.DONE

    def take_down(self, bell: str) -> None:
        """Remove a doorbell's socket file, if it still exists."""
        with contextlib.suppress(OSError):
            os.unlink(self.folder / bell)

    def sweep(self) -> None:
        """Remove the doorbells and idle marks of processes that have died."""
        with contextlib.suppress(OSError):
            dead = {name for name in os.listdir(self.folder) if name != "idle" and not self.is_alive(name)}
            for name in dead:
                self.take_down(name)
            for mark in os.listdir(self._idle):
                if mark.partition(".")[0] in dead:
                    self._remove_mark(mark)

    def is_alive(self, bell: str) -> bool:
        """Whether the process that owns a doorbell is alive."""
        # Connecting sends nothing: a message could fill the buffer of a busy receiver.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as probe:
            try:
                probe.connect(self.address(bell))
            except (ConnectionRefusedError, FileNotFoundError):
                return False
            except OSError:
                return True
        return True

    def forget_parent(self) -> None:
        """In a forked child: drop the socket and the descriptor, which belong to the parent."""
        self._socket = None
        self._folder_descriptor = None

    def close(self) -> None:
        """Close the sending socket and the folder's descriptor. The folder stays, because other processes may have doorbells in it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._folder_descriptor is not None:
            os.close(self._folder_descriptor)
            self._folder_descriptor = None


class Doorbell:
    """The receiving side: the doorbell of one store object, on its event loop. If no socket can be created, the store object polls."""

    def __init__(self, bells: Doorbells, on_announcements: Callable[[Iterable[Announcement]], None]) -> None:
        self.name = secrets.token_hex(8)
        self._bells = bells
        self._on_announcements = on_announcements
        self._waiters: dict[str, Callable[[], None]] = {}
        self._numbers = count()
        self._loop = asyncio.get_running_loop()
        self.is_bound = False
        """Whether the socket exists, so that the doorbell can be rung."""

        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        with contextlib.suppress(OSError):
            bells.bind(self._socket, self.name)
            self._loop.add_reader(self._socket, self._receive)
            self.is_bound = True
            bells.sweep()

    @contextlib.contextmanager
    def waiting(self, patterns: Sequence[str], on_work: Callable[[], None]) -> Iterator[None]:
        """Have an idle mark for these queues while the block runs; `on_work` is called when the mark's doorbell rings."""
        waiter = f"{self.name}.{next(self._numbers)}"
        served = ",".join(patterns)
        # A file name has at most 255 bytes. A waiter with more queues than fit is woken for any queue.
        mark = f"{self._bells.folder}/idle/{waiter}~{served if len(served) < 200 else '*'}"
        self._waiters[waiter] = on_work
        try:
            self._create_mark(mark)
            yield
        finally:
            if self._waiters.pop(waiter, None) is not None:  # otherwise the process that rang has removed the mark
                with contextlib.suppress(OSError):
                    os.unlink(mark)

    def _create_mark(self, mark: str) -> None:
        with contextlib.suppress(OSError):
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_WRONLY, 0o666))
            except FileNotFoundError:
                # The folder is gone, and the doorbell with it: this waiter finds work by the change counter.
                self._bells.recreate_folder()

    def close(self) -> None:
        """Close and remove the doorbell."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._bells.take_down(self.name)

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._handle(self._socket.recv(1 << 18))

    def _handle(self, message: bytes) -> None:
        if message.startswith(b"["):
            with contextlib.suppress(
                msgspec.DecodeError
            ):  # not ours: other programs may be able to write to the folder
                self._on_announcements(_decode(message))
        elif on_work := self._waiters.pop(message.decode(errors="replace"), None):
            on_work()
