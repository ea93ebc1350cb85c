"""Storing what is pending, now: in the app's own store, or in a caller's transaction; hooks are asked before and told after."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from tenure.enqueueing import allowed, enqueued
from tenure.errors import InvalidOption, OutcomeUnknown, StoreUnavailable
from tenure.handle import Handle
from tenure.hooks import Steps, awaiting, waiting
from tenure.pending import Pending, tell
from tenure.stores.base import Store
from tenure.stores.guests import Guest
from tenure.stores.values import Enqueued
from tenure.sync import refuse_on_loop, run

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["abring", "asend", "bring", "send"]


def send(app: App, pending: Sequence[Pending]) -> None:
    """Store these jobs together, and let their handles know."""
    refuse_on_loop("enqueue")
    if app.hooks.enqueues:
        waiting(_allowed(app, pending))
    answers = _send_here(app, pending) or run(_send(app, pending))
    tell(pending, answers)
    if app.hooks.enqueues:
        waiting(_enqueued(app, pending, answers))
    if app.inlines:
        app.inlines[-1].work_off_here(_handles(pending))


async def asend(app: App, pending: Sequence[Pending]) -> None:
    """The async twin of `send`."""
    if app.hooks.enqueues:
        await awaiting(_allowed(app, pending))
    answers = await app.session.enqueue([new for new, _ in pending])
    tell(pending, answers)
    if app.hooks.enqueues:
        await awaiting(_enqueued(app, pending, answers))
    if app.inlines:
        await app.inlines[-1].work_off(_handles(pending))


def bring(app: App, pending: Sequence[Pending], caller: Guest) -> None:
    """Store these jobs in a caller's transaction."""
    refuse_on_loop("enqueue")
    if caller.awaited:
        raise InvalidOption("this connection= is awaited: await aenqueue() instead")
    session = app.sessions.private
    store = session.store if session is not None and session.is_open else run(_opened(app))
    if app.hooks.enqueues:
        waiting(_allowed(app, pending))
    answers = caller.run(store.enqueueing([new for new, _ in pending]))
    tell(pending, answers)
    if app.hooks.enqueues:
        waiting(_enqueued(app, pending, answers))


async def abring(app: App, pending: Sequence[Pending], caller: Guest) -> None:
    """The async twin of `bring`."""
    store = await _opened(app)
    if app.hooks.enqueues:
        await awaiting(_allowed(app, pending))
    answers = await caller.arun(store.enqueueing([new for new, _ in pending]))
    tell(pending, answers)
    if app.hooks.enqueues:
        await awaiting(_enqueued(app, pending, answers))


def _allowed(app: App, pending: Sequence[Pending]) -> Steps[None]:
    return allowed(app, [new for new, _ in pending])


def _enqueued(app: App, pending: Sequence[Pending], answers: Sequence[Enqueued]) -> Steps[None]:
    return enqueued(app, [new for new, _ in pending], [handle for _, handle in pending], answers)


def _send_here(app: App, pending: Sequence[Pending]) -> Sequence[Enqueued] | None:
    """Store these jobs on this very thread, sparing two hops to others; None if the store cannot."""
    session = app.sessions.private
    if session is None or app.inlines:
        return None
    jobs, started = [new for new, _ in pending], monotonic()
    try:
        return session.store.enqueue_now(jobs)
    except (StoreUnavailable, OutcomeUnknown) as error:
        return run(session.enqueue_again(jobs, error, started))


async def _send(app: App, pending: Sequence[Pending]) -> Sequence[Enqueued]:
    return await app.session.enqueue([new for new, _ in pending])


def _handles(pending: Sequence[Pending]) -> list[Handle]:
    return [handle for _, handle in pending if handle is not None]


async def _opened(app: App) -> Store:
    """The store of the running loop, whose errands can be had."""
    return await app.session.open()
