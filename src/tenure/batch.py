"""Enqueueing together: what a block of code enqueues is stored in one step, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tenure.pending import Pending
from tenure.sending import asend, send
from tenure.sync import refuse_on_loop

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Batch", "asubmit", "submit"]


class Batch:
    """`with app.batch():` or `async with app.batch():`, every enqueue of the app in the block goes in one atomic call at its end.

    Nothing is stored if the block raises. Enqueueing waits for nothing in the block, so the handles know nothing until
    it has ended. A batch inside a batch goes with the outer one.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._pending: list[Pending] = []
        self.outer: Batch | None = None
        self._token: Token[Batch | None] | None = None

    def takes(self, app: App) -> bool:
        """Whether jobs of this app go into this batch: it is the app's own, and still open."""
        return self._app is app and self._token is not None

    def add(self, pending: Sequence[Pending]) -> None:
        self._pending += pending

    def __enter__(self) -> Self:
        refuse_on_loop("with app.batch", "use async with")
        return self._open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._close() and kind is None:
            submit(self._app, self._pending)

    async def __aenter__(self) -> Self:
        return self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._close() and kind is None:
            await asubmit(self._app, self._pending)

    def _open(self) -> Self:
        self.outer = _current.get()
        self._token = _current.set(self)
        return self

    def _close(self) -> bool:
        """End the block; whether anything was enqueued in it."""
        assert self._token is not None
        _current.reset(self._token)
        self._token = None
        return bool(self._pending)


_current: ContextVar[Batch | None] = ContextVar("tenure_batch", default=None)


def submit(app: App, pending: Sequence[Pending]) -> None:
    """Store these jobs together, now or with the batch that is open here, and let their handles know."""
    if (batch := _open_batch(app)) is not None:
        batch.add(pending)
    elif pending:
        send(app, pending)


async def asubmit(app: App, pending: Sequence[Pending]) -> None:
    """The async twin of `submit`."""
    if (batch := _open_batch(app)) is not None:
        batch.add(pending)
    elif pending:
        await asend(app, pending)


def _open_batch(app: App) -> Batch | None:
    """The innermost batch of this app that is open here.

    A task or thread that was started in a block may still see a batch that has ended: it passes it over.
    """
    batch = _current.get()
    while batch is not None and not batch.takes(app):
        batch = batch.outer
    return batch
