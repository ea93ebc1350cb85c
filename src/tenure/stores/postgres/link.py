"""The way to one PostgreSQL: a statement is done, once, or the error says whether it may have been."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import asyncpg  # type: ignore[import-untyped]

from tenure.core.after_fork import abandon, forget_after_fork
from tenure.errors import InvalidUrl, OutcomeUnknown, StoreError, StoreFull, StoreUnavailable
from tenure.stores.postgres.address import Address
from tenure.stores.url import connection_refused

__all__ = ["BROKEN", "ISOLATION", "Connection", "KnownAlready", "Link", "Refusal", "unsent"]

T = TypeVar("T")

Connection = Any
"""A connection of the driver, which has no types."""

Refusal: Any = asyncpg.PostgresError
"""What the server answers instead of doing what it was asked: nothing was done."""

BROKEN: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""What the driver raises on a connection that is lost, at whatever instant."""

CLOSE: Final = 1.0
"""Seconds that the server has to answer to the end of a connection."""

CALL_OFF: Final = 5.0
"""The same, if what is under way there is to be called off first."""

ISOLATION: Final = "read_committed"
"""The isolation level of our own transactions, as the driver names it."""

TRIES: Final = 5
"""How often a step is done again that met another one and was undone by the server."""

_COLLIDED: Final = {"40001", "40P01"}
_FULL: Final = {"53100": "its disk is full", "53200": "it is out of memory"}
_ABOUT_AN_ITEM: Final = ("21", "22", "23", "42", "44", "54", "P0")
"""Classes of codes that may be about what was asked. Any other is about the server: it starts, has no connection left, is a
replica, has given up waiting for a lock, refuses the role, has lost a file. It passes, and then the same is done."""

_RIGHTS: Final = "grant this role its rights, or run `tenure schema apply` as one that has them"
_ABSENT: Final = "run `tenure schema apply`, or bring back what was there"
_ENTRY: Final = "correct the user and the password in the URL, or on the server"
_CONDITIONS: Final = {
    "42501": _RIGHTS,
    "3F000": _ABSENT,
    "42P01": _ABSENT,
    "42703": _ABSENT,
    "42883": _ABSENT,
    "28000": _ENTRY,
    "28P01": _ENTRY,
}
"""What to do about conditions of the server that do not end by themselves."""

_NOTED: Final = "TN010"
_UNDONE: Final = "TN011"
"""How many of those that came before still count."""

_CUT: Final = ("08", "40003", "57P01", "57P02", "57P05")
"""The connection was ended, perhaps just after the commit."""


class Link:
    """Connections of one event loop. Nothing is connected before the first use.

    `StoreUnavailable` means surely not done, because the server cannot or does not let us; `OutcomeUnknown` perhaps done;
    `StoreFull` not done for want of room; any other `StoreError` that the server refused, perhaps for what was asked. A
    `Refusal` with one of our own codes comes as it is. Every wait is bounded. A cancelled call may have been done.

    Statements run in READ COMMITTED, whatever the server, the database or the role has as default: the steps are written for it,
    and under any other level those that meet would be undone.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.on_notes: Callable[[list[str]], None] | None = None
        """Given what a step has told besides its answer, once it has been done: `parts/note.sql`."""

        self._closed = False
        self._begin()
        forget_after_fork(self)

    def _begin(self) -> None:
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self._notes: dict[Connection, list[str]] = {}
        self._called_off: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(self.address.connections)

    async def fetch(self, statement: str, *values: object) -> list[Any]:
        """Do one statement, as a transaction of its own; its rows."""
        if self.address.pooled:
            return await self.use(
                lambda connection: _in_transaction(connection, statement, values), self.address.timeout
            )
        # By the timeout of the driver, which costs a third of one around it all: 6 µs of the 75 that a round trip takes.
        return await self._again(lambda connection: connection.fetch(statement, *values, timeout=self.address.timeout))

    async def use(self, action: Callable[[Connection], Awaitable[T]], timeout: float) -> T:
        """Do something with a connection that nobody else uses meanwhile, within so many seconds; again if it collides with others."""

        async def within(connection: Connection) -> T:
            async with asyncio.timeout(timeout):
                return await action(connection)

        return await self._again(within)

    async def lend(self, begin: Callable[[Connection], Awaitable[object]]) -> Connection:
        """A connection on which something has begun that goes on, as long as the borrower likes; `take_back` must follow."""
        self._refuse_if_closed()
        try:
            async with asyncio.timeout(self.address.timeout):
                await self._room.acquire()
        except TimeoutError:
            raise StoreUnavailable(
                f"all {self.address.connections} connections to PostgreSQL at {self.address} are lent to jobs: "
                "say connections= in its URL, or hold them for less long"
            ) from None
        try:
            connection = await self._begun(begin)
        except BaseException:
            self._room.release()
            raise
        self._lent.add(connection)
        return connection

    async def _begun(self, begin: Callable[[Connection], Awaitable[object]]) -> Connection:
        while True:
            fresh = not self._idle
            connection = await self.connect() if fresh else self._idle.pop()
            try:
                async with asyncio.timeout(self.address.timeout):
                    await begin(connection)
            except BaseException as error:
                connection.terminate()
                lost = self.lost(connection, error)
                if lost is None:
                    raise
                if fresh:
                    raise lost from error
                continue  # it has waited for a while, and the server may have ended it meanwhile
            return connection

    async def take_back(self, connection: Connection) -> None:
        """What was lent is free again, as new; or ended, if whatever goes on there has not."""
        self._lent.discard(connection)
        try:
            if connection.is_closed() or connection.is_in_transaction() or self._closed:
                connection.terminate()
                return
            if not self.address.pooled:
                await connection.reset(timeout=self.address.timeout)  # what the borrower has SET
            self._idle.append(connection)
        except BaseException as error:
            connection.terminate()
            if not isinstance(error, Exception):
                raise
        finally:
            self._room.release()

    def lost(self, connection: Connection, error: BaseException) -> StoreUnavailable | None:
        """What an error is to us if it means that a lent connection has been lost; None if it is the borrower's own."""
        code = getattr(error, "sqlstate", None) or ""
        about_it = isinstance(error, (OSError, asyncpg.InternalClientError)) or code.startswith(_CUT)
        if about_it or (isinstance(error, asyncpg.InterfaceError) and connection.is_closed()):
            return StoreUnavailable(self._said(error))
        return None

    async def connect(self) -> Connection:
        """A connection of one's own, which the caller ends."""
        self._refuse_if_closed()
        try:
            async with asyncio.timeout(self.address.connect_timeout):
                connection = await asyncpg.connect(
                    self.address.dsn,
                    timeout=self.address.connect_timeout + 1,  # ours comes first
                    statement_cache_size=0 if self.address.pooled else 100,
                    max_cached_statement_lifetime=0,
                )
                if not self.address.pooled:  # a pooler would keep the setting for other programs
                    await _set_isolation(connection)
        except Refusal as refusal:
            kind = StoreError if refusal.sqlstate == "3D000" else StoreUnavailable  # no such database: a wrong URL
            raise kind(self._advice(refusal)) from refusal
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            raise StoreUnavailable(self._said(error)) from error
        except ValueError:
            connection = None
        if connection is None:
            # Not from the driver's error, nor in its context: that may show a part of the URL.
            raise InvalidUrl(f"{self.address!r}: the driver cannot read the URL, check its ports and options")
        connection.add_log_listener(self._note)
        return connection

    def _note(self, connection: Connection, message: Any) -> None:
        if message.sqlstate == _NOTED:
            self._notes.setdefault(connection, []).append(message.detail)
        elif message.sqlstate == _UNDONE:
            del self._notes.get(connection, [])[int(message.detail) :]

    async def close(self) -> None:
        """Let calls under way end, and then go of all connections; those that are lent are ended under the borrower's hands."""
        if self._closed:
            return
        self._closed = True
        for connection in self._lent:
            connection.terminate()
        for _ in range(self.address.connections - len(self._lent)):
            await self._room.acquire()
        for connection in self._idle:
            await _end(connection, CLOSE)
        self._idle.clear()
        for task in self._called_off:
            task.cancel()
        await asyncio.gather(*self._called_off, return_exceptions=True)

    async def _again(self, action: Callable[[Connection], Awaitable[T]]) -> T:
        for _ in range(TRIES - 1):
            try:
                return await self._use(action)
            except _Collision:
                await asyncio.sleep(random.uniform(0, 0.05))  # noqa: S311
        return await self._use(action)

    async def _use(self, action: Callable[[Connection], Awaitable[T]]) -> T:
        self._refuse_if_closed()
        async with self._room:
            while self._idle:
                try:
                    return await self._act(self._idle.pop(), action)
                except _NotSent:
                    continue  # it has waited for a while, and the server has ended it meanwhile
            return await self._act(await self.connect(), action)

    async def _act(self, connection: Connection, action: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            answer = await action(connection)
        except Refusal as refusal:
            self._notes.pop(connection, None)
            if connection.is_closed() or connection.is_in_transaction():
                connection.terminate()
            else:
                self._idle.append(connection)
            raise self._meaning(refusal) from refusal
        except BaseException as error:
            self._notes.pop(connection, None)
            # Cancelled, too: an answer that nobody has read must not meet the next statement.
            if isinstance(error, (TimeoutError, asyncio.CancelledError)):
                self._call_off(connection)
            else:
                connection.terminate()
            if isinstance(error, asyncpg.DataError):
                raise StoreError(self._said(error)) from error
            if unsent(error):
                raise _NotSent(self._said(error)) from error
            if isinstance(error, (OSError, asyncpg.InternalClientError)):
                raise OutcomeUnknown(self._said(error)) from error
            raise
        self._idle.append(connection)
        if self._notes and (notes := self._notes.pop(connection, None)) and self.on_notes is not None:
            self.on_notes(notes)
        return answer

    def _call_off(self, connection: Connection) -> None:
        """End a connection, and on the server what was asked of it.

        It would go on with that although nobody waits, and whoever asks again adds to it: more and more, on one that is slow.
        """
        task = asyncio.get_running_loop().create_task(_end(connection, CALL_OFF))
        self._called_off.add(task)
        task.add_done_callback(self._called_off.discard)

    def _meaning(self, refusal: Any) -> Exception:
        """What a refusal is to us."""
        code = refusal.sqlstate or ""
        text = self._said(refusal)
        if code.startswith("TN"):
            ours: Exception = refusal
            return ours
        if code in _COLLIDED or isinstance(refusal, asyncpg.InvalidCachedStatementError):
            return _Collision(text)
        if code == "23505":
            return KnownAlready(text)
        if code in _FULL:
            return StoreFull(f"{text}: {_FULL[code]}")
        if code.startswith(_CUT):
            return OutcomeUnknown(text)
        if code in _CONDITIONS or not code.startswith(_ABOUT_AN_ITEM):
            return StoreUnavailable(self._advice(refusal))
        return StoreError(text)

    def _advice(self, refusal: Any) -> str:
        """What the server said, and what to do about it."""
        advice = _CONDITIONS.get(refusal.sqlstate or "")
        return self._said(refusal) + (f": {advice}" if advice else "")

    def _said(self, error: BaseException) -> str:
        if isinstance(error, TimeoutError):
            return f"PostgreSQL at {self.address} has not answered in {self.address.timeout:g} s"
        if connection_refused(error):
            return f"PostgreSQL at {self.address} refused the connection: is it running?"
        return f"PostgreSQL at {self.address}: {' '.join(str(error).split()) or type(error).__name__}"

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"the store at {self.address} has been closed")

    def forget(self) -> None:
        """In a forked child: leave the connections to the parent, without closing them, and make others."""
        abandon(*self._idle, *self._lent, *self._called_off)
        self._begin()


class KnownAlready(StoreError):
    """There is a row of this key; nothing was done."""


class _Collision(StoreUnavailable):
    """The server has undone one of two steps that wait for each other; surely not done."""


class _NotSent(StoreUnavailable):
    """The connection was lost before the statement went out; surely not done."""


def unsent(error: BaseException) -> bool:
    """Whether the driver refused before it sent anything, because the connection has ended."""
    if isinstance(error, asyncpg.InternalClientError):
        return str(error).startswith("cannot switch to state")
    return isinstance(error, asyncpg.InterfaceError)


async def _in_transaction(connection: Connection, statement: str, values: Sequence[object]) -> list[Any]:
    # The driver asks twice, and between two transactions the pooler may have changed the server.
    async with connection.transaction(isolation=ISOLATION):
        rows: list[Any] = await connection.fetch(statement, *values)
    return rows


async def _set_isolation(connection: Connection) -> None:
    try:
        await connection.execute("SET default_transaction_isolation = 'read committed'")
    except BaseException:
        connection.terminate()
        raise


async def _end(connection: Connection, timeout: float) -> None:
    """Close it, once the server knows that a statement under way is called off; of which the driver takes care."""
    try:
        await connection.close(timeout=timeout)
    except BROKEN:
        connection.terminate()
