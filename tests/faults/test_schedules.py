"""Schedules whose workers are killed while they fire, are all down over ticks, or have a clock that is set."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure import App

from .conftest import on_sqlite
from .processes import Process, Processes, eventually
from .scale import lengths
from .scheduling import make_app

PROGRAM = "tests.faults.scheduling:app"


class Fleet:
    """Worker processes that declare the same schedules on one store."""

    def __init__(self, url: str, processes: Processes) -> None:
        self.url = url
        self.app: App = make_app(url)
        self._processes = processes

    def worker(self, *schedules: dict[str, Any], skew: float = 0.0, chance: float = 0.0) -> Process:
        return self._processes.work(
            PROGRAM, FAULTS_URL=self.url, FAULTS_SCHEDULES=json.dumps(schedules), FAULTS_SKEW=str(skew),
            FAULTS_CHANCE=str(chance),
        )  # fmt: skip

    def ticks(self, name: str) -> list[datetime]:
        """The tick of each job of this schedule, in order."""
        found: list[datetime] = []
        cursor = None
        while True:
            page = self.app.jobs(schedule=name, limit=1000, cursor=cursor)
            found += [job.tick for job in page if job.tick is not None]
            if (cursor := page.cursor) is None:
                return sorted(found)

    def wait_for(self, name: str, number: int) -> list[datetime]:
        """Wait until this schedule has made so many jobs; their ticks."""
        eventually(lambda: len(self.ticks(name)) >= number, f"{number} jobs of schedule {name}")
        return self.ticks(name)


@pytest.fixture
def fleet(url: str, processes: Processes) -> Iterator[Fleet]:
    fleet = Fleet(url, processes)
    yield fleet
    fleet.app.close()


@pytest.mark.parametrize("seconds", lengths(4, 120))
def test_every_tick_has_one_job_though_whoever_fires_it_is_killed(fleet: Fleet, seconds: int) -> None:  # F27, I15
    every_second = {"name": "second", "every": 1, "catch_up": 100}
    workers = [fleet.worker(every_second, chance=0.2) for _ in range(5)]
    fleet.wait_for("second", 1)
    deaths, until = 0, time.monotonic() + seconds
    while time.monotonic() < until or not deaths:
        for number, worker in enumerate(workers):
            if worker.ended:
                deaths += 1
                workers[number] = fleet.worker(every_second, chance=0.2)
        time.sleep(0.1)
    for worker in workers:
        worker.kill()
    healthy = fleet.worker(every_second)
    before = len(fleet.ticks("second"))
    ticks = fleet.wait_for("second", before + 2)
    healthy.kill()

    doubled = [tick for tick, jobs in Counter(ticks).items() if jobs > 1]
    expected = [
        ticks[0] + timedelta(seconds=number) for number in range(int((ticks[-1] - ticks[0]).total_seconds()) + 1)
    ]
    missed = sorted(set(expected) - set(ticks))
    print(f"{len(ticks)} ticks fired, {deaths} deaths, {len(doubled)} doubled, {len(missed)} missed")
    assert doubled == []
    assert missed == []


def test_ticks_of_an_outage_are_made_up_for_as_said_and_there_is_no_flood(fleet: Fleet) -> None:  # F28, I15
    schedules = [{"name": "latest", "every": 1}, {"name": "three", "every": 1, "catch_up": 3}]
    worker = fleet.worker(*schedules)
    fleet.wait_for("latest", 1)
    fleet.wait_for("three", 1)
    worker.kill()
    before = {name: fleet.ticks(name) for name in ("latest", "three")}
    time.sleep(4)  # four ticks at which all workers are down: one more than are caught up
    fleet.worker(*schedules)

    fleet.wait_for("latest", len(before["latest"]) + 2)
    for name, caught_up in (("latest", 1), ("three", 3)):
        ticks = fleet.wait_for(name, len(before[name]) + caught_up + 1)
        later = ticks[len(before[name]) :]
        assert later[0] - before[name][-1] > timedelta(seconds=1), "some ticks were missed"
        gaps = [after - tick for tick, after in itertools.pairwise(later)]
        assert gaps[: caught_up - 1] == [timedelta(seconds=1)] * (caught_up - 1), "the newest, in order"
        assert len(set(ticks)) == len(ticks)
    missed = [entry for entry in fleet.app.get_schedule("latest").history if entry.end == "missed"]
    assert len(missed) == 1


@on_sqlite
def test_a_clock_that_is_set_forward_and_back_stops_no_schedule(fleet: Fleet) -> None:  # F28
    every_second = {"name": "second", "every": 1}
    worker = fleet.worker(every_second)
    [first, *_] = fleet.wait_for("second", 2)
    worker.kill()
    before = len(fleet.ticks("second"))
    ahead = fleet.worker(every_second, skew=3600)
    ticks = fleet.wait_for("second", before + 2)
    assert ticks[-1] - first > timedelta(minutes=59)
    assert len(ticks) < before + 20, "an hour of ticks is no flood"
    ahead.kill()
    before = len(fleet.ticks("second"))
    fleet.worker(every_second)

    fleet.wait_for("second", before + 2)
    after = datetime.now(UTC)
    recent = [tick for tick in fleet.ticks("second") if abs(after - tick) < timedelta(minutes=1)]
    assert len(recent) >= 3, "it goes on now, not in an hour"
    assert len(set(fleet.ticks("second"))) == len(fleet.ticks("second"))


@on_sqlite
@pytest.mark.parametrize(
    ("now", "fires"),
    [
        ("2026-03-29T00:59:57", {"fixed": "2026-03-29T01:00:00", "often": "2026-03-29T01:00:00"}),  # the gap
        ("2026-10-25T00:29:57", {"fixed": "2026-10-25T00:30:00", "often": "2026-10-25T00:30:00"}),  # 02:30, the first
        ("2026-10-25T01:29:57", {"often": "2026-10-25T01:30:00"}),  # 02:30, the second
    ],
)
def test_the_hours_of_a_clock_change_fire_as_the_rules_say(
    fleet: Fleet, now: str, fires: dict[str, str]
) -> None:  # F28
    start = datetime.fromisoformat(now).replace(tzinfo=UTC)
    schedules = [
        {"name": "fixed", "cron": "30 2 * * *", "timezone": "Europe/Paris"},
        {"name": "often", "cron": "*/30 * * * *", "timezone": "Europe/Paris"},
    ]
    fleet.worker(*schedules, skew=start.timestamp() - time.time())

    fleet.wait_for("often", 1)
    eventually(lambda: all(fleet.ticks(name) for name in fires), f"{fires}")
    expected = {name: [datetime.fromisoformat(tick).replace(tzinfo=UTC)] for name, tick in fires.items()}
    assert {name: found for name in ("fixed", "often") if (found := fleet.ticks(name))} == expected
