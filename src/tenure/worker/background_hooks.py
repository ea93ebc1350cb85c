"""Hooks that are called beside the work of a worker, once the store has answered or something has happened to the worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from tenure.core.failure import error_summary
from tenure.core.job import NewJob
from tenure.core.lifecycle import Transition
from tenure.hooks.around import has_failed, tell_failure
from tenure.hooks.calling import awaiting, moment
from tenure.jobs.enqueue_hooks import come_to_exist
from tenure.worker.attempt import Attempt
from tenure.worker.threads import Threads

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["BackgroundHooks"]

PATIENCE = 5.0
"""Seconds that hooks have to end when the worker does."""

log = logging.getLogger("tenure.worker")


class BackgroundHooks:
    """Calls hooks in tasks of their own, so that the loop does not wait for them; `close` does. What they raise is logged."""

    def __init__(self, app: App, threads: Threads) -> None:
        self._app = app
        self._threads = threads
        self._under_way: set[asyncio.Task[None]] = set()

    def enqueued(self, children: Sequence[NewJob]) -> None:
        """A job has succeeded, and these have come to exist with it."""
        if self._app.internals.hooks.enqueues:
            self._begin("after_enqueue", awaiting(come_to_exist(self._app, children)))

    def failed(self, attempt: Attempt, error: BaseException, step: Transition) -> None:
        """An attempt has failed after its function had ended, or without it."""
        settings, context = attempt.settings, attempt.context
        if settings.failing and settings.task is not None and context is not None and has_failed(step):
            if attempt.told:
                return
            attempt.told = True
            telling = tell_failure(settings.task, settings.failing, context, error, step, self._threads)
            self._begin("on_failure", telling)

    def call(self, name: str, hooks: Sequence[Callable[[], Any]]) -> None:
        """Something has happened to the worker."""
        if hooks:
            self._begin(name, awaiting(moment(hooks)))

    async def close(self) -> None:
        """Wait for what is under way; what takes long is cancelled."""
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=PATIENCE)
            for task in late:
                log.warning("hooks for %s have not ended with the worker, they are cancelled", task.get_name())
                task.cancel()

    def _begin(self, name: str, calling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(calling, name=name)
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a hook for %s has failed with %s", task.get_name(), error_summary(error), exc_info=error)
