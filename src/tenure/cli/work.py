"""The command that runs jobs, and its options."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["work"]

F = TypeVar("F", bound=Callable[..., Any])

ARGUMENTS = "tenure.arguments"


class Work(click.Command):
    """Remembers what it was given, for the processes that it starts."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)


class Option(click.Option):
    """Names its variable where its value is refused: that may be where it came from."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        return f"{super().get_error_hint(ctx)} (or {self.envvar})"


def size(value: str) -> int:
    """A number of bytes, such as 500000, 512M or 2G."""
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", value.strip(), re.IGNORECASE | re.ASCII)
    if found is None:
        raise click.BadParameter(f"{value!r} is no number of bytes, such as 500000, 512M or 2G.")
    return int(found[1]) << 10 * " KMGT".index(found[2].upper() or " ")


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """An option that the environment may set too: --term-timeout is TENURE_TERM_TIMEOUT."""
    long = next(name for name in names if name.startswith("--"))
    variable = "TENURE_" + long.partition("/")[0].removeprefix("--").replace("-", "_").upper()
    return click.option(*names, cls=Option, envvar=variable, allow_from_autoenv=False, **settings)


def _names(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG001
    """Take `-q a,b -q c` as a, b, c."""
    return tuple(name for value in values for part in value.split(",") if (name := part.strip()))


@click.command(
    cls=Work, epilog="Every option can also come from the environment: --term-timeout is TENURE_TERM_TIMEOUT."
)
@click.argument("target", envvar="TENURE_APP")
# What it serves.
@option("-q", "--queues", multiple=True, callback=_names, metavar="NAMES",
        help="Serve these, the first before the second: names, globs, !exclusions, with commas. Default: all.")  # fmt: skip
@option(
    "--tasks", multiple=True, callback=_names, metavar="NAMES", help="Run only these tasks; leave the others in line."
)
@option(
    "-c",
    "--concurrency",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Run so many jobs at a time, in each process.",
)
@option("--until-empty", is_flag=True, help="Stop when there is nothing left to run.")
@option(
    "--poll", type=float, default=1.0, show_default=True, metavar="SECONDS", help="Ask the store at least so often."
)
@option("--id", metavar="NAME",
        help="Name in the registry, or what the names of several processes begin with. Default: host, pid and chance.")  # fmt: skip
@option(
    "--reap/--no-reap",
    default=True,
    show_default=True,
    help="Recover the jobs of dead workers, and remove what is old.",
)
# Processes.
@option("-p", "--processes", type=click.IntRange(1), default=1, show_default=True, metavar="N",
        help="Run so many worker processes, under a supervisor.")  # fmt: skip
@option("--max-jobs", type=int, metavar="N", help="Replace a process that has run so many jobs.")
@option("--max-age", type=float, metavar="SECONDS", help="Replace a process that is so old.")
@option("--max-memory", type=size, metavar="SIZE", help="Replace a process that occupies so much memory, such as 512M.")
@option("--reload", is_flag=True, help="For development: start anew whenever a source file of the app changes.")
@option("--background", is_flag=True, help="Go on in the background, under a supervisor, once the app is imported.")
@option(
    "--pidfile",
    type=click.Path(dir_okay=False),
    metavar="PATH",
    help="Keep the process id there; refuse if such a process runs.",
)
# Isolation.
@option(
    "--isolation", type=click.Choice(["process"]), help="Run each job in a child process of its own, whatever its task."
)
@option("--isolated", type=int, metavar="N", help="Child processes at a time. Default: as many as jobs.")
@option("--run-atexit", is_flag=True, help="Let child processes run their atexit handlers.")
# Stopping.
@option("--term-timeout", type=float, default=4.0, show_default=True, metavar="SECONDS",
        help="Let jobs that TERM or INT has told to stop clean up for so long; then release them.")  # fmt: skip
@option("--pre-shutdown-timeout", type=float, default=0.0, show_default=True, metavar="SECONDS",
        help="Wait so long after TERM or INT before telling jobs to stop.")  # fmt: skip
@option("--term-child/--no-term-child", default=True, show_default=True,
        help="Tell jobs to stop before they are killed or released; else that happens at once.")  # fmt: skip
@option("--graceful-term", is_flag=True, help="Finish the jobs in hand on TERM, however long they take, as on QUIT.")
@option(
    "--fail-interrupted",
    is_flag=True,
    help="Let jobs that TERM or INT has interrupted fail, instead of releasing them.",
)
# Watching.
@option(
    "--health-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Answer there, over HTTP, whether the worker is well.",
)
@option("--health-host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Answer at this address.")
@option(
    "-v",
    "--verbose",
    count=True,
    help="Log every job, and show the traceback of an import that fails; twice, log whatever there is.",
)
@option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="In place of -v.")
@option(
    "--log-format",
    type=click.Choice(["human", "json"]),
    default="human",
    show_default=True,
    help="Write log lines for people, or as JSON.",
)
@click.option("--supervised", type=int, hidden=True, allow_from_autoenv=False)
@click.pass_context
def work(ctx: click.Context, /, supervised: int | None, **given: Any) -> None:
    """Run the jobs of an app.

    TARGET is module:app or path/to/file.py:app; it may come from TENURE_APP.

    TERM and ^C tell running jobs to stop, give them 4 seconds, and put back in line what has not ended. To let jobs finish first:
    --graceful-term, for as long as they take; or --pre-shutdown-timeout, for so many seconds. docs/worker.md says which is best for whom.

    Exits with 0 when told to stop or when there is nothing left to do, with 1 when something went wrong, with 2 when it cannot
    do what it was asked.
    """
    from tenure.cli.service import serve

    serve(given, ctx.meta[ARGUMENTS], supervised)
