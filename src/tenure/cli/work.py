"""The command that runs jobs, and its options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from tenure.core.options import WorkerOptions

__all__ = ["work"]

F = TypeVar("F", bound=Callable[..., Any])

ARGUMENTS = "tenure.arguments"


class WorkCommand(click.Command):
    """Remembers what it was given, for the processes that it starts."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)


class EnvironmentOption(click.Option):
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
    return click.option(*names, cls=EnvironmentOption, envvar=variable, allow_from_autoenv=False, **settings)


def worker_option(name: str, help: str, short: str = "", **settings: Any) -> Callable[[F], F]:  # noqa: A002
    """An option of `WorkerOptions` on the command line. It takes its name, type and default from there."""
    field = WorkerOptions.__dataclass_fields__[name]
    long = "--" + name.replace("_", "-")
    if field.default is True:
        settings |= {"default": True, "show_default": True}
        long = f"{long}/{long.replace('--', '--no-')}"
    elif field.default is False:
        settings["is_flag"] = True
    else:
        kind, metavar = KINDS[str(field.type).removesuffix(" | None")]
        settings = {"type": kind, "metavar": metavar} | settings
        if field.default is not None:
            settings |= {"default": field.default, "show_default": True}
    return option(*filter(None, (short, long)), help=help, **settings)


KINDS: Mapping[str, tuple[Any, str | None]] = {
    "int": (int, "N"),
    "Duration": (float, "SECONDS"),
    "str": (str, "NAME"),
    "Literal['process']": (click.Choice(["process"]), None),
}
"""How the command line reads an option, and shows its value, by the type of its field."""


def list_option(*names: str, help: str) -> Callable[[F], F]:  # noqa: A002
    """An option that takes several names: `-q a,b -q c` is a, b, c."""
    return option(*names, multiple=True, callback=_names, metavar="NAMES", help=help)


def _names(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG001
    return tuple(name for value in values for part in value.split(",") if (name := part.strip()))


@click.command(
    cls=WorkCommand, epilog="Every option can also come from the environment: --term-timeout is TENURE_TERM_TIMEOUT."
)
@click.argument("target", envvar="TENURE_APP")
# What it serves.
@list_option(
    "-q",
    "--queues",
    help="Serve these, the first before the second: names, globs, !exclusions, with commas. Default: all.",
)
@list_option("--tasks", help="Run only these tasks; leave the others in line.")
@worker_option("concurrency", "Run so many jobs at a time, in each process.", "-c")
@option("--until-empty", is_flag=True, help="Stop when there is nothing left to run.")
@worker_option("poll", "Ask the store at least so often.")
@worker_option(
    "id", "Name in the registry, or what the names of several processes begin with. Default: host, pid and chance."
)
@worker_option("reap", "Recover the jobs of dead workers, and remove what is old.")
# Processes.
@option("-p", "--processes", type=click.IntRange(1), default=1, show_default=True, metavar="N",
        help="Run so many worker processes, under a supervisor.")  # fmt: skip
@worker_option("max_jobs", "Replace a process that has run so many jobs.")
@worker_option("max_age", "Replace a process that is so old.")
@worker_option("max_memory", "Replace a process that occupies so much memory, such as 512M.", type=size, metavar="SIZE")
@option("--reload", is_flag=True, help="For development: start anew whenever a source file of the app changes.")
@option("--background", is_flag=True, help="Go on in the background, under a supervisor, once the app is imported.")
@option(
    "--pidfile",
    type=click.Path(dir_okay=False),
    metavar="PATH",
    help="Keep the process id there; refuse if such a process runs.",
)
# Isolation.
@worker_option("isolation", "Run each job in a child process of its own, whatever its task.")
@worker_option("isolated", "Child processes at a time. Default: as many as jobs.")
@worker_option("run_atexit", "Let child processes run their atexit handlers.")
# Stopping.
@worker_option("term_timeout", "Let jobs that TERM or INT has told to stop clean up for so long; then release them.")
@worker_option("pre_shutdown_timeout", "Wait so long after TERM or INT before telling jobs to stop.")
@worker_option("term_child", "Tell jobs to stop before they are killed or released; else that happens at once.")
@worker_option("graceful_term", "Finish the jobs in hand on TERM, however long they take, as on QUIT.")
@worker_option("fail_interrupted", "Let jobs that TERM or INT has interrupted fail, instead of releasing them.")
# Watching.
@worker_option(
    "health_port",
    "Answer there, over HTTP, whether the worker is well.",
    type=click.IntRange(0, 65535),
    metavar="PORT",
)
@worker_option("health_host", "Answer at this address.", metavar="ADDRESS")
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
