"""`result_of`: a job as the `TaskResult` of Django."""

from __future__ import annotations

import builtins
import re
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.conf import settings
from django.utils import timezone

import tenure
import tenure.errors
from tenure.core.job import ErrorInfo, JobRecord, State, attempts_of
from tenure.django.framework import Task, TaskError, TaskResult, TaskResultStatus

__all__ = ["UNKNOWN_WORKER", "new_result", "result_of"]

UNKNOWN_WORKER = "unknown"
"""Stands in `worker_ids` for the worker of an attempt that the store no longer remembers."""

SHOWN = 200
"""Characters of its message by which the line of an exception is recognized: a line of the message may look like one too."""

STATUS: dict[State, Any] = {
    State.BLOCKED: TaskResultStatus.READY,
    State.WAITING: TaskResultStatus.READY,
    State.RUNNING: TaskResultStatus.RUNNING,
    State.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    State.FAILED: TaskResultStatus.FAILED,
    State.BROKEN: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}


def new_result(task: Task[..., Any], id_: str, args: Any, kwargs: Any, alias: str) -> TaskResult[Any]:
    """The result of a job that was enqueued just now."""
    return TaskResult(
        task=task,
        id=id_,
        status=STATUS[State.WAITING],
        enqueued_at=timezone.now(),
        started_at=None,
        last_attempted_at=None,
        finished_at=None,
        args=args,
        kwargs=kwargs,
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def result_of(task: Task[..., Any], job: JobRecord, alias: str) -> TaskResult[Any]:
    """The result of a job that the store has returned, of this task."""
    call = msgspec.json.decode(job.payload)
    attempts = attempts_of(job)
    first = attempts[0].started_at if attempts else job.started_at
    result: TaskResult[Any] = TaskResult(
        task=_as_enqueued(task, job, alias),
        id=job.id,
        status=STATUS[job.state],
        enqueued_at=_time(job.created_at),
        started_at=_time(first),
        last_attempted_at=_time(job.started_at),
        finished_at=_time(job.ended_at) if job.state.final else None,
        args=call.get("args", []),
        kwargs=call.get("kwargs", {}),
        backend=alias,
        errors=_errors(job),
        worker_ids=_workers(job),
    )
    if job.state is State.SUCCEEDED and job.result is not None:
        object.__setattr__(result, "_return_value", msgspec.json.decode(job.result))
    return result


def _as_enqueued(task: Task[..., Any], job: JobRecord, alias: str) -> Task[..., Any]:
    """The task with the options of this job. Not checked again, because QUEUES may have lost its queue since."""
    changes = {"priority": -job.priority, "queue_name": job.queue, "run_after": _time(job.run_at), "backend": alias}
    made: Task[..., Any] = object.__new__(type(task))
    for field in fields(task):
        object.__setattr__(made, field.name, changes.get(field.name, getattr(task, field.name)))
    return made


def _time(moment: float | None) -> datetime | None:
    if moment is None:
        return None
    found = datetime.fromtimestamp(moment, UTC)
    return found if settings.USE_TZ else timezone.make_naive(found)


def _workers(job: JobRecord) -> list[str]:
    """The workers of all attempts since the last retry by an operator, as many as there were attempts."""
    known = [each.worker or UNKNOWN_WORKER for each in attempts_of(job)]
    if job.state is State.RUNNING and not job.attempts:  # a leased job comes without its history
        known = [job.worker or UNKNOWN_WORKER]
    known = known[len(known) - job.attempt :] if len(known) > job.attempt else known
    return [UNKNOWN_WORKER] * (job.attempt - len(known)) + known


def _errors(job: JobRecord) -> list[TaskError]:
    found = [each.error for each in job.attempts if each.error is not None]
    if job.error is not None:
        # The last attempt is remembered with the end of its traceback only, and a job may fail without any.
        latest = bool(found) and (found[-1].type, found[-1].message) == (job.error.type, job.error.message)
        found = [*(found[:-1] if latest else found), job.error]
    return [TaskError(exception_class_path=_class_path(each), traceback=_traceback(each)) for each in found]


def _traceback(error: ErrorInfo) -> str:
    return error.traceback or f"{error.type}: {error.message}\n"


def _class_path(error: ErrorInfo) -> str:
    """The path of the exception's class: from its line in the traceback, which has the module, unless it is a builtin."""
    message = error.message.partition("\n")[0]
    rest = re.escape(message[:SHOWN]) + ("$" if len(message) <= SHOWN else "")
    line = re.compile(rf"^[ |+]*((?:\w+\.)*{re.escape(error.type)})(?:: {rest}|$)")
    found = [match[1] for text in (error.traceback or "").splitlines() if (match := line.match(text))]
    if found and "." in found[-1]:
        return found[-1]
    for module in (builtins, tenure.errors, tenure):
        if hasattr(module, error.type):
            return f"{module.__name__}.{error.type}"
    return "tenure.errors.JobError"  # what happened to the job, such as `Lost` or `Expired`, is no exception
