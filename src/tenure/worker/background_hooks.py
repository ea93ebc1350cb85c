"""`BackgroundHooks`: calls hooks in the background, after the store has answered or the worker's state has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from tenure.core.failure import error_summary
from tenure.core.job import NewJob
from tenure.core.lifecycle import Transition
from tenure.hooks.around import call_failure_hooks, has_failed
from tenure.hooks.calling import acall_hooks, in_turn
from tenure.jobs.enqueue_hooks import after_enqueue_of_children
from tenure.worker.attempt import Attempt
from tenure.worker.threads import Threads

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["BackgroundHooks"]

CLOSE_TIMEOUT = 5.0
"""Seconds that running hooks have to finish when the worker stops."""

log = logging.getLogger("tenure.worker")


class BackgroundHooks:
    """Calls hooks in asyncio tasks, so that the worker's loop does not wait for them; `close` waits.

    What hooks raise is logged.
    """

    def __init__(self, app: App, threads: Threads) -> None:
        self._app = app
        self._threads = threads
        self._under_way: set[asyncio.Task[None]] = set()

    def enqueued(self, children: Sequence[NewJob]) -> None:
        """Call `after_enqueue` for jobs that were enqueued by a job that has succeeded."""
        if self._app.internals.hooks.enqueues:
            self._begin("after_enqueue", acall_hooks(after_enqueue_of_children(self._app, children)))

    def failed(self, attempt: Attempt, error: BaseException, transition: Transition) -> None:
        """Call `on_failure` for an attempt that failed after its function had ended, or before it started."""
        settings, context = attempt.settings, attempt.context
        if settings.failing and settings.task is not None and context is not None and has_failed(transition):
            if attempt.failure_reported:
                return
            attempt.failure_reported = True
            calling = call_failure_hooks(settings.task, settings.failing, context, error, transition, self._threads)
            self._begin("on_failure", calling)

    def call(self, name: str, hooks: Sequence[Callable[[], Any]]) -> None:
        """Call these hooks of the worker; `name` is the hook name, for the log."""
        if hooks:
            self._begin(name, acall_hooks(in_turn(hooks)))

    async def close(self) -> None:
        """Wait for running hooks, and cancel those that take longer than 5 seconds."""
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=CLOSE_TIMEOUT)
            for task in late:
                log.warning("hooks for %s did not finish before the worker stopped: cancelled", task.get_name())
                task.cancel()

    def _begin(self, name: str, calling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(calling, name=name)
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a hook for %s failed with %s", task.get_name(), error_summary(error), exc_info=error)
