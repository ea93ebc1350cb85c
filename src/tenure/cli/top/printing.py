"""`print_frame` and `print_documents`: what `tenure top` prints once, and for programs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
from typing import TYPE_CHECKING

import click

from tenure.cli.top import PIPE_WIDTH
from tenure.cli.top.drawing import draw
from tenure.cli.top.state import Ui
from tenure.documents import snapshot_document
from tenure.jobs.snapshot import Snapshot
from tenure.jobs.snapshot_reader import Looking, SnapshotReader

if TYPE_CHECKING:
    from rich.console import Console

    from tenure.app import App

__all__ = ["print_documents", "print_frame"]

EVERY = 1.0
"""Seconds between two documents."""


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
    click.echo(json.dumps(snapshot_document(snapshot)).replace("\x7f", "\\u007f"))
