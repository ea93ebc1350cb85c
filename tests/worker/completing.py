"""Tasks in either lane that complete themselves in a transaction, on the stores that have any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenure import App, Context
from tenure.jobs.handle import Job
from tenure.stores.base import Store
from tests.conftest import a_url

from .effects import Effects

__all__ = ["Bodies", "Hook", "attempts", "became", "effects", "lane", "on_postgres", "url"]

Hook = Callable[[Context], Any]

on_postgres = pytest.mark.parametrize("url", ["postgres"], indirect=True)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return a_url(request)


@pytest.fixture
async def effects(url: str, store: Store) -> Effects:
    return await Effects.made(url, store)


@pytest.fixture(params=["coroutine", "thread"])
def lane(request: pytest.FixtureRequest) -> str:
    lane: str = request.param
    return lane


def nothing(_: Context) -> None:
    """Does nothing."""


class Bodies:
    """A task in either lane that writes a row and completes itself, with something else to do before, inside and after."""

    def __init__(self, app: App, lane: str, effects: Effects) -> None:
        self._app = app
        self._lane = lane
        self._effects = effects

    def task(self, *, before: Hook = nothing, inside: Hook = nothing, after: Hook = nothing, **options: Any) -> Any:
        insert = self._effects.insert

        @self._app.task(name="coroutine", **options)
        async def coroutine(ctx: Context, n: int) -> Any:
            before(ctx)
            async with ctx.complete() as tx:
                await tx.execute(insert, n)
                tx.result = n
                inside(ctx)
            return after(ctx)

        @self._app.task(name="thread", **options)
        def thread(ctx: Context, n: int) -> Any:
            before(ctx)
            with ctx.complete() as tx:
                tx.execute(insert, n)
                tx.result = n
                inside(ctx)
            return after(ctx)

        return coroutine if self._lane == "coroutine" else thread


async def attempts(job: Job[Any]) -> int:
    await job.arefresh()
    return job.record.attempt if job.record is not None else 0


async def became(job: Job[Any], state: str, *, attempt: int) -> bool:
    return await attempts(job) == attempt and job.state == state
