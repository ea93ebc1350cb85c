"""`tenure schema`: the layout of a store is shown, printed and applied; who may not do so is told in one sentence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from tenure.stores.postgres.address import Address

from .conftest import Tenure, document, run_process


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
def schema(postgres_url: str) -> str:
    return Address.from_url(postgres_url).schema


def execute(url: str, statements: str) -> Any:
    """Run SQL past Tenure."""

    async def run() -> Any:
        connection = await asyncpg.connect(Address.from_url(url).dsn)
        try:
            return await connection.execute(statements)
        finally:
            await connection.close()

    return asyncio.run(run())


@pytest.fixture
def stranger(url: str, schema: str) -> Iterator[str]:
    """The URL of a role that may do nothing but log in."""
    execute(url, f"CREATE ROLE r_{schema} LOGIN")
    yield url.replace("tenure@", f"r_{schema}@")
    execute(url, f"DROP OWNED BY r_{schema}; DROP ROLE r_{schema}")


def test_apply_makes_the_layout_also_where_programs_must_not(tenure: Tenure, url: str) -> None:
    refused = tenure("enqueue", "send", "1", "--url", f"{url}&auto_schema=false")
    assert refused.exit_code == 2
    assert "run `tenure schema apply`" in refused.stderr

    applied = document(tenure("schema", "apply", "--json", "--url", f"{url}&auto_schema=false"))

    assert applied["found"] == applied["known"]
    assert tenure("enqueue", "send", "1", "--url", f"{url}&auto_schema=false").exit_code == 0


def test_what_is_printed_is_what_apply_does(tenure: Tenure, url: str) -> None:
    printed = tenure("schema", "apply", "--sql").stdout
    assert document(tenure("schema", "--json"))["found"] is None  # nothing was changed

    execute(url, printed)

    shown = document(tenure("schema", "--json"))
    assert shown["found"] == shown["known"]
    assert tenure("schema", "apply", "--sql").stdout == "-- Nothing to do: the layout is up to date.\n"


def test_ten_processes_may_apply_at_once(url: str) -> None:  # F14
    with ThreadPoolExecutor(10) as threads:
        ended = list(threads.map(lambda _: run_process("schema", "apply", "--json", "--url", url), range(10)))

    assert [(process.returncode, process.stderr) for process in ended] == [(0, "")] * 10
    assert {json.loads(process.stdout)["found"] for process in ended} == {json.loads(ended[0].stdout)["known"]}


def test_a_newer_layout_is_refused_in_one_sentence(tenure: Tenure, url: str, schema: str) -> None:
    tenure("schema", "apply")
    execute(url, f"UPDATE {schema}.layout SET version = 999")

    for arguments in (("schema", "apply"), ("schema", "apply", "--sql"), ("jobs",), ("doctor",)):
        result = tenure(*arguments)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert "upgrade tenure here" in result.stderr
    assert document(tenure("schema", "--json"))["found"] == 999  # shown all the same


def test_a_role_that_may_not_is_told_the_command_in_one_sentence(tenure: Tenure, stranger: str) -> None:
    for arguments in (("schema", "apply"), ("enqueue", "send", "1")):
        result = tenure(*arguments, "--url", stranger)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert "permission denied" in result.stderr
        assert "`tenure schema apply`" in result.stderr


def test_a_store_without_sql_says_so(tenure: Tenure) -> None:
    result = tenure("schema", "apply", "--sql", "--url", "memory://")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "no SQL to print" in result.stderr
