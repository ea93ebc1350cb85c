"""`schedules` lists the schedules, `schedule` shows one; `add_schedule` and `change_schedule` are its forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import msgspec

from tenure.core.checks import name as checked_name
from tenure.core.redaction import redact
from tenure.core.schedule import Overlap, ScheduleSearch, TickEnd
from tenure.core.schedule_words import OVERLAPS, catch_up_words
from tenure.core.ticks import ticks
from tenure.core.units import duration
from tenure.core.when import Cron, When, words, zone_of
from tenure.errors import ScheduleNotFound, StoreError, TenureError
from tenure.jobs.schedules import PastTick, Schedule, find_schedule
from tenure.web.arguments import Naming, arguments_of, hidden, pretty
from tenure.web.charts import Column
from tenure.web.page import Address, Page, Region
from tenure.web.pages.flows import MissingView
from tenure.web.pages.job import Fact
from tenure.web.schedule_form import FIELDS, ScheduleForm, fields_of

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["add_schedule", "change_schedule", "schedule", "schedules"]

PAGE = 100
UPCOMING = 5
"""Ticks to come that a page shows."""

RUNS = 5
"""Runs of a flow whose states are read, the latest ones, because each is a call."""

SECONDARY = 5.0
"""Seconds between two reads of the states of the jobs."""

LONGEST = 20_000
"""Characters of an argument."""

ENDS = {
    TickEnd.ENQUEUED: "succeeded",
    TickEnd.TRIGGERED: "succeeded",
    TickEnd.BACKFILLED: "succeeded",
    TickEnd.DUPLICATE: "cancelled",
    TickEnd.SKIPPED: "cancelled",
    TickEnd.MISSED: "failed",
    TickEnd.REFUSED: "failed",
}
"""The state whose colour shows what became of a tick, as long as the state of its job is not known."""


class TickColumn(msgspec.Struct, frozen=True):
    """A tick in the row of small columns."""

    column: Column
    title: str


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as a row of the listing."""

    name: str
    state: str
    words: str
    target: str
    is_flow: bool
    changed: bool
    next_at: float | None
    columns: tuple[TickColumn, ...]
    last: str
    last_at: float | None
    last_job: str
    """Path of the page of its last job or run."""

    unreadable: str


class SchedulesView(msgspec.Struct, frozen=True):
    rows: tuple[ScheduleRow, ...]
    more: str | None
    first: str | None


class Upcoming(msgspec.Struct, frozen=True):
    at: float
    local: str
    """The same in the time zone of the cron, or in UTC."""


class PastRow(msgspec.Struct, frozen=True):
    tick: float
    end: str
    colour: str
    at: float
    job: str
    job_path: str
    state: str
    says: str


class ScheduleHeadView(msgspec.Struct, frozen=True):
    name: str
    state: str
    words: str
    unreadable: str
    paused: bool
    changed: tuple[str, ...]
    deletable: bool
    facts: tuple[Fact, ...]


class TicksView(msgspec.Struct, frozen=True):
    upcoming: tuple[Upcoming, ...]
    paused: bool
    past: tuple[PastRow, ...]
    columns: tuple[TickColumn, ...]
    kind: str
    """`job` or `run`."""


class CallView(msgspec.Struct, frozen=True):
    shown: bool
    kind: str
    arguments: tuple[tuple[str, str], ...]
    raw: str
    headers: tuple[tuple[str, str], ...]


class FormView(msgspec.Struct, frozen=True):
    fields: dict[str, str]
    change: bool
    problem: str
    words: str
    upcoming: tuple[Upcoming, ...]
    tasks: tuple[str, ...]
    flows: tuple[str, ...]
    overlaps: tuple[tuple[str, str], ...]
    now: str
    """What it enqueues today, of a schedule that is changed."""

    declared: bool
    has_code: bool


# All schedules.


async def schedules(site: Site, at: Address) -> Page:
    """The schedules by name, a page at a time."""
    after = at.query.get("cursor", "")
    search = ScheduleSearch(after=checked_name("schedule", after) if after else "", limit=PAGE)
    found = await site.read(site.store.schedules(search))
    rows = tuple(_row(Schedule(site.app, record)) for record in found.schedules)
    more = at.with_query(cursor=rows[-1].name) if len(rows) == PAGE else None
    view = SchedulesView(rows, more, at.with_query(cursor=None) if after else None)
    return Page(
        title="Schedules", kind="schedules", every=2.0, regions=(Region("schedules", "schedules/list.html", view),)
    )


def _row(found: Schedule) -> ScheduleRow:
    last = found.history[-1] if found.history else None
    if found.unreadable is not None:
        rule, target, is_flow, changed = "", "", False, False
    else:
        rule, is_flow, changed = found.words, found.flow is not None, bool(found.changed)
        target = found.flow or found.task
    return ScheduleRow(
        name=found.name,
        state=found.state,
        words=rule,
        target=target,
        is_flow=is_flow,
        changed=changed,
        next_at=None if found.next_at is None else found.next_at.timestamp(),
        columns=_columns(found, {}),
        last="" if last is None else last.end.value,
        last_at=None if last is None else last.at.timestamp(),
        last_job="" if found.last_job_id is None else _path(found.last_job_id, is_flow=is_flow),
        unreadable=found.unreadable or "",
    )


def _path(job_id: str, *, is_flow: bool) -> str:
    return f"/{'runs' if is_flow else 'jobs'}/{job_id}"


def _columns(found: Schedule, states: Mapping[str, str], width: int = 96, height: int = 20) -> tuple[TickColumn, ...]:
    """A column for each of the latest ticks: full if it enqueued, else half; coloured by the state of its job, if known."""
    past = found.history
    each = width / 20
    columns = []
    for number, tick in enumerate(past, 20 - len(past)):
        tall = height if tick.enqueued else height / 2
        state = states.get(tick.job_id or "", "") if tick.enqueued else ""
        kind = state or ENDS[tick.end]
        column = Column(round(number * each, 1), round(height - tall, 1), round(each - 1, 1), round(tall, 1), kind)
        columns.append(TickColumn(column, f"{tick.tick:%Y-%m-%d %H:%M:%S} UTC {tick.end.value} {state}".strip()))
    return tuple(columns)


# One schedule.


async def schedule(site: Site, at: Address) -> Page:
    """A schedule: when it fires, what it enqueues, what became of its last ticks."""
    found = await _found(site, at)
    if found is None:
        return _missing(at)
    regions = [Region("head", "schedule/head.html", _head(found, site))]
    if found.unreadable is None:
        key = ("schedule", found.name, found._record.version)
        states = await site.recent.get(key, SECONDARY, lambda: _states(site, found))
        regions.append(Region("ticks", "schedule/ticks.html", _ticks_view(found, states)))
        regions.append(Region("call", "schedule/call.html", _call_view(found, site.show, site.naming(found.task))))
    return Page(title=found.name, kind="schedule", every=2.0, regions=tuple(regions))


async def _found(site: Site, at: Address) -> Schedule | None:
    try:
        return await site.read(find_schedule(site.app, at.names["name"], site.store))
    except ScheduleNotFound:
        return None


def _missing(at: Address) -> Page:
    sentence = "It never existed, was deleted, or its code has been gone for a month."
    view = MissingView(f"There is no schedule {at.names['name'][:80]}", sentence)
    return Page(
        title="No such schedule",
        kind="schedules",
        regions=(Region("missing", "schedule/missing.html", view),),
        status=404,
    )


async def _states(site: Site, found: Schedule) -> dict[str, str]:
    """The states of the jobs of its latest ticks, by id; of a flow, of the latest few runs."""
    ids = [each.job_id for each in found.history if each.enqueued and each.job_id is not None]
    if found.flow is None:
        jobs = await site.read(site.store.get(ids)) if ids else []
        return {job.id: job.label for job in jobs if job is not None}
    runs = [(run_id, await site.read(site.store.run(run_id))) for run_id in ids[-RUNS:]]
    return {run_id: run.step.label for run_id, run in runs if run is not None}


def _head(found: Schedule, site: Site) -> ScheduleHeadView:
    if found.unreadable is not None:
        return ScheduleHeadView(found.name, found.state, "", found.unreadable, False, (), True, ())
    return ScheduleHeadView(
        name=found.name,
        state=found.state,
        words=found.words,
        unreadable="",
        paused=found.paused,
        changed=tuple(_changes(found)),
        deletable=not found.declared or found.state == "lapsed",
        facts=tuple(_facts(found, site)),
    )


def _changes(found: Schedule) -> Iterator[str]:
    """What was changed at run time, each with what the code declares."""
    plan = found._settings.plan
    for name in found.changed:
        declared = getattr(plan, name)
        text = f"task {declared.task} in queue {declared.queue}" if name == "job" else str(declared)
        yield f"{name.replace('_', '-')} (declared: {text})"


def _facts(found: Schedule, site: Site) -> Iterator[Fact]:
    del site
    if isinstance(found.when, Cron):
        yield Fact("cron", str(found.when))
    if found.flow is not None:
        yield Fact("flow", found.flow, f"/flows/{found.flow}")
        yield Fact("first step", found.task, f"/tasks/{found.task}")
    else:
        yield Fact("task", found.task, f"/tasks/{found.task}")
    yield Fact("queue", found.queue, f"/queues/{found.queue}")
    yield Fact("overlap", f"{found.overlap}: {OVERLAPS[found.overlap]}")
    yield Fact("catch-up", catch_up_words(found.catch_up))
    if found.jitter:
        yield Fact("jitter", f"up to {duration(found.jitter)} after each tick")
    if found.starts is not None:
        yield Fact("starts", at=found.starts.timestamp())
    if found.ends is not None:
        yield Fact("ends", at=found.ends.timestamp())
    yield Fact(
        "declared in code, confirmed" if found.declared else "created at run time", at=found.confirmed_at.timestamp()
    )
    if found.next_at is not None:
        yield Fact("next", at=found.next_at.timestamp())
    if found.last_job_id is not None:
        kind = "run" if found.flow is not None else "job"
        yield Fact(f"last {kind}", found.last_job_id, _path(found.last_job_id, is_flow=found.flow is not None))


def _ticks_view(found: Schedule, states: Mapping[str, str]) -> TicksView:
    upcoming = [each.tick for each in found.preview(UPCOMING)] if found.state in {"active", "paused"} else []
    return TicksView(
        upcoming=tuple(_upcoming(found.when, each) for each in upcoming),
        paused=found.paused,
        past=tuple(_past(each, states, is_flow=found.flow is not None) for each in reversed(found.history)),
        columns=_columns(found, states),
        kind="job" if found.flow is None else "run",
    )


def _upcoming(when: When, tick: datetime) -> Upcoming:
    zone = zone_of(when.timezone if isinstance(when, Cron) else "UTC")
    return Upcoming(tick.timestamp(), f"{tick.astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}")


def _past(tick: PastTick, states: Mapping[str, str], *, is_flow: bool) -> PastRow:
    says = {TickEnd.SKIPPED: "was not final", TickEnd.DUPLICATE: "has the unique key"}.get(tick.end, "")
    if tick.replaced is not None:
        says = f"cancelled {tick.replaced}"
    elif tick.until is not None:
        says = f"and all until {tick.until:%Y-%m-%d %H:%M:%S} UTC"
    job = tick.job_id or ""
    state = states.get(job, "") if tick.enqueued else ""
    path = _path(job, is_flow=is_flow) if job else ""
    return PastRow(tick.tick.timestamp(), tick.end.value, ENDS[tick.end], tick.at.timestamp(), job, path, state, says)


def _call_view(found: Schedule, show: str, naming: Naming) -> CallView:
    """What it enqueues, with secrets hidden."""
    job = found._settings.effective.job
    headers = tuple(redact(job.headers or {}).items())
    if show == "hidden":
        return CallView(False, "", (), "", headers)
    if job.step is not None:
        texts = {} if job.step.writes is None else job.step.writes.attributes
        values = [(name, msgspec.json.decode(text)) for name, text in texts.items()]
        return CallView(True, "attributes", tuple((name, _text(name, value)) for name, value in values), "", headers)
    call = arguments_of(job.payload, raw=job.raw, naming=naming)
    raw = job.payload[:LONGEST].decode("utf-8", "replace") if call is None else ""
    return CallView(True, "arguments", tuple((name, _text(name, value)) for name, value in call or ()), raw, headers)


def _text(name: str, value: object) -> str:
    return pretty(hidden(name, value))[:LONGEST]


# Forms.


async def add_schedule(site: Site, at: Address) -> Page:
    """The form of a new schedule, with a preview of its ticks once it was sent."""
    given = _sent(site, at)
    return _form_page(site, "Add a schedule", {"kind": "task", "how": "cron", **given}, None, sent=bool(given))


async def change_schedule(site: Site, at: Address) -> Page:
    """The form that changes a schedule. What it enqueues stays, unless the form names another task or flow."""
    found = await _found(site, at)
    if found is None or found.unreadable is not None:
        return _missing(at)
    stored = {
        **fields_of(found.when),
        "kind": "task" if found.flow is None else "flow",
        "overlap": found.overlap.value,
        "catch_up": str(found.catch_up),
    }
    given = _sent(site, at)
    fields = {**stored, **given, "name": found.name}
    return _form_page(site, f"Change {found.name}", fields, found, sent=bool(given))


def _sent(site: Site, at: Address) -> dict[str, str]:
    """What was typed in before the form was previewed or refused."""
    return dict(parse_qsl(site.take_draft(at.viewer, at.path) or "", keep_blank_values=True))


def _form_page(site: Site, title: str, fields: Mapping[str, str], found: Schedule | None, *, sent: bool) -> Page:
    filled = {name: fields.get(name, "") for name in FIELDS}
    form = ScheduleForm(site.app, filled)
    problem, sentence = "", ""
    upcoming: tuple[Upcoming, ...] = ()
    if found is not None or sent:
        try:
            when = form.when
            sentence = words(when)
            upcoming = _preview(when)
            if found is None:
                form.name  # noqa: B018  (checks it)
                form.plan()
            else:
                form.call  # noqa: B018
        except StoreError:
            raise
        except TenureError as error:
            problem = str(error)
    view = FormView(
        fields=filled,
        change=found is not None,
        problem=problem if sent and "refused" not in fields else "",  # else the page says it already
        words=sentence,
        upcoming=upcoming,
        tasks=tuple(sorted(name for name, task in site.app.tasks.items() if not task._is_step)),
        flows=tuple(sorted(site.app.internals.flows)),
        overlaps=tuple((each.value, OVERLAPS[each]) for each in Overlap),
        now="" if found is None else f"flow {found.flow}" if found.flow else f"task {found.task}",
        declared=found is not None and found.declared,
        has_code=bool(site.app.tasks),
    )
    return Page(title=title, kind="schedules", every=0.0, regions=(Region("form", "schedule/form.html", view),))


def _preview(when: When) -> tuple[Upcoming, ...]:
    found = islice(ticks(when, datetime.now(UTC).timestamp()), UPCOMING)
    return tuple(_upcoming(when, datetime.fromtimestamp(tick, UTC)) for tick in found)
