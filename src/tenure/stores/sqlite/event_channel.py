"""Notes between processes that share a file: one Unix datagram socket for each who watches, among the doorbells.

    jobs.db-bells/watch-4f1c…   somebody hears here

Whoever publishes looks who there is, and sends to each. Nobody is waited for: notes for a watcher that does not keep up are held
back until it does, and the oldest go when there are too many.
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
from tenure.stores.sqlite.doorbell import Delivery, Doorbells

__all__ = ["Publisher", "Watcher"]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[str]).decode

PREFIX = "watch-"

HELD_BACK = 10_000
"""Notes that wait for one watcher at most, here and there."""

DATAGRAM_BYTES = 50_000
"""Bytes that go in one datagram, about: a quarter of what a socket takes."""

RETRY_AFTER = 0.02
"""Seconds until a watcher whose socket was full is tried again."""

LOOK_EVERY = 10.0
"""Seconds after which a watcher sees whether it can still be found."""


class Publisher:
    """Sends the notes of one store object, on its event loop."""

    def __init__(self, path: str) -> None:
        # Its own, for the engine's ring on another thread.
        self._bells = Doorbells(path)
        self._held_back: dict[str, deque[bytes]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watched(self) -> bool:
        """Whether anybody watches; who has died does not."""
        for name in self._watchers():
            if self._bells.is_alive(name):
                return True
            self._bells.take_down(name)
        return False

    def publish(self, messages: Sequence[str]) -> None:
        """Send these to everybody who watches now, after what was published before."""
        encoded = [_encode(message) for message in messages]
        for name in self._watchers():
            if name in self._held_back:
                self._held_back[name].extend(encoded)
            elif left := self._send(name, deque(encoded, HELD_BACK)):
                self._held_back[name] = left
        if self._timer is None:
            self._retry_later()

    def close(self) -> None:
        """Give up what is held back."""
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
        """Send as many of these as the watcher takes; what is left."""
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
    """As many of these as go in one datagram."""
    datagram: list[bytes] = []
    size = 0
    for message in messages:
        size += len(message)
        if datagram and size > DATAGRAM_BYTES:
            break
        datagram.append(message)
    return datagram


class Watcher:
    """One who hears, on the event loop of its store object."""

    def __init__(self, bells: Doorbells) -> None:
        self._bells = bells
        self._name = PREFIX + secrets.token_hex(8)
        self._messages: deque[str] = deque(maxlen=HELD_BACK)
        self._received = asyncio.Event()
        self._closed = False
        self._loop = asyncio.get_running_loop()
        try:
            self._socket = self._bind()
        except OSError as error:
            raise StoreUnavailable(
                f"no notes can be heard, for no socket can be made in {str(bells.folder)!r} ({error.strerror}): make it writable"
            ) from error

    async def messages(self) -> AsyncIterator[str]:
        """What is heard, as it comes, until the end."""
        while not self._closed:
            if self._messages:
                yield self._messages.popleft()
                continue
            self._received.clear()
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._received.wait()
            except TimeoutError:
                self._rebind_if_deleted()

    def close(self) -> None:
        """Hear nothing more."""
        if not self._closed:
            self._closed = True
            self._received.set()
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
        """Be there again if somebody has deleted the folder."""
        if os.path.lexists(self._bells.folder / self._name):
            return
        with contextlib.suppress(OSError):  # the next look tries again
            subscription, self._socket = self._socket, self._bind()
            self._loop.remove_reader(subscription)
            subscription.close()

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                message = self._socket.recv(1 << 18)
                with contextlib.suppress(msgspec.DecodeError):  # not one of ours: anybody may write to the folder
                    self._messages.extend(_decode(message))
                self._received.set()
