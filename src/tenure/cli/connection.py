"""How a command names its store: `--url`, `--app`, or the environment."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.messages import CommandError

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["with_app"]

Command = Callable[..., None]
AsyncCommand = Callable[..., Awaitable[None]]

_url = click.option(
    "--url", metavar="URL", help="The store, such as sqlite:///jobs.db. Otherwise TENURE_URL, or sqlite:///tenure.db."
)
_app = click.option(
    "--app",
    "target",
    envvar="TENURE_APP",
    show_envvar=True,
    metavar="TARGET",
    help="The store of this app: module:app or file.py:app.",
)


def with_app(*, empty: bool = False) -> Callable[[AsyncCommand], Command]:
    """Let a command be an async function that is given the chosen app first.

    A store that nobody has used yet is refused, unless `empty`: it is a wrong name far more often than a new store.
    """

    def decorate(function: AsyncCommand) -> Command:
        async def run(app: App, arguments: dict[str, Any]) -> None:
            try:
                if not empty and (await app.internals.session.store.layout()).found is None:
                    raise _empty_store(app.url)
                await function(app, **arguments)
            finally:
                await app.aclose()

        @_url
        @_app
        @functools.wraps(function)
        def command(url: str | None, target: str | None, **arguments: Any) -> None:
            import asyncio  # not before it is needed: help has none of it
            import logging

            # What a command does it says itself; without a handler, warnings would be written beside that.
            logging.getLogger("tenure.jobs").addHandler(logging.NullHandler())
            asyncio.run(run(_choose_app(url, target), arguments))

        return command

    return decorate


def _choose_app(url: str | None, target: str | None) -> App:
    from tenure.app import App
    from tenure.cli.target import load_app

    return load_app(target) if target is not None and url is None else App(url)


def _empty_store(url: str) -> CommandError:
    from tenure.stores import masked

    return CommandError(
        f"{masked(url)} holds no jobs yet: enqueue one, or name another store with --url, --app or TENURE_URL"
    )
