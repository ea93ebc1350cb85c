"""`print_frame` and `print_documents`: what `tenure top` prints once, and for programs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tenure.cli.document import attention_document, job_document, worker_document
from tenure.cli.top import PIPE_WIDTH
from tenure.cli.top.drawing import draw
from tenure.cli.top.state import Ui
from tenure.jobs.snapshot import Snapshot, figures_of, summary_of
from tenure.jobs.snapshot_reader import Looking, SnapshotReader

if TYPE_CHECKING:
    from rich.console import Console

    from tenure.app import App
    from tenure.core.job import JobRecord

__all__ = ["document_of", "print_documents", "print_frame"]

EVERY = 1.0
"""Seconds between two documents."""

JOB_FIELDS = ("id", "task", "queue", "attempt", "started_at", "ended_at", "worker", "progress", "error")
"""Fields of running and failed jobs in a document."""


async def print_frame(app: App, out: Console, *, read_only: bool) -> None:
    """Print one frame, as long as it takes."""
    reader = SnapshotReader(app.internals.session.store, app.url)
    reader.look(Looking(frozenset({"running", "failed"})))
    width = out.width if out.is_terminal else shutil.get_terminal_size((PIPE_WIDTH, 0)).columns
    frame = draw(await reader.read_all(), width, None, Ui(read_only=read_only))
    if out.is_terminal:
        out.print(frame, end="")
    else:
        click.echo(frame.plain)


async def print_documents(app: App, *, once: bool) -> None:
    """Print a document every second until Ctrl-C; or one."""
    reader = SnapshotReader(app.internals.session.store, app.url)
    reader.look(Looking(frozenset({"running", "failed"})))
    _print(await reader.read_all())
    if once:
        return
    here = asyncio.current_task()
    assert here is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, here.cancel)
    reading = asyncio.create_task(reader.run(lambda _: None))
    with contextlib.suppress(asyncio.CancelledError):
        while not reading.done():
            await asyncio.sleep(EVERY)
            _print(reader.snapshot)
    if reading.done():
        reading.result()  # raises
    reading.cancel()


def _print(snapshot: Snapshot) -> None:
    click.echo(json.dumps(document_of(snapshot)).replace("\x7f", "\\u007f"))


def document_of(snapshot: Snapshot) -> dict[str, Any]:
    """What is shown, for programs."""
    summary = summary_of(snapshot)
    return {
        "at": datetime.fromtimestamp(snapshot.at, UTC).isoformat(timespec="milliseconds"),
        "store": snapshot.store,
        "layout": snapshot.layout,
        "problem": snapshot.problem or None,
        "summary": {
            "rate": round(summary.rate, 3),
            "failed_share": summary.failed_share,
            "wait_p95": summary.wait,
            "oldest": summary.oldest,
            "busy": summary.busy,
            "slots": summary.slots,
            "workers": summary.workers,
            "missing": summary.missing,
            "finished": [round(each, 3) for each in summary.finished],
        },
        "attention": [attention_document(each) for each in snapshot.attention or ()],
        "queues": [
            {
                **{name: getattr(each.queue, name) for name in each.queue.__struct_fields__ if name != "totals"},
                "totals": msgspec.to_builtins(each.queue.totals),
                "rate": round(each.rate, 3),
                "failed_last_hour": each.failed,
                "wait_p95": each.wait,
            }
            for each in figures_of(snapshot)
        ],
        "workers": [worker_document(worker) for worker in snapshot.workers],
        "running": [_job(job) for job in snapshot.running or ()],
        "failed": [_job(job) for job in snapshot.failed or ()],
    }


def _job(job: JobRecord) -> dict[str, Any]:
    whole = job_document(job)
    short = {name: whole[name] for name in JOB_FIELDS}
    if job.error is not None:
        short["error"] = {"type": job.error.type, "message": job.error.message}
    return short
