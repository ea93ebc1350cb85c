"""The command enqueue: enqueues a job, with or without the code of its task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.messages import CommandError, print_message
from tenure.cli.names import QUEUE, TASK
from tenure.documents import json_value

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.tasks.task import Call, Caller

__all__ = ["Json", "bound_call", "enqueue", "header_option"]


class Json(click.ParamType[Any]):
    """A value written as JSON."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        readable, parsed = json_value(value)
        if not readable:
            self.fail(f"{value!r:.200} is not JSON (a string needs quotes: '\"text\"')", param, ctx)
        return parsed


def _headers(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str] | None:  # noqa: ARG001
    """Parse each NAME=VALUE, such as tenant=acme. None if there are none."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise CommandError(f"--header needs a name and a value, such as tenant=acme, got {each!r:.80}")
        if name in found:
            raise CommandError(f"--header {name} is given twice, and a job has one value for each name")
        found[name] = value
    return found or None


header_option = click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_headers,
    help="A short text that travels with the job; may be given several times.",
)


@click.command()
@click.argument("task", type=TASK)
@click.argument("args", nargs=-1, type=Json(), metavar="[JSON]...")
@click.option("--kwargs", type=Json(), default="{}", metavar="JSON", help="Arguments by name, as a JSON object.")
@click.option("-q", "--queue", type=QUEUE, help="The queue of the job. Default: the task's queue, or 'default'.")
@click.option("--delay", type=float, metavar="SECONDS", help="Seconds to wait before it runs.")
@click.option("--priority", type=int, metavar="N", help="Lower runs first. Default: the task's priority, or 0.")
@click.option("--unique", metavar="KEY", help="Enqueue only if no other unfinished job of the task has this key.")
@click.option("--tag", "tags", multiple=True, help="A tag to find the job by; may be given several times.")
@click.option("--version", type=click.IntRange(1), metavar="N", help="The version of the task that the arguments are for. Default: the task's version, or 1.")  # fmt: skip
@header_option
@json_option
@with_app(empty=True)
async def enqueue(
    app: App, task: str, args: tuple[Any, ...], kwargs: Any, version: int | None, as_json: bool, **options: Any
) -> None:
    """Enqueue a job of TASK and print its id.

    Its arguments are JSON. With --app, the task must be one of the app's and the arguments must fit it. With --url or
    TENURE_URL alone, nothing is checked, because the code of the task may be elsewhere.
    """
    [job] = await app.aenqueue(bound_call(app, task, args, kwargs, options, version))
    if as_json:
        return emit({"id": job.id, "state": job.state, "duplicate": job.duplicate})
    if job.duplicate:
        print_message(f"job {job.id} already has this unique key: nothing was enqueued")
    return click.echo(job.id)


def bound_call(
    app: App, task: str, args: Sequence[Any], kwargs: Any, options: Mapping[str, Any], version: int | None = None
) -> Call[Any]:
    """A call of the task with JSON arguments and the options that were given; refused if the app has tasks and it does not fit."""
    from tenure.tasks.task import Call

    if not isinstance(kwargs, dict):
        raise CommandError('--kwargs must be a JSON object, such as {"copies": 2}')
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if version is None:
        version = app.tasks[task].options.version if task in app.tasks else 1
    payload = app.remote(task, version=version).bind(*args, **kwargs).payload
    caller = _known(app, task, payload) if app.tasks else app.remote(task)
    return Call(caller.using(**given), payload)


def _known(app: App, name: str, payload: bytes) -> Caller[..., Any]:
    """The task of this name; refused unless the payload is a valid call of it."""
    from tenure.errors import UnknownTask

    task = app.tasks.get(name)
    if task is None:
        raise UnknownTask(name, app.tasks)
    if task.options.raw:
        raise CommandError(f"task {name} takes raw bytes, not JSON: enqueue it from a program")
    task._call_arguments(payload, None)
    return task
