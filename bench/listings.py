"""Listings to measure on a full store: pages of jobs, counts, metrics, one job and why it does not run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from tenure import App, State
from tenure.core.job import ErrorInfo, NewJob, new_id
from tenure.core.lease import new_nonce
from tenure.core.lifecycle import Finish
from tenure.core.measures import HistoryWrite
from tenure.observe.prometheus import Collector
from tenure.stores import open_store
from tenure.stores.values import Action, LeaseRequest
from tenure.sync import run

__all__ = ["fail", "fill", "listings", "remember"]


async def fail(url: str, number: int) -> None:
    """Fail the first `number` jobs in the queue, a thousand at a time."""
    store = open_store(url)
    for _ in range(number // 1000):
        request = LeaseRequest(queues=("default",), limit=1000, worker="bench", ttl=60, nonce=new_nonce())
        leases = (await store.lease(request)).leases
        await store.settle([(lease, Finish(State.FAILED, error=ErrorInfo("Error", "bench"))) for lease in leases])
    await store.close()


async def fill(url: str, number: int) -> None:
    """Enqueue one job in each of `number` queues."""
    store = open_store(url)
    for first in range(0, number, 1000):
        jobs = [NewJob(id=new_id(), task="noop", queue=f"q{at}") for at in range(first, min(first + 1000, number))]
        await store.enqueue(jobs)
    await store.close()


async def remember(url: str, pairs: int) -> None:
    """Fill the history with as many pairs of queue and task, each with many durations."""
    counts = {"succeeded": 1000.0, "failed": 10.0, "run": 50.0, "wait": 20.0, "error:KeyError": 10.0}
    counts |= {f"{what}:{number}": 30.0 for what in ("run", "wait") for number in range(-16, 12)}
    store = open_store(url)
    await store.note_actions(
        [Action(who="ann", by="cli", what="retry", target=f"job {number}") for number in range(1000)]
    )
    await store.record_history([HistoryWrite("default", f"t{number}", counts) for number in range(pairs)])
    await store.close()


async def _edges(app: App, job_id: str) -> object:
    return await app.internals.session.store.edges(job_id)


def listings(app: App) -> dict[str, Callable[[], object]]:
    """The listings by name."""
    [last] = app.jobs(limit=1)
    [failed] = app.jobs(state="failed", limit=1)
    ended = (
        datetime.fromtimestamp(failed.record.ended_at or 0.0, UTC) if failed.record is not None else datetime.now(UTC)
    )
    return {
        "counts": app.queues,
        "all jobs": app.jobs,
        "waiting jobs": lambda: app.jobs(state="waiting"),
        "of a task": lambda: app.jobs(task="noop"),
        "failed": lambda: app.jobs(state="failed"),
        "failed of a task": lambda: app.jobs(state="failed", task="noop"),
        "by a tag that none has": lambda: app.jobs(tag="unused"),
        "failed by a tag that none has": lambda: app.jobs(state="failed", tag="unused"),
        "scheduled jobs": lambda: app.jobs(scheduled=True),
        "failed before a time": lambda: app.jobs(state="failed", before=ended),
        "failed with an error that none has": lambda: app.jobs(state="failed", error="Unused"),
        "failed of a worker that does not exist": lambda: app.jobs(state="failed", worker="unused"),
        "by a text that none has": lambda: app.jobs(text="unused text"),
        "failed by a text that none has": lambda: app.jobs(state="failed", text="unused text"),
        "what a job waited for": lambda: run(_edges(app, last.id)),
        "audit": app.actions,
        "history of an hour": app.history,
        "what needs attention": app.attention,
        "metrics": Collector(app, cache=0).exposition,
        "runs": app.flows,
        "totals": app.stats,
        "one job, whole": lambda: app.job(last.id),
        "why a job does not run": lambda: app.explain(last),
    }
