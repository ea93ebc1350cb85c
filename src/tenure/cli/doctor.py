"""How the store is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.stores.values import Fact

__all__ = ["doctor"]

STYLES = {"ok": "green", "warn": "yellow", "bad": "bold red"}


@click.command()
@click.option("--mend", is_flag=True, help="Mend jobs that an operation has left half done, while programs go on.")
@json_option
@with_app(empty=True)
async def doctor(app: App, as_json: bool, mend: bool) -> None:
    """Examine the store: what is behind it, what a crash may cost, what to do about it.

    On Redis it also goes over all jobs, a thousand at a time, for those that no line knows. A store that is not there yet is made. The
    exit code is 1 if something is bad.
    """
    import msgspec

    from tenure.cli.display import show, table, text
    from tenure.stores.values import Health

    store = app.internals.session.store
    facts = await store.examine()
    half_done = await store.mend(dry_run=not mend)
    if half_done is not None:
        facts.append(_records(half_done, mended=mend))
    if as_json:
        emit({"facts": msgspec.to_builtins(facts)})
    else:
        listing = table("fact", "", ("value", "gives"))
        for fact in facts:
            listing.add_row(text(fact.name), text(fact.health, STYLES[fact.health]), text(fact.value))
            if fact.advice:
                listing.add_row("", "", text(fact.advice, "bold"))
        show(listing)
    if any(fact.health is Health.BAD for fact in facts):
        raise click.exceptions.Exit(1)


def _records(half_done: int, *, mended: bool) -> Fact:
    """The fact about jobs that an operation has left half done."""
    from tenure.stores.values import Fact, Health

    if not half_done:
        return Fact("records", "every job stands where its record says")
    if mended:
        return Fact("records", f"{half_done:,} jobs and entries of indexes were half done, and are mended")
    return Fact(
        "records",
        f"{half_done:,} jobs and entries of indexes are half done: the server refused a script a command in its middle",
        Health.BAD,
        "Run tenure doctor --mend.",
    )
