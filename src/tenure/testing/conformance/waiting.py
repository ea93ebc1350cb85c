"""Tests of waiting for results and for work, and of announcements. Only these tests take real time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tenure.core.job import State
from tenure.core.lifecycle import Finish, Requeue
from tenure.errors import StoreUnavailable
from tenure.stores.base import Store
from tenure.stores.values import Announcement, AnnouncementKind, Layout
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    FAIL,
    LONG,
    RELEASE,
    RETRY,
    SUCCEED,
    MakeStore,
    a_job,
    a_worker,
    enqueue,
    lease,
    lease_one,
    listening,
    settle,
    success,
)

__all__ = ["Waiting"]

SETTLED = 0.2
"""Seconds after which a caller surely waits, and one that is not woken by then surely will not be."""


async def receive(store: Store, *expected: Announcement) -> None:
    """Listen until all of these announcements have come, among others."""
    missing = set(expected)
    async with asyncio.timeout(LONG):
        async for announcement in store.announcements():
            missing.discard(announcement)
            if not missing:
                return


@asynccontextmanager
async def idle(
    *stores: Store, patterns: tuple[str, ...] = ("q",), **more: tuple[str, ...]
) -> AsyncIterator[set[asyncio.Task[str | None]]]:
    """Store objects that wait for work, having found none. A wait that ended early, which is allowed, is begun again."""
    waits: set[asyncio.Task[str | None]] = set()

    async def wait(store: Store) -> None:
        # Connections are open by now, so that opening them does not take from the time below.
        await store.open()
        await store.wait_for_work(patterns, 0.0, **more)
        for _ in range(3):
            early = asyncio.create_task(store.wait_for_work(patterns, LONG, **more))
            done, _ = await asyncio.wait({early}, timeout=SETTLED)
            if not done:
                waits.add(early)
                return
        raise AssertionError("it returns at once although nothing has come")

    await asyncio.gather(*[wait(store) for store in stores])
    try:
        yield waits
    finally:
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def woken(waits: set[asyncio.Task[str | None]], number: int) -> None:
    """Wait until at least `number` of them have returned; fails if that takes long."""
    async with asyncio.timeout(LONG / 2):
        while sum(each.done() for each in waits) < number:
            pending = {each for each in waits if not each.done()}
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)


async def _once_in_three(count: Callable[[], Awaitable[int]], expected: int) -> bool:
    """Whether the count is as expected at least once in three tries."""
    for _ in range(3):
        if await count() == expected:
            return True
    return False


class Waiting:
    # Results.

    async def test_wait_gives_what_is_final_and_the_rest_is_announced(
        self, store: Store, make_store: MakeStore
    ) -> None:
        # Q62
        done, pending = await enqueue(store, a_job(), a_job())
        await settle(store, await lease_one(store), SUCCEED)
        waiting = make_store()

        found = await waiting.wait([done, pending, "missing"])
        await listening(waiting)

        assert found.keys() == {done, "missing"}
        assert found["missing"] is None
        record = found[done]
        assert record
        assert (record.state, record.result) == (State.SUCCEEDED, "42")
        await settle(store, await lease_one(store), SUCCEED)
        await receive(waiting, Announcement(AnnouncementKind.DONE, pending))
        assert (await waiting.wait([pending])).keys() == {pending}

    @pytest.mark.parametrize("end", ["settled", "cancelled", "completed", "expired", "lost", "blocker failed"])
    async def test_every_kind_of_end_is_announced_to_waiters(
        self, store: Store, clock: ManualClock, make_store: MakeStore, end: str
    ) -> None:
        blocker, job_id = await enqueue(
            store,
            a_job(id="b", queue="b"),
            a_job(max_losses=1, expires=5.0, after=("b",) if end == "blocker failed" else ()),
        )
        waiting = make_store()
        await waiting.wait([job_id])
        await listening(waiting)
        match end:
            case "settled":
                await settle(store, await lease_one(store), FAIL)
            case "cancelled":
                await store.cancel([job_id])
            case "completed":
                await store.complete(job_id, success("1"))
            case "expired":
                clock.advance(5)
                await lease(store)
            case "lost":
                await lease_one(store)
                clock.advance(30)
                await store.reap(["q"])
            case "blocker failed":
                await store.cancel([blocker])

        await receive(waiting, Announcement(AnnouncementKind.DONE, job_id))

    async def test_a_deletion_is_announced_to_waiters(self, store: Store, make_store: MakeStore) -> None:
        [job_id] = await enqueue(store)
        waiting = make_store()
        await waiting.wait([job_id])
        await listening(waiting)
        await store.delete([job_id])

        async with asyncio.timeout(LONG):
            async for announcement in waiting.announcements():
                if announcement in {
                    Announcement(AnnouncementKind.DELETED, job_id),
                    Announcement(AnnouncementKind.DONE, job_id),
                }:
                    break

    async def test_a_listener_receives_what_happens_while_it_listens(self, store: Store, make_store: MakeStore) -> None:
        [job_id] = await enqueue(store)
        waiting = make_store()
        await waiting.wait([job_id])
        await listening(waiting)
        listener = asyncio.create_task(receive(waiting, Announcement(AnnouncementKind.DONE, job_id)))
        await asyncio.sleep(0)

        await settle(store, await lease_one(store), SUCCEED)

        await listener

    # Holders.

    @pytest.mark.parametrize(
        ("event", "kind"),
        [
            ("cancel", AnnouncementKind.CANCELLED),
            ("complete", AnnouncementKind.COMPLETED),
            ("delete", AnnouncementKind.DELETED),
            ("reap", AnnouncementKind.TAKEN),
            ("retire", AnnouncementKind.TAKEN),
            ("release", AnnouncementKind.TAKEN),
        ],
    )
    async def test_a_holder_is_notified_of_what_takes_its_job_away(
        self, store: Store, clock: ManualClock, make_store: MakeStore, event: str, kind: AnnouncementKind
    ) -> None:  # T14, Q20, Q21; the keeper registers, the worker leases
        keeper = make_store()
        await keeper.register(a_worker("w"))
        await listening(keeper)
        await enqueue(store)
        leased = await lease_one(store, worker="w")
        other = make_store()
        match event:
            case "cancel":
                await other.cancel([leased.job.id])
            case "complete":
                await other.complete(leased.job.id, success("1"))
            case "delete":
                await other.delete([leased.job.id])
            case "reap":
                clock.advance(30)
                await other.reap(["q"])
            case "retire":
                await other.retire("w")
            case "release":
                await other.release([leased.job.id])

        await receive(keeper, Announcement(kind, leased.job.id))

    # Work.

    @pytest.mark.parametrize(
        "event",
        [
            "enqueue",
            "children",
            "retry",
            "release",
            "reap",
            "retire",
            "unblock",
            "operator retry",
            "operator release",
            "trigger",
            "resume",
        ],
    )
    async def test_everything_that_puts_a_job_in_line_wakes_an_idle_worker(
        self, store: Store, clock: ManualClock, make_store: MakeStore, event: str
    ) -> None:  # T16, I11, W10, W30; W: no wake-up after recovery
        waiting = make_store()
        [blocker] = await enqueue(store, a_job(id="b", queue="b"))
        held = None
        match event:
            case "retry" | "release" | "reap" | "retire" | "operator retry" | "operator release":
                await enqueue(store)
                held = await lease_one(store)
            case "unblock":
                await enqueue(store, a_job(after=(blocker,)))
            case "trigger":
                await enqueue(store, a_job(id="s", delay=60.0))
            case "resume":
                await store.pause("q")
                await enqueue(store)
        if held and event == "operator retry":
            await settle(store, held, FAIL)
        assert await lease(waiting) == []
        async with idle(waiting) as waits:
            match event:
                case "enqueue":
                    await enqueue(store)
                case "children":
                    parent = await lease_one(store, "b")
                    await settle(store, parent, Finish(State.SUCCEEDED, children=(a_job(),)))
                case "retry" if held:
                    await settle(store, held, RETRY)
                case "release" if held:
                    await settle(store, held, RELEASE)
                case "reap":
                    clock.advance(30)
                    await store.reap(["q"])
                case "retire":
                    await store.retire("w")
                case "unblock":
                    await store.complete(blocker, success("1"))
                case "operator retry" if held:
                    await store.retry([held.job.id])
                case "operator release" if held:
                    await store.release([held.job.id])
                case "trigger":
                    await store.trigger(["s"])
                case "resume":
                    await store.resume("q")

            await woken(waits, 1)

    async def test_one_new_job_wakes_one_waiting_caller(self, store: Store, make_store: MakeStore) -> None:  # Q35, T16
        async def wakes() -> int:
            async with idle(*[make_store() for _ in range(3)]) as waits:
                await enqueue(store)
                await woken(waits, 1)
                await lease_one(store)  # as the woken caller would: the others would find a job that is left in line
                await asyncio.sleep(SETTLED)
                alone = sum(each.done() for each in waits)

                await enqueue(store, a_job(), a_job())
                await woken(waits, 3)
                await lease(store, limit=2)
                return alone

        # Sometimes the lease comes so late that others have found the job by themselves.
        assert await _once_in_three(wakes, 1)

    @pytest.mark.parametrize("event", ["reap", "retire"])
    async def test_recovered_jobs_wake_one_waiting_caller_each(
        self, store: Store, clock: ManualClock, make_store: MakeStore, event: str
    ) -> None:  # W30, T16
        async def lose(number: int) -> int:
            await enqueue(store, *[a_job() for _ in range(number)])
            await lease(store, limit=number, worker="dead")
            async with idle(*[make_store() for _ in range(3)]) as waits:
                if event == "reap":
                    clock.advance(30)
                    assert len(await store.reap(["q"])) == number
                else:
                    assert len(await store.retire("dead")) == number
                await woken(waits, min(number, 3))
                await store.settle(
                    [(each, SUCCEED) for each in await lease(store, limit=number)]
                )  # as the woken callers would
                await asyncio.sleep(SETTLED)
                return sum(each.done() for each in waits)

        # Sometimes the lease comes so late that the third has found the jobs by itself.
        assert await _once_in_three(lambda: lose(2), 2)
        assert await lose(5) == 3

    async def test_only_callers_that_serve_the_queue_are_woken(self, store: Store, make_store: MakeStore) -> None:
        async with (
            idle(make_store(), patterns=("other", "!q")) as others,
            idle(make_store(), patterns=("*", "!other")) as served,
        ):
            await enqueue(store)
            await woken(served, 1)
            await asyncio.sleep(SETTLED)
            assert not any(each.done() for each in others)

            await enqueue(store, a_job(queue="other"))
            await woken(others, 1)

    async def test_a_job_that_cannot_be_leased_wakes_no_caller(self, store: Store, make_store: MakeStore) -> None:
        await store.pause("paused")
        [blocker] = await enqueue(store, a_job(queue="b"))
        async with idle(make_store(), patterns=("*", "!b")) as waits:
            await enqueue(store, a_job(after=(blocker,)), a_job(queue="paused"))
            await asyncio.sleep(SETTLED)
            assert not any(each.done() for each in waits)

    async def test_a_scheduled_job_wakes_one_caller_too_because_it_may_be_due_before_the_next_look(
        self, store: Store, make_store: MakeStore
    ) -> None:  # I10
        async with idle(make_store()) as waits:
            await enqueue(store, a_job(delay=60.0))
            await woken(waits, 1)

    async def test_jobs_of_skipped_tasks_do_not_wake_a_caller_over_and_over(
        self, store: Store, make_store: MakeStore
    ) -> None:
        first, second = make_store(), make_store()
        await enqueue(store, a_job(task="theirs"))
        for each in (first, second):
            assert await lease(each, skip_tasks=("theirs",)) == []

        async with idle(first, second, skip_tasks=("theirs",)) as waits:
            await enqueue(store)
            await woken(waits, 1)

    async def test_a_registered_worker_is_nudged(self, store: Store, make_store: MakeStore) -> None:
        registered, other = make_store(), make_store()
        await registered.register(a_worker("able"))
        await other.register(a_worker("other"))
        await listening(registered)
        await listening(other)

        await store.nudge(["able", "gone"])
        await receive(registered, Announcement(AnnouncementKind.WORK, ""))
        await other.nudge(["other"])
        async with asyncio.timeout(LONG):
            async for announcement in other.announcements():
                assert announcement == Announcement(AnnouncementKind.WORK, "")
                break

    async def test_a_wait_for_work_ends_with_its_time(self, store: Store) -> None:
        async with asyncio.timeout(LONG):
            await store.wait_for_work(["q"], 0.05)
            await store.wait_for_work(["q"], 0.0)

    async def test_work_that_came_between_looking_and_waiting_is_not_missed_for_long(
        self, store: Store, make_store: MakeStore
    ) -> None:  # I11
        worker = make_store()
        assert await lease(worker) == []
        await enqueue(store)

        async with asyncio.timeout(LONG):
            while not await lease(worker):
                await worker.wait_for_work(["q"], 1.0)

    async def test_a_cancelled_wait_leaves_nothing_behind(self, store: Store, make_store: MakeStore) -> None:
        gone = make_store()
        for _ in range(3):
            wait = asyncio.create_task(gone.wait_for_work(["q"], LONG))
            await asyncio.sleep(0.01)
            wait.cancel()
            await asyncio.gather(wait, return_exceptions=True)
        async with idle(make_store()) as waits:
            await enqueue(store)
            await woken(waits, 1)

    # Open and close.

    async def test_a_store_opens_on_first_use_or_by_open(self, make_store: MakeStore) -> None:
        first, second = make_store(), make_store()
        await first.open()
        await first.open()
        assert (await first.layout()).found == (await first.layout()).known

        [job_id] = await enqueue(second)

        assert [job and job.id for job in await first.get([job_id])] == [job_id]

    async def test_the_layout_is_read_without_changing_it(self, store: Store) -> None:
        layout = await store.layout()

        assert isinstance(layout, Layout)
        assert layout.found in {None, layout.known}

    async def test_a_closed_store_is_unavailable_and_the_jobs_are_still_there(self, make_store: MakeStore) -> None:
        store = make_store()
        [job_id] = await enqueue(store)
        await store.close()
        await store.close()

        for call in (
            store.open(),
            store.enqueue([a_job()]),
            store.get([job_id]),
            store.settle([]),
            store.queues(),
            store.workers(),
            store.wait_for_work(["q"], LONG),
        ):
            with pytest.raises(StoreUnavailable):
                await call
        assert [job and job.id for job in await make_store().get([job_id])] == [job_id]

    async def test_closing_ends_waits_and_listeners(self, make_store: MakeStore) -> None:
        store = make_store()
        await store.open()

        async def listen() -> None:
            async for _ in store.announcements():
                pass

        listener = asyncio.create_task(listen())
        async with idle(store) as waits:
            await store.close()
            async with asyncio.timeout(LONG):
                await listener
                await asyncio.wait(waits)

    async def test_a_closed_store_receives_nothing_more(self, store: Store, make_store: MakeStore) -> None:
        [job_id] = await enqueue(store)
        waiting = make_store()
        await waiting.wait([job_id])
        await waiting.register(a_worker())
        await waiting.close()

        await settle(store, await lease_one(store), Requeue())
        await store.cancel([job_id])
