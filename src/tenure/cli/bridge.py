"""`tenure bridge`: the command that runs the jobs of another system, with the options of `tenure work`."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tenure.bridges import kinds
from tenure.cli.messages import CommandError, print_message
from tenure.cli.service import Given, Program, serve
from tenure.cli.work import ARGUMENTS, WorkCommand, split_names, work
from tenure.core.options import WorkerOptions

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.bridges.bridge import Bridge
    from tenure.worker.worker import Worker

__all__ = ["bridge"]

BY_URL = ("resque",)
"""Kinds that need no object in the user's module, because the URL says everything."""

OTHER = ("target", "queues", "tasks")
"""Parameters of `tenure work` that this command does not have, or has in another form."""


class BridgeProgram(Program):
    """What `tenure bridge` runs."""

    command = "bridge"

    def __init__(self, kind: str, url: str | None, namespace: str | None, queues: tuple[str, ...], keep: bool) -> None:
        self._kind = kind
        self._url = url
        self._namespace = namespace
        self._queues = queues
        self._keep = keep

    def load(self, given: Given) -> App:
        self._bridge = self.bridge(given["target"])
        return self._bridge.app

    def bridge(self, target: str) -> Bridge:
        """The bridge that the target names, or one to --url for the app that it names. `CommandError` if there is none."""
        from tenure import bridges
        from tenure.app import App
        from tenure.cli.target import import_included, load

        name = kinds()[self._kind]
        kind: type[Bridge] = getattr(bridges, name)
        module, found = load(target, kind, App)
        if isinstance(found, App):
            if self._namespace is not None and self._url is None:
                raise CommandError("--namespace needs --url, because a bridge in the module has its own")
            own = {attribute: each for attribute, each in vars(module).items() if isinstance(each, kind)}
            if self._url is not None and self._kind in BY_URL:
                found = kind(found, self._url, **({} if self._namespace is None else {"namespace": self._namespace}))
            elif self._url is None and len(own) == 1:
                [found] = own.values()
            elif self._kind in BY_URL and not own:
                raise CommandError(f"{target} has no bridge to {self._kind}: say where it is with --url")
            else:
                which = (
                    f"name one of {', '.join(own)}" if own else f"make one there, such as {self._kind} = {name}(app, …)"
                )
                raise CommandError(f"{target} is an App, and this needs its bridge to {self._kind}: {which}")
        elif not isinstance(found, kind):
            raise CommandError(
                f"{target} is of type {type(found).__name__}, neither a bridge to {self._kind} nor an App"
            )
        elif self._url is not None or self._namespace is not None:
            raise CommandError(f"{target} says where {self._kind} is: leave out --url and --namespace, or name the app")
        import_included(found.app)
        return found

    def worker(self, app: App, options: WorkerOptions) -> Worker:
        from tenure.worker.worker import Worker

        source = self._bridge.source(self._queues, keep=self._keep)
        return Worker(app, replace(options, queues=tuple(self._bridge.leased(self._queues))), (), (source,))

    def served(self, given: Given) -> str:  # noqa: ARG002
        return f"{self._kind} queues {','.join(self._queues) or '*'} at {self._bridge.shown}"


@click.command(cls=WorkCommand, epilog=work.epilog)
@click.argument("kind", type=click.Choice(list(kinds())))
@click.argument("target", envvar="TENURE_APP")
@click.option("--url", metavar="URL", help="Address of the other system, if TARGET is an app.")
@click.option("--namespace", metavar="NAME", help="Its namespace there. Default: that of its clients.")
@click.option(
    "-q",
    "--queues",
    multiple=True,
    callback=split_names,
    metavar="NAMES",
    help="Its queues to serve, the first before the second: names, globs, !exclusions, with commas. Default: all.",
)
@click.option("--keep", is_flag=True, help="When it stops, keep what has not started for the next bridge.")
@click.option(
    "--return", "give_back", is_flag=True, help="Run nothing: give back what bridges that are gone have left."
)
@click.pass_context
def bridge(
    ctx: click.Context,
    /,
    supervised: int | None,
    kind: str,
    url: str | None,
    namespace: str | None,
    queues: tuple[str, ...],
    keep: bool,
    give_back: bool,
    **given: Any,
) -> None:
    """Run the jobs of another system as jobs of an app, and write their ends there.

    TARGET is module:bridge or path/to/file.py:bridge; with --url, or if the module has one bridge of this kind, it may name the app.

    When it stops it gives back what it has not started, to the front. docs/bridges.md says what happens to entries when it dies.
    """
    program = BridgeProgram(kind, url, namespace, queues, keep)
    if give_back:
        sys.exit(_give_back(program.bridge(given["target"])))
    serve({**given, "queues": (), "tasks": ()}, ctx.meta[ARGUMENTS], supervised, program)


bridge.params += [parameter for parameter in work.params if parameter.name not in OTHER]


def _give_back(bridge: Bridge) -> int:
    """Give back what bridges that are gone have left, and say how much that was. Returns the exit code: 1 if entries stay."""
    from tenure.bridges.returning import give_back_all
    from tenure.cli.audit import note

    async def act() -> int:
        try:
            done = await give_back_all(bridge)
            await note(bridge.app, "give back", bridge.shown, done.returned)
        finally:
            await bridge.app.aclose()
        print_message(f"gave back {done.returned:,} entries to {bridge.kind} at {bridge.shown}")
        if done.left:
            print_message(
                f"{done.left:,} stay in custody: their bridge is at work, their queues are paused here, or their jobs run. "
                "Those of a bridge that was killed count as running until their leases end: then give this command again"
            )
        return 1 if done.left else 0

    return asyncio.run(act())
