"""Transactions of a job's own: what `ctx.prepare()` and `ctx.complete()` open, in coroutines and in threads.

A job that is completed in a transaction becomes final when that commits, together with whatever else was written there, and by
the same token as any other job: of two holders one commits. Until the settle is sent, everything is as if there were no
transaction; from then on the store alone knows what became of the job, and is asked for it (`Store.holding`).

A store object belongs to the worker's event loop, and so does all that is done with it: a function in a thread waits for that
loop. Only what a caller's own connection does happens where the caller is.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tenure.enqueueing import allowed
from tenure.errors import (
    Aborted,
    InvalidOption,
    JobError,
    LeaseLost,
    MissingAttribute,
    OutcomeUnknown,
    StoreUnavailable,
    WrongState,
)
from tenure.hooks import Steps, awaiting, waiting
from tenure.job import State
from tenure.lease import AbortReason, Lease
from tenure.lifecycle import Finish
from tenure.stores.base import Enqueued, Holding, OwnTransaction, Store, Verdict, VerdictKind
from tenure.stores.guests import Errand, Guest, guest
from tenure.sync import refuse_on_loop
from tenure.worker.outage import GONE

if TYPE_CHECKING:
    from tenure.context import Context
    from tenure.task import Task

__all__ = [
    "AsyncTransaction",
    "Block",
    "Completing",
    "CompletingJoined",
    "Completion",
    "Joined",
    "Preparing",
    "PreparingJoined",
    "Stage",
    "Transaction",
    "Transactions",
    "to_the_end",
]

T = TypeVar("T")
A = TypeVar("A")
S = TypeVar("S")

PATIENCE = 30.0
"""Seconds that the store is asked what became of a transaction: it may be gone, or the transaction may not have ended."""


class Transactions:
    """Where the transactions of a worker's jobs come from; made on the worker's loop."""

    def __init__(self, store: Store, timeout: float, secure: Callable[[float], Awaitable[None]]) -> None:
        """`secure` makes sure that no lease is lost although none can be renewed for so many seconds."""
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._timeout = timeout
        self._secure = secure

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where they live, and the store that they are in."""
        return self._loop

    @property
    def store(self) -> Store:
        return self._store

    def completion(self, ctx: Context, task: Task[..., Any]) -> Completion:
        """One attempt's way to its end in a transaction."""
        return Completion(ctx, task, self)

    async def make_room(self) -> None:
        """Let the worker be ready for a transaction that writes."""
        if self.store.one_writer:
            await self._secure(self._timeout)

    async def begin(self, *, writes: bool) -> OwnTransaction:
        """Open one."""
        return await self.store.begin(writes=writes, timeout=self._timeout)

    async def holding(self, lease: Lease) -> Holding | None:
        """What a lease is worth, asked again and again while nobody can tell; None if that takes too long."""
        deadline = monotonic() + PATIENCE
        for tries in itertools.count():
            with suppress(*GONE):
                return await self.store.holding(lease)
            if monotonic() > deadline:
                break
            await asyncio.sleep(random.uniform(0, min(0.1 * 2.0**tries, 2.0)))  # noqa: S311
        return None


class Stage(Enum):
    """How far a job is on its way to an end in a transaction."""

    RUNNING = auto()
    OPEN = auto()
    """In a block."""

    SETTLING = auto()
    """Its own transaction is being settled and committed."""

    JOINED = auto()
    """It was settled in the caller's transaction, and whether that commits is the caller's business."""

    UNKNOWN = auto()
    """Nobody could tell whether it was committed: it may be under way still."""

    FINAL = auto()


class Completion:
    """One attempt's way to its end in a transaction; its blocks, and the worker that runs it, share it."""

    def __init__(self, ctx: Context, task: Task[..., Any], transactions: Transactions) -> None:
        self.transactions = transactions
        self.stage = Stage.RUNNING
        self.step = Finish(State.SUCCEEDED)
        """How the job has ended, once it is final."""

        self.finishing: asyncio.Future[None] | None = None
        """What settles and commits; on the worker's loop."""

        self._ctx = ctx
        self._task = task

    @property
    def lease(self) -> Lease:
        return self._ctx.lease

    @property
    def under_way(self) -> bool:
        """Whether the job may have become final, or may any moment."""
        return self.stage not in (Stage.RUNNING, Stage.OPEN)

    def check(self) -> None:
        """Raise if the job is no longer held, or has run out of time; one that is to stop soon may still end well."""
        match self._ctx.signal.reason:
            case None | AbortReason.SHUTDOWN:
                return
            case AbortReason.TIMEOUT as reason:
                raise Aborted(reason)
            case reason:
                raise LeaseLost(self.lease.job.id, reason)

    async def check_held(self) -> None:
        """Raise if the job is no longer held, as the store knows. Waits for nobody: it may be asked with a transaction open."""
        self.check()
        [job] = await self.transactions.store.get([self.lease.job.id])
        if job is None:
            raise self._lost(Holding.GONE)
        if job.state is not State.RUNNING or job.fence != self.lease.token.fence:
            raise self._lost(Holding.LOST)

    async def open(self) -> None:
        """Begin a block, unless there is nothing left to complete."""
        job_id = self.lease.job.id
        if self.stage is Stage.JOINED:
            await self.resolve()  # the caller may have rolled it back, to try again
        if self.stage is Stage.FINAL:
            raise WrongState(job_id, State.SUCCEEDED, "running: it is completed once")
        self.check()
        if self.stage is not Stage.RUNNING:
            raise WrongState(job_id, "in ctx.complete() already", "in no other")
        self.stage = Stage.OPEN

    def settling(self, result: Any) -> Errand[Verdict]:
        """What makes the job final with this result, or value of a step, and its children exist; from now on the token alone decides."""
        self.check()
        self.step = self._task.finish(self.lease.job, result, self._ctx.children)
        return self.transactions.store.settling((self.lease, self.step))

    def allowed(self) -> Steps[None]:
        """Ask the hooks about jobs that come to exist because the next step is to wait for them; `EnqueueRefused` if one says no."""
        if self._task.app.hooks.enqueues:
            yield from allowed(self._task.app, self.step.children[len(self._ctx.children) :])

    def judge(self, verdict: Verdict) -> None:
        """Raise unless the settle was accepted."""
        match verdict.kind:
            case VerdictKind.OK:
                return
            case VerdictKind.REFUSED:
                successor = self.step.successor
                if verdict.other is None and successor is not None and successor.step is not None:
                    needs = successor.step.needs
                    missing = next((name for name in needs if f"attribute {name!r}" in verdict.reason), needs[0])
                    raise MissingAttribute(successor.task, missing)
                raise JobError(f"the jobs that job {self.lease.job.id} enqueues are refused: {verdict.reason}")
            case kind:
                raise self._lost(Holding.GONE if kind is VerdictKind.NOT_FOUND else Holding.LOST)

    async def resolve(self) -> None:
        """Find out whether the job is final, as far as that is not known yet."""
        if self.finishing is not None:
            await asyncio.wait([self.finishing])
        if self.stage is Stage.JOINED:
            await self.find_out()

    async def find_out(self) -> None:
        """Ask the store whether the transaction was committed."""
        holding = await self.transactions.holding(self.lease)
        if holding is Holding.SETTLED or (holding is Holding.GONE and self.lease.job.keep == 0):
            self.stage = Stage.FINAL
            return
        self.stage = Stage.UNKNOWN if holding is None else Stage.RUNNING
        if holding is not Holding.HELD:
            self._lost(holding)

    def _lost(self, holding: Holding | None) -> LeaseLost:
        """Let the worker know that the job is no longer its own; what to raise."""
        reason = {Holding.GONE: AbortReason.NOT_FOUND, None: AbortReason.ERROR}.get(holding, AbortReason.TAKEN)
        self._ctx.signal.abort(reason)
        return LeaseLost(self.lease.job.id, self._ctx.signal.reason or reason)


# What jobs work with.


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
    def guest(self) -> Guest:
        return self.own.guest

    @property
    def own(self) -> OwnTransaction:
        if self._own is None:
            raise RuntimeError("this transaction has ended with its block")  # another job may use its connection now
        return self._own

    def end(self) -> OwnTransaction:
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
        self._asked: concurrent.futures.Future[Any] | None = None
        self.guest: Guest = _GuestInThread(tx, self._ask)
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
        return self._ask(self._tx.execute(statement, *values))

    def fetch(self, statement: str, *values: object) -> list[Any]:
        """Run a statement; its rows."""
        return self._ask(self._tx.fetch(statement, *values))

    def fetchrow(self, statement: str, *values: object) -> Any:
        """Run a statement; its first row, or None."""
        return self._ask(self._tx.fetchrow(statement, *values))

    def fetchval(self, statement: str, *values: object) -> Any:
        """Run a statement; the first value of its first row, or None."""
        return self._ask(self._tx.fetchval(statement, *values))

    @property
    def connection(self) -> Any:
        """The driver's connection: apsw's can be used here, asyncpg's only on the worker's loop."""
        return self._tx.connection

    def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        self._asked = asked = asyncio.run_coroutine_threadsafe(question, self._completion.transactions.loop)
        try:
            return asked.result()
        except concurrent.futures.CancelledError:
            raise Aborted(self._signal.reason or AbortReason.ERROR) from None
        finally:
            self._asked = None

    def _interrupt(self) -> None:
        if (asked := self._asked) is not None:
            asked.cancel()


class _GuestInThread(Guest):
    def __init__(self, tx: AsyncTransaction, ask: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._tx = tx
        self._ask = ask

    def run(self, errand: Errand[T]) -> T:
        answer: T = self._ask(self._tx.guest.arun(errand))
        return answer


# The blocks.


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
            self._completion.stage = Stage.RUNNING
            raise
        return self._tx

    async def _exit(self, error: BaseException | None) -> None:
        completion, own = self._completion, self._tx.end()
        if error is not None:
            try:
                await to_the_end(own.rollback())
            finally:
                completion.stage = Stage.RUNNING
            return
        completion.stage = Stage.SETTLING
        # Whatever happens to the function from here on, what came of the commit must be known.
        completion.finishing = asyncio.ensure_future(self._finish(own))
        await to_the_end(completion.finishing)

    async def _finish(self, own: OwnTransaction) -> None:
        completion = self._completion
        try:
            try:
                errand = completion.settling(self._tx.result)
                await awaiting(completion.allowed())
                completion.judge(await own.guest.arun(errand))
            except BaseException:
                await own.rollback()
                raise
            try:
                await own.commit()
            except OutcomeUnknown as unknown:
                await completion.find_out()
                self._refuse_unless_final(unknown)
            else:
                completion.stage = Stage.FINAL
        finally:
            completion.finishing = None
            if completion.stage is Stage.SETTLING:
                completion.stage = Stage.RUNNING

    def _refuse_unless_final(self, unknown: OutcomeUnknown) -> None:
        if self._completion.stage is not Stage.FINAL:
            self._completion.check()  # lost, if nobody could tell
            job_id = self._completion.lease.job.id
            raise StoreUnavailable(f"the transaction of job {job_id} was not committed: {unknown}") from unknown


class _WithConnection(Block[Joined, Joined]):
    def __init__(self, completion: Completion, ctx: Context, connection: Any) -> None:
        super().__init__(completion, ctx)
        self._guest = guest(connection)
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
            await self._guest.arun(self._nothing())
        return self._tx

    async def _exit(self, error: BaseException | None) -> None:
        if error is not None:
            self._completion.stage = Stage.RUNNING
        else:
            with self._reset_if_it_raises():
                errand = self._completion.settling(self._tx.result)
                await awaiting(self._completion.allowed())
            self._judge(await self._guest.arun(self._joined(errand)))

    def __enter__(self) -> Joined:
        refuse_on_loop(self._name, "use async with")
        if self._guest.awaited:
            raise InvalidOption(
                "connection= is one whose calls are awaited: use async with, in a task that is an async def"
            )
        self._wait(self._completion.open())
        with self._reset_if_it_raises():
            self._guest.run(self._nothing())
        return self._tx

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._completion.stage = Stage.RUNNING
        else:
            with self._reset_if_it_raises():
                errand = self._completion.settling(self._tx.result)
                waiting(self._completion.allowed())
            self._judge(self._guest.run(self._joined(errand)))

    def _nothing(self) -> Errand[list[Enqueued]]:
        """An errand that does nothing, and tells whether the connection will do before the caller has written there."""
        return self._transactions.store.enqueueing(())

    def _joined(self, errand: Errand[Verdict]) -> Errand[Verdict]:
        # Before it is sent: should it be cut off there, only the store can tell what came of it.
        self._completion.stage = Stage.JOINED
        return errand

    def _judge(self, verdict: Verdict) -> None:
        if verdict.kind is not VerdictKind.OK:
            self._completion.stage = Stage.RUNNING
        self._completion.judge(verdict)

    @contextmanager
    def _reset_if_it_raises(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._completion.stage = Stage.RUNNING
            raise


async def to_the_end(action: Awaitable[T]) -> T:
    """Wait for this to end, whatever happens to the caller, whose cancellation is passed on only then."""
    task = asyncio.ensure_future(action)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        with suppress(asyncio.CancelledError):
            task.exception()  # seen: the cancellation is what the caller is told
        raise cancelled
    return task.result()
