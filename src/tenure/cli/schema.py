"""The layout of a store, and bringing it up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["schema"]


@click.command()
@click.argument("action", type=click.Choice(["show", "apply"]), default="show")
@json_option
@with_app(empty=True)
async def schema(app: App, action: str, as_json: bool) -> None:
    """Show the layout of the store, or bring it up to date.

    Whatever uses a store brings it up to date; `apply` is for choosing the moment.
    """
    store = app.session.store
    if action == "apply":
        await store.open()
    layout = await store.layout()
    if as_json:
        return emit({"found": layout.found, "known": layout.known})
    found = "empty" if layout.found is None else f"layout {layout.found}"
    return click.echo(f"the store: {found}, this Tenure: layout {layout.known}")
