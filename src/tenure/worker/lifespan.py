"""`Lifespan`: opens an app when a web server starts, runs a worker on its event loop, and closes the app at its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tenure.core.checks import seconds
from tenure.core.jitter import full_jitter
from tenure.errors import STORE_OUTAGE, InvalidOption
from tenure.worker.worker import Status, Worker

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Lifespan", "check_lifespan_options"]

FIRST, LONGEST = 0.5, 60.0
"""Upper bounds of the pause before a dead worker is replaced, in seconds: it is doubled with each death in a row, at most to the second."""

OF_PROCESSES: Final = frozenset({"max_age", "max_jobs", "max_memory"})
OF_SIGNALS: Final = frozenset({"graceful_term", "pre_shutdown_timeout", "term_child"})

log = logging.getLogger("tenure.worker")


class Lifespan:
    """Gives an async context manager when it is called with the framework's application, or with nothing.

    1. On entry a new worker starts. What it raises, entry raises, and the server does not start.
    2. Then the store is opened. If it is down, this is logged, and the server starts all the same.
    3. A worker that an error ends while the server serves is replaced, with growing pauses. One that an operator has
       told to stop is not.
    4. On exit the worker has `grace` seconds. Then the app is closed, whatever went wrong before.

    It can be entered again, and several times at once: each time starts another worker.
    """

    def __init__(self, app: App, make_worker: Callable[[], Worker] | None, grace: float) -> None:
        self._app = app
        self._make_worker = make_worker
        self._grace = grace

    def __repr__(self) -> str:
        return f"<Lifespan of {self._app!r}{'' if self._make_worker else ', no worker'}>"

    # It gives None: Starlette would copy anything else into the state of each request.
    @asynccontextmanager
    async def __call__(self, application: object = None, /) -> AsyncIterator[None]:  # noqa: ARG002
        """Open the app and work; on exit stop and close. `application` is not used: frameworks pass theirs."""
        worker = None if self._make_worker is None else _ReplacedWorker(self._make_worker)
        try:
            if worker is not None:
                await worker.start()  # before the store of the app has threads, because isolated tasks need a fork
            await self._open()
            yield
        finally:
            try:
                if worker is not None:
                    await worker.stop(self._grace)
            finally:
                await self._app.aclose()

    async def _open(self) -> None:
        """Open the store, so that a request whose transaction a job joins finds the tables there."""
        session = self._app.internals.session
        try:
            await (session.open() if session.store.transactional else session.store.open())
        except STORE_OUTAGE as error:
            log.warning("the store is down; the server starts without it, and calls try again: %s", error)


class _ReplacedWorker:
    """A worker, and after it the workers that replace it when an error has ended it."""

    def __init__(self, make_worker: Callable[[], Worker]) -> None:
        self._make_worker = make_worker
        self._worker: Worker | None = None
        self._replacing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the first worker; raises what keeps it from starting."""
        self._worker = worker = self._make_worker()
        try:
            await worker.start()
        except Exception:
            self._worker = None  # it has ended already
            raise
        self._replacing = asyncio.create_task(self._replace(worker), name="tenure-lifespan")

    async def stop(self, grace: float) -> None:
        """Stop the worker within `grace` seconds: the last `term_timeout` of them are for aborted jobs to clean up."""
        if self._replacing is not None:
            self._replacing.cancel()
            await asyncio.wait([self._replacing])
        if self._worker is not None:
            try:
                await self._worker.stop(grace - seconds(self._worker.options.term_timeout, "term_timeout"))
            except Exception:
                log.exception("an error ended the worker while the server stopped; jobs that it held run again")

    async def _replace(self, worker: Worker) -> None:
        """Replace the worker whenever an error ends it, until one was told to stop."""
        deaths = 0
        while True:
            started = monotonic()
            if not await _dies(worker):
                log.warning("the worker was told to stop: this server runs no jobs until it is restarted")
                return
            self._worker = None
            deaths = 1 if monotonic() - started > LONGEST else deaths + 1
            await asyncio.sleep(full_jitter(deaths, FIRST, LONGEST))
            self._worker = worker = self._make_worker()


async def _dies(worker: Worker) -> bool:
    """Start the worker, unless it has started, and wait for its end. Returns whether an error ended it."""
    try:
        if worker.status is Status.READY:
            await worker.start()
        await worker._ended()
    except Exception:
        log.exception("an error ended the worker: jobs that it held run again, and another worker takes its place")
        return True
    return False


def check_lifespan_options(options: dict[str, Any], *, worker: bool) -> None:
    """`InvalidOption` if these options of a worker do nothing in a web server."""
    if not worker and options:
        raise InvalidOption(
            f"lifespan: with worker=False there is no worker to take {', '.join(options)}: give these to `tenure work`"
        )
    if wrong := sorted(OF_PROCESSES & set(options)):
        raise InvalidOption(
            f"lifespan: {', '.join(wrong)} would leave this server without a worker, because only a supervisor replaces "
            "a process: leave it out, or run `tenure work` beside the server"
        )
    if wrong := sorted(OF_SIGNALS & set(options)):
        raise InvalidOption(
            f"lifespan: {', '.join(wrong)} says what a signal does, and here the server handles signals: set grace "
            "and term_timeout"
        )
