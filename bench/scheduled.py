"""Measures schedules: `crowd` of them due in one second, the lateness of a lone one, and what an idle worker pays for many."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tenure import App, Cron, Every
from tenure.core.firing import creation
from tenure.core.schedule import ScheduleRecord, ScheduleSearch
from tenure.jobs.plans import plan_of
from tenure.jobs.schedules import all_schedules

__all__ = ["created", "crowd", "lateness", "wait_for_last"]

PARIS = "Europe/Paris"


async def created(url: str, number: int, when: Cron | Every) -> None:
    """Create this number of schedules that enqueue a no-op."""
    async with App(url) as app:
        store = app.internals.session.store
        plan = plan_of(app.remote("noop").bind(), when, {})
        now = (await store.schedules(ScheduleSearch(limit=0))).now
        puts = [creation(f"s{each:06}", plan, now) for each in range(number)]
        for begin in range(0, number, 1000):
            await store.put_schedules(puts[begin : begin + 1000])


def crowd(url: str, number: int) -> float:
    """Create schedules that are all due at the next whole minute, at least ten seconds from now. Returns that instant."""
    at = (datetime.now(UTC) + timedelta(seconds=70)).replace(second=0, microsecond=0)
    if at - datetime.now(UTC) > timedelta(seconds=70):
        at -= timedelta(minutes=1)
    local = at.astimezone(ZoneInfo(PARIS))
    asyncio.run(created(url, number, Cron(f"{local.minute} {local.hour} * * *", PARIS)))
    return at.timestamp()


async def _records(url: str) -> list[ScheduleRecord]:
    async with App(url) as app:
        return [each async for page in all_schedules(app.internals.session.store) for each in page.schedules]


async def _next_due(url: str) -> float:
    async with App(url) as app:
        return (await app.internals.session.store.schedules(ScheduleSearch(due=True, limit=0))).due_in or 0.0


def wait_for_last(url: str, at: float) -> Iterator[ScheduleRecord]:
    """Wait until every schedule that is due at this instant has fired, then read all of them."""
    time.sleep(max(at - time.time(), 0) + 1)
    while asyncio.run(_next_due(url)) < 0:
        time.sleep(0.2)
    yield from asyncio.run(_records(url))


def lateness(url: str, seconds: int) -> list[float]:
    """Let a lone schedule fire every second. Returns by how many seconds each tick came late.

    Without the first two, because workers notice a new schedule within a second, which may be after its first tick.
    """
    asyncio.run(created(url, 1, Every(1)))
    late: dict[float, float] = {}
    for _ in range(seconds // 5):
        time.sleep(5)
        [record] = asyncio.run(_records(url))
        late |= {entry.tick: entry.at - entry.tick for entry in record.history}
    return [late[tick] for tick in sorted(late)[2:]]
