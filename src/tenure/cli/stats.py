"""What has happened since the store was made."""

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
    """Show what has happened: by queue, in all, and by each worker that is registered now."""
    import msgspec

    from tenure.cli.display import console, number, table, text
    from tenure.stores.values import Totals

    found = await app.astats()
    if as_json:
        return emit(msgspec.to_builtins(found))
    counts = Totals.__struct_fields__
    out = console()
    for title, rows in (("queue", {**found.queues, "": found.totals}), ("worker", found.workers)):
        listing = table(title, *((count, "right") for count in counts))
        for name, totals in rows.items():
            listing.add_row(text(name or "all"), *(number(getattr(totals, count)) for count in counts))
        if rows:
            out.print(listing)
        if title == "queue" and found.workers:
            out.print()
    return None
