"""Transactions of a job's own, each on a connection of its own."""

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
from tenure.stores.sqlite.library import INTERRUPTED, Connection, bare, code_of, drop

__all__ = ["LiteTransaction", "refuse_inside"]

T = TypeVar("T")

_WRITING = ("PRAGMA synchronous = FULL", "BEGIN IMMEDIATE")
_READING = ("PRAGMA query_only = 1", "BEGIN")

_writing: ContextVar[LiteTransaction | None] = ContextVar("tenure_sqlite_writing", default=None)
"""The transaction that the code of this context is in, if that writes."""


def refuse_inside(path: str) -> None:
    """Raise if the code here is in a transaction that writes to this file: another one would wait for its end, in vain."""
    own = _writing.get()
    if own is not None and own.path == path and own.open:
        raise StoreError(
            "this would wait for the transaction that it is called in: give that as connection=, or do it after the block"
        )


class LiteTransaction(OwnTransaction):
    """A transaction whose statements run on a thread; one that writes is taken back `timeout` seconds after it has begun."""

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
        self._turn = threading.Lock()
        """Held by whoever uses the connection, or takes it away."""

        self._over: Exception | None = None
        """What to raise now that it has ended."""

        self.after_commit: list[Callable[[], None]] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tenure-sqlite-own")
        self._timer: threading.Timer | None = None
        if writes and timeout is not None:
            late = TimeoutError(f"the transaction kept all others from writing for {timeout:g} s, and was taken back")
            self._timer = threading.Timer(timeout, self.end, (late,))
            self._timer.daemon = True

    async def begin(self) -> None:
        """Open it, once nobody else writes if this one is to."""
        try:
            await self.do(self._begin)
        except BaseException:
            # Whoever was to have it may be gone, and it about to begin all the same.
            with contextlib.suppress(RuntimeError):  # it has ended already
                self._thread.submit(self.end, StoreError("the transaction has not begun"))
            raise
        self.enter()

    def enter(self) -> None:
        if self._writes:
            _writing.set(self)

    @property
    def open(self) -> bool:
        return self._over is None

    @property
    def connection(self) -> Any:
        return bare(self.used)

    @property
    def used(self) -> Connection:
        """The connection as we use it."""
        self._refuse_if_over()
        assert self._connection is not None
        return self._connection

    async def execute(self, statement: str, *values: object) -> int:
        def execute() -> int:
            self.run(statement, values)
            return self.used.changes()

        return await self.do(execute)

    async def fetch(self, statement: str, *values: object) -> list[Any]:
        return await self.do(lambda: self.run(statement, values))

    async def commit(self) -> None:
        await self.do(self._commit)

    async def rollback(self) -> None:
        with contextlib.suppress(Exception):
            await self.do(lambda: self._close(StoreError("the transaction has been rolled back")))

    def end(self, error: Exception) -> None:
        """Take it back, whatever it is at, and let all that is asked of it from now on raise this; on any thread."""
        self._over = self._over or error
        while not self._turn.acquire(timeout=0.01):
            if (connection := self._connection) is not None:
                with contextlib.suppress(Exception):  # it has just been closed
                    connection.interrupt()
        try:
            self._close(error, forced=True)
        finally:
            self._turn.release()

    async def do(self, action: Callable[[], T]) -> T:
        """Do something with the connection on the thread."""
        try:
            doing = self._thread.submit(self.in_turn, action)
        except RuntimeError:
            raise self._over or StoreError("the interpreter is ending") from None
        return await asyncio.wrap_future(doing)

    def in_turn(self, action: Callable[[], T]) -> T:
        """Do something with the connection here, once nobody else does."""
        with self._turn:
            self._refuse_if_over()
            try:
                return action()
            except Exception as error:
                if INTERRUPTED in (code_of(error), code_of(error.__cause__)):
                    self._refuse_if_over()
                raise

    def _refuse_if_over(self) -> None:
        if self._over is not None:
            raise self._over

    # What takes the turn.

    def run(self, statement: str, values: Sequence[object] = ()) -> Rows:
        """Run a statement to its end."""
        if not self.used.in_transaction:
            raise StoreError("the transaction was ended by a statement in it, or by SQLite after an error")
        return Rows(self.used.execute(statement, values))

    def _begin(self) -> None:
        try:
            self._connection = self._connect(self)
            with translated(self.path) as errors:
                errors.watch(self._connection)
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
                errors.watch(self.used)
                self.run("COMMIT")
        except StoreUnavailable as error:
            raise OutcomeUnknown(f"{self.path!r} may or may not have kept the last changes: {error}") from error
        finally:
            self._close(StoreError("the transaction has ended"))
        for action in self.after_commit:
            action()

    def _close(self, error: Exception, *, forced: bool = False) -> None:
        """Close the connection, which takes back what is not committed."""
        self._over = self._over or error
        if self._timer is not None:
            self._timer.cancel()
        connection, self._connection = self._connection, None
        if connection is not None and forced:
            drop(connection)
        elif connection is not None:
            connection.close()
        self._on_end(self)
        self._thread.shutdown(wait=False)


class _Inside:
    """The connection as scripts of the store use it."""

    def __init__(self, own: LiteTransaction) -> None:
        self._own = own

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        return self._own.run(statement, values)

    def changes(self) -> int:
        return self._own.used.changes()

    def after_commit(self, action: Callable[[], None], /) -> None:
        self._own.after_commit.append(action)


class _OwnCaller(CallerConnection):
    """For scripts of the store; they may be run on any thread."""

    def __init__(self, own: LiteTransaction) -> None:
        self._own = own

    def run(self, work: Work[T]) -> T:
        return self._own.in_turn(lambda: self._run(work))

    async def arun(self, work: Work[T]) -> T:
        return await self._own.do(lambda: self._run(work))

    def _run(self, work: Work[T]) -> T:
        wanted = sqlite_work(work, "SQLite")
        if wanted.path != self._own.path:
            raise InvalidOption(
                f"connection= must be to the store's own file, {wanted.path}: this one is to {self._own.path}"
            )
        with translated(self._own.path) as errors:
            errors.watch(self._own.used)
            return wanted.action(_Inside(self._own))
