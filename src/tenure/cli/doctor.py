"""The command doctor: examines the store and mends jobs that an operation left half done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.stores.values import Fact

__all__ = ["doctor"]

NAMED = 10
"""The most schedules that a fact names."""

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
    from tenure.stores.values import Health

    store = app.internals.session.store
    facts = await store.examine()
    half_done = await store.mend(dry_run=not mend)
    if half_done is not None:
        facts.append(_records(half_done, mended=mend))
    facts += await _schedules(app)
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


async def _schedules(app: App) -> list[Fact]:
    """The facts about schedules: how many there are, which no worker declares any more, and which cannot be read here."""
    from tenure.core.firing import LAPSED_AFTER
    from tenure.jobs.schedules import Schedule, all_schedules
    from tenure.stores.values import Fact, Health

    count, undeclared, unreadable = 0, [], []
    async for page in all_schedules(app.internals.session.store):
        for found in (Schedule(app, record) for record in page.schedules):
            count += 1
            if found.unreadable is not None:
                unreadable.append(found.name)
            elif found.declared and found.state != "done":
                unseen = page.now - found.confirmed_at.timestamp()
                if found.state == "lapsed" or unseen > LAPSED_AFTER:
                    undeclared.append(found.name)
    facts = []
    if undeclared:
        facts.append(
            Fact(
                "schedules",
                f"no worker has confirmed for an hour that its code declares {_named(undeclared)}, so nothing fires them",
                Health.WARN,
                "Start a worker whose code declares them, or remove each with tenure schedule delete NAME.",
            )
        )
    if unreadable:
        facts.append(
            Fact(
                "schedules",
                f"this Tenure cannot read {_named(unreadable)}: a newer one may have written them",
                Health.WARN,
                "Update this program, or remove each with tenure schedule delete NAME.",
            )
        )
    return facts or ([Fact("schedules", f"{count:,}")] if count else [])


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
