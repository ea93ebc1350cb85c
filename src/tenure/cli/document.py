"""What listings look like to programs: JSON with keys that stay, in ASCII, times in ISO 8601."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.display import LAST_DAY

if TYPE_CHECKING:
    from tenure.job import JobRecord
    from tenure.stores.base import WorkerInfo

__all__ = ["emit", "job_document", "json_option", "json_value", "worker_document"]

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def emit(document: object) -> None:
    """Print one JSON document; what a terminal could obey is escaped, as is all that is not ASCII."""
    click.echo(json.dumps(document, indent=2).replace("\x7f", "\\u007f"))


def job_document(job: JobRecord) -> dict[str, Any]:
    """Everything that the store knows of a job."""
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
        "tags": list(job.tags),
        "unique": job.unique,
        "payload": payload,
        "payload_base64": None if readable else base64.b64encode(job.payload).decode("ascii"),
        "result": None if job.result is None else json_value(job.result)[1],
        "error": job.error
        and {
            "type": job.error.type,
            "message": job.error.message,
            "traceback": job.error.traceback,
            "output": job.error.output,
        },
        "progress": job.progress
        and {"done": job.progress.done, "total": job.progress.total, "note": job.progress.note},
        "blocked_by": job.blocked_by,
    }


def worker_document(worker: WorkerInfo) -> dict[str, Any]:
    """A worker as the registry knows it."""
    import msgspec

    return {**msgspec.to_builtins(worker), "started_at": _instant(worker.started_at), "missing": worker.missing}


def json_value(encoded: str | bytes) -> tuple[bool, Any]:
    """Whether these bytes, which anybody may have stored, are JSON, and their value if so."""
    try:
        return True, json.loads(encoded, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return False, None


def _finite(number: str) -> float:
    """Read a number; NaN, Infinity and 1e999 are none that JSON could give back."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is not JSON")
    return value


def _instant(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(min(at, LAST_DAY), UTC).isoformat(timespec="milliseconds")
