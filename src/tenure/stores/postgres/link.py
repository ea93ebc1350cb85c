"""Link: the connections of an event loop to PostgreSQL. A call is done once, or its error says whether it may be."""

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

__all__ = ["BROKEN", "ISOLATION", "Connection", "DuplicateKey", "Link", "Refusal", "unsent"]

T = TypeVar("T")

Connection = Any
"""A connection of the driver, asyncpg, which has no types."""

Refusal: Any = asyncpg.PostgresError
"""An error that the server answered: it has done nothing."""

BROKEN: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""What the driver may raise when a connection is lost."""

CLOSE: Final = 1.0
"""Seconds to wait for the server when a connection is closed."""

CANCEL: Final = 5.0
"""The same, if the statement that runs there must be cancelled first."""

ISOLATION: Final = "read_committed"
"""The isolation level of the store's transactions, as the driver names it."""

TRIES: Final = 5
"""How often a call is made that the server rolls back because of a deadlock or a serialization failure."""

_COLLIDED: Final = {"40001", "40P01"}
_FULL: Final = {"53100": "its disk is full", "53200": "it is out of memory"}
_ABOUT_AN_ITEM: Final = ("21", "22", "23", "42", "44", "54", "P0")
"""Classes of codes that may be about the call. All others are conditions of the server, after which the same call succeeds: it
is starting, has no connection left, is a replica, timed out on a lock, refuses the role, has lost a file."""

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
"""What to do about conditions of the server that do not pass by themselves, by code."""

_REPORT: Final = "TN010"
_RETRACT: Final = "TN011"
"""Codes of the messages of functions/report_json.sql and functions/retract_reports.sql. The detail of a retraction is the number
of reports that still count."""

_CUT: Final = ("08", "40003", "57P01", "57P02", "57P05")
"""Codes of a connection that was ended, perhaps just after the commit."""


class Link:
    """The connections of one event loop. The first call connects.

    A call raises `StoreUnavailable` if it was certainly not done, because the server is unreachable or not ready;
    `OutcomeUnknown` if it may have been done; `StoreFull` if the server is out of disk or memory; another `StoreError` if the
    server refused it, perhaps because of its arguments. A `Refusal` with one of Tenure's codes (TN…) is passed on. Every wait is
    bounded. A cancelled call may have been done.

    Statements run in READ COMMITTED, whatever default the server, the database or the role has: the operations are written for
    it, and under another level the server would roll concurrent ones back.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.on_reports: Callable[[list[str]], None] | None = None
        """Called with the reports of an operation after it has succeeded: functions/report_changes.sql."""

        self._closed = False
        self._begin()
        forget_after_fork(self)

    def _begin(self) -> None:
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self._reports: dict[Connection, list[str]] = {}
        self._cancelling: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(self.address.connections)

    async def fetch(self, statement: str, *values: object) -> list[Any]:
        """Execute one statement in its own transaction and return its rows."""
        if self.address.pooled:
            return await self.use(
                lambda connection: _in_transaction(connection, statement, values), self.address.timeout
            )
        # The timeout of the driver costs a third of `asyncio.timeout` around the call: 6 of the 75 µs of a round trip.
        return await self._with_retries(
            lambda connection: connection.fetch(statement, *values, timeout=self.address.timeout)
        )

    async def use(self, action: Callable[[Connection], Awaitable[T]], timeout: float) -> T:
        """Run `action` with a connection reserved for it, within `timeout` seconds; retry it after a deadlock."""

        async def within(connection: Connection) -> T:
            async with asyncio.timeout(timeout):
                return await action(connection)

        return await self._with_retries(within)

    async def lend(self, begin: Callable[[Connection], Awaitable[object]]) -> Connection:
        """Lend a connection on which `begin` has succeeded, for as long as the borrower likes. `release` must follow."""
        self._refuse_if_closed()
        try:
            async with asyncio.timeout(self.address.timeout):
                await self._room.acquire()
        except TimeoutError:
            raise StoreUnavailable(
                f"all {self.address.connections} connections to PostgreSQL at {self.address} are lent to jobs: "
                "set a higher connections= in its URL, or hold them for less time"
            ) from None
        try:
            connection = await self._begin_on(begin)
        except BaseException:
            self._room.release()
            raise
        self._lent.add(connection)
        return connection

    async def _begin_on(self, begin: Callable[[Connection], Awaitable[object]]) -> Connection:
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
                continue  # the server may have ended the connection while it was idle
            return connection

    async def release(self, connection: Connection) -> None:
        """Take a lent connection back and reset it; or close it, if it is still in a transaction."""
        self._lent.discard(connection)
        try:
            if connection.is_closed() or connection.is_in_transaction() or self._closed:
                connection.terminate()
                return
            if not self.address.pooled:
                await connection.reset(timeout=self.address.timeout)  # undo the SETs of the borrower
            self._idle.append(connection)
        except BaseException as error:
            connection.terminate()
            if not isinstance(error, Exception):
                raise
        finally:
            self._room.release()

    def lost(self, connection: Connection, error: BaseException) -> StoreUnavailable | None:
        """The error to raise if `error` means that a lent connection is lost; None if the borrower caused it."""
        code = getattr(error, "sqlstate", None) or ""
        about_it = isinstance(error, (OSError, asyncpg.InternalClientError)) or code.startswith(_CUT)
        if about_it or (isinstance(error, asyncpg.InterfaceError) and connection.is_closed()):
            return StoreUnavailable(self._describe(error))
        return None

    async def connect(self) -> Connection:
        """Open a connection that the caller closes."""
        self._refuse_if_closed()
        try:
            async with asyncio.timeout(self.address.connect_timeout):
                connection = await asyncpg.connect(
                    self.address.dsn,
                    timeout=self.address.connect_timeout + 1,  # the one above comes first
                    statement_cache_size=0 if self.address.pooled else 100,
                    max_cached_statement_lifetime=0,
                )
                if not self.address.pooled:  # a pooler would keep the setting for other programs
                    await _set_isolation(connection)
        except Refusal as refusal:
            kind = StoreError if refusal.sqlstate == "3D000" else StoreUnavailable  # no such database: the URL is wrong
            raise kind(self._advice(refusal)) from refusal
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            raise StoreUnavailable(self._describe(error)) from error
        except ValueError:
            connection = None
        if connection is None:
            # Outside the except block, because the driver's error may show a part of the URL.
            raise InvalidUrl(f"{self.address!r}: the driver cannot read the URL, check its ports and options")
        connection.add_log_listener(self._receive_report)
        return connection

    def _receive_report(self, connection: Connection, message: Any) -> None:
        if message.sqlstate == _REPORT:
            self._reports.setdefault(connection, []).append(message.detail)
        elif message.sqlstate == _RETRACT:
            del self._reports.get(connection, [])[int(message.detail) :]

    async def close(self) -> None:
        """Wait for calls under way, then close all connections. Lent connections are terminated at once."""
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
        for task in self._cancelling:
            task.cancel()
        await asyncio.gather(*self._cancelling, return_exceptions=True)

    async def _with_retries(self, action: Callable[[Connection], Awaitable[T]]) -> T:
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
                    return await self._run(self._idle.pop(), action)
                except _NotSent:
                    continue  # the server has ended the connection while it was idle
            return await self._run(await self.connect(), action)

    async def _run(self, connection: Connection, action: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            answer = await action(connection)
        except Refusal as refusal:
            self._reports.pop(connection, None)
            if connection.is_closed() or connection.is_in_transaction():
                connection.terminate()
            else:
                self._idle.append(connection)
            raise self._translate(refusal) from refusal
        except BaseException as error:
            self._reports.pop(connection, None)
            # Also if cancelled, because the next statement must not get an answer that was not read.
            if isinstance(error, (TimeoutError, asyncio.CancelledError)):
                self._cancel_on_server(connection)
            else:
                connection.terminate()
            if isinstance(error, asyncpg.DataError):
                raise StoreError(self._describe(error)) from error
            if unsent(error):
                raise _NotSent(self._describe(error)) from error
            if isinstance(error, (OSError, asyncpg.InternalClientError)):
                raise OutcomeUnknown(self._describe(error)) from error
            raise
        self._idle.append(connection)
        if self._reports and (reports := self._reports.pop(connection, None)) and self.on_reports is not None:
            self.on_reports(reports)
        return answer

    def _cancel_on_server(self, connection: Connection) -> None:
        """Close a connection, and cancel its statement on the server.

        The server would go on with it although the caller has left, and a retry would add to the load of a slow server.
        """
        task = asyncio.get_running_loop().create_task(_end(connection, CANCEL))
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    def _translate(self, refusal: Any) -> Exception:
        """The error to raise for a refusal."""
        code = refusal.sqlstate or ""
        text = self._describe(refusal)
        if code.startswith("TN"):
            ours: Exception = refusal
            return ours
        if code in _COLLIDED or isinstance(refusal, asyncpg.InvalidCachedStatementError):
            return _Collision(text)
        if code == "23505":
            return DuplicateKey(text)
        if code in _FULL:
            return StoreFull(f"{text}: {_FULL[code]}")
        if code.startswith(_CUT):
            return OutcomeUnknown(text)
        if code in _CONDITIONS or not code.startswith(_ABOUT_AN_ITEM):
            return StoreUnavailable(self._advice(refusal))
        return StoreError(text)

    def _advice(self, refusal: Any) -> str:
        """The message of the server, and what to do about it."""
        advice = _CONDITIONS.get(refusal.sqlstate or "")
        return self._describe(refusal) + (f": {advice}" if advice else "")

    def _describe(self, error: BaseException) -> str:
        if isinstance(error, TimeoutError):
            return f"PostgreSQL at {self.address} has not answered in {self.address.timeout:g} s"
        if connection_refused(error):
            return f"PostgreSQL at {self.address} refused the connection: is it running?"
        return f"PostgreSQL at {self.address}: {' '.join(str(error).split()) or type(error).__name__}"

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"the store at {self.address} has been closed")

    def forget(self) -> None:
        """In a forked child: leave the connections to the parent without closing them, and start with none."""
        abandon(*self._idle, *self._lent, *self._cancelling)
        self._begin()


class DuplicateKey(StoreError):
    """A row with this key exists; nothing was done."""


class _Collision(StoreUnavailable):
    """The server rolled this call back because of a concurrent one; certainly not done."""


class _NotSent(StoreUnavailable):
    """The connection was lost before the statement was sent; certainly not done."""


def unsent(error: BaseException) -> bool:
    """Whether the driver raised before it sent anything, because the connection was closed."""
    if isinstance(error, asyncpg.InternalClientError):
        return str(error).startswith("cannot switch to state")
    return isinstance(error, asyncpg.InterfaceError)


async def _in_transaction(connection: Connection, statement: str, values: Sequence[object]) -> list[Any]:
    # The driver sends two messages, and without a transaction the pooler may send them to two servers.
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
    """Close a connection. The driver first cancels a statement that is under way."""
    try:
        await connection.close(timeout=timeout)
    except BROKEN:
        connection.terminate()
