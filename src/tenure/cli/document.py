"""JSON documents for programs: stable keys, ASCII, times in ISO 8601."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.display import LAST_DAY
from tenure.core.origin import user_tags
from tenure.core.redaction import redact

if TYPE_CHECKING:
    from tenure.core.job import AttemptRecord, ErrorInfo, JobRecord
    from tenure.explain import Explanation
    from tenure.jobs.attention import Attention
    from tenure.jobs.history import History, HistoryPoint
    from tenure.jobs.run import FlowRun, StepInfo
    from tenure.jobs.schedules import PastTick, Schedule, UpcomingTick
    from tenure.stores.values import Action, WorkerInfo

__all__ = [
    "action_document",
    "attempt_document",
    "attention_document",
    "emit",
    "explanation_document",
    "history_document",
    "job_document",
    "json_option",
    "json_value",
    "past_tick_document",
    "run_document",
    "schedule_document",
    "step_document",
    "upcoming_tick_document",
    "worker_document",
]

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def emit(document: object) -> None:
    """Print one JSON document; control characters and non-ASCII characters are escaped."""
    click.echo(json.dumps(document, indent=2).replace("\x7f", "\\u007f"))


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
        "created_at": _instant(job.created_at),
        "run_at": _instant(job.run_at),
        "expires_at": _instant(job.expires_at),
        "started_at": _instant(job.started_at),
        "ended_at": _instant(job.ended_at),
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


def attempt_document(attempt: AttemptRecord) -> dict[str, Any]:
    """An attempt in the history of a job."""
    return {
        "number": attempt.number,
        "started_at": _instant(attempt.started_at),
        "ended_at": _instant(attempt.ended_at),
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
        entry |= {instant: _instant(entry[instant]) for instant in ("at", "started_at") if instant in entry}
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
        "created_at": _instant(run.created_at),
        "run_at": _instant(step.run_at),
        "ended_at": _instant(step.ended_at),
        "completed_queue": run.completed_queue,
        "failed_queue": run.failed_queue,
        "blocked_by": step.blocked_by,
        "parked": step.parked,
        "result": None if step.result is None else json_value(step.result)[1],
        "error": _error(step.error),
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
        "created_at": _instant(step.created_at),
        "started_at": _instant(step.started_at),
        "ended_at": _instant(step.ended_at),
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
        "marks": [{"at": _instant(mark.at), "label": mark.label} for mark in history.marks],
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

    return {**msgspec.to_builtins(worker), "started_at": _instant(worker.started_at), "missing": worker.missing}


def action_document(action: Action) -> dict[str, Any]:
    """What an operator has done."""
    return {
        "at": _instant(action.at),
        "who": action.who,
        "by": action.by,
        "what": action.what,
        "target": action.target,
        "count": action.count,
    }


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
    return None if at is None else _instant(at.timestamp())


def _instant(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(min(at, LAST_DAY), UTC).isoformat(timespec="milliseconds")
