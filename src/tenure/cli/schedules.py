"""The commands schedules and schedule: list schedules, show one, and preview its ticks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.connection import store_options, with_app
from tenure.cli.document import emit, json_option
from tenure.cli.jobs import show_headers
from tenure.cli.messages import CommandError, print_message
from tenure.cli.scheduling import add, backfill, change, delete, pause, resume, trigger, when_of
from tenure.cli.values import Seconds
from tenure.documents import (
    UPCOMING,
    schedule_document,
    scheduled_job_document,
    upcoming_tick_document,
    whole_schedule_document,
)

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from tenure.app import App
    from tenure.core.when import When
    from tenure.jobs.schedules import PastTick, Schedule, UpcomingTick

__all__ = ["schedule", "schedules"]

OVERLAPS = {
    "allow": "enqueues the next job although the last one is not final",
    "skip": "enqueues nothing while the last job is not final",
    "wait": "the next job waits for the last one; none if that has not begun",
    "replace": "cancels the last job if it is not final",
}


@click.command()
@json_option
@with_app()
async def schedules(app: App, as_json: bool) -> None:
    """List the schedules: when each fires, what it enqueues, and what became of its last tick.

    Times are in UTC. Schedules that are declared in code are listed once a worker with that code has started.
    """
    from tenure.cli import display

    found = await app.aschedules()
    if as_json:
        return emit({"schedules": [schedule_document(each) for each in found]})
    if not found:
        return print_message(
            "there are no schedules: declare one with app.schedule(…) and start a worker, or use tenure schedule add"
        )
    out = display.console()
    display.show(_narrow_listing(found) if out.is_terminal and out.width < display.ROOM else _wide_listing(found))
    for each in found:
        if each.unreadable is not None:
            print_message(each.unreadable)
    return None


def _wide_listing(found: Sequence[Schedule]) -> Table:
    from tenure.cli import display

    listing = display.table(
        "name", ("when", "gives"), ("task", "gives"), "state", "next (UTC)", ("", "right"), ("last", "gives")
    )
    for each in found:
        name, when, task, next_, in_, last, ago = _cells(each)
        state = display.state(each.state)
        if changed := _changed(each):
            state.append(display.text(f", {changed}", "yellow"))
        listing.add_row(name, when, task, state, next_, in_, display.text(f"{last} {ago}".strip()))
    return listing


def _narrow_listing(found: Sequence[Schedule]) -> Table:
    """A table in which each schedule takes two lines."""
    from tenure.cli import display

    listing = display.table(("name", "gives"), ("when, task", "gives"), "state", "next (UTC)", "last")
    for each in found:
        name, when, task, next_, in_, last, ago = _cells(each)
        listing.add_row(
            name,
            _below(when, task),
            _below(display.state(each.state), display.text(_changed(each), "yellow")),
            _below(next_, in_),
            _below(last, ago),
        )
    return listing


def _cells(schedule: Schedule) -> tuple[Text, ...]:
    """A schedule's name, when it fires, what it enqueues, its next tick and the time until then, its last one and the time since."""
    from tenure.cli.display import distance, text, utc

    when = task = ""
    if schedule.unreadable is None:
        when, task = str(schedule.when), f"flow {schedule.flow}" if schedule.flow is not None else schedule.task
    next_, last = schedule.next_at, schedule.history[-1] if schedule.history else None
    late = "yellow" if next_ is not None and next_ < datetime.now(UTC) else "dim"
    return (
        text(schedule.name),
        text(when),
        text(task, "dim"),
        text("" if next_ is None else utc(next_)),
        text("" if next_ is None else distance(next_.timestamp()), late),
        text("" if last is None else last.end, "" if last is None or last.enqueued else "yellow"),
        text("" if last is None else distance(last.at.timestamp()), "dim"),
    )


def _below(first: Text, second: Text) -> Text:
    from rich.text import Text

    return Text("\n").join([first, second]) if second else first


def _changed(schedule: Schedule) -> str:
    return "changed" if schedule.unreadable is None and schedule.changed else ""


@click.command()
@click.argument("name")
@json_option
@with_app()
async def show(app: App, name: str, as_json: bool) -> None:
    """Show everything about one schedule.

    Its options, what was changed at run time, its next ticks, and what became of its last 20.
    """
    from tenure.cli import display
    from tenure.jobs.schedules import history_states

    found = await app.aget_schedule(name)
    if found.unreadable is not None:
        raise CommandError(found.unreadable)
    states = await history_states(app.internals.session.store, found)
    upcoming = found.preview(UPCOMING) if found.state in ("active", "paused") else []
    if as_json:
        return emit(whole_schedule_document(found, states))
    facts = [("schedule", display.text(found.name)), ("state", display.state(found.state))]
    display.show_facts([*facts, *((fact, display.lines(value)) for fact, value in _facts(found))])
    if upcoming:
        click.echo()
        display.show(_ticks_table(found.when, upcoming))
    if found.history:
        click.echo()
        display.show(_history(found, states))
    return None


def _facts(schedule: Schedule) -> Iterator[tuple[str, str]]:
    from tenure.cli.display import distance, duration, utc
    from tenure.core.when import Cron

    job = scheduled_job_document(schedule)
    yield "when", str(schedule.when)
    if isinstance(schedule.when, Cron):
        yield "in words", schedule.words
    if schedule.flow is not None:
        yield "flow", schedule.flow
        yield "first step", schedule.task
    else:
        yield "task", schedule.task
    yield "queue", schedule.queue + (f", priority {job['priority']}" if job["priority"] else "")
    if job["tags"]:
        yield "tags", ", ".join(job["tags"])
    if job["headers"]:
        yield "headers", show_headers(job["headers"])
    plan = schedule._settings.effective.job
    if schedule.flow is None:
        yield "payload", repr(plan.payload) if plan.raw else plan.payload.decode(errors="backslashreplace")
    elif plan.step is not None and plan.step.writes is not None:
        yield "attributes", "\n".join(f"{name} = {value}" for name, value in plan.step.writes.attributes.items())
    yield "overlap", f"{schedule.overlap}: {OVERLAPS[schedule.overlap]}"
    yield "catch-up", _catch_up_words(schedule.catch_up)
    if schedule.jitter:
        yield "jitter", f"up to {duration(schedule.jitter)} after each tick"
    for name, bound in (("starts", schedule.starts), ("ends", schedule.ends)):
        if bound is not None:
            yield name, f"{utc(bound)} UTC ({distance(bound.timestamp())})"
    if schedule.declared:
        yield "origin", f"declared in code, last confirmed {distance(schedule.confirmed_at.timestamp())}"
    else:
        yield "origin", f"created at run time, {distance(schedule.confirmed_at.timestamp())}"
    if schedule.changed:
        yield "changed", ", ".join(_declared_values(schedule))
        yield "to clear", f"tenure schedule change {schedule.name} --clear"
    if schedule.state == "lapsed":
        yield "lapsed", "no worker has confirmed its declaration for an hour, so nothing fires it"
    if schedule.next_at is not None:
        yield "next", f"{utc(schedule.next_at)} UTC ({distance(schedule.next_at.timestamp())})"


def _catch_up_words(catch_up: int | str) -> str:
    match catch_up:
        case "latest":
            return "latest: of ticks that were not fired in time, the newest is fired"
        case "none":
            return "none: a tick that is more than 60 s late is not fired"
    return f"{catch_up}: of ticks that were not fired in time, the newest {catch_up} are fired"


def _declared_values(schedule: Schedule) -> Iterator[str]:
    """What was changed at run time, each with the value that the code declares."""
    from tenure.cli.display import duration, utc

    plan = schedule._settings.plan
    for name in schedule.changed:
        match name, getattr(plan, name):
            case "job", job:
                yield f"job (declared: task {job.task} in queue {job.queue})"
            case (("starts" | "ends"), bound):
                declared = "none" if bound is None else f"{utc(datetime.fromtimestamp(bound, UTC))} UTC"
                yield f"{name} (declared: {declared})"
            case "jitter", jitter:
                yield f"jitter (declared: {duration(jitter) if jitter else 'none'})"
            case _, value:
                yield f"{name.replace('_', '-')} (declared: {value})"


def _history(schedule: Schedule, states: Mapping[str, str]) -> Table:
    from tenure.cli import display

    past = schedule.history
    ids = [id_ for each in past for id_ in (each.job_id, each.replaced) if id_ is not None]
    short = dict(zip(ids, display.short_ids(ids), strict=True))
    listing = display.table(
        "tick (UTC)", "became", ("", "right"), "job" if schedule.flow is None else "run", ("", "gives")
    )
    for each in past:
        job = short.get(each.job_id or "", "")
        state = display.state(states.get(each.job_id or "", "gone")) if each.enqueued else None
        remark = display.remark(_past_remark(each, short))
        if state is not None:
            remark = display.remark("").append(state).append(", " if remark else "").append(remark)
        listing.add_row(
            display.text(display.utc(each.tick)),
            display.text(each.end, "" if each.enqueued else "yellow"),
            display.text(display.distance(each.at.timestamp()), "dim"),
            display.text(job, "" if each.enqueued else "dim"),
            remark,
        )
    return listing


def _past_remark(past: PastTick, short: Mapping[str, str]) -> str:
    """What a history says of a tick beside its job."""
    from tenure.cli.display import utc

    if past.replaced is not None:
        return f"cancelled {short[past.replaced]}"
    if past.until is not None:
        return f"and all until {utc(past.until)}"
    remarks = {"skipped": "was not final", "duplicate": "has the unique key"}
    return remarks.get(past.end.value, "") if past.job_id is not None else ""


@click.command()
@click.argument("name", required=False)
@click.option("--cron", metavar="TEXT", help="Preview this cron text, such as '0 3 * * *'; needs no store.")
@click.option("--timezone", metavar="ZONE", help="The time zone of --cron, such as Europe/Paris. Default: UTC.")
@click.option("--every", type=Seconds(), metavar="DURATION", help="Preview an interval, such as 15m; needs no store.")
@click.option(
    "-n", "--count", type=click.IntRange(1, 1000), default=10, show_default=True, help="The most ticks to list."
)
@json_option
@store_options
def preview(name: str | None, url: str | None, target: str | None, count: int, as_json: bool, **times: Any) -> None:
    """Say when a schedule fires, and list its next ticks.

    Give the NAME of a schedule, or --cron or --every. Ticks are listed in the time zone of the cron, and in UTC. A paused schedule is previewed as if it were resumed.
    """
    when = when_of(**times, at=None)
    if (name is None) == (when is None):
        raise CommandError("name a schedule, or give --cron or --every")
    if when is None:
        return _preview_stored(url=url, target=target, name=name, count=count, as_json=as_json)
    from itertools import islice

    from tenure.core.ticks import ticks
    from tenure.jobs.schedules import UpcomingTick

    found = (datetime.fromtimestamp(tick, UTC) for tick in islice(ticks(when, datetime.now(UTC).timestamp()), count))
    return _show_preview(when, [UpcomingTick(tick, tick) for tick in found], as_json)


@with_app()
async def _preview_stored(app: App, name: str, count: int, as_json: bool) -> None:
    found = await app.aget_schedule(name)
    _show_preview(found.when, found.preview(count), as_json)


def _show_preview(when: When, upcoming: Sequence[UpcomingTick], as_json: bool) -> None:
    from tenure.cli import display
    from tenure.core.when import words

    if as_json:
        ticks = [upcoming_tick_document(each) for each in upcoming]
        return emit({"when": str(when), "words": words(when), "ticks": ticks})
    display.console().print(display.text(words(when), "bold"))
    if not upcoming:
        return print_message("no tick is to come")
    click.echo()
    return display.show(_ticks_table(when, upcoming))


def _ticks_table(when: When, upcoming: Sequence[UpcomingTick]) -> Table:
    """Ticks to come, in the time zone of a cron and in UTC; with jitter, also the times at which their jobs are due."""
    from tenure.cli import display
    from tenure.core.when import Cron, zone_of

    zone = zone_of(when.timezone) if isinstance(when, Cron) and when.timezone != "UTC" else None
    jitter = any(each.due_at != each.tick for each in upcoming)
    zoned = [] if zone is None else [f"next ({zone.key})"]
    listing = display.table(*zoned, "UTC" if zoned else "next (UTC)", *(["due (UTC)"] if jitter else []), ("", "right"))
    for each in upcoming:
        local = [] if zone is None else [f"{each.tick.astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}"]
        day = "" if zoned else f"{each.tick:%a} "
        due = [display.utc(each.due_at.replace(microsecond=0))] if jitter else []
        cells = [*local, day + display.utc(each.tick), *due]
        listing.add_row(*map(display.text, cells), display.text(display.distance(each.tick.timestamp()), "dim"))
    return listing


class Nouns(click.Group):
    """A group whose commands are listed in the order in which they are given."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)


schedule = Nouns(
    "schedule",
    {each.name or "": each for each in (show, preview, add, change, pause, resume, trigger, backfill, delete)},
    help="""Show a schedule and preview its ticks; or add, change, pause, trigger, backfill and delete one.

    `tenure schedules` lists them all.""",
)
