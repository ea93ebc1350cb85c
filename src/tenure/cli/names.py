"""`QUEUE` and `TASK`: names as users type them, which a shell completes by asking the store."""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["QUEUE", "TASK"]

PATIENCE = 0.3
"""Seconds that the store has to answer while a user waits for a completion."""

RECENT = 86400.0
"""Seconds for which a task is remembered that no worker knows any more."""


class Name(click.ParamType[Any]):
    """A name of something in the store. Anything can be typed; only what exists is offered."""

    name = "text"

    def __init__(self, names: Callable[[App], Awaitable[set[str]]]) -> None:
        self._names = names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        import tenure.app  # noqa: F401  (before the store has its time to answer)

        found: set[str] = set()

        def ask() -> None:
            # A store that is away or was never used has no names, and an app that cannot be imported has no store.
            with contextlib.suppress(Exception, SystemExit):
                found.update(asyncio.run(self._ask(ctx.params.get("url"), ctx.params.get("target"))))

        asking = threading.Thread(target=ask, daemon=True)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            asking.start()
            asking.join(PATIENCE)
        return [CompletionItem(name) for name in sorted(found.copy()) if name.startswith(incomplete)]

    async def _ask(self, url: str | None, target: str | None) -> set[str]:
        from tenure.cli.connection import choose_app

        app = choose_app(url, target)
        try:
            used = (await app.internals.session.store.layout()).found is not None
            return await self._names(app) if used else set()
        finally:
            await app.aclose()


async def _queues(app: App) -> set[str]:
    return {queue.name for queue in await app.aqueues()}


async def _tasks(app: App) -> set[str]:
    """The tasks of this app and of all workers, and those of which jobs have ended in the last day."""
    import time

    from tenure.core.measures import OTHERS, HistorySearch

    search = HistorySearch(resolution=3600, since=time.time() - RECENT, rows="tasks")
    ended = {row.task for row in await app.internals.session.store.history(search)} - {OTHERS}
    served = {
        task for worker in await app.aworkers() for task in worker.tasks if "@" not in task
    }  # `a@2` is version 2 of `a`
    return {*app.tasks, *ended, *served}


QUEUE, TASK = Name(_queues), Name(_tasks)
