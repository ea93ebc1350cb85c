"""The commands workers, order and retire: list workers, order them to pause or stop, and retire dead ones."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from tenure.cli.audit import note
from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.messages import CommandError, print_message
from tenure.documents import worker_document

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.stores.values import WorkerInfo

__all__ = ["order", "retire", "workers"]

ORDERS = {
    "quiet": "lease no more jobs",
    "go-on": "lease jobs again",
    "stop": "finish their jobs and stop",
}


@click.command()
@json_option
@with_app()
async def workers(app: App, as_json: bool) -> None:
    """List the workers, what they serve and what they run."""
    from tenure.cli.display import console, duration, number, remark, show, size, table, text

    found = await _current_workers(app)
    if as_json:
        return emit({"workers": [worker_document(worker) for worker in found]})
    if not found:
        return print_message("no worker is registered")
    listing = table(
        "worker", ("queues", "gives"), ("busy", "right"), ("memory", "right"), ("up", "right"), ("heard", "right"),
        ("done", "right"), ("failed", "right"),
    )  # fmt: skip
    out = console()
    for worker in found:
        listing.add_row(
            text(worker.id),
            text(",".join(worker.queues)),
            text(f"{worker.held}/{worker.concurrency}"),
            text(size(worker.memory) if worker.memory else ""),
            text(duration(max(time.time() - worker.started_at, 0.0))),
            text(duration(worker.silent_for)),
            number(worker.totals.processed),
            number(worker.totals.failed, "bold red"),
        )
    show(listing)
    for worker in found:
        out.print()
        release = f", release {worker.release}" if worker.release else ""
        lanes = ", ".join(worker.lanes) or "none"
        out.print(text(f"{worker.id} on {worker.host}, pid {worker.pid}, lanes: {lanes}{release}"))
        if worker.order != "go_on":
            out.print(text(f"  order: {worker.order}", "yellow"))
        if trouble := _trouble(worker):
            out.print(text(f"  {trouble}", "bold red"))
        if worker.jobs:
            out.print(remark(f"  at {' '.join(worker.jobs)}"))
    return None


@click.command()
@click.argument("given", metavar="quiet|go-on|stop", type=click.Choice([*ORDERS]))
@click.argument("worker_ids", metavar="WORKER...", nargs=-1, required=True)
@json_option
@with_app()
async def order(app: App, given: str, worker_ids: tuple[str, ...], as_json: bool) -> None:
    """Tell workers to lease no more jobs (quiet), to lease jobs again (go-on), or to finish their jobs and stop (stop).

    A worker obeys with its next heartbeat, within two seconds by default. An order stands until the next one, or until the
    worker registers again. A supervisor replaces a process that has stopped.
    """
    from tenure.stores.values import Order

    known = [each for each in worker_ids if await app.aorder(each, Order(given.replace("-", "_")))]
    if known:
        await note(app, f"order {given}", known, len(known))
    if as_json:
        emit({"order": Order(given.replace("-", "_")).value, "workers": known})
    elif known:
        click.echo(f"{len(known):,} {'worker is' if len(known) == 1 else 'workers are'} to {ORDERS[given]}")
    if unknown := [each for each in worker_ids if each not in known]:
        raise _no_such(unknown)


@click.command()
@click.argument("worker_ids", metavar="WORKER...", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="The reason, which goes into the error of each job.")
@json_option
@with_app()
async def retire(app: App, worker_ids: tuple[str, ...], reason: str | None, as_json: bool) -> None:
    """Give the jobs of dead workers to others at once.

    Their leases need not expire first. A worker that is alive after all stops its attempts and continues under another name.
    """
    import msgspec

    registered = {worker.id for worker in await app.aworkers()}
    taken = {worker_id: await app.aretire(worker_id, reason) for worker_id in worker_ids}
    unknown = [worker_id for worker_id, jobs in taken.items() if worker_id not in registered and not jobs]
    if retired := [worker_id for worker_id in taken if worker_id not in unknown]:
        await note(app, "retire", retired, len(retired))
    if as_json:
        emit({"retired": [{"worker": each, "jobs": msgspec.to_builtins(jobs)} for each, jobs in taken.items()]})
    else:
        for worker_id, jobs in taken.items():
            if worker_id not in unknown:
                failed = sum(job.failed for job in jobs)
                print_message(
                    f"retired {worker_id}: {len(jobs) - failed:,} of its jobs went back to the front, {failed:,} failed as lost"
                )
    if unknown:
        raise _no_such(unknown)


def _no_such(unknown: list[str]) -> CommandError:
    return CommandError(f"there is no worker {', '.join(unknown)}: tenure workers lists them")


async def _current_workers(app: App) -> list[WorkerInfo]:
    """The registered workers. A missing worker is shown only with the jobs that it still holds; others may have the rest."""
    from msgspec.structs import replace

    from tenure.core.job import State
    from tenure.jobs.bulk import pages
    from tenure.stores.values import Search

    found = await app.aworkers()
    silent: dict[str, set[str]] = {worker.id: set() for worker in found if worker.missing and worker.held}
    if silent:
        async for jobs in pages(app.internals.session.store, Search(state=State.RUNNING)):
            for job in jobs:
                if job.worker in silent:
                    silent[job.worker].add(job.id)
    return [
        replace(worker, held=len(held), jobs=tuple(job for job in worker.jobs if job in held))
        if (held := silent.get(worker.id)) is not None
        else worker
        for worker in found
    ]


def _trouble(worker: WorkerInfo) -> str:
    """What is wrong with a worker, as a phrase; empty if nothing is."""
    if worker.missing:
        return f"missing: silent for {worker.silent_for:.0f} s"
    strays = f"{worker.strays} stray thread(s)" if worker.strays else ""
    return ", ".join(filter(None, [worker.trouble, strays]))
