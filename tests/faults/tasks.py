"""The tasks of these tests, and an app for them whose stores keep a history.

Worker processes are told by the environment where the store is (`FAULTS_URL`), where the history goes (`FAULTS_FOLDER`),
at which instant they are to die (`FAULTS_DIE`), by how many seconds their clock is wrong (`FAULTS_SKEW`), and for how many they lease (`FAULTS_LEASE`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

from tenure import App, Backoff, Context, Retention
from tenure.stores import open_store
from tenure.stores.base import Store
from tenure.stores.values import Leased, LeaseRequest, Settlement, Verdict

from .bad_ends import register
from .recording import RecordedStore, Recorder

__all__ = ["DyingStore", "make_app"]


class DyingStore(RecordedStore):
    """Kills its process at a given instant in the life of a job: when it is `leased`, before it is settled, or after."""

    instant = os.environ.get("FAULTS_DIE")

    async def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        if settlements:
            self._die_at("settling")
        verdicts, leased = await super().settle_and_lease(settlements, request)
        if settlements:
            self._die_at("settled")
        if leased.leases:
            self._die_at("leased")
        return verdicts, leased

    def _die_at(self, instant: str) -> None:
        if self.instant == instant:
            os.kill(os.getpid(), signal.SIGKILL)


def make_app(url: str, folder: str | os.PathLike[str]) -> App:
    """An app with short leases and quick retries; every process makes its own."""
    recorder = Recorder(folder)
    effects = Path(folder) / "effects"

    def open_dying() -> Store:
        return cast("Store", DyingStore(open_store(url), recorder))

    lease = float(os.environ.get("FAULTS_LEASE", 1))
    # For longer than clocks that are wrong by an hour are apart: on SQLite they say how old a finished job is.
    keep = Retention(succeeded=86400, count=1_000_000)
    app = App(open_dying, lease=lease, retry=Backoff(initial=0.01, jitter=0), max_attempts=3, keep=keep)

    @app.middleware
    async def record(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
        recorder.start(ctx)
        return await call_next()

    @app.task
    async def quick(number: int = 0) -> int:
        return number

    @app.task
    async def nap(seconds: float) -> str:
        """Waits, as most jobs do."""
        await asyncio.sleep(seconds)
        return str(os.getpid())

    @app.task
    async def hold(ctx: Context) -> None:
        """Waits until it is told to stop, and notes why and when."""
        try:
            await asyncio.sleep(3600)
        finally:
            with effects.open("a") as file:
                file.write(f"{ctx.signal.reason} {time.monotonic()}\n")

    @app.task
    def sleep(seconds: float) -> str:
        """Waits in a thread, and hears nothing."""
        time.sleep(seconds)
        return str(os.getpid())

    @app.task
    async def block(seconds: float) -> str:
        """Keeps the event loop from moving."""
        time.sleep(seconds)
        return str(os.getpid())

    @app.task
    async def compute(seconds: float) -> str:
        """Keeps the interpreter busy."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pass
        return str(os.getpid())

    @app.task
    async def once(ctx: Context, name: str, dies: bool = False) -> None:
        """Has an effect; the first time, its worker may be killed right after."""
        with effects.open("a") as file:
            file.write(f"{name}\n")
        if dies and ctx.job.losses == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    @app.task(retry=None)
    async def fail(why: str, secret: str) -> None:
        raise ValueError(why)

    @app.task
    async def poison() -> None:
        """Takes its worker along, every time."""
        os._exit(13)

    @app.task(max_losses=1)
    async def fragile() -> None:
        """The same, and must not be tried again."""
        os._exit(13)

    register(app)

    @app.task
    async def fork() -> int:
        """Leaves a child behind that ends at once; how that ended."""
        return _fork()

    @app.task
    def fork_in_thread() -> int:
        return _fork()

    return app


def _fork() -> int:
    child = os.fork()
    if not child:
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
