"""Wake-up between processes that share a file: a folder of Unix datagram sockets beside it.

    jobs.db-bells/4f1c…               the doorbell of one store object
    jobs.db-bells/idle/4f1c….3~mail,*   somebody (its third) waits there for work in these queues

Whoever puts a job in line takes away one fitting idle mark and rings that bell: taking it away is what makes sure that one
new job wakes one worker, and two new jobs two. All of it is a hint: a ring that is lost costs no more than the next look
at the file's change counter.
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
"""Signals in one datagram: well below the smallest limit of a Unix socket (200 kB)."""


class Delivery(Enum):
    """What became of a message."""

    DONE = "done"
    FULL = "full"
    """Its receiver does not keep up."""

    LOST = "lost"
    """There is no receiver, or no way to it."""


class Doorbells:
    """All doorbells of one file, as one who rings them sees them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.folder = Path(path + "-bells")
        self._idle = f"{self.folder}/idle"
        self._lock = threading.RLock()  # a signal handler may ring as well
        self._socket: socket.socket | None = None
        self._folder_descriptor: int | None = None
        self._addresses = ""
        """What the addresses of all sockets begin with, once the folder is open."""

    def address(self, name: str) -> str:
        """Where the socket of this name is: through a descriptor of the folder, for a path may be longer than a socket's may."""
        if self._folder_descriptor is None:
            self._create_folders()
            self._folder_descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            here = f"/proc/self/fd/{self._folder_descriptor}"
            self._addresses = here if os.path.isdir(here) else str(self.folder)
        return f"{self._addresses}/{name}"

    def bind(self, bell: socket.socket, name: str) -> None:
        """Let a bell be rung under this name."""
        try:
            bell.bind(self.address(name))
        except FileNotFoundError:
            self.recreate_folder()
            bell.bind(self.address(name))

    def recreate_folder(self) -> None:
        """Make the folder again, which somebody has deleted."""
        if self._folder_descriptor is not None:
            os.close(self._folder_descriptor)
            self._folder_descriptor = None
        self._create_folders()

    def _create_folders(self) -> None:
        """Make the folders, for those who may use the file: 0700 beside a file of 0600."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.folder, self._mode())
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._idle, self._mode())

    def _mode(self) -> int:
        try:
            granted = os.stat(self._path).st_mode
        except OSError:
            granted = 0
        # Who may write to the file may use the folder, who may read it may look into it.
        return 0o700 | sum((7 if granted >> shift & 2 else 5) << shift for shift in (3, 0) if granted >> shift & 6)

    def ring(self, transaction: Transaction) -> None:
        """Wake and tell whoever is to hear of a transaction, once it is committed; on any thread.

        Not before: where processors are few, a worker that wakes up takes one from the commit that it waits for.
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
        """Wake idle workers for so many jobs that have come in line in this queue; on any thread."""
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
            return False  # somebody else woke it, it found work by itself, or it is not ours to take
        return True

    def send(self, bell: str, message: bytes) -> Delivery:
        """Ring a bell, with a message; nothing is waited for."""
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            try:
                self._socket.sendto(message, self.address(bell))
            except FileNotFoundError:
                if not os.path.lexists(self.folder / bell):
                    return Delivery.LOST
                self.recreate_folder()  # the folder that we hold open was deleted, and another made
                self._socket.sendto(message, self.address(bell))
        except ConnectionRefusedError:
            self.take_down(bell)  # its owner died
            return Delivery.LOST
        except BlockingIOError:
            return Delivery.FULL
        except OSError:
            return Delivery.LOST  # no folder: the change counter is beneath
        return Delivery.DONE

    def take_down(self, bell: str) -> None:
        """Remove a bell, unless somebody has done so."""
        with contextlib.suppress(OSError):
            os.unlink(self.folder / bell)

    def sweep(self) -> None:
        """Take down the doorbells of processes that died."""
        with contextlib.suppress(OSError):
            dead = {name for name in os.listdir(self.folder) if name != "idle" and not self.is_alive(name)}
            for name in dead:
                self.take_down(name)
            for mark in os.listdir(self._idle):
                if mark.partition(".")[0] in dead:
                    self._remove_mark(mark)

    def is_alive(self, bell: str) -> bool:
        """Whether the owner of a bell does."""
        # To connect says no more than that: a message could fill the queue of one who is busy.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as probe:
            try:
                probe.connect(self.address(bell))
            except (ConnectionRefusedError, FileNotFoundError):
                return False
            except OSError:
                return True
        return True

    def forget_parent(self) -> None:
        """In a forked child: leave what belongs to the parent alone."""
        self._socket = None
        self._folder_descriptor = None

    def close(self) -> None:
        """Let go of the socket to ring with, and of the folder, which stays: others may have a bell in it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._folder_descriptor is not None:
            os.close(self._folder_descriptor)
            self._folder_descriptor = None


class Doorbell:
    """The doorbell of one store object, on its event loop. Where none can be made it is silent, and its owner polls."""

    def __init__(self, bells: Doorbells, on_announcements: Callable[[Iterable[Announcement]], None]) -> None:
        self.name = secrets.token_hex(8)
        self._bells = bells
        self._on_announcements = on_announcements
        self._waiters: dict[str, Callable[[], None]] = {}
        self._numbers = count()
        self._loop = asyncio.get_running_loop()
        self.is_bound = False
        """Whether it can be rung at all."""

        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        with contextlib.suppress(OSError):
            bells.bind(self._socket, self.name)
            self._loop.add_reader(self._socket, self._receive)
            self.is_bound = True
            bells.sweep()

    @contextlib.contextmanager
    def waiting(self, patterns: Sequence[str], on_work: Callable[[], None]) -> Iterator[None]:
        """Show, for the length of a block, that somebody waits here for work in these queues."""
        waiter = f"{self.name}.{next(self._numbers)}"
        served = ",".join(patterns)
        # A file name has at most 255 bytes; who waits for more queues than fit is woken for any.
        mark = f"{self._bells.folder}/idle/{waiter}~{served if len(served) < 200 else '*'}"
        self._waiters[waiter] = on_work
        try:
            self._create_mark(mark)
            yield
        finally:
            if self._waiters.pop(waiter, None) is not None:  # whoever rang has taken the mark away
                with contextlib.suppress(OSError):
                    os.unlink(mark)

    def _create_mark(self, mark: str) -> None:
        with contextlib.suppress(OSError):
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_WRONLY, 0o666))
            except FileNotFoundError:
                # The folder is gone, and the bell with it; one without a bell is woken by its own looking.
                self._bells.recreate_folder()

    def close(self) -> None:
        """Take the bell down."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._bells.take_down(self.name)

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._handle(self._socket.recv(1 << 18))

    def _handle(self, message: bytes) -> None:
        if message.startswith(b"["):
            with contextlib.suppress(msgspec.DecodeError):  # not one of ours: anybody may write to the folder
                self._on_announcements(_decode(message))
        elif on_work := self._waiters.pop(message.decode(errors="replace"), None):
            on_work()
