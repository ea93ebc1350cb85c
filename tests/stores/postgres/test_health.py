"""What a PostgreSQL has to tell about itself, and about who shares it with us."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.stores.postgres import health
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.health import TableSize
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.values import Fact, Health
from tenure.testing.conformance.scene import a_job, listening

from .conftest import MakeStore


async def examined(store: PostgresStore) -> dict[str, Fact]:
    """What a store tells that has all its connections, however long it takes to make them."""
    await store.open()
    await store._subscription.open(within=20)
    await listening(store)
    return {fact.name: fact for fact in await store.examine()}


async def facts(url: str) -> dict[str, Fact]:
    store = PostgresStore.from_url(url)
    found = await examined(store)
    await store.close()
    return found


async def test_a_sound_server_is_well(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "SLOW", 20_000)  # for the machine may be busy with the other tests
    store = make_store()
    await store.enqueue([a_job() for _ in range(3)])

    found = await examined(store)

    assert list(found) == [
        "version", "layout", "role", "durability", "bloat", "index bloat", "oldest transaction", "connections",
        "notifications", "latency", "clock",
    ]  # fmt: skip
    unwell = {name for name, fact in found.items() if fact.health is not Health.OK}
    assert unwell <= {"durability"}  # the server of the tests need not survive
    assert found["notifications"].value == "LISTEN and NOTIFY work"


async def test_who_keeps_a_transaction_open_is_named(make_store: MakeStore, sql: Any, postgres_url: str) -> None:  # F17
    await make_store().open()
    async with sql.transaction(isolation="repeatable_read"):
        await sql.fetchval("SELECT 1")

        found = (await facts(postgres_url))["oldest transaction"]

    assert f"process {sql.get_server_pid()}, idle in transaction" in found.value


async def test_a_role_that_sees_nobody_else_does_not_say_that_nobody_is_there(
    sql: Any, stranger: str, postgres_url: str
) -> None:
    await sql.execute(f"CREATE SCHEMA {Address.from_url(postgres_url).schema} AUTHORIZATION {stranger}")

    found = await facts(postgres_url.replace("tenure@", f"{stranger}@"))

    assert found["oldest transaction"].value.startswith("unknown")


async def test_the_budget_is_that_of_the_role_if_that_is_the_tightest(
    sql: Any, stranger: str, postgres_url: str
) -> None:
    await sql.execute(f"CREATE SCHEMA {Address.from_url(postgres_url).schema} AUTHORIZATION {stranger}")
    await sql.execute(f"ALTER ROLE {stranger} CONNECTION LIMIT 7")

    found = (await facts(postgres_url.replace("tenure@", f"{stranger}@") + "&connections=3"))["connections"]

    assert found.value == "2 of the 7 of the role in use; a worker process of this URL takes up to 11"
    assert found.health is Health.WARN


def test_a_version_too_old_and_a_replica_are_bad() -> None:
    assert health._version(120017, "12.17").health is Health.BAD
    assert health._version(130000, "13.0").health is Health.OK
    assert health._role(True).health is Health.BAD


@pytest.mark.parametrize(
    ("commit", "fsync", "verdict"),
    [
        ("on", "on", "ok"),
        ("remote_apply", "on", "ok"),
        ("local", "on", "warn"),
        ("off", "on", "warn"),
        ("on", "off", "bad"),
    ],
)
def test_what_a_crash_may_lose_is_told(commit: str, fsync: str, verdict: str) -> None:
    assert health._durability(commit, fsync).health == verdict


@pytest.mark.parametrize(
    ("live", "dead", "autovacuum", "verdict"),
    [(10, 50_000, True, "ok"), (10, 200_000, True, "warn"), (10**6, 200_000, True, "ok"), (10, 0, False, "warn")],
)
def test_dead_rows_that_pile_up_are_warned_of(live: int, dead: int, autovacuum: bool, verdict: str) -> None:
    rooms = [TableSize("ended", 5, 0, 8192, 8192, 3), TableSize("live", live, dead, 8192, 8192, 7)]

    fact = health._bloat(rooms, autovacuum=autovacuum)

    assert fact.health == verdict
    assert dead == 0 or f"{dead:,} dead rows beside {live:,} in live" in fact.value


@pytest.mark.parametrize(
    ("live", "size", "verdict"),
    [(0, 60 << 20, "ok"), (0, 70 << 20, "warn"), (10**6, 700 << 20, "ok"), (10**5, 700 << 20, "warn")],
)
def test_indexes_that_are_mostly_empty_are_warned_of(live: int, size: int, verdict: str) -> None:
    fact = health._index_bloat([TableSize("live", live, 0, 8192, size, 7)], "shop")

    assert fact.health == verdict
    assert (verdict == "ok") == (fact.advice == "")
    assert verdict == "ok" or fact.advice == 'Run REINDEX TABLE CONCURRENTLY "shop".live.'


@pytest.mark.parametrize(("seconds", "verdict"), [(None, "ok"), (20.0, "ok"), (400.0, "warn")])
def test_an_old_transaction_is_warned_of(seconds: float | None, verdict: str) -> None:
    assert health._oldest(seconds, "process 7", sees_all=True).health == verdict


@pytest.mark.parametrize(("used", "verdict"), [(80, "ok"), (90, "warn")])
def test_a_server_without_room_for_one_more_worker_is_warned_of(used: int, verdict: str) -> None:
    assert health._connections("the server", used, 97, 10).health == verdict


def test_a_pooler_that_drops_notifications_is_found_out() -> None:
    assert health._notifications(False, pooled=False).health is Health.WARN
    assert health._notifications(False, pooled=True).health is Health.OK
