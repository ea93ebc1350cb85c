"""The layout: made once, however many begin at the same time, and by nobody who may not."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tenure.errors import LayoutTooNew, StoreError
from tenure.options import Retention
from tenure.stores.base import Layout
from tenure.stores.postgres import schema
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.store import PostgresStore
from tenure.testing.conformance.scene import SUCCEED, a_job, a_worker, lease_one, settle

from .conftest import MakeStore

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

    with pytest.raises(StoreError, match="has no layout and this Tenure needs 1: run `tenure schema apply`"):
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
    assert await store.prune(Retention(succeeded=0.0), {}) == 1
    await store.close()


async def test_the_printed_migration_is_the_layout(make_store: MakeStore, sql: Any) -> None:
    store = make_store(auto_schema="false")

    await sql.execute(await store.migration())

    assert await store.layout() == Layout(schema.KNOWN, schema.KNOWN)
    assert len(await store.enqueue([a_job()])) == 1
    assert await store.migration() == ""


async def test_a_role_that_was_given_an_empty_schema_can_fill_it(sql: Any, stranger: str, postgres_url: str) -> None:
    await sql.execute(f"CREATE SCHEMA {Address.from_url(postgres_url).schema} AUTHORIZATION {stranger}")
    store = PostgresStore.from_url(postgres_url.replace("tenure@", f"{stranger}@"))

    assert len(await store.enqueue([a_job()])) == 1
    await store.close()
