"""`plan_of` checks what users ask of a schedule, before any I/O."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nextafter
from typing import Any

from msgspec.structs import replace

from tenure.core.after import BoundCall
from tenure.core.checks import instant, integer, seconds, shown
from tenure.core.job import NewJob
from tenure.core.keywords import ScheduleKeywords
from tenure.core.options import check_names
from tenure.core.schedule import CATCH_UP_MOST, CatchUp, Overlap, Plan
from tenure.core.when import At, Cron, Every, When
from tenure.errors import InvalidOption, InvalidSchedule

__all__ = ["check_times", "checked_options", "checked_when", "job_of", "plan_of"]


def plan_of(call: object, when: object, options: ScheduleKeywords) -> Plan:
    """The plan of these arguments. `InvalidSchedule`, `InvalidOption` or `TypeError`, before any I/O, if one is wrong."""
    check_names("schedule", "schedule", options)
    plan = Plan(job=job_of(call), when=checked_when(when), **checked_options(options))
    check_times(plan)
    return plan


def checked_when(when: object) -> When:
    if not isinstance(when, Cron | Every | At):
        hint = f": write Cron({when!r:.80})" if isinstance(when, str) else ""
        raise InvalidSchedule(f"a schedule fires by Cron(…), Every(…) or At(…), not {shown(when)}{hint}")
    return when


def job_of(call: object) -> NewJob:
    """The job that a bound call or start makes. `InvalidSchedule` if its options do not go with a schedule."""
    if not isinstance(call, BoundCall):
        hint = ": write .bind(…) behind it" if hasattr(call, "bind") else ""
        raise InvalidSchedule(f"a schedule takes a bound call or start, not {shown(call)}{hint}")
    job = call.new_job()
    for option, given, why in (
        ("delay", job.delay, "its ticks say when its jobs run"),
        ("run_at", job.run_at, "its ticks say when its jobs run"),
        ("after", call.after, 'overlap="wait" makes a job wait for the last one'),
        ("unique_raises", job.unique_raises, "no program is there to catch the error"),
        ("connection", call.connection, "it fires long after the transaction has ended"),
    ):
        if given:
            raise InvalidSchedule(f"a job of a schedule has no {option}: {why}")
    step = None if job.step is None else replace(job.step, run_id="")
    return replace(job, id="", step=step)


def checked_options(options: ScheduleKeywords) -> dict[str, Any]:
    checks: dict[str, Callable[[Any, str], Any]] = {
        "overlap": _checked_overlap,
        "catch_up": _checked_catch_up,
        "jitter": seconds,
        "starts": lambda value, option: None if value is None else instant(value, option),
        "ends": lambda value, option: None if value is None else instant(value, option),
    }
    return {option: checks[option](value, option) for option, value in options.items()}


def _checked_overlap(value: object, option: str) -> Overlap:
    try:
        return Overlap(value)  # type: ignore[arg-type]
    except ValueError:
        raise InvalidOption(f"{option} must be one of {', '.join(Overlap)}, not {shown(value)}") from None


def _checked_catch_up(value: object, option: str) -> CatchUp:
    if value == "latest" or value == "none":  # noqa: PLR1714  (so a type checker knows which)
        return value
    try:
        return int(integer(1, CATCH_UP_MOST)(value, option))
    except InvalidOption:
        raise InvalidOption(
            f'{option} must be "latest", "none" or an integer from 1 to {CATCH_UP_MOST}, not {shown(value)}'
        ) from None


def check_times(plan: Plan) -> None:
    """Raise `InvalidSchedule` if `starts` and `ends` leave it no tick at all."""
    if plan.starts is not None and plan.ends is not None and plan.starts > plan.ends:
        raise InvalidSchedule("a schedule cannot end before it starts")
    if plan.ends is not None and plan.next_tick(0.0 if plan.starts is None else nextafter(plan.starts, -inf)) is None:
        raise InvalidSchedule("the schedule has no tick between its start and its end, so it would never fire")
