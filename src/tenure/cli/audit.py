"""The command audit lists what operators have done; `note` records what a command does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.messages import print_message
from tenure.documents import audit_document

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["act_and_note", "audit", "note", "operator_name"]


@click.command()
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="The most actions to list.")
@click.option("--cursor", help="Continue where an earlier listing ended.")
@json_option
@with_app()
async def audit(app: App, limit: int, cursor: str | None, as_json: bool) -> None:
    """List what operators have done with commands, tenure top and the dashboard, the latest first.

    An action on all jobs that match a filter is listed twice: when it began, without a count, and when it ended. The store
    keeps the latest 10,000 actions, for 90 days.
    """
    from tenure.cli import display

    page = await app.aactions(limit=limit, cursor=cursor)
    if as_json:
        return emit(audit_document(page))
    if page.actions:
        listing = display.table(("when", "right"), "who", "with", "what", ("target", "gives"), ("count", "right"))
        for each in page.actions:
            listing.add_row(
                display.text(display.distance(each.at)),
                display.text(each.who),
                display.text(each.by),
                display.text(each.what),
                display.text(each.target),
                display.text("begun" if each.count is None else f"{each.count:,}", "dim" if each.count is None else ""),
            )
        display.show(listing)
    else:
        print_message("no operator has changed anything yet" if cursor is None else "there are no more actions")
    if page.cursor is not None:
        print_message(f"there are more: --cursor {page.cursor}")
    return None


async def note(app: App, what: str, target: str | Sequence[str], count: int | None = None, *, by: str = "cli") -> None:
    """Enter in the audit what the user of this process does; without a count, because it only begins."""
    from tenure.jobs import audit

    await audit.note(app.internals.session.store, who=operator_name(), by=by, what=what, target=target, count=count)


async def act_and_note(app: App, what: str, target: str, act: Callable[[], Awaitable[int]], *, by: str = "cli") -> int:
    """Do something that may take long, such as to all jobs that match a filter: noted when it begins, and with its count when it ends."""
    await note(app, what, target, by=by)
    count = await act()
    await note(app, what, target, count, by=by)
    return count


def operator_name() -> str:
    """The user of this process and its host, such as `ann@db1`; the number of the user if it has no name."""
    import getpass
    import os
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container may run as a user that it does not know
        user = str(os.getuid()) if hasattr(os, "getuid") else "unknown"
    return f"{user}@{socket.gethostname()}"
