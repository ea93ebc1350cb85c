"""Tests of the registry of workers."""

from __future__ import annotations

import asyncio

from tenure.core.job import State
from tenure.core.options import Retention
from tenure.stores.base import Store
from tenure.stores.values import Order, Pulse, Totals
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    FAIL,
    RETRY,
    SUCCEED,
    MakeStore,
    a_job,
    a_worker,
    enqueue,
    lease,
    lease_one,
    settle,
    state,
)

__all__ = ["Registry"]


class Registry:
    async def test_a_worker_is_listed_as_it_described_itself(
        self, store: Store, clock: ManualClock, make_store: MakeStore
    ) -> None:  # R24, W20
        await store.register(
            a_worker("w", host="Zoë", pid=123, queues=("a", "b*", "!bb"), tasks=("t", "u"), concurrency=4)
        )
        clock.advance(3)

        [worker] = await make_store().workers()

        assert (worker.id, worker.host, worker.pid, worker.concurrency) == ("w", "Zoë", 123, 4)
        assert (worker.queues, worker.tasks) == (("a", "b*", "!bb"), ("t", "u"))
        assert (worker.started_at, worker.silent_for, worker.held) == (clock.wall() - 3, 3.0, 0)
        assert worker.totals == Totals()

    async def test_a_beat_breaks_the_silence(self, store: Store, clock: ManualClock) -> None:  # W21, R17
        await store.register(a_worker())
        clock.advance(100)

        assert await store.beat("w", Pulse(held=7))

        [worker] = await store.workers()
        assert (worker.silent_for, worker.held, worker.started_at) == (0.0, 7, clock.wall() - 100)

    async def test_a_beat_from_the_future_is_no_sign_of_life(self, store: Store, clock: ManualClock) -> None:
        await store.register(a_worker())
        clock.set_wall(86400)
        await store.beat("w", Pulse())
        clock.set_wall(-86400)  # and the worker dies
        clock.advance(11)

        [worker] = await store.workers()

        assert worker.missing
        assert await store.forget({"w": 10.0}) == ["w"]

    async def test_a_beat_of_an_unknown_worker_is_none(self, store: Store) -> None:  # W21, W22
        await store.register(a_worker())
        await store.retire("w")

        assert not await store.beat("w", Pulse())
        assert await store.beat("never seen", Pulse()) is None
        assert await store.workers() == []

    async def test_workers_are_listed_by_their_start(self, store: Store, clock: ManualClock) -> None:
        for worker_id in ("z", "m", "a"):
            await store.register(a_worker(worker_id))
            clock.advance(1)

        assert [worker.id for worker in await store.workers()] == ["z", "m", "a"]

    async def test_silence_alone_takes_nothing_from_a_worker(self, store: Store, clock: ManualClock) -> None:  # T2
        await store.register(a_worker())
        await enqueue(store, a_job(lease=1e6))
        leased = await lease_one(store)
        clock.advance(3600)
        await store.prune(Retention(), {})

        assert await store.reap(["q"]) == []
        assert [worker.silent_for for worker in await store.workers()] == [3600.0]
        assert await state(store, leased.job.id) is State.RUNNING

    async def test_a_worker_that_leaves_is_gone_and_its_jobs_stay_leased(self, store: Store) -> None:  # R36
        await store.register(a_worker())
        await enqueue(store)
        leased = await lease_one(store)

        await store.leave("w")
        await store.leave("w")

        assert await store.workers() == []
        assert await state(store, leased.job.id) is State.RUNNING
        assert (await settle(store, leased, SUCCEED)).kind == "ok"

    async def test_a_worker_that_registers_again_starts_anew(self, store: Store, clock: ManualClock) -> None:
        await store.register(a_worker(concurrency=1))
        await enqueue(store)
        await settle(store, await lease_one(store), SUCCEED)
        clock.advance(60)
        await store.register(a_worker(concurrency=2))

        [worker] = await store.workers()
        assert (worker.concurrency, worker.started_at, worker.silent_for) == (2, clock.wall(), 0.0)
        assert worker.totals == Totals()

    async def test_what_a_worker_did_is_counted_for_it_alone(
        self, store: Store, clock: ManualClock
    ) -> None:  # T20, R52
        await store.register(a_worker("one"))
        await store.register(a_worker("two"))
        await enqueue(store, *[a_job() for _ in range(5)])
        first = await lease(store, limit=4, worker="one")
        [second] = await lease(store, limit=1, worker="two")
        await store.settle([(first[0], SUCCEED), (first[1], FAIL), (first[2], RETRY), (second, SUCCEED)])
        await store.cancel([first[3].job.id])
        await lease_one(store, worker="two")
        clock.advance(30)
        await store.reap(["q"])

        one, two = [worker.totals for worker in await store.workers()]

        assert one == Totals(processed=3, succeeded=1, failed=1, retried=1)
        assert two == Totals(processed=1, succeeded=1, lost=1)

    async def test_a_worker_says_with_every_beat_how_it_is(
        self, store: Store, make_store: MakeStore
    ) -> None:  # R30, R37
        await store.register(a_worker("w", lanes=("loop", "process"), held=1))
        [worker] = await make_store().workers()
        assert (worker.lanes, worker.held, worker.jobs, worker.memory) == (("loop", "process"), 1, (), 0)

        pulse = Pulse(
            held=3, jobs=("one", "Zo\u00eb"), memory=1 << 40, strays=2, trouble="the loop is blocked\nby “it”"
        )
        assert await store.beat("w", pulse)

        [worker] = await make_store().workers()
        assert worker.pulse == pulse
        assert (worker.queues, worker.lanes, worker.concurrency) == (("q", "*"), ("loop", "process"), 1)

        assert await store.beat("w", Pulse(queues=("other",)))

        [worker] = await make_store().workers()
        assert (worker.pulse, worker.queues) == (Pulse(), ("other",))

    async def test_an_order_comes_back_with_every_beat(self, store: Store, make_store: MakeStore) -> None:
        await store.register(a_worker("w"))
        await store.register(a_worker("other"))
        assert await store.beat("w", Pulse()) is Order.GO_ON

        for order in (Order.QUIET, Order.STOP, Order.GO_ON, Order.QUIET):
            assert await make_store().order("w", order)

            assert await store.beat("w", Pulse()) is order
            assert await store.beat("w", Pulse(held=1)) is order
            assert {worker.id: worker.order for worker in await store.workers()} == {"w": order, "other": Order.GO_ON}
        assert await store.beat("other", Pulse()) is Order.GO_ON

    async def test_an_order_to_an_unknown_worker_is_refused(self, store: Store) -> None:
        assert not await store.order("w", Order.QUIET)
        await store.register(a_worker("w"))
        await store.leave("w")

        assert not await store.order("w", Order.QUIET)

        assert await store.workers() == []
        assert await store.beat("w", Pulse()) is None

    async def test_a_worker_that_registers_again_has_no_order(self, store: Store) -> None:
        await store.register(a_worker("w"))
        await store.order("w", Order.STOP)

        await store.register(a_worker("w", order=Order.STOP))

        assert await store.beat("w", Pulse()) is Order.GO_ON
        assert [worker.order for worker in await store.workers()] == [Order.GO_ON]

    async def test_a_worker_is_missing_once_it_has_been_silent_for_ten_seconds(
        self, store: Store, clock: ManualClock
    ) -> None:  # T2
        await store.register(a_worker())
        clock.advance(10)
        assert [worker.missing for worker in await store.workers()] == [False]
        clock.advance(1)
        assert [worker.missing for worker in await store.workers()] == [True]
        await store.beat("w", Pulse())
        assert [worker.missing for worker in await store.workers()] == [False]

    async def test_a_worker_says_itself_after_how_long_a_silence_it_is_missing(
        self, store: Store, clock: ManualClock
    ) -> None:  # W25
        await store.register(a_worker(missing_after=3.0))
        clock.advance(3)
        assert [(worker.missing, worker.missing_after) for worker in await store.workers()] == [(False, 3.0)]
        clock.advance(1)
        assert [worker.missing for worker in await store.workers()] == [True]
        await store.beat("w", Pulse(missing_after=60.0))
        clock.advance(60)
        assert [(worker.missing, worker.missing_after) for worker in await store.workers()] == [(False, 60.0)]

    async def test_a_worker_is_forgotten_once_it_has_been_silent_for_long_and_holds_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:  # T15, R19, R20
        for worker_id in ("patient", "idle", "holding", "beating"):
            await store.register(a_worker(worker_id))
        await enqueue(store, a_job(lease=1e6))
        held = await lease_one(store, worker="holding")
        limits = {"unknown": 0.0, "holding": 60.0, "beating": 60.0, "idle": 60.0, "patient": 600.0}
        clock.advance(59)
        assert await store.forget(limits) == []
        await store.beat("beating", Pulse())
        clock.advance(1)

        assert await store.forget(limits) == ["idle"]

        assert [worker.id for worker in await store.workers()] == ["patient", "holding", "beating"]
        clock.advance(540)
        assert await store.forget(limits) == ["beating", "patient"]
        assert await state(store, held.job.id) is State.RUNNING
        await settle(store, held, SUCCEED)
        assert await store.forget(limits) == ["holding"]
        assert await store.workers() == []
        assert await store.forget({}) == []
        assert not await store.beat("holding", Pulse())

    async def test_the_first_caller_in_an_interval_claims_the_chore(
        self, store: Store, clock: ManualClock, make_store: MakeStore
    ) -> None:  # R18
        other = make_store()
        assert await store.claim_chore("registry", 60)
        clock.advance(59)
        assert not await other.claim_chore("registry", 60)
        assert await other.claim_chore("another", 60)
        assert await other.claim_chore("registry", 59)
        clock.advance(59)
        assert not await store.claim_chore("registry", 60)
        clock.advance(1)

        answers = await asyncio.gather(*[each.claim_chore("registry", 60) for each in (store, other) * 5])
        assert sorted(answers) == [False] * 9 + [True]
