"""Measures on PostgreSQL: what many workers add at the same time, how maps are merged, and names that the server refuses."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from typing import Any

from tenure.core.measures import (
    ERRORS,
    EVER,
    OTHERS,
    RESOLUTIONS,
    ROWS,
    HistorySearch,
    HistoryWrite,
    merge_counts,
    merge_gauges,
)
from tenure.testing.conformance.scene import a_job, enqueue

from .conftest import MakeStore
from .soundness import unsound

WORKERS = 8


async def test_what_many_workers_add_at_the_same_time_is_added_up(make_store: MakeStore, sql: Any) -> None:  # F8
    stores = [make_store() for _ in range(WORKERS)]
    await stores[0].open()
    writes = [HistoryWrite(queue, task, {"succeeded": 1.0, "run": 0.5}) for queue in "abc" for task in ("", "t", "u")]

    async def work(number: int) -> None:
        for _ in range(5):
            shuffled = random.Random(number).sample(writes, len(writes))
            await stores[number].record_history(shuffled)

    await asyncio.gather(*map(work, range(WORKERS)))

    found = await stores[0].history(HistorySearch(resolution=EVER, rows="tasks"))
    assert [(row.queue, row.task) for row in found] == [(queue, task) for queue in "abc" for task in "tu"]
    assert {(row.counts["succeeded"], row.counts["run"]) for row in found} == {(5.0 * WORKERS, 2.5 * WORKERS)}
    assert await unsound(sql) == []


async def test_no_slot_has_too_many_rows_though_many_workers_add_some(make_store: MakeStore, sql: Any) -> None:  # F8
    stores = [make_store() for _ in range(WORKERS)]
    await stores[0].open()
    each = ROWS // WORKERS + 10

    await asyncio.gather(
        *(
            store.record_history([HistoryWrite("q", f"{number}-{task}", {"succeeded": 1.0}) for task in range(each)])
            for number, store in enumerate(stores)
        )
    )

    for resolution in (*RESOLUTIONS, EVER):
        found = await stores[0].history(HistorySearch(resolution=resolution, rows="tasks"))
        assert sum(row.counts["succeeded"] for row in found) == WORKERS * each
    assert len(found) == ROWS + 1
    assert found[-1].queue == found[-1].task == OTHERS
    assert await unsound(sql) == []


async def merged(sql: Any, before: Mapping[str, float], added: Mapping[str, float]) -> dict[str, float]:
    text = await sql.fetchval("SELECT merge_counts($1, $2, $3)", json.dumps(before), json.dumps(added), ERRORS)
    found: dict[str, float] = json.loads(text)
    return found


async def test_counts_are_merged_as_python_does_it(make_store: MakeStore, sql: Any) -> None:
    await make_store().open()
    random_numbers = random.Random(7)
    names = ["succeeded", "run", "wait:-3", *(f"error:E{number}" for number in range(60)), f"error:{OTHERS}"]

    def some(most: int) -> dict[str, float]:
        return {name: random_numbers.lognormvariate(0, 9) for name in random_numbers.sample(names, most)}

    for _ in range(200):
        before, added = merge_counts({}, some(random_numbers.randrange(36))), some(random_numbers.randrange(20))
        found, wanted = await merged(sql, before, added), merge_counts(before, added)
        new = [name for name in added if name.startswith("error:") and name not in before]
        if sum(name.startswith("error:") for name in before) + len(new) <= ERRORS:
            assert found == wanted
        else:  # which of the new types have a counter depends on their order
            assert sum(name.startswith("error:") for name in found) in (ERRORS, ERRORS + 1)
            assert abs(sum(found.values()) - sum(wanted.values())) <= 1e-9 * sum(wanted.values())
            assert all(found[name] == wanted[name] for name in before if name != f"error:{OTHERS}")


async def test_gauges_are_merged_as_python_does_it(make_store: MakeStore, sql: Any) -> None:
    await make_store().open()
    maps: list[dict[str, float]] = [{}, {"oldest": 1.0, "in_line": 2.0}, {"oldest": 3.0}, {"in_line": 4.0}]
    for before in maps:
        for later in maps:
            found = await sql.fetchval("SELECT merge_gauges($1, $2)", json.dumps(before), json.dumps(later))
            assert json.loads(found) == merge_gauges(before, later)


async def test_old_rows_are_deleted_a_thousand_at_a_time(make_store: MakeStore, sql: Any) -> None:
    store = make_store()
    await store.open()
    await sql.execute(
        "INSERT INTO measures SELECT 10, 10 * slot, 'q', 't' || task, '{}', '{}' "
        "FROM generate_series(1, 15) AS slot, generate_series(1, 100) AS task"
    )
    left = []
    for _ in range(3):
        await store.record_history([HistoryWrite("q", "t", {"succeeded": 1.0})])
        left.append(await sql.fetchval("SELECT count(*) FROM measures WHERE slot BETWEEN 10 AND 150"))

    assert left == [500, 0, 0]
    assert [row.counts["succeeded"] for row in await store.history(HistorySearch(resolution=EVER, rows="tasks"))] == [3]


async def test_names_with_nul_are_no_error(make_store: MakeStore) -> None:
    store = make_store()
    await enqueue(store, a_job(queue="a"), a_job(queue="b"))

    await store.record_history([HistoryWrite("q\0", "t", {"error:\0": 1.0})])
    await store.mark("a\0b")

    assert len(await store.history(HistorySearch(resolution=EVER, queue="q\0", task="t"))) == 1
    assert await store.history(HistorySearch(resolution=EVER, queue="\0")) == []
    assert [mark.label for mark in await store.marks()] == ["a\0b"]
    assert [queue.name for queue in await store.queues(after="a\0")] == ["b"]


async def test_an_unknown_resolution_has_no_rows(make_store: MakeStore) -> None:
    assert await make_store().history(HistorySearch(resolution=7, rows="tasks")) == []


async def test_a_page_of_queues_has_those_that_are_not_summed_up_and_those_with_only_an_inbox(
    make_store: MakeStore, sql: Any
) -> None:
    store = make_store()
    await enqueue(store, a_job(queue="b"), a_job(queue="d"))
    await store.reap(["b"])  # sums up
    await enqueue(store, a_job(queue="a"), a_job(queue="e"))
    await sql.execute("INSERT INTO inbox (queue, entry) VALUES ('c', '{\"task\": \"t\"}')")

    async def names(after: str, limit: int | None) -> str:
        return "".join([queue.name for queue in await store.queues(after, limit)])

    assert await names("", None) == "abcde"
    assert [await names(after, 2) for after in ("", "b", "d", "e")] == ["ab", "cd", "e", ""]
    assert [await names(after, 5) for after in ("", "b")] == ["abcde", "cde"]
