"""The context managers that `ctx.prepare()` and `ctx.complete()` return."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tenure.errors import InvalidOption, OutcomeUnknown, StoreUnavailable
from tenure.hooks.calling import acall_hooks, call_hooks
from tenure.stores.base import OwnTransaction
from tenure.stores.callers import Work, caller_connection
from tenure.stores.values import Enqueued, Verdict, VerdictKind
from tenure.sync import refuse_on_loop
from tenure.tasks.completion.completion import Completion, await_despite_cancel
from tenure.tasks.completion.stage import Stage, StageEvent
from tenure.tasks.completion.transaction import AsyncTransaction, Joined, Transaction

if TYPE_CHECKING:
    from tenure.tasks.context import Context

__all__ = ["Block", "Completing", "CompletingJoined", "Preparing", "PreparingJoined"]

T = TypeVar("T")
A = TypeVar("A")
S = TypeVar("S")


class Block(Generic[A, S]):
    """A context manager for coroutines and threads: `async with` on the worker's loop, `with` in one of its threads."""

    _name: ClassVar[str] = "ctx.complete"

    def __init__(self, completion: Completion, ctx: Context) -> None:
        self._completion = completion
        self._transactions = completion.transactions
        self._ctx = ctx

    async def __aenter__(self) -> A:
        if asyncio.get_running_loop() is not self._transactions.loop:
            raise InvalidOption(
                "async with works on the worker's own event loop: in a task that is a plain def, use with"
            )
        return await self._enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit(error)

    def __enter__(self) -> S:
        refuse_on_loop(self._name, "use async with")
        return self._in_thread(self._wait(self._enter()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wait(self._exit(error))

    async def _enter(self) -> A:
        raise NotImplementedError

    async def _exit(self, error: BaseException | None) -> None:
        raise NotImplementedError

    def _in_thread(self, tx: A) -> S:
        raise NotImplementedError

    def _wait(self, action: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(action, self._transactions.loop).result()


class _OwnBlock(Block[AsyncTransaction, Transaction]):
    _tx: AsyncTransaction

    def _in_thread(self, tx: AsyncTransaction) -> Transaction:
        tx.own.enter()
        return Transaction(tx, self._completion, self._ctx)


class Preparing(_OwnBlock):
    """A read-only transaction under a lease that the store has confirmed; see `Context.prepare`."""

    _name = "ctx.prepare"

    async def _enter(self) -> AsyncTransaction:
        await self._completion.check_held()
        self._tx = AsyncTransaction(await self._transactions.begin(writes=False))
        return self._tx

    async def _exit(self, error: BaseException | None) -> None:  # noqa: ARG002
        await await_despite_cancel(self._tx.detach().rollback())  # nothing was written


class Completing(_OwnBlock):
    """A transaction that is committed together with the end of the job; see `Context.complete`."""

    async def _enter(self) -> AsyncTransaction:
        await self._completion.open()
        try:
            await self._transactions.secure_leases()
            self._completion.check_signal()  # the lease may have been lost meanwhile
            self._tx = AsyncTransaction(await self._transactions.begin(writes=True))
        except BaseException:
            self._completion.advance(StageEvent.ROLLED_BACK)
            raise
        return self._tx

    async def _exit(self, error: BaseException | None) -> None:
        completion, own = self._completion, self._tx.detach()
        if error is not None:
            try:
                await await_despite_cancel(own.rollback())
            finally:
                completion.advance(StageEvent.ROLLED_BACK)
            return
        completion.advance(StageEvent.SETTLE)
        # From here on the outcome of the commit must become known, even if the function is cancelled.
        completion.finishing = asyncio.ensure_future(self._finish(own))
        await await_despite_cancel(completion.finishing)

    async def _finish(self, own: OwnTransaction) -> None:
        completion = self._completion
        try:
            try:
                work = completion.settle_work(self._tx.result)
                await acall_hooks(completion.before_enqueue())
                completion.raise_unless_settled(await own.caller.arun(work))
            except BaseException:
                await own.rollback()
                raise
            try:
                await own.commit()
            except OutcomeUnknown as unknown:
                await completion.ask_store()
                self._refuse_unless_final(unknown)
            else:
                completion.advance(StageEvent.COMMITTED)
        finally:
            completion.finishing = None
            if completion.stage is Stage.SETTLING:
                completion.advance(StageEvent.ROLLED_BACK)

    def _refuse_unless_final(self, unknown: OutcomeUnknown) -> None:
        if self._completion.stage is not Stage.FINAL:
            self._completion.check_signal()  # raises LeaseLost if the store could not say
            job_id = self._completion.lease.job.id
            raise StoreUnavailable(f"the transaction of job {job_id} was not committed: {unknown}") from unknown


class _JoinedBlock(Block[Joined, Joined]):
    def __init__(self, completion: Completion, ctx: Context, connection: Any) -> None:
        super().__init__(completion, ctx)
        self._caller = caller_connection(connection)
        self._tx = Joined(connection)

    def _in_thread(self, tx: Joined) -> Joined:
        return tx


class PreparingJoined(_JoinedBlock):
    """The caller's transaction, under a lease that the store has confirmed; see `Context.prepare`."""

    _name = "ctx.prepare"

    async def _enter(self) -> Joined:
        await self._completion.check_held()
        return self._tx

    async def _exit(self, error: BaseException | None) -> None:
        """Does nothing: the caller ends the transaction."""


class CompletingJoined(_JoinedBlock):
    """The caller's transaction, in which the job is settled at the end of the block; see `Context.complete`."""

    async def _enter(self) -> Joined:
        await self._completion.open()
        with self._rolled_back_on_error():
            await self._caller.arun(self._empty_work())
        return self._tx

    async def _exit(self, error: BaseException | None) -> None:
        if error is not None:
            self._completion.advance(StageEvent.ROLLED_BACK)
        else:
            with self._rolled_back_on_error():
                work = self._completion.settle_work(self._tx.result)
                await acall_hooks(self._completion.before_enqueue())
            self._judge(await self._caller.arun(self._join(work)))

    def __enter__(self) -> Joined:
        refuse_on_loop(self._name, "use async with")
        if self._caller.awaited:
            raise InvalidOption(
                "connection= is one whose calls are awaited: use async with, in a task that is an async def"
            )
        self._wait(self._completion.open())
        with self._rolled_back_on_error():
            self._caller.run(self._empty_work())
        return self._tx

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._completion.advance(StageEvent.ROLLED_BACK)
        else:
            with self._rolled_back_on_error():
                work = self._completion.settle_work(self._tx.result)
                call_hooks(self._completion.before_enqueue())
            self._judge(self._caller.run(self._join(work)))

    def _empty_work(self) -> Work[list[Enqueued]]:
        """Work that does nothing. It fails before the caller has written anything if the connection does not fit."""
        return self._transactions.store.enqueueing(())

    def _join(self, work: Work[Verdict]) -> Work[Verdict]:
        # Before it is sent: if the connection breaks then, only the store knows the outcome.
        self._completion.advance(StageEvent.JOIN)
        return work

    def _judge(self, verdict: Verdict) -> None:
        if verdict.kind is not VerdictKind.OK:
            self._completion.advance(StageEvent.ROLLED_BACK)
        self._completion.raise_unless_settled(verdict)

    @contextmanager
    def _rolled_back_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._completion.advance(StageEvent.ROLLED_BACK)
            raise
