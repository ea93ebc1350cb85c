"""`Screen`: runs `tenure top` on a terminal: reads, draws, and does what keys ask for."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tenure.cli.top.acting import act
from tenure.cli.top.drawing import PANES_FROM, draw
from tenure.cli.top.state import Explain, Quit, Request, Ui, press
from tenure.cli.top.terminal import Terminal
from tenure.core.job import State
from tenure.jobs.snapshot_reader import Looking, SnapshotReader

if TYPE_CHECKING:
    from rich.console import Console

    from tenure.app import App

__all__ = ["Screen", "looking_at"]

REDRAW = 1.0
"""Seconds after which the screen is drawn again, though nothing has changed: ages and the clock go on."""


class Screen:
    """One session on a terminal."""

    def __init__(self, app: App, console: Console, *, read_only: bool) -> None:
        self._app = app
        self._reader = SnapshotReader(app.internals.session.store, app.url)
        self._ui = Ui(read_only=read_only)
        self._snapshot = self._reader.snapshot
        self._changed = asyncio.Event()
        self._ended: int | None = None
        self._reading: asyncio.Task[None] | None = None
        self._acting: asyncio.Task[None] | None = None
        self._terminal = Terminal(console, self._press, self._end, self._changed.set)

    async def run(self) -> int:
        """Show the store until the operator leaves. Returns the signal that ended it; 0: a key did."""
        try:
            with self._terminal.opened():
                self._read()
                while self._ended is None:
                    self._draw()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), REDRAW)
                    self._changed.clear()
                    if self._reading is not None and self._reading.done():
                        self._reading.result()  # raises: only an error of ours ends it
        finally:
            tasks = [task for task in (self._reading, self._acting) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self._ended

    def _draw(self) -> None:
        width, height = self._terminal.size
        if not self._ui.hold:
            self._reader.look(looking_at(self._ui, width))
            self._snapshot = self._reader.snapshot
        self._terminal.show(draw(self._snapshot, width, height, self._ui))

    def _read(self) -> None:
        # Only what comes with queues changes the screen at once: one frame a second is enough.
        immediate = {"queues", "jobs", ""}
        self._reading = asyncio.create_task(
            self._reader.run(lambda topic: self._changed.set() if topic in immediate else None)
        )

    def _end(self, signum: int) -> None:
        self._ended = signum
        self._changed.set()

    def _press(self, key: str) -> None:
        held = self._ui.hold
        self._ui, request = press(self._ui, key, self._snapshot)
        if self._ui.hold and not held and self._reading is not None:
            self._reading.cancel()
            self._reading = None
        elif held and not self._ui.hold:
            self._read()
        if isinstance(request, Quit):
            self._end(0)
        elif request is not None:
            self._begin(request)
        self._changed.set()

    def _begin(self, request: Request) -> None:
        if self._acting is not None and not self._acting.done():
            self._ui = replace(self._ui, message="the last request is not done yet")
            return
        if not isinstance(request, Explain):
            self._ui = replace(self._ui, message="…")
        self._acting = asyncio.create_task(self._act(request))

    async def _act(self, request: Request) -> None:
        before = self._ui
        after = await act(self._app, request, before)
        # Keys may have been pressed meanwhile: only what the request changes is taken over.
        self._ui = replace(
            self._ui,
            message=after.message,
            **({"view": "explain", "row": 0, "explanation": after.explanation} if after.view != before.view else {}),
        )
        self._reader.read_soon()
        self._changed.set()


def looking_at(ui: Ui, width: int) -> Looking:
    """The lists that are read for what is shown."""
    match ui.view:
        case "jobs" | "failed" if ui.queue is not None:
            return Looking(frozenset({"jobs"}), ui.queue, State.FAILED if ui.view == "failed" else State.WAITING)
        case "queues" if width >= PANES_FROM:
            return Looking(frozenset({"running", "failed"}))
    return Looking()
