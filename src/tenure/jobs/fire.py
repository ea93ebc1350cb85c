"""`fire` enqueues the jobs of ticks, with the hooks around an enqueue."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tenure.core.job import NewJob, State
from tenure.core.schedule import Firing, Overlap, TickEnd, TickRecord
from tenure.errors import EnqueueRefused
from tenure.hooks.calling import acall_hooks
from tenure.jobs.enqueue_hooks import after_enqueue, before_enqueue
from tenure.stores.base import Store
from tenure.stores.values import Enqueued

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["fire"]

log = logging.getLogger("tenure")


async def fire(app: App, store: Store, firings: Sequence[Firing]) -> list[tuple[TickRecord, ...] | None]:
    """Fire these ticks, with the hooks around an enqueue. A tick that a `before_enqueue` hook refuses is history.

    Returns what became of each job that the hooks let pass; None for a firing that another process has forestalled.
    """
    if not app.internals.hooks.enqueues:
        return await store.fire(firings)
    firings = [await _asked(app, firing) for firing in firings]
    answers = await store.fire(firings)
    for firing, fired in zip(firings, answers, strict=True):
        for (_, job), entry in zip(firing.jobs, fired or (), strict=fired is not None):
            if entry.enqueued:
                await _tell(app, store, firing, job)
    return [
        None if fired is None else (*(entry for entry in firing.entries if entry.end is TickEnd.REFUSED), *fired)
        for firing, fired in zip(firings, answers, strict=True)
    ]


async def _tell(app: App, store: Store, firing: Firing, job: NewJob) -> None:
    """Call the `after_enqueue` hooks for a job that was enqueued. What they raise is logged."""
    state = State.WAITING
    if firing.overlap is Overlap.WAIT:  # only the store knows whether it waits for the last one
        [record] = await store.get([job.id])
        state = State.WAITING if record is None else record.state
    try:
        await acall_hooks(after_enqueue(app, [job], [None], [Enqueued(job.id, state)]))
    except Exception:
        log.exception("schedule %s: an after_enqueue hook failed", firing.name)


async def _asked(app: App, firing: Firing) -> Firing:
    """The firing without the jobs that a `before_enqueue` hook refuses."""
    passed: list[tuple[float, NewJob]] = []
    refused: list[TickRecord] = []
    for tick, job in firing.jobs:
        try:
            await acall_hooks(before_enqueue(app, [job]))
        except EnqueueRefused:
            refused.append(TickRecord(tick, TickEnd.REFUSED))
        except Exception:
            log.exception(
                "schedule %s: a before_enqueue hook failed, so nothing is enqueued for this tick", firing.name
            )
            refused.append(TickRecord(tick, TickEnd.REFUSED))
        else:
            passed.append((tick, job))
    return replace(firing, jobs=tuple(passed), entries=(*firing.entries, *refused)) if refused else firing
