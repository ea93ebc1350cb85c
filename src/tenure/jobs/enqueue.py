"""Enqueues jobs and runs: in the app's store, in a transaction of the caller, or at the end of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar, Token
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tenure.core.after import BoundCall, NewJobs
from tenure.core.job import NewJob
from tenure.errors import InvalidOption, OutcomeUnknown, StoreUnavailable
from tenure.hooks.calling import HookCalls, acall_hooks, call_hooks
from tenure.jobs.enqueue_hooks import after_enqueue, before_enqueue
from tenure.jobs.handle import Handle, Job
from tenure.jobs.stamps import stamped
from tenure.stores.callers import AnotherDatabase, CallerConnection, caller_connection
from tenure.stores.values import Enqueued
from tenure.sync import refuse_on_loop, run

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.jobs.run import FlowRun
    from tenure.stores.base import Store
    from tenure.tasks.flow import Start
    from tenure.tasks.task import Call

__all__ = [
    "Batch",
    "Pending",
    "aenqueue",
    "aenqueue_in_transaction",
    "caller_connection_of",
    "enqueue",
    "enqueue_in_transaction",
    "prepare_calls",
]

# From calls to jobs.

Pending = tuple[NewJob, Handle | None]
"""A job that is about to be enqueued, and its handle; None for a job that exists only because another waits for it."""


def prepare_calls(
    app: App,
    calls: Sequence[Call[Any] | Start],
) -> tuple[list[Job[Any] | FlowRun], list[Pending], Sequence[BoundCall]]:
    """Turn `calls` into jobs, with the headers of the app's stamps.

    Returns one handle for each call; the jobs, with those that they wait for, in an order in which they can be stored; and
    the call of each of these jobs.
    """
    if not any(call.after for call in calls):
        plain = [(new := call.new_job(), call.handle(new)) for call in calls]
        handles = [handle for _, handle in plain]
        pending: list[Pending] = list(plain)
        if app.internals.stamps:
            pending = list(zip(stamped(app, [new for new, _ in plain]), handles, strict=True))
        if app.internals.note is not None:
            app.internals.note([new for new, _ in pending])
        return handles, pending, calls
    coming = NewJobs()
    jobs = [coming.add(call) for call in calls]
    by_id = {new.id: call.handle(new) for call, new in zip(calls, jobs, strict=True)}
    pending = [(new, by_id.get(new.id)) for new in stamped(app, coming.jobs)]
    if app.internals.note is not None:
        app.internals.note([new for new, _ in pending])
    return list(by_id.values()), pending, coming.calls


def caller_connection_of(calls: Sequence[BoundCall], connection: object) -> CallerConnection | None:
    """The one connection that `connection` or any of `calls` names; None if none does, `InvalidOption` if there are several."""
    given = [connection, *(call.connection for call in calls)]
    found = {id(each): each for each in given if each is not None}
    if len(found) > 1:
        raise InvalidOption("calls that are enqueued together go through one connection=, and these have several")
    return caller_connection(*found.values()) if found else None


# In the store of the app.


def enqueue(app: App, pending: Sequence[Pending]) -> None:
    """Store all of these jobs or none, and update their handles: now, or at the end of the batch that is open here."""
    if (batch := _open_batch(app)) is not None:
        batch.add(pending)
    elif pending:
        _enqueue_now(app, pending)


async def aenqueue(app: App, pending: Sequence[Pending]) -> None:
    """The async twin of `enqueue`."""
    if (batch := _open_batch(app)) is not None:
        batch.add(pending)
    elif pending:
        await _aenqueue_now(app, pending)


def _enqueue_now(app: App, pending: Sequence[Pending]) -> None:
    refuse_on_loop("enqueue")
    if app.internals.hooks.enqueues:
        call_hooks(_before(app, pending))
    answers = _store_on_this_thread(app, pending) or run(_store_on_private_loop(app, pending))
    _update_handles(pending, answers)
    if app.internals.hooks.enqueues:
        call_hooks(_after(app, pending, answers))
    if app.internals.inlines:
        app.internals.inlines[-1].run_pending_here(_handles(pending))


async def _aenqueue_now(app: App, pending: Sequence[Pending]) -> None:
    if app.internals.hooks.enqueues:
        await acall_hooks(_before(app, pending))
    answers = await app.internals.session.enqueue([new for new, _ in pending])
    _update_handles(pending, answers)
    if app.internals.hooks.enqueues:
        await acall_hooks(_after(app, pending, answers))
    if app.internals.inlines:
        await app.internals.inlines[-1].run_pending(_handles(pending))


def _store_on_this_thread(app: App, pending: Sequence[Pending]) -> Sequence[Enqueued] | None:
    """Store these jobs without the two hops to the private loop and back; None if the store cannot."""
    session = app.internals.sessions.private
    if session is None or app.internals.inlines:
        return None
    jobs, started = [new for new, _ in pending], monotonic()
    try:
        return session.store.enqueue_now(jobs)
    except (StoreUnavailable, OutcomeUnknown) as error:
        return run(session.retry_enqueue(jobs, error, started))


async def _store_on_private_loop(app: App, pending: Sequence[Pending]) -> Sequence[Enqueued]:
    return await app.internals.session.enqueue([new for new, _ in pending])


# In a transaction of the caller.


def enqueue_in_transaction(app: App, pending: Sequence[Pending], caller: CallerConnection) -> None:
    """Store these jobs in the transaction of `caller`, and update their handles. They exist once that commits."""
    refuse_on_loop("enqueue")
    if caller.awaited:
        raise InvalidOption("this connection= is awaited: await aenqueue() instead")
    session = app.internals.sessions.private
    store = session.store if session is not None and session.is_open else run(_opened_store(app))
    if app.internals.hooks.enqueues:
        call_hooks(_before(app, pending))
    answers: Sequence[Enqueued]
    try:
        answers = caller.run(store.enqueueing([new for new, _ in pending]))
    except AnotherDatabase:
        if not app.internals.any_connection:
            raise
        answers = run(_store_on_private_loop(app, pending))
    _update_handles(pending, answers)
    if app.internals.hooks.enqueues:
        call_hooks(_after(app, pending, answers))


async def aenqueue_in_transaction(app: App, pending: Sequence[Pending], caller: CallerConnection) -> None:
    """The async twin of `enqueue_in_transaction`."""
    store = await _opened_store(app)
    if app.internals.hooks.enqueues:
        await acall_hooks(_before(app, pending))
    try:
        answers = await caller.arun(store.enqueueing([new for new, _ in pending]))
    except AnotherDatabase:
        if not app.internals.any_connection:
            raise
        answers = await store.enqueue([new for new, _ in pending])
    _update_handles(pending, answers)
    if app.internals.hooks.enqueues:
        await acall_hooks(_after(app, pending, answers))


async def _opened_store(app: App) -> Store:
    """The store of the running loop, which must be open before it can make work for a caller's connection."""
    return await app.internals.session.open()


# Hooks and handles.


def _before(app: App, pending: Sequence[Pending]) -> HookCalls[None]:
    return before_enqueue(app, [new for new, _ in pending])


def _after(app: App, pending: Sequence[Pending], answers: Sequence[Enqueued]) -> HookCalls[None]:
    return after_enqueue(app, [new for new, _ in pending], [handle for _, handle in pending], answers)


def _update_handles(pending: Sequence[Pending], answers: Sequence[Enqueued]) -> None:
    for (_, handle), answer in zip(pending, answers, strict=True):
        if handle is not None:
            handle._update_enqueued(answer)


def _handles(pending: Sequence[Pending]) -> list[Handle]:
    return [handle for _, handle in pending if handle is not None]


# At the end of a batch.


class Batch:
    """Enqueues everything that a block of code enqueues in one atomic call, at the end of the block.

    ```python
    with app.batch():  # or: async with app.batch():
        for user in users:
            send_welcome.enqueue(user.id)
    ```

    If the block raises, nothing is stored. Inside the block `enqueue` returns at once, and its handles do not know yet what
    became of their jobs. A batch inside a batch of the same app is stored with the outer one.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._pending: list[Pending] = []
        self.outer: Batch | None = None
        self._token: Token[Batch | None] | None = None

    def takes(self, app: App) -> bool:
        """Whether jobs of `app` go into this batch: it is that app's, and still open."""
        return self._app is app and self._token is not None

    def add(self, pending: Sequence[Pending]) -> None:
        self._pending += pending

    def __enter__(self) -> Self:
        refuse_on_loop("with app.batch", "use async with")
        return self._open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._close() and kind is None:
            enqueue(self._app, self._pending)

    async def __aenter__(self) -> Self:
        return self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._close() and kind is None:
            await aenqueue(self._app, self._pending)

    def _open(self) -> Self:
        self.outer = _current.get()
        self._token = _current.set(self)
        return self

    def _close(self) -> bool:
        """End the block; whether anything was enqueued in it."""
        assert self._token is not None
        _current.reset(self._token)
        self._token = None
        return bool(self._pending)


_current: ContextVar[Batch | None] = ContextVar("tenure_batch", default=None)


def _open_batch(app: App) -> Batch | None:
    """The innermost open batch of this app.

    A task or thread that was started inside a block may still see its batch after the end: that one is skipped.
    """
    batch = _current.get()
    while batch is not None and not batch.takes(app):
        batch = batch.outer
    return batch
