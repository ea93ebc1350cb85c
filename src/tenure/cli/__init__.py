"""The command line (cli): one module for each noun, imported when one of its commands is used."""

from __future__ import annotations

import tenure.cli.early  # noqa: F401  # isort: skip  (first, because other imports take time)

import difflib
import importlib
import keyword

import click

from tenure.cli.messages import CommandError
from tenure.errors import TenureError

__all__ = ["main"]

COMMANDS = {
    "work": ("work", "Run the jobs of an app."),
    "bridge": ("bridge", "Run the jobs of Resque and other systems as jobs of an app."),
    "demo": ("demo", "Watch jobs run, fail, retry and survive a kill -9."),
    "enqueue": ("enqueue", "Enqueue a job of a task and print its id."),
    "jobs": ("jobs", "List jobs, the newest first or in queue order."),
    "job": ("jobs", "Show everything about one job, and its timeline."),
    "explain": ("explain", "Say why a job does not run, and what to do about it."),
    "failed": ("failed", "List, show, retry and delete jobs that have failed."),
    "broken": ("failed", "The same for jobs that no worker could read."),
    "flows": ("flows", "List runs of flows, the newest first."),
    "start": ("flows", "Start a run of a flow and print its id."),
    "run": ("flows", "Show everything about one run, and its steps so far."),
    "schedules": ("schedules", "List the schedules, when each fires and what its last tick did."),
    "schedule": ("schedules", "Show, preview, add, change, pause, trigger or delete one."),
    "cancel": ("actions", "Cancel jobs by id, or all that match a filter."),
    "retry": ("actions", "Run finished jobs again, as if never tried."),
    "trigger": ("actions", "Make scheduled jobs due now."),
    "release": ("actions", "Take running jobs from their workers, back to the front."),
    "delete": ("actions", "Delete jobs, and runs with all their steps."),
    "complete": ("actions", "Complete a job, or a step, as if its function had returned."),
    "queues": ("queues", "List the queues and how many jobs each has."),
    "pause": ("queues", "Pause a queue, or all: workers get no more of its jobs."),
    "resume": ("queues", "Resume a queue, or all: workers get its jobs again."),
    "purge": ("queues", "Delete all jobs of a queue that have not started."),
    "workers": ("workers", "List the workers, what they serve and what they run."),
    "order": ("workers", "Tell workers to lease no more jobs, to go on, or to stop."),
    "retire": ("workers", "Give the jobs of dead workers to others at once."),
    "health": ("health", "Check whether the workers work, and what is stuck."),
    "stats": ("stats", "Show totals since the store was created, by queue and worker."),
    "history": ("history", "Show rates, lengths, waits and failures over time."),
    "mark": ("history", "Mark this moment in the history, such as a deploy."),
    "audit": ("audit", "List what operators have done, the latest first."),
    "top": ("top", "Watch the queues, and what runs, fails and needs attention."),
    "dashboard": ("dashboard", "Show it all in a browser, and act there."),
    "watch": ("watch", "Show events as they happen."),
    "metrics": ("metrics", "Serve the metrics of the whole system to Prometheus."),
    "completion": ("completion", "Print a script for the completion of your shell."),
    "schema": ("schema", "Show the layout of the store, or migrate it."),
    "doctor": ("doctor", "Examine the store, and say what to improve."),
    "import": ("importing", "Move what waits in another system into Tenure."),
    "check": ("check", "Say whether new code would run what is in the queues."),
}
"""The module of each command and its line in the help, in the order of the help, which imports none of them."""


class Commands(click.Group):
    """A group that imports a command when it is named, and prints a `TenureError` as one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            close = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "tenure --help lists them all."
            raise CommandError(f"there is no command {cmd_name!r}: {hint}")
        module = importlib.import_module(f"tenure.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except TenureError as error:
            raise CommandError(str(error)) from error


@click.group(
    cls=Commands,
    context_settings={"auto_envvar_prefix": "TENURE", "help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every option can also come from the environment: --limit of tenure jobs is TENURE_JOBS_LIMIT. Options of tenure work have no command in the name: --concurrency is TENURE_CONCURRENCY.",
)
@click.version_option(package_name="tenure")
def main() -> None:
    """Jobs held on leases: never lost once acknowledged, never finished by a stale worker."""
