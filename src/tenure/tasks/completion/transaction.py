"""What jobs work with in a transaction: the caller's own, or one of theirs, in coroutines and in threads."""

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
    """The caller's own transaction, which the caller ends; the job is settled in it when the block is left."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.result: Any = None
        """What the job gives."""


class AsyncTransaction:
    """A transaction of a job's own, for a coroutine. `task.using(connection=tx)` enqueues in it.

    Statements are the database's own, with `$1` on PostgreSQL and `?` on SQLite for the values; what it says to them is raised as
    its driver raises it.
    """

    def __init__(self, own: OwnTransaction) -> None:
        self._own: OwnTransaction | None = own
        self.result: Any = None
        """What the job gives, if this is the transaction that completes it."""

    async def execute(self, statement: str, *values: object) -> int:
        """Run a statement; how many rows it changed."""
        return await self.own.execute(statement, *values)

    async def fetch(self, statement: str, *values: object) -> list[Any]:
        """Run a statement; its rows."""
        return await self.own.fetch(statement, *values)

    async def fetchrow(self, statement: str, *values: object) -> Any:
        """Run a statement; its first row, or None."""
        return next(iter(await self.own.fetch(statement, *values)), None)

    async def fetchval(self, statement: str, *values: object) -> Any:
        """Run a statement; the first value of its first row, or None."""
        row = await self.fetchrow(statement, *values)
        return None if row is None else row[0]

    @property
    def connection(self) -> Any:
        """The driver's connection: asyncpg's, or apsw's. To end the transaction is not the job's business."""
        return self.own.connection

    @property
    def caller(self) -> CallerConnection:
        return self.own.caller

    @property
    def own(self) -> OwnTransaction:
        if self._own is None:
            raise RuntimeError("this transaction has ended with its block")  # another job may use its connection now
        return self._own

    def detach(self) -> OwnTransaction:
        """Nobody uses it any more, but whoever ends it."""
        own, self._own = self.own, None
        return own


class Transaction:
    """A transaction of a job's own, for a blocking function; see `AsyncTransaction`. Belongs to the thread that runs the job.

    A job that is told to stop while it waits for a statement gets `Aborted`.
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
        """What the job gives, if this is the transaction that completes it."""
        return self._tx.result

    @result.setter
    def result(self, value: Any) -> None:
        self._tx.result = value

    def execute(self, statement: str, *values: object) -> int:
        """Run a statement; how many rows it changed."""
        return self._wait(self._tx.execute(statement, *values))

    def fetch(self, statement: str, *values: object) -> list[Any]:
        """Run a statement; its rows."""
        return self._wait(self._tx.fetch(statement, *values))

    def fetchrow(self, statement: str, *values: object) -> Any:
        """Run a statement; its first row, or None."""
        return self._wait(self._tx.fetchrow(statement, *values))

    def fetchval(self, statement: str, *values: object) -> Any:
        """Run a statement; the first value of its first row, or None."""
        return self._wait(self._tx.fetchval(statement, *values))

    @property
    def connection(self) -> Any:
        """The driver's connection: apsw's can be used here, asyncpg's only on the worker's loop."""
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
