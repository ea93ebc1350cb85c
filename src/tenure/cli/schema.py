"""The command schema: shows the layout of a store, or migrates it."""

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
@click.option("--sql", is_flag=True, help="Print the SQL that `apply` would run, and change nothing (PostgreSQL only).")
@json_option
@with_app(empty=True)
async def schema(app: App, action: str, sql: bool, as_json: bool) -> None:
    """Show the layout of the store, or migrate it to the layout of this Tenure.

    Every program that opens a store migrates it, unless its URL forbids that (auto_schema=false, PostgreSQL only). Use
    `apply` to choose the moment and the database role.
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
