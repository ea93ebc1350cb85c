"""One job: what happened, why it does not run, and what can be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tenure.core.job import AttemptRecord, JobRecord, State, attempts_of
from tenure.core.origin import user_tags
from tenure.core.redaction import redact
from tenure.core.units import duration
from tenure.explain import Explanation, explain_by
from tenure.stores.values import EdgeInfo
from tenure.web.arguments import Naming, arguments_of, hidden, pretty
from tenure.web.page import Address, Page, Region
from tenure.web.timeline import Timeline, timeline_of
from tenure.web.written import obstacle

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["job"]

LONGEST = 20_000
"""Characters of a value, traceback or output that a page shows."""

ACTIONS: dict[State, tuple[str, ...]] = {
    State.WAITING: ("cancel", "delete"),
    State.BLOCKED: ("cancel", "delete"),
    State.RUNNING: ("cancel", "release"),
    State.SUCCEEDED: ("retry", "delete"),
    State.FAILED: ("retry", "delete"),
    State.CANCELLED: ("retry", "delete"),
    State.BROKEN: ("retry", "delete"),
}


class Fact(msgspec.Struct, frozen=True):
    """Something known about the job."""

    name: str
    text: str = ""
    link: str = ""
    at: float | None = None


class HeadView(msgspec.Struct, frozen=True):
    id: str
    task: str
    label: str
    queue: str
    facts: tuple[Fact, ...]
    actions: tuple[str, ...]
    again: bool
    """Whether it can be run again with changes."""

    percent: float | None
    progress: str


class WhyView(msgspec.Struct, frozen=True):
    summary: str
    reasons: tuple[tuple[str, str], ...]
    """Each with its sentence and its advice."""

    found: bool


class AttemptView(msgspec.Struct, frozen=True):
    number: int
    started_at: float
    took: str
    worker: str
    outcome: str
    error: str
    traceback: str
    output: str


class LifeView(msgspec.Struct, frozen=True):
    timeline: Timeline
    attempts: tuple[AttemptView, ...]
    tail: str
    """The end of the output of the attempt that runs."""


class DataView(msgspec.Struct, frozen=True):
    arguments: tuple[tuple[str, str], ...]
    raw: str
    """The payload as text, if it is no call."""

    shown: bool
    """False: arguments and results are hidden."""

    result: str | None
    headers: tuple[tuple[str, str], ...]
    edges: tuple[tuple[str, bool], ...]
    more_edges: int


async def job(site: Site, at: Address) -> Page:
    """The job, or the current step of the run, with this id."""
    snapshot = await site.snapshot()
    [record] = await site.read(site.store.get([at.names["id"]]))
    why = await site.read(explain_by(site.app, site.store, at.names["id"], snapshot.queues, snapshot.workers))
    if record is None:
        view = WhyView(why.summary, _reasons(why), found=False)
        return Page(title="No such job", kind="job", regions=(Region("why", "job/why.html", view),), status=404)
    edges = await site.read(site.store.edges(record.id)) if record.results else []
    return Page(
        title=f"{record.task} {record.label}",
        kind="job",
        regions=(
            Region("head", "job/head.html", _head(record, site.show)),
            Region("why", "job/why.html", WhyView(why.summary, _reasons(why), found=True)),
            Region(
                "life", "job/life.html", LifeView(timeline_of(record, snapshot.now), _attempts(record), _tail(record))
            ),
            Region("data", "job/data.html", _data(record, edges, site.show, site.naming(record.task))),
        ),
    )


def _reasons(why: Explanation) -> tuple[tuple[str, str], ...]:
    return tuple((reason.sentence, reason.advice) for reason in why.reasons)


def _head(record: JobRecord, show: str) -> HeadView:
    progress = record.progress
    note = "" if progress is None else progress.note or ""
    actions = ACTIONS[record.state]
    if record.state is State.WAITING and record.run_at is not None:
        actions = ("trigger", *actions)
    return HeadView(
        id=record.id,
        task=record.task,
        label=record.label,
        queue=record.queue,
        facts=tuple(_facts(record)),
        actions=actions,
        again=not obstacle(record, show),
        percent=None if progress is None else progress.percent,
        progress=""
        if progress is None
        else f"{progress.done:g} of {progress.total:g} {note}"
        if progress.total
        else note,
    )


def _facts(record: JobRecord) -> list[Fact]:
    facts = [Fact("queue", record.queue, f"/queues/{record.queue}"), Fact("created", at=record.created_at)]
    if record.run_at is not None:
        facts.append(Fact("due", at=record.run_at))
    if record.started_at is not None:
        facts.append(Fact("started", at=record.started_at))
    if record.ended_at is not None:
        facts.append(Fact("ended", at=record.ended_at))
    if record.waited is not None:
        facts.append(Fact("waited", duration(record.waited)))
    if record.attempt:
        limit = f" of {record.max_attempts}" if record.max_attempts else ""
        facts.append(Fact("attempt", f"{record.attempt}{limit}"))
    if record.losses:
        facts.append(Fact("losses", f"{record.losses} of {record.max_losses or 'any number'}"))
    if record.worker:
        facts.append(Fact("worker", record.worker, f"/workers/{record.worker}"))
    if record.priority:
        facts.append(Fact("priority", str(record.priority)))
    if record.unique:
        facts.append(Fact("unique key", record.unique))
    facts += [Fact("tag", tag, f"/jobs?tag={tag}") for tag in user_tags(record.tags)]
    if record.schedule:
        facts.append(Fact("schedule", record.schedule, f"/schedules/{record.schedule}"))
    if record.run_id:
        facts.append(Fact("run", record.run_id, f"/runs/{record.run_id}"))
    if record.expires_at is not None and not record.state.final:
        facts.append(Fact("expires", at=record.expires_at))
    return facts


def _tail(record: JobRecord) -> str:
    return "" if record.progress is None else record.progress.tail or ""


def _attempts(record: JobRecord) -> tuple[AttemptView, ...]:
    return tuple(_attempt(each, record) for each in reversed(attempts_of(record)))


def _attempt(attempt: AttemptRecord, record: JobRecord) -> AttemptView:
    latest = attempt.fence == record.fence and record.error is not None
    error = record.error if latest else attempt.error
    # The error of the latest attempt is stored whole; those of earlier ones are cut.
    return AttemptView(
        number=attempt.number,
        started_at=attempt.started_at,
        took="" if attempt.ended_at is None else duration(max(attempt.ended_at - attempt.started_at, 0.0)),
        worker=attempt.worker or "",
        outcome="running" if attempt.outcome is None else attempt.outcome.value,
        error="" if error is None else f"{error.type}: {error.message}"[:LONGEST],
        traceback="" if error is None else (error.traceback or "")[-LONGEST:],
        output=(attempt.output or (error.output if error is not None else None) or "")[-LONGEST:],
    )


def _data(record: JobRecord, edges: list[EdgeInfo], show: str, naming: Naming) -> DataView:
    call = arguments_of(record.payload, raw=record.raw, naming=naming)
    shown = show != "hidden"
    arguments = tuple((name, _text(hidden(name, value))) for name, value in call or ()) if shown else ()
    raw = record.payload[:LONGEST].decode("utf-8", "replace") if call is None and shown else ""
    return DataView(
        arguments=arguments,
        raw=raw,
        shown=shown,
        result=_result(record) if shown else None,
        headers=tuple(redact(record.headers or {}).items()),
        edges=tuple((edge.blocker or "", edge.open) for edge in edges),
        more_edges=max(len(record.results) - len(edges), 0),
    )


def _result(record: JobRecord) -> str | None:
    if record.result is None:
        return None
    try:
        return _text(hidden("", msgspec.json.decode(record.result)))
    except (msgspec.MsgspecError, RecursionError):
        return record.result[:LONGEST]


def _text(value: Any) -> str:
    text = pretty(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
