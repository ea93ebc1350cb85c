"""Two versions of a program, whose workers run side by side while it is deployed."""

from __future__ import annotations

import os

from tenure import App

__all__ = ["old", "work_new", "work_old"]


def old(url: str) -> App:
    """The version that is replaced."""
    app = App(url)

    @app.task
    async def send(user: int) -> list[int]:
        return [user, os.getpid()]

    return app


def new(url: str) -> App:
    """The version that replaces it: a task has another name, and another one has come."""
    app = App(url)

    @app.task(name="mail.send", aliases=["send"])
    async def send(user: int) -> list[int]:
        return [user, os.getpid()]

    @app.task
    async def report(day: str) -> list[str | int]:
        return [day, os.getpid()]

    return app


def work_old(url: str) -> None:
    old(url).worker(id="old").run()


def work_new(url: str) -> None:
    new(url).worker(id="new").run()
