"""Leasing by hand."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from tenure import App, Backoff, Fail, Reschedule, Retry, State
from tenure.core.lease import AbortReason, new_nonce
from tenure.errors import InvalidOption, JobFailed, LeaseLost, PayloadError, StoreUnavailable
from tenure.jobs.by_hand import Held
from tenure.stores.memory import Data, MemoryStore
from tenure.stores.values import LeaseRequest, Renewal
from tenure.tasks.task import Task
from tenure.testing.clock import ManualClock
from tests.faults.scale import on

from .conftest import Do, Timed


def make_add(app: App) -> Task[[int], int]:
    @app.task(retry=Backoff(initial=60, jitter=0))
    def add(a: int) -> int:
        return a + 1

    return add


async def eventually(condition: Callable[[], Any], within: float = 20) -> None:
    """Wait until something that no event tells has come true."""
    deadline = time.monotonic() + within
    while not await condition():
        assert time.monotonic() < deadline, "it has not come true"
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def inside(do: Do, held: Held) -> AsyncIterator[None]:
    """The block of `with held:` or `async with held:`, as the style is."""
    if "blocking" in repr(do):
        error: BaseException | None = None
        await asyncio.to_thread(held.__enter__)
        try:
            yield
        except BaseException as raised:
            error = raised
        if not await asyncio.to_thread(held.__exit__, type(error) if error else None, error, None) and error:
            raise error
    else:
        async with held:
            yield


def give(answer: Exception) -> None:
    raise answer


async def test_a_leased_job_is_running_under_a_registered_holder(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 41)

    [held] = await do(app.lease, "default")

    assert (held.job.id, held.job.attempt, held.arguments) == (job.id, 1, ((41,), {}))
    assert (await do(job.refresh)).state is State.RUNNING

    async def registered() -> bool:
        return [(w.id, w.queues, w.held) for w in await do(app.workers)] == [(held.job.worker, ("default",), 1)]

    await eventually(registered)


async def lease_and_die(app: App, queue: str, *, ttl: float = 0.05) -> str:
    """Lease a job as a peer that dies at once."""
    request = LeaseRequest(queues=(queue,), limit=1, worker="dead", ttl=ttl, nonce=new_nonce(), solo=True)
    [lease] = (await app.internals.session.store.lease(request)).leases
    return lease.job.id


async def test_who_waits_for_a_job_by_hand_takes_those_of_dead_peers(app: App, do: Do) -> None:  # W23, W24
    job = await app.remote("t").aenqueue()
    await lease_and_die(app, "default")

    [held] = await do(app.lease, "other", "default", wait=20)

    assert (held.job.id, held.job.attempt, held.job.losses) == (job.id, 2, 1)


async def test_who_holds_a_job_by_hand_takes_those_of_dead_peers_for_others(app: App) -> None:  # W23, W24
    await app.remote("t", queue="one").aenqueue()
    [held] = await app.alease("one", "two")
    job = await app.remote("t", queue="two").aenqueue()
    await lease_and_die(app, "two")

    async def back() -> bool:
        return (await job.arefresh()).state is State.WAITING

    await eventually(back)
    assert job.record is not None
    assert (job.record.losses, held.lost) == (1, None)
    await held.afinish()


async def test_a_holder_that_was_held_up_renews_its_own_jobs_before_it_looks_for_those_of_the_dead() -> None:
    clock = ManualClock()
    data = Data(clock)
    app = App(lambda: MemoryStore(data), lease=30)
    job = await make_add(app).aenqueue(1)
    [held] = await app.alease("default")
    lease = held._held_lease

    clock.advance(31)  # by the store's clock, and by that of the holder, which has not come round meanwhile
    lease.renewed_at -= 31
    app.internals.session.holder._reaped_at.clear()
    assert await app.alease("default") == []

    assert (held.lost, (await job.arefresh()).state) == (None, State.RUNNING)
    await held.afinish(2)
    await app.aclose()


async def test_a_peer_that_lives_keeps_its_job_from_those_who_lease_by_hand(app: App) -> None:  # W23
    await app.remote("t").aenqueue()
    await lease_and_die(app, "default", ttl=60)

    assert await app.alease("default", wait=0.05) == []


async def test_who_holds_jobs_by_hand_says_after_how_long_it_is_missing(url: str) -> None:  # W25
    app = App(url, missing_after=3)
    await app.remote("t").aenqueue()
    [held] = await app.alease("default")

    async def announced() -> bool:
        return [(worker.id, worker.missing_after) for worker in await app.aworkers()] == [(held.job.worker, 3.0)]

    await eventually(announced)
    await app.aclose()


async def test_no_job_is_an_empty_list(app: App, do: Do) -> None:
    assert await do(app.lease, "default") == []
    assert await do(app.lease, "default", "other", limit=5, wait=0.05) == []


async def test_a_job_that_comes_while_one_waits_is_leased_at_once(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    for looks in ("jobs.by_hand.INTERVAL", "stores.postgres.wakeup.LOOK_EVERY"):
        monkeypatch.setattr(f"tenure.{looks}", 30.0)  # so that it is woken, or comes too late
    add = make_add(app)
    waiting = asyncio.create_task(app.alease("default", wait=30))
    await asyncio.sleep(0.05)
    started = time.monotonic()
    await add.aenqueue(1)

    [held] = await waiting

    assert time.monotonic() - started < 15
    await held.afinish()


async def test_a_scheduled_job_is_waited_for(app: App) -> None:
    await make_add(app).using(delay=0.2).aenqueue(1)

    assert len(await app.alease("default", wait=10)) == 1


async def test_waiting_works_without_wake_up(url: str) -> None:  # Q2
    app = App(url, wakeup=False)
    waiting = asyncio.create_task(app.alease("default", wait=10))
    await asyncio.sleep(0.05)
    await make_add(app).aenqueue(1)

    assert len(await waiting) == 1
    await app.aclose()


async def test_the_first_queue_is_served_first(app: App, do: Do) -> None:  # R28
    add = make_add(app)
    await do(add.using(queue="b").enqueue, 1)
    await do(add.using(queue="a").enqueue, 2)

    assert [held.job.queue for held in await do(app.lease, "a", "b", limit=5)] == ["a", "b"]


async def test_finish_gives_the_result(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)
    [held] = await do(app.lease, "default")

    with pytest.raises(PayloadError, match="the result"):
        await do(held.finish, float("nan"))
    await do(held.finish, 2)

    assert await do(job.result) == 2


async def test_release_puts_it_at_the_front_as_if_it_had_not_been_leased(app: App, do: Do) -> None:  # W14
    first, second = await do(make_add(app).enqueue_many, [(1,), (2,)])
    [held] = await do(app.lease, "default")

    await do(held.release)

    assert [(h.job.id, h.job.attempt) for h in await do(app.lease, "default", limit=2)] == [
        (first.id, 1),
        (second.id, 1),
    ]


async def test_retry_puts_it_at_the_back_after_its_delay(app: App, do: Do) -> None:  # H5, H12
    first, second = await do(make_add(app).enqueue_many, [(1,), (2,)])
    [held] = await do(app.lease, "default")

    await do(held.retry, "not now", after=0)

    assert [(h.job.id, h.job.attempt) for h in await do(app.lease, "default", limit=2)] == [
        (second.id, 1),
        (first.id, 2),
    ]
    await do(first.refresh)
    assert first.error is not None
    assert (first.error.type, first.error.message) == ("Retry", "not now")


async def test_retry_without_a_delay_follows_the_backoff_of_the_task(timed: Timed) -> None:
    app, clock = timed
    job = await make_add(app).aenqueue(1)
    [held] = await app.alease("default")
    await held.aretry()

    record = (await job.arefresh()).record
    assert record is not None
    assert record.run_at == pytest.approx(clock.wall() + 60)


async def test_fail_ends_it(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)
    [held] = await do(app.lease, "default")

    await do(held.fail, "no such user")

    with pytest.raises(JobFailed, match="no such user"):
        await do(job.result)


async def test_a_block_finishes_the_job(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)
    [held] = await do(app.lease, "default")

    async with inside(do, held):
        pass

    assert await do(job.result) is None


async def test_a_block_that_settles_the_job_itself_is_left_alone(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)
    [held] = await do(app.lease, "default")

    async with inside(do, held):
        await do(held.finish, 7)

    assert await do(job.result) == 7


async def test_a_block_that_raises_retries_the_job(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)
    [held] = await do(app.lease, "default")

    with pytest.raises(ZeroDivisionError):
        async with inside(do, held):
            raise ZeroDivisionError("boom")

    await do(job.refresh)
    assert job.record is not None
    assert (job.record.label, job.error and job.error.message) == ("retrying", "boom")


@pytest.mark.parametrize(
    ("answer", "label"),
    [(Fail("no"), "failed"), (Retry("later"), "retrying"), (Reschedule(after=60), "scheduled")],
)
async def test_an_answer_raised_in_a_block_decides_and_goes_no_further(
    app: App, do: Do, answer: Exception, label: str
) -> None:
    job = await do(make_add(app).enqueue, 1)
    [held] = await do(app.lease, "default")

    async with inside(do, held):
        give(answer)

    await do(job.refresh)
    assert job.record is not None
    assert job.record.label == label


async def test_a_cancelled_block_gives_the_job_back(app: App) -> None:
    job = await make_add(app).aenqueue(1)
    [held] = await app.alease("default")
    begun = asyncio.Event()

    async def work() -> None:
        async with held:
            begun.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    record = (await job.arefresh()).record
    assert record is not None
    assert (record.state, record.attempt) == (State.WAITING, 0)


async def test_a_lost_lease_is_refused_whatever_is_tried(app: App, do: Do) -> None:  # I5
    job = await do(make_add(app).enqueue, 1)
    [held] = await do(app.lease, "default")
    await do(job.cancel)

    with pytest.raises(LeaseLost) as refusal:
        await do(held.renew)
    assert refusal.value.reason == AbortReason.CANCELLED
    for settle in (held.finish, held.release, held.retry, held.fail):
        with pytest.raises(LeaseLost):
            await do(settle)
    await do(job.delete)
    with pytest.raises(LeaseLost, match="not_found"):
        await do(held.finish)


async def test_the_holder_of_a_cancelled_job_hears_of_it(app: App, do: Do) -> None:  # T14
    job = await do(make_add(app).enqueue, 1)
    [held] = await do(app.lease, "default")
    assert held.lost is None
    await do(job.cancel)

    async def lost() -> bool:
        return held.lost is AbortReason.CANCELLED

    await eventually(lost)


async def test_renew_holds_the_job_for_another_lease(timed: Timed) -> None:
    app, clock = timed
    await make_add(app).aenqueue(1)
    [held] = await app.alease("default")
    clock.advance(25)
    await held.arenew()
    clock.advance(25)

    assert await app.internals.session.store.reap(["default"]) == []
    await held.afinish()


@on("sqlite", "postgres")
async def test_a_lease_is_renewed_in_the_background(url: str, do: Do) -> None:  # F4
    app = App(url, lease=3)
    job = await do(make_add(app).enqueue, 1)
    [held] = await do(app.lease, "default")

    async def left() -> float:
        return float((await do(job.refresh)).record.lease_left)

    ends_by = await left() + time.monotonic()

    async def renewed() -> bool:
        now, still = time.monotonic(), await left()
        assert still > 0
        return now + still > ends_by + 1.5  # a renewal adds about a second

    await eventually(renewed)
    await do(held.finish)
    await app.aclose()


async def test_a_lease_that_is_not_to_be_renewed_runs_out(url: str) -> None:
    app = App(url, lease=1, renew=None)
    job = await make_add(app).aenqueue(1)
    [held] = await app.alease("default")

    async def reaped() -> bool:  # by its own holder, who looks for such leases too
        return (await job.arefresh()).state is State.WAITING

    await eventually(reaped)
    with pytest.raises(LeaseLost):
        await held.afinish()
    await app.aclose()


class Unwilling(MemoryStore):
    """A store that is gone whenever a lease is to be renewed."""

    async def renew(self, renewals: Sequence[Renewal]) -> list[AbortReason | None]:
        raise StoreUnavailable("down")


async def test_a_lease_that_could_not_be_renewed_in_time_counts_as_lost(caplog: pytest.LogCaptureFixture) -> None:  # F7
    data = Data()
    app = App(lambda: Unwilling(data), lease=1)
    await make_add(app).aenqueue(1)
    [held] = await app.alease("default")
    assert held.lost is None

    async def lost() -> bool:
        return held.lost is AbortReason.ERROR

    await eventually(lost)
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "the store is gone while jobs are held; their leases may be lost"
    ]
    await held.afinish()  # nobody has taken it yet: the token decides
    await app.aclose()


@on("sqlite", "postgres")
async def test_the_holder_leaves_the_registry_when_everything_is_settled(app: App, do: Do) -> None:
    await do(make_add(app).enqueue_many, [(1,), (2,)])
    first, second = await do(app.lease, "default", limit=2)
    await do(first.finish)

    async def one_held() -> bool:
        return [worker.held for worker in await do(app.workers)] == [1]

    async def none_registered() -> bool:
        return not await do(app.workers)

    await eventually(one_held)
    await do(second.release)
    await eventually(none_registered)


async def test_closing_the_app_gives_back_what_is_held(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)
    await do(app.lease, "default")

    await do(app.close)

    record = (await do(job.refresh)).record
    assert (record.state, record.attempt, await do(app.workers)) == (State.WAITING, 0, [])


async def test_whoever_has_a_job_in_hand_is_registered(app: App, do: Do) -> None:  # W29
    await do(make_add(app).enqueue, 1)

    [held] = await do(app.lease, "default")

    assert [worker.id for worker in await do(app.workers)] == [held.job.worker]


async def test_a_job_leased_on_one_loop_may_be_settled_from_another(app: App) -> None:
    job = await make_add(app).aenqueue(1)
    [held] = await app.alease("default")

    await asyncio.to_thread(held.finish, 2)

    assert await job.aresult() == 2

    async def none_registered() -> bool:
        return await app.aworkers() == []

    await eventually(none_registered)


async def test_unknown_tasks_can_be_worked_by_hand(app: App, do: Do) -> None:
    await do(app.remote("elsewhere").enqueue, 1, unit="kg")
    await do(app.remote("blob", raw=True).enqueue, b"\0")

    first, second = await do(app.lease, "default", limit=2)

    assert first.arguments == ((1,), {"unit": "kg"})
    assert second.arguments == ((b"\0",), {})


async def test_arguments_that_cannot_be_read_are_told(app: App, do: Do) -> None:
    make_add(app)
    await do(app.remote("add").enqueue, "no number")
    [held] = await do(app.lease, "default")

    with pytest.raises(PayloadError, match="'a'"):
        _ = held.arguments
    await do(held.fail, "unreadable")


@pytest.mark.parametrize(
    ("queues", "options"), [((), {}), (("q",), {"limit": 0}), (("q",), {"limit": 1001}), (("q",), {"wait": -1})]
)
async def test_a_lease_that_makes_no_sense_is_refused_before_any_io(
    no_store: App, do: Do, queues: tuple[str, ...], options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidOption):
        await do(no_store.lease, *queues, **options)
