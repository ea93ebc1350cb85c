"""A job queue and worker system: jobs held on leases, never lost once acknowledged, never finished by a stale worker."""

from tenure import errors
from tenure.app import App
from tenure.backoff import Backoff
from tenure.context import Context, current
from tenure.handle import Job
from tenure.job import State
from tenure.lease import AbortReason
from tenure.options import Retention
from tenure.outcome import Fail, Reschedule, Retry, Wait
from tenure.task import Task

__all__ = [
    "AbortReason",
    "App",
    "Backoff",
    "Context",
    "Fail",
    "Job",
    "Reschedule",
    "Retention",
    "Retry",
    "State",
    "Task",
    "Wait",
    "current",
    "errors",
]
