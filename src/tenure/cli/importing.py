"""The command import: moves what waits in another system into the store of an app, and accounts for every entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tenure.bridges.importing import KINDS
from tenure.cli.audit import note
from tenure.cli.document import emit, json_option
from tenure.cli.messages import CommandError, print_message
from tenure.cli.progress import progress

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.bridges.importing.engine import Import
    from tenure.bridges.importing.origin import Origin
    from tenure.bridges.importing.values import Account

__all__ = ["import_"]

EVERY = 10_000
"""Entries after which the progress is printed, where there is no terminal."""


def _renamed(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:  # noqa: ARG001
    """Parse each THERE=HERE, such as celery=default."""
    from tenure.core.checks import name

    found: dict[str, str] = {}
    for each in given:
        there, equals, here = each.rpartition("=")
        if not equals or not there:
            raise CommandError(f"--to needs a queue there and one here, such as celery=default, got {each!r:.80}")
        found[there] = name("queue", here)
    return found


@click.command("import")
@click.argument("kind", type=click.Choice([*KINDS]), metavar="KIND")
@click.option("--from", "url", required=True, metavar="URL", help="Where the other system is, such as redis://localhost:6379/0.")  # fmt: skip
@click.option("--app", "target", envvar="TENURE_APP", show_envvar=True, required=True, metavar="TARGET", help="The app that has the tasks and the store: module:app or file.py:app.")  # fmt: skip
@click.option("-q", "--queues", default="*", show_default=True, help="The queues of the other system to import from, such as 'mail,report-*,!slow'.")  # fmt: skip
@click.option("--to", multiple=True, metavar="THERE=HERE", callback=_renamed, help="Give a queue another name here; may be given several times.")  # fmt: skip
@click.option("--prefix", help="The prefix of its keys, such as the namespace of Resque. Default: as it is by default there.")  # fmt: skip
@click.option("--scheduled/--no-scheduled", default=True, show_default=True, help="Whether to import what is scheduled for later.")  # fmt: skip
@click.option("--failed", type=click.Choice(["leave", "retry"]), default="leave", show_default=True, help="What to do with failures: leave them there, or make new jobs of them.")  # fmt: skip
@click.option("--while-running", is_flag=True, help="Import even if workers of the other system seem to be alive.")
@click.option("--dry-run", is_flag=True, help="Only show what would be moved and what would be left; change nothing.")
@json_option
def import_(kind: str, url: str, target: str, prefix: str | None, queues: str, **options: Any) -> None:
    """Move what waits in another system into the store of an app. KIND is resque, celery, rq,
    arq, huey or dramatiq.

    Entries keep their order, and those scheduled for later their time. A function, class or actor of the other system becomes the
    task that has its name as name or alias. What no task can get stays there, in its old order, and is listed with the reason. If
    the import is interrupted, run the same command again: it continues, and no entry is lost or doubled.

    The exit code is 0 if nothing is left, 1 if something is left or the numbers do not add up, and 2 if it could not be done.
    """
    import asyncio

    from tenure.bridges.importing import origin_of
    from tenure.cli.target import load_app

    patterns = tuple(each.strip() for each in queues.split(",") if each.strip())
    if not patterns:
        raise CommandError("--queues needs at least one queue, such as 'mail,report-*'")
    app = load_app(target)
    if not app.tasks:
        raise CommandError(f"{target} has no tasks: name the app whose tasks are to run the jobs")
    try:
        asyncio.run(_imported(app, origin_of(kind, url, prefix, patterns), patterns, **options))
    except KeyboardInterrupt:
        raise CommandError("interrupted: nothing is lost, run the same command again to continue") from None


async def _imported(
    app: App,
    origin: Origin,
    queues: Sequence[str],
    *,
    to: Mapping[str, str],
    scheduled: bool,
    failed: str,
    while_running: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    from tenure.bridges.importing.engine import Import

    importing = Import(app, origin, queues=queues, to=to, scheduled=scheduled, failed=failed == "retry")
    try:
        if not dry_run and not while_running:
            await importing.check_workers()
        with progress(await importing.total(), "looked at" if dry_run else "moved", "entries", EVERY) as advance:
            account = await (importing.look(advance) if dry_run else _moved(app, origin, importing, advance))
        if not account.found:
            _say_what_to_check(origin, await importing.other_queues())
    finally:
        await origin.close()
        await app.aclose()
    _show(account, origin, dry_run=dry_run, as_json=as_json)
    if account.left or account.difference is not None:
        raise click.exceptions.Exit(1)


def _say_what_to_check(origin: Origin, others: Sequence[str]) -> None:
    """Nothing was found: name the option that may be wrong."""
    if others:
        more = ", …" if len(others) > 5 else ""
        print_message(
            f"nothing in the queues asked for; others have entries: {', '.join(others[:5])}{more} (see --queues)"
        )
    else:
        print_message(f"nothing at {origin.shown}: if there should be, check its database and --prefix")


async def _moved(app: App, origin: Origin, importing: Import, advance: Callable[[int], None]) -> Account:
    from tenure.errors import StoreError

    target = f"{origin.kind} at {origin.shown}"
    await note(app, "import", target)
    try:
        account = await importing.move(advance)
    except StoreError as error:
        raise CommandError(f"{error}: the import is not finished, run the same command again to continue") from error
    await note(app, "import", target, account.moved)
    return account


def _show(account: Account, origin: Origin, *, dry_run: bool, as_json: bool) -> None:
    """Print the account: what there was by queue and name, what stays and why, and the sums."""
    from tenure.cli import display

    if as_json:
        return emit({"kind": origin.kind, "from": origin.shown, "dry_run": dry_run, **account.document()})
    document = account.document()
    if document["queues"]:
        parts = ("waiting", "scheduled", "running", "failed")
        listing = display.table("queue", ("name", "gives"), *((part, "right") for part in parts))
        for each in document["queues"]:
            names = (display.text(each["queue"] or "-"), display.text(each["name"] or "-"))
            listing.add_row(*names, *(display.number(each[part]) for part in parts))
        display.show(listing)
    for each in document["reasons"]:
        where = f"{each['name'] or 'entry'}{' in ' + each['queue'] if each['queue'] else ''}"
        print_message(f"{'would stay' if dry_run else 'stays'}: {each['count']:,} × {where}: {each['reason']}")
    if account.difference is not None:
        print_message(account.difference)
    would = "would be " if dry_run else ""
    return click.echo(
        f"{account.found:,} found: {account.moved:,} {would}moved, {account.left:,} {would}left in {origin.kind}"
    )
