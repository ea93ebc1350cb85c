"""JobsTransaction: a transaction for the writes of a job, on a connection that the store's other calls do not use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, ClassVar, Final, TypeVar

from tenure.errors import OutcomeUnknown
from tenure.stores.base import OwnTransaction
from tenure.stores.callers import CallerConnection, Work, caller_connection
from tenure.stores.postgres.link import ISOLATION, Connection, Link, Refusal, unsent

__all__ = ["IDLE", "JobsTransaction"]

T = TypeVar("T")

IDLE: Final = 60
"""Seconds without a statement after which the server ends a transaction, because its machine may be gone and its locks block
others."""


class JobsTransaction(OwnTransaction):
    """An open transaction on a lent connection."""

    def __init__(self, link: Link, connection: Connection, transaction: Any) -> None:
        self.connection = connection
        self.caller = _OwnCaller(self)
        self._link = link
        self._transaction = transaction

    @classmethod
    async def begin(cls, link: Link, *, writes: bool) -> JobsTransaction:
        """Borrow a connection and begin a transaction. Without `writes` it is read-only and reads one snapshot."""
        # By the driver's transaction object, so that users can open savepoints with `connection.transaction()`.
        transaction: Any = None

        async def begin(connection: Connection) -> None:
            nonlocal transaction
            transaction = (
                connection.transaction(isolation=ISOLATION)
                if writes
                else connection.transaction(isolation="repeatable_read", readonly=True)
            )
            await transaction.start()
            await connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE}s'")

        return cls(link, await link.lend(begin), transaction)

    async def execute(self, statement: str, *values: object) -> int:
        status: str = await self.guarded(self.connection.execute(statement, *values))
        number = status.rpartition(" ")[2]
        return int(number) if number.isdigit() else 0

    async def fetch(self, statement: str, *values: object) -> list[Any]:
        return await self.guarded(self.connection.fetch(statement, *values))

    async def commit(self) -> None:
        try:
            async with asyncio.timeout(self.timeout):
                await self._transaction.commit()
        except Refusal as refusal:
            if lost := self._link.lost(self.connection, refusal):
                raise OutcomeUnknown(str(lost)) from refusal
            raise  # a deferred constraint: nothing was committed
        except BaseException as error:
            self.connection.terminate()
            if lost := self._link.lost(self.connection, error):
                raise lost if unsent(error) else OutcomeUnknown(str(lost)) from error
            raise
        finally:
            await self._link.release(self.connection)

    async def rollback(self) -> None:
        try:
            async with asyncio.timeout(self.timeout):
                await self._transaction.rollback()
        except Exception:  # noqa: BLE001  (the server rolls back when the connection ends)
            self.connection.terminate()
        finally:
            await self._link.release(self.connection)

    @property
    def timeout(self) -> float:
        """Seconds to wait for an answer to statements of Tenure. Those of the user are not bounded."""
        return self._link.address.timeout

    async def guarded(self, answer: Awaitable[T]) -> T:
        """Await `answer`; raise `StoreUnavailable` if the connection is lost meanwhile."""
        try:
            return await answer
        except Exception as error:
            lost = self._link.lost(self.connection, error)
            if lost is None:
                raise
            raise lost from error


class _OwnCaller(CallerConnection):
    awaited: ClassVar[bool] = True

    def __init__(self, own: JobsTransaction) -> None:
        self._own = own
        self._caller = caller_connection(own.connection)

    async def arun(self, work: Work[T]) -> T:
        return await self._own.guarded(self._arun(work))

    async def _arun(self, work: Work[T]) -> T:
        # A statement of Tenure, so it is bounded, unlike the statements of the user.
        async with asyncio.timeout(self._own.timeout):
            return await self._caller.arun(work)
