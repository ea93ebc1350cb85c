"""`tenure work`: the command that runs jobs, and its options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from tenure.core.options import WorkerOptions

__all__ = ["ARGUMENTS", "WorkCommand", "split_names", "work"]

F = TypeVar("F", bound=Callable[..., Any])

ARGUMENTS = "tenure.arguments"


class WorkCommand(click.Command):
    """Stores its arguments in the click context, for the processes that a supervisor starts."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)


class EnvironmentOption(click.Option):
    """An option whose error messages also name its environment variable, because the value may come from there."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        return f"{super().get_error_hint(ctx)} (or {self.envvar})"


def size(value: str) -> int:
    """Parse a number of bytes, such as 500000, 512M or 2G."""
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", value.strip(), re.IGNORECASE | re.ASCII)
    if found is None:
        raise click.BadParameter(f"{value!r} is no number of bytes, such as 500000, 512M or 2G.")
    return int(found[1]) << 10 * " KMGT".index(found[2].upper() or " ")


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """An option that can also come from the environment: --term-timeout is TENURE_TERM_TIMEOUT."""
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
"""Type of an option on the command line and the name of its value in the help, by the type of its field."""


def list_option(*names: str, help: str) -> Callable[[F], F]:  # noqa: A002
    """An option that takes several names: `-q a,b -q c` is a, b, c."""
    return option(*names, multiple=True, callback=split_names, metavar="NAMES", help=help)


def split_names(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG001
    """The names in the values of an option, which have commas between them."""
    return tuple(name for value in values for part in value.split(",") if (name := part.strip()))


@click.command(
    cls=WorkCommand, epilog="Every option can also come from the environment: --term-timeout is TENURE_TERM_TIMEOUT."
)
@click.argument("target", envvar="TENURE_APP")
# What to serve.
@list_option(
    "-q",
    "--queues",
    help="Queues to serve, the first before the second: names, globs, !exclusions, with commas. Default: all.",
)
@list_option("--tasks", help="Run only these tasks; leave jobs of others to other workers. Default: all.")
@worker_option("concurrency", "Jobs to run at a time, in each process.", "-c")
@option("--until-empty", is_flag=True, help="Stop when no job is left to run.")
@worker_option("poll", "Ask the store for jobs at least this often.")
@worker_option(
    "id",
    "Name in the registry; with several processes, the prefix of their names. Default: made from host, pid and a random part.",
)
@worker_option("reap", "Recover the jobs of dead workers, fire schedules, and remove old jobs.")
# Processes.
@option("-p", "--processes", type=click.IntRange(1), default=1, show_default=True, metavar="N",
        help="Worker processes to run; several run under a supervisor.")  # fmt: skip
@worker_option("max_jobs", "Replace a process after this many jobs.")
@worker_option("max_age", "Replace a process at this age.")
@worker_option("max_memory", "Replace a process that uses this much memory, such as 512M.", type=size, metavar="SIZE")
@option("--reload", is_flag=True, help="For development: restart when a source file of the app changes.")
@option("--background", is_flag=True, help="Continue in the background, under a supervisor, once the app is imported.")
@option(
    "--pidfile",
    type=click.Path(dir_okay=False),
    metavar="PATH",
    help="Write the process id to this file; refuse to start if that process is running.",
)
# Isolation.
@worker_option("isolation", "Run each job in a new child process, unless its task has another isolation.")
@worker_option("isolated", "Child processes at a time. Default: as many as --concurrency.")
@worker_option("run_atexit", "Let child processes run their atexit handlers.")
# Stopping.
@worker_option(
    "term_timeout",
    "Time that jobs have to clean up after TERM or INT has sent them the abort signal; then they are released.",
)
@worker_option("pre_shutdown_timeout", "Time to wait after TERM or INT before jobs get the abort signal.")
@worker_option(
    "term_child", "Send jobs the abort signal before they are killed or released; otherwise that happens at once."
)
@worker_option("graceful_term", "On TERM, finish the running jobs, however long they take, as on QUIT.")
@worker_option("fail_interrupted", "Fail jobs that TERM or INT has interrupted, instead of releasing them.")
# Monitoring.
@worker_option(
    "health_port",
    "Port of the HTTP health check. Default: none.",
    type=click.IntRange(0, 65535),
    metavar="PORT",
)
@worker_option("health_host", "Address of the HTTP health check.", metavar="ADDRESS")
@option(
    "-v",
    "--verbose",
    count=True,
    help="Log every job, and show the traceback of a failed import; twice, log everything.",
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

    TERM and ^C send running jobs the abort signal, give them 4 seconds to clean up, and put those that have not ended back in their
    queues. To let jobs finish first, use --graceful-term (no time limit) or --pre-shutdown-timeout (in seconds). docs/worker.md says
    when to use which.

    Exit status: 0 if it was stopped or has nothing left to run, 1 after an error, 2 if it refuses its arguments or the app.
    """
    from tenure.cli.service import Program, serve

    serve(given, ctx.meta[ARGUMENTS], supervised, Program())
