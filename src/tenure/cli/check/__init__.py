"""The command check: says whether the code of an app would run the jobs in the queues, or those of recorded code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tenure.cli.document import emit, json_option
from tenure.cli.messages import CommandError
from tenure.cli.progress import progress

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.cli.check.findings import Finding
    from tenure.core.job import JobRecord
    from tenure.stores.base import Store
    from tenure.stores.values import QueueInfo

__all__ = ["check"]

EVERY = 100_000
"""Jobs after which the progress is printed, where there is no terminal."""

Serves = Callable[[str], bool]


@click.command()
@click.argument("target", envvar="TENURE_APP", metavar="APP")
@click.option("--url", metavar="URL", help="The store whose jobs are read. Default: the store of the app.")
@click.option("--all", "everything", is_flag=True, help="Read all unfinished jobs, not only the first of each queue and state and the newest.")  # fmt: skip
@click.option("--failed", is_flag=True, help="Read failed and broken jobs too, which may be retried.")
@click.option("--record", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write names, versions and parameters of the tasks to FILE, and read no store.")  # fmt: skip
@click.option("--against", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Compare with the code that was recorded in FILE, and read no store.")  # fmt: skip
@click.option("--serves", metavar="QUEUES", help="The queues that the workers of the deploy serve, such as 'mail,*'.")
@json_option
def check(
    target: str,
    url: str | None,
    everything: bool,
    failed: bool,
    record: Path | None,
    against: Path | None,
    serves: str | None,
    as_json: bool,
) -> None:
    """Say whether the code of APP (module:app or file.py:app) would run what is in the queues.

    Run it with the new code before a deploy. It reads jobs, runs and schedules as workers do, and changes nothing. --record and
    --against compare the code with that of an earlier commit instead, for which no store is needed. The exit code is 0 if all is
    fine, 1 if jobs would not run, and 2 if the question could not be answered.
    """
    import asyncio

    from tenure.cli.target import load_app

    if (record is not None or against is not None) and (url is not None or everything or failed):
        raise CommandError("--record and --against read no store: leave --url, --all and --failed out")
    is_served = _serving(serves)
    app = load_app(target)
    findings = _code(app)
    if against is not None:
        findings += _compared(app, against, is_served)
        facts: dict[str, object] = {"against": str(against)}
    elif record is None:
        found, facts = asyncio.run(_examined(app, url, is_served, everything=everything, failed=failed))
        findings += found
    else:
        facts = {"recorded": str(record)}
    if record is not None:
        from tenure.cli.check.record import record_of, write_record

        write_record(record_of(app), record)
    _show(findings, facts, as_json=as_json)
    if any(each.verdict == "bad" for each in findings):
        raise click.exceptions.Exit(1)


def _serving(serves: str | None) -> Serves:
    """Whether a queue is served; without --serves, every one is. `InvalidOption` if the list is wrong."""
    from tenure.core.patterns import checked
    from tenure.core.patterns import serves as is_served

    if serves is None:
        return lambda queue: True  # noqa: ARG005
    patterns = tuple(each.strip() for each in serves.split(",") if each.strip())
    if not patterns:
        raise CommandError("--serves needs at least one queue, such as 'mail,*'")
    checked(patterns)
    return lambda queue: is_served(patterns, queue)


def _code(app: App) -> list[Finding]:
    """Whether a worker with this code starts at all."""
    from tenure.cli.check.findings import Finding
    from tenure.errors import InvalidOption

    try:
        app.internals.check_code()
    except InvalidOption as error:
        return [Finding(name="worker", verdict="bad", text=f"does not start: {error}")]
    return []


def _compared(app: App, against: Path, is_served: Serves) -> list[Finding]:
    from tenure.cli.check.comparing import compare
    from tenure.cli.check.record import read_record

    return compare(read_record(against), app, is_served)


async def _examined(
    app: App, url: str | None, is_served: Serves, *, everything: bool, failed: bool
) -> tuple[list[Finding], dict[str, object]]:
    """What was found in the store, and the numbers of what was looked at."""
    from tenure.cli.check.examining import Examination, all_jobs, sampled_jobs, total
    from tenure.cli.connection import _empty_store
    from tenure.jobs.schedules import all_schedules
    from tenure.stores import open_store

    store = open_store(url) if url is not None else app.internals.make_store()
    try:
        if (await store.layout()).found is None:
            raise _empty_store(url or app.url)
        queues = await _queues(store)
        number = total(queues, failed=failed)
        examination = Examination(app, store)
        jobs = all_jobs(store, failed=failed) if everything else sampled_jobs(store, queues, failed=failed)
        await _walk(jobs, examination.look_at, number)
        findings = examination.findings()
        async for page in all_schedules(store):
            findings += [found for each in page.schedules if (found := examination.look_at_schedule(each)) is not None]
        findings += _unserved(queues, is_served)
    finally:
        await store.close()
    facts: dict[str, object] = {
        "looked_at": examination.jobs,
        "jobs": number,
        "runs": examination.runs,
        "all": everything,
    }
    return findings, facts


async def _queues(store: Store) -> list[QueueInfo]:
    return await store.queues()


def _unserved(queues: list[QueueInfo], is_served: Serves) -> list[Finding]:
    """Queues with unfinished jobs that no worker of the deploy serves."""
    from tenure.cli.check.examining import total
    from tenure.cli.check.findings import Finding

    return [
        Finding(
            name=f"queue {queue.name}",
            verdict="bad",
            jobs=number,
            text="no worker of --serves serves it",
            advice="Add it to --queues of a worker.",
        )
        for queue in queues
        if (number := total([queue], failed=False)) and not is_served(queue.name)
    ]


async def _walk(jobs: AsyncIterator[list[JobRecord]], look_at: Callable[..., object], number: int) -> None:
    with progress(number, "looked at", "jobs", EVERY) as advance:
        async for page in jobs:
            await look_at(page)  # type: ignore[misc]
            advance(len(page))


def _show(findings: list[Finding], facts: dict[str, object], *, as_json: bool) -> None:
    from tenure.cli.check.examining import FIRST, NEWEST
    from tenure.cli.check.findings import document, print_findings

    if as_json:
        return emit(document(findings, **facts))
    if "looked_at" in facts:
        which = "" if facts["all"] else f" (the first {FIRST:,} of each queue and state, the newest {NEWEST:,})"
        click.echo(f"looked at {facts['looked_at']:,} of {facts['jobs']:,} jobs{which}, {facts['runs']:,} runs")
    elif "recorded" in facts:
        click.echo(f"recorded in {facts['recorded']}")
    return print_findings(findings)
