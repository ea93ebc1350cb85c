"""Processes that use the file of a store through Python's own SQLite library, beside Tenure in the same process."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

from tenure import App
from tenure.errors import StoreError
from tenure.stores.sqlite.library import Library
from tenure.stores.sqlite.store import SqliteStore

from .clients import a_job
from .forks import ended_well, in_a_child
from .processes import say, told

__all__ = ["bring", "come_and_go", "fork_after_bringing", "fork_in_a_transaction", "hold_locks", "write_at_once"]


def an_app(url: str, used: bool) -> App:
    """An app, which may have used the file before anybody else in this process has."""
    app = App(url)
    if used:
        app.queues()
    return app


def _path(url: str) -> str:
    return url.removeprefix("sqlite:///").partition("?")[0]


def locks_on(path: str) -> set[str]:
    """Which of the files of a database this process has locks on."""
    inodes = {os.stat(path + suffix).st_ino: suffix or "file" for suffix in ("", "-shm")}
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    mine = {int(line[5].rsplit(":", 1)[1]) for line in lines if line[4] == str(os.getpid())}
    return {name for inode, name in inodes.items() if inode in mine}


def hold_locks(url: str, used: bool) -> None:
    """Say which locks are held while the app is open, and after a connection of the caller's has come and gone."""
    with an_app(url, used) as app:
        connection = sqlite3.connect(_path(url))
        app.remote("t").using(connection=connection).enqueue()
        connection.commit()
        app.queues()
        say("before", *sorted(locks_on(_path(url))))
        connection.close()
        sqlite3.connect(_path(url)).execute("SELECT count(*) FROM tenure_jobs").connection.close()
        say("after", *sorted(locks_on(_path(url))))


def write_at_once(url: str, used: bool) -> None:
    """Enqueue in a transaction of a caller's and beside it, at the same time."""
    with an_app(url, used) as app:
        task = app.remote("t")
        connection = sqlite3.connect(_path(url))
        inside = task.using(connection=connection).enqueue()
        outside = threading.Thread(target=lambda: say("outside", task.enqueue().id))
        outside.start()
        outside.join(0.3)
        say("waits" if outside.is_alive() else "waits not")
        connection.commit()
        say("inside", inside.id)
        outside.join()
        connection.close()


def come_and_go(url: str, used: bool, times: int) -> None:
    """Open the file, enqueue in a transaction, enqueue beside it, read, and close the file, over and over."""
    with an_app(url, used) as app:
        task = app.remote("t")
        say("ready")
        told()
        for n in range(times):
            connection = sqlite3.connect(_path(url), timeout=30)
            connection.execute("INSERT INTO orders VALUES (?, ?)", (os.getpid(), n))
            jobs = [task.using(connection=connection).enqueue(n), task.using(connection=connection).enqueue(n)]
            if n % 5 == 4:
                connection.rollback()
            else:
                connection.commit()
                say("enqueued", *(job.id for job in jobs))
            say("enqueued", task.enqueue(n).id)
            connection.execute("SELECT count(*) FROM tenure_jobs").fetchall()
            connection.close()
        say("done")


def bring(url: str, commit: bool) -> None:
    """Enqueue in a transaction, and wait to be killed before it ends, or after."""
    app = App(url)
    connection = sqlite3.connect(_path(url))
    connection.execute("INSERT INTO orders VALUES (1, 1)")
    job = app.remote("t").using(connection=connection).enqueue()
    if commit:
        connection.commit()
    say("brought", job.id)
    told()


async def fork_in_a_transaction(url: str, library: str) -> None:
    """Fork while a transaction of a job's own is open; enqueue in the child, and in the parent."""
    store = SqliteStore(_path(url), library=Library(library))
    own = await store.begin(timeout=20)
    await own.caller.arun(store.enqueueing([a_job()]))

    def enqueue() -> None:
        say("enqueued", App(url + f"?library={library}").remote("t", queue="q").enqueue().id)

    assert ended_well(in_a_child(enqueue))
    try:
        await own.commit()
    except StoreError as error:
        say("refused", str(error))
    [answer] = await store.enqueue([a_job()])
    say("enqueued", answer.id)
    await store.close()
    say("done")


def fork_after_bringing(url: str, used: bool) -> None:
    """Use a caller's connection, and another one in a child, which has inherited the app."""
    app = an_app(url, used)
    task = app.remote("t")

    def enqueue() -> None:
        connection = sqlite3.connect(_path(url))
        job = task.using(connection=connection).enqueue()
        connection.commit()
        connection.close()
        say("enqueued", job.id, task.enqueue().id)

    enqueue()
    assert ended_well(in_a_child(enqueue), in_a_child(enqueue))
    enqueue()
    app.close()
    say("done")
