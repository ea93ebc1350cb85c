"""The command that runs jobs."""

from __future__ import annotations

import click

from tenure.cli.refusal import note

__all__ = ["work"]


def _names(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG001
    """Take `-q a,b -q c` as a, b, c."""
    return tuple(name for value in values for part in value.split(",") if (name := part.strip()))


@click.command()
@click.argument("target")
@click.option("-q", "--queues", multiple=True, callback=_names, metavar="NAMES",
              help="Serve these, the first before the second: names, globs, !exclusions, with commas. Default: all.")  # fmt: skip
@click.option(
    "-c", "--concurrency", type=int, default=1, show_default=True, metavar="N", help="Run so many jobs at a time."
)
@click.option(
    "--tasks", multiple=True, callback=_names, metavar="NAMES", help="Run only these tasks; leave the others in line."
)
@click.option("--until-empty", is_flag=True, help="Stop when there is nothing left to run.")
@click.option(
    "--poll", type=float, default=1.0, show_default=True, metavar="SECONDS", help="Ask the store at least so often."
)
@click.option(
    "--id", "worker_id", metavar="NAME", help="Name in the registry. Default: made from host, pid and chance."
)
@click.option("--no-reap", is_flag=True, help="Leave the jobs of dead workers, and what is old, to other workers.")
@click.option("-v", "--verbose", count=True, help="Log every job; twice, whatever there is.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="In place of -v.")
def work(
    target: str,
    queues: tuple[str, ...],
    concurrency: int,
    tasks: tuple[str, ...],
    until_empty: bool,
    poll: float,
    worker_id: str | None,
    no_reap: bool,
    verbose: int,
    log_level: str | None,
) -> None:
    """Run the jobs of an app.

    TARGET is module:app or path/to/file.py:app.
    """
    from tenure.cli.logs import log_to_stderr
    from tenure.cli.target import load_app
    from tenure.errors import UnknownTask
    from tenure.stores import masked

    app = load_app(target)
    for task in tasks:
        if task not in app.tasks:
            raise UnknownTask(task, app.tasks)
    log_to_stderr(log_level or ("warning", "info", "debug")[min(verbose, 2)])
    worker = app.worker(
        queues=queues or ("*",),
        concurrency=concurrency,
        tasks=tasks or None,
        poll=poll,
        id=worker_id,
        reap=not no_reap,
    )
    note(f"at work on {masked(app.url)}, queues {','.join(queues) or '*'}, {concurrency} at a time")
    worker.run(until_empty=until_empty)
