"""How idle callers hear of work: one is notified of one job, and whoever cannot hear looks."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tenure.stores.postgres import wakeup
from tenure.stores.values import Announcement, AnnouncementKind
from tenure.testing.conformance.scene import SUCCEED, a_job, lease_one, listening, settle
from tests.stores.postgres.test_link import end_others

from .conftest import MakeStore


async def test_of_many_idle_callers_one_job_wakes_one_and_at_once(
    make_store: MakeStore, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:  # T16
    monkeypatch.setattr(wakeup, "LOOK_EVERY", 25.0)  # nobody finds it by looking
    stores = [make_store() for _ in range(10)]
    await stores[0].open()
    waits = [asyncio.create_task(store.wait_for_work(["*"], 30.0)) for store in stores]
    # Until each has looked twice, and left the work to come to whoever is woken.
    await _idle(sql, 10, "until > clock(NULL) + 10")
    begun = time.monotonic()
    await stores[0].enqueue([a_job()])
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    taken = time.monotonic() - begun
    await lease_one(stores[0])

    assert taken < 10
    assert sum(each.done() for each in waits) == 1
    assert await sql.fetchval("SELECT count(*) FROM idle") == 9
    for each in waits:
        each.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


async def test_nobody_is_notified_while_nobody_is_idle(make_store: MakeStore, sql: Any) -> None:
    store, waiting = make_store(), make_store()
    heard: list[str] = []
    wait = asyncio.create_task(waiting.wait_for_work(["q"], 30.0))
    await store.open()
    await _idle(sql, 1)
    await sql.add_listener(await sql.fetchval("SELECT channel FROM idle"), lambda *said: heard.append(said[-1]))

    await store.enqueue([a_job() for _ in range(100)])
    await wait
    await _idle(sql, 0)  # it may have said so once more in the very moment in which it was woken
    heard.clear()
    await store.enqueue([a_job() for _ in range(100)])
    await store.enqueue([a_job(queue="other")])
    await sql.execute("SELECT 1")  # whatever was notified before comes before the answer

    assert heard == []


async def test_a_caller_that_died_is_forgotten(make_store: MakeStore, sql: Any) -> None:
    store, other = make_store(), make_store()
    await store.open()
    await sql.execute(
        "INSERT INTO idle (channel, caller, serves, excludes, since, until) "
        "VALUES ('gone', 0, '.*', '^$', 0, extract(epoch FROM clock_timestamp()) - 1)"
    )
    wait = asyncio.create_task(other.wait_for_work(["q"], 30.0))
    await _idle(sql, 2)

    await store.enqueue([a_job()])

    async with asyncio.timeout(20):
        await wait


async def test_who_cannot_be_notified_looks_for_work(make_store: MakeStore) -> None:  # I11
    store, deaf = make_store(), make_store(pooled="true")
    await store.open()
    wait = asyncio.create_task(deaf.wait_for_work(["q"], 30.0))
    await asyncio.sleep(0.3)
    await store.enqueue([a_job()])

    async with asyncio.timeout(20):
        await wait


async def test_an_ear_that_was_cut_off_hears_again(make_store: MakeStore, sql: Any) -> None:  # F14
    store, waiting = make_store(), make_store()
    [job] = await store.enqueue([a_job()])
    await waiting.wait([job.id])
    await listening(waiting)
    before = waiting.announcement_epoch
    await end_others(sql, store)
    async with asyncio.timeout(20):
        while waiting.announcement_epoch in {0, before}:
            await asyncio.sleep(0.01)

    await settle(store, await lease_one(store), SUCCEED)

    async with asyncio.timeout(10):
        async for signal in waiting.announcements():
            assert signal == Announcement(AnnouncementKind.DONE, job.id)
            break


async def _idle(sql: Any, number: int, which: str = "true") -> None:
    async with asyncio.timeout(20):
        while await sql.fetchval(f"SELECT count(*) FROM idle WHERE {which}") != number:
            await asyncio.sleep(0.01)
