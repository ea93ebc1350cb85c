"""The command watch: shows events as they happen."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.connection import with_app
from tenure.cli.messages import print_message
from tenure.cli.names import QUEUE, TASK

if TYPE_CHECKING:
    from rich.text import Text

    from tenure.app import App
    from tenure.events import Event

__all__ = ["watch"]

STYLES = {
    "succeeded": "green",
    "completed": "green",
    "failed": "bold red",
    "broken": "bold magenta",
    "retried": "yellow",
    "reoffered": "yellow",
    "lost": "bold yellow",
    "lease_lost": "yellow",
    "fenced": "yellow",
    "cancelled": "dim",
    "expired": "dim",
    "deleted": "dim",
    "renewed": "dim",
    "enqueued": "cyan",
    "leased": "bold cyan",
    "worker_missing": "bold red",
    "worker_retired": "bold red",
}

SHOWN = ("event", "task", "queue", "flow", "job_id", "run_id")
"""Fields that are not repeated among the details at the end of a line."""


@click.command()
@click.option("-q", "--queue", type=QUEUE, metavar="QUEUE", help="Only events of this queue and its jobs.")
@click.option("-t", "--task", type=TASK, metavar="TASK", help="Only events of jobs of this task.")
@click.option("--job", metavar="ID", help="Only events of this job.")
@click.option("--run", metavar="ID", help="Only events of this run of a flow.")
@click.option("-k", "--kind", "kinds", metavar="KIND", multiple=True, help="Only events of this kind, such as failed; may be given several times.")  # fmt: skip
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after this many events.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@with_app()
async def watch(
    app: App,
    queue: str | None,
    task: str | None,
    job: str | None,
    run: str | None,
    kinds: tuple[str, ...],
    limit: int | None,
    as_json: bool,
) -> None:
    """Show events as they happen, of all processes that use the store. Ctrl-C stops it.

    Events are hints: a busy process notices a new watcher within two seconds, and an event that is lost on the way is not
    sent again.
    """
    from tenure.cli.ids import resolve_id
    from tenure.stores import masked

    job, run = [given and await resolve_id(app, given) for given in (job, run)]
    here = asyncio.current_task()
    assert here is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, here.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        async with app.watch(queue=queue, task=task, job=job, run=run, kinds=kinds) as events:
            print_message(f"watching {masked(app.url)}, Ctrl-C stops it")
            shown = 0
            async for event in events:
                _show(event, as_json)
                shown += 1
                if shown == limit:
                    break


def _show(event: Event, as_json: bool) -> None:
    if as_json:
        at = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds")
        click.echo(json.dumps({"at": at, **event.fields()}, default=str).replace("\x7f", "\\u007f"))
        return
    from tenure.cli.display import console

    console().print(_line(event), soft_wrap=True)


def _line(event: Event) -> Text:
    """One line for an event: time, kind, subject and details."""
    from rich.text import Text

    from tenure.cli.display import text
    from tenure.events import WorkerEvent

    fields = event.fields()
    subject = fields.get("task") or fields.get("flow") or fields.get("queue", "")
    place = fields.get("queue", "") if fields.get("task") else ""
    line = Text(f"{datetime.fromtimestamp(event.at).astimezone():%H:%M:%S.%f}"[:-3], style="dim", overflow="fold")
    line.append("  ")
    line.append(text(f"{event.kind.replace('_', ' '):<15}", STYLES.get(event.kind, "")))
    for part in (subject, place, fields.get("job_id") or fields.get("run_id") or fields.get("worker", "")):
        if part:
            line.append(" ")
            line.append(text(part))
    own = (*SHOWN, "worker") if isinstance(event, WorkerEvent) else SHOWN
    if rest := ", ".join(
        _field_text(name, value) for name, value in fields.items() if name not in own and value != "waiting"
    ):
        line.append("  ")
        line.append(text(rest, "dim"))
    return line


def _field_text(name: str, value: Any) -> str:
    from tenure.cli.display import duration

    match name, value:
        case "error", {"type": kind, "message": message}:
            return f"{kind}: {message}"
        case (("duration" | "delay" | "timeout" | "silent_for"), float(seconds)):
            return f"{name.replace('_', ' ')} {duration(seconds)}"
        case "attempt", number:
            return f"attempt {number}"
        case _, (tuple() | list()) as several:
            return f"{name} {','.join(map(str, several))}"
    return f"{name.replace('_', ' ')} {value}"
