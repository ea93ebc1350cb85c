"""A job queue and worker system: jobs held on leases, never lost once acknowledged, never finished by a stale worker."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure import errors, events
    from tenure.annotations import add_type
    from tenure.app import App
    from tenure.backoff import Backoff
    from tenure.context import Context, current
    from tenure.enqueueing import Dequeueing, Enqueueing
    from tenure.flow import Flow, RemoteFlow
    from tenure.handle import Job
    from tenure.job import State
    from tenure.lease import AbortReason
    from tenure.options import Retention
    from tenure.outcome import Done, Fail, Next, Reschedule, Retry, Wait
    from tenure.run import FlowRun
    from tenure.task import Task

__all__ = [
    "AbortReason",
    "App",
    "Backoff",
    "Context",
    "Dequeueing",
    "Done",
    "Enqueueing",
    "Fail",
    "Flow",
    "FlowRun",
    "Job",
    "Next",
    "RemoteFlow",
    "Reschedule",
    "Retention",
    "Retry",
    "State",
    "Task",
    "Wait",
    "add_type",
    "current",
    "errors",
    "events",
]

_HOMES = {
    "AbortReason": "lease",
    "App": "app",
    "Backoff": "backoff",
    "Context": "context",
    "Dequeueing": "enqueueing",
    "Done": "outcome",
    "Enqueueing": "enqueueing",
    "Fail": "outcome",
    "Flow": "flow",
    "FlowRun": "run",
    "Job": "handle",
    "Next": "outcome",
    "RemoteFlow": "flow",
    "Reschedule": "outcome",
    "Retention": "options",
    "Retry": "outcome",
    "State": "job",
    "Task": "task",
    "Wait": "outcome",
    "add_type": "annotations",
    "current": "context",
}
"""Which module has which name. Each is imported when it is asked for: the command line needs none of them to show its help."""

if not TYPE_CHECKING:  # a type checker that saw this would believe in any name

    def __getattr__(name: str) -> object:
        if name in {"errors", "events"}:
            return importlib.import_module(f"tenure.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'tenure' has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(f"tenure.{_HOMES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return __all__
