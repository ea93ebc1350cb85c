"""with_app: gives a command the app or store that `--url`, `--app` or the environment names."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.messages import CommandError

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["choose_app", "store_options", "with_app"]

Command = Callable[..., None]
AsyncCommand = Callable[..., Awaitable[None]]

_url = click.option(
    "--url", metavar="URL", help="The store, such as sqlite:///jobs.db. Default: TENURE_URL, else sqlite:///tenure.db."
)
_app = click.option(
    "--app",
    "target",
    envvar="TENURE_APP",
    show_envvar=True,
    metavar="TARGET",
    help="Use the store of this app: module:app or file.py:app.",
)


def store_options(command: Command) -> Command:
    """Add the options that name the store: `url` and `target`."""
    return _url(_app(command))


def with_app(*, empty: bool = False) -> Callable[[AsyncCommand], Command]:
    """Make a command of an async function whose first argument is the app.

    A store that has never been used is refused unless `empty`, because it is a wrong name far more often than a new store.
    """

    def decorate(function: AsyncCommand) -> Command:
        async def run(app: App, arguments: dict[str, Any]) -> None:
            try:
                if not empty and (await app.internals.session.store.layout()).found is None:
                    raise _empty_store(app.url)
                await function(app, **arguments)
            finally:
                await app.aclose()

        @store_options
        @functools.wraps(function)
        def command(url: str | None, target: str | None, **arguments: Any) -> None:
            import asyncio  # here, because `--help` does not need it and should be fast
            import logging

            # A command prints its own messages. Without a handler, Python would print the warnings of the log too.
            logging.getLogger("tenure.jobs").addHandler(logging.NullHandler())
            asyncio.run(run(choose_app(url, target), arguments))

        return command

    return decorate


def choose_app(url: str | None, target: str | None) -> App:
    """The app that these options name; without both, one with the store of TENURE_URL."""
    from tenure.app import App
    from tenure.cli.target import load_app

    return load_app(target) if target is not None and url is None else App(url)


def _empty_store(url: str) -> CommandError:
    from tenure.stores import masked

    return CommandError(
        f"{masked(url)} has never been used: enqueue a job, or name another store with --url, --app or TENURE_URL"
    )
