"""The layout of a store, and bringing it up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.messages import CommandError

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.stores.base import Store

__all__ = ["schema"]


@click.command()
@click.argument("action", type=click.Choice(["show", "apply"]), default="show")
@click.option("--sql", is_flag=True, help="Print what `apply` would run, and change nothing (PostgreSQL).")
@json_option
@with_app(empty=True)
async def schema(app: App, action: str, sql: bool, as_json: bool) -> None:
    """Show the layout of the store, or bring it up to date.

    Whatever uses a store brings it up to date, unless its URL forbids it (auto_schema=false, PostgreSQL); `apply` is for choosing
    the moment and the role.
    """
    store = app.internals.session.store
    if sql:
        return await _print(store)
    if action == "apply":
        await store.migrate()
    layout = await store.layout()
    if as_json:
        return emit({"found": layout.found, "known": layout.known})
    found = "empty" if layout.found is None else f"layout {layout.found}"
    return click.echo(f"the store: {found}, this Tenure: layout {layout.known}")


async def _print(store: Store) -> None:
    statements = await store.migration()
    if statements is None:
        raise CommandError("this store has no SQL to print: leave out --sql")
    click.echo(statements or "-- Nothing to do: the layout is up to date.")
