"""Workers, as the registry knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option, worker_document
from tenure.cli.refusal import note

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.stores.base import WorkerInfo

__all__ = ["workers"]

MISSING_AFTER = 10.0
"""Seconds of silence after which a worker is shown as missing. Its jobs are judged by their leases, never by this."""


@click.command()
@json_option
@with_app()
async def workers(app: App, as_json: bool) -> None:
    """List the workers and what they serve."""
    from tenure.cli.display import console, distance, duration, number, table, text

    found = await app.aworkers()
    if as_json:
        return emit({"workers": [worker_document(worker, missing=_missing(worker)) for worker in found]})
    if not found:
        return note("no worker is registered")
    listing = table(
        "worker", ("pid", "right"), "queues", ("busy", "right"), ("started", "right"), ("heard", "right"),
        ("processed", "right"), ("failed", "right"), "",
    )  # fmt: skip
    for worker in found:
        listing.add_row(
            text(worker.id),
            text(worker.pid),
            text(",".join(worker.queues)),
            text(f"{worker.held}/{worker.concurrency}"),
            text(distance(worker.started_at)),
            text(f"{duration(worker.silent_for)} ago"),
            number(worker.totals.processed),
            number(worker.totals.failed, "bold red"),
            text("missing" if _missing(worker) else "", "bold red"),
        )
    return console().print(listing)


def _missing(worker: WorkerInfo) -> bool:
    return worker.silent_for > MISSING_AFTER
