"""Versions of a payload: jobs of earlier code are upcast, jobs of later code are left to workers that know them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tenure import App, Context, State
from tenure.core.codec import JsonArguments
from tenure.errors import InvalidOption, JobBroken, NewerPayload, PayloadError, PayloadTooLarge

from .conftest import Do, whatever_the_store


def charging(app: App, version: int = 3) -> Any:
    """The task `charge` as its code stands when it has this version."""
    if version == 1:

        @app.task(name="charge")
        def first(customer: str, amount: float) -> str:
            return f"{customer} {amount}"

        return first
    if version == 2:

        @app.task(name="charge", version=2)
        def second(customer: str, amount: Decimal) -> str:
            return f"{customer} {amount!r}"

        @second.upcast(1)
        def _(customer: str, amount: float) -> dict[str, object]:
            return {"customer": customer, "amount": Decimal(str(amount))}

        return second

    @app.task(name="charge", version=3)
    def third(customer: str, amount: Decimal, currency: str) -> str:
        return f"{customer} {amount!r} {currency}"

    @third.upcast(1)
    def _(customer: str, amount: float) -> dict[str, object]:
        return {"customer": customer, "amount": Decimal(str(amount))}

    @third.upcast(2)
    def _(customer: str, amount: Decimal) -> dict[str, object]:
        return {"customer": customer, "amount": amount, "currency": "EUR"}

    return third


async def test_jobs_of_every_earlier_version_run_with_the_present_code(app: App, one_way: Do) -> None:  # T24
    old = [charging(App(app.url), 1).bind("a", 1.5), charging(App(app.url), 2).bind("b", amount=Decimal("2.50"))]
    jobs = [(await app.aenqueue(call))[0] for call in old]
    now = await one_way(charging(app).enqueue, "c", Decimal(3), "USD")

    async with app.worker(poll=0.05):
        results = [await one_way(job.result, timeout=20) for job in (*jobs, now)]

    assert results == ["a Decimal('1.5') EUR", "b Decimal('2.50') EUR", "c Decimal('3') USD"]


@pytest.mark.parametrize("lane", ["loop", "thread", "process"])
@whatever_the_store
async def test_jobs_are_upcast_in_every_lane(app: App, lane: str) -> None:  # T24
    if lane == "loop":

        @app.task(version=2)
        async def charge(customer: str, currency: str) -> str:
            return f"{customer} {currency}"
    else:

        @app.task(version=2, isolation="process" if lane == "process" else None)
        def charge(customer: str, currency: str) -> str:
            return f"{customer} {currency}"

    @charge.upcast(1)
    def _(customer: str) -> dict[str, object]:
        return {"customer": customer, "currency": "EUR"}

    old, new = await app.remote("charge").aenqueue("a"), await charge.aenqueue("b", "USD")
    async with app.worker(poll=0.05):
        assert [await old.aresult(timeout=20), await new.aresult(timeout=20)] == ["a EUR", "b USD"]


@whatever_the_store
async def test_a_payload_says_its_version_unless_that_is_1(app: App) -> None:
    assert charging(App("memory://"), 1).bind("a", 1.5).payload == b'{"args":["a",1.5]}'
    assert charging(app).bind("a", Decimal(1), "EUR").payload == b'{"v":3,"args":["a","1","EUR"]}'
    assert app.task(version=2)(nothing).bind().payload == b'{"v":2}'
    assert app.remote("charge").bind(1).payload == b'{"args":[1]}'
    assert app.remote("charge", version=2).bind(1).payload == b'{"v":2,"args":[1]}'


def nothing() -> None: ...


@pytest.mark.parametrize(
    ("payload", "given"),
    [
        (b'{"v":3,"args":["a","1","USD"]}', ("a", Decimal(1), "USD")),
        (b'{ "v": 3, "args": ["a", "1", "USD"] }', ("a", Decimal(1), "USD")),
        (b'{"args":["a","1","USD"],"v":3}', ("a", Decimal(1), "USD")),
        (b'{"v":1,"args":["a",1.5]}', {"customer": "a", "amount": Decimal("1.5"), "currency": "EUR"}),
        (b'{"kwargs":{"amount":2,"customer":"a"}}', {"customer": "a", "amount": Decimal("2.0"), "currency": "EUR"}),
        (b'{"v":2,"args":["a"],"kwargs":{"amount":"7"}}', {"customer": "a", "amount": Decimal(7), "currency": "EUR"}),
    ],
)
def test_payloads_of_other_programs_may_write_it_in_any_way(payload: bytes, given: Any) -> None:
    args, kwargs = charging(App("memory://"))._decode(payload)

    assert (kwargs if isinstance(given, dict) else args) == given


def breaking(app: App, upcaster: Callable[..., Any]) -> Any:
    @app.task(name="book", version=2)
    def book(day: date, seats: int) -> None: ...

    book.upcast(1)(upcaster)
    return book


def raises(day: str) -> dict[str, object]:
    raise RuntimeError("no such day")


def lacks(day: str) -> dict[str, object]:
    return {"day": date(2027, 1, 1)}


def has_more(day: str) -> dict[str, object]:
    return {"day": date(2027, 1, 1), "seats": 1, "row": 2}


def misfits(day: str) -> dict[str, object]:
    return {"day": "2027-01-01", "seats": 1}


def no_mapping(day: str) -> Any:
    return [day]


@pytest.mark.parametrize(
    ("upcaster", "says"),
    [
        (raises, "the upcaster from version 1 raised RuntimeError: no such day"),
        (lacks, "the upcaster from version 1 returned no call of version 2: missing a required argument: 'seats'"),
        (has_more, "returned no call of version 2: got an unexpected keyword argument 'row'"),
        (misfits, "returned no call of version 2: parameter 'day': this str would come back as date"),
        (
            no_mapping,
            "the upcaster from version 1 returned a value of type list: return a mapping of arguments by name",
        ),
    ],
)
@whatever_the_store
async def test_an_upcaster_that_fails_breaks_the_job_and_keeps_its_bytes(
    app: App, upcaster: Callable[..., Any], says: str
) -> None:
    breaking(app, upcaster)
    job = await app.remote("book").aenqueue("2027-01-01")

    async with app.worker(poll=0.05):
        record = await ended(job)

    assert record.state is State.BROKEN
    assert record.error is not None
    assert record.error.type == "PayloadError"
    assert says in record.error.message
    assert record.payload == b'{"args":["2027-01-01"]}'


async def ended(job: Any) -> Any:
    with pytest.raises(JobBroken):
        await job.aresult(timeout=20)
    return (await job.arefresh()).record


@whatever_the_store
async def test_what_an_upcaster_cannot_read_breaks_the_job(app: App) -> None:
    charging(app)
    job = await app.remote("charge").aenqueue("a", "a lot")

    async with app.worker(poll=0.05):
        record = await ended(job)

    assert record.error.message.startswith("parameter 'amount': it does not fit its annotation")


@whatever_the_store
async def test_a_gap_in_the_chain_is_refused_when_the_worker_starts(app: App) -> None:
    @app.task(version=4)
    def task(a: int) -> None: ...

    @task.upcast(1)
    def _(a: int) -> dict[str, object]:
        return {"a": a}

    @task.upcast(3)
    def _(a: int) -> dict[str, object]:
        return {"a": a}

    with pytest.raises(
        InvalidOption,
        match=r"task 'task': it has version=4, and nothing reads the jobs of version 2: add @….upcast\(2\)",
    ):
        await app.worker().start()

    with pytest.raises(PayloadError, match=r"has version 1, and nothing leads from version 2 to 3: add @….upcast\(2\)"):
        task._decode(b'{"args":[1]}')


@whatever_the_store
async def test_a_version_without_any_upcaster_is_refused_and_the_oldest_may_be_dropped(app: App) -> None:
    @app.task(version=3)
    def task(a: int) -> None: ...

    with pytest.raises(InvalidOption, match=r"add @….upcast\(2\)"):
        await app.worker().start()

    @task.upcast(2)
    def _(a: int) -> dict[str, object]:
        return {"a": a}

    async with app.worker():
        pass


def test_wrong_upcasters_are_refused_where_they_are_declared() -> None:
    app = App("memory://")

    @app.task
    def plain(a: int) -> None: ...

    @app.task(version=2)
    def task(a: int) -> None: ...

    task.upcast(1)(lacks)
    with pytest.raises(InvalidOption, match=r"task 'plain': upcast\(1\) needs a later version: add version=2"):
        plain.upcast(1)(lacks)
    for version in (0, 2, 3, "1"):
        with pytest.raises(
            InvalidOption, match=r"task 'task': upcast\(.*\) is not from an earlier version: the task has version=2"
        ):
            task.upcast(version)(lacks)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="there is an upcaster from version 1 already"):
        task.upcast(1)(lacks)

    async def later() -> dict[str, object]:
        return {}

    def with_context(a: int, ctx: Context) -> dict[str, object]:
        return {}

    with pytest.raises(InvalidOption, match="must be a plain def"):
        task.upcast(1)(later)  # type: ignore[type-var]
    with pytest.raises(InvalidOption, match="no Context"):
        task.upcast(1)(with_context)
    with pytest.raises(InvalidOption, match="a raw task has no version"):
        app.task(raw=True, version=2)(lacks)
    with pytest.raises(InvalidOption, match="a raw task has no version"):
        app.remote("x", raw=True, version=2)
    with pytest.raises(InvalidOption, match="version must be an integer, at least 1"):
        app.task(version=0)(lacks)


async def test_equal_arguments_are_compared_after_upcasting(app: App, one_way: Do) -> None:
    charge = charging(app)
    same = await app.remote("charge").aenqueue("a", 1.5)
    other = await app.remote("charge").aenqueue("a", 2.5)
    await one_way(charge.enqueue, "a", Decimal("1.5"), "EUR")

    assert await one_way(app.cancel, charge.bind("a", Decimal("1.5"), "EUR")) == 2

    states = [(await job.arefresh()).state for job in (same, other)]
    assert states == [State.CANCELLED, State.WAITING]


@whatever_the_store
async def test_a_unique_key_made_of_the_arguments_is_the_same_after_upcasting(app: App) -> None:
    charge = charging(app)

    assert charge._key(b'{"args":["a",1.5]}') == charge._key(charge.bind("a", Decimal("1.5"), currency="EUR").payload)
    assert charge._key(b'{"args":["a",1.5]}') != charge._key(b'{"args":["a",2.5]}')


@whatever_the_store
async def test_arguments_that_look_the_same_in_two_versions_have_two_keys(app: App) -> None:
    """In version 1 the amount was in euros, in version 2 it is in cents: 100 is not 100."""

    @app.task(name="pay", version=2)
    def cents(amount: int) -> None: ...

    @cents.upcast(1)
    def _(amount: int) -> dict[str, object]:
        return {"amount": 100 * amount}

    @App(app.url).task(name="pay")
    def euros(amount: int) -> None: ...

    assert euros._key(euros.bind(100).payload) != cents._key(cents.bind(100).payload)
    assert cents._key(euros.bind(1).payload) == cents._key(cents.bind(100).payload)
    assert (await cents.using(unique=True).aenqueue(1)).duplicate is False
    assert (await cents.using(unique=True).aenqueue(1)).duplicate is True


async def test_a_worker_leaves_a_later_version_to_one_that_knows_it(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:  # as an unknown task
    monkeypatch.setattr("tenure.core.lifecycle._unknown_delay", lambda misses: 0.2)  # not ten seconds
    before, after = App(app.url), app
    charging(before, 1)
    charge = charging(after, 2)
    async with before.worker("*", id="old", poll=0.05), after.worker("*", id="new", poll=0.05):
        while len(await after.aworkers()) < 2:  # one that is not registered yet is not waited for
            await asyncio.sleep(0.01)
        jobs = [*(await charge.aenqueue_many([("a", Decimal(n)) for n in range(10)]))]
        results = [await job.aresult(timeout=20) for job in jobs]
        records = [(await job.arefresh()).record for job in jobs]

    assert results == [f"a Decimal('{n}')" for n in range(10)]
    assert {record.worker for record in records if record} == {"new"}
    assert {record.attempt for record in records if record} == {1}, "what the old one gave back does not count"
    await before.aclose()


@pytest.mark.parametrize("isolation", [None, "process"])
@whatever_the_store
async def test_a_later_version_that_no_worker_knows_is_offered_again_and_no_attempt_counts(
    app: App, isolation: Any
) -> None:
    called: list[str] = []

    @app.on_failure
    def failing(ctx: Context, error: BaseException, final: bool) -> None:
        called.append(str(error))

    @app.task(isolation=isolation)
    def charge(customer: str) -> None: ...

    job = await app.remote("charge", version=2).aenqueue("a", "b")
    async with app.worker(poll=0.05):
        while (record := (await job.arefresh()).record) is None or not record.misses:
            await asyncio.sleep(0.01)

    assert (record.state, record.attempt, record.misses) == (State.WAITING, 0, 1)
    assert record.error is not None
    assert record.error.type == "NewerPayload"
    assert "version 2 of its task, and this code knows version 1" in record.error.message
    assert not called


@whatever_the_store
async def test_it_is_broken_after_unknown_for(url: str) -> None:
    app = App(url, unknown_for=0)

    @app.task
    def charge(customer: str) -> None: ...

    job = await app.remote("charge", version=2).aenqueue("a")
    async with app.worker(poll=0.05):
        record = await ended(job)

    assert (record.state, record.error.type) == (State.BROKEN, "NewerPayload")
    await app.aclose()


@whatever_the_store
async def test_code_without_the_task_reads_arguments_of_any_version(app: App) -> None:
    job = await app.remote("elsewhere", version=7).aenqueue(1, b=2)
    [held] = await app.alease("default")
    async with held:
        assert held.arguments == ((1,), {"b": 2})
    assert job.id == held.job.id


def test_a_payload_with_its_version_is_within_the_limit() -> None:
    app = App("memory://", payload_limit=1024)

    @app.task(version=2)
    def task(text: str) -> None: ...

    fits = 1024 - len('{"v":2,"args":[""]}')
    assert len(task.bind("x" * fits).payload) == 1024
    assert task._decode(task.bind("x" * fits).payload) == (("x" * fits,), {})
    with pytest.raises(PayloadTooLarge):
        task.bind("x" * (fits + 1))


def test_positional_only_parameters_and_results_can_be_reached() -> None:
    app = App("memory://")

    @app.task(version=2)
    def task(a: int, /, b: int, *, results: list[int]) -> None: ...

    @task.upcast(1)
    def _(b: int) -> dict[str, object]:
        return {"a": 1, "b": b}

    assert task._decode(b'{"args":[5]}') == ((), {"a": 1, "b": 5})


def test_tasks_without_a_version_are_read_by_the_decoder_of_before() -> None:
    app = App("memory://")

    @app.task
    def plain(a: int) -> None: ...

    assert type(plain._arguments) is JsonArguments
    with pytest.raises(NewerPayload):
        plain._decode(b'{"v":2,"args":[1]}')
    assert plain._decode(b'{"v":1,"args":[1]}') == ((1,), {})
    assert msgspec.json.decode(plain.bind(1).payload) == {"args": [1]}
