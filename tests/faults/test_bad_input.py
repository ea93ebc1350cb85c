"""Odd values through a whole store and back, and hostile ones in a worker's log ("Bad input")."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tenure import App
from tenure.errors import JobFailed, PayloadError
from tests.conftest import KINDS, a_url

from .cluster import Cluster
from .processes import eventually

HOSTILE = "two\r\nlines, \x1b[2J\x1b]0;owned\x07, \u202egnp.exe, \x9b31m, \x7f, %s %(x)s {x}"
OBEYED = "\x1b\x07\r\u202e\x9b\x7f"


@pytest.fixture(params=KINDS)
async def app(request: pytest.FixtureRequest) -> AsyncIterator[App]:
    app = App(a_url(request))
    yield app
    await app.aclose()


def nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value


ODD = {
    "nul": "before \0 after",
    "controls": "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "astral": "\U0001d518\U0001f469\u200d\U0001f469 \U0010ffff \ufffe \ufdd0",
    "separators": "\u2028\u2029\ufeff\u202e",
    "hostile": HOSTILE,
    "quotes": "'; DROP TABLE tenure_jobs; -- \" \\ ` $1 ?1 :x <script>",
    "keys": {"": 1, "\0": 2, "ключ": 3, "__proto__": 4, "$failure": 5},
    "64-bits": [2**63 - 1, -(2**63), 2**53 + 1, 0],
    "floats": [5e-324, sys.float_info.max, -sys.float_info.max, 0.1 + 0.2, 1e22, 1.0],
    "nothing": [None, [], {}, "", 0, False],
    "64-deep": nested(64),
    "long": "x" * 1_000_000,
}

IMPOSSIBLE = {
    "nan": float("nan"),
    "infinity": [float("-inf")],
    "surrogate": "half \ud800",
    "surrogate-key": {"\udfff": 1},
    "65-bits": 2**64,
    "65-deep": nested(65),
    "too-long": "x" * 1_048_576,
}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
async def test_an_odd_value_goes_through_a_store_and_comes_back_the_same(app: App, value: Any) -> None:
    @app.task
    async def echo(value: Any) -> Any:
        return value

    job = await echo.aenqueue(value)
    async with app.worker():
        result = await job.aresult(timeout=10)

    assert result == value
    assert repr(result) == repr(value)


@pytest.mark.parametrize("value", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
async def test_a_value_that_no_store_could_give_back_is_refused_by_all_of_them(app: App, value: Any) -> None:
    @app.task
    async def echo(value: Any) -> Any:
        return value

    with pytest.raises(PayloadError):
        await echo.aenqueue(value)

    assert await app.aqueues() == []


@pytest.mark.parametrize("value", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
async def test_a_result_that_no_store_could_give_back_fails_the_job(app: App, value: Any) -> None:  # F19
    @app.task(retry=None)
    async def give() -> Any:
        return value

    job = await give.aenqueue()
    async with app.worker():
        with pytest.raises(JobFailed) as told:
            await job.aresult(timeout=10)

    assert told.value.error_type in {"InvalidResult", "PayloadTooLarge"}


def test_a_worker_logs_no_arguments_and_one_line_for_each_event(cluster: Cluster) -> None:  # I22
    failing = cluster.enqueue("fail", HOSTILE, "a secret", number=2)
    worker = cluster.worker("-vv")
    # The line comes after the settle.
    eventually(
        lambda: all(f"{job.id} of task fail ended" in worker.log.read_text() for job in failing), "a line for each"
    )
    log = worker.log.read_text()

    assert not set(OBEYED) & set(log)
    assert "a secret" not in log
    ends = [line for line in log.splitlines() if "failed" in line]
    assert [line.count(job.id) for line, job in zip(ends, failing, strict=True)] == [1, 1]
    assert r"two\r\nlines" in ends[0]
    assert cluster.app.tasks["fail"].name in ends[0]
