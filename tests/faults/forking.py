"""Jobs that fork: their children use the app that their worker uses, as those of a web server do."""

from __future__ import annotations

import os
from collections.abc import Callable

from tenure import App

from .forks import ended_well, in_a_child

__all__ = ["app", "register"]

CHILDREN = 2


def register(app: App, marks: int) -> None:
    """Add `fork.async` and `fork.thread`, which enqueue jobs here and in children, and give the ids of all of them.

    `twice.…` come back in parent and child; `mark` leaves a line for each time it has run.
    """
    quick = app.remote("quick")

    def enqueue_and_fork(enqueue: Callable[[], str]) -> list[str]:
        read, write = os.pipe()
        children = [in_a_child(lambda: os.write(write, f"{enqueue()} {enqueue()}\n".encode())) for _ in range(CHILDREN)]
        assert ended_well(*children)
        os.close(write)
        with os.fdopen(read) as told:
            return told.read().split()

    def enqueue() -> str:
        return quick.enqueue(1).id

    @app.task(name="fork.async", retry=None)
    async def on_loop() -> list[str]:
        before = await quick.aenqueue(1)
        inside = enqueue_and_fork(enqueue)  # where no loop runs any more
        after = await quick.aenqueue(1)
        return [before.id, *inside, after.id]

    @app.task(name="fork.thread", retry=None)
    def in_thread() -> list[str]:
        return [enqueue(), *enqueue_and_fork(enqueue), enqueue()]

    def return_twice() -> int:
        os.fork()
        return os.getpid()

    @app.task(name="twice.async", retry=None)
    async def twice_on_loop() -> int:
        return return_twice()

    app.task(name="twice.thread", retry=None)(return_twice)

    @app.task(name="quick")
    async def task(number: int) -> int:
        return number

    @app.task(name="mark")
    async def mark(number: int) -> None:
        os.write(marks, f"{number}\n".encode())


app = App(os.environ["FAULTS_URL"], lease=5)
"""Not on record: the children would write into the history of their parent."""

register(app, os.open(os.path.join(os.environ["FAULTS_FOLDER"], "marks"), os.O_WRONLY | os.O_APPEND | os.O_CREAT))
