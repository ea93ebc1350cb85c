"""Reads jobs, listings, runs, queues and workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import msgspec

from tenure.core.job import JobRecord, State, shortened
from tenure.stores.cursors import number_of, numbers_of
from tenure.stores.memory.data import Data
from tenure.stores.memory.jobs import Queue, Run, StoredJob
from tenure.stores.memory.wakeup import CrossLoopMailbox
from tenure.stores.values import (
    LOOK,
    Announcement,
    EdgeInfo,
    Page,
    QueueInfo,
    RunPage,
    RunRecord,
    RunSearch,
    Search,
    Totals,
    WorkerInfo,
)

__all__ = [
    "attributes",
    "blockers",
    "edges",
    "get",
    "ids",
    "queues",
    "run",
    "runs",
    "search",
    "steps",
    "wait",
    "workers",
]


def get(data: Data, ids: Sequence[str]) -> list[JobRecord | None]:
    """Read jobs, None for each that does not exist."""
    return [_with_history(data, data.jobs[id_]) if id_ in data.jobs else None for id_ in ids]


def _with_history(data: Data, job: StoredJob) -> JobRecord:
    record = data.record(job)
    return msgspec.structs.replace(record, attempts=job.attempts) if job.attempts else record


def ids(data: Data, prefix: str, limit: int) -> list[str]:
    """Ids that begin with `prefix`."""
    return list(islice((job_id for job_id in data.jobs if job_id.startswith(prefix)), limit))


def blockers(data: Data, job_id: str, limit: int) -> list[str]:
    """The ids that a blocked job still waits for."""
    job = data.jobs.get(job_id)
    if job is None or job.state is not State.BLOCKED:
        return []
    return [edge.blocker for edge in job.edges if edge.open][:limit]


def edges(data: Data, job_id: str, limit: int) -> list[EdgeInfo]:
    """What a job was told to wait for."""
    job = data.jobs.get(job_id)
    return [] if job is None else [EdgeInfo(edge.blocker, edge.open) for edge in job.edges[:limit]]


def queues(data: Data, after: str = "", limit: int | None = None) -> list[QueueInfo]:
    """List the queues with their counts, by name."""
    names = sorted(name for name in data.queues if name > after)[:limit]
    return [data.queues[name].info(_oldest(data, data.queues[name])) for name in names]


def _oldest(data: Data, queue: Queue) -> float | None:
    first = [data.jobs[id_] for id_ in queue.first_of_each_priority()]
    ready = [job.created_at if job.ready_at is None else job.ready_at for job in first]
    return max(data.clock.wall() - min(ready), 0.0) if ready else None


def workers(data: Data) -> list[WorkerInfo]:
    """List the registered workers by their start."""
    boot = data.clock.boot()
    return [
        msgspec.structs.replace(worker.info, silent_for=boot - worker.beat, totals=Totals(**worker.totals))
        for worker in sorted(data.workers.values(), key=lambda worker: worker.info.started_at)
    ]


def wait(data: Data, ids: Sequence[str], mailbox: CrossLoopMailbox[Announcement]) -> dict[str, JobRecord | None]:
    """The jobs that are final or do not exist. The end of the others is announced to this mailbox."""
    found: dict[str, JobRecord | None] = {}
    for id_ in ids:
        job = data.resolve(id_)
        if job is None or job.state.final:
            found[id_] = None if job is None else data.record(job)
        else:
            data.jobs[id_].awaited = True
            data.waiters[id_].add(mailbox)
    return found


def run(data: Data, run_id: str) -> RunRecord | None:
    """Read a run."""
    return _run_record(data, data.runs[run_id]) if run_id in data.runs else None


def _run_record(data: Data, run: Run) -> RunRecord:
    first, last = run.steps[0], run.steps[-1]
    done = [step.new.queue for step in run.steps[-2:] if step.state is State.SUCCEEDED]
    return RunRecord(first.new.id, run.flow, first.created_at, data.record(last), done[-1] if done else None)


def runs(data: Data, search: RunSearch) -> RunPage:
    """List runs newest first, from the cursor on."""
    before = None if search.cursor is None else number_of(search.cursor)
    walk = (
        run
        for run in sorted(data.runs.values(), key=lambda run: -run.number)
        if search.flow in {None, run.flow} and _found_by(run, search.lookup) and (before is None or run.number < before)
    )
    found: list[RunRecord] = []
    looked_at = 0
    cursor = None
    for each in islice(walk, LOOK):
        looked_at += 1
        cursor = str(each.number)
        if search.state in {None, each.steps[-1].state}:
            found.append(_run_record(data, each))
            if len(found) == search.limit:
                break
    more = next(walk, None) is not None
    return RunPage(found, cursor if more else None, looked_at)


def _found_by(run: Run, lookup: tuple[str, str] | None) -> bool:
    return lookup is None or lookup[1] in run.lookups.get(lookup[0], ())


def steps(data: Data, run_id: str, limit: int, cursor: str | None) -> Page:
    """List the steps of a run in the order of their creation, from the cursor on."""
    if run_id not in data.runs:
        return Page([], None, 0)
    start = 0 if cursor is None else max(number_of(cursor), 0)
    found = data.runs[run_id].steps[start : start + limit]
    more = start + limit < len(data.runs[run_id].steps)
    return Page([data.record(step) for step in found], str(start + limit) if more else None, len(found))


def attributes(data: Data, run_id: str, names: Sequence[str] | None) -> dict[str, str]:
    """Read attributes of a run."""
    has = data.runs[run_id].attributes if run_id in data.runs else {}
    return dict(has) if names is None else {name: has[name] for name in names if name in has}


Key = list[float]
"""Sort key of a job in a listing."""


def search(data: Data, search: Search) -> Page:
    """List jobs in the order of their state, from the cursor on."""
    key = _ORDERS[search.state]
    walk = iter(sorted((job for job in data.jobs.values() if _listed(job, search)), key=key))
    if search.cursor is not None:
        last_seen = list(numbers_of(search.cursor))
        walk = (job for job in walk if key(job) > last_seen)
    found: list[StoredJob] = []
    looked_at = 0
    cursor = None
    for job in islice(walk, min(search.look, LOOK)):
        looked_at += 1
        cursor = msgspec.json.encode(key(job)).decode()
        if _wanted(job, search):
            found.append(job)
            if len(found) == search.limit:
                break
    more = next(walk, None) is not None
    records = [shortened(data.record(job), search.brief) for job in found]
    return Page(records, cursor if more else None, looked_at)


def _listed(job: StoredJob, search: Search) -> bool:
    """Whether the job is in the listing that is walked: that of one state and one queue, or of all."""
    return (
        search.state in {None, job.state}
        and search.queue in {None, job.new.queue}
        and (search.scheduled is None or search.scheduled is (job.run_at is not None))
        and (search.before is None or (job.ended_at is not None and job.ended_at <= search.before))
    )


def _wanted(job: StoredJob, search: Search) -> bool:
    return (
        search.task in {None, job.new.task}
        and (search.tag is None or search.tag in job.new.tags)
        and search.worker in {None, job.worker}
        and (search.error is None or (job.error is not None and job.error.type == search.error))
        and (search.text is None or _contains(job, search.text))
    )


def _contains(job: StoredJob, text: str) -> bool:
    error = () if job.error is None else (job.error.type, job.error.message)
    return text.encode() in job.new.payload or any(text in part for part in error)


def _position(job: StoredJob) -> Key:
    # Scheduled jobs are not in line yet: they follow those that are, by their time.
    return [0, job.new.priority, job.seq] if job.run_at is None else [1, job.run_at, job.seq]


def _newest_end_first(job: StoredJob) -> Key:
    return [-(job.ended_at or 0.0), -job.number]


_ORDERS: dict[State | None, Callable[[StoredJob], Key]] = {
    None: lambda job: [-job.number],
    State.WAITING: _position,
    State.BLOCKED: lambda job: [job.new.priority, job.seq],
    State.RUNNING: lambda job: [job.started_at or 0.0, job.number],
    State.SUCCEEDED: _newest_end_first,
    State.FAILED: _newest_end_first,
    State.CANCELLED: _newest_end_first,
    State.BROKEN: _newest_end_first,
}
