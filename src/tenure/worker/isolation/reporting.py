"""What a job in a child process is given, and of which its worker is told: progress, and how far a transaction is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tenure.stores.base import Store
from tenure.sync import private_loop, run
from tenure.tasks.completion.completion import Completion, Stage, Transactions
from tenure.tasks.context import Context
from tenure.tasks.task import Task
from tenure.worker.isolation.frames import StageChanged
from tenure.worker.isolation.link import WorkerLink

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["ReportingContext", "ReportingTransactions"]


class ReportingContext(Context):
    """A context whose progress is told to the worker."""

    link: WorkerLink

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        super().progress(done, total, note)
        if self._said is not None:
            self.link.report_progress(self._said)


class ReportingTransactions(Transactions):
    """Transactions in a child's own connection to the store, which the first of them opens."""

    def __init__(self, app: App, timeout: float, link: WorkerLink) -> None:
        self._app = app
        self._timeout = timeout
        self._link = link
        self._found: Store | None = None
        self._own_loop: asyncio.AbstractEventLoop | None = None

    def on_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """The job is a coroutine on this loop; else it is a function, and they are on the loop of blocking code."""
        self._own_loop = loop

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._own_loop or private_loop()

    @property
    def store(self) -> Store:
        if self._found is None:
            self._found = (
                self._app.internals.session.store if self._own_loop is not None else run(self._session_store())
            )
        return self._found

    async def _session_store(self) -> Store:
        return self._app.internals.session.store

    def completion(self, ctx: Context, task: Task[..., Any]) -> Completion:
        return ReportingCompletion(ctx, task, self, self._link)

    async def make_room(self) -> None:
        """The worker has done so when the block was announced."""


class ReportingCompletion(Completion):
    """A completion of which the worker knows how far it is."""

    def __init__(self, ctx: Context, task: Task[..., Any], transactions: Transactions, link: WorkerLink) -> None:
        self._link = link
        self._stage = Stage.RUNNING
        super().__init__(ctx, task, transactions)

    @property
    def stage(self) -> Stage:
        return self._stage

    @stage.setter
    def stage(self, stage: Stage) -> None:
        if stage is self._stage:
            return
        self._stage = stage
        self._link.send(StageChanged(stage.name, self.step if stage is Stage.FINAL else None))

    async def open(self) -> None:
        await super().open()
        try:
            await self._link.open()
            await self.transactions.store.open()
            self.check()  # waiting may have told that the lease is lost
        except BaseException:
            self.stage = Stage.RUNNING
            raise
