"""The commands of `tenure schedule` that write: add, change, pause, resume, trigger, backfill, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tenure.cli.actions import report
from tenure.cli.audit import note
from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.enqueue import Json, bound_call, header_option
from tenure.cli.flows import bound_start
from tenure.cli.messages import CommandError, print_message
from tenure.cli.names import QUEUE, TASK
from tenure.cli.values import NEVER, Instant, Seconds
from tenure.core.after import BoundCall
from tenure.core.escape import escaped
from tenure.core.job import NewJob
from tenure.documents import past_tick_document, schedule_document, scheduled_job_document

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.core.when import When
    from tenure.jobs.schedules import PastTick, Schedule

__all__ = ["add", "backfill", "change", "delete", "pause", "resume", "trigger", "when_of"]

Command = TypeVar("Command", bound=Callable[..., Any])

SCHEDULE_OPTIONS = ("overlap", "catch_up", "jitter", "starts", "ends")
JOB_OPTIONS = ("queue", "priority", "tags", "headers")


def _call_options(command: Command) -> Command:
    """Add the arguments and options that say what a schedule enqueues."""
    for option in (
        header_option,
        click.option("--tag", "tags", multiple=True, help="A tag to find its jobs by; may be given several times."),
        click.option("--priority", type=int, metavar="N", help="Lower runs first. Default: the task's priority, or 0."),
        click.option(
            "-q", "--queue", type=QUEUE, help="The queue of its jobs. Default: the task's queue, or 'default'."
        ),
        click.option(
            "--lookup",
            multiple=True,
            metavar="NAME",
            help="An attribute to find runs by; only without --app; may be given several times.",
        ),
        click.option("--first", metavar="STEP", help="The first step of --flow; required without --app."),
        click.option("--kwargs", type=Json(), metavar="JSON", help="Arguments of --task by name, as a JSON object."),
        click.option("--flow", help="The flow to start."),
        click.option("--task", type=TASK, help="The task to enqueue."),
        click.argument("arguments", nargs=-1, metavar="[ARGUMENT]..."),
    ):
        command = option(command)
    return command


def _time_options(command: Command) -> Command:
    """Add the options that say when a schedule fires, and how."""
    bound = Instant(removable=True)
    for option in (
        click.option("--ends", type=bound, metavar="TIME", help="No tick is later than this."),
        click.option(
            "--starts", type=bound, metavar="TIME", help="No tick is earlier than this; --every counts from it."
        ),
        click.option(
            "--jitter", type=Seconds(), metavar="DURATION", help="A job is due up to this long after its tick."
        ),
        click.option(
            "--catch-up",
            metavar="latest|none|N",
            help="Which ticks that were not fired in time are fired later. Default: latest.",
        ),
        click.option(
            "--overlap",
            type=click.Choice(["allow", "skip", "wait", "replace"]),
            help="What happens at a tick while the last job is not final. Default: allow.",
        ),
        click.option(
            "--at", type=Instant(), metavar="TIME", help="Fire once, at this time, such as 2027-03-01T09:00Z."
        ),
        click.option(
            "--every", type=Seconds(), metavar="DURATION", help="Fire at this interval: seconds, or 90s, 15m, 2h, 1d."
        ),
        click.option("--timezone", metavar="ZONE", help="The time zone of --cron, such as Europe/Paris. Default: UTC."),
        click.option("--cron", metavar="TEXT", help="Fire when this cron text matches, such as '0 3 * * *'."),
    ):
        command = option(command)
    return command


def when_of(cron: str | None, timezone: str | None, every: float | None, at: datetime | None) -> When | None:
    """What one of these options says; None if none was given. `CommandError` if several were."""
    from tenure.core.when import At, Cron, Every

    if sum(each is not None for each in (cron, every, at)) > 1:
        raise CommandError("give one of --cron, --every and --at, because a schedule fires in one way")
    if timezone is not None and cron is None:
        raise CommandError("--timezone is the time zone of a --cron: give that too")
    if cron is not None:
        return Cron(cron) if timezone is None else Cron(cron, timezone)
    if every is not None:
        return Every(every)
    return None if at is None else At(at)


def _when(given: Mapping[str, Any]) -> When | None:
    return when_of(*(given[name] for name in ("cron", "timezone", "every", "at")))


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a schedule that were given."""
    options = {name: given[name] for name in SCHEDULE_OPTIONS if given[name] is not None}
    if str(options.get("catch_up", "")).isdecimal():
        options["catch_up"] = int(options["catch_up"])
    return {name: None if value == NEVER and name != "catch_up" else value for name, value in options.items()}


def _call(app: App, given: Mapping[str, Any]) -> BoundCall | None:
    """The call or start that was given; None if neither --task nor --flow was."""
    task, flow, arguments = given["task"], given["flow"], given["arguments"]
    if task is not None and flow is not None:
        raise CommandError("give --task or --flow, not both")
    if flow is None and (given["first"] is not None or given["lookup"]):
        raise CommandError("--first and --lookup are about a --flow: give that too")
    if task is None and given["kwargs"] is not None:
        raise CommandError("--kwargs are arguments of a --task: give that too; attributes of a flow are NAME=VALUE")
    options = {name: given[name] for name in JOB_OPTIONS}
    if task is not None:
        args = [Json().convert(each, None, None) for each in arguments]
        return bound_call(app, task, args, given["kwargs"] or {}, options)
    if flow is not None:
        return bound_start(app, flow, arguments, first=given["first"], lookup=given["lookup"], **options)
    if arguments:
        raise CommandError("these are arguments of what? Name it with --task or --flow")
    return None


@click.command()
@click.argument("name")
@_call_options
@_time_options
@json_option
@with_app(empty=True)
async def add(app: App, name: str, as_json: bool, **given: Any) -> None:
    """Add a schedule of a task or a flow. Any worker fires it.

    ARGUMENTs are JSON for a task, and NAME=VALUE for a flow. With --app they are checked as by tenure enqueue and tenure
    start. To add the same schedule again changes nothing; another one of the same name is refused.
    """
    call, when = _call(app, given), _when(given)
    if call is None:
        raise CommandError("say what the schedule enqueues: --task or --flow")
    if when is None:
        raise CommandError("say when the schedule fires: --cron, --every or --at")
    known = await _exists(app, name)
    made = await app.acreate_schedule(name, call, when, **_options(given))  # type: ignore[arg-type]
    if not known:
        await note(app, "schedule add", name, 1)
    return emit(schedule_document(made)) if as_json else _say("added", made)


async def _exists(app: App, name: str) -> bool:
    from tenure.errors import ScheduleNotFound

    try:
        await app.aget_schedule(name)
    except ScheduleNotFound:
        return False
    return True


class SameCall(BoundCall):
    """What a schedule enqueues already, with other options."""

    __slots__ = ("_job", "_options")

    def __init__(self, job: NewJob, options: Mapping[str, Any]) -> None:
        from tenure.core.checks import job_options

        self._job = job
        self._options = job_options(options)

    def new_job(self) -> NewJob:
        from msgspec.structs import replace

        return replace(self._job, **self._options)


@click.command()
@click.argument("name")
@_call_options
@_time_options
@click.option("--clear", is_flag=True, help="Drop what was changed at run time: the declaration in code holds again.")
@json_option
@with_app()
async def change(app: App, name: str, clear: bool, as_json: bool, **given: Any) -> None:
    """Change when a schedule fires, what it enqueues, or how.

    --starts none and --ends none remove a bound. Another time starts from now; anything else keeps the next tick. If the schedule is declared in code, what is changed here
    wins over the declaration, also after a deploy, until --clear.
    """
    found = await app.aget_schedule(name)
    call, when, options = _call(app, given), _when(given), _options(given)
    job_options = {option: given[option] for option in JOB_OPTIONS if given[option] not in (None, ())}
    if call is None and job_options:
        call = SameCall(found._settings.effective.job, job_options)
    anything = call is not None or when is not None or bool(options)
    if clear == anything:
        raise CommandError("say what to change, or give --clear alone")
    if clear:
        changed = await found.aclear()
    else:
        changed = await found.achange(when, call=call, **options)  # type: ignore[arg-type]
    if changed:
        await note(app, "schedule change", name, 1)
    if as_json:
        return emit({**schedule_document(found), **scheduled_job_document(found)})
    if not changed:
        return click.echo(f"{name} has no changes to clear" if clear else f"{name} is like that already")
    return _say("cleared the changes of" if clear else "changed", found)


@click.command()
@click.argument("name")
@with_app()
async def pause(app: App, name: str) -> None:
    """Pause a schedule until it is resumed, also after a deploy. Its jobs are not affected."""
    found = await app.aget_schedule(name)
    if not await found.apause():
        return click.echo(f"{name} is already paused")
    await note(app, "schedule pause", name, 1)
    return click.echo(f"paused {name}")


@click.command()
@click.argument("name")
@with_app()
async def resume(app: App, name: str) -> None:
    """Resume a schedule from its next tick on. Ticks of the pause are not made up for."""
    found = await app.aget_schedule(name)
    if not await found.aresume():
        return click.echo(f"{name} is not paused")
    await note(app, "schedule resume", name, 1)
    return _say("resumed", found)


@click.command()
@click.argument("name")
@json_option
@with_app()
async def trigger(app: App, name: str, as_json: bool) -> None:
    """Fire a schedule now, outside of its ticks.

    It may be paused, and its next tick stays. Its overlap decides as at a tick: the exit code is 2 if nothing was enqueued.
    """
    found = await app.aget_schedule(name)
    fired = await found.atrigger()
    if fired.enqueued:
        await note(app, "schedule trigger", name, 1)
    if as_json:
        emit(past_tick_document(fired))
    elif fired.enqueued:
        done = f"enqueued job {fired.job_id}" if found.flow is None else f"started run {fired.job_id}"
        click.echo(done + ("" if fired.replaced is None else f", cancelled {fired.replaced}"))
    if not fired.enqueued:
        print_message(f"schedule {name} has enqueued nothing, because {_obstacle(found, fired)}")
        raise click.exceptions.Exit(2)


def _obstacle(schedule: Schedule, fired: PastTick) -> str:
    """Why a tick enqueued nothing."""
    job = f"{'job' if schedule.flow is None else 'run'} {fired.job_id}"
    match fired.end.value:
        case "skipped":
            return f"{job} is not final and its overlap is {schedule.overlap}"
        case "duplicate":
            return f"{job} has its unique key"
        case "refused":
            return "a before_enqueue hook refused it"
    return f"its tick is {fired.end}"


@click.command()
@click.argument("name")
@click.option(
    "--since", type=Instant(), required=True, metavar="TIME", help="The first tick, such as 2027-03-01T09:00Z."
)
@click.option("--until", type=Instant(), required=True, metavar="TIME", help="The last tick; not in the future.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@with_app()
async def backfill(app: App, name: str, since: datetime, until: datetime, yes: bool, as_json: bool) -> None:
    """Enqueue past ticks of a schedule that were not fired.

    At most 1,000, whatever its overlap. The command first shows how many there are and asks for confirmation. Ticks whose jobs are still recorded are left out.
    """
    found = await app.aget_schedule(name)
    page = await found._read()
    count = len(await found._unfired(since.timestamp(), until.timestamp(), page.now))
    if not count:
        print_message(f"schedule {name} has no tick in that time that was not fired")
    elif not yes:
        jobs = "job" if count == 1 else "jobs"
        click.confirm(f"Enqueue {count:,} {jobs} for past ticks of {name}?", abort=True, err=True)
    fired = await found.abackfill(since, until) if count else []
    enqueued = [each for each in fired if each.enqueued]
    if enqueued:
        await note(app, "schedule backfill", name, len(enqueued))
    if as_json:
        return emit({"backfilled": len(enqueued), "ticks": [past_tick_document(each) for each in fired]})
    report("backfilled", len(enqueued), ())
    if len(enqueued) < len(fired):
        first = next(each for each in fired if not each.enqueued)
        print_message(f"{len(fired) - len(enqueued):,} were not enqueued; of the first, {_obstacle(found, first)}")
    return None


@click.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@with_app()
async def delete(app: App, name: str, yes: bool) -> None:
    """Delete a schedule; its jobs stay.

    One that is declared in code is refused, because the next worker would create it again: remove it there, or pause it.
    """
    found = await app.aget_schedule(name)
    found._check_deletable((await found._read()).now)
    if not yes:
        click.confirm(f"Delete schedule {name}?", abort=True, err=True)
    await found.adelete()
    await note(app, "schedule delete", name, 1)
    click.echo(f"deleted {name}")


def _say(done: str, schedule: Schedule) -> None:
    """Print what was done to a schedule, in words when it fires, and its next tick."""
    from tenure.cli.display import distance, utc

    click.echo(escaped(f"{done} {schedule.name}: {schedule.words}"))
    if schedule.next_at is not None:
        click.echo(f"next tick: {utc(schedule.next_at)} UTC ({distance(schedule.next_at.timestamp())})")
    elif schedule.paused:
        click.echo("it is paused")
