"""What `ctx.prepare()` and `ctx.complete()` give: blocks that are entered and left, in coroutines and in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tenure.errors import InvalidOption, OutcomeUnknown, StoreUnavailable
from tenure.hooks.calling import awaiting, waiting
from tenure.stores.base import OwnTransaction
from tenure.stores.callers import Work, caller_connection
from tenure.stores.values import Enqueued, Verdict, VerdictKind
from tenure.sync import refuse_on_loop
from tenure.tasks.completion.completion import Completion, to_the_end
from tenure.tasks.completion.stage import Stage, StageEvent
from tenure.tasks.completion.transaction import AsyncTransaction, Joined, Transaction

if TYPE_CHECKING:
    from tenure.tasks.context import Context

__all__ = ["Block", "Completing", "CompletingJoined", "Preparing", "PreparingJoined"]

T = TypeVar("T")
A = TypeVar("A")
S = TypeVar("S")


class Block(Generic[A, S]):
    """A context manager for both lanes: `async with` on the worker's loop, `with` in one of its threads."""

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

    def _in_thread(self, given: A) -> S:
        raise NotImplementedError

    def _wait(self, action: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(action, self._transactions.loop).result()


class _Own(Block[AsyncTransaction, Transaction]):
    _tx: AsyncTransaction

    def _in_thread(self, given: AsyncTransaction) -> Transaction:
        given.own.enter()
        return Transaction(given, self._completion, self._ctx)


class Preparing(_Own):
    """Reads, under a lease that the store has confirmed; see `Context.prepare`."""

    _name = "ctx.prepare"

    async def _enter(self) -> AsyncTransaction:
        await self._completion.check_held()
        self._tx = AsyncTransaction(await self._transactions.begin(writes=False))
        return self._tx

    async def _exit(self, error: BaseException | None) -> None:  # noqa: ARG002
        await to_the_end(self._tx.end().rollback())  # nothing was written: it ends either way


class Completing(_Own):
    """Writes that are committed with the end of the job; see `Context.complete`."""

    async def _enter(self) -> AsyncTransaction:
        await self._completion.open()
        try:
            await self._transactions.make_room()
            self._completion.check()  # that may have told that the lease is lost
            self._tx = AsyncTransaction(await self._transactions.begin(writes=True))
        except BaseException:
            self._completion.advance(StageEvent.ROLLED_BACK)
            raise
        return self._tx

    async def _exit(self, error: BaseException | None) -> None:
        completion, own = self._completion, self._tx.end()
        if error is not None:
            try:
                await to_the_end(own.rollback())
            finally:
                completion.advance(StageEvent.ROLLED_BACK)
            return
        completion.advance(StageEvent.SETTLE)
        # Whatever happens to the function from here on, what came of the commit must be known.
        completion.finishing = asyncio.ensure_future(self._finish(own))
        await to_the_end(completion.finishing)

    async def _finish(self, own: OwnTransaction) -> None:
        completion = self._completion
        try:
            try:
                work = completion.settling(self._tx.result)
                await awaiting(completion.allowed())
                completion.judge(await own.caller.arun(work))
            except BaseException:
                await own.rollback()
                raise
            try:
                await own.commit()
            except OutcomeUnknown as unknown:
                await completion.find_out()
                self._refuse_unless_final(unknown)
            else:
                completion.advance(StageEvent.COMMITTED)
        finally:
            completion.finishing = None
            if completion.stage is Stage.SETTLING:
                completion.advance(StageEvent.ROLLED_BACK)

    def _refuse_unless_final(self, unknown: OutcomeUnknown) -> None:
        if self._completion.stage is not Stage.FINAL:
            self._completion.check()  # lost, if nobody could tell
            job_id = self._completion.lease.job.id
            raise StoreUnavailable(f"the transaction of job {job_id} was not committed: {unknown}") from unknown


class _WithConnection(Block[Joined, Joined]):
    def __init__(self, completion: Completion, ctx: Context, connection: Any) -> None:
        super().__init__(completion, ctx)
        self._caller = caller_connection(connection)
        self._tx = Joined(connection)

    def _in_thread(self, given: Joined) -> Joined:
        return given


class PreparingJoined(_WithConnection):
    """The caller's transaction, under a lease that the store has confirmed; see `Context.prepare`."""

    _name = "ctx.prepare"

    async def _enter(self) -> Joined:
        await self._completion.check_held()
        return self._tx

    async def _exit(self, error: BaseException | None) -> None:
        """The caller's transaction is the caller's to end."""


class CompletingJoined(_WithConnection):
    """The caller's transaction, in which the job is settled at the end of the block; see `Context.complete`."""

    async def _enter(self) -> Joined:
        await self._completion.open()
        with self._reset_if_it_raises():
            await self._caller.arun(self._nothing())
        return self._tx

    async def _exit(self, error: BaseException | None) -> None:
        if error is not None:
            self._completion.advance(StageEvent.ROLLED_BACK)
        else:
            with self._reset_if_it_raises():
                work = self._completion.settling(self._tx.result)
                await awaiting(self._completion.allowed())
            self._judge(await self._caller.arun(self._joined(work)))

    def __enter__(self) -> Joined:
        refuse_on_loop(self._name, "use async with")
        if self._caller.awaited:
            raise InvalidOption(
                "connection= is one whose calls are awaited: use async with, in a task that is an async def"
            )
        self._wait(self._completion.open())
        with self._reset_if_it_raises():
            self._caller.run(self._nothing())
        return self._tx

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._completion.advance(StageEvent.ROLLED_BACK)
        else:
            with self._reset_if_it_raises():
                work = self._completion.settling(self._tx.result)
                waiting(self._completion.allowed())
            self._judge(self._caller.run(self._joined(work)))

    def _nothing(self) -> Work[list[Enqueued]]:
        """An errand that does nothing, and tells whether the connection will do before the caller has written there."""
        return self._transactions.store.enqueueing(())

    def _joined(self, work: Work[Verdict]) -> Work[Verdict]:
        # Before it is sent: should it be cut off there, only the store can tell what came of it.
        self._completion.advance(StageEvent.JOIN)
        return work

    def _judge(self, verdict: Verdict) -> None:
        if verdict.kind is not VerdictKind.OK:
            self._completion.advance(StageEvent.ROLLED_BACK)
        self._completion.judge(verdict)

    @contextmanager
    def _reset_if_it_raises(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._completion.advance(StageEvent.ROLLED_BACK)
            raise
