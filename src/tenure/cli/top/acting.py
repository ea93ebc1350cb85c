"""`act`: does what the operator has asked for in `tenure top`, and says what became of it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tenure.cli.audit import act_and_note, note
from tenure.cli.top.state import Explain, Pause, Request, Resume, RetryFailed, Ui
from tenure.core.job import State
from tenure.errors import TenureError
from tenure.jobs.audit import described
from tenure.stores.values import Search

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["act"]


async def act(app: App, request: Request, ui: Ui) -> Ui:
    """Carry out a request. Returns what is shown then; an error becomes a message in the bottom line."""
    try:
        match request:
            case Pause(queue):
                if done := await app.apause(queue):
                    await note(app, "pause", queue, 1, by="top")
                return replace(ui, message=f"paused {queue}" if done else f"{queue} is already paused")
            case Resume(queue):
                if done := await app.aresume(queue):
                    await note(app, "resume", queue, 1, by="top")
                return replace(ui, message=f"resumed {queue}" if done else f"{queue} is not paused")
            case RetryFailed(queue):
                search = Search(state=State.FAILED, queue=queue)
                act = functools.partial(app.aretry, queue=queue, state=State.FAILED)
                retried = await act_and_note(app, "failed retry", described(search), act, by="top")
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
