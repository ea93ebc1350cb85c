"""The command health: says with its exit code whether the workers work, and prints what needs attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.messages import print_message
from tenure.cli.names import QUEUE
from tenure.documents import attention_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenure.app import App
    from tenure.jobs.attention import Attention
    from tenure.stores.values import WorkerInfo

__all__ = ["health"]


@click.command()
@click.option(
    "-q",
    "--queue",
    "queues",
    type=QUEUE,
    multiple=True,
    help="A queue that some worker must serve; may be given several times.",
)
@click.option("--here", is_flag=True, help="Only workers on this host, for a check inside a container.")
@json_option
@with_app(empty=True)
async def health(app: App, queues: tuple[str, ...], here: bool, as_json: bool) -> None:
    """Check whether the workers work, and what is stuck.

    The exit code is 0 if there is a worker and none is stuck; else 1. A missing worker is ignored, because a killed worker
    must not make its replacements look unhealthy.

    What else needs attention, such as a paused queue with jobs in line or a task that fails, is printed with what to do
    about it; it does not change the exit code. With --here it is not looked for.
    """
    import socket

    from tenure.errors import StoreError

    try:
        found = await app.aworkers()
    except StoreError as error:
        troubles, found, answered = [f"the store does not answer: {error}"], [], False
    else:
        answered = True
        found = [worker for worker in found if not here or worker.host == socket.gethostname()]
        troubles = _troubles(found, queues)
    noticed = [] if here or not answered else await _noticed(app)
    missing = [worker.id for worker in found if worker.missing]
    if as_json:
        workers = [
            {"id": worker.id, "missing": worker.missing, "trouble": worker.trouble, "silent_for": worker.silent_for}
            for worker in found
        ]
        emit(
            {
                "status": "stuck" if troubles else "ok",
                "troubles": troubles,
                "missing": missing,
                "workers": workers,
                "attention": [attention_document(each) for each in noticed],
            }
        )
    else:
        for worker_id in missing:
            print_message(f"worker {worker_id} is missing")
        for trouble in troubles:
            print_message(trouble)
        if not troubles:
            click.echo(f"ok: {len(found) - len(missing):,} at work")
        _show([each for each in noticed if each.worker is None])  # workers are named above
    if troubles:
        raise click.exceptions.Exit(1)


async def _noticed(app: App) -> list[Attention]:
    """What needs attention. If the store answers no longer, a message says so, because the workers alone decide."""
    from tenure.errors import StoreError

    try:
        return await app.aattention()
    except StoreError as error:
        print_message(f"what needs attention could not be read: {error}")
        return []


def _show(noticed: Sequence[Attention]) -> None:
    from tenure.core.escape import escaped

    for each in noticed:
        click.echo(f"{each.level}: {escaped(each.sentence)}")
        click.echo(f"  {escaped(each.advice)}")


def _troubles(found: list[WorkerInfo], queues: tuple[str, ...]) -> list[str]:
    from tenure.core.patterns import serves

    there = [worker for worker in found if not worker.missing]
    troubles = [f"worker {worker.id}: {worker.trouble}" for worker in there if worker.trouble]
    if not there:
        troubles.append("there is no worker")
    served = [worker.queues for worker in there if not worker.trouble]
    troubles += [
        f"no worker serves queue {queue}" for queue in queues if not any(serves(each, queue) for each in served)
    ]
    return troubles
