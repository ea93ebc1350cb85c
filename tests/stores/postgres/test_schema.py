"""The layout: made once, however many begin at the same time, and by nobody who may not."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tenure.core.job import State
from tenure.core.measures import HistorySearch, HistoryWrite
from tenure.core.options import Retention
from tenure.core.schedule import Firing, SchedulePut, ScheduleSearch
from tenure.errors import LayoutTooNew, StoreError
from tenure.stores.postgres import schema
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.values import Action, Layout, Order, Pulse, Search
from tenure.testing.conformance.scene import SUCCEED, a_job, a_worker, lease_one, settle

from .conftest import MakeStore
from .soundness import unsound

HERE = Path(schema.__file__).parent

DENIED = r"permission denied.*`tenure schema apply`"


async def test_ten_that_start_at_once_make_one_layout(make_store: MakeStore, sql: Any) -> None:  # F14
    stores = [make_store() for _ in range(10)]

    await asyncio.gather(*[store.enqueue([a_job()]) for store in stores])

    assert await sql.fetch("SELECT version FROM layout") == [(schema.KNOWN,)]
    assert await sql.fetchval("SELECT count(*) FROM jobs") == 10


async def test_a_newer_layout_is_refused_in_one_sentence(make_store: MakeStore, sql: Any) -> None:
    await make_store().open()
    await sql.execute("UPDATE layout SET version = version + 1")

    with pytest.raises(LayoutTooNew, match="upgrade tenure here"):
        await make_store().enqueue([a_job()])


async def test_a_store_that_must_not_make_its_layout_says_who_may(make_store: MakeStore) -> None:
    store = make_store(auto_schema="false")

    with pytest.raises(
        StoreError, match=f"has no layout and this Tenure needs {schema.KNOWN}: run `tenure schema apply`"
    ):
        await store.enqueue([a_job()])

    assert await store.layout() == Layout(None, schema.KNOWN)
    await make_store().open()
    await store.enqueue([a_job()])


async def test_a_role_without_rights_is_told_the_command(
    make_store: MakeStore, stranger: str, postgres_url: str
) -> None:
    store = PostgresStore.from_url(postgres_url.replace("tenure@", f"{stranger}@"))
    with pytest.raises(StoreError, match=DENIED):
        await store.open()

    await make_store().open()

    with pytest.raises(StoreError, match=DENIED):
        await store.enqueue([a_job()])
    await store.close()


async def test_the_rights_that_the_page_names_are_enough(
    make_store: MakeStore, sql: Any, stranger: str, postgres_url: str
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "postgres.md").read_text()
    grants = "".join(re.findall(r"^GRANT .*;$", page, re.MULTILINE))
    await make_store().open()
    schema = Address.from_url(postgres_url).schema
    await sql.execute(grants.replace("SCHEMA tenure", f"SCHEMA {schema}").replace("TO shop", f"TO {stranger}"))

    store = PostgresStore.from_url(postgres_url.replace("tenure@", f"{stranger}@"))
    await store.register(a_worker())
    await store.enqueue([a_job(unique="k"), a_job()])
    assert (await settle(store, await lease_one(store), SUCCEED)).kind == "ok"
    await store.wait_for_work(["other"], 0.1)
    assert await store.put_schedules([SchedulePut(name="s", if_version=0, settings="{}", next=0.0)]) == [True]
    [due] = (await store.schedules(ScheduleSearch(due=True))).schedules
    [fired] = await store.fire([Firing(name="s", version=due.version, jobs=((1.0, a_job()),))])
    assert fired is not None
    assert await store.confirm_schedules(["s"]) == [True]
    await store.record_history([HistoryWrite("q", "t", {"succeeded": 1.0})])
    assert len(await store.history(HistorySearch(resolution=10, queue="q", task="t"))) == 1
    await store.mark("deploy")
    assert len(await store.marks()) == 1
    await store.note_actions([Action(who="ann", by="cli", what="pause")])
    assert len((await store.actions()).actions) == 1
    assert await store.order("w", Order.QUIET)
    assert await store.prune(Retention(succeeded=0.0), {}) == 1
    await store.close()


async def test_the_printed_migration_is_the_layout(make_store: MakeStore, sql: Any) -> None:
    store = make_store(auto_schema="false")

    await sql.execute(await store.migration())

    assert await store.layout() == Layout(schema.KNOWN, schema.KNOWN)
    assert len(await store.enqueue([a_job()])) == 1
    assert await store.migration() == ""


@pytest.mark.parametrize("layout", range(1, schema.KNOWN))
async def test_jobs_of_the_layouts_before_are_there_after_the_migration(
    make_store: MakeStore, sql: Any, postgres_url: str, layout: int
) -> None:
    await sql.execute(f"CREATE SCHEMA {Address.from_url(postgres_url).schema}")
    migrations = sorted((HERE / "migrations").iterdir())
    made = "".join(file.read_text() for file in migrations[:layout])
    await sql.execute(f"{made}; UPDATE layout SET version = {layout}; {JOBS_OF_LAYOUT_1}")
    store = make_store()

    assert await store.layout() == Layout(layout, schema.KNOWN)
    assert await store.blockers("blocked") == ["waiting"]
    waiting, final = await store.get(["waiting", "final"])

    assert waiting is not None
    assert final is not None
    assert (final.state, final.result, final.successor, final.run_id) == (State.SUCCEEDED, "7", None, None)
    assert final.attempts == ()
    assert (await settle(store, await lease_one(store), SUCCEED)).kind == "ok"
    assert [job.id for job in (await store.search(Search(state=State.SUCCEEDED))).jobs] == ["waiting", "final"]
    assert (await lease_one(store)).job.results == ("42", "8")
    assert await store.prune(Retention(succeeded=0.0), {}) == 2


JOBS_OF_LAYOUT_1 = """
INSERT INTO jobs (n, id, task, queue, payload, raw, priority, created_at, max_losses, edges)
VALUES (nextval('places'), 'waiting', 't', 'q', '{}', false, 0, 1, 3, 0), (nextval('places'), 'final', 't', 'q', '{}', false, 0, 1, 3, 0),
       (nextval('places'), 'blocked', 't', 'q', '{}', false, 0, 1, 3, 2);
INSERT INTO live (n, queue, task, state, priority, seq, keyed, blocked_by)
VALUES (1, 'q', 't', 'waiting', 0, 1, false, 0), (3, 'q', 't', 'blocked', 0, 3, false, 1);
INSERT INTO edges (dependent, position, blocker, open, result) VALUES (3, 1, 'waiting', true, NULL), (3, 2, 'gone', false, '8');
INSERT INTO ended (n, queue, task, state, ended_at, seq, attempt, losses, fence, misses, result)
VALUES (2, 'q', 't', 'succeeded', 2, 2, 1, 0, 1, 0, '7');
INSERT INTO tallies (queue, what, number) VALUES ('q', 'waiting', 1), ('q', 'blocked', 1), ('q', 'succeeded', 1);
"""


async def test_programs_of_the_layouts_before_go_on(make_store: MakeStore, sql: Any) -> None:
    """By what those of layouts 1 to 4 ask of the schema and this version does not: `git log` has the rest."""
    store = make_store()
    completed, child = a_job(), a_job(queue="c")
    await store.enqueue([a_job(), child])
    parent = await lease_one(store)
    await sql.execute(
        """WITH stored AS (
            INSERT INTO jobs (
                n, id, task, queue, payload, raw, priority, created_at, expires_at, max_attempts, max_losses, lease, keep, tags, run_id,
                edges
            ) VALUES (nextval('places'), $1, 't', 'q', '{}', false, 0, clock(NULL), NULL, NULL, 3, NULL, NULL, NULL, NULL, 0)
            RETURNING n
        ), placed AS (
            INSERT INTO live (n, queue, task, state, priority, seq, lease, expires_at, keep, keyed)
            SELECT n, 'q', 't', 'waiting', 0, n, NULL, NULL, NULL, false FROM stored
        )
        INSERT INTO tallies (queue, what, number) VALUES ('q', 'waiting', 1)""",
        completed.id,
    )
    words = {"kind": "finish", "state": "succeeded", "first": 1, "children": [{"id": "1st", "task": "t", "queue": "q"}]}

    verdicts = await sql.fetchval(
        "SELECT settle(NULL, $1, $2, $3, $4, $5, $6, $7, $8, $9)",
        [parent.number], [parent.job.id], [parent.token.fence], [parent.token.nonce], [None], ["1"], [None],
        [json.dumps(words)], [b"{}"],
    )  # fmt: skip
    assert await sql.fetchval("SELECT complete(NULL, $1, $2)", completed.id, '"by hand"') == ["ok"]
    waiting, final = await sql.fetch("SELECT * FROM wait_for($1, 'c')", [child.id, completed.id])

    [read] = await sql.fetch("SELECT *, clock(NULL) AS now FROM get_jobs($1)", [completed.id])

    assert verdicts == ["ok"]
    assert (read["id"], read["state"], read["reads"]) == (completed.id, "succeeded", None)
    assert (await store.get(["1st"]))[0] is not None
    assert (waiting["id"], waiting["state"]) == (child.id, None)
    assert (final["id"], final["result"]) == (completed.id, '"by hand"')
    leasing = "SELECT * FROM lease(NULL, $1, 10, 'w', 30, 7, false{})"
    first, last = await sql.fetch(leasing.format(""), ["q"])
    assert (first["id"], last["id"], last["suspect_waiting"]) == ("1st", None, False)
    settled = f", settle_all(NULL, '{{{first['n']}}}', '{{1st}}', '{{1}}', '{{7}}', '{{succeeded}}'{', NULL' * 15})"
    other, last = await sql.fetch(leasing.format(settled), ["q", "c"])
    assert (other["id"], last["id"], last["verdicts"]) == (child.id, None, None)
    assert await unsound(sql) == []


async def test_operations_go_by_their_old_names_too(make_store: MakeStore, sql: Any) -> None:
    """What programs of layout 8 call, and this version calls by another name."""
    store = make_store()
    await store.enqueue([a_job()])
    held = await lease_one(store)
    job_id, token = held.job.id, held.token

    assert await sql.fetchval("SELECT holding($1, $2, $3)", job_id, token.fence, token.nonce) == "held"
    assert [await sql.fetchval("SELECT turn(NULL, 'chore', 60)") for _ in range(2)] == [True, False]
    assert await sql.fetchrow("SELECT * FROM ahead(NULL)") == (0, 0)
    [by_token] = await sql.fetch("SELECT * FROM held_under($1)", token.nonce)
    [by_number] = await sql.fetch("SELECT * FROM get_numbered($1)", [held.number])
    [by_id] = await sql.fetch("SELECT (w.job).*, w.attempts FROM get_whole($1) AS w", [job_id])
    assert by_token["id"] == by_number["id"] == by_id["id"] == job_id
    assert await sql.fetch("SELECT * FROM watch($1, 'c')", [job_id]) == [(job_id, None)]
    await sql.execute("SELECT watch_notes('c', 60)")
    assert await store.watched()
    await sql.execute(
        "SELECT go_idle('c', 1, '.', '^$', 60), rouse('q'), go_idle('c', 1, '.', '^$', 60), get_busy('c')"
    )
    assert await sql.fetchval("SELECT count(*) FROM idle") == 0


async def test_operations_answer_what_programs_of_layout_10_expect(make_store: MakeStore, sql: Any) -> None:
    """Those of that layout read these answers by position."""
    store = make_store()
    await store.enqueue([a_job(), a_job(queue="other")])
    await store.pause("other")

    await sql.execute("SELECT register(NULL, 'w', 'h', 1, '{q}', '{t}', 2, '{}', '{}', 'c')")
    listed = await sql.fetch("SELECT * FROM list_queues()")
    [worker] = await sql.fetch("SELECT * FROM list_workers(NULL)")

    assert [(name, paused, json.loads(counts)) for name, paused, counts in listed] == [
        ("other", True, {"waiting": 1}), ("q", False, {"waiting": 1}),
    ]  # fmt: skip
    assert (len(worker), *worker[:8]) == (11, "w", "h", 1, ["q"], ["t"], 2, [], "{}")
    assert [info.release for info in await store.workers()] == [""]


async def test_operations_answer_what_programs_of_layout_11_expect(make_store: MakeStore, sql: Any) -> None:
    """Those of that layout read these answers by position."""
    store = make_store()
    await store.register(a_worker("w", queues=("q",), release="r1"))
    await store.enqueue([a_job(id="1st", headers={"tenant": "t1"}), a_job(id="2nd", tags=("a",))])
    await store.order("w", Order.QUIET)

    assert [await sql.fetchval("SELECT beat(NULL, $1, '{}')", id_) for id_ in ("w", "x")] == [True, False]
    [worker] = await sql.fetch("SELECT * FROM find_workers(NULL)")
    found, last = await sql.fetch("SELECT * FROM walk('waiting', 'q', NULL, 'a', 50, NULL)")
    leasing = "SELECT * FROM lease_work(NULL, '{q}', 10, 'w', 30, 7, false, NULL, NULL, NULL)"
    *leased, _ = await sql.fetch(leasing)
    [read, _] = await sql.fetch("SELECT * FROM get_by_number($1) ORDER BY n", [leased[0]["n"], leased[1]["n"]])

    assert (len(worker), worker[0], worker[11]) == (12, "w", "r1")
    assert (found[1], *last) == (2, None, 2, None)
    assert [list(job.keys()).index("ready_at") for job in leased] == [32, 32]
    assert [job["id"] for job in leased] == ["1st", "2nd"]
    assert (read["id"], list(read.keys()).index("ready_at")) == ("1st", 35)
    assert await store.beat("w", Pulse()) is Order.QUIET


async def test_a_job_of_a_program_of_layout_11_has_no_headers(make_store: MakeStore, sql: Any) -> None:
    store = make_store()
    await store.open()
    await sql.execute(
        """WITH stored AS (
            INSERT INTO jobs (
                n, id, task, queue, payload, raw, priority, created_at, due_at, expires_at, max_attempts, max_losses, lease, keep, tags,
                edges
            ) VALUES (nextval('places'), 'mine', 't', 'q', '{}', false, 0, clock(NULL), NULL, NULL, NULL, 3, NULL, NULL, NULL, 0)
            RETURNING n
        ), placed AS (
            INSERT INTO live (n, queue, task, state, priority, seq, lease, expires_at, keep, keyed)
            SELECT n, 'q', 't', 'waiting', 0, n, NULL, NULL, NULL, false FROM stored
        )
        INSERT INTO tallies (queue, what, number) VALUES ('q', 'waiting', 1)"""
    )

    assert (await lease_one(store)).job.headers is None


@pytest.mark.parametrize("layout", [11, 12])
async def test_functions_that_got_a_parameter_are_there_once(
    make_store: MakeStore, sql: Any, postgres_url: str, layout: int
) -> None:
    """Two functions of one name whose parameters have defaults would make every call ambiguous."""
    await sql.execute(f"CREATE SCHEMA {Address.from_url(postgres_url).schema}")
    migrations = sorted((HERE / "migrations").iterdir())
    made = "".join(file.read_text() for file in migrations[:layout])
    await sql.execute(f"{made}; UPDATE layout SET version = {layout}; {FUNCTIONS_OF[layout]}")

    await make_store().open()

    functions = await sql.fetch(
        "SELECT proname, count(*) FROM pg_proc WHERE proname = ANY ($1) AND pronamespace = $2::regnamespace GROUP BY 1",
        ["enqueue", "enqueue_plain", "new_jobs"],
        Address.from_url(postgres_url).schema,
    )
    assert sorted(map(tuple, functions)) == [("enqueue", 1), ("enqueue_plain", 1), ("new_jobs", 1)]
    assert await sql.fetchval("SELECT enqueue('t', '[42]', id => 'mine')") == "mine"


FUNCTIONS_OF = {
    11: """
CREATE FUNCTION enqueue(
    task text, args jsonb DEFAULT NULL, kwargs jsonb DEFAULT NULL, queue text DEFAULT NULL, id text DEFAULT NULL,
    priority integer DEFAULT NULL, delay float8 DEFAULT NULL, run_at timestamptz DEFAULT NULL, expires float8 DEFAULT NULL,
    unique_key text DEFAULT NULL, unique_window float8 DEFAULT NULL, tags text[] DEFAULT NULL, keep float8 DEFAULT NULL,
    max_attempts integer DEFAULT NULL
) RETURNS text LANGUAGE sql AS 'SELECT task';
CREATE FUNCTION enqueue_plain(
    _now float8, _id text, _task text, _queue text, _payload bytea, _raw boolean, _priority integer, _delay float8, _run_at float8,
    _expires float8, _max_attempts integer, _max_losses integer, _lease float8, _keep float8, _tags text[], _run_id text
) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION new_jobs(_jobs json, _payloads bytea[]) RETURNS TABLE (id text) LANGUAGE sql AS 'SELECT NULL::text';
""",
    12: """
CREATE FUNCTION enqueue(
    task text, args jsonb DEFAULT NULL, kwargs jsonb DEFAULT NULL, queue text DEFAULT NULL, id text DEFAULT NULL,
    priority integer DEFAULT NULL, delay float8 DEFAULT NULL, run_at timestamptz DEFAULT NULL, expires float8 DEFAULT NULL,
    unique_key text DEFAULT NULL, unique_window float8 DEFAULT NULL, tags text[] DEFAULT NULL, keep float8 DEFAULT NULL,
    max_attempts integer DEFAULT NULL, headers jsonb DEFAULT NULL
) RETURNS text LANGUAGE sql AS 'SELECT task';
""",
}
"""Functions of earlier layouts that have more parameters now."""


async def test_no_function_is_left_that_no_file_makes(make_store: MakeStore, sql: Any, postgres_url: str) -> None:
    await make_store().open()
    files = [file for folder in ("operations", "compatibility", "functions") for file in (HERE / folder).iterdir()]

    made = await sql.fetch(
        "SELECT proname FROM pg_proc WHERE pronamespace = $1::regnamespace", Address.from_url(postgres_url).schema
    )

    assert sorted(name for [name] in made) == sorted(file.stem for file in files)


async def test_a_role_that_was_given_an_empty_schema_can_fill_it(sql: Any, stranger: str, postgres_url: str) -> None:
    await sql.execute(f"CREATE SCHEMA {Address.from_url(postgres_url).schema} AUTHORIZATION {stranger}")
    store = PostgresStore.from_url(postgres_url.replace("tenure@", f"{stranger}@"))

    assert len(await store.enqueue([a_job()])) == 1
    await store.close()
