"""Commits of jobs that complete themselves: what came of one is found out, and what is under way is not undone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from tenure import Backoff, Context
from tenure.core.job import State
from tenure.errors import OutcomeUnknown
from tenure.stores import open_store
from tenure.stores.base import OwnTransaction, Store

from .completing import Bodies, attempts, effects, lane, url
from .conftest import Lines, MakeApp, Start, eventually, record_of
from .effects import Effects

__all__ = ["effects", "lane", "url"]


class Doubtful:
    """A store whose commits can be told what happens to them."""

    def __init__(self, url: str, commit: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]) -> None:
        self._store = open_store(url)
        self._commit = commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def begin(self, **options: Any) -> OwnTransaction:
        own = await self._store.begin(**options)
        if options.get("writes", True):
            commit = own.commit
            own.commit = lambda: self._commit(commit)  # type: ignore[assignment,method-assign,return-value]
        return own


Commit = Callable[[], Awaitable[None]]


async def reply_lost(commit: Commit) -> None:
    await commit()
    raise OutcomeUnknown("the reply was lost")


@pytest.mark.parametrize("keep", [None, 0.0], ids=["kept", "not kept"])
async def test_a_commit_whose_reply_was_lost_is_found_out(
    make_app: MakeApp, url: str, lane: str, effects: Effects, start: Start, lines: Lines, keep: float | None
) -> None:  # I19
    app = make_app(store=lambda: cast("Store", Doubtful(url, reply_lost)))
    task = Bodies(app, lane, effects).task(keep=keep)
    job = await task.aenqueue(7)
    await start(app)

    await eventually(lambda: lines(f"job {job.id} of task {task.name} succeeded, attempt 1"))
    assert await effects.rows() == [7]
    assert (await app.astats()).totals.succeeded == 1


async def test_a_commit_that_did_not_happen_is_an_error_that_decides_as_usual(
    make_app: MakeApp, url: str, lane: str, effects: Effects, start: Start, lines: Lines
) -> None:
    commits: list[Commit] = []

    async def first_fails(commit: Commit) -> None:
        commits.append(commit)
        if len(commits) > 1:
            await commit()
        else:
            own = cast("OwnTransaction", commit.__self__)  # type: ignore[attr-defined]
            await own.rollback()
            raise OutcomeUnknown("the connection was lost")

    app = make_app(store=lambda: cast("Store", Doubtful(url, first_fails)), retry=Backoff(initial=0.01, jitter=0))
    task = Bodies(app, lane, effects).task()
    job = await task.aenqueue(7)
    await start(app)

    assert await job.aresult(timeout=10) == 7
    assert await effects.rows() == [7]
    assert await attempts(job) == 2
    await eventually(lambda: lines("runs again"))
    [said] = lines("runs again")
    assert "was not committed: the connection was lost" in said


async def test_a_timeout_while_the_commit_is_under_way_does_not_undo_it(
    make_app: MakeApp, url: str, lane: str, effects: Effects, start: Start, lines: Lines
) -> None:
    contexts: list[Context] = []

    async def slow(commit: Commit) -> None:
        assert await contexts[0].signal.wait() == "timeout"
        await commit()

    app = make_app(store=lambda: cast("Store", Doubtful(url, slow)))
    task = Bodies(app, lane, effects).task(before=contexts.append, timeout=1)  # enough to come that far
    job = await task.aenqueue(7)
    await start(app)

    assert await job.aresult(timeout=10) == 7
    await eventually(lambda: lines("succeeded"))
    assert await effects.rows() == [7]
    assert await attempts(job) == 1


async def test_a_stop_while_the_commit_is_under_way_does_not_undo_it(
    make_app: MakeApp, url: str, lane: str, effects: Effects, start: Start, store: Store
) -> None:
    committing = asyncio.Event()

    async def slow(commit: Commit) -> None:
        committing.set()
        await asyncio.sleep(0.5)
        await commit()

    app = make_app(store=lambda: cast("Store", Doubtful(url, slow)))
    task = Bodies(app, lane, effects).task()
    job = await task.aenqueue(7)
    worker = await start(app)
    await committing.wait()

    await worker.stop(grace=0)

    assert (await record_of(store, job.id)).state is State.SUCCEEDED
    assert await effects.rows() == [7]
