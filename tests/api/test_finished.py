"""Jobs that have ended: the history of their attempts, and putting many of them back in line, or away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from tenure import App, Backoff, Fail, Job, Retry, State
from tenure.core.job import AttemptEnd, ErrorInfo, NewJob, new_id
from tenure.core.lease import new_nonce
from tenure.core.lifecycle import Finish
from tenure.errors import HasDependents, InvalidName, InvalidOption, JobBroken, JobNotFound
from tenure.jobs.bulk import retry
from tenure.stores.base import Store
from tenure.stores.values import LeaseRequest, Search, Verdict

from .conftest import Do

BOOM = ErrorInfo("ValueError", "boom")


async def end(
    store: Store, number: int, state: State = State.FAILED, error: ErrorInfo = BOOM, queue: str = "q"
) -> None:
    """End the first jobs in line."""
    request = LeaseRequest(queues=(queue,), limit=number, worker="w", ttl=60, nonce=new_nonce())
    leases = (await store.lease(request)).leases
    assert len(leases) == number
    await store.settle([(lease, Finish(state, error=error)) for lease in leases])


async def some_ended(app: App) -> dict[str, Job[Any]]:
    """Jobs that have gone wrong, each in a way of its own, and others beside them."""
    mail, news = app.remote("mail", queue="q"), app.remote("news", queue="q")
    jobs = {
        "mail": await mail.aenqueue(1),
        "red": await mail.using(tags=["red"]).aenqueue(2),
        "news": await news.aenqueue(3),
        "broken": await news.using(tags=["red"]).aenqueue(4),
        "elsewhere": await mail.using(queue="r").aenqueue(5),
        "succeeded": await mail.aenqueue(6),
        "cancelled": await mail.aenqueue(7),
        "waiting": await mail.aenqueue(8),
    }
    store = app.internals.session.store
    await end(store, 2)
    await end(store, 1, error=ErrorInfo("KeyError", "a"))
    await end(store, 1, State.BROKEN)
    await end(store, 1, queue="r")
    await jobs["succeeded"].acomplete()
    await jobs["cancelled"].acancel()
    return jobs


async def waiting(app: App) -> set[str]:
    return {job.id for job in await app.ajobs(state="waiting")}


async def test_each_attempt_is_remembered_with_its_end(app: App, do: Do) -> None:
    tried: list[int] = []

    @app.task(retry=Backoff(initial=0.001), max_attempts=3)
    async def stumble() -> str:
        tried.append(1)
        match len(tried):
            case 1:
                raise ValueError("boom")
            case 2:
                raise Retry("not yet", after=0)
        return "at last"

    job = await do(stumble.enqueue)
    async with app.worker(poll=0.05, id="w1") as worker:
        assert await do(job.result, timeout=20) == "at last"

    first, second, third = await do(job.attempts)
    assert [each.number for each in (first, second, third)] == [1, 2, 3]
    assert [each.outcome for each in (first, second, third)] == [
        AttemptEnd.RETRIED,
        AttemptEnd.RETRIED,
        AttemptEnd.SUCCEEDED,
    ]
    assert (first.error and first.error.type, second.error and second.error.message) == ("ValueError", "not yet")
    assert "stumble" in ((first.error and first.error.traceback) or "")
    assert third.error is None
    assert {each.worker for each in (first, second, third)} == {first.worker}
    assert (first.worker or "").startswith("w1")
    assert worker.status == "stopped"
    assert all(each.ended_at is not None and each.started_at <= each.ended_at for each in (first, second, third))
    await do(job.delete)
    with pytest.raises(JobNotFound):
        await do(job.attempts)


async def test_an_attempt_that_runs_is_shown_and_one_that_was_lost_tells_how(app: App, one_way: Do) -> None:
    job = await one_way(app.remote("t", queue="q").enqueue)
    assert await one_way(job.attempts) == []
    store = app.internals.session.store
    await store.lease(LeaseRequest(queues=("q",), limit=1, worker="dead", ttl=60, nonce=new_nonce()))
    [running] = await one_way(job.attempts)
    await one_way(app.retire, "dead", "killed by SIGKILL")

    [lost] = await one_way(job.attempts)

    assert (running.outcome, running.worker, running.ended_at) == (None, "dead", None)
    assert (lost.outcome, lost.worker, lost.number) == (AttemptEnd.LOST, "dead", 1)
    assert "killed by SIGKILL" in ((lost.error and lost.error.message) or "")


async def test_an_operators_retry_keeps_the_history_and_counts_anew(app: App, one_way: Do) -> None:
    job = await one_way(app.remote("t", queue="q").enqueue)
    for why in ("once", "twice"):
        [held] = await one_way(app.lease, "q")
        await one_way(held.fail, why)
        await one_way(job.retry)

    attempts = await one_way(job.attempts)

    assert [(each.number, each.error and each.error.message) for each in attempts] == [(1, "once"), (1, "twice")]
    assert (await one_way(job.refresh)).record.attempt == 0


async def test_failed_and_broken_jobs_are_retried_by_what_they_have_in_common(app: App, one_way: Do) -> None:  # R50
    jobs = await some_ended(app)
    ids = {name: job.id for name, job in jobs.items()}

    assert await one_way(app.retry, queue="q", tag="red", state="failed") == 1
    assert await waiting(app) == {ids["waiting"], ids["red"]}
    assert await one_way(app.retry, error="KeyError") == 1
    assert await waiting(app) == {ids["waiting"], ids["red"], ids["news"]}
    assert await one_way(app.retry, task="mail") == 2
    assert await one_way(app.retry, state=State.BROKEN) == 1
    assert await one_way(app.retry, queue="q") == 0
    assert await one_way(app.retry, state="cancelled") == 1
    assert await waiting(app) == set(ids.values()) - {ids["succeeded"]}
    assert await one_way(app.retry) == 0


async def test_named_jobs_are_retried_and_the_others_left(app: App, one_way: Do) -> None:
    jobs = await some_ended(app)

    assert await one_way(app.retry, jobs["mail"], jobs["waiting"], jobs["broken"].id, new_id()) == 2
    assert await waiting(app) == {jobs[name].id for name in ("waiting", "mail", "broken")}


async def test_finished_jobs_are_deleted_by_what_they_have_in_common(app: App, one_way: Do) -> None:  # R50
    jobs = await some_ended(app)

    assert await one_way(app.delete, queue="q", task="news", state="failed") == 1
    assert await one_way(app.delete, tag="red") == 2
    assert await one_way(app.delete, error="ValueError") == 2
    assert await one_way(app.delete, state="succeeded") == 1

    assert {job.id for job in await app.ajobs()} == {jobs["waiting"].id, jobs["cancelled"].id}


async def test_what_others_wait_for_is_left_unless_they_go_too(app: App) -> None:
    store = app.internals.session.store
    remote = app.remote("t", queue="q")
    jobs = await remote.aenqueue_many([(n,) for n in range(7)])
    await remote.using(queue="r", after=[jobs[3]], if_blocker_fails="wait").aenqueue()
    await end(store, 7)

    assert await app.adelete(queue="q") == 6
    assert [job.id for job in await app.ajobs(state="failed")] == [jobs[3].id]
    with pytest.raises(HasDependents):
        await app.adelete(jobs[3])
    assert await app.adelete(queue="q", cascade=True) == 2


async def test_what_is_meant_is_said_in_one_way(no_store: App, do: Do) -> None:
    with pytest.raises(InvalidName):
        await do(no_store.retry, queue="no name")
    with pytest.raises(InvalidOption, match="no state"):
        await do(no_store.delete, state="lost")


@pytest.mark.parametrize("method", ["retry", "delete"])
async def test_what_cannot_be_meant_is_refused(app: App, one_way: Do, method: str) -> None:
    job = await one_way(app.remote("t", queue="q").enqueue)

    with pytest.raises(InvalidOption, match="either by themselves or by"):
        await one_way(getattr(app, method), job, queue="q")
    with pytest.raises(InvalidOption, match="has not ended"):
        await one_way(getattr(app, method), state="waiting")
    assert (await one_way(job.refresh)).state is State.WAITING


class Hasty:
    """A store in which some of those that are put back in line end again at once: as before, and in another state."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.steps: list[int] = []

    async def retry(self, ids: Sequence[str]) -> list[Verdict]:
        verdicts = await self._store.retry(ids)
        self.steps.append(len(ids))
        await end(self._store, 30)
        await end(self._store, 30, State.BROKEN)
        return verdicts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_thousands_are_retried_in_steps_and_what_ends_again_meanwhile_is_left(app: App) -> None:
    await app.remote("t", queue="q").aenqueue_many([(n,) for n in range(2100)])
    for number in (1000, 1000, 100):
        await end(app.internals.session.store, number)
    hasty = Hasty(app.internals.session.store)

    assert await retry(cast("Store", hasty), [], Search(queue="q")) == 2100

    assert (sum(hasty.steps), max(hasty.steps)) == (2100, 1000)
    [queue] = await app.aqueues()
    again = 30 * len(hasty.steps)
    assert (queue.waiting, queue.failed, queue.broken) == (2100 - 2 * again, again, again)


async def test_a_run_is_retried_and_deleted_by_the_step_that_it_ended_with(app: App) -> None:
    flow = app.flow("order")

    @flow.step(then="second", queue="q")
    async def first() -> None: ...

    @flow.step(queue="q")
    async def second() -> None: ...

    run = await flow.astart()
    [held] = await app.alease("q")
    await held.afinish()
    await end(app.internals.session.store, 1)

    assert await app.aretry(state="succeeded") == 0, "its first step has handed over"
    assert await app.aretry(task=second) == 1
    assert (await run.arefresh()).state is State.WAITING
    await end(app.internals.session.store, 1)
    assert await app.adelete(state="failed") == 2
    with pytest.raises(JobNotFound):
        await run.arefresh()


async def test_jobs_that_are_retried_where_jobs_run_at_once_do_so(no_store: App) -> None:
    tried: list[int] = []

    @no_store.task(retry=None)
    async def stumble() -> int:
        tried.append(1)
        if len(tried) < 3:
            raise Fail("no")
        return len(tried)

    async with no_store.inline(raises=False):
        job = await stumble.aenqueue()
        assert await no_store.aretry(job) == 1
        assert job.state is State.FAILED
        assert await no_store.aretry(state="failed") == 1
        assert await (await job.arefresh()).aresult() == 3


async def test_a_broken_job_runs_with_its_bytes_as_they_were_once_its_task_is_mended(
    app: App, one_way: Do
) -> None:  # H14
    payload = b'\xff{"not": json'

    @app.task(name="parse", queue="q")
    async def strict(number: int) -> int:
        return number

    stored = NewJob(id=new_id(), task="parse", queue="q", payload=payload, raw=True)
    await app.internals.session.store.enqueue([stored])
    job = await one_way(app.job, stored.id)
    async with app.worker(poll=0.05):
        with pytest.raises(JobBroken, match="has raw bytes"):
            await one_way(job.result, timeout=20)

    mended = App(app.url)

    @mended.task(name="parse", queue="q", raw=True)
    async def lenient(data: bytes) -> int:
        assert data == payload
        return len(data)

    async with mended.worker(poll=0.05):
        assert await one_way(mended.retry, state="broken") == 1
        assert await one_way((await one_way(mended.job, stored.id)).result, timeout=20) == len(payload)
    await mended.aclose()
