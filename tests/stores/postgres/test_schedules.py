"""Schedules that are fired while others settle, cancel, put and fire: in every order each tick is decided once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenure.core.job import NewJob, State, new_id
from tenure.core.lease import Lease
from tenure.core.lifecycle import Transition
from tenure.core.schedule import Firing, Overlap, SchedulePut, ScheduleRecord, ScheduleSearch, TickEnd, TickRecord
from tenure.stores.base import Store
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.values import VerdictKind
from tenure.testing.conformance.run_scene import a_start, hand_over
from tenure.testing.conformance.scene import SUCCEED, a_job, counts, lease_one, record, settle, state

from .conftest import MakeStore
from .soundness import unsound
from .stepping import Call, Race, calling
from .test_pooler import pooled_url

__all__ = ["pooled_url"]


async def put(store: Store, *names: str) -> list[bool]:
    return await store.put_schedules([SchedulePut(name=name, if_version=0, settings="{}", next=0.0) for name in names])


async def found(store: Store, name: str) -> ScheduleRecord:
    [schedule] = (await store.schedules(ScheduleSearch(names=(name,)))).schedules
    return schedule


async def fire(store: Store, *names: str, version: int = 1, **job: Any) -> list[TickRecord | None]:
    """Fire one tick of each of these schedules; what became of it, None if it was refused."""
    overlap = job.pop("overlap", Overlap.ALLOW)
    firings = [
        Firing(name=name, version=version, jobs=((float(version), a_job(**job)),), next=0.0, overlap=overlap)
        for name in names
    ]
    return [None if fired is None else fired[0] for fired in await store.fire(firings)]


async def fired_and_held(store: PostgresStore, job: NewJob | None = None, **options: Any) -> tuple[str, Lease]:
    """A schedule whose last job is held; its name, which is also that of the queue."""
    name = new_id()
    await put(store, name)
    firing = Firing(name=name, version=1, jobs=((1.0, job or a_job(queue=name, **options)),), next=0.0)
    assert await store.fire([firing]) != [None]
    return name, await lease_one(store, firing.jobs[0][1].queue)


def settling(held: Lease, transition: Transition = SUCCEED) -> Call:
    async def call(store: PostgresStore) -> VerdictKind:
        return (await settle(store, held, transition)).kind

    return call


# At the same time.


@pytest.mark.parametrize("overlap", Overlap)
async def test_of_two_who_fire_one_tick_one_does(race: Race, overlap: Overlap) -> None:  # I13
    async for order in race.orders():
        name, _ = await fired_and_held(race.store)

        answers = await race.run(order, *[calling(fire, name, version=2, overlap=overlap, queue=name)] * 2)

        assert sum(entry is not None for [entry] in answers) == 1
        assert (await found(race.store, name)).version == 3
        here = await counts(race.store, name)
        assert here.waiting + here.blocked == (overlap is not Overlap.SKIP)
        assert here.cancelled == (overlap is Overlap.REPLACE)


async def test_who_fire_the_same_in_other_orders_do_not_wait_for_each_other_for_ever(race: Race) -> None:
    async for order in race.orders():
        names = [new_id() for _ in range(3)]
        await put(race.store, *names)

        one, other = await race.run(order, calling(fire, *names), calling(fire, *reversed(names)))

        assert all((here is None) != (there is None) for here, there in zip(one, reversed(other), strict=True))


async def test_who_put_the_same_in_other_orders_do_not_wait_for_each_other_for_ever(race: Race) -> None:
    async for order in race.orders():
        names = [new_id() for _ in range(3)]

        one, other = await race.run(order, calling(put, *names), calling(put, *reversed(names)))

        assert all(here != there for here, there in zip(one, reversed(other), strict=True))


async def test_a_tick_and_the_end_of_the_last_job_that_it_skips_for(race: Race) -> None:
    async for order in race.orders():
        name, held = await fired_and_held(race.store)

        [entry], settled = await race.run(
            order, calling(fire, name, version=2, overlap=Overlap.SKIP, queue=name), settling(held)
        )

        assert settled == "ok"
        assert not race.waited
        assert entry.end in {TickEnd.SKIPPED, TickEnd.ENQUEUED}
        assert (await counts(race.store, name)).waiting == (entry.end is TickEnd.ENQUEUED)


@pytest.mark.parametrize("keep", [None, 0.0])
async def test_a_tick_and_the_end_of_the_last_job_that_it_waits_for(race: Race, keep: float | None) -> None:
    async for order in race.orders():
        name, held = await fired_and_held(race.store, keep=keep)

        [entry], settled = await race.run(
            order, calling(fire, name, version=2, overlap=Overlap.WAIT, queue=name), settling(held)
        )

        assert settled == "ok"
        assert entry.end is TickEnd.ENQUEUED
        assert await state(race.store, entry.job_id) is State.WAITING


async def test_a_tick_and_the_end_of_the_last_job_that_it_replaces(race: Race) -> None:
    async for order in race.orders():
        name, held = await fired_and_held(race.store)

        [entry], settled = await race.run(
            order, calling(fire, name, version=2, overlap=Overlap.REPLACE, queue=name), settling(held)
        )

        assert (settled, entry.replaced) in {("ok", None), ("lease_lost", held.job.id)}
        assert await state(race.store, held.job.id) is (State.SUCCEEDED if settled == "ok" else State.CANCELLED)
        assert await state(race.store, entry.job_id) is State.WAITING


async def test_a_tick_and_the_next_step_of_the_run_that_it_replaces(race: Race) -> None:
    async for order in race.orders():
        queue = new_id()
        name, held = await fired_and_held(race.store, a_start(queue=queue))

        [entry], _ = await race.run(
            order, calling(fire, name, version=2, overlap=Overlap.REPLACE), calling(hand_over, held, queue=queue)
        )

        run = await race.store.run(held.job.id)
        assert run is not None
        assert (run.step.id, run.step.state) == (entry.replaced, State.CANCELLED)


async def test_a_tick_and_an_operator_who_cancels_the_last_job(race: Race) -> None:
    async for order in race.orders():
        name, held = await fired_and_held(race.store)

        async def cancel(store: PostgresStore, job_id: str = held.job.id) -> VerdictKind:
            [verdict] = await store.cancel([job_id])
            return verdict.kind

        [entry], verdict = await race.run(
            order, calling(fire, name, version=2, overlap=Overlap.REPLACE, queue=name), cancel
        )

        assert (verdict == "ok") != (entry.replaced is not None)
        assert await state(race.store, entry.job_id) is State.WAITING


async def test_many_who_fire_and_put_the_same_schedules(make_store: MakeStore, sql: Any) -> None:  # F14, I13
    stores = [make_store() for _ in range(4)]
    names = [f"s{number:02}" for number in range(30)]

    async def work(store: PostgresStore, backwards: bool) -> None:
        await put(store, *(reversed(names) if backwards else names))
        while (page := await store.schedules(ScheduleSearch(due=True))).schedules:
            await store.confirm_schedules(names)
            await store.fire(
                [
                    Firing(
                        name=due.name,
                        version=due.version,
                        jobs=((float(due.version), a_job(unique=due.name if number % 5 == 0 else None)),),
                        overlap=[*Overlap][number % 4],
                        next=0.0 if due.version < 8 else None,
                    )
                    for number, due in enumerate(sorted(page.schedules, key=lambda each: each.name, reverse=backwards))
                ]
            )

    await asyncio.gather(*(work(store, number % 2 == 1) for number, store in enumerate(stores)))

    schedules = (await stores[0].schedules(ScheduleSearch())).schedules
    assert [(each.name, each.version) for each in schedules] == [(name, 9) for name in names]
    assert all([entry.tick for entry in each.history] == [float(tick) for tick in range(1, 9)] for each in schedules)
    assert await unsound(sql) == []


async def test_an_open_transaction_that_settles_a_job_does_not_hold_up_ticks_that_are_skipped_for_it(
    make_store: MakeStore,
) -> None:
    store = make_store(timeout="5")
    name, held = await fired_and_held(store)
    await put(store, "other")
    own = await store.begin()
    await own.caller.arun(store.settling((held, SUCCEED)))

    [entry] = await fire(store, name, version=2, overlap=Overlap.SKIP)
    assert entry is not None
    assert (entry.end, entry.job_id) == (TickEnd.SKIPPED, held.job.id)
    await own.commit()

    [entry] = await fire(store, name, version=3, overlap=Overlap.SKIP)
    assert entry is not None
    assert entry.end is TickEnd.ENQUEUED


# In one call.


def entries_of(answers: list[tuple[TickRecord, ...] | None]) -> list[TickRecord]:
    return [entry for fired in answers if fired is not None for entry in fired]


@pytest.mark.parametrize("overlap", Overlap)
async def test_firings_of_one_schedule_in_one_call_see_each_other(
    make_store: MakeStore, sql: Any, overlap: Overlap
) -> None:
    store = make_store()
    await put(store, "s")
    jobs = [a_job(), a_job(), a_job()]

    answers = await store.fire(
        [
            Firing(name="s", version=version, jobs=((float(version), job),), overlap=overlap)
            for version, job in enumerate(jobs, 1)
        ]
    )

    expected = {
        Overlap.ALLOW: [("enqueued", jobs[0].id, None), ("enqueued", jobs[1].id, None), ("enqueued", jobs[2].id, None)],
        Overlap.SKIP: [("enqueued", jobs[0].id, None)] + [("skipped", jobs[0].id, None)] * 2,
        Overlap.WAIT: [("enqueued", jobs[0].id, None)] + [("skipped", jobs[0].id, None)] * 2,
        Overlap.REPLACE: [
            ("enqueued", jobs[0].id, None), ("enqueued", jobs[1].id, jobs[0].id), ("enqueued", jobs[2].id, jobs[1].id),
        ],
    }  # fmt: skip
    assert [(entry.end, entry.job_id, entry.replaced) for entry in entries_of(answers)] == expected[overlap]
    assert await unsound(sql) == []


async def test_plain_and_other_jobs_of_one_call_are_in_line_in_order(make_store: MakeStore, sql: Any) -> None:
    store = make_store()
    names = ["a", "b", "c", "d", "e", "f"]
    await put(store, *names)
    start = a_start(queue="q")
    await fire(store, "d")
    jobs = [a_job(), a_job(unique="k"), a_job(unique="k"), a_job(), start, a_job(tags=("t",))]

    answers = await store.fire(
        [
            Firing(name=name, version=2 if name == "d" else 1, jobs=((1.0, job),), overlap=Overlap.REPLACE)
            for name, job in zip(names, jobs, strict=True)
        ]
    )

    assert [entry.end for entry in entries_of(answers)] == ["enqueued"] * 2 + ["duplicate"] + ["enqueued"] * 3
    places = [(await record(store, job.id)).seq for job in jobs if job is not jobs[2]]
    assert places == sorted(places)
    assert await store.get([jobs[2].id]) == [None]
    assert await unsound(sql) == []


async def test_a_firing_that_the_store_chokes_on_leaves_all_as_it_was(make_store: MakeStore, sql: Any) -> None:
    store = make_store()
    await put(store, "a", "b")
    await sql.execute("ALTER TABLE jobs ADD CHECK (task <> 'bad')")

    with pytest.raises(Exception, match="violates check constraint"):
        await store.fire(
            [
                Firing(name="a", version=1, jobs=((1.0, a_job(unique="k")),)),
                Firing(name="b", version=1, jobs=((1.0, a_job(task="bad")),)),
            ]
        )

    assert [(await found(store, name)).version for name in "ab"] == [1, 1]
    assert await sql.fetchval("SELECT count(*) FROM jobs") == 0


async def test_schedules_are_fired_behind_a_pooler(pooled_url: str) -> None:
    stores = [PostgresStore.from_url(pooled_url) for _ in range(3)]
    await put(stores[0], "a", "b")

    answers = await asyncio.gather(*(fire(store, "a", "b", overlap=Overlap.REPLACE) for store in stores))
    again = await fire(stores[0], "a", version=2, overlap=Overlap.REPLACE)

    assert [sum(entry is not None for entry in each) for each in zip(*answers, strict=True)] == [1, 1]
    assert again[0] is not None
    assert again[0].replaced is not None
    here = await counts(stores[0])
    assert (here.waiting, here.cancelled) == (2, 1)
    for store in stores:
        await store.close()


async def test_looking_for_due_schedules_reads_no_others(make_store: MakeStore, sql: Any) -> None:
    store = make_store()
    later = (await store.schedules(ScheduleSearch())).now + 1000
    await store.put_schedules(
        [SchedulePut(name=f"s{number}", if_version=0, settings="{}", next=later + number) for number in range(1000)]
    )
    looked_at = "SELECT pg_stat_get_xact_tuples_fetched('schedules'::regclass) + pg_stat_get_xact_tuples_returned('schedules'::regclass)"

    async with sql.transaction():
        before = await sql.fetchval(looked_at)
        rows = await sql.fetch("SELECT * FROM find_schedules(NULL, NULL, true, 0, '', 100)")
        after = await sql.fetchval(looked_at)

    assert len(rows) == 1
    assert after - before <= 2
