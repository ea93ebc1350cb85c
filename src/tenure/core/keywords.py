"""Names and types of every option that `App`, tasks, steps, jobs and workers take as keyword arguments.

Signatures unpack these classes (`**options: Unpack[WorkerKeywords]`), so that editors and type checkers know the names and types.
The options of an app, a task and a worker are documented in `tenure.core.options`, with their defaults and checks. The options of a
job are documented here; `tenure.core.checks` checks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from tenure.core.backoff import Backoff
from tenure.core.checks import Duration

if TYPE_CHECKING:
    from tenure.core.job import State
    from tenure.core.options import Retention
    from tenure.core.outcome import NamedStep
    from tenure.core.when import When
    from tenure.tasks.context import Middleware
    from tenure.tasks.task import Task

__all__ = [
    "AppKeywords",
    "Filters",
    "JobKeywords",
    "NextKeywords",
    "ScheduleKeywords",
    "StepKeywords",
    "TaskKeywords",
    "WorkerKeywords",
]


class AppKeywords(TypedDict, total=False):
    """Options of `App(...)`; see `AppOptions`."""

    retry: Backoff | int | None
    max_attempts: int | None
    lease: Duration
    renew: Duration | None
    keep: Retention | Mapping[str, Retention]
    default_queue: str | None
    payload_limit: int
    unknown_for: Duration
    wakeup: bool
    complete_timeout: Duration
    missing_after: Duration
    release: str
    history: bool


class _FunctionKeywords(TypedDict, total=False):
    """Options that tasks and steps have in common."""

    name: str | None
    queue: str | None
    retry: Backoff | int | None
    max_attempts: int | None
    max_losses: int | None
    lease: Duration
    renew: Duration | None
    timeout: Duration | None
    keep: Duration | None
    priority: int
    isolation: Literal["process"] | None
    memory_limit: int | None
    output: int
    aliases: Iterable[str]


class TaskKeywords(_FunctionKeywords, total=False):
    """Options of `@app.task(...)`; see `TaskOptions`."""

    raw: bool
    version: int
    inbox: Literal["raw"] | None
    schedule: When | None


class StepKeywords(_FunctionKeywords, total=False):
    """Options of `@flow.step(...)`; see `TaskOptions` and `Flow.step`."""

    then: str | NamedStep | None
    next: Iterable[str | NamedStep] | None


class NextKeywords(TypedDict, total=False):
    """Options of one job, whether a task, a flow or a step enqueues it: `Next(...).using(...)`."""

    queue: str
    """Queue that the job waits in. Default: the queue of its task."""

    delay: Duration
    """Seconds before the job may run, from the moment it is stored. Default: 0. Not together with `run_at`."""

    run_at: datetime
    """Earliest time at which the job may run; it must have a time zone. Default: at once."""

    expires: Duration | None
    """Seconds within which the job must have started, or it is cancelled. Default: None, never."""

    priority: int
    """Jobs with a lower priority run first. Default: the priority of the task; for the next step of a run, that of the step before."""

    tags: Iterable[str]
    """Names to find the job by. Default: none; for the next step of a run, those of the step before."""

    keep: Duration | None
    """Seconds that the finished job is kept; 0 deletes it at once, None follows the queue's retention. Default: that of the task."""

    max_attempts: int | None
    """Attempts before the job fails; None for no limit. Default: that of the task."""

    if_blocker_fails: Literal["fail", "proceed", "wait"]
    """What happens to the job when one of the jobs in `after` ends without success. Default: `"fail"`, the job fails too.

    `"proceed"`: it runs, with `{"$failure": …}` in place of that result. `"wait"`: it stays blocked until the other succeeds after a retry.
    """

    headers: Mapping[str, str] | None
    """Up to 16 short texts by name that travel with the job, 2,000 bytes in all; `ctx.job.headers` reads them. Default: those of
    `@app.stamp`; for the next step of a run, also those of the step before."""


class JobKeywords(NextKeywords, total=False):
    """Options of one job that a task or a flow enqueues: `task.using(...)`, `flow.using(...)`."""

    unique: str | bool | None
    """Unique key: one job of the task (one run of the flow) owns it at a time, until that ends or for `window`. Default: None, no key.

    True derives the key from the arguments. Enqueueing again gives the owner's handle, marked `duplicate`.
    """

    window: Duration | None
    """Seconds that the job owns its unique key, even after it has ended. Default: None, until it has ended."""

    unique_raises: bool
    """True: raise `UniqueConflict` if another job owns the unique key. Default: False, return the owner's handle."""

    connection: object
    """Database connection of the caller, in whose transaction the job is stored; see `App.enqueue`. Default: None, one of the store's."""


class Filters(TypedDict, total=False):
    """Which jobs a call means: those that match all filters that are given."""

    state: State | str | None
    """State of the job: waiting, running, blocked, succeeded, failed, cancelled or broken."""

    queue: str | None
    """Queue of the job."""

    task: str | Task[..., Any] | None
    """Task of the job, or the name of the task."""

    tag: str | None
    """One of the tags of the job."""

    scheduled: bool | None
    """Of waiting jobs: those that wait for their time (True), or those in line (False)."""

    error: str | None
    """The type of the job's error, such as `"ConnectionError"`."""

    text: str | None
    """A text of up to 200 characters in the payload, or in the type or message of the error; case matters."""

    worker: str | None
    """Id of the worker that holds the job, or held it last."""

    before: datetime | None
    """Only jobs that have ended by this time, which must have a time zone; needs a final `state`."""


class ScheduleKeywords(TypedDict, total=False):
    """Options of a schedule: `app.schedule(...)`, `app.create_schedule(...)`, `schedule.change(...)`."""

    overlap: Literal["allow", "skip", "wait", "replace"]
    """What happens at a tick while the last job is not final. Default: `"allow"`, the next one is enqueued all the same.

    `"skip"`: it is not. `"wait"`: it waits for the last one, unless that has not begun; then it is not enqueued. `"replace"`: the last one
    is cancelled.
    """

    catch_up: int | Literal["latest", "none"]
    """Which ticks that were not fired in time are fired later. Default: `"latest"`, the newest one.

    `"none"`: not even that, if it is more than 60 seconds old. A number up to 100: that many, the newest ones, oldest first.
    """

    jitter: Duration
    """Seconds after its tick within which a job is due, different for each schedule and tick. Default: 0."""

    starts: datetime | None
    """No tick is earlier; it must have a time zone. `Every` counts from it. Default: None, no bound."""

    ends: datetime | None
    """No tick is later; it must have a time zone. Default: None, no bound."""


class WorkerKeywords(TypedDict, total=False):
    """Options of `app.worker(...)`, beside `queues`; see `WorkerOptions`."""

    tasks: Iterable[str | Task[..., Any]] | None
    concurrency: int
    id: str | None
    poll: Duration
    job_delay: Duration
    retry: Backoff | int | None
    lease: Duration
    renew: Duration | None
    middleware: Sequence[Middleware]
    reap: bool
    look_ahead: bool
    beat: Duration
    prune_interval: Duration
    health_port: int | None
    health_host: str
    isolation: Literal["process"] | None
    isolated: int | None
    run_atexit: bool
    term_timeout: Duration
    pre_shutdown_timeout: Duration
    term_child: bool
    graceful_term: bool
    fail_interrupted: bool
    max_jobs: int | None
    max_age: Duration | None
    max_memory: int | None
