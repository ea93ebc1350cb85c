"""The command stats: shows totals since the store was created."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["stats"]


@click.command()
@json_option
@with_app()
async def stats(app: App, as_json: bool) -> None:
    """Show totals since the store was created: by queue, of all queues, and by each worker that is registered now."""
    import msgspec

    from tenure.cli.display import number, show, table, text
    from tenure.cli.queues import explain_counts
    from tenure.jobs.bulk import Stats
    from tenure.stores.values import Totals

    queues = await app.aqueues()
    found = Stats.of(queues, await app.aworkers())
    if as_json:
        return emit(msgspec.to_builtins(found))
    explain_counts(queues)
    counts = Totals.__struct_fields__
    for title, rows in (("queue", {**found.queues, "": found.totals}), ("worker", found.workers)):
        listing = table(title, *((count, "right") for count in counts))
        for name, totals in rows.items():
            listing.add_row(text(name or "all"), *(number(getattr(totals, count)) for count in counts))
        if rows:
            show(listing)
        if title == "queue" and found.workers:
            click.echo()
    return None
