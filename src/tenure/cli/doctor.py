"""The command doctor: examines the store and mends jobs that an operation left half done."""

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
@click.option("--mend", is_flag=True, help="Repair jobs that an operation left half done; programs may keep running.")
@json_option
@with_app(empty=True)
async def doctor(app: App, as_json: bool, mend: bool) -> None:
    """Examine the store: its server, what a crash may cost, and what to improve.

    On Redis it also checks all jobs, a thousand at a time, for those that no queue or index refers to. A store that does not
    exist yet is created. The exit code is 1 if something is bad.
    """
    import msgspec

    from tenure.cli.display import show, table, text
    from tenure.jobs.schedules import schedule_facts
    from tenure.stores.values import Health

    store = app.internals.session.store
    facts = await store.examine()
    half_done = await store.mend(dry_run=not mend)
    if half_done is not None:
        facts.append(_records(half_done, mended=mend))
    facts += await schedule_facts(app, store)
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
    """The fact about jobs that an operation left half done."""
    from tenure.stores.values import Fact, Health

    if not half_done:
        return Fact("records", "every job is where its record says")
    if mended:
        return Fact("records", f"{half_done:,} jobs and index entries were half done, and are repaired")
    return Fact(
        "records",
        f"{half_done:,} jobs and index entries are half done, because the server refused a command in the middle of a script",
        Health.BAD,
        "Run tenure doctor --mend.",
    )
