"""How the store is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["doctor"]

STYLES = {"ok": "green", "warn": "yellow", "bad": "bold red"}


@click.command()
@json_option
@with_app(empty=True)
async def doctor(app: App, as_json: bool) -> None:
    """Examine the store: what is behind it, what a crash may cost, what to do about it.

    A store that is not there yet is made. The exit code is 1 if something is bad.
    """
    import msgspec

    from tenure.cli.display import console, table, text
    from tenure.stores.values import Health

    facts = await app.session.store.facts()
    if as_json:
        emit({"facts": msgspec.to_builtins(facts)})
    else:
        listing = table("fact", "", ("value", "gives"))
        for fact in facts:
            listing.add_row(text(fact.name), text(fact.health, STYLES[fact.health]), text(fact.value))
            if fact.advice:
                listing.add_row("", "", text(fact.advice, "bold"))
        console().print(listing)
    if any(fact.health is Health.BAD for fact in facts):
        raise click.exceptions.Exit(1)
