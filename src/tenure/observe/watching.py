"""`Watch`, what `app.watch()` returns: the events of all processes, as they happen."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType
from typing import Self

from tenure.events import ALL, Event, Kind, bits_of
from tenure.observe.encoding import decode
from tenure.stores.base import Store
from tenure.sync import refuse_on_loop, run

__all__ = ["Watch"]


class Watch:
    """The events of all processes that share a store, as they happen.

    ```python
    for event in app.watch(queue="mail"):  # or: async for
        print(event.kind, event.job_id)
    ```

    They are hints: a busy process notices a new watcher within two seconds, and a lost event is not sent again. Watching
    begins with the loop, or earlier with a block (`with app.watch() as events:`, or `async with`), and ends with it.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        on_open: Callable[[], None],
        *,
        queue: str | None,
        task: str | None,
        job: str | None,
        run: str | None,
        kinds: Iterable[Kind],
    ) -> None:
        self._store = store
        self._on_open = on_open
        self._wanted = {
            name: value
            for name, value in {"queue": queue, "task": task, "job_id": job, "run_id": run}.items()
            if value is not None
        }
        kinds = tuple(kinds)
        self._bits = bits_of(kinds) if kinds else ALL
        self._open: contextlib.AsyncExitStack | None = None
        self._messages: AsyncIterator[str] | None = None

    def _wants(self, event: Event) -> bool:
        return bool(event.bit & self._bits) and all(
            getattr(event, name, None) == value for name, value in self._wanted.items()
        )

    # Async.

    async def __aenter__(self) -> Self:
        stack = contextlib.AsyncExitStack()
        self._messages = await stack.enter_async_context(self._store().watch())
        self._open = stack
        self._on_open()  # this app's own events are published from now on
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop watching."""
        stack, self._open, self._messages = self._open, None, None
        if stack is not None:
            await stack.aclose()

    async def __aiter__(self) -> AsyncIterator[Event]:
        entered = self._messages is None
        if entered:
            await self.__aenter__()
        try:
            while (event := await self._next()) is not None:
                yield event
        finally:
            if entered:
                await self.aclose()

    async def _next(self) -> Event | None:
        """The next event that matches; None at the end."""
        while (messages := self._messages) is not None:
            message = await anext(messages, None)
            if message is None:
                return None
            event = decode(message)
            if event is not None and self._wants(event):
                return event
        return None

    # Blocking, through the private loop.

    def __enter__(self) -> Self:
        refuse_on_loop("with app.watch", "use async with")
        run(self.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """The blocking twin of `aclose`."""
        run(self.aclose())

    def __iter__(self) -> Iterator[Event]:
        refuse_on_loop("for event in app.watch", "use async for")
        return self._iterate()

    def _iterate(self) -> Iterator[Event]:
        entered = self._messages is None
        if entered:
            self.__enter__()
        try:
            while (event := run(self._next())) is not None:
                yield event
        finally:
            if entered:
                self.close()
