"""Enqueueing: one by one, many, in batches, with every option, and what is refused before any I/O."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure import App, Job, State
from tenure.core.job import NewJob
from tenure.errors import (
    InvalidName,
    InvalidOption,
    OutcomeUnknown,
    PayloadError,
    PayloadTooLarge,
    StoreUnavailable,
    UniqueConflict,
)
from tenure.stores.memory import Data, MemoryStore
from tenure.stores.values import Enqueued
from tenure.tasks.task import Call, Task

from .conftest import Do, Timed


def make_add(app: App) -> Task[[int], int]:
    @app.task
    def add(a: int) -> int:
        return a + 1

    return add


def make_send(app: App, **options: Any) -> Task[..., Any]:
    @app.task(**options)
    def send(user: int, lang: str = "en") -> None: ...

    return send


async def payloads(app: App, **filters: Any) -> list[bytes]:
    """The payloads of the waiting jobs, in line."""
    return [job.record.payload for job in await app.ajobs(state="waiting", **filters) if job.record is not None]


async def test_an_enqueued_job_is_in_the_store_with_its_arguments(app: App, do: Do) -> None:
    send = make_send(app, queue="mail", priority=-1, max_losses=None)

    job = await do(send.enqueue, 42, lang="de")

    [record] = await app.internals.session.store.get([job.id])
    assert record is not None
    assert (record.task, record.queue, record.state) == ("send", "mail", State.WAITING)
    assert (record.payload, record.priority, record.max_losses) == (b'{"args":[42],"kwargs":{"lang":"de"}}', -1, 0)
    assert (job.id, job.task, job.queue, job.state, job.done, job.duplicate) == (
        record.id, "send", "mail", State.WAITING, False, False,
    )  # fmt: skip


async def test_every_option_of_using_reaches_the_store(timed: Timed, do: Do) -> None:
    app, clock = timed
    send = make_send(app)
    using = send.using(delay=timedelta(minutes=1), expires=600, priority=5, unique="user:1", window=90)
    using = using.using(queue="vip", tags=["a", "b:1"], keep=timedelta(days=1), max_attempts=4)

    job = await do(using.enqueue, 1)

    record = (await app.ajob(job.id)).record
    assert record is not None
    assert (record.queue, record.priority, record.tags, record.unique) == ("vip", 5, ("a", "b:1"), "user:1")
    assert (record.keep, record.max_attempts) == (86400.0, 4)
    assert record.run_at == pytest.approx(clock.wall() + 60)
    assert record.expires_at == pytest.approx(clock.wall() + 600)


async def test_later_options_replace_earlier_ones(timed: Timed) -> None:
    app, clock = timed
    send = make_send(app)
    at = datetime.fromtimestamp(clock.wall() + 500, UTC)

    first = await send.using(delay=60, max_attempts=3).using(run_at=at, max_attempts=None).aenqueue(1)
    second = await send.using(run_at=at, tags=["a"]).using(delay=0, tags=[]).aenqueue(1)

    one, two = [(await app.ajob(job.id)).record for job in (first, second)]
    assert one is not None
    assert two is not None
    assert (one.run_at, one.max_attempts) == (clock.wall() + 500, 0)
    assert (two.run_at, two.tags) == (None, ())


async def test_a_tasks_lease_and_keep_go_with_the_job(app: App) -> None:
    job = await make_send(app, lease=7, keep=0.5).aenqueue(1)

    record = (await app.ajob(job.id)).record
    assert record is not None
    assert (record.lease, record.keep) == (7.0, 0.5)


async def test_many_calls_are_stored_in_their_order(app: App, do: Do) -> None:  # W11
    add = make_add(app)

    jobs = await do(add.enqueue_many, [(3,), {"a": 1}, [2]])

    assert [job.id for job in jobs] == [job.id for job in await app.ajobs(state="waiting")]
    assert await payloads(app) == [b'{"args":[3]}', b'{"kwargs":{"a":1}}', b'{"args":[2]}']


async def test_many_without_a_call_is_nothing(no_store: App, do: Do) -> None:
    assert await do(make_add(no_store).enqueue_many, []) == []
    assert await do(no_store.enqueue) == []


async def test_different_tasks_go_in_one_step_or_not_at_all(app: App, do: Do) -> None:
    add, send = make_add(app), make_send(app)
    await send.using(unique="k").aenqueue(1)

    jobs = await do(app.enqueue, add.bind(1), send.using(queue="mail").bind(2))
    with pytest.raises(UniqueConflict):
        await do(app.enqueue, add.bind(3), send.using(unique="k", unique_raises=True).bind(4))

    assert [(job.task, job.queue) for job in jobs] == [("add", "default"), ("send", "mail")]
    assert len(await app.ajobs()) == 3


async def test_a_bound_call_makes_a_new_job_each_time(app: App) -> None:
    call = make_add(app).bind(1)

    first, second = await app.aenqueue(call, call)

    assert first.id != second.id


async def test_a_duplicate_is_the_job_that_holds_the_key(app: App, do: Do) -> None:  # W35
    send = make_send(app)

    first = await do(send.using(unique="k").enqueue, 1)
    second = await do(send.using(unique="k").enqueue, 2)
    other = await do(send.using(unique="l").enqueue, 3)
    with pytest.raises(UniqueConflict) as refusal:
        await do(send.using(unique="k", unique_raises=True).enqueue, 4)
    await do(first.cancel)
    again = await do(send.using(unique="k").enqueue, 5)

    assert (second.id, second.duplicate, first.duplicate) == (first.id, True, False)
    assert not other.duplicate
    assert (refusal.value.holder, refusal.value.key, refusal.value.task) == (first.id, "k", "send")
    assert not again.duplicate


async def test_unique_may_mean_the_arguments(app: App, do: Do) -> None:
    send = make_send(app).using(unique=True)

    first = await do(send.enqueue, 1, "de")
    same = await do(send.enqueue, lang="de", user=1)
    other = await do(send.enqueue, 2, "de")
    free = await do(send.using(unique=None).enqueue, 1, "de")

    assert (same.id, same.duplicate) == (first.id, True)
    assert not other.duplicate
    assert not free.duplicate


async def test_a_window_holds_the_key_beyond_the_end_of_the_job(timed: Timed) -> None:
    app, clock = timed
    send = make_send(app).using(unique="k", window=60)

    first = await send.aenqueue(1)
    await first.acomplete()
    during = await send.aenqueue(2)
    clock.advance(61)
    after = await send.aenqueue(3)

    assert (during.id, during.duplicate) == (first.id, True)
    assert not after.duplicate


async def test_a_job_that_expires_before_it_starts_is_cancelled(timed: Timed) -> None:
    app, clock = timed
    job = await make_send(app).using(expires=10).aenqueue(1)

    clock.advance(11)

    assert await app.alease("default") == []
    assert (await job.arefresh()).state is State.CANCELLED


async def test_a_job_with_a_delay_is_not_handed_out_before_it_is_due(timed: Timed) -> None:
    app, clock = timed
    send = make_send(app)
    later = await send.using(delay=10).aenqueue(1)
    sooner = await send.using(run_at=datetime.fromtimestamp(clock.wall() + 5, UTC)).aenqueue(2)

    assert await app.alease("default") == []
    clock.advance(10.5)

    assert [held.job.id for held in await app.alease("default", limit=9)] == [sooner.id, later.id]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1, "de", 3), {}), ((1,), {"user": 1}), ((1,), {"colour": "red"}), ((), {"lang": "de"})],
)
async def test_arguments_that_do_not_fit_are_a_type_error_before_any_io(
    no_store: App, do: Do, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    send = make_send(no_store)

    with pytest.raises(TypeError):
        await do(send.enqueue, *args, **kwargs)
    with pytest.raises(TypeError):
        send.using(delay=3).bind(*args, **kwargs)


@pytest.mark.parametrize("call", [(), {}, (1, "de", 3), {"colour": "red"}, 1, "text"])
async def test_one_call_that_does_not_fit_spoils_all(no_store: App, do: Do, call: Any) -> None:
    with pytest.raises(TypeError):
        await do(make_send(no_store).enqueue_many, [(1,), call])


@pytest.mark.parametrize("value", [math.nan, "\ud800", 2**63, object(), {1}, "x" * 2_000_000])
async def test_arguments_that_cannot_be_stored_are_refused_before_any_io(no_store: App, do: Do, value: Any) -> None:
    @no_store.task
    def keep(value) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(PayloadError) as refusal:
        await do(keep.enqueue, value)

    assert isinstance(refusal.value, PayloadTooLarge) == (value == "x" * 2_000_000)


async def test_the_payload_limit_can_be_set(app: App) -> None:
    small = App(app.url, payload_limit=20)

    with pytest.raises(PayloadTooLarge):
        await make_send(small).aenqueue(1, "a long text")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"delay": -1}, InvalidOption),
        ({"delay": math.nan}, InvalidOption),
        ({"run_at": datetime(2026, 1, 1)}, InvalidOption),
        ({"delay": 1, "run_at": datetime(2026, 1, 1, tzinfo=UTC)}, InvalidOption),
        ({"expires": -1}, InvalidOption),
        ({"priority": 2**31}, InvalidOption),
        ({"priority": 0.5}, InvalidOption),
        ({"priority": True}, InvalidOption),
        ({"unique": ""}, InvalidOption),
        ({"unique": "a\0"}, InvalidOption),
        ({"unique": "\ud800"}, InvalidOption),
        ({"unique": "x" * 501}, InvalidOption),
        ({"unique": 3}, InvalidOption),
        ({"window": -1}, InvalidOption),
        ({"queue": "a b"}, InvalidName),
        ({"queue": "a\n"}, InvalidName),
        ({"queue": ""}, InvalidName),
        ({"tags": ["a b"]}, InvalidName),
        ({"tags": "abc"}, InvalidOption),
        ({"keep": -1}, InvalidOption),
        ({"max_attempts": 0}, InvalidOption),
    ],
)
def test_options_of_using_are_checked_before_any_io(
    no_store: App, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        make_send(no_store).using(**options)


def test_an_empty_queue_name_is_refused_wherever_one_is_taken(no_store: App) -> None:
    flow = no_store.flow("f")
    for take in (
        lambda: no_store.remote("t", queue=""),
        lambda: no_store.task(queue="")(print),
        lambda: flow.step(queue="")(lambda: None),
        lambda: no_store.remote("t").using(queue=""),
        lambda: no_store.worker([""]),
        lambda: no_store.jobs(queue=""),
        lambda: no_store.pause(""),
        lambda: no_store.resume(""),
        lambda: no_store.purge(""),
        lambda: no_store.lease(""),
        lambda: no_store.watch(queue=""),
    ):
        with pytest.raises(InvalidName):
            take()


async def test_raw_bytes_are_stored_exactly(app: App, do: Do) -> None:  # W6
    @app.task(raw=True)
    def keep(data: bytes) -> None: ...

    for data in (b"", b"\0\xff{}", b"null"):
        job = await do(keep.enqueue, data)
        record = (await app.ajob(job.id)).record
        assert record is not None
        assert (record.payload, record.raw) == (data, True)


async def test_a_remote_task_is_enqueued_by_a_process_that_does_not_have_the_code(app: App, do: Do) -> None:  # H1
    add = make_add(app)

    job = await do(App(app.url).remote("add").enqueue, 41)
    raw = await do(app.remote("blob", queue="bytes", raw=True).enqueue, b"\0")
    async with app.worker(["default"], poll=0.05):
        assert await do(job.result, timeout=20) == 42

    assert (raw.task, raw.queue) == ("blob", "bytes")
    assert add.name == job.task
    with pytest.raises(InvalidName):
        app.remote("a b")
    with pytest.raises(PayloadError):
        app.remote("add").bind({1})


def test_a_remote_task_from_another_process(tmp_path: Any) -> None:  # H1
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = App(url)
    make_add(app)
    program = f"from tenure import App; print(App({url!r}).remote('add').enqueue(a=41).id)"

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    app.worker().run(until_empty=True)

    assert app.job(run.stdout.strip()).result(timeout=20) == 42
    app.close()


class TestBatch:
    async def test_everything_in_the_block_goes_in_one_step_at_its_end(self, app: App) -> None:
        add, send = make_add(app), make_send(app)

        async with app.batch():
            first = await add.aenqueue(1)
            many = await add.aenqueue_many([(2,), (3,)])
            mixed = await app.aenqueue(send.bind(4))
            assert await app.ajobs() == []

        assert [job.id for job in await app.ajobs(state="waiting")] == [job.id for job in (first, *many, *mixed)]
        assert (await first.arefresh()).state is State.WAITING

    async def test_blocking_code_has_it_too(self, app: App) -> None:
        add = make_add(app)

        def produce() -> list[Job[int]]:
            with app.batch():
                jobs = [add.enqueue(n) for n in range(3)]
                assert app.jobs() == []
            return jobs

        jobs = await asyncio.to_thread(produce)

        assert {job.id for job in jobs} == {job.id for job in await app.ajobs()}

    async def test_nothing_is_stored_if_the_block_raises(self, app: App) -> None:
        add = make_add(app)

        def produce() -> None:
            with pytest.raises(ZeroDivisionError), app.batch():
                add.enqueue(1)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            async with app.batch():
                await add.aenqueue(1)
                raise ZeroDivisionError
        await asyncio.to_thread(produce)

        assert await app.ajobs() == []

    async def test_nothing_is_stored_if_one_of_the_jobs_is_refused(self, app: App) -> None:
        send = make_send(app).using(unique="k", unique_raises=True)

        with pytest.raises(UniqueConflict):
            async with app.batch():
                await send.aenqueue(1)
                await send.aenqueue(2)

        assert await app.ajobs() == []

    async def test_a_handle_learns_that_it_is_a_duplicate(self, app: App) -> None:
        send = make_send(app).using(unique="k")
        first = await send.aenqueue(1)

        async with app.batch():
            second = await send.aenqueue(2)

        assert (second.id, second.duplicate) == (first.id, True)

    async def test_an_inner_batch_goes_with_the_outer_one(self, app: App) -> None:
        add = make_add(app)

        with pytest.raises(ZeroDivisionError):
            async with app.batch():
                async with app.batch():
                    await add.aenqueue(1)
                assert await app.ajobs() == []
                raise ZeroDivisionError
        async with app.batch():
            with pytest.raises(ZeroDivisionError):
                async with app.batch():
                    await add.aenqueue(2)
                    raise ZeroDivisionError
            await add.aenqueue(3)

        assert await payloads(app) == [b'{"args":[3]}']

    async def test_a_task_started_in_the_block_joins_it_while_it_lasts(self, app: App) -> None:
        add = make_add(app)
        ended = asyncio.Event()

        async def later() -> Job[int]:
            await add.aenqueue(1)
            await ended.wait()
            return await add.aenqueue(2)

        async with app.batch():
            task = asyncio.create_task(later())
            await asyncio.sleep(0)
            assert await app.ajobs() == []
        assert await payloads(app) == [b'{"args":[1]}']
        ended.set()
        await task

        assert await payloads(app) == [b'{"args":[1]}', b'{"args":[2]}']

    async def test_it_belongs_to_one_app_and_to_those_inside_it(self, app: App, url: str) -> None:
        add, other = make_add(app), App(url)
        release = asyncio.Event()

        async def outside() -> None:
            await release.wait()
            await add.aenqueue(1)

        task = asyncio.create_task(outside())
        async with app.batch():
            await make_add(other).aenqueue(2)
            release.set()
            await task
            assert len(await app.ajobs()) == 2
            await add.aenqueue(3)
        await other.aclose()

    async def test_batches_of_two_apps_may_be_nested(self, app: App, url: str) -> None:
        add, other = make_add(app), App(url)
        async with app.batch():
            async with other.batch():
                await add.aenqueue(1)
                await make_add(other).aenqueue(2)
            assert await payloads(app) == [b'{"args":[2]}']

        assert await payloads(app) == [b'{"args":[2]}', b'{"args":[1]}']
        await other.aclose()

    async def test_an_empty_batch_does_no_io(self, no_store: App) -> None:
        async with no_store.batch():
            pass


class Flaky(MemoryStore):
    """A store whose connection goes away: before some enqueues, or between the deed and the answer."""

    def __init__(self, data: Data, errors: list[Exception]) -> None:
        super().__init__(data)
        self.errors = errors

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        error = self.errors.pop(0) if self.errors else None
        if isinstance(error, StoreUnavailable):
            raise error
        answer = await super().enqueue(jobs)
        if error is not None:
            raise error
        return answer


class TestOutage:
    async def test_an_enqueue_repeats_itself_and_stores_the_job_once(self) -> None:  # I2, F16
        data = Data()
        app = App(
            lambda: Flaky(data, [OutcomeUnknown("reply lost"), StoreUnavailable("down"), OutcomeUnknown("again")])
        )

        job = await make_send(app).using(unique="k", unique_raises=True).aenqueue(1)

        assert not job.duplicate
        assert [found.id for found in await app.ajobs()] == [job.id]

    @pytest.mark.parametrize(
        ("errors", "told"),
        [
            ([StoreUnavailable("down")], StoreUnavailable),
            ([OutcomeUnknown("?"), StoreUnavailable("down")], OutcomeUnknown),
        ],
    )
    async def test_an_outage_that_lasts_is_told_after_five_seconds(
        self, errors: list[Exception], told: type[Exception], monkeypatch: pytest.MonkeyPatch
    ) -> None:  # I19
        monkeypatch.setattr("tenure.jobs.session.ENQUEUE_TIMEOUT", 0.3)
        app = App(lambda: Flaky(Data(), [*errors, *[errors[-1]] * 1000]))
        started = time.monotonic()

        with pytest.raises(told):
            await make_send(app).aenqueue(1)

        assert 0.3 <= time.monotonic() - started < 3


def test_calls_can_be_annotated(no_store: App) -> None:
    call: Call[int] = make_add(no_store).bind(1)

    assert call.payload == b'{"args":[1]}'
