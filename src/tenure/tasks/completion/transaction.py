"""What jobs use in `ctx.prepare()` and `ctx.complete()`: `AsyncTransaction`, `Transaction` and `Joined`."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from tenure.core.lease import AbortReason
from tenure.errors import Aborted
from tenure.stores.base import OwnTransaction
from tenure.stores.callers import CallerConnection, Work
from tenure.tasks.completion.completion import Completion

if TYPE_CHECKING:
    from tenure.tasks.context import Context

__all__ = ["AsyncTransaction", "Joined", "Transaction"]

T = TypeVar("T")


class Joined:
    """The transaction of the caller, who ends it. The job is settled in it when the block ends."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.result: Any = None
        """The result of the job."""


class AsyncTransaction:
    """A transaction of a job, for a coroutine. `task.using(connection=tx)` enqueues in it.

    Statements use the database's own syntax, with `$1` on PostgreSQL and `?` on SQLite for the values. Errors of the
    database are raised as its driver raises them.
    """

    def __init__(self, own: OwnTransaction) -> None:
        self._own: OwnTransaction | None = own
        self.result: Any = None
        """The result of the job, if this transaction completes it."""

    async def execute(self, statement: str, *values: object) -> int:
        """Run a statement. Returns the number of rows that it changed."""
        return await self.own.execute(statement, *values)

    async def fetch(self, statement: str, *values: object) -> list[Any]:
        """Run a statement. Returns its rows."""
        return await self.own.fetch(statement, *values)

    async def fetchrow(self, statement: str, *values: object) -> Any:
        """Run a statement. Returns its first row, or None."""
        return next(iter(await self.own.fetch(statement, *values)), None)

    async def fetchval(self, statement: str, *values: object) -> Any:
        """Run a statement. Returns the first value of its first row, or None."""
        row = await self.fetchrow(statement, *values)
        return None if row is None else row[0]

    @property
    def connection(self) -> Any:
        """The driver's connection: asyncpg's or apsw's. Do not end its transaction."""
        return self.own.connection

    @property
    def caller(self) -> CallerConnection:
        return self.own.caller

    @property
    def own(self) -> OwnTransaction:
        if self._own is None:
            raise RuntimeError("this transaction has ended with its block")  # another job may use its connection by now
        return self._own

    def detach(self) -> OwnTransaction:
        """End the use of this object, and return the transaction for the block to end."""
        own, self._own = self.own, None
        return own


class Transaction:
    """A transaction of a job, for a blocking function; see `AsyncTransaction`. Use it only on the thread that runs the job.

    If the job is aborted while a statement runs, that raises `Aborted`.
    """

    def __init__(self, tx: AsyncTransaction, completion: Completion, ctx: Context) -> None:
        self._tx = tx
        self._completion = completion
        self._signal = ctx.signal
        self._statement: concurrent.futures.Future[Any] | None = None
        self.caller: CallerConnection = _CallerInThread(tx, self._wait)
        ctx.signal.call_when_aborted(self._interrupt)

    @property
    def result(self) -> Any:
        """The result of the job, if this transaction completes it."""
        return self._tx.result

    @result.setter
    def result(self, value: Any) -> None:
        self._tx.result = value

    def execute(self, statement: str, *values: object) -> int:
        """Run a statement. Returns the number of rows that it changed."""
        return self._wait(self._tx.execute(statement, *values))

    def fetch(self, statement: str, *values: object) -> list[Any]:
        """Run a statement. Returns its rows."""
        return self._wait(self._tx.fetch(statement, *values))

    def fetchrow(self, statement: str, *values: object) -> Any:
        """Run a statement. Returns its first row, or None."""
        return self._wait(self._tx.fetchrow(statement, *values))

    def fetchval(self, statement: str, *values: object) -> Any:
        """Run a statement. Returns the first value of its first row, or None."""
        return self._wait(self._tx.fetchval(statement, *values))

    @property
    def connection(self) -> Any:
        """The driver's connection. That of apsw can be used here, that of asyncpg only on the worker's loop."""
        return self._tx.connection

    def _wait(self, action: Coroutine[Any, Any, T]) -> T:
        self._statement = statement = asyncio.run_coroutine_threadsafe(action, self._completion.transactions.loop)
        try:
            return statement.result()
        except concurrent.futures.CancelledError:
            raise Aborted(self._signal.reason or AbortReason.ERROR) from None
        finally:
            self._statement = None

    def _interrupt(self) -> None:
        if (statement := self._statement) is not None:
            statement.cancel()


class _CallerInThread(CallerConnection):
    def __init__(self, tx: AsyncTransaction, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._tx = tx
        self._wait = wait

    def run(self, work: Work[T]) -> T:
        answer: T = self._wait(self._tx.caller.arun(work))
        return answer
