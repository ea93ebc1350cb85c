"""Wires: connections to one Redis server; an error says whether a request may have been carried out.

`LoopWire` is for an event loop, `BlockingWire` for threads without one. The methods of both are coroutines, so that the
code above them is written once. Those of `BlockingWire` never wait for a loop, so `run_without_loop` can run them
anywhere.
"""

from __future__ import annotations

import asyncio
import encodings.idna  # noqa: F401 - a fork in the middle of its first use would leave the child waiting for it for ever
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, TypeVar

import hiredis
import redis
import redis.asyncio
from redis.exceptions import AuthenticationError, BusyLoadingError, RedisError, ResponseError

from tenure.errors import OutcomeUnknown, StoreUnavailable
from tenure.stores.redis.address import Address, Node
from tenure.stores.url import connection_refused

__all__ = ["CREDENTIALS_HINT", "BlockingWire", "ErrorReply", "LoopWire", "Wire", "pack_command", "run_without_loop"]

T = TypeVar("T")

CommandArg = str | bytes | int | float

ErrorReply = ResponseError
"""The server's error in reply to a request. The connection stays usable."""


def pack_command(*args: CommandArg) -> bytes:
    """A command in the Redis protocol."""
    # Numbers as text, because hiredis crashes if a signal handler raises while it formats one.
    text = tuple([arg if isinstance(arg, (bytes, str)) else repr(arg) for arg in args])
    request: bytes = hiredis.pack_command(text)  # type: ignore[arg-type]  # its stub says a tuple of one
    return request


def run_without_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits for an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        answer: T = end.value
        return answer
    raise AssertionError("a coroutine for blocking code has waited for an event loop")


class Wire(ABC):
    """A connection to one server. Call `open` first. It is unusable after any error except an `ErrorReply`."""

    def __init__(self, address: Address, node: Node) -> None:
        self.node = node
        self._address = address

    @abstractmethod
    async def open(self) -> None:
        """Connect, authenticate and select the database; `StoreUnavailable` if that fails or takes too long."""

    @abstractmethod
    async def execute(self, request: bytes, timeout: float) -> Any:
        """Send a request and return its reply within `timeout` seconds.

        Raises `ErrorReply` if the server refused: nothing was done, except what a script did before its error.
        Raises `StoreUnavailable` if the server cannot have received the whole request, `OutcomeUnknown` if it may have.
        """

    @abstractmethod
    async def is_alive(self) -> bool:
        """Whether the connection looks usable, without a round trip: it is open, and no unexpected data has arrived."""

    @abstractmethod
    async def drop(self) -> None:
        """Close the connection. A caller that waits for a reply gets an error."""

    @staticmethod
    @abstractmethod
    async def sleep(seconds: float) -> None:
        """Sleep before a retry."""

    def _describe(self, error: BaseException) -> str:
        if connection_refused(error):
            return f"Redis at {self.node} refused the connection: is it running?"
        if isinstance(error, AuthenticationError):
            return f"Redis at {self.node}: {str(error).rstrip('.')}: {CREDENTIALS_HINT}"
        return f"Redis at {self.node}: {str(error) or type(error).__name__}"


class LoopWire(Wire):
    """A connection of the running event loop."""

    def __init__(self, address: Address, node: Node) -> None:
        super().__init__(address, node)
        # No timeout of the driver's, because it would make a task for every request. One around both directions is
        # enough.
        self._connection = _driver_connection(address, node, redis.asyncio.connection, timeout=None)

    async def open(self) -> None:
        try:
            async with asyncio.timeout(self._address.connect_timeout):
                await self._connection.connect()
        except _FAILURES as error:
            raise StoreUnavailable(self._describe(error)) from error
        except BaseException:
            await self.drop()  # the driver leaves a half-made connection open if it is cancelled
            raise

    async def execute(self, request: bytes, timeout: float) -> Any:
        sent = False
        try:
            async with asyncio.timeout(timeout):
                await self._connection.send_packed_command(request, check_health=False)
                sent = True
                return await self._connection.read_response()
        except ErrorReply:
            raise
        except TimeoutError:
            # Even if not everything was sent: closing a connection still sends what its buffer holds.
            raise OutcomeUnknown(f"Redis at {self.node} has not answered in {timeout:g} s") from None
        except (*_FAILURES, RuntimeError) as error:  # uvloop raises RuntimeError for a write to a closed connection
            if sent and not isinstance(error, _NOT_DONE):
                raise OutcomeUnknown(self._describe(error)) from error
            raise StoreUnavailable(self._describe(error)) from error

    async def send(self, request: bytes) -> None:
        """Send a request whose reply comes through `receive`."""
        try:
            async with asyncio.timeout(self._address.timeout):
                await self._connection.send_packed_command(request, check_health=False)
        except (*_FAILURES, RuntimeError) as error:
            raise StoreUnavailable(self._describe(error)) from error

    async def receive(self, timeout: float) -> Any:
        """The next message that the server sends unasked; None after `timeout` seconds of silence."""
        try:
            return await self._connection.read_response(timeout=timeout)
        except _FAILURES as error:
            raise StoreUnavailable(self._describe(error)) from error

    async def is_alive(self) -> bool:
        try:
            return not await self._connection.can_read()
        except RedisError:
            return False

    async def drop(self) -> None:
        await self._connection.disconnect(nowait=True)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)


class BlockingWire(Wire):
    """A connection for one thread at a time, without an event loop."""

    def __init__(self, address: Address, node: Node) -> None:
        super().__init__(address, node)
        self._connection = _driver_connection(address, node, redis.connection, timeout=address.timeout)

    async def open(self) -> None:
        try:
            self._connection.connect()
        except _FAILURES as error:
            raise StoreUnavailable(self._describe(error)) from error

    async def execute(self, request: bytes, timeout: float) -> Any:  # noqa: ARG002
        """As in `Wire`, but the timeout is the address's, and bounds each read of a part of the reply."""
        sent = False
        try:
            self._connection.send_packed_command([request], check_health=False)
            sent = True
            return self._connection.read_response()
        except ErrorReply:
            raise
        except _FAILURES as error:
            if sent and not isinstance(error, _NOT_DONE):
                raise OutcomeUnknown(self._describe(error)) from error
            raise StoreUnavailable(self._describe(error)) from error

    async def is_alive(self) -> bool:
        try:
            return not self._connection.can_read(timeout=0)
        except RedisError:
            return False

    async def drop(self) -> None:
        self._connection.disconnect()

    @staticmethod
    async def sleep(seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - there is no loop here


CREDENTIALS_HINT = "correct the user and the password in the URL, or on the server"
_FAILURES = (RedisError, OSError)
_NOT_DONE = (BusyLoadingError, AuthenticationError)
"""Error replies that the driver treats as the end of the connection."""


def _driver_connection(address: Address, node: Node, driver: Any, *, timeout: float | None) -> Any:
    """A connection of the driver, not yet connected. Differences between the driver's versions are handled here."""
    options: dict[str, Any] = {
        "protocol": 2,
        "db": address.db,
        "username": address.user,
        "password": address.password,
        "socket_timeout": timeout,
        "socket_connect_timeout": address.connect_timeout,
        "retry": None,
        "retry_on_error": [],
        "health_check_interval": 0,
        # Sent on each new connection, which also shows that the server answers.
        "driver_info": redis.DriverInfo(name="tenure", lib_version=None),
    }
    if not node.port:
        return driver.UnixDomainSocketConnection(path=node.host, **options)
    options |= {"host": node.host, "port": node.port, "socket_keepalive": True}
    if not address.tls:
        return driver.Connection(**options)
    return driver.SSLConnection(
        ssl_ca_certs=address.ca,
        ssl_certfile=address.cert,
        ssl_keyfile=address.key or address.cert,
        ssl_cert_reqs="required" if address.verify else "none",
        ssl_check_hostname=address.verify,
        **options,
    )
