"""A schedule on each store whose clock moves by hand, and what workers do with it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure import App, Every, Job, Schedule
from tenure.core.schedule import ScheduleRecord, ScheduleSearch
from tenure.tasks.task import Task
from tenure.worker.scheduler import Scheduler

from .conftest import Timed

__all__ = [
    "MINUTE",
    "NEXT",
    "NOW",
    "arguments",
    "create",
    "ends",
    "fire",
    "jobs_of",
    "make_report",
    "pass_time",
    "report",
    "stored",
]

NOW = datetime.fromtimestamp(1_700_000_000, UTC)
"""The time at which the clocks of these tests start: 22:13:20."""

MINUTE = timedelta(minutes=1)
NEXT = NOW.replace(minute=14, second=0)
"""The first tick of `Every(60)` after that."""


@pytest.fixture
def report(timed: Timed) -> Task[[str], None]:
    return make_report(timed.app)


def make_report(app: App) -> Task[[str], None]:
    @app.task(queue="reports")
    def report(region: str) -> None: ...

    return report


async def create(timed: Timed, report: Task[[str], None], **options: Any) -> Schedule:
    """A schedule that fires at every full minute."""
    return await timed.app.acreate_schedule("eu", report.bind("eu"), Every(60), **options)


async def fire(app: App) -> None:
    """Do what workers do, until nothing is due any more."""
    scheduler = Scheduler(app, app.internals.session.store)
    while await scheduler.fire() == 0:
        pass


async def pass_time(timed: Timed, seconds: float) -> None:
    timed.clock.advance(seconds)
    await fire(timed.app)


async def jobs_of(app: App, name: str = "eu") -> list[Job[Any]]:
    """The jobs of a schedule, the oldest first."""
    return list(reversed(await app.ajobs(schedule=name)))


def arguments(job: Job[Any]) -> Any:
    assert job.record is not None
    return json.loads(job.record.payload)["args"]


def ends(plan: Schedule) -> list[str]:
    return [each.end.value for each in plan.history]


async def stored(plan: Schedule) -> ScheduleRecord:
    store = plan._app.internals.session.store
    [record] = (await store.schedules(ScheduleSearch(names=(plan.name,)))).schedules
    return record
