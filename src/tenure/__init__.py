"""Tenure, a job queue: jobs held on leases, never lost once acknowledged, never finished by a stale worker."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure import errors, events
    from tenure.app import App
    from tenure.core.annotations import add_type
    from tenure.core.backoff import Backoff
    from tenure.core.job import State
    from tenure.core.lease import AbortReason
    from tenure.core.options import Retention
    from tenure.core.outcome import Done, Fail, Next, Reschedule, Retry, Wait
    from tenure.core.when import At, Cron, Every
    from tenure.jobs.enqueue_hooks import Dequeueing, Enqueueing
    from tenure.jobs.handle import Job
    from tenure.jobs.run import FlowRun
    from tenure.jobs.schedules import Schedule
    from tenure.tasks.context import Context, current
    from tenure.tasks.flow import Flow, RemoteFlow
    from tenure.tasks.task import Task

__all__ = [
    "AbortReason",
    "App",
    "At",
    "Backoff",
    "Context",
    "Cron",
    "Dequeueing",
    "Done",
    "Enqueueing",
    "Every",
    "Fail",
    "Flow",
    "FlowRun",
    "Job",
    "Next",
    "RemoteFlow",
    "Reschedule",
    "Retention",
    "Retry",
    "Schedule",
    "State",
    "Task",
    "Wait",
    "add_type",
    "current",
    "errors",
    "events",
]

_HOMES = {
    "AbortReason": "core.lease",
    "App": "app",
    "At": "core.when",
    "Backoff": "core.backoff",
    "Context": "tasks.context",
    "Cron": "core.when",
    "Dequeueing": "jobs.enqueue_hooks",
    "Done": "core.outcome",
    "Enqueueing": "jobs.enqueue_hooks",
    "Every": "core.when",
    "Fail": "core.outcome",
    "Flow": "tasks.flow",
    "FlowRun": "jobs.run",
    "Job": "jobs.handle",
    "Next": "core.outcome",
    "RemoteFlow": "tasks.flow",
    "Reschedule": "core.outcome",
    "Retention": "core.options",
    "Retry": "core.outcome",
    "Schedule": "jobs.schedules",
    "State": "core.job",
    "Task": "tasks.task",
    "Wait": "core.outcome",
    "add_type": "core.annotations",
    "current": "tasks.context",
}
"""The module of each public name. It is imported at the first use of the name, so that `tenure --help` stays fast."""

if not TYPE_CHECKING:  # a type checker that saw this would accept any name

    def __getattr__(name: str) -> object:
        if name in {"errors", "events"}:
            return importlib.import_module(f"tenure.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'tenure' has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(f"tenure.{_HOMES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return __all__
