"""One connection to one Redis server: asked, it answers, or the error says whether it may have done what it was asked.

There are two of a kind: one for an event loop, one for threads without a loop. Their methods are coroutines both, so that
whatever is said over them is written once; those of the blocking one never wait for a loop, and `run_without_loop` runs them anywhere.
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

__all__ = ["BlockingWire", "ErrorReply", "LoopWire", "Wire", "pack_command", "run_without_loop"]

T = TypeVar("T")

CommandArg = str | bytes | int | float

ErrorReply = ResponseError
"""What a server answers instead of doing what it was asked; the connection is as good as before."""


def pack_command(*args: CommandArg) -> bytes:
    """A request, as it goes over the wire."""
    # Numbers as text: hiredis does not survive a signal handler that raises while it makes text of one.
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
    """A connection to one server; not connected before `open`, useless after any error but an `ErrorReply`."""

    def __init__(self, address: Address, node: Node) -> None:
        self.node = node
        self._address = address

    @abstractmethod
    async def open(self) -> None:
        """Connect, say who we are and choose the database; `StoreUnavailable` if that fails or takes too long."""

    @abstractmethod
    async def execute(self, request: bytes, timeout: float) -> Any:
        """Send a request and read its answer within so many seconds.

        An `ErrorReply` is an answer too: nothing was done, or what a script did before it met an error.
        `StoreUnavailable` if the server cannot have got the whole request, `OutcomeUnknown` if it may have.
        """

    @abstractmethod
    async def is_alive(self) -> bool:
        """Whether the other side is still there, as far as one can tell without asking it."""

    @abstractmethod
    async def drop(self) -> None:
        """Let go of the connection; whoever is waiting for an answer gets an error."""

    @staticmethod
    @abstractmethod
    async def sleep(seconds: float) -> None:
        """Wait, before something is tried again."""

    def _describe(self, error: BaseException) -> str:
        if connection_refused(error):
            return f"Redis at {self.node} refused the connection: is it running?"
        return f"Redis at {self.node}: {str(error) or type(error).__name__}"


class LoopWire(Wire):
    """A connection of the running event loop."""

    def __init__(self, address: Address, node: Node) -> None:
        super().__init__(address, node)
        # Without a timeout of the driver's: it would make a task for every request. One around both directions is enough.
        self._connection = _driver_connection(address, node, redis.asyncio.connection, timeout=None)

    async def open(self) -> None:
        try:
            async with asyncio.timeout(self._address.connect_timeout):
                await self._connection.connect()
        except AuthenticationError as error:
            raise StoreUnavailable(f"{self._describe(error)}: {_CREDENTIALS_HINT}") from error
        except _FAILURES as error:
            raise StoreUnavailable(self._describe(error)) from error
        except BaseException:
            await self.drop()  # the driver leaves a half-made connection open when it is cancelled
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
            # Even if it was not all sent: closing a connection still sends what its buffer holds.
            raise OutcomeUnknown(f"Redis at {self.node} has not answered in {timeout:g} s") from None
        except (*_FAILURES, RuntimeError) as error:  # the last is uvloop's, for writing to what is closed
            if sent and not isinstance(error, _NOT_DONE):
                raise OutcomeUnknown(self._describe(error)) from error
            raise StoreUnavailable(self._describe(error)) from error

    async def send(self, request: bytes) -> None:
        """Send a request whose answer is one of those that `hear` gives."""
        try:
            async with asyncio.timeout(self._address.timeout):
                await self._connection.send_packed_command(request, check_health=False)
        except (*_FAILURES, RuntimeError) as error:
            raise StoreUnavailable(self._describe(error)) from error

    async def receive(self, timeout: float) -> Any:
        """Read what the server says by itself; None if it has been silent for so many seconds."""
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
        except AuthenticationError as error:
            raise StoreUnavailable(f"{self._describe(error)}: {_CREDENTIALS_HINT}") from error
        except _FAILURES as error:
            raise StoreUnavailable(self._describe(error)) from error

    async def execute(self, request: bytes, timeout: float) -> Any:  # noqa: ARG002
        """As every wire's; the timeout is the address's, and bounds every look for a part of the answer."""
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


_CREDENTIALS_HINT = "correct the user and the password in the URL, or on the server"
_FAILURES = (RedisError, OSError)
_NOT_DONE = (BusyLoadingError, AuthenticationError)
"""Answers that the driver takes for the end of the connection."""


def _driver_connection(address: Address, node: Node, driver: Any, *, timeout: float | None) -> Any:
    """A connection of the driver's, not yet connected. Whatever its versions disagree about is said here."""
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
        # Told at each new connection, and so a greeting that shows whether anybody is there.
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
