"""Jobs that write to a table of the user's in the very transaction that completes them, and workers that die doing so.

A worker process is told at which instant of a job's end to die: `before` the block, `inside` it, when the job is `settled` in the
transaction, while that is `committing`, when it is `committed`.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import apsw
import psycopg

from tenure import App, Backoff, Context
from tenure.stores import open_store
from tenure.stores.base import OwnTransaction, Store
from tests.worker.effects import Effects

from .processes import say

__all__ = [
    "A_COMMIT",
    "INSTANTS",
    "STEPS",
    "TASKS",
    "TOGETHER",
    "die_at_every_instant",
    "fork",
    "make_app",
    "work_and_be_killed",
]

INSTANTS = ("before", "inside", "settled", "committing", "committed")
TASKS = ("coroutine", "thread", "joined")
STEPS = ("pay.charge",)
"""The step that hands over in the transaction."""

A_COMMIT = 0.003
"""Seconds that a commit may take: within these its process dies."""

TOGETHER = 5
"""Workers that run at the same time."""

doomed: str | None = None
"""The instant at which this process is to die."""


def reached(instant: str) -> None:
    """Die, if this is the instant."""
    if doomed == instant == "committing":
        threading.Timer(random.uniform(0, A_COMMIT), _die).start()
    elif doomed == instant:
        _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly:
    """A store whose process may die when a transaction of a job's own is about to be committed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def begin(self, **options: Any) -> OwnTransaction:
        own = await self._store.begin(**options)
        commit = own.commit

        async def deadly() -> None:
            reached("settled")
            reached("committing")
            await commit()

        own.commit = deadly  # type: ignore[method-assign]
        return own


def make_app(url: str) -> App:
    """An app with short leases whose tasks each write one row and complete themselves."""
    app = App(
        lambda: cast("Store", Deadly(open_store(url))),
        lease=1,
        retry=Backoff(initial=0.01, jitter=0),
        max_attempts=None,
    )
    effects = Effects(url, app.internals.make_store())
    task = app.task(max_losses=None)

    @task
    async def coroutine(ctx: Context, n: int) -> None:
        reached("before")
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, n)
            reached("inside")
        reached("committed")

    @task
    def thread(ctx: Context, n: int) -> None:
        reached("before")
        with ctx.complete() as tx:
            tx.execute(effects.insert, n)
            reached("inside")
        reached("committed")

    @task
    def joined(ctx: Context, n: int) -> None:
        reached("before")
        with _connected(url) as connection:
            with ctx.complete(connection=connection):
                connection.execute(effects.insert.replace("$1", "%s"), [n])
                reached("inside")
            reached("settled")
            reached("committing")
            connection.commit()
        reached("committed")

    pay = app.flow("pay")

    @pay.step(then="thank", max_losses=None)
    async def charge(ctx: Context, n: int) -> None:
        reached("before")
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, n)
            reached("inside")
            tx.result = {"receipt": n}
        reached("committed")

    @pay.step(max_losses=None)
    async def thank(receipt: int) -> int:
        return receipt

    return app


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    """A blocking connection with a transaction, which is rolled back at the end of the block unless it was committed."""
    path, _, library = url.removeprefix("sqlite:///").partition("?")
    connection: Any
    if url.startswith("postgres"):
        connection = psycopg.connect(Effects.dsn(url))
    elif library:
        connection = sqlite3.connect(path, timeout=10, isolation_level="IMMEDIATE")
    else:
        connection = _Apsw(path)
    try:
        yield connection
    finally:
        connection.close()


class _Apsw(apsw.Connection):
    """A connection of apsw's with the one method that the others have and it has not."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.set_busy_timeout(10_000)
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.execute("COMMIT")


# What the processes of the tests run. Each forks one child for each death: that costs a tenth of a new interpreter.


def die_at_every_instant(url: str, times: int, tasks: Sequence[str] = TASKS) -> None:
    """Let workers die: for each task and each instant so many, each with a job of the queue that is named after both."""
    deaths = [(f"{task}.{instant}", instant) for task in tasks for instant in INSTANTS] * times
    codes: list[int] = []
    for first in range(0, len(deaths), TOGETHER):
        children = [fork(_work_until_dead, url, *death) for death in deaths[first : first + TOGETHER]]
        codes += [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    say("died", codes)


def work_and_be_killed(url: str, times: int) -> None:
    """Let workers work on everything, and kill each at some instant."""
    for _ in range(times):
        child = fork(_work_until_dead, url, "*", None)
        time.sleep(random.uniform(0.1, 0.4))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    say("killed")


def _work_until_dead(url: str, queue: str, instant: str | None) -> None:
    global doomed
    doomed = instant
    random.seed()
    make_app(url).worker([queue], concurrency=4 if instant is None else 1, look_ahead=False).run()


def fork(function: Callable[..., None], *arguments: object) -> int:
    """Run a function in a child process, which is expected not to come back from it; its id."""
    child = os.fork()
    if not child:
        try:
            function(*arguments)
        finally:
            os._exit(1)
    return child
