"""The commands flows, start and run: list runs of flows, start one, and show one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.enqueue import header_option
from tenure.cli.ids import resolve_id
from tenure.cli.jobs import awaited
from tenure.cli.messages import CommandError, print_message
from tenure.cli.names import QUEUE
from tenure.core.job import State
from tenure.documents import json_value, run_document, whole_run_document

if TYPE_CHECKING:
    from rich.table import Table

    from tenure.app import App
    from tenure.jobs.run import FlowRun, StepInfo
    from tenure.tasks.flow import Flow, Start

__all__ = ["bound_start", "flows", "run", "start"]


@click.command()
@click.option("--flow", help="Only runs of this flow.")
@click.option("--state", type=click.Choice([state.value for state in State]), help="Only runs in this state.")
@click.option(
    "--find",
    metavar="NAME=VALUE",
    help="Only runs of --flow with this value of a lookup attribute; a value that is not JSON is a string.",
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="The most runs to list.")
@click.option("--cursor", help="Continue where an earlier listing ended.")
@json_option
@with_app()
async def flows(app: App, find: str | None, as_json: bool, **search: Any) -> None:
    """List runs of flows, the newest first.

    A run is in the state of its current step.
    """
    from tenure.cli import display

    page = await _found(app, find, **search)
    if as_json:
        return emit({"runs": [run_document(run) for run in page], "cursor": page.cursor})
    if page:
        listing = display.table(
            "id", ("flow", "gives"), ("step", "gives"), ("queue", "gives"), "state", ("created", "right"), ("", "gives")
        )
        for run, run_id in zip(page, display.short_ids([run.id for run in page]), strict=True):
            listing.add_row(
                display.text(run_id),
                display.text(run.flow),
                display.text(run.step),
                display.text(run.record.queue if run.record is not None else ""),
                display.state(run.record.label if run.record is not None else run.state),
                display.text(display.distance(run.created_at or 0.0)),
                display.remark(_remark(run)),
            )
        display.show(listing)
    else:
        print_message("no run matches")
    if page.cursor is not None:
        print_message(f"there are more: --cursor {page.cursor}")
    return None


async def _found(
    app: App, find: str | None, flow: str | None, state: str | None, limit: int, cursor: str | None
) -> Any:
    from tenure.core.attributes import lookup_for
    from tenure.core.checks import name as checked_name
    from tenure.stores.values import RunSearch

    if find is None:
        return await app.aflows(flow=flow, state=state, limit=limit, cursor=cursor)
    if flow is None:
        raise CommandError("--find needs --flow, because each flow has different lookup attributes")
    name, value = _named_value(find, "--find needs")
    return await app.internals.runs_found(
        RunSearch(
            flow=checked_name("flow", flow),
            lookup=(name, lookup_for(value)),
            state=None if state is None else State(state),
            limit=limit,
            cursor=cursor,
        )
    )


def _named_value(given: str, who: str) -> tuple[str, Any]:
    """Parse NAME=VALUE, such as customer=c1; a value that is not JSON is a string."""
    name, equals, text = given.partition("=")
    if not equals or not name:
        raise CommandError(f"{who} a name and a value, such as customer=c1, got {given!r:.80}")
    readable, value = json_value(text)
    return name, value if readable else text


@click.command()
@click.argument("flow")
@click.argument("attributes", metavar="[NAME=VALUE]...", nargs=-1)
@click.option("--first", metavar="STEP", help="The first step of the flow; required without --app.")
@click.option("-q", "--queue", type=QUEUE, help="The queue of the first step. Default: the step's queue, or 'default'.")
@click.option(
    "--lookup",
    multiple=True,
    metavar="NAME",
    help="An attribute to find the run by; only without --app; may be given several times.",
)
@click.option("--delay", type=float, metavar="SECONDS", help="Seconds to wait before the run begins.")
@click.option("--unique", metavar="KEY", help="Start only if no other unfinished run of the flow has this key.")
@click.option("--tag", "tags", multiple=True, help="A tag to find its jobs by; may be given several times.")
@header_option
@json_option
@with_app(empty=True)
async def start(app: App, flow: str, attributes: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Start a run of FLOW with these attributes and print its id. A value that is not JSON is a string.

    With --app, the flow must be one of the app's and the attributes must fit it. With --url or TENURE_URL alone, nothing is
    checked until a worker runs the first step.
    """
    [begun] = await app.aenqueue(bound_start(app, flow, attributes, **given))
    if as_json:
        return emit({"id": begun.id, "state": begun.state, "duplicate": begun.duplicate})
    if begun.duplicate:
        print_message(f"run {begun.id} already has this unique key: nothing was started")
    return click.echo(begun.id)


def bound_start(
    app: App, flow: str, attributes: Sequence[str], *, first: str | None, lookup: Sequence[str], **given: Any
) -> Start:
    """A start of the flow with these attributes and the options that were given; refused if the app has tasks and it does not fit."""
    values = dict(_named_value(each, "an attribute needs") for each in attributes)
    options = {name: value for name, value in given.items() if value not in (None, ())}
    if app.tasks:
        if first is not None or lookup:
            raise CommandError("leave out --first and --lookup: with --app the code of the flow has them")
        known = _flow_of(app, flow)
        return known.using(**options).bind(**known._converted(values))
    if first is None:
        raise CommandError(f"name the first step of flow {flow} with --first, or its app with --app")
    return app.remote_flow(flow, first=first, lookup=lookup).using(**options).bind(**values)


def _flow_of(app: App, name: str) -> Flow:
    from tenure.tasks.step import Step

    flows = {task.flow.name: task.flow for task in app.tasks.values() if isinstance(task, Step)}
    if name not in flows:
        raise CommandError(f"the app has no flow {name!r:.80}: it has {', '.join(sorted(flows)) or 'none'}")
    return flows[name]


def _json(value: Any) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()


@click.command()
@click.argument("run_id", metavar="ID")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="The most steps to list.")
@click.option("--cursor", help="Continue the steps where an earlier listing ended.")
@json_option
@with_app()
async def run(app: App, run_id: str, limit: int, cursor: str | None, as_json: bool) -> None:
    """Show everything about one run: its attributes, and its steps so far.

    ID is the id of the run, or of one of its steps.
    """
    from tenure.cli import display

    found = await _run_with(app, run_id)
    attributes = await found.aattributes()
    steps = await found.asteps(limit=limit, cursor=cursor)
    if as_json:
        return emit(whole_run_document(found, attributes, steps))
    facts = [
        ("run", display.text(found.id)),
        ("state", display.state(found.record.label if found.record else found.state)),
    ]
    facts += [(name, display.lines(value)) for name, value in _facts(found)]
    display.show_facts([*facts, *((name, display.lines(_json(value))) for name, value in attributes.items())])
    click.echo()
    display.show(_history(steps))
    if steps.cursor is not None:
        print_message(f"there are more steps: --cursor {steps.cursor}")
    return None


async def _run_with(app: App, id_: str) -> FlowRun:
    """The run with this id, or with a step that has this id."""
    id_ = await resolve_id(app, id_)
    [step] = await app.internals.session.store.get([id_])
    if step is not None and step.run_id is None:
        raise CommandError(f"job {id_} is not a run of a flow: tenure job {id_} shows it")
    return await app.arun((step and step.run_id) or id_)


def _remark(run: FlowRun) -> str:
    """The remark about a run in a listing: its error, or what it waits for."""
    if run.error is not None:
        return f"{run.error.type}: {run.error.message}"
    return f"waits for {awaited(run.record)}" if run.record is not None and run.record.state is State.BLOCKED else ""


def _facts(run: FlowRun) -> Iterator[tuple[str, str]]:
    from tenure.cli.display import moment

    yield "flow", run.flow
    yield "step", f"{run.step} in {run.record.queue}" if run.record is not None else str(run.step)
    yield "created", moment(run.created_at or 0.0)
    if run.record is None:
        return
    if run.record.run_at is not None:
        yield "due", moment(run.record.run_at)
    if run.record.ended_at is not None:
        yield "ended", moment(run.record.ended_at)
    if run.record.blocked_by:
        yield "waits for", awaited(run.record)
    if run.record.result is not None:
        yield "result", run.record.result
    if run.error is not None:
        yield "error", f"{run.error.type}: {run.error.message}"


def _history(steps: list[StepInfo]) -> Table:
    from tenure.cli import display

    listing = display.table(
        "step", ("queue", "gives"), "state", ("attempts", "right"), ("created", "right"), ("took", "right"),
        ("worker", "gives"), ("", "gives"),
    )  # fmt: skip
    for step in steps:
        took = step.ended_at - step.started_at if step.ended_at is not None and step.started_at is not None else None
        listing.add_row(
            display.text(step.name),
            display.text(step.queue),
            display.state(step.state),
            display.text(step.attempts),
            display.text(display.distance(step.created_at)),
            display.text("" if took is None else display.duration(max(took, 0.0))),
            display.text(step.worker or ""),
            display.remark("" if step.error is None else f"{step.error.type}: {step.error.message}"),
        )
    return listing
