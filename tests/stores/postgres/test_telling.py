"""What is told besides answers: only of what has been done, and to whoever is still there."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tenure.core.job import ErrorInfo, State, new_id
from tenure.core.lifecycle import Finish, Requeue
from tenure.errors import StoreError
from tenure.stores.base import MESSAGE_BYTES
from tenure.stores.postgres.event_channel import ROOM, packed, unpacked
from tenure.stores.values import Change, Consequence
from tenure.testing.conformance.consequences import consequences_of
from tenure.testing.conformance.scene import BOOM, SUCCEED, a_job, enqueue, lease, lease_one, record, settle, success
from tests.stores.postgres.test_link import end_others

from .conftest import MakeStore


async def test_what_was_undone_with_a_refusal_is_not_told(make_store: MakeStore) -> None:
    store = make_store()
    [first, refused] = await enqueue(store, a_job(queue="b"), a_job(queue="b"))
    [waiting, kept] = await enqueue(store, a_job(after=(first,)), a_job(after=(refused,)))
    await enqueue(store, a_job(queue="k", unique="held"))
    one, other = await lease(store, "b")
    told = consequences_of(store)
    child = a_job(queue="k", unique="held", unique_raises=True)

    verdicts = await store.settle([(one, success(children=(a_job(queue="c"),))), (other, success(children=(child,)))])

    assert [verdict.kind for verdict in verdicts] == ["ok", "refused"]
    assert told == [Consequence(Change.UNBLOCKED, waiting, "t", "q")]
    await settle(store, other, SUCCEED)
    assert told[1:] == [Consequence(Change.UNBLOCKED, kept, "t", "q")]


async def test_nothing_of_a_transaction_of_ones_own_is_told(make_store: MakeStore) -> None:
    store = make_store()
    [blocker] = await enqueue(store, a_job(queue="b"))
    [waiting] = await enqueue(store, a_job(after=(blocker,)))
    held = await lease_one(store, "b")
    told = consequences_of(store)

    own = await store.begin()
    assert (await own.caller.arun(store.settling((held, SUCCEED)))).kind == "ok"
    await own.commit()

    assert told == []
    assert (await lease_one(store)).job.id == waiting


async def test_a_watcher_that_died_is_forgotten(make_store: MakeStore, sql: Any) -> None:
    store = make_store()
    await store.open()
    await sql.execute("INSERT INTO watchers (channel, until) VALUES ('gone', 'Infinity'), ('long gone', 0)")

    assert await store.watched()
    await sql.execute("UPDATE watchers SET until = clock(NULL) + 0.3 WHERE channel = 'gone'")
    async with asyncio.timeout(10):
        while await store.watched():
            await asyncio.sleep(0.01)


async def test_a_watcher_that_lost_its_connection_hears_again(make_store: MakeStore, sql: Any) -> None:
    store, other = make_store(), make_store()
    async with other.watch() as notes:
        await end_others(sql)

        async def until_heard() -> str:
            return await anext(notes)

        heard = asyncio.create_task(until_heard())
        async with asyncio.timeout(20):
            while not heard.done():
                await store.publish(["still there?"])
                await asyncio.wait([heard], timeout=0.05)
        assert heard.result() == "still there?"


async def test_a_store_that_is_closed_watches_no_more(make_store: MakeStore, sql: Any) -> None:
    store = make_store()
    async with store.watch(), store.watch() as notes:
        assert await sql.fetchval("SELECT count(*) FROM watchers") == 1
        await store.close()
        assert [note async for note in notes] == []
        assert await sql.fetchval("SELECT count(*) FROM watchers") == 0


def test_notes_are_packed_and_unpacked() -> None:
    notes = ["", "a" * MESSAGE_BYTES, "ü" * (MESSAGE_BYTES // 2), "\x01" * MESSAGE_BYTES, " 3,4 ", "nul \0"] * 10 + [
        ""
    ] * 20_000

    packs = list(packed(notes))

    assert max(len(pack.encode()) for pack in packs) <= ROOM
    assert len(set(packs)) == len(packs) < 30
    heard = [note for pack in packs for note in unpacked(pack.partition(" ")[2])]
    assert heard == [note.replace("\0", "\ufffd") for note in notes]
    assert list(packed([])) == []


async def test_errors_of_any_text_are_remembered(make_store: MakeStore) -> None:
    store = make_store()
    errors = [
        ErrorInfo("E", "a \0 and \\u0000", "x" * 2000 + "\0 \\u0000 🜁", output="o"),
        ErrorInfo("E", "lost 3 sheep", 'says "output":'),
        ErrorInfo("E", "short", output=""),
        ErrorInfo("E", 'says "traceback":', output='says "traceback": \0 \\u0000 🜁' * 200),
    ]
    for error in errors:
        [job_id] = await enqueue(store, a_job(queue=(queue := new_id())))
        await settle(store, await lease_one(store, queue), Requeue(error=error))

        found = await record(store, job_id)
        [entry] = found.attempts
        assert found.error == error
        assert entry.error is not None
        assert (entry.output, entry.error.output) == (error.output, None)
        # A long one is cut by the server, which has no NUL in any text.
        assert entry.error.message in {error.message, error.message.replace("\0", "\ufffd")}
        assert (entry.error.traceback or "")[-12:] in {
            text[-12:] for text in (error.traceback or "", (error.traceback or "").replace("\0", "\ufffd"))
        }


async def test_output_of_any_text_is_remembered_where_the_layout_before_looks_for_an_error(
    make_store: MakeStore, sql: Any
) -> None:
    store = make_store()
    for output in ("o", '"traceback": \0 \\u0000 🜁' * 200):
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store), Finish(State.SUCCEEDED, output=output))

        [entry] = (await record(store, job_id)).attempts
        assert (entry.outcome, entry.error, entry.output) == ("succeeded", None, output)
        [stored] = await sql.fetchval("SELECT attempts FROM ended ORDER BY n DESC LIMIT 1")
        assert json.loads(json.loads(stored)[6])["output"] == output


async def test_a_transaction_of_ones_own_leaves_an_entry_too(make_store: MakeStore) -> None:
    store = make_store()
    [job_id] = await enqueue(store)
    held = await lease_one(store, worker="w1")
    own = await store.begin()
    await own.caller.arun(store.settling((held, Finish(State.FAILED, error=BOOM))))
    await own.commit()

    [entry] = (await record(store, job_id)).attempts
    assert (entry.worker, entry.outcome, entry.error) == ("w1", "failed", BOOM)


async def test_where_no_notification_comes_through_watching_is_refused(make_store: MakeStore) -> None:
    pooled = make_store(pooled="true")
    with pytest.raises(StoreError, match="without pooled=true"):
        async with pooled.watch():
            pass

    async with make_store().watch() as notes:
        assert await pooled.watched()
        await pooled.publish(["heard"])
        assert await anext(notes) == "heard"
