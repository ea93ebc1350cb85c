"""A result that does not fit its annotation fails the job at once; one that fits comes back as annotated."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tenure import App, Context, Done, Job, Wait
from tenure.errors import JobFailed
from tests.worker.conftest import Start, whatever_the_store


@dataclasses.dataclass
class Receipt:
    number: int
    at: datetime | None = None


AT = datetime(2026, 1, 2, tzinfo=UTC)


async def test_a_result_is_checked_and_comes_back_as_annotated(app: App, start: Start) -> None:
    @app.task
    async def receipt(given: dict[str, Any]) -> Receipt:
        return given  # type: ignore[return-value]

    @app.task
    def moment(text: str) -> datetime:
        return text  # type: ignore[return-value]

    @app.task
    def nothing() -> None:
        return 3  # type: ignore[return-value]

    await start(app)
    assert await (await receipt.aenqueue({"number": 1})).aresult(timeout=20) == Receipt(1)
    assert await (await moment.aenqueue(AT.isoformat())).aresult(timeout=20) == AT
    for job, why in (
        (await receipt.aenqueue({"number": "one"}), r"does not fit the annotation `-> .*Receipt`: Expected `int`, got `str` - at `\$\.number`"),
        (await moment.aenqueue("not a date"), "does not fit the annotation `-> datetime.datetime`"),
        (await nothing.aenqueue(), "annotated `-> None` and returned a value of type int"),
    ):  # fmt: skip
        await fails_at_once(job, why)


async def fails_at_once(job: Job[Any], why: str) -> None:
    with pytest.raises(JobFailed, match=why) as failure:
        await job.aresult(timeout=20)
    assert failure.value.error_type == "InvalidResult"
    assert job.record is not None
    assert job.record.attempt == 1


@whatever_the_store
async def test_an_isolated_result_is_checked_too(app: App, start: Start) -> None:
    @app.task(isolation="process")
    def number() -> int:
        return "one"  # type: ignore[return-value]

    await start(app)
    await fails_at_once(await number.aenqueue(), "Expected `int`, got `str`")


@whatever_the_store
async def test_what_hooks_and_middleware_put_in_its_place_need_not_fit(app: App, start: Start) -> None:
    @app.middleware
    async def named(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
        return "cached" if ctx.job.priority else await call_next()

    @app.task
    def number(value: Any) -> int:
        return value  # type: ignore[no-any-return]

    await start(app)
    assert await (await number.using(priority=1).aenqueue(3)).aresult(timeout=20) == "cached"  # type: ignore[comparison-overlap]
    assert await (await number.aenqueue(3)).aresult(timeout=20) == 3
    await fails_at_once(await number.aenqueue("three"), "Expected `int`, got `str`")


@whatever_the_store
async def test_what_is_given_from_outside_or_by_done_need_not_fit(app: App, start: Start) -> None:
    @app.task
    async def approval() -> None:
        raise Wait

    flow = app.flow("order")

    @flow.step
    async def only(n: int) -> dict[str, int] | Done:
        return Done("paid") if n else {"m": "no number"}  # type: ignore[dict-item]

    job = await approval.aenqueue()
    await job.acomplete("yes")
    assert await job.aresult(timeout=20) == "yes"  # type: ignore[func-returns-value]
    await start(app)
    assert await (await flow.astart(n=1)).aresult(timeout=20) == "paid"
    with pytest.raises(JobFailed, match="Expected `int`, got `str`"):
        await (await flow.astart(n=0)).aresult(timeout=20)
