"""Tests of `busy_queues`: how workers with patterns find the queues that have something to do."""

from __future__ import annotations

import pytest

from tenure.core.lifecycle import Park
from tenure.stores.base import NAMED, Store
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    SUCCEED,
    MakeStore,
    PutIn,
    a_job,
    enqueue,
    lease,
    lease_one,
    settle,
)

__all__ = ["FindingBusyQueues"]


async def named(store: Store, *patterns: str) -> list[str]:
    """The queues that `busy_queues` names for these patterns, by default `*`."""
    return list((await store.busy_queues(patterns or ("*",))).queues)


async def overdue(store: Store) -> list[str]:
    """The queues that `busy_queues` calls overdue."""
    return list((await store.busy_queues(("*",))).overdue)


class FindingBusyQueues:
    async def test_a_queue_is_named_while_it_has_a_job_in_line(self, store: Store) -> None:
        assert await named(store) == []
        await enqueue(store, a_job(queue="b"), a_job(queue="a"), a_job(queue="a"))
        assert await named(store) == ["a", "b"]

        held = await lease(store, "a", limit=1)
        assert await named(store) == ["a", "b"]
        held += await lease(store, "a", "b", limit=2)
        assert await named(store) == []
        await store.settle([(each, SUCCEED) for each in held])
        assert await named(store) == []

    async def test_a_list_serves_its_names_first_and_passes_over_what_it_excludes(self, store: Store) -> None:
        await enqueue(store, *(a_job(queue=queue) for queue in ("b2", "a", "b1", "c")))

        assert await named(store, "none", "b*", "a", "!b1") == ["none", "b2", "a"]
        assert await named(store, "[!ab]*", "?") == ["c", "a"]
        assert await store.busy_queues(()) == ((), ())

    async def test_a_queue_is_named_shortly_before_a_job_of_it_is_due(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store, a_job(delay=10), a_job(queue="later", delay=1000))
        await lease(store, "q", "later")
        assert await named(store) == []

        clock.advance(9.5)
        assert await named(store) == ["q"]
        clock.advance(0.5)
        assert await named(store) == ["q"]
        await lease_one(store)
        assert await named(store) == []

    async def test_a_queue_is_named_when_a_blocked_job_of_it_expires(self, store: Store, clock: ManualClock) -> None:
        [blocker] = await enqueue(store, a_job(queue="other"))
        await enqueue(store, a_job(after=(blocker,), expires=10))
        assert await named(store, "q*") == []

        clock.advance(10)
        assert await named(store, "q*") == ["q"]
        await lease(store)
        assert await named(store, "q*") == []

    async def test_a_queue_is_overdue_when_a_lease_of_it_has_expired(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store, a_job(), a_job(queue="z"))
        await lease(store, "q", ttl=30)
        await lease(store, "z", ttl=60)
        clock.advance(28)
        assert (await named(store), await overdue(store)) == ([], [])

        clock.advance(2)
        assert (await named(store), await overdue(store)) == (["q"], ["q"])
        clock.advance(10)  # it stays overdue until it is reaped
        assert await overdue(store) == ["q"]
        assert len(await store.reap(["q"])) == 1
        assert (await named(store), await overdue(store)) == (["q"], [])

    async def test_a_queue_is_overdue_when_a_parking_is_over(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store)
        await settle(store, await lease_one(store), Park(timeout=100))
        clock.advance(60)
        assert await overdue(store) == []

        clock.advance(40)
        assert await overdue(store) == ["q"]
        await store.reap(["q"])
        assert await overdue(store) == []

    async def test_a_paused_queue_is_named_for_what_a_pause_does_not_hold_up(
        self, store: Store, clock: ManualClock, put_in: PutIn
    ) -> None:
        await enqueue(store, a_job(), a_job(), a_job(delay=5))
        await lease(store, limit=1, ttl=30)
        await store.pause("q")
        clock.advance(10)
        assert await named(store) == []

        clock.advance(20)
        assert (await named(store), await overdue(store)) == (["q"], ["q"])
        await store.reap(["q"])
        assert await named(store) == []
        await store.resume("q")
        assert await named(store) == ["q"]

    async def test_what_is_scheduled_in_a_paused_queue_is_found_once_it_is_resumed(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.pause("q")
        await enqueue(store, a_job(delay=5))
        clock.advance(10)
        assert await named(store) == []

        await store.resume("q")
        assert await named(store) == ["q"]

    async def test_a_bounded_number_is_named_and_the_others_follow(self, store: Store) -> None:
        queues = [f"q{number:04}" for number in range(2 * NAMED + 10)]
        await store.enqueue([a_job(queue=queue) for queue in queues])

        found: list[str] = []
        while names := await named(store, "q*"):
            assert len(names) <= NAMED
            found += [each.job.queue for each in await lease(store, *names, limit=1000)]

        assert found == queues

    async def test_the_first_pattern_comes_first_however_many_queues_the_others_match(self, store: Store) -> None:
        await store.enqueue([a_job(queue=f"a{number:04}") for number in range(1000)] + [a_job(queue="b")])

        assert (await named(store, "b*", "*"))[:2] == ["b", "a0000"]
        assert await named(store, "b*") == ["b"]

    async def test_a_job_is_found_when_it_is_due_however_many_other_queues_had_leases(
        self, store: Store, clock: ManualClock
    ) -> None:
        queues = [f"q{number:04}" for number in range(2000)]
        await store.enqueue([a_job(queue=queue) for queue in queues])
        await store.settle([(each, SUCCEED) for each in await lease(store, *queues, limit=2000, ttl=30)])
        later = [f"s{number}" for number in range(300)]
        await store.enqueue([a_job(queue="z", delay=31), *(a_job(queue=queue, delay=31.5) for queue in later)])
        assert await lease(store, "z", *later) == []

        clock.advance(31)
        assert "z" in await named(store)

    @pytest.mark.parametrize("patterns", [("*",), ("q", "x*")])
    async def test_a_wait_for_work_may_name_the_queue(
        self, store: Store, make_store: MakeStore, patterns: tuple[str, ...]
    ) -> None:
        idle = make_store()
        await idle.wait_for_work(patterns, 0.0)
        await enqueue(store)

        assert await idle.wait_for_work(patterns, 10.0) in ("q", None)
