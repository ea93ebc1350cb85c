"""`Kit`, and `kit` which makes one: an app for a test, on a separate store and on a clock that only the test moves."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import quote, urlsplit

from tenure.core.checks import refused
from tenure.core.job import NewJob
from tenure.errors import InvalidOption
from tenure.internals import Replaced
from tenure.stores.base import Store
from tenure.stores.memory import Data, MemoryStore
from tenure.sync import refuse_on_loop, run
from tenure.tasks.task import Task
from tenure.testing.assertions import Assertions
from tenure.testing.clock import FollowedClock
from tenure.testing.crashing import Crashes, Moment, replaced_function
from tenure.testing.driver import Driver
from tenure.testing.expecting import span_of
from tenure.testing.ledger import Ledger
from tenure.testing.running import Running

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Kit", "kit"]

Stores = Literal["memory", "sqlite"]


def kit(
    app: App,
    *,
    store: Stores = "memory",
    at: datetime | str | None = None,
    schedules: bool = False,
    system: bool = False,
) -> Kit:
    """Give a test this app on a separate store, with a clock that stands still: use it with `with`, or `async with`.

    `store`: "memory", or "sqlite" for a file with real transactions. `at`: the time to begin at, with its offset from UTC; None: now.
    `schedules`: fire schedules whose time has come; otherwise none fires by itself. `system`: move the clock of Python too, by the
    package `time-machine`.
    """
    return Kit(app, store=store, at=at, schedules=schedules, system=system)


class Kit(Running, Assertions):
    """The jobs of one test: what was enqueued, what happens when they run, and the clock by which they do.

    Nothing runs by itself. `run_until_idle` runs what is due by the real lifecycle, with hooks, middleware and retries, without
    jitter. A plain `def` runs on the thread of the test, so that it sees the transactions of the test; in the async twins it runs in
    another thread, because it may block. An isolated task runs in place.
    """

    _clock: FollowedClock

    def __init__(self, app: App, *, store: Stores, at: datetime | str | None, schedules: bool, system: bool) -> None:
        if store not in ("memory", "sqlite"):
            raise refused("store", '"memory" or "sqlite"', store)
        self._app = app
        self._store = store
        self._schedules = schedules
        self._system = system
        self._began = float(int(time.time())) if at is None else _instant(at)
        self._clock = FollowedClock(self._began)
        self._crashes = Crashes()
        self._ledger = Ledger(app, self._clock)
        self._driver = Driver(app, self._clock, self._crashes, self._ledger.add_created, schedules=schedules)
        self._stack = ExitStack()
        self._replaced: Replaced | None = None
        self.path: str | None = None
        """The SQLite file of the test; None in memory."""

    def __enter__(self) -> Self:
        refuse_on_loop("with kit", "use async with")
        with self._unless_begun():
            self._begin().__enter__()
            if self._schedules:
                run(self._driver.declare())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run(self.__aexit__(kind, error, trace))

    async def __aenter__(self) -> Self:
        with self._unless_begun():
            await self._begin().__aenter__()
            if self._schedules:
                await self._driver.declare()
        return self

    @contextmanager
    def _unless_begun(self) -> Iterator[None]:
        """Undo what was begun if the kit cannot be entered."""
        try:
            yield
        except BaseException:
            if self._replaced is not None:
                self._replaced.undo()
            self._stack.close()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._replaced is not None
        try:
            await self._replaced.__aexit__(kind, error, trace)
            await self._app.internals.audience.listeners.aflush()
        finally:
            self._stack.close()

    def _begin(self) -> Replaced:
        parts = self._app.internals
        parts.import_included()
        parts.check_code()
        make_store = self._maker()
        if self._system:
            self._stack.enter_context(self._clock.followed())
        in_memory = self._store == "memory"
        self._replaced = _ReplacedForTest(self._app, make_store, self._ledger.note, in_memory=in_memory)
        return self._replaced

    def _maker(self) -> Callable[[], Store]:
        if self._store == "memory":
            data = Data(self._clock)
            return lambda: MemoryStore(data)
        from tenure.stores.sqlite.store import SqliteStore

        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-", ignore_cleanup_errors=True))
        self.path = os.path.join(folder, "jobs.db")
        # With the same library as the app, because a connection of another one is refused.
        query = urlsplit(self._app.url).query if self._app.url.startswith("sqlite:") else ""
        url = f"sqlite:///{quote(self.path)}?{query}"
        return lambda: SqliteStore.from_url(url, clock=self._clock)

    # Time.

    @property
    def now(self) -> datetime:
        """The time of the store, in UTC."""
        return datetime.fromtimestamp(self._clock.wall(), UTC)

    @property
    def elapsed(self) -> float:
        """Seconds that have passed on the store's clock since the test began."""
        return self._clock.wall() - self._began

    def advance(
        self,
        span: timedelta | float | None = None,
        /,
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> None:
        """Let time pass, on the store's clock, and on Python's with `system`. Runs no job; with `schedules`, enqueues those of the ticks on the way."""
        passing = span_of(span, days=days, hours=hours, minutes=minutes, seconds=seconds)
        if self._schedules:
            run(self._driver.advance(passing))
        else:
            self._clock.advance(passing)

    # Faults.

    def crash(self, task: Task[..., Any] | str, *, at: Moment, times: int = 1) -> AbstractContextManager[None]:
        """Let the worker die in the next `times` attempts of a task that run inside the block: nothing more is sent to the store.

        `before_start`: before the function is called. `before_settle`: the function has ended, and the store does not know. `after_settle`:
        the store knows, and hooks after it are not called. Its lease expires when the clock has passed it; then the job is run again.
        """
        return self._crashes.expect(self._task(task).name, at, times)

    def failing(
        self, task: Task[..., Any] | str, error: BaseException | type[BaseException], *, times: int | None = None
    ) -> AbstractContextManager[None]:
        """Let attempts of a task that run inside the block raise this error in place of the function: the first `times`, or all."""
        left = times

        def failing(function: Callable[..., Any]) -> Callable[..., Any]:
            def instead(*args: Any, **kwargs: Any) -> Any:
                nonlocal left
                if left == 0:
                    return function(*args, **kwargs)
                left = None if left is None else left - 1
                raise error if isinstance(error, type) else error.with_traceback(None)

            return instead

        return replaced_function(self._task(task), failing)

    def stub(self, task: Task[..., Any] | str, value: Any = None) -> AbstractContextManager[None]:
        """Let attempts of a task that run inside the block return this value, and not call the function."""
        return replaced_function(self._task(task), lambda _: lambda *_args, **_kwargs: value)

    def _task(self, task: Task[..., Any] | str) -> Task[..., Any]:
        found = self._app.tasks.get(task) if isinstance(task, str) else task
        if not isinstance(found, Task):
            raise refused("task", "a task of this app, or the name of one", task)
        return found


class _ReplacedForTest(Replaced):
    """Other stores for a block, in which any `connection=` is accepted and enqueued jobs are noted."""

    def __init__(
        self, app: App, make_store: Callable[[], Store], note: Callable[[Sequence[NewJob]], None], *, in_memory: bool
    ) -> None:
        super().__init__(app, make_store)
        self._note = note
        self._in_memory = in_memory

    def _begin(self) -> Self:
        super()._begin()
        parts = self._app.internals
        parts.in_memory, parts.any_connection, parts.note = self._in_memory, True, self._note
        return self


def _instant(at: datetime | str) -> float:
    given = datetime.fromisoformat(at) if isinstance(at, str) else at
    if given.utcoffset() is None:
        raise InvalidOption(
            f"at= needs a time with its offset from UTC, got {at!r}: write {given.isoformat()}Z for UTC"
        )
    return given.timestamp()
