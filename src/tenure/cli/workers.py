"""The commands workers and retire: list the registered workers, and retire dead ones."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option, worker_document
from tenure.cli.messages import CommandError, print_message

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.stores.values import WorkerInfo

__all__ = ["retire", "workers"]


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
        if trouble := _trouble(worker):
            out.print(text(f"  {trouble}", "bold red"))
        if worker.jobs:
            out.print(remark(f"  at {' '.join(worker.jobs)}"))
    return None


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
        raise CommandError(f"there is no worker {', '.join(unknown)}: tenure workers lists them")


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
