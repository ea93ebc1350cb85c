"""`act`: does what the operator has asked for in `tenure top`, and says what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tenure.cli.top.state import Explain, Order, Pause, Resume, RetryFailed, Ui
from tenure.core.job import State
from tenure.errors import TenureError
from tenure.stores.values import Search

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["act"]


async def act(app: App, order: Order, ui: Ui) -> Ui:
    """Carry out an order. Returns what is shown then; an error becomes a message in the bottom line."""
    try:
        match order:
            case Pause(queue):
                done = await app.apause(queue)
                return replace(ui, message=f"paused {queue}" if done else f"{queue} is already paused")
            case Resume(queue):
                done = await app.aresume(queue)
                return replace(ui, message=f"resumed {queue}" if done else f"{queue} is not paused")
            case RetryFailed(queue):
                retried = await app.aretry(queue=queue, state=State.FAILED)
                return replace(ui, message=f"put back {retried:,} {'job' if retried == 1 else 'jobs'} of {queue}")
            case Explain(queue, job):
                return await _explained(app, queue, job, ui)
    except TenureError as error:
        return replace(ui, message=str(error))
    return ui


async def _explained(app: App, queue: str, job: str | None, ui: Ui) -> Ui:
    if job is None:
        page = await app.internals.session.store.search(Search(state=State.WAITING, queue=queue, limit=1))
        if not page.jobs:
            return replace(ui, message=f"{queue}: no job is in line")
        job = page.jobs[0].id
    found = await app.aexplain(job)
    lines = [found.summary, ""]
    for reason in found.reasons:
        lines += [f"- {reason.sentence}", *([f"  {reason.advice}"] if reason.advice else [])]
    return replace(ui, view="explain", row=0, explanation=tuple(lines))
