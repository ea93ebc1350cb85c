"""A network that fails on request: what lies between a client and a server, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

__all__ = ["Proxy", "proxied"]

T = TypeVar("T")

BEGINNING = 4096
"""Bytes of what a client says that are remembered."""


class Proxy:
    """Hands bytes on between clients of its port and a server, until it is told otherwise. For any thread."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        """`tls` is what its clients must speak; the server is always spoken to plainly."""
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._pairs: set[_Pair] = set()
        self._losing: bytes | None = None
        self._passing = 0
        self.lost = threading.Event()
        """Set when a reply has been lost."""

        self.tries = 0
        """How often somebody has tried to connect."""

        self.passed = 0
        """Bytes that it has handed on, in either direction."""

        self.open = self._do(_event())
        self.drip: float | None = None
        """Seconds for each byte that the server says; None is as fast as it can."""

        self._server = self._do(asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=tls))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def lose_reply(self, to: bytes, after: int = 0) -> None:
        """Hand the next request that contains this on, and cut the connection when it has been answered, in place of the answer.

        `after` so many of them, which are left alone.
        """
        self.lost.clear()
        self._losing, self._passing = to, after

    def blackhole(self) -> None:
        """Swallow everything in both directions, and keep all connections up."""
        self._call(self.open.clear)

    def deafen(self, who_said: bytes = b"") -> None:
        """Swallow everything on the connections that there are, and keep them up; new ones are served.

        `who_said`: only on those where this was said early on.
        """
        for pair in tuple(self._pairs):
            pair.deaf = pair.deaf or who_said in pair.began

    def heal(self) -> None:
        self.drip = None
        self._call(self.open.set)

    def cut(self) -> None:
        """Reset all connections, as a failing host does; new ones are welcome."""
        self._call(self._reset)

    def close(self) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        self._reset()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        self._loop.set_exception_handler(lambda *_: None)  # whoever is in the middle of something is cut off
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _reset(self) -> None:
        for pair in tuple(self._pairs):
            pair.reset()

    def _do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def _call(self, function: Callable[[], object]) -> None:
        async def call() -> None:
            function()

        self._do(call())

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tries += 1
        try:
            there = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair(writer, there[1])
        self._pairs.add(pair)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(reader, pair))
                group.create_task(self._replies(there[0], pair))
        except* (OSError, _EndedError):
            pass
        finally:
            pair.reset()
            self._pairs.discard(pair)

    async def _requests(self, reader: asyncio.StreamReader, pair: _Pair) -> None:
        while data := await reader.read(65536):
            await self.open.wait()
            if pair.deaf:
                continue
            pair.began += data[: BEGINNING - len(pair.began)]
            if self._losing is not None and self._losing in data:
                if self._passing == 0:
                    self._losing = None
                    pair.doomed = True
                self._passing -= 1
            self.passed += len(data)
            pair.there.write(data)
            await pair.there.drain()
        raise _EndedError

    async def _replies(self, reader: asyncio.StreamReader, pair: _Pair) -> None:
        while data := await reader.read(65536):
            await self.open.wait()
            if pair.deaf:
                continue
            if pair.doomed:
                self.lost.set()
                break
            self.passed += len(data)
            for part in [data] if self.drip is None else [data[at : at + 1] for at in range(len(data))]:
                pair.here.write(part)
                await pair.here.drain()
                await asyncio.sleep(self.drip or 0)
        raise _EndedError


class _EndedError(Exception):
    """One side has hung up."""


class _Pair:
    """The two halves of a connection: to the client, to the server."""

    def __init__(self, here: asyncio.StreamWriter, there: asyncio.StreamWriter) -> None:
        self.here = here
        self.there = there
        self.began = b""
        self.doomed = False
        self.deaf = False

    def reset(self) -> None:
        self.there.transport.abort()
        raw = self.here.get_extra_info("socket")
        if raw is not None and raw.fileno() >= 0:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # an RST, not a FIN
        self.here.transport.abort()


async def _event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@contextlib.contextmanager
def proxied(port: int, tls: ssl.SSLContext | None = None) -> Iterator[Proxy]:
    proxy = Proxy(port, tls)
    try:
        yield proxy
    finally:
        proxy.close()
