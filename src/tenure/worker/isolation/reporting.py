"""Context and transactions of a job in a child process, which report progress and transaction stages to the worker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tenure.stores.base import Store
from tenure.sync import private_loop, run
from tenure.tasks.completion.completion import Completion, Transactions
from tenure.tasks.completion.stage import Stage, StageEvent
from tenure.tasks.context import Context
from tenure.tasks.task import Task
from tenure.worker.isolation.frames import StageChanged
from tenure.worker.isolation.link import WorkerLink

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["ReportingContext", "ReportingTransactions"]


class ReportingContext(Context):
    """A context that sends its progress to the worker."""

    link: WorkerLink

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        super().progress(done, total, note)
        if self._progress is not None:
            self.link.report_progress(self._progress)


class ReportingTransactions(Transactions):
    """Transactions on the child's own connection to the store, which the first of them opens."""

    def __init__(self, app: App, timeout: float, link: WorkerLink) -> None:
        self._app = app
        self._timeout = timeout
        self._link = link
        self._found: Store | None = None
        self._own_loop: asyncio.AbstractEventLoop | None = None

    def on_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use this loop, because the job is a coroutine on it. Functions use the private loop."""
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

    async def secure_leases(self) -> None:
        """Does nothing: the worker has made room when the block was announced."""


class ReportingCompletion(Completion):
    """A completion that reports its stage to the worker."""

    def __init__(self, ctx: Context, task: Task[..., Any], transactions: Transactions, link: WorkerLink) -> None:
        self._link = link
        super().__init__(ctx, task, transactions)

    def _enter(self, stage: Stage) -> None:
        if stage is self.stage:
            return
        super()._enter(stage)
        self._link.send(StageChanged(stage.name, self.transition if stage is Stage.FINAL else None))

    async def open(self) -> None:
        await super().open()
        try:
            await self._link.open()
            await self.transactions.store.open()
            self.check_signal()  # the lease may have been lost while it waited
        except BaseException:
            self.advance(StageEvent.ROLLED_BACK)
            raise
