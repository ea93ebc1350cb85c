"""Publishes event messages to watchers in all processes that share the file.

Each watcher has a Unix datagram socket in the folder of the doorbells:

    jobs.db-bells/watch-4f1c…   the socket of one watcher

A publisher lists these sockets and sends to each. It never waits: messages for a watcher whose buffer is full are held back and
sent later. If more than `HELD_BACK` are held back, the oldest are dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections import deque
from collections.abc import AsyncIterator, Sequence

import msgspec

from tenure.errors import StoreUnavailable
from tenure.stores.mailbox import Mailbox
from tenure.stores.sqlite.doorbell import Delivery, Doorbells

__all__ = ["Publisher", "Watcher"]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[str]).decode

PREFIX = "watch-"

HELD_BACK = 10_000
"""Messages buffered for one watcher at most, in the publisher and again in the watcher."""

DATAGRAM_BYTES = 50_000
"""Bytes in one datagram, roughly: a quarter of what a socket accepts."""

RETRY_AFTER = 0.02
"""Seconds until the publisher tries again to send to a watcher whose buffer was full."""

LOOK_EVERY = 10.0
"""Seconds between a watcher's checks that its socket has not been deleted."""


class Publisher:
    """Sends the event messages of one store object, on its event loop."""

    def __init__(self, path: str) -> None:
        # Not the engine's: those are used on another thread.
        self._bells = Doorbells(path)
        self._held_back: dict[str, deque[bytes]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watched(self) -> bool:
        """Whether there is a live watcher. Removes the sockets of watchers that have died."""
        for name in self._watchers():
            if self._bells.is_alive(name):
                return True
            self._bells.take_down(name)
        return False

    def publish(self, messages: Sequence[str]) -> None:
        """Send these messages to all current watchers, after all messages published before."""
        encoded = [_encode(message) for message in messages]
        for name in self._watchers():
            if name in self._held_back:
                self._held_back[name].extend(encoded)
            elif left := self._send(name, deque(encoded, HELD_BACK)):
                self._held_back[name] = left
        if self._timer is None:
            self._retry_later()

    def close(self) -> None:
        """Drop the messages that are held back, and close."""
        self._held_back.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._bells.close()

    def _watchers(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._bells.folder) if name.startswith(PREFIX)]
        except OSError:
            return []

    def _retry_later(self) -> None:
        waiting = bool(self._held_back)
        self._timer = asyncio.get_running_loop().call_later(RETRY_AFTER, self._retry) if waiting else None

    def _retry(self) -> None:
        sent = {name: self._send(name, messages) for name, messages in self._held_back.items()}
        self._held_back = {name: left for name, left in sent.items() if left}
        self._retry_later()

    def _send(self, name: str, messages: deque[bytes]) -> deque[bytes]:
        """Send as many of these messages as the watcher accepts. Returns those that are left."""
        while messages:
            datagram = _first_datagram(messages)
            match self._bells.send(name, b"[" + b",".join(datagram) + b"]"):
                case Delivery.FULL:
                    return messages
                case Delivery.LOST:
                    messages.clear()
                case Delivery.DONE:
                    for _ in datagram:
                        messages.popleft()
        return messages


def _first_datagram(messages: deque[bytes]) -> list[bytes]:
    """As many of these messages as fit into one datagram, at least one."""
    datagram: list[bytes] = []
    size = 0
    for message in messages:
        size += len(message)
        if datagram and size > DATAGRAM_BYTES:
            break
        datagram.append(message)
    return datagram


class Watcher:
    """Receives event messages, on the event loop of its store object."""

    def __init__(self, bells: Doorbells) -> None:
        self._bells = bells
        self._name = PREFIX + secrets.token_hex(8)
        self._messages: Mailbox[str] = Mailbox(HELD_BACK)
        self._closed = False
        self._loop = asyncio.get_running_loop()
        try:
            self._socket = self._bind()
        except OSError as error:
            raise StoreUnavailable(
                f"cannot watch events: no socket can be created in {str(bells.folder)!r} ({error.strerror}): make it writable"
            ) from error

    def messages(self) -> AsyncIterator[str]:
        """The messages received, as they arrive, until `close`."""
        return self._messages.read(self._rebind_if_deleted, LOOK_EVERY)

    def close(self) -> None:
        """Stop receiving, and remove the socket."""
        if not self._closed:
            self._closed = True
            self._messages.close()
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._bells.take_down(self._name)

    def _bind(self) -> socket.socket:
        subscription = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            self._bells.bind(subscription, self._name)
        except OSError:
            subscription.close()
            raise
        self._loop.add_reader(subscription, self._receive)
        return subscription

    def _rebind_if_deleted(self) -> None:
        """Create the socket again if the folder was deleted."""
        if os.path.lexists(self._bells.folder / self._name):
            return
        with contextlib.suppress(OSError):  # the next check tries again
            subscription, self._socket = self._socket, self._bind()
            self._loop.remove_reader(subscription)
            subscription.close()

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                message = self._socket.recv(1 << 18)
                with contextlib.suppress(
                    msgspec.DecodeError
                ):  # not ours: other programs may be able to write to the folder
                    self._messages.put(_decode(message))
