"""Headers: given with `using`, stamped by the app, inherited by the next step of a run, and read in the job."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from tenure import App, Context, Enqueueing, Every, Next
from tenure.errors import InvalidOption
from tenure.tasks.task import Task

from .conftest import Do, whatever_the_store


def noop(ctx: Context) -> dict[str, str] | None:
    return ctx.job.headers


@pytest.fixture
def task(app: App) -> Task[[], dict[str, str] | None]:
    return app.task(noop)


async def headers_of(app: App, *ids: str) -> list[dict[str, str] | None]:
    return [None if job is None else job.headers for job in await app.internals.session.store.get(ids)]


async def test_headers_travel_with_the_job(app: App, do: Do, task: Task[[], dict[str, str] | None]) -> None:
    [first, *_] = jobs = [
        await do(task.using(headers={"tenant": "t1"}).enqueue),
        *await do(task.using(headers={"tenant": "t2"}).enqueue_many, [(), ()]),
        await do(task.enqueue),
    ]

    assert await headers_of(app, *[job.id for job in jobs]) == [{"tenant": "t1"}, *[{"tenant": "t2"}] * 2, None]
    async with app.worker():
        assert await first.aresult(timeout=20) == {"tenant": "t1"}


async def test_stamps_are_asked_once_in_each_call_that_enqueues(
    app: App, do: Do, task: Task[[], dict[str, str] | None]
) -> None:
    numbers: Iterator[int] = itertools.count(1)

    @app.stamp
    def number() -> dict[str, str]:
        return {"number": str(next(numbers)), "tenant": "stamped"}

    app.stamp(lambda: None)
    app.stamp(lambda: {"trace": "x"})

    one = await do(task.enqueue)
    two, three = await do(task.using(headers={"tenant": "own"}).enqueue_many, [(), ()])

    assert await headers_of(app, one.id, two.id, three.id) == [
        {"number": "1", "tenant": "stamped", "trace": "x"},
        *[{"number": "2", "tenant": "own", "trace": "x"}] * 2,
    ]


@whatever_the_store
async def test_jobs_that_are_waited_for_and_batches_are_stamped(app: App) -> None:
    task, numbers = app.task(noop), itertools.count(1)
    app.stamp(lambda: {"number": str(next(numbers))})
    async with app.batch():
        first = await task.aenqueue()
        after = await task.using(after=[task.bind()]).aenqueue()

    page = await app.ajobs()

    assert {job.id for job in page} >= {first.id, after.id}
    found = sorted(str(each) for each in await headers_of(app, *[job.id for job in page]))
    assert found == ["{'number': '1'}", "{'number': '2'}", "{'number': '2'}"]


async def test_the_next_step_has_the_headers_of_the_one_before(app: App) -> None:
    flow, seen = app.flow("parcel"), {}

    @flow.step
    def first(ctx: Context) -> Next:
        seen["first"] = ctx.job.headers
        return Next("second")

    @flow.step
    def second(ctx: Context) -> Next:
        seen["second"] = ctx.job.headers
        return Next("third").using(headers={"tenant": "other"})

    @flow.step
    def third(ctx: Context) -> None:
        seen["third"] = ctx.job.headers
        ctx.enqueue(child.bind(), child.using(headers={"a": "b"}).bind())

    @app.task
    def child() -> None: ...

    run = await flow.using(headers={"tenant": "t1", "trace": "x"}).astart()
    async with app.worker():
        await run.aresult(timeout=20)

    assert seen == {
        "first": {"tenant": "t1", "trace": "x"},
        "second": {"tenant": "t1", "trace": "x"},
        "third": {"tenant": "other", "trace": "x"},
    }
    children = await app.ajobs(task=child)
    assert await headers_of(app, *[job.id for job in children]) == [{"a": "b"}, None]


@whatever_the_store
async def test_a_stamp_overrides_what_a_step_inherits(app: App) -> None:
    flow, traces, seen = app.flow("parcel"), iter(["start", "handed over", "child"]), []
    app.stamp(lambda: {"trace": next(traces)})

    @flow.step
    def first(ctx: Context) -> Next:
        seen.append(ctx.job.headers)
        return Next("second")

    @flow.step
    def second(ctx: Context) -> None:
        seen.append(ctx.job.headers)
        ctx.enqueue(app.task(noop).bind())

    run = await flow.using(headers={"tenant": "t1"}).astart()
    async with app.worker():
        await run.aresult(timeout=20)

    assert seen == [{"trace": "start", "tenant": "t1"}, {"trace": "handed over", "tenant": "t1"}]
    [child] = await app.ajobs(task="noop")
    assert await headers_of(app, child.id) == [{"trace": "child"}]


@whatever_the_store
async def test_jobs_of_schedules_have_their_own_headers_and_no_stamps(app: App) -> None:
    app.stamp(lambda: {"trace": "of the deploy"})
    task = app.task(noop)
    schedule = await app.acreate_schedule("s", task.using(headers={"tenant": "t1"}).bind(), Every(3600))

    await schedule.atrigger()

    [job] = await app.ajobs(schedule="s")
    assert await headers_of(app, job.id) == [{"tenant": "t1"}]


@whatever_the_store
async def test_hooks_see_the_headers(app: App) -> None:
    task, seen = app.task(noop), []
    app.stamp(lambda: {"trace": "x"})

    @app.before_enqueue
    def look(job: Enqueueing) -> None:
        seen.append(job.headers)

    await task.using(headers={"tenant": "t1"}).aenqueue()

    assert seen == [{"trace": "x", "tenant": "t1"}]


@whatever_the_store
@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ("tenant=t1", "headers must be a mapping of names to texts"),
        ({"Tenant": "t1"}, "a name in headers must be 1 to 64 of a-z, 0-9 and -"),
        ({"x" * 65: "t1"}, "a name in headers must be"),
        ({"tenant": 1}, "headers['tenant'] must be a text, not 1"),
        ({"tenant": "a\0b"}, "headers['tenant'] must be a text"),
        ({str(number): "x" for number in range(17)}, "at most 16 with 2,000 bytes in all, not 17"),
        ({"a": "ä" * 1000}, "at most 16 with 2,000 bytes in all, not 1 with 2,001"),
    ],
)
async def test_headers_are_checked_before_any_io(app: App, headers: object, says: str) -> None:
    task = app.task(noop)
    with pytest.raises(InvalidOption, match=f"task 'noop': .*{re.escape(says)}"):
        task.using(headers=headers)  # type: ignore[call-overload]

    app.stamp(lambda: headers)  # type: ignore[type-var]

    with pytest.raises(InvalidOption):
        await task.aenqueue()
    assert await app.ajobs() == []


@whatever_the_store
async def test_a_stamp_that_raises_enqueues_nothing(app: App) -> None:
    task = app.task(noop)

    @app.stamp
    def tenant() -> dict[str, str]:
        raise LookupError("no tenant")

    with pytest.raises(LookupError, match="no tenant"):
        await task.aenqueue()
    assert await app.ajobs() == []


@whatever_the_store
async def test_stamps_are_plain_functions(app: App) -> None:
    async def later() -> dict[str, str]:
        return {}

    with pytest.raises(InvalidOption, match=r"what @app\.stamp decorates must be a function that is not async"):
        app.stamp(later)  # type: ignore[type-var]
