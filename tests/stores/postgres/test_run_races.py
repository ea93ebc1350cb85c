"""A run's steps and somebody else at the same time, statement by statement and in every order."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from tenure.core.job import State, Writes, new_id
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish
from tenure.errors import BlockerNotFound
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.values import RunSearch
from tenure.testing.conformance.run_scene import a_start, a_successor, hand_over
from tenure.testing.conformance.scene import (
    FAIL,
    RETRY,
    SUCCEED,
    a_job,
    enqueue,
    lease,
    lease_one,
    record,
    settle,
    state,
    success,
)

from .stepping import Call, Race, calling
from .test_races import EXPIRED, NOTHING, a_lease, settling
from .test_steps import tables


async def a_run(store: PostgresStore, ttl: float = 30.0, steps: int = 1, **job: Any) -> Lease:
    """A run in a queue of its own, whose so many-th step is held."""
    queue = new_id()
    await enqueue(store, a_start({"a": "0"}, {"k": (queue,)}, queue=queue, **job))
    held = await lease_one(store, queue, ttl=ttl, worker=queue)
    for _ in range(steps - 1):
        await hand_over(store, held, queue=queue)
        held = await lease_one(store, queue, ttl=ttl, worker=queue)
    return held


def run_of(held: Lease) -> str:
    assert held.job.run_id is not None
    return held.job.run_id


def next_transition(held: Lease, **changes: Any) -> Finish:
    """What hands over to a further step in the same queue, writing an attribute."""
    children = changes.pop("children", ())
    successor = a_successor(run_of(held), queue=held.job.queue, **changes)
    return success("null", successor=successor, children=children, writes=Writes({"a": "1"}, {"k": ("new",)}))


def handing_over(held: Lease, **changes: Any) -> Call:
    return settling((held, next_transition(held, **changes)))


async def steps_of(store: PostgresStore, held: Lease) -> list[State]:
    return [step.state for step in (await store.steps(run_of(held))).jobs]


@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize("end", ["cancel", "complete", "reap", "retire", "delete"])
async def test_of_a_hand_over_and_another_end_one_wins(race: Race, which: int, end: str) -> None:  # F25, I5, I6, I13
    acts: dict[str, Callable[[Lease], Call]] = {
        "cancel": lambda held: calling(PostgresStore.cancel, [run_of(held)]),
        "complete": lambda held: calling(PostgresStore.complete, held.job.id, next_transition(held)),
        "reap": lambda held: calling(PostgresStore.reap, [held.job.queue]),
        "retire": lambda held: calling(PostgresStore.retire, held.job.queue),
        "delete": lambda held: calling(PostgresStore.delete, [run_of(held)]),
    }
    won = set()
    async for order in race.orders():
        held = await a_run(race.store, EXPIRED if end == "reap" else 30, which, unique=new_id())

        [verdict], answer = await race.run(order, handing_over(held), acts[end](held))

        won.add(verdict)
        before = [State.SUCCEEDED] * (which - 1)
        handed = [*before, State.SUCCEEDED, State.WAITING]
        found = await steps_of(race.store, held)
        match end, verdict:
            case "cancel", "ok":  # of the step that has come by it
                assert ([each.kind for each in answer], found) == (["ok"], [*handed[:-1], State.CANCELLED])
            case "cancel", _:
                assert (verdict, answer[0].kind, found) == ("lease_lost", "ok", [*before, State.CANCELLED])
            case "complete", _:
                assert sorted([verdict, answer.kind]) in (["ok", "refused"], ["lease_lost", "ok"])
                assert found == handed
            case "delete", _:
                assert verdict in {"ok", "not_found"}
                assert (len(answer), found) == (which + (verdict == "ok"), [])
            case _, "ok":
                assert (answer, found) == ([], handed)
            case _:
                assert (verdict, len(answer), found) == ("lease_lost", 1, [*before, State.WAITING])
        if end == "reap":
            assert 1 not in race.waited, "what is about to be handed over is passed over"
    assert len(won) == 2


async def test_the_same_hand_over_twice_at_once_makes_one_step(race: Race) -> None:  # I6, I13
    async for order in race.orders():
        held = await a_run(race.store)
        settles = handing_over(held)

        assert await race.run(order, settles, settles) == [["ok"], ["ok"]]

        assert await steps_of(race.store, held) == [State.SUCCEEDED, State.WAITING]


@pytest.mark.parametrize("ends", [(SUCCEED, SUCCEED), (SUCCEED, FAIL)])
@pytest.mark.parametrize("of", ["jobs", "runs"])
async def test_a_join_goes_on_once_when_all_that_it_waits_for_ends_at_once(
    race: Race, of: str, ends: tuple[Finish, Finish]
) -> None:  # F25, I13
    async for order in race.orders():
        join = await a_run(race.store)
        make = a_lease if of == "jobs" else calling(a_run, steps=2)
        one, other = [await make(race.store) for _ in range(2)]
        awaited = tuple(held.job.run_id or held.job.id for held in (one, other))
        await settle(race.store, join, next_transition(join, after=awaited))

        answers = await race.run(order, settling((one, ends[0])), settling((other, ends[1])))

        assert answers == [["ok"], ["ok"]]
        assert await steps_of(race.store, join) == [
            State.SUCCEEDED,
            State.FAILED if FAIL in ends else State.WAITING,
        ]
        assert len(await lease(race.store, join.job.queue)) == (FAIL not in ends)


@pytest.mark.parametrize("step", ["hand over", "end"])
@pytest.mark.parametrize("which", [1, 2])
async def test_who_begins_to_wait_for_a_run_while_a_step_ends_is_not_forgotten(
    race: Race, which: int, step: str
) -> None:  # I13
    async for order in race.orders():
        held = await a_run(race.store, steps=which)
        ends = handing_over(held) if step == "hand over" else settling((held, SUCCEED))
        new = a_job(queue=new_id(), after=(run_of(held),))

        _, _, found = await race.run(
            order, ends, calling(PostgresStore.enqueue, [new]), calling(PostgresStore.wait, [run_of(held)])
        )

        assert await state(race.store, new.id) is (State.BLOCKED if step == "hand over" else State.WAITING)
        if step == "hand over":
            assert found == {}
            await settle(race.store, await lease_one(race.store, held.job.queue), SUCCEED)
            assert (await record(race.store, new.id)).results == ("42",)


async def test_of_two_starts_with_one_key_one_begins_a_run(race: Race) -> None:  # I14, Q56
    async for order in race.orders():
        key, flow = new_id(), new_id()
        starts = [a_start({"a": str(at)}, unique=key, flow=flow) for at in range(2)]

        answers = await race.run(order, *(calling(PostgresStore.enqueue, [start]) for start in starts))

        [[one], [other]] = answers
        assert sorted([one.duplicate, other.duplicate]) == [False, True]
        assert one.id == other.id
        [run] = (await race.store.runs(RunSearch(flow=flow))).runs
        assert run.id == one.id
        at = [start.id for start in starts].index(run.id)
        assert await race.store.attributes(run.id) == {"a": str(at)}


@pytest.mark.parametrize("step", ["hand over", "end"])
async def test_the_key_of_a_run_is_free_with_its_end_and_not_before(race: Race, step: str) -> None:  # F26, I14
    duplicates = set()
    async for order in race.orders():
        held = await a_run(race.store, steps=2, unique=(key := new_id()))
        ends = handing_over(held) if step == "hand over" else settling((held, SUCCEED))
        new = a_start(queue=held.job.queue, unique=key)

        _, [answer] = await race.run(order, ends, calling(PostgresStore.enqueue, [new]))

        duplicates.add(answer.duplicate)
        assert answer.id == (run_of(held) if answer.duplicate else new.id)
    assert duplicates == ({True} if step == "hand over" else {True, False})


async def test_a_run_is_pruned_as_a_whole_or_goes_on(race: Race) -> None:  # I16
    verdicts = set()
    async for order in race.orders():
        held = await a_run(race.store, steps=2)
        await settle(race.store, held, FAIL)

        pruned, [verdict] = await race.run(
            order, calling(PostgresStore.prune, NOTHING, {}), calling(PostgresStore.retry, [run_of(held)])
        )

        verdicts.add(verdict.kind)
        assert (pruned, verdict.kind) in [(1, "not_found"), (0, "ok")]
        assert len(await steps_of(race.store, held)) == 2 * (verdict.kind == "ok")
        await race.store.delete([run_of(held)])
    assert len(verdicts) == 2


class Scene(NamedTuple):
    """Two runs, with keys, whose second steps are held and expired; for the first somebody waits, who is older than that step."""

    one: Lease
    other: Lease
    dependent: str

    @property
    def ids(self) -> list[str]:
        return [run_of(self.one), run_of(self.other)]


async def a_scene(store: PostgresStore) -> Scene:
    firsts = [await a_run(store, unique=f"{n}{new_id()}") for n in "21"]
    [dependent] = await enqueue(store, a_job(queue=firsts[0].job.queue, after=(run_of(firsts[0]),)))
    held = []
    for first in reversed(firsts):
        await hand_over(store, first, queue=first.job.queue)
        held.append(await lease_one(store, first.job.queue, ttl=EXPIRED, worker=first.job.queue))
    other, one = held
    return Scene(one, other, dependent)


SEVERAL: dict[str, Callable[[PostgresStore, Scene], Awaitable[Any]]] = {
    "hand over": lambda store, scene: store.settle(
        [(held, next_transition(held)) for held in (scene.one, scene.other)]
    ),
    "end": lambda store, scene: store.settle([(scene.one, SUCCEED), (scene.other, SUCCEED)]),
    "mixed": lambda store, scene: store.settle([(scene.other, RETRY), (scene.one, FAIL)]),
    "cancel": lambda store, scene: store.cancel([scene.dependent, *scene.ids]),
    "complete": lambda store, scene: store.complete(scene.one.job.id, next_transition(scene.one)),
    "delete": lambda store, scene: store.delete([scene.one.job.id, scene.other.job.id], cascade=True),
    "retry": lambda store, scene: store.retry([*scene.ids, scene.dependent]),
    "reap": lambda store, scene: store.reap([scene.other.job.queue, scene.one.job.queue]),
    "wait": lambda store, scene: store.wait([scene.dependent, *scene.ids]),
    "enqueue after": lambda store, scene: store.enqueue([a_job(after=(scene.dependent, *scene.ids))]),
    "purge": lambda store, scene: store.purge(scene.one.job.queue),
    "prune": lambda store, scene: store.prune(NOTHING, {}),
}

CLOSE = {("end", "cancel"), ("hand over", "delete"), ("mixed", "enqueue after")}
"""Those in which one comes from the younger to the older, and the other not; the rest in long runs."""


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(pair, id=" and ".join(pair), marks=() if pair in CLOSE else pytest.mark.long)
        for pair in itertools.combinations_with_replacement(SEVERAL, 2)
    ],
)
async def test_no_two_steps_wait_for_each_other(race: Race, pair: tuple[str, str]) -> None:  # F8, I13, I14, I20
    async for order in race.orders():
        scene = await a_scene(race.store)

        answers = await race.run(order, *(calling(SEVERAL[name], scene) for name in pair))

        assert not [each for each in answers if isinstance(each, Exception) and not isinstance(each, BlockerNotFound)]


@pytest.mark.parametrize("act", ["settle", "complete", "join", "delete", "start"])
async def test_a_call_that_dies_at_any_statement_has_done_nothing(
    race: Race, sql: Any, act: str
) -> None:  # F14, F25, I13
    held = await a_run(race.store, steps=2, unique="key")
    await enqueue(race.store, a_job(queue=held.job.queue, after=(run_of(held),)))
    await race.store.wait([run_of(held)])
    child = a_job(queue=held.job.queue)
    calls: dict[str, Call] = {
        "settle": handing_over(held),
        "complete": calling(PostgresStore.complete, held.job.id, next_transition(held)),
        "join": handing_over(held, children=(child,), after=(child.id,)),
        "delete": calling(PostgresStore.delete, [run_of(held)], cascade=True),
        "start": calling(PostgresStore.enqueue, [a_start({"a": "1"}, {"b": ("2",)}, queue=held.job.queue)]),
    }
    before = await tables(sql)

    for steps in range(1, 60):
        if not await race.die(calls[act], steps):
            break
        assert await tables(sql) == before, f"after {steps} statements"

    assert steps > 1
    assert await tables(sql) != before
