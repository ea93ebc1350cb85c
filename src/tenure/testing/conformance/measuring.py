"""Tests of the history of measures, of marks, of when jobs became ready, and of the oldest job of a queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tenure.core.job import JobRecord
from tenure.core.lifecycle import Park, Requeue
from tenure.core.measures import (
    ERRORS,
    EVER,
    MARKS,
    OTHERS,
    RESOLUTIONS,
    ROWS,
    HistoryRow,
    HistorySearch,
    HistoryWrite,
)
from tenure.stores.base import Store
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.run_scene import a_run
from tenure.testing.conformance.scene import (
    FAIL,
    RELEASE,
    SUCCEED,
    MakeStore,
    a_job,
    a_worker,
    counts,
    enqueue,
    lease,
    lease_one,
    lose,
    record,
    settle,
)

__all__ = ["Measuring"]


async def rows(store: Store, resolution: int = 10, **search: object) -> list[HistoryRow]:
    return await store.history(HistorySearch(resolution=resolution, **search))  # type: ignore[arg-type]


async def write(
    store: Store, queue: str = "q", task: str = "t", gauges: dict[str, float] | None = None, **counts: float
) -> None:
    await add(store, counts, queue, task, gauges)


async def add(
    store: Store, counts: dict[str, float], queue: str = "q", task: str = "t", gauges: dict[str, float] | None = None
) -> None:
    await store.record_history([HistoryWrite(queue, task, counts, gauges or {})])


# How a job can become due, each with the seconds from then to its lease.


async def at_once(store: Store, clock: ManualClock) -> float:
    await enqueue(store)
    clock.advance(7)
    return 7.0


async def by_its_time(store: Store, clock: ManualClock) -> float:
    await enqueue(store, a_job(delay=10.0))
    clock.advance(13)
    return 3.0


async def by_a_retry(store: Store, clock: ManualClock) -> float:
    await enqueue(store)
    clock.advance(5)
    await settle(store, await lease_one(store), Requeue(delay=10.0))
    clock.advance(14)
    return 4.0


async def by_a_retry_at_once(store: Store, clock: ManualClock) -> float:
    await enqueue(store)
    clock.advance(5)
    await settle(store, await lease_one(store), Requeue())
    clock.advance(6)
    return 6.0


async def by_a_release(store: Store, clock: ManualClock) -> float:
    await enqueue(store)
    clock.advance(5)
    await settle(store, await lease_one(store), RELEASE)
    clock.advance(6)
    return 11.0


async def by_a_release_after_a_retry(store: Store, clock: ManualClock) -> float:
    await by_a_retry(store, clock)
    await settle(store, await lease_one(store), RELEASE)
    clock.advance(6)
    return 10.0


async def by_an_operators_release(store: Store, clock: ManualClock) -> float:
    await enqueue(store)
    clock.advance(5)
    await store.release([(await lease_one(store)).job.id])
    clock.advance(6)
    return 11.0


async def by_a_loss(store: Store, clock: ManualClock) -> float:
    await enqueue(store)
    clock.advance(5)
    await lose(store, clock, await lease_one(store, ttl=10.0))
    clock.advance(6)
    return 21.0


async def by_its_unblocking(store: Store, clock: ManualClock) -> float:
    [blocker] = await enqueue(store, a_job(queue="blockers"))
    await enqueue(store, a_job(after=(blocker,)))
    clock.advance(5)
    await settle(store, await lease_one(store, "blockers"), SUCCEED)
    clock.advance(6)
    return 6.0


async def by_its_unblocking_and_its_time(store: Store, clock: ManualClock) -> float:
    [blocker] = await enqueue(store, a_job(queue="blockers"))
    await enqueue(store, a_job(after=(blocker,), delay=20.0))
    clock.advance(5)
    await settle(store, await lease_one(store, "blockers"), SUCCEED)
    clock.advance(17)
    return 2.0


async def by_a_trigger(store: Store, clock: ManualClock) -> float:
    [job_id] = await enqueue(store, a_job(delay=100.0))
    clock.advance(5)
    await store.trigger([job_id])
    clock.advance(6)
    return 6.0


async def by_an_operators_retry(store: Store, clock: ManualClock) -> float:
    [job_id] = await enqueue(store)
    await settle(store, await lease_one(store), FAIL)
    clock.advance(5)
    await store.retry([job_id])
    clock.advance(6)
    return 6.0


async def by_a_timeout_of_its_parking(store: Store, clock: ManualClock) -> float:
    await a_run(store)
    await settle(store, await lease_one(store), Park(10.0, "f.two"))
    clock.advance(12)
    await store.reap(["q"])
    clock.advance(6)
    return 6.0


async def by_the_step_before(store: Store, clock: ManualClock) -> float:
    clock.advance(5)
    await a_run(store)
    clock.advance(6)
    return 6.0


WAYS: list[Callable[[Store, ManualClock], Awaitable[float]]] = [
    at_once, by_its_time, by_a_retry, by_a_retry_at_once, by_a_release, by_a_release_after_a_retry, by_an_operators_release,
    by_a_loss, by_its_unblocking, by_its_unblocking_and_its_time, by_a_trigger, by_an_operators_retry,
    by_a_timeout_of_its_parking, by_the_step_before,
]  # fmt: skip


def ready(job: JobRecord) -> float:
    return job.created_at if job.ready_at is None else job.ready_at


class Measuring:
    # When a job became ready.

    @pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
    async def test_a_job_knows_when_it_last_became_due(
        self, store: Store, clock: ManualClock, way: Callable[[Store, ManualClock], Awaitable[float]]
    ) -> None:
        waited = await way(store, clock)
        leased = await lease_one(store)

        assert leased.job.waited == pytest.approx(waited, abs=0.01)
        stored = await record(store, leased.job.id)
        assert ready(stored) == pytest.approx(ready(leased.job), abs=0.01)
        assert stored.waited == pytest.approx(waited, abs=0.01)
        await settle(store, leased, SUCCEED)
        assert (await record(store, leased.job.id)).waited == pytest.approx(waited, abs=0.01)

    async def test_a_plain_job_is_ready_when_it_is_created(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        assert (await record(store, job_id)).ready_at is None
        assert (await lease_one(store)).job.ready_at is None

    # The oldest job of a queue.

    async def test_the_oldest_is_the_job_that_has_been_due_the_longest(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store, a_job(priority=5))
        clock.advance(10)
        await enqueue(store, a_job(priority=-1), a_job(queue="other"), a_job(delay=2.0))
        clock.advance(5)

        assert (await counts(store)).oldest == pytest.approx(15, abs=0.01)
        assert (await counts(store, "other")).oldest == pytest.approx(5, abs=0.01)
        await lease_one(store)
        await lease_one(store)
        await lease_one(store)
        assert (await counts(store)).oldest is None

    async def test_jobs_that_are_not_in_line_are_not_the_oldest(self, store: Store, clock: ManualClock) -> None:
        [running] = await enqueue(store)
        await lease_one(store)
        await enqueue(store, a_job(delay=1000.0), a_job(after=(running,)))
        clock.advance(10)
        assert (await counts(store)).oldest is None

    async def test_a_suspect_may_be_the_oldest(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store, a_job(max_losses=0))
        for _ in range(2):
            await lose(store, clock, await lease_one(store, ttl=10.0))
        clock.advance(5)
        await enqueue(store)
        assert (await counts(store)).oldest == pytest.approx(25, abs=0.01)

    async def test_a_retry_is_as_old_as_its_time(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store)
        await settle(store, await lease_one(store), Requeue(delay=10.0))
        clock.advance(14)
        await lease(store, limit=0)
        assert (await counts(store)).oldest == pytest.approx(4, abs=0.01)

    async def test_queues_are_listed_a_page_at_a_time(self, store: Store) -> None:
        names = ["B", "a", "a-1", "a.1", "a:1", "a_1", "b"]
        await enqueue(store, *(a_job(queue=name) for name in reversed(names)))

        listed: list[str] = []
        while page := await store.queues(after=listed[-1] if listed else "", limit=3):
            assert len(page) <= 3
            listed += [queue.name for queue in page]
        assert listed == sorted(names)
        assert [queue.name for queue in await store.queues(after="a_1")] == ["b"]
        assert await store.queues(limit=0) == []

    # The history.

    async def test_what_is_recorded_is_added_up_in_every_resolution(self, store: Store, clock: ManualClock) -> None:
        await write(store, succeeded=2, wait=0.5)
        await write(store, succeeded=1, failed=1, wait=0.25)
        await write(store, "other", "", succeeded=7)

        for resolution in (*RESOLUTIONS, EVER):
            [row] = await rows(store, resolution, queue="q", task="t")
            assert row.counts == {"succeeded": 3, "failed": 1, "wait": 0.75}
            assert row.slot == (clock.wall() // resolution * resolution if resolution else 0)
        await store.record_history([])
        assert await rows(store, queue="q", task="none") == []

    async def test_each_slot_has_rows_apart(self, store: Store, clock: ManualClock) -> None:
        clock.advance(3600 - clock.wall() % 3600 + 1)
        first = clock.wall() // 10 * 10
        for number in range(3):
            await write(store, succeeded=number + 1)
            clock.advance(10)

        found = await rows(store, queue="q", task="t")
        assert [(row.slot, row.counts["succeeded"]) for row in found] == [(first, 1), (first + 10, 2), (first + 20, 3)]
        assert [row.counts["succeeded"] for row in await rows(store, 300, queue="q", task="t")] == [6]
        between = await rows(store, queue="q", task="t", since=first + 10, until=first + 20)
        assert [row.counts["succeeded"] for row in between] == [2]

    async def test_gauges_are_those_of_the_latest_and_the_greatest_age(self, store: Store, clock: ManualClock) -> None:
        await write(store, "q", "", {"in_line": 5.0, "oldest": 9.0, "total_succeeded": 1.0})
        await write(store, "q", "", {"in_line": 3.0, "oldest": 2.0})
        [row] = await rows(store, queue="q")
        assert (row.gauges, row.counts) == ({"in_line": 3.0, "oldest": 9.0, "total_succeeded": 1.0}, {})

    async def test_rows_are_read_by_kind(self, store: Store) -> None:
        names = [("", ""), ("a", ""), ("a", "t"), ("b", ""), ("b", "t"), ("b", "u")]
        await store.record_history([HistoryWrite(queue, task, {"succeeded": 1}) for queue, task in reversed(names)])

        async def read(**search: object) -> list[tuple[str, str]]:
            return [(row.queue, row.task) for row in await rows(store, **search)]  # type: ignore[arg-type]

        assert await read() == [("", "")]
        assert await read(queue="b", task="u") == [("b", "u")]
        assert await read(rows="queues") == [("a", ""), ("b", "")]
        assert await read(rows="tasks") == [("a", "t"), ("b", "t"), ("b", "u")]

    async def test_numbers_and_names_come_back_as_they_were(self, store: Store) -> None:
        names = {"error:é 🙂": 1.0, 'error:a"b\\n': 2.0, "run:-40": 3.0, "run": 0.1 + 0.2, "wait": 1e-9}
        await add(store, names, "a:b.c-d", "T_1")
        await add(store, {"run:-40": 2.0**40}, "a:b.c-d", "T_1")
        [row] = await rows(store, queue="a:b.c-d", task="T_1")
        assert row.counts == names | {"run:-40": 3.0 + 2.0**40}

    async def test_a_slot_has_a_bounded_number_of_rows(self, store: Store) -> None:
        await store.record_history([HistoryWrite("q", f"t{number:03}", {"succeeded": 1}) for number in range(ROWS)])
        await store.record_history(
            [HistoryWrite("q", f"u{number:03}", {"succeeded": 1}, {"oldest": 1.0}) for number in range(5)]
        )
        await write(store, "q", "t000", succeeded=1)

        found = {(row.queue, row.task): row for row in await rows(store, rows="tasks")}
        assert len(found) == ROWS + 1
        assert found[OTHERS, OTHERS].counts == {"succeeded": 5}
        assert found[OTHERS, OTHERS].gauges == {}
        assert found["q", "t000"].counts == {"succeeded": 2}

    async def test_a_row_has_a_bounded_number_of_types_of_errors(self, store: Store) -> None:
        for number in range(ERRORS + 3):
            await add(store, {f"error:E{number:03}": 1})
        await add(store, {"error:E000": 1})
        [row] = await rows(store, EVER, queue="q", task="t")
        assert row.counts[f"error:{OTHERS}"] == 3
        assert row.counts["error:E000"] == 2
        assert len(row.counts) == ERRORS + 1

    async def test_old_slots_are_gone(self, store: Store, clock: ManualClock) -> None:
        await write(store, succeeded=1)
        clock.advance(3700)
        await write(store, succeeded=1)
        assert len(await rows(store, queue="q", task="t")) == 1
        assert len(await rows(store, 300, queue="q", task="t")) == 2
        clock.advance(31 * 86400)
        assert await rows(store, 300, queue="q", task="t") == []
        assert await rows(store, 3600, queue="q", task="t") == []
        [row] = await rows(store, EVER, queue="q", task="t")
        assert row.counts == {"succeeded": 2}

    async def test_all_store_objects_add_to_the_same_rows(self, make_store: MakeStore) -> None:
        first, second = make_store(), make_store()
        await write(first, succeeded=1)
        await write(second, succeeded=1)
        [row] = await rows(first, queue="q", task="t")
        assert row.counts == {"succeeded": 2}

    # Marks.

    async def test_marks_come_back_in_order(self, store: Store, clock: ManualClock) -> None:
        assert await store.marks() == []
        for label in ("deploy 1", "é 🙂", "deploy 2"):
            await store.mark(label)
            clock.advance(10)
        found = await store.marks()
        assert [mark.label for mark in found] == ["deploy 1", "é 🙂", "deploy 2"]
        assert found[2].at == pytest.approx(clock.wall() - 10, abs=0.01)
        assert [mark.label for mark in await store.marks(since=clock.wall() - 25)] == ["é 🙂", "deploy 2"]

    async def test_the_latest_marks_are_kept(self, store: Store, clock: ManualClock) -> None:
        for number in range(MARKS + 2):
            await store.mark(str(number))
            clock.advance(0.001)
        found = await store.marks()
        assert [mark.label for mark in found] == [str(number) for number in range(2, MARKS + 2)]

    # The release of a worker.

    async def test_a_worker_is_listed_with_its_release(self, store: Store) -> None:
        await store.register(a_worker(release="v17 é"))
        await store.register(a_worker("other"))
        assert {worker.id: worker.release for worker in await store.workers()} == {"w": "v17 é", "other": ""}
