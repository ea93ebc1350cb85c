"""Looking at jobs, queues and workers, and acting on them."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, cast

import pytest

from tenure import App, State
from tenure.core.job import NewJob, new_id
from tenure.core.lease import new_nonce
from tenure.errors import HasDependents, InvalidName, InvalidOption
from tenure.jobs.bulk import cancel_found
from tenure.jobs.by_hand import Held
from tenure.stores.base import Store
from tenure.stores.values import LeaseRequest, Page, Search, Totals, Verdict, WorkerInfo
from tenure.tasks.task import Task

from .conftest import Do


def make_add(app: App) -> Task[[int], int]:
    @app.task
    def add(a: int) -> int:
        return a + 1

    return add


async def fill(app: App) -> None:
    """One job in each place where an operator looks."""
    remote = app.remote("t", queue="q")
    _, _, cancelled, failed = await remote.aenqueue_many([(1,), (2,), (3,), (4,)])
    await app.remote("u", queue="r").using(tags=["red"]).aenqueue(5)
    await cancelled.acancel()
    held = await app.alease("q", limit=3)
    for each in held:
        if each.job.id == failed.id:
            await each.afail("no")
        else:
            await each.arelease()


async def test_a_job_is_found_by_its_id(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)

    found = await do(app.job, job.id)

    assert (found.id, found.task, found.queue, found.state) == (job.id, "add", "default", State.WAITING)
    assert found.record is not None


async def test_jobs_are_listed_by_state_queue_task_and_tag(app: App, do: Do) -> None:
    await fill(app)

    async def count(**filters: object) -> int:
        return len(await do(app.jobs, **filters))

    assert await count() == 5
    assert await count(state="waiting") == 3
    assert await count(state=State.FAILED) == 1
    assert await count(queue="q") == 4
    assert await count(queue="q", state="cancelled") == 1
    assert await count(task="u") == 1
    assert await count(tag="red") == 1
    assert await count(tag="blue") == 0
    assert await count(limit=2) == 2


async def test_a_task_may_be_named_by_itself(app: App, do: Do) -> None:
    add = make_add(app)
    await do(add.enqueue, 1)

    assert [job.task for job in await do(app.jobs, task=add)] == ["add"]


async def test_pages_follow_each_other_without_gap_or_overlap(app: App, do: Do) -> None:
    jobs = await do(make_add(app).enqueue_many, [(n,) for n in range(25)])

    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = await do(app.jobs, limit=10, cursor=cursor)
        seen += [job.id for job in page]
        cursor, pages = page.cursor, pages + 1

    assert seen == [job.id for job in reversed(jobs)]


@pytest.mark.parametrize("filters", [{"state": "lost"}, {"limit": 0}, {"limit": 1001}])
async def test_a_listing_that_makes_no_sense_is_refused_before_any_io(
    no_store: App, do: Do, filters: dict[str, object]
) -> None:
    with pytest.raises(InvalidOption):
        await do(no_store.jobs, **filters)


@pytest.mark.parametrize("name", ["a b", "a\n", "", "ä"])
@pytest.mark.parametrize("method", ["pause", "resume", "purge", "retire", "lease"])
async def test_a_name_that_no_store_accepts_is_refused_before_any_io(
    no_store: App, do: Do, method: str, name: str
) -> None:
    with pytest.raises(InvalidName):
        await do(getattr(no_store, method), name)


@pytest.mark.parametrize("kind", ["queue", "task", "tag"])
async def test_a_listing_by_such_a_name_is_refused_too(no_store: App, do: Do, kind: str) -> None:
    with pytest.raises(InvalidName, match=kind):
        await do(no_store.jobs, **{kind: "a b"})


async def test_queues_tell_their_counts(app: App, do: Do) -> None:
    await fill(app)

    queues = {queue.name: queue for queue in await do(app.queues)}

    assert list(queues) == ["q", "r"]
    assert (queues["q"].waiting, queues["q"].cancelled, queues["q"].failed, queues["r"].waiting) == (2, 1, 1, 1)


async def test_stats_add_up_over_queues_and_survive_deletion(app: App, do: Do) -> None:  # T20
    await fill(app)
    [held] = await do(app.lease, "r")
    await do(held.retry, after=0)
    await do(app.delete, *[job.id for job in await do(app.jobs)])

    stats = await do(app.stats)

    assert stats.totals == Totals(processed=2, failed=1, retried=1, cancelled=1)
    assert stats.queues["q"] == Totals(processed=1, failed=1, cancelled=1)
    assert stats.queues["r"] == Totals(processed=1, retried=1)


async def test_stats_are_kept_for_each_worker(app: App, do: Do) -> None:  # T20
    add = make_add(app)
    async with app.worker(poll=0.05, id="w1"):
        jobs = await do(add.enqueue_many, [(1,), (2,)])
        for job in jobs:
            await do(job.result, timeout=20)
        stats = await do(app.stats)
        [worker] = await do(app.workers)

    [(worker_id, totals)] = stats.workers.items()
    assert worker_id == worker.id
    assert worker_id.startswith("w1")
    assert (totals.processed, totals.succeeded, worker.totals) == (2, 2, totals)


async def test_an_empty_store_has_empty_stats(app: App, do: Do) -> None:
    assert (await do(app.stats)).totals == Totals()
    assert (await do(app.queues), await do(app.workers), await do(app.jobs)) == ([], [], [])


async def test_several_jobs_are_cancelled_at_once(app: App, do: Do) -> None:
    jobs = await do(make_add(app).enqueue_many, [(1,), (2,), (3,)])
    await do(jobs[2].cancel)

    assert await do(app.cancel, jobs[0], jobs[1].id, jobs[2], new_id()) == 2
    assert await do(app.cancel) == 0
    assert len(await do(app.jobs, state="cancelled")) == 3


async def test_a_bound_call_cancels_every_unfinished_job_with_equal_arguments(app: App, do: Do) -> None:  # W18, T14
    @app.task
    def send(user: int, lang: str = "en") -> None: ...

    running = await do(send.enqueue, 1, "de")
    await do(app.lease, "default")
    equal = [
        await do(send.enqueue, 1, lang="de"),
        await do(send.using(queue="other", delay=60).enqueue, lang="de", user=1),
        await do(App(app.url).remote("send").enqueue, 1, "de"),
    ]
    others = [
        await do(send.enqueue, 2, "de"),
        await do(send.enqueue, 1),
        await do(app.remote("resend").enqueue, 1, "de"),
        await do(app.remote("send").enqueue, "undecodable"),
    ]
    finished = await do(send.enqueue, 1, "de")
    await do(finished.complete)

    assert await do(app.cancel, send.bind(1, "de")) == 4

    assert {(await do(job.refresh)).state for job in (running, *equal)} == {State.CANCELLED}
    assert {(await do(job.refresh)).state for job in others} == {State.WAITING}
    assert (await do(finished.refresh)).state is State.SUCCEEDED


async def test_a_bound_call_with_a_queue_cancels_in_that_queue_alone(app: App, do: Do) -> None:  # W18
    @app.task(queue="Q1")
    def send(user: int) -> None: ...

    told: list[tuple[tuple[Any, ...], int]] = []
    answers = iter([False, None])
    app.before_dequeue(lambda call: next(answers))
    app.after_dequeue(lambda call, count: told.append((call.args, count)))
    there = [await do(send.enqueue, 1), await do(send.enqueue, 1)]
    others = [await do(send.using(queue="Q2").enqueue, 1), await do(send.enqueue, 2)]

    assert await do(app.cancel, send.bind(1), queue="Q1") == 0  # vetoed
    assert await do(app.cancel, send.bind(1), queue="Q1") == 2

    assert {(await do(job.refresh)).state for job in there} == {State.CANCELLED}
    assert {(await do(job.refresh)).state for job in others} == {State.WAITING}
    assert told == [((1,), 2)]
    for more in ({"tag": "red"}, {"task": "send"}, {"state": "waiting"}):
        with pytest.raises(InvalidOption, match="only a bound call can be combined with one of these, the queue"):
            await do(app.cancel, send.bind(1), queue="Q1", **more)
    with pytest.raises(InvalidOption, match="either"):
        await do(app.cancel, send.bind(1), others[0], queue="Q1")
    assert {(await do(job.refresh)).state for job in others} == {State.WAITING}


async def test_more_equal_jobs_than_fit_on_a_page_are_all_cancelled(app: App) -> None:
    add = make_add(app)
    await add.aenqueue_many([(n % 2,) for n in range(4100)])

    assert await app.acancel(add.bind(1)) == 2050
    assert [(queue.waiting, queue.cancelled) for queue in await app.aqueues()] == [(2050, 2050)]


async def test_jobs_are_cancelled_by_queue_task_tag_and_state(app: App, do: Do) -> None:  # W18, T14
    mail, news = app.remote("mail", queue="q"), app.remote("news", queue="q")
    running = await do(mail.enqueue, 0)
    await do(app.lease, "q")
    later = await do(mail.using(delay=60).enqueue, 1)
    blocked = NewJob(id=new_id(), task="news", queue="q", after=(running.id,))
    await app.internals.session.store.enqueue([blocked])
    await do(news.using(tags=["red", "blue"]).enqueue, 2)
    await do(news.using(tags=["red"], queue="r").enqueue, 3)
    elsewhere = await do(mail.using(queue="r").enqueue, 4)

    assert await do(app.cancel, queue="q", state="blocked") == 1
    assert await do(app.cancel, tag="red", queue="r") == 1
    assert await do(app.cancel, tag="red", task="mail") == 0
    assert await do(app.cancel, task="mail", state=State.RUNNING) == 1
    assert await do(app.cancel, queue="q") == 2
    assert await do(app.cancel, queue="q") == 0
    assert (await do(later.refresh)).state is State.CANCELLED
    assert [job.id for job in await do(app.jobs, state="waiting")] == [elsewhere.id]
    assert await do(app.cancel, task=make_add(app)) == 0


async def test_what_to_cancel_is_said_in_one_way(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)

    with pytest.raises(InvalidOption, match="either"):
        await do(app.cancel, job, queue="q")
    with pytest.raises(InvalidOption, match="has ended"):
        await do(app.cancel, state="failed")
    with pytest.raises(InvalidOption, match="no state"):
        await do(app.cancel, state="sleeping")
    with pytest.raises(InvalidName):
        await do(app.cancel, queue="no name")
    assert (await do(job.refresh)).state is State.WAITING


class Restless:
    """A store in which a held job goes back in line just after the held ones were looked at."""

    def __init__(self, store: Store, held: list[Held]) -> None:
        self._store = store
        self._held = held
        self.steps: list[int] = []

    async def search(self, wanted: Search) -> Page:
        found = await self._store.search(wanted)
        if wanted.state is State.RUNNING and self._held:
            await self._held.pop().arelease()
        return found

    async def cancel(self, ids: Sequence[str]) -> list[Verdict]:
        self.steps.append(len(ids))
        return await self._store.cancel(ids)


async def test_thousands_of_jobs_are_cancelled_in_steps_whatever_becomes_of_them_meanwhile(app: App) -> None:
    await make_add(app).aenqueue_many([(n,) for n in range(2200)])
    restless = Restless(app.internals.session.store, await app.alease("default", limit=200))

    assert await cancel_found(cast("Store", restless), Search(task="add")) == 2200

    assert max(restless.steps) <= 1000
    assert [(queue.waiting, queue.running, queue.cancelled) for queue in await app.aqueues()] == [(0, 0, 2200)]


async def test_raw_payloads_are_cancelled_by_their_bytes(app: App) -> None:  # W18
    blob = app.remote("blob", raw=True)
    await blob.aenqueue(b"\0")
    await blob.aenqueue(b"\1")

    assert await app.acancel(blob.bind(b"\0")) == 1


async def test_jobs_are_deleted_in_bulk(app: App, do: Do) -> None:
    jobs = await do(make_add(app).enqueue_many, [(n,) for n in range(1500)])

    assert await do(app.delete, *jobs[:1200], new_id(), jobs[1200].id) == 1201
    assert await do(app.delete) == 0
    assert [queue.waiting for queue in await do(app.queues)] == [299]


async def test_a_job_that_others_wait_for_is_deleted_only_with_them(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)
    dependent = NewJob(id=new_id(), task="add", queue="default", after=(job.id,))
    await app.internals.session.store.enqueue([dependent])

    with pytest.raises(HasDependents):
        await do(app.delete, job)
    with pytest.raises(HasDependents):
        await do(job.delete)
    assert await do(app.delete, job, cascade=True) == 2


async def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(app: App, do: Do) -> None:
    await do(make_add(app).enqueue, 1)

    assert await do(app.pause, "default") is True
    assert await do(app.pause, "default") is False
    assert await do(app.lease, "default") == []
    assert await do(app.resume, "default") is True
    assert await do(app.resume, "default") is False
    assert len(await do(app.lease, "default")) == 1


async def test_purge_deletes_what_has_not_started(app: App, do: Do) -> None:  # W33
    add = make_add(app)
    await do(add.enqueue_many, [(n,) for n in range(1100)])
    await do(add.using(delay=60).enqueue, 1)
    await do(app.lease, "default")

    assert await do(app.purge, "default") == 1100
    assert [(queue.waiting, queue.scheduled, queue.running) for queue in await do(app.queues)] == [(0, 0, 1)]
    assert await do(app.purge, "never-used") == 0


async def test_a_retired_worker_loses_its_jobs_at_once(app: App, do: Do) -> None:  # W29
    store = app.internals.session.store
    await do(make_add(app).enqueue_many, [(1,), (2,)])
    dead = WorkerInfo(id="dead:1", host=socket.gethostname(), pid=1, queues=("*",), tasks=(), concurrency=2)
    await store.register(dead)
    await store.lease(LeaseRequest(queues=("default",), limit=2, worker="dead:1", ttl=600, nonce=new_nonce()))

    reaped = await do(app.retire, "dead:1", "killed by SIGKILL")

    assert [(each.losses, each.worker, each.failed) for each in reaped] == [(1, "dead:1", False)] * 2
    errors = {job.error and job.error.message for job in await do(app.jobs, state="waiting")}
    assert errors == {"its worker was retired (killed by SIGKILL), 1 time(s) in all"}
    assert (await do(app.workers), await do(app.retire, "dead:1")) == ([], [])
    assert len(await do(app.lease, "default", limit=2)) == 2
