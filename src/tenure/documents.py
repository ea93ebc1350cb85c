"""JSON documents of jobs, runs, queues and workers, such as `job_document`: stable keys, times in ISO 8601.

The command line prints them with `--json`, and the dashboard's JSON API answers with them. All functions are pure.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tenure.core.origin import user_tags
from tenure.core.redaction import redact
from tenure.core.units import LAST_DAY

if TYPE_CHECKING:
    from tenure.core.job import AttemptRecord, ErrorInfo, JobRecord
    from tenure.core.measures import HistoryRow
    from tenure.explain import Explanation
    from tenure.jobs.attention import Attention
    from tenure.jobs.history import History, HistoryPoint
    from tenure.jobs.run import FlowRun, StepInfo, StepPage
    from tenure.jobs.schedules import PastTick, Schedule, UpcomingTick
    from tenure.jobs.snapshot import Snapshot
    from tenure.stores.values import Action, ActionPage, EdgeInfo, QueueInfo, WorkerInfo

__all__ = [
    "UPCOMING",
    "action_document",
    "attempt_document",
    "attention_document",
    "audit_document",
    "explanation_document",
    "history_document",
    "instant",
    "job_document",
    "json_value",
    "past_tick_document",
    "queues_document",
    "run_document",
    "schedule_document",
    "scheduled_job_document",
    "snapshot_document",
    "step_document",
    "tasks_document",
    "upcoming_tick_document",
    "whole_job_document",
    "whole_run_document",
    "whole_schedule_document",
    "worker_document",
]

UPCOMING = 5
"""Ticks to come in the document of a whole schedule."""

SHORT_FIELDS = ("id", "task", "queue", "attempt", "started_at", "ended_at", "worker", "progress", "error")
"""Fields of running and failed jobs in the document of a snapshot."""


def job_document(job: JobRecord) -> dict[str, Any]:
    """All fields of a job."""
    readable, payload = (False, None) if job.raw else json_value(job.payload)
    return {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "state": job.state.value,
        "label": job.label,
        "priority": job.priority,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "losses": job.losses,
        "max_losses": job.max_losses,
        "created_at": instant(job.created_at),
        "run_at": instant(job.run_at),
        "expires_at": instant(job.expires_at),
        "started_at": instant(job.started_at),
        "ended_at": instant(job.ended_at),
        "worker": job.worker,
        "lease_left": job.lease_left,
        "tags": list(user_tags(job.tags)),
        "schedule": job.schedule,
        "tick": _time(job.tick),
        "unique": job.unique,
        "headers": None if job.headers is None else redact(job.headers),
        "payload": payload,
        "payload_base64": None if readable else base64.b64encode(job.payload).decode("ascii"),
        "result": None if job.result is None else json_value(job.result)[1],
        "error": _error(job.error),
        "progress": job.progress
        and {
            "done": job.progress.done,
            "total": job.progress.total,
            "percent": job.progress.percent,
            "note": job.progress.note,
            "tail": job.progress.tail,
        },
        "blocked_by": job.blocked_by,
        "parked": job.parked,
        "run_id": job.run_id,
    }


def whole_job_document(job: JobRecord, edges: Sequence[EdgeInfo]) -> dict[str, Any]:
    """All fields of a job, what it was told to wait for, and its attempts."""
    from tenure.core.job import attempts_of

    return {
        **job_document(job),
        "blockers": [{"id": edge.blocker, "open": edge.open} for edge in edges],
        "attempts": [attempt_document(each) for each in attempts_of(job)],
    }


def attempt_document(attempt: AttemptRecord) -> dict[str, Any]:
    """An attempt in the history of a job."""
    return {
        "number": attempt.number,
        "started_at": instant(attempt.started_at),
        "ended_at": instant(attempt.ended_at),
        "worker": attempt.worker,
        "outcome": None if attempt.outcome is None else attempt.outcome.value,
        "error": _error(attempt.error),
        "output": attempt.output,
    }


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    """Why a job does not run: each reason with its facts, its sentence and what to do."""
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(explanation)
    for reason, entry in zip(explanation.reasons, document["reasons"], strict=True):
        entry |= {field: instant(entry[field]) for field in ("at", "started_at") if field in entry}
        entry |= {"sentence": reason.sentence, "advice": reason.advice}
    document["tick"] = _time(explanation.tick)
    return document


def attention_document(attention: Attention) -> dict[str, Any]:
    """What needs attention: the sentence, what to do, and where to look."""
    import msgspec

    return msgspec.structs.asdict(attention) | {"level": attention.level.value}


def run_document(run: FlowRun) -> dict[str, Any]:
    """A run of a flow and its current step."""
    step = run.record
    assert step is not None
    return {
        "id": run.id,
        "flow": run.flow,
        "state": run.state.value,
        "label": step.label,
        "step": run.step,
        "job": step.id,
        "queue": step.queue,
        "created_at": instant(run.created_at),
        "run_at": instant(step.run_at),
        "ended_at": instant(step.ended_at),
        "completed_queue": run.completed_queue,
        "failed_queue": run.failed_queue,
        "blocked_by": step.blocked_by,
        "parked": step.parked,
        "result": None if step.result is None else json_value(step.result)[1],
        "error": _error(step.error),
    }


def whole_run_document(run: FlowRun, attributes: Mapping[str, Any], steps: StepPage) -> dict[str, Any]:
    """A run, its attributes, and a page of its steps."""
    return {
        **run_document(run),
        "attributes": dict(attributes),
        "steps": [step_document(step) for step in steps],
        "cursor": steps.cursor,
    }


def step_document(step: StepInfo) -> dict[str, Any]:
    """A step in the history of a run."""
    return {
        "id": step.id,
        "name": step.name,
        "queue": step.queue,
        "state": step.state.value,
        "attempts": step.attempts,
        "losses": step.losses,
        "created_at": instant(step.created_at),
        "started_at": instant(step.started_at),
        "ended_at": instant(step.ended_at),
        "worker": step.worker,
        "error": _error(step.error),
    }


def schedule_document(schedule: Schedule) -> dict[str, Any]:
    """A schedule. One that cannot be read here has its name, its state, the reason as its error, and else nothing."""
    from tenure.core.when import At, Cron, Every

    readable = schedule.unreadable is None
    when = schedule.when if readable else None
    return {
        "name": schedule.name,
        "state": schedule.state,
        "error": schedule.unreadable,
        "when": None if when is None else str(when),
        "words": schedule.words if readable else None,
        "cron": when.text if isinstance(when, Cron) else None,
        "timezone": when.timezone if isinstance(when, Cron) else None,
        "every": when.seconds if isinstance(when, Every) else None,
        "at": _time(when.instant) if isinstance(when, At) else None,
        "task": schedule.task if readable else None,
        "flow": schedule.flow if readable else None,
        "queue": schedule.queue if readable else None,
        "overlap": schedule.overlap.value if readable else None,
        "catch_up": schedule.catch_up if readable else None,
        "jitter": schedule.jitter if readable else None,
        "starts": _time(schedule.starts) if readable else None,
        "ends": _time(schedule.ends) if readable else None,
        "declared": schedule.declared if readable else None,
        "changed": schedule.changed if readable else None,
        "confirmed_at": _time(schedule.confirmed_at),
        "next_at": _time(schedule.next_at),
        "last_job_id": schedule.last_job_id,
        "last_tick": past_tick_document(schedule.history[-1]) if schedule.history else None,
    }


def scheduled_job_document(schedule: Schedule) -> dict[str, Any]:
    """What a schedule enqueues, beside its task and queue."""
    job = schedule._settings.effective.job
    writes = None if job.step is None else job.step.writes
    return {
        "priority": job.priority,
        "tags": list(job.tags),
        "headers": None if job.headers is None else redact(job.headers),
        "payload": None if job.raw or job.step is not None else json_value(job.payload)[1],
        "attributes": None
        if job.step is None
        else {name: json_value(value)[1] for name, value in (writes.attributes if writes else {}).items()},
    }


def whole_schedule_document(schedule: Schedule, states: Mapping[str, str]) -> dict[str, Any]:
    """A schedule that can be read, what it enqueues, its next ticks and its last ones.

    `states`: the states of the jobs and runs in its history, by id, without those that are gone.
    """
    upcoming = schedule.preview(UPCOMING) if schedule.state in ("active", "paused") else []
    return {
        **schedule_document(schedule),
        **scheduled_job_document(schedule),
        "next_ticks": [upcoming_tick_document(each) for each in upcoming],
        "history": [
            {**past_tick_document(each), "state": states.get(each.job_id or "") if each.enqueued else None}
            for each in schedule.history
        ],
    }


def past_tick_document(past: PastTick) -> dict[str, Any]:
    """A tick in the history of a schedule."""
    return {
        "tick": _time(past.tick),
        "end": past.end.value,
        "at": _time(past.at),
        "job_id": past.job_id,
        "replaced": past.replaced,
        "until": _time(past.until),
    }


def upcoming_tick_document(upcoming: UpcomingTick) -> dict[str, Any]:
    """A tick to come."""
    return {"tick": _time(upcoming.tick), "due_at": _time(upcoming.due_at)}


def history_document(history: History, span: str) -> dict[str, Any]:
    """A history: its points, the whole of it, and the marks in its time."""
    return {
        "queue": history.queue,
        "task": history.task,
        "span": span,
        "resolution": history.resolution,
        "points": [_point(point) for point in history.points],
        "total": _point(history.total),
        "marks": [{"at": instant(mark.at), "label": mark.label} for mark in history.marks],
    }


def _point(point: HistoryPoint) -> dict[str, Any]:
    import msgspec

    return {
        **msgspec.to_builtins(point),
        "at": _time(point.at),
        "finished": point.finished,
        "rate": point.rate,
    }


def _error(error: ErrorInfo | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {"type": error.type, "message": error.message, "traceback": error.traceback, "output": error.output}


def worker_document(worker: WorkerInfo) -> dict[str, Any]:
    """A worker in the registry."""
    import msgspec

    return {**msgspec.to_builtins(worker), "started_at": instant(worker.started_at), "missing": worker.missing}


def action_document(action: Action) -> dict[str, Any]:
    """What an operator has done."""
    return {
        "at": instant(action.at),
        "who": action.who,
        "by": action.by,
        "what": action.what,
        "target": action.target,
        "count": action.count,
    }


def audit_document(page: ActionPage) -> dict[str, Any]:
    """A page of what operators have done."""
    return {"actions": [action_document(each) for each in page.actions], "cursor": page.cursor}


def queues_document(queues: Iterable[QueueInfo]) -> dict[str, Any]:
    """Queues with their counts by state and their totals."""
    import msgspec

    return {"queues": [msgspec.to_builtins(queue) for queue in queues]}


def tasks_document(workers: Iterable[WorkerInfo], rows: Iterable[HistoryRow]) -> dict[str, Any]:
    """Tasks that live workers know or that these rows of the history name: who knows them, and what the rows say."""
    from tenure.core.measures import quantile, sum_counts

    known: dict[str, int] = {}
    for worker in workers:
        for name in () if worker.missing else worker.tasks:
            known[name] = known.get(name, 0) + 1
    counts: dict[str, list[Mapping[str, float]]] = {}
    for row in rows:
        counts.setdefault(row.task, []).append(row.counts)
    found = {name: sum_counts(counts.get(name, ())) for name in sorted(known.keys() | counts.keys())}
    return {
        "tasks": [
            {
                "name": name,
                "workers": known.get(name, 0),
                "finished": round(sum(each.get(end, 0) for end in ("succeeded", "failed", "broken"))),
                "failed": round(each.get("failed", 0) + each.get("broken", 0)),
                "retried": round(each.get("retried", 0)),
                "run_p50": quantile(each, "run", 0.5),
                "run_p95": quantile(each, "run", 0.95),
                "wait_p50": quantile(each, "wait", 0.5),
                "wait_p95": quantile(each, "wait", 0.95),
            }
            for name, each in found.items()
        ]
    }


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """The store as a whole: figures, what needs attention, queues, workers, and the jobs that were read."""
    import msgspec

    from tenure.jobs.snapshot import figures_of, summary_of

    summary = summary_of(snapshot)
    return {
        "at": instant(snapshot.at),
        "store": snapshot.store,
        "layout": snapshot.layout,
        "problem": snapshot.problem or None,
        "summary": {
            "rate": round(summary.rate, 3),
            "failed_share": summary.failed_share,
            "wait_p95": summary.wait,
            "oldest": summary.oldest,
            "busy": summary.busy,
            "slots": summary.slots,
            "workers": summary.workers,
            "missing": summary.missing,
            "finished": [round(each, 3) for each in summary.finished],
        },
        "attention": [attention_document(each) for each in snapshot.attention or ()],
        "queues": [
            {
                **{name: getattr(each.queue, name) for name in each.queue.__struct_fields__ if name != "totals"},
                "totals": msgspec.to_builtins(each.queue.totals),
                "rate": round(each.rate, 3),
                "failed_last_hour": each.failed,
                "wait_p95": each.wait,
            }
            for each in figures_of(snapshot)
        ],
        "workers": [worker_document(worker) for worker in snapshot.workers],
        "running": [_short_job(job) for job in snapshot.running or ()],
        "failed": [_short_job(job) for job in snapshot.failed or ()],
    }


def _short_job(job: JobRecord) -> dict[str, Any]:
    whole = job_document(job)
    short = {name: whole[name] for name in SHORT_FIELDS}
    if job.error is not None:
        short["error"] = {"type": job.error.type, "message": job.error.message}
    return short


def json_value(encoded: str | bytes) -> tuple[bool, Any]:
    """Whether these bytes are JSON, and their value if so."""
    try:
        return True, json.loads(encoded, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return False, None


def _finite(number: str) -> float:
    """Parse a number; `ValueError` for NaN, Infinity and 1e999, which JSON cannot hold."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is not JSON")
    return value


def _time(at: datetime | None) -> str | None:
    return None if at is None else instant(at.timestamp())


def instant(at: float | None) -> str | None:
    """A time in seconds since the epoch, as ISO 8601 in UTC."""
    return None if at is None else datetime.fromtimestamp(min(at, LAST_DAY), UTC).isoformat(timespec="milliseconds")
