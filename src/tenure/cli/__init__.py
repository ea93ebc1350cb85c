"""The command line: one file a noun, each imported when its command is used."""

from __future__ import annotations

import difflib
import importlib

import click

from tenure.cli.refusal import Refusal
from tenure.errors import TenureError

__all__ = ["main"]

COMMANDS = {
    "work": "work",
    "demo": "demo",
    "enqueue": "enqueue",
    "jobs": "jobs",
    "job": "jobs",
    "flows": "flows",
    "run": "flows",
    "cancel": "actions",
    "retry": "actions",
    "trigger": "actions",
    "delete": "actions",
    "complete": "actions",
    "queues": "queues",
    "pause": "queues",
    "resume": "queues",
    "purge": "queues",
    "workers": "workers",
    "retire": "workers",
    "health": "health",
    "stats": "stats",
    "schema": "schema",
    "doctor": "doctor",
}
"""Which module of this package has which command, in the order of the help."""


class Commands(click.Group):
    """A group that imports a command when it is named, and turns what Tenure refuses into one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            close = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "tenure --help lists them all."
            raise Refusal(f"there is no command {cmd_name!r}: {hint}")
        module = importlib.import_module(f"tenure.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except TenureError as error:
            raise Refusal(str(error)) from error


@click.group(
    cls=Commands,
    context_settings={"auto_envvar_prefix": "TENURE", "help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every option can also come from the environment: --limit of jobs is TENURE_JOBS_LIMIT; those of work are shorter, --concurrency is TENURE_CONCURRENCY.",
)
@click.version_option(package_name="tenure")
def main() -> None:
    """Jobs held on leases: never lost once acknowledged, never finished by a stale worker."""
