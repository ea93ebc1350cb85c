"""The handle on one job: what is known, and what can be done to it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tenure import App, State
from tenure.core.lease import AbortReason
from tenure.errors import (
    JobBroken,
    JobCancelled,
    JobFailed,
    JobNotFound,
    LeaseLost,
    PayloadError,
    ResultGone,
    ResultTimeout,
    UniqueConflict,
    WrongState,
)
from tenure.tasks.task import Task

from .conftest import Do, Timed


def make_add(app: App) -> Task[[int], int]:
    @app.task
    def add(a: int) -> int:
        return a + 1

    return add


async def test_the_last_known_state_costs_no_io(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)
    [held] = await do(app.lease, "default")
    await do(held.finish, 2)

    assert (job.state, job.done, job.failed, job.error, job.record) == (State.WAITING, False, False, None, None)
    assert await do(job.refresh) is job
    assert (job.state, job.done, job.failed) == (State.SUCCEEDED, True, False)
    assert job.record is not None
    assert job.record.result == "2"


async def test_a_result_is_waited_for(app: App, do: Do) -> None:
    add = make_add(app)

    async with app.worker(poll=0.05):
        job = await do(add.enqueue, 1)
        assert await do(job.result, timeout=20) == 2
    assert job.state is State.SUCCEEDED


async def test_a_result_comes_back_by_the_annotation_of_the_task(app: App, do: Do) -> None:
    @app.task
    def when() -> datetime:
        return moment

    moment = datetime(2026, 1, 2)
    job = await do(when.enqueue)
    await do(job.complete, moment)

    assert await do(job.result) == moment
    found = await do(app.job, job.id)
    assert await do(found.result) == moment
    stranger = App(app.url)
    assert await do((await do(stranger.job, job.id)).result) == moment.isoformat()
    await stranger.aclose()


async def test_a_known_result_costs_no_io(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)
    await do(job.complete, 7)
    assert await do(job.result) == 7
    await do(job.delete)

    assert await do(job.result) == 7


async def test_a_job_that_failed_raises_what_it_failed_with(app: App, do: Do) -> None:
    @app.task(retry=None)
    def divide(by: int) -> float:
        return 1 / by

    async with app.worker(poll=0.05):
        job = await do(divide.enqueue, 0)
        with pytest.raises(JobFailed, match="ZeroDivisionError: division by zero") as failure:
            await do(job.result, timeout=20)

    assert (failure.value.job_id, failure.value.error_type) == (job.id, "ZeroDivisionError")
    assert "return 1 / by" in (failure.value.traceback or "")
    assert job.failed
    assert job.error is not None
    assert job.error.type == "ZeroDivisionError"


async def test_a_cancelled_job_raises_that_it_was(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)
    await do(job.cancel)

    with pytest.raises(JobCancelled):
        await do(job.result)
    assert job.failed


async def test_a_broken_job_raises_that_it_is(app: App, do: Do) -> None:
    make_add(app)
    job = await do(app.remote("add").enqueue, "no number")

    async with app.worker(poll=0.05):
        with pytest.raises(JobBroken, match="'a'"):
            await do(job.result, timeout=20)
    assert job.record is not None
    assert job.record.payload == b'{"args":["no number"]}'  # H14


async def test_a_result_that_does_not_come_in_time_raises_and_the_job_goes_on(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)

    with pytest.raises(ResultTimeout, match=r"0\.05 s"):
        await do(job.result, timeout=0.05)
    with pytest.raises(ResultTimeout):
        await do(job.result, timeout=0)
    await do(job.complete, 3)

    assert await do(job.result, timeout=0) == 3


async def test_a_result_that_is_no_longer_kept_is_gone(app: App, do: Do) -> None:  # W4
    job = await do(make_add(app).using(keep=0).enqueue, 1)
    [held] = await do(app.lease, "default")
    await do(held.finish)

    with pytest.raises(ResultGone):
        await do(job.result, timeout=10)
    with pytest.raises(ResultGone):
        await do(job.result, timeout=0)
    with pytest.raises(JobNotFound):
        await do(job.refresh)


async def test_a_result_that_somebody_waits_for_is_kept_for_him(app: App, do: Do) -> None:
    job = await do(make_add(app).using(keep=0).enqueue, 1)
    assert await app.internals.session.store.wait([job.id]) == {}
    [held] = await do(app.lease, "default")
    await do(held.finish, 5)

    assert await do(job.result, timeout=10) == 5


async def test_cancel(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)

    await do(job.cancel)

    assert job.state is State.CANCELLED
    with pytest.raises(WrongState, match="is cancelled: this needs a job that is not final"):
        await do(job.cancel)
    await do(job.delete)
    with pytest.raises(JobNotFound):
        await do(job.cancel)


async def test_retry_puts_a_final_job_at_the_back_again(app: App, do: Do) -> None:
    add = make_add(app)
    job, other = await do(add.enqueue_many, [(1,), (2,)])
    with pytest.raises(WrongState, match="final"):
        await do(job.retry)
    await do(job.cancel)

    await do(job.retry)

    assert job.state is State.WAITING
    assert [held.job.id for held in await do(app.lease, "default", limit=2)] == [other.id, job.id]


async def test_retry_names_the_job_that_holds_the_unique_key(app: App, do: Do) -> None:
    add = make_add(app).using(unique="k")
    job = await do(add.enqueue, 1)
    await do(job.cancel)
    holder = await do(add.enqueue, 1)

    with pytest.raises(UniqueConflict) as refusal:
        await do(job.retry)

    assert (refusal.value.holder, refusal.value.key, refusal.value.task) == (holder.id, "k", "add")


async def test_trigger_puts_a_scheduled_job_in_line(app: App, do: Do) -> None:
    job = await do(make_add(app).using(delay=3600).enqueue, 1)
    assert await do(app.lease, "default") == []

    await do(job.trigger)

    [held] = await do(app.lease, "default")
    assert held.job.id == job.id
    with pytest.raises(WrongState, match="is running: this needs a job that is scheduled"):
        await do(job.trigger)


async def test_release_gives_a_running_job_back_and_its_holder_has_lost_it(app: App, do: Do) -> None:  # W14
    first, second = await do(make_add(app).enqueue_many, [(1,), (2,)])
    with pytest.raises(WrongState, match="is waiting: this needs a job that is running"):
        await do(first.release)
    [held] = await do(app.lease, "default")

    await do(first.release)

    assert first.state is State.WAITING
    assert [(job.id, job.record.attempt) for job in await do(app.jobs, state="waiting")] == [
        (first.id, 0), (second.id, 0),
    ]  # fmt: skip
    with pytest.raises(LeaseLost) as lost:
        await do(held.finish, 7)
    assert lost.value.reason is AbortReason.TAKEN
    [again] = await do(app.lease, "default")
    assert (again.job.id, again.job.attempt) == (first.id, 1)
    await do(again.finish, 7)


async def test_complete_ends_a_job_from_outside(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)

    await do(job.complete, 7)

    assert (job.state, await do(job.result)) == (State.SUCCEEDED, 7)
    with pytest.raises(WrongState):
        await do(job.complete, 8)
    with pytest.raises(PayloadError, match="the result"):
        await do(job.complete, float("nan"))


async def test_delete(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)

    await do(job.delete)

    with pytest.raises(JobNotFound):
        await do(job.delete)
    with pytest.raises(JobNotFound):
        await do(app.job, job.id)


@pytest.mark.parametrize("method", ["refresh", "cancel", "retry", "trigger", "release", "delete", "complete"])
async def test_what_does_not_exist_is_not_found(app: App, do: Do, method: str) -> None:
    job = await make_add(app).aenqueue(1)
    await job.adelete()

    with pytest.raises(JobNotFound, match=job.id):
        await do(getattr(job, method))


async def test_a_job_is_shown_without_its_arguments(app: App) -> None:
    job = await make_add(app).aenqueue(4711)

    assert repr(job) == f"<Job {job.id} of add, waiting>"


@pytest.mark.parametrize("job_id", ["01900000-0000-7000-8000-000000000000", "", "x'; --", "\0", "☃" * 300])
async def test_any_text_may_be_asked_for(app: App, do: Do, job_id: Any) -> None:
    with pytest.raises(JobNotFound) as refusal:
        await do(app.job, job_id)

    assert len(str(refusal.value)) < 300


async def test_records_are_gone_when_retention_ends(timed: Timed) -> None:
    app, clock = timed
    job = await make_add(app).using(keep=10).aenqueue(1)
    await job.acomplete(1)
    clock.advance(11)
    await app.internals.session.store.prune(app.options.keep, app.options.keep_in)

    with pytest.raises(JobNotFound):
        await job.arefresh()
