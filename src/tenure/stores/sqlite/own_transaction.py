"""Transactions for a job's own writes, each on a separate connection."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, TypeVar

from tenure.errors import InvalidOption, OutcomeUnknown, StoreError, StoreUnavailable
from tenure.stores.base import OwnTransaction
from tenure.stores.callers import CallerConnection, Work
from tenure.stores.callers.sqlite import Rows, sqlite_work
from tenure.stores.sqlite.connection import translated
from tenure.stores.sqlite.library import INTERRUPTED, Connection, bare, code_of, force_close

__all__ = ["LiteTransaction", "refuse_inside"]

T = TypeVar("T")

_WRITING = ("PRAGMA synchronous = FULL", "BEGIN IMMEDIATE")
_READING = ("PRAGMA query_only = 1", "BEGIN")

_writing: ContextVar[LiteTransaction | None] = ContextVar("tenure_sqlite_writing", default=None)
"""The write transaction that the code in this context runs in; None if it runs in none."""


def refuse_inside(path: str) -> None:
    """Raise if the calling code runs in a write transaction on this file: a second one would wait for the first, which never ends."""
    own = _writing.get()
    if own is not None and own.path == path and own.open:
        raise StoreError(
            "this would wait for the transaction that it is called in: pass that as connection=, or do it after the block"
        )


class LiteTransaction(OwnTransaction):
    """A transaction whose statements run on a thread. A write transaction is rolled back `timeout` seconds after it has begun."""

    def __init__(
        self,
        path: str,
        connect: Callable[[LiteTransaction], Connection],
        on_end: Callable[[LiteTransaction], None],
        *,
        writes: bool,
        timeout: float | None,
    ) -> None:
        self.path = path
        self.caller = _OwnCaller(self)
        self._connect = connect
        self._on_end = on_end
        self._writes = writes
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        """Held by the thread that uses or closes the connection."""

        self._ended_with: Exception | None = None
        """The error that every use raises after the end of the transaction; None while it is open."""

        self.after_commit: list[Callable[[], None]] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tenure-sqlite-own")
        self._timer: threading.Timer | None = None
        if writes and timeout is not None:
            timed_out = TimeoutError(
                f"the transaction kept all others from writing for {timeout:g} s, and was rolled back"
            )
            self._timer = threading.Timer(timeout, self.roll_back_now, (timed_out,))
            self._timer.daemon = True

    async def begin(self) -> None:
        """Begin the transaction. A write transaction waits until no other one writes."""
        try:
            await self.run_on_thread(self._begin)
        except BaseException:
            # The caller may have been cancelled while the thread is still beginning the transaction.
            with contextlib.suppress(RuntimeError):  # the thread has ended already
                self._thread.submit(self.roll_back_now, StoreError("the transaction has not begun"))
            raise
        self.enter()

    def enter(self) -> None:
        if self._writes:
            _writing.set(self)

    @property
    def open(self) -> bool:
        return self._ended_with is None

    @property
    def connection(self) -> Any:
        return bare(self.open_connection)

    @property
    def open_connection(self) -> Connection:
        """The connection. Raises if the transaction has ended."""
        self._refuse_if_ended()
        assert self._connection is not None
        return self._connection

    async def execute(self, statement: str, *values: object) -> int:
        def execute() -> int:
            self.run(statement, values)
            return self.open_connection.changes()

        return await self.run_on_thread(execute)

    async def fetch(self, statement: str, *values: object) -> list[Any]:
        return await self.run_on_thread(lambda: self.run(statement, values))

    async def commit(self) -> None:
        await self.run_on_thread(self._commit)

    async def rollback(self) -> None:
        with contextlib.suppress(Exception):
            await self.run_on_thread(lambda: self._close(StoreError("the transaction has been rolled back")))

    def roll_back_now(self, error: Exception) -> None:
        """Interrupt and roll back the transaction. Every later use raises `error`. May be called on any thread."""
        self._ended_with = self._ended_with or error
        while not self._lock.acquire(timeout=0.01):
            if (connection := self._connection) is not None:
                with contextlib.suppress(Exception):  # it was closed just now
                    connection.interrupt()
        try:
            self._close(error, forced=True)
        finally:
            self._lock.release()

    async def run_on_thread(self, action: Callable[[], T]) -> T:
        """Run `action`, which uses the connection, on the transaction's thread."""
        try:
            doing = self._thread.submit(self.locked, action)
        except RuntimeError:
            raise self._ended_with or StoreError("the interpreter is ending") from None
        return await asyncio.wrap_future(doing)

    def locked(self, action: Callable[[], T]) -> T:
        """Run `action`, which uses the connection, on the calling thread once the connection is free."""
        with self._lock:
            self._refuse_if_ended()
            try:
                return action()
            except Exception as error:
                if INTERRUPTED in (code_of(error), code_of(error.__cause__)):
                    self._refuse_if_ended()
                raise

    def _refuse_if_ended(self) -> None:
        if self._ended_with is not None:
            raise self._ended_with

    # The methods below are called with the lock held.

    def run(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """Run a statement and read all its rows."""
        if not self.open_connection.in_transaction:
            raise StoreError("the transaction was ended by a statement in it, or by SQLite after an error")
        return Rows(self.open_connection.execute(statement, values))

    def _begin(self) -> None:
        try:
            self._connection = self._connect(self)
            with translated(self.path) as errors:
                errors.attach(self._connection)
                for statement in _WRITING if self._writes else _READING:
                    self._connection.execute(statement)
        except Exception as error:
            self._close(error)
            raise
        if self._timer is not None:
            self._timer.start()

    def _commit(self) -> None:
        try:
            with translated(self.path) as errors:
                errors.attach(self.open_connection)
                self.run("COMMIT")
        except StoreUnavailable as error:
            raise OutcomeUnknown(f"{self.path!r} may or may not have kept the last changes: {error}") from error
        finally:
            self._close(StoreError("the transaction has ended"))
        for action in self.after_commit:
            action()

    def _close(self, error: Exception, *, forced: bool = False) -> None:
        """Close the connection, which rolls back what is not committed."""
        self._ended_with = self._ended_with or error
        if self._timer is not None:
            self._timer.cancel()
        connection, self._connection = self._connection, None
        if connection is not None and forced:
            force_close(connection)
        elif connection is not None:
            connection.close()
        self._on_end(self)
        self._thread.shutdown(wait=False)


class _ScriptConnection:
    """The connection as the store's own work uses it."""

    def __init__(self, own: LiteTransaction) -> None:
        self._own = own

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        return self._own.run(statement, values)

    def changes(self) -> int:
        return self._own.open_connection.changes()

    def after_commit(self, action: Callable[[], None], /) -> None:
        self._own.after_commit.append(action)


class _OwnCaller(CallerConnection):
    """Runs the store's own work inside the transaction, from any thread."""

    def __init__(self, own: LiteTransaction) -> None:
        self._own = own

    def run(self, work: Work[T]) -> T:
        return self._own.locked(lambda: self._run(work))

    async def arun(self, work: Work[T]) -> T:
        return await self._own.run_on_thread(lambda: self._run(work))

    def _run(self, work: Work[T]) -> T:
        wanted = sqlite_work(work, "SQLite")
        if wanted.path != self._own.path:
            raise InvalidOption(
                f"connection= must be to the store's own file, {wanted.path}: this one is to {self._own.path}"
            )
        with translated(self._own.path) as errors:
            errors.attach(self._own.open_connection)
            return wanted.action(_ScriptConnection(self._own))
