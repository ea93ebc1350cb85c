"""Schemas of the JSON API: a struct for each document, query and body, such as `JobDocument` and `JobsQuery`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tenure.core.job import State
from tenure.stores.values import Fact, Health, Layout, Order, QueueInfo, Totals

__all__ = [
    "ActedDocument",
    "AuditDocument",
    "CompleteBody",
    "EmptyBody",
    "ExplanationDocument",
    "HealthDocument",
    "HistoryDocument",
    "HistoryQuery",
    "JobActionBody",
    "JobDocument",
    "JobFilter",
    "JobsDocument",
    "JobsQuery",
    "MarkBody",
    "NoQuery",
    "OperationDocument",
    "OverviewDocument",
    "PageQuery",
    "Problem",
    "PurgeBody",
    "QueueDocument",
    "QueuesDocument",
    "RetireBody",
    "RunDocument",
    "RunsDocument",
    "RunsQuery",
    "ScheduleDocument",
    "SchedulesDocument",
    "TasksDocument",
    "WholeJobDocument",
    "WholeRunDocument",
    "WholeScheduleDocument",
    "WorkerDocument",
    "WorkersDocument",
]

Text = Annotated[str, Meta(min_length=1, max_length=200)]
Limit = Annotated[int, Meta(ge=1, le=200)]
Instant = Annotated[str, Meta(description="ISO 8601, in UTC")]
Span = Literal["10m", "1h", "6h", "24h", "2d", "7d", "30d"]
"""The keys of `SPANS`."""


class Schema(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The base of all: fields that are not named here are refused."""


# Errors.


class Problem(Schema):
    """Why a request was refused (RFC 9457, `application/problem+json`)."""

    title: str
    status: int
    detail: str
    """The sentence of the error."""

    count: int | msgspec.UnsetType | None = msgspec.UNSET
    """How many jobs fit by now, if they are more than `expect`."""


# Queries and bodies.


class NoQuery(Schema):
    """No parameters."""


class PageQuery(Schema):
    limit: Limit = 50
    cursor: Annotated[str, Meta(max_length=2000)] | None = None
    """Where the page before this one ended: its `cursor`."""


class JobFilter(Schema):
    """Which jobs: those that match all filters that are given."""

    state: State | None = None
    queue: Text | None = None
    task: Text | None = None
    tag: Text | None = None
    scheduled: bool | None = None
    """Of waiting jobs: those that wait for their time (true), or those in line (false)."""

    error: Text | None = None
    """Type of the error."""

    text: Text | None = None
    """What the arguments, as far as they are shown, or the error contain."""

    worker: Text | None = None
    before: Text | None = None
    """Ended by this time, such as `2026-03-01T09:30Z`, or this long ago, such as `2h`; needs a final `state`."""


class JobsQuery(JobFilter):
    limit: Limit = 50
    cursor: Annotated[str, Meta(max_length=2000)] | None = None


class RunsQuery(PageQuery):
    flow: Text | None = None
    state: State | None = None


class HistoryQuery(Schema):
    queue: Text | None = None
    task: Text | None = None
    span: Span = "1h"


class EmptyBody(Schema):
    """No fields; the body may be left out."""


class JobActionBody(Schema):
    """What to do to which jobs: those with these `ids`, or all that match `filter`."""

    action: Literal["retry", "cancel", "trigger", "release", "delete"]
    ids: Annotated[list[Text], Meta(min_length=1, max_length=1000)] | None = None
    filter: JobFilter | None = None
    expect: Annotated[int, Meta(ge=0)] | None = None
    """With `filter`: how many jobs fit at most; if more do by now, nothing is done (409)."""

    cascade: bool = False
    """With `delete` and `ids`: also delete the jobs that wait for these."""


class PurgeBody(Schema):
    confirm: Text
    """The name of the queue, once more."""


class RetireBody(Schema):
    confirm: Text | None = None
    """The id of the worker, once more; not needed of one that is missing."""


class CompleteBody(Schema):
    value: Any = None
    """What the job's function would have returned."""


class MarkBody(Schema):
    label: Annotated[str, Meta(min_length=1, max_length=100)]


# Documents.


class ActedDocument(Schema):
    """What an action did."""

    done: str
    """As a sentence."""

    count: int
    """How many jobs, queues or workers were changed."""


class OperationDocument(Schema):
    """An action on all jobs that fit a filter."""

    id: str
    action: str
    filter: str
    status: Literal["counting", "counted", "working", "ended", "stopped", "failed"]
    who: str
    found: int
    """Jobs that fit, as far as they were counted."""

    exact: bool
    """Whether the count is complete."""

    done: int
    refused: int
    """Jobs that the store refused to change, or that were gone."""

    passed: int
    """Jobs that were left alone because they came or changed after the count began."""

    why: str
    """Why the first job was refused."""

    problem: str
    seconds: float


class ProgressDocument(Schema):
    done: float
    total: float | None
    percent: float | None
    note: str | None
    tail: str | None


class ErrorDocument(Schema):
    type: str
    message: str
    traceback: str | None
    output: str | None


class JobDocument(Schema):
    id: str
    task: str
    queue: str
    state: State
    label: str
    """The state in finer words, such as `scheduled` or `retrying`."""

    priority: int
    attempt: int
    max_attempts: int | None
    losses: int
    max_losses: int | None
    created_at: Instant
    run_at: Instant | None
    expires_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    worker: str | None
    lease_left: float | None
    tags: list[str]
    schedule: str | None
    tick: Instant | None
    unique: str | None
    headers: dict[str, str] | None
    payload: Any
    """What it was called with, with secrets hidden; null if it is not JSON, or if the dashboard hides arguments."""

    payload_base64: str | None
    result: Any
    error: ErrorDocument | None
    progress: ProgressDocument | None
    blocked_by: int
    parked: bool
    run_id: str | None


class BlockerDocument(Schema):
    id: str | None
    open: bool


class AttemptDocument(Schema):
    number: int
    started_at: Instant
    ended_at: Instant | None
    worker: str | None
    outcome: str | None
    error: ErrorDocument | None
    output: str | None


class WholeJobDocument(JobDocument):
    blockers: list[BlockerDocument]
    attempts: list[AttemptDocument]


class JobsDocument(Schema):
    jobs: list[JobDocument]
    cursor: str | None
    """For the next page; null on the last one. A page may be short, even empty, and not be the last."""

    searched: int
    """Jobs that were looked at."""


class ExplanationDocument(Schema):
    id: str
    task: str | None
    queue: str | None
    state: State | None
    summary: str
    reasons: list[dict[str, Any]]
    """Each with `kind`, `sentence`, `advice` and its facts, the most decisive first."""

    schedule: str | None
    tick: Instant | None


class RunDocument(Schema):
    id: str
    flow: str
    state: State
    label: str
    step: str | None
    job: str
    queue: str
    created_at: Instant
    run_at: Instant | None
    ended_at: Instant | None
    completed_queue: str | None
    failed_queue: str | None
    blocked_by: int
    parked: bool
    result: Any
    error: ErrorDocument | None


class StepDocument(Schema):
    id: str
    name: str
    queue: str
    state: State
    attempts: int
    losses: int
    created_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    worker: str | None
    error: ErrorDocument | None


class WholeRunDocument(RunDocument):
    attributes: dict[str, Any]
    steps: list[StepDocument]
    cursor: str | None


class RunsDocument(Schema):
    runs: list[RunDocument]
    cursor: str | None


class QueueDocument(QueueInfo, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A queue: its number of jobs by state, and its totals."""


class QueuesDocument(Schema):
    queues: list[QueueDocument]
    cursor: str | None


class TaskDocument(Schema):
    name: str
    workers: int
    """Live workers that know it."""

    finished: int
    """In the last hour, like the rest."""

    failed: int
    retried: int
    run_p50: float | None
    run_p95: float | None
    wait_p50: float | None
    wait_p95: float | None


class TasksDocument(Schema):
    tasks: list[TaskDocument]


class WorkerDocument(Schema):
    id: str
    host: str
    pid: int
    queues: list[str]
    tasks: list[str]
    concurrency: int
    lanes: list[str]
    held: int
    jobs: list[str]
    memory: int
    strays: int
    trouble: str
    missing_after: float
    release: str
    order: Order
    started_at: Instant
    silent_for: float
    totals: Totals
    missing: bool


class WorkersDocument(Schema):
    workers: list[WorkerDocument]


class AttentionDocument(Schema):
    level: Health
    kind: str
    sentence: str
    advice: str
    queue: str | None
    task: str | None
    worker: str | None
    schedule: str | None


class FigureDocument(QueueDocument, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A queue, with what its history says."""

    rate: float
    failed_last_hour: int
    wait_p95: float | None


class SummaryDocument(Schema):
    rate: float
    failed_share: float | None
    wait_p95: float | None
    oldest: float | None
    busy: int
    slots: int
    workers: int
    missing: int
    finished: list[float]


class OverviewDocument(Schema):
    at: Instant
    store: str
    layout: int | None
    problem: str | None
    summary: SummaryDocument
    attention: list[AttentionDocument]
    queues: list[FigureDocument]
    """At most 1,000."""

    workers: list[WorkerDocument]


class PointDocument(Schema):
    at: Instant
    seconds: float
    succeeded: int
    failed: int
    retried: int
    broken: int
    lost: int
    cancelled: int
    stale: int
    in_line: int | None
    scheduled: int | None
    blocked: int | None
    running: int | None
    oldest: float | None
    wait: dict[str, float]
    run: dict[str, float]
    errors: dict[str, int]
    finished: int
    rate: float


class MarkDocument(Schema):
    at: Instant
    label: str


class HistoryDocument(Schema):
    queue: str | None
    task: str | None
    span: Span
    resolution: int
    points: list[PointDocument]
    total: PointDocument
    marks: list[MarkDocument]


class TickDocument(Schema):
    tick: Instant
    end: str
    at: Instant
    job_id: str | None
    replaced: str | None
    until: Instant | None


class EndedTickDocument(TickDocument):
    state: str | None
    """State of its job; null if it enqueued none, or if the job is gone."""


class UpcomingTickDocument(Schema):
    tick: Instant
    due_at: Instant


class ScheduleDocument(Schema):
    name: str
    state: str
    error: str | None
    when: str | None
    words: str | None
    cron: str | None
    timezone: str | None
    every: float | None
    at: Instant | None
    task: str | None
    flow: str | None
    queue: str | None
    overlap: str | None
    catch_up: Any
    jitter: float | None
    starts: Instant | None
    ends: Instant | None
    declared: bool | None
    changed: list[str] | None
    """Names of the options that were changed at run time."""

    confirmed_at: Instant | None
    next_at: Instant | None
    last_job_id: str | None
    last_tick: TickDocument | None


class WholeScheduleDocument(ScheduleDocument):
    priority: int
    tags: list[str]
    headers: dict[str, str] | None
    payload: Any
    attributes: dict[str, Any] | None
    next_ticks: list[UpcomingTickDocument]
    history: list[EndedTickDocument]


class SchedulesDocument(Schema):
    schedules: list[ScheduleDocument]
    cursor: str | None


class ActionDocument(Schema):
    at: Instant
    who: str
    by: str
    what: str
    target: str
    count: int | None
    """null: it only began then."""


class AuditDocument(Schema):
    actions: list[ActionDocument]
    cursor: str | None


class RetentionDocument(Schema):
    succeeded: float
    failed: float
    count: int


class HealthDocument(Schema):
    examined_at: Instant
    facts: list[Fact]
    layout: Layout
    round_trip: float
    """Seconds."""

    retention: dict[str, RetentionDocument]
    """By queue; `*` stands for all others."""

    history: bool
    """Whether the workers of this app write the history."""

    attention: list[AttentionDocument]
