"""Enqueues jobs and runs: in the store of the app, in a transaction of the caller, or together at the end of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar, Token
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tenure.core.after import BoundCall, NewJobs
from tenure.core.job import NewJob
from tenure.errors import InvalidOption, OutcomeUnknown, StoreUnavailable
from tenure.hooks.calling import HookCalls, awaiting, waiting
from tenure.jobs.enqueue_hooks import allowed, enqueued
from tenure.jobs.handle import Handle, Job
from tenure.stores.base import Store
from tenure.stores.callers import CallerConnection, caller_connection
from tenure.stores.values import Enqueued
from tenure.sync import refuse_on_loop, run

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.jobs.run import FlowRun
    from tenure.tasks.flow import Start
    from tenure.tasks.task import Call

__all__ = [
    "Batch",
    "Pending",
    "abring",
    "asend",
    "asubmit",
    "bring",
    "caller_connection_of",
    "pending_of",
    "send",
    "submit",
    "tell",
]


def send(app: App, pending: Sequence[Pending]) -> None:
    """Store these jobs together, and let their handles know."""
    refuse_on_loop("enqueue")
    if app.internals.hooks.enqueues:
        waiting(_allowed(app, pending))
    answers = _send_here(app, pending) or run(_send(app, pending))
    tell(pending, answers)
    if app.internals.hooks.enqueues:
        waiting(_enqueued(app, pending, answers))
    if app.internals.inlines:
        app.internals.inlines[-1].run_pending_here(_handles(pending))


async def asend(app: App, pending: Sequence[Pending]) -> None:
    """The async twin of `send`."""
    if app.internals.hooks.enqueues:
        await awaiting(_allowed(app, pending))
    answers = await app.internals.session.enqueue([new for new, _ in pending])
    tell(pending, answers)
    if app.internals.hooks.enqueues:
        await awaiting(_enqueued(app, pending, answers))
    if app.internals.inlines:
        await app.internals.inlines[-1].run_pending(_handles(pending))


def bring(app: App, pending: Sequence[Pending], caller: CallerConnection) -> None:
    """Store these jobs in a caller's transaction."""
    refuse_on_loop("enqueue")
    if caller.awaited:
        raise InvalidOption("this connection= is awaited: await aenqueue() instead")
    session = app.internals.sessions.private
    store = session.store if session is not None and session.is_open else run(_opened(app))
    if app.internals.hooks.enqueues:
        waiting(_allowed(app, pending))
    answers = caller.run(store.enqueueing([new for new, _ in pending]))
    tell(pending, answers)
    if app.internals.hooks.enqueues:
        waiting(_enqueued(app, pending, answers))


async def abring(app: App, pending: Sequence[Pending], caller: CallerConnection) -> None:
    """The async twin of `bring`."""
    store = await _opened(app)
    if app.internals.hooks.enqueues:
        await awaiting(_allowed(app, pending))
    answers = await caller.arun(store.enqueueing([new for new, _ in pending]))
    tell(pending, answers)
    if app.internals.hooks.enqueues:
        await awaiting(_enqueued(app, pending, answers))


def _allowed(app: App, pending: Sequence[Pending]) -> HookCalls[None]:
    return allowed(app, [new for new, _ in pending])


def _enqueued(app: App, pending: Sequence[Pending], answers: Sequence[Enqueued]) -> HookCalls[None]:
    return enqueued(app, [new for new, _ in pending], [handle for _, handle in pending], answers)


def _send_here(app: App, pending: Sequence[Pending]) -> Sequence[Enqueued] | None:
    """Store these jobs on this very thread, sparing two hops to others; None if the store cannot."""
    session = app.internals.sessions.private
    if session is None or app.internals.inlines:
        return None
    jobs, started = [new for new, _ in pending], monotonic()
    try:
        return session.store.enqueue_now(jobs)
    except (StoreUnavailable, OutcomeUnknown) as error:
        return run(session.enqueue_again(jobs, error, started))


async def _send(app: App, pending: Sequence[Pending]) -> Sequence[Enqueued]:
    return await app.internals.session.enqueue([new for new, _ in pending])


def _handles(pending: Sequence[Pending]) -> list[Handle]:
    return [handle for _, handle in pending if handle is not None]


async def _opened(app: App) -> Store:
    """The store of the running loop, whose errands can be had."""
    return await app.internals.session.open()


Pending = tuple[NewJob, Handle | None]
"""A job on its way into the store, and the handle that learns what became of it; None if nobody has asked for one."""


def pending_of(
    calls: Sequence[Call[Any] | Start],
) -> tuple[list[Job[Any] | FlowRun], list[Pending], Sequence[BoundCall]]:
    """The handles of these calls; what is to be stored, in an order in which it can be; and the calls which that is."""
    if not any(call.after for call in calls):
        plain = [(new := call.new_job(), call.handle(new)) for call in calls]
        return [handle for _, handle in plain], list(plain), calls
    coming = NewJobs()
    jobs = [coming.add(call) for call in calls]
    handles = {new.id: call.handle(new) for call, new in zip(calls, jobs, strict=True)}
    return list(handles.values()), [(new, handles.get(new.id)) for new in coming.jobs], coming.calls


def tell(pending: Sequence[Pending], answers: Sequence[Enqueued]) -> None:
    """Let the handles know what became of their jobs."""
    for (_, handle), answer in zip(pending, answers, strict=True):
        if handle is not None:
            handle._enqueued(answer)


def caller_connection_of(calls: Sequence[BoundCall], connection: object) -> CallerConnection | None:
    """The connection that these calls are to go through, if one is given for all of them or for some."""
    given = [connection, *(call.connection for call in calls)]
    found = {id(each): each for each in given if each is not None}
    if len(found) > 1:
        raise InvalidOption("calls that are enqueued together go through one connection=, and these have several")
    return caller_connection(*found.values()) if found else None


class Batch:
    """`with app.batch():` or `async with app.batch():`, every enqueue of the app in the block goes in one atomic call at its end.

    Nothing is stored if the block raises. Enqueueing waits for nothing in the block, so the handles know nothing until
    it has ended. A batch inside a batch goes with the outer one.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._pending: list[Pending] = []
        self.outer: Batch | None = None
        self._token: Token[Batch | None] | None = None

    def takes(self, app: App) -> bool:
        """Whether jobs of this app go into this batch: it is the app's own, and still open."""
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
            submit(self._app, self._pending)

    async def __aenter__(self) -> Self:
        return self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._close() and kind is None:
            await asubmit(self._app, self._pending)

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


def submit(app: App, pending: Sequence[Pending]) -> None:
    """Store these jobs together, now or with the batch that is open here, and let their handles know."""
    if (batch := _open_batch(app)) is not None:
        batch.add(pending)
    elif pending:
        send(app, pending)


async def asubmit(app: App, pending: Sequence[Pending]) -> None:
    """The async twin of `submit`."""
    if (batch := _open_batch(app)) is not None:
        batch.add(pending)
    elif pending:
        await asend(app, pending)


def _open_batch(app: App) -> Batch | None:
    """The innermost batch of this app that is open here.

    A task or thread that was started in a block may still see a batch that has ended: it passes it over.
    """
    batch = _current.get()
    while batch is not None and not batch.takes(app):
        batch = batch.outer
    return batch
