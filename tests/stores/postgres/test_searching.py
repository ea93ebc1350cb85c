"""Searches on PostgreSQL: errors that are stored as words, texts that the server refuses, and what a page reads and sends."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.job import ErrorInfo, JobRecord, State
from tenure.core.lifecycle import Finish
from tenure.stores.postgres.records import decode_error, encode_error
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.values import LOOK, Action, Search
from tenure.testing.conformance.scene import a_job, enqueue, everything, lease, lease_one, settle

from .conftest import MakeStore

ERRORS = [
    "expired",
    "wait timeout",
    "lost 3",
    "lost 2 ",
    "lost 3 its host  is gone, 1 (one) of \\ two",
    "blocker cancelled j1",
    encode_error(ErrorInfo("ValueError", 'Zoë said "no" \\ \n\t\x7f\x1b 😀', "Traceback …", "output")),
    encode_error(ErrorInfo("", "", output="output")),
    encode_error(ErrorInfo("E", "x", "Traceback …")),
    encode_error(ErrorInfo("E}", "x}")),
    encode_error(ErrorInfo("E", 'x,"traceback":"y","output":"z"}', "Traceback …")),
    encode_error(ErrorInfo('E,"output":', 'x\\,"', None, ',"traceback":')),
    'lost 1 ,"traceback":',
]


@pytest.mark.parametrize("error", ERRORS)
async def test_the_server_decodes_errors_as_python_does(make_store: MakeStore, sql: Any, error: str) -> None:
    await make_store().open()

    found = await sql.fetchrow("SELECT type, message FROM error_parts($1)", error)

    wanted = decode_error(error)
    assert wanted is not None
    assert tuple(found) == (wanted.type, wanted.message)


async def test_no_error_has_no_parts(make_store: MakeStore, sql: Any) -> None:
    await make_store().open()

    assert tuple(await sql.fetchrow("SELECT type, message FROM error_parts(NULL)")) == (None, None)


async def test_errors_that_the_store_has_put_into_words_are_found(make_store: MakeStore) -> None:
    store = make_store()
    [lost, blocker] = await enqueue(store, a_job(max_losses=1), a_job(queue="b"))
    [waits] = await enqueue(store, a_job(after=(blocker,)))
    await lease_one(store, worker="w")
    await store.retire("w", reason="its host is on fire")
    await store.cancel([blocker])

    for search, found in [
        (Search(error="Lost"), [lost]),
        (Search(error="BlockerFailed", state=State.FAILED), [waits]),
        (Search(text="Lost"), [lost]),
        (Search(text="retired (its host is on fire), 1 time"), [lost]),
        (Search(text=f"job {blocker}, which it waited for", state=State.FAILED), [waits]),
        (Search(text="lost 1"), []),
        (Search(text="blocker cancelled"), []),
        (Search(error="lost"), []),
    ]:
        assert [job.id for job in (await store.search(search)).jobs] == found, search


async def failed(store: PostgresStore, *errors: ErrorInfo) -> list[str]:
    ids = await enqueue(store, *[a_job() for _ in errors])
    for error, leased in zip(errors, await lease(store, limit=len(errors)), strict=True):
        await settle(store, leased, Finish(State.FAILED, error=error))
    return ids


async def test_how_an_error_is_stored_is_not_found(make_store: MakeStore) -> None:
    store = make_store()
    await failed(store, ErrorInfo("E", 'a\nb "c"\0\\', "in the traceback", "in the output"))

    for text in ("\\n", "nb", "type", '"E"', "E,", "\\u0000", "u0000", '\\"', "\\\\", "traceback", "output", ":"):
        assert await everything(store, text=text) == [], text
    for text in ("a\nb", '"c"', "\\", "E"):
        assert len(await everything(store, text=text)) == 1, text


async def test_a_text_with_nul_is_found(make_store: MakeStore) -> None:
    store = make_store()
    [payload] = await enqueue(store, a_job(payload=b"\xff a\0b", raw=True, queue="raw"))
    [message, _] = await failed(store, ErrorInfo("E", "a\0b \\u0000 \0\0"), ErrorInfo("E", "ab"))

    assert [job.id for job in await everything(store, text="a\0b")] == [message, payload]
    assert [job.id for job in await everything(store, text="\0\0")] == [message]
    assert [job.id for job in await everything(store, text="\\u0000")] == [message]
    assert await everything(store, worker="a\0", error="E\0") == []
    [brief, *_] = [job for job in await everything(store, brief=3) if job.id == message]
    assert brief.error == ErrorInfo("E", "a\0b")


async def test_types_are_told_apart_whatever_is_in_them(make_store: MakeStore) -> None:
    store = make_store()
    types = ['E","message":"', "E", "É", "E\n", "E\0"]
    ids = await failed(store, *(ErrorInfo(each, "x") for each in types))

    for each, job_id in zip(types, ids, strict=True):
        assert [job.id for job in await everything(store, error=each)] == [job_id]


async def test_a_listing_in_brief_is_cut_on_the_server(make_store: MakeStore, sql: Any) -> None:
    store = make_store()
    [large] = await enqueue(store, a_job(payload=b"x" * 1_000_000))
    leased = await lease_one(store)
    result = '"' + "é" * 10_000 + '"'
    error = ErrorInfo("E" * 1_000, "ä" * 1_000, "T" * 10_000, "O" * 10_000)
    await settle(store, leased, Finish(State.FAILED, result, error=error))

    sent = await sql.fetchrow(
        "SELECT octet_length(payload), length(result), length(error) FROM get_shortened($1, 100)", [leased.number]
    )

    assert sent[:2] == (100, 100)
    assert sent[2] < 2_100  # without traceback and output
    [job] = (await store.search(Search(brief=100))).jobs
    assert (job.id, job.payload, job.result) == (large, b"x" * 100, result[:100])
    assert job.error == ErrorInfo("E" * 100, "ä" * 100)


@pytest.mark.parametrize("result", ["~x", "!x", "a\0b", ""])
async def test_results_that_are_quoted_are_cut_too(make_store: MakeStore, result: str) -> None:
    store = make_store()
    await enqueue(store, a_job())
    await settle(store, await lease_one(store), Finish(State.SUCCEEDED, result))

    for most in (0, 1, 2, 10):
        assert [job.result for job in await everything(store, brief=most)] == [result[:most]]


async def test_a_job_has_in_brief_all_that_it_has_elsewhere(make_store: MakeStore) -> None:
    store = make_store()
    [one] = await enqueue(store, a_job(queue="b", headers={"tenant": "t1"}, tags=("a",), unique="k", keep=60.0))
    await enqueue(store, a_job(after=(one,), priority=3, lease=7.0, max_attempts=2, expires=100.0))
    await settle(store, await lease_one(store, "b"), Finish(State.SUCCEEDED, "7"))
    await lease_one(store)

    def same(job: JobRecord) -> list[object]:
        return [getattr(job, name) for name in JobRecord.__struct_fields__ if name != "lease_left"]

    assert [same(job) for job in await everything(store, brief=1000)] == [same(job) for job in await everything(store)]


async def read_by(sql: Any, index: str, query: str, *values: object) -> tuple[int, list[Any]]:
    """How many entries of an index the query reads, and what it finds."""
    entries = f"SELECT pg_stat_get_xact_tuples_returned('{index}'::regclass)"
    async with sql.transaction():
        before = await sql.fetchval(entries)
        rows = await sql.fetch(query, *values)
        return await sql.fetchval(entries) - before, rows


ENDED = """
INSERT INTO jobs (n, id, task, queue, payload, raw, priority, created_at, max_losses, edges)
SELECT n, 'j' || n, 't', 'q', '{}', false, 0, 1, 3, 0 FROM generate_series(1, 5000) AS n;
INSERT INTO ended (n, queue, task, state, ended_at, seq, attempt, losses, fence, misses, worker, error)
SELECT n, 'q', 't', 'failed', n, n, 1, 0, 1, 0, 'w' || n % 10, '{"type":"E' || n % 7 || '","message":"no ' || n || '","traceback":"T"}'
FROM generate_series(1, 5000) AS n;
INSERT INTO tallies (queue, what, number) VALUES ('q', 'failed', 5000);
"""


async def test_a_listing_from_an_end_on_begins_there_in_the_index(make_store: MakeStore, sql: Any) -> None:
    store = make_store()
    await store.open()
    await sql.execute(ENDED)
    walking = "SELECT * FROM walk_jobs('failed', NULL, $1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, $2, 2000, 50, NULL)"

    for index, task in (("ended_by_end", None), ("ended_failed", "t")):
        read, rows = await read_by(sql, index, walking, task, 2500.0)

        assert [row["n"] for row in rows[:-1]] == list(range(2500, 2450, -1))
        assert read <= (51 if task is None else LOOK + 1)


async def test_filters_look_at_no_more_rows_than_a_page_may(make_store: MakeStore, sql: Any) -> None:
    store = make_store()
    await store.open()
    await sql.execute(ENDED)
    filters: list[dict[str, Any]] = [
        {"error": "E3"},
        {"text": "no 4444"},
        {"worker": "w7"},
        {"error": "E3", "text": "no 4", "worker": "w7"},
    ]
    for state in (None, State.FAILED):
        for search in filters:
            page = await store.search(Search(state=state, limit=500, **search))
            expected = [
                number
                for number in range(5000, 3000, -1)
                if search.get("error") in (None, f"E{number % 7}")
                and search.get("text", "") in f"no {number}"
                and search.get("worker") in (None, f"w{number % 10}")
            ]
            assert [job.id for job in page.jobs] == [f"j{number}" for number in expected]
            assert page.searched == LOOK


async def test_edges_and_actions_are_read_by_their_keys(make_store: MakeStore, sql: Any) -> None:
    store = make_store()
    blockers = await enqueue(store, *[a_job(queue="b") for _ in range(300)])
    [waits, _] = await enqueue(store, a_job(after=tuple(blockers)), a_job(after=tuple(blockers)))
    await store.note_actions([Action(who="ann", by="cli", what="retry", count=number) for number in range(1000)])

    read, rows = await read_by(sql, "edges_pkey", "SELECT * FROM get_edges($1, 500)", waits)
    assert (read, len(rows)) == (300, 300)
    read, rows = await read_by(sql, "actions_pkey", "SELECT * FROM find_actions(NULL, 60, 11, 500)")
    assert (read, [row["n"] for row in rows]) == (11, list(range(499, 488, -1)))


async def test_actions_with_nul_are_no_error(make_store: MakeStore) -> None:
    store = make_store()
    await store.note_actions([])
    await store.note_actions([Action(who="a\0", by="cli", what="delete", target="\0")])

    [action] = (await store.actions()).actions

    assert (action.who, action.target) == ("a\0", "\0")
    assert not await store.edges("\0")
