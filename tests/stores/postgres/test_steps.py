"""What is true of any two steps at the same time, and of any that is cut off: no deadlock, nothing half done."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from tenure.core.job import NewJob, State, new_id
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish
from tenure.core.measures import HistoryWrite
from tenure.errors import BlockerNotFound
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.values import Renewal
from tenure.testing.conformance.scene import (
    FAIL,
    RETRY,
    SUCCEED,
    a_job,
    a_worker,
    enqueue,
    lease,
    lease_one,
    settle,
    success,
)

from .stepping import TABLES, Race, calling
from .test_races import EXPIRED, NOTHING, OUTSIDE, a_lease, settling


class Scene(NamedTuple):
    """Two jobs that are held, and expired; each has a key, and the first two that wait for it."""

    one: Lease
    other: Lease
    dependents: list[str]

    @property
    def ids(self) -> list[str]:
        return [self.one.job.id, self.other.job.id]

    @property
    def keys(self) -> list[NewJob]:
        return [a_job(unique=held.job.unique) for held in (self.one, self.other)]


async def a_scene(store: PostgresStore) -> Scene:
    # The order of the keys is not that of the jobs.
    one, other = [await a_lease(store, EXPIRED, unique=f"{n}{new_id()}") for n in "12"]
    dependents = await enqueue(store, *(a_job(queue=one.job.queue, after=(one.job.id,)) for _ in range(2)))
    return Scene(one, other, dependents)


SEVERAL: dict[str, Callable[[PostgresStore, Scene], Awaitable[Any]]] = {
    "settle": lambda store, scene: store.settle([(scene.one, SUCCEED), (scene.other, SUCCEED)]),
    "settle other": lambda store, scene: store.settle([(scene.other, FAIL), (scene.one, RETRY)]),
    "fail": lambda store, scene: store.settle([(scene.other, FAIL), (scene.one, FAIL)]),
    "renew": lambda store, scene: store.renew([Renewal(scene.other, ttl=9), Renewal(scene.one, ttl=9)]),
    "reap": lambda store, scene: store.reap([scene.other.job.queue, scene.one.job.queue]),
    "retire": lambda store, scene: store.retire(scene.one.job.queue),
    "cancel": lambda store, scene: store.cancel(scene.ids),
    "cancel all": lambda store, scene: store.cancel([*scene.dependents, *scene.ids]),
    "complete": lambda store, scene: store.complete(scene.one.job.id, success("1")),
    "delete all": lambda store, scene: store.delete(scene.ids[::-1], cascade=True),
    "retry": lambda store, scene: store.retry([*scene.ids, *scene.dependents]),
    "enqueue keys": lambda store, scene: store.enqueue(scene.keys),
    "enqueue after": lambda store, scene: store.enqueue([a_job(after=(*reversed(scene.ids), *scene.dependents))]),
    "wait": lambda store, scene: store.wait([*scene.dependents, *scene.ids]),
    "purge": lambda store, scene: store.purge(scene.one.job.queue),
    "prune": lambda store, scene: store.prune(NOTHING, {}),
}

CLOSE = {("settle", "cancel all"), ("settle", "purge"), ("fail", "enqueue keys")}
"""Of those that once have waited for each other, some for every run."""


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


DYING: dict[str, Any] = {
    "enqueue": lambda store, held: store.enqueue([a_job(queue=held.job.queue, unique="new", after=(held.job.id,))]),
    "lease": lambda store, held: lease(store, held.job.queue),
    "settle": lambda store, held: settling((held, Finish(State.SUCCEEDED, "1", children=(a_job(id="child"),))))(store),
    "renew": lambda store, held: store.renew([Renewal(held, ttl=60)]),
    "reap": lambda store, held: store.reap([held.job.queue]),
    "retry": lambda store, held: store.retry(["old"]),
    "prune": lambda store, held: store.prune(NOTHING, {}),
    "take_in": lambda store, held: store.take_in([held.job.queue]),
    "purge": lambda store, held: store.purge(held.job.queue),
    "register": lambda store, held: store.register(a_worker(held.job.queue)),
    "delete": lambda store, held: store.delete([held.job.id], cascade=True),
    "record_history": lambda store, held: store.record_history([HistoryWrite(held.job.queue, "t", {"succeeded": 1.0})]),
    "mark": lambda store, held: store.mark(held.job.queue),
} | {name: OUTSIDE[name] for name in ("cancel", "complete", "retire")}


@pytest.mark.parametrize("act", DYING)
async def test_a_call_that_dies_at_any_statement_has_done_nothing(race: Race, sql: Any, act: str) -> None:  # F14, I19
    held = await a_lease(race.store, EXPIRED, unique="key")
    await enqueue(
        race.store, a_job(id="old"), a_job(queue=held.job.queue), a_job(queue=held.job.queue, after=(held.job.id,))
    )
    await settle(race.store, await lease_one(race.store), SUCCEED)
    await race.store.wait([held.job.id])
    await sql.execute('INSERT INTO inbox (queue, entry) VALUES ($1, \'{"task": "t"}\')', held.job.queue)
    before = await tables(sql)

    for steps in range(1, 60):
        if not await race.die(calling(DYING[act], held), steps):
            break
        assert await tables(sql) == before, f"after {steps} statements"

    assert steps > 1
    assert await tables(sql) != before


async def tables(sql: Any) -> dict[str, list[Any]]:
    """All that is stored; of counters their sums, which is what they are: `prune` folds them in a transaction before its own."""
    counted = "SELECT queue, worker, what, sum(number) FROM counted GROUP BY 1, 2, 3 HAVING sum(number) <> 0"
    stored = {name: f"TABLE {name}" for name in TABLES if name not in ("tallies", "counters")} | {"counted": counted}
    return {name: sorted(map(str, await sql.fetch(rows))) for name, rows in stored.items()}
