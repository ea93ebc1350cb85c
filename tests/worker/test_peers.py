"""Workers that know only some tasks of a queue leave the others to workers that know those."""

from __future__ import annotations

import asyncio

import pytest

from tenure.app import App
from tenure.core.job import State
from tenure.stores.base import Store
from tenure.stores.values import LeaseRequest, WorkerInfo
from tenure.worker import peers

from .conftest import MakeApp, Start, Wire, eventually, record_of, whatever_the_store

NEVER = 60.0
"""Seconds between polls of a worker that is woken, or else fails its test."""


def an_app(make_app: MakeApp, *names: str, **options: object) -> App:
    """An app whose code has these tasks only; each gives its name."""
    app = make_app(**options)
    for name in names:

        async def function(name: str = name) -> str:
            return name

        app.task(name=name)(function)
    return app


def a_worker(*tasks: str, **changes: object) -> WorkerInfo:
    usual: dict[str, object] = {"queues": ("*",), "concurrency": 1, "lanes": ("loop",), "host": "h", "pid": 1}
    return WorkerInfo(id="elsewhere", tasks=tasks, **usual | changes)  # type: ignore[arg-type]


async def test_each_job_goes_to_a_worker_that_knows_its_task(
    make_app: MakeApp, store: Store, start: Start
) -> None:  # Q12
    mail, pdf = an_app(make_app, "mail"), an_app(make_app, "pdf")
    for app in (mail, pdf):
        await start(app, concurrency=2)
    await eventually(lambda: _are_registered(store, 2))
    calls = [app.remote(name) for app, name in [(mail, "mail"), (pdf, "pdf")] * 10]
    jobs = [await call.aenqueue() for call in calls]

    assert [await job.aresult(timeout=8) for job in jobs] == ["mail", "pdf"] * 10
    for job in jobs:
        found = await record_of(store, job.id)
        assert (found.attempt, found.misses, found.error) == (1, 0, None)


async def _are_registered(store: Store, number: int) -> bool:
    return len(await store.workers()) == number


async def test_tasks_that_a_worker_is_not_to_run_stay_in_line_for_one_that_does(
    make_app: MakeApp, store: Store, start: Start
) -> None:
    app = an_app(make_app, "mail", "pdf")
    first = await app.remote("pdf").aenqueue()
    mails = [await app.remote("mail").aenqueue() for _ in range(3)]
    before = await record_of(store, first.id)

    await start(app, tasks=["mail"])
    for mail in mails:
        await mail.aresult(timeout=8)
    assert await record_of(store, first.id) == before
    assert before.state is State.WAITING

    await start(app, tasks=["pdf"])
    assert await first.aresult(timeout=8) == "pdf"


@pytest.mark.parametrize("known", ["by their code", "by tasks="])
async def test_an_idle_worker_is_woken_for_a_job_that_another_one_has_passed_over(
    make_app: MakeApp, store: Store, start: Start, known: str
) -> None:
    if known == "by their code":
        for _ in range(2):
            await start(an_app(make_app, "mail"), poll=NEVER)
        await start(an_app(make_app, "pdf"), poll=NEVER)
    else:
        app = an_app(make_app, "mail", "pdf")
        for task in ("mail", "mail", "pdf"):
            await start(app, tasks=[task], poll=NEVER)
    await eventually(lambda: _are_registered(store, 3))
    producer = make_app()

    for name in ("pdf", "pdf", "mail", "pdf", "mail", "pdf", "pdf", "pdf"):
        job = await producer.remote(name).aenqueue()
        assert await job.aresult(timeout=8) == name


async def test_a_worker_does_not_ask_again_and_again_for_what_it_leaves_to_others(
    make_app: MakeApp, wire: Wire, start: Start
) -> None:
    app = an_app(make_app, "mail", "pdf", store=wire.open)
    for _ in range(5):
        await app.remote("pdf").aenqueue()
    await start(app, tasks=["mail"], poll=NEVER)
    await eventually(lambda: wire.calls["wait_for_work"])

    before = len(wire.calls["settle_and_lease"])
    await asyncio.sleep(0.5)
    assert len(wire.calls["settle_and_lease"]) - before <= 10  # one for each marker that is left, at most

    # And it is woken for its own meanwhile.
    job = await app.remote("mail").aenqueue()
    assert await job.aresult(timeout=8) == "mail"


async def test_a_task_that_no_live_worker_knows_any_more_is_unknown(
    make_app: MakeApp, store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "REGISTRY_MAX_AGE", 0.1)
    await store.register(a_worker("pdf"))
    mail = an_app(make_app, "mail")
    worker = await start(mail, poll=0.1)
    job = await mail.remote("pdf").aenqueue()
    await eventually(lambda: worker._loop.peers.skipped == ("pdf",))
    found = await record_of(store, job.id)
    assert (found.misses, found.error, found.run_at) == (0, None, None)

    await store.leave("elsewhere")

    await eventually(lambda: _is_missed(store, job.id))
    assert worker._loop.peers.skipped == ()
    error = (await record_of(store, job.id)).error
    assert error is not None
    assert error.type == "UnknownTask"


async def _is_missed(store: Store, job_id: str) -> bool:
    return (await record_of(store, job_id)).misses > 0


@whatever_the_store
@pytest.mark.parametrize("other", [a_worker("pdf", queues=("other",)), a_worker("csv")], ids=["queue", "task"])
async def test_a_worker_that_cannot_run_it_is_no_reason_to_leave_a_job(
    make_app: MakeApp, store: Store, start: Start, other: WorkerInfo
) -> None:
    await store.register(other)
    mail = an_app(make_app, "mail")
    await start(mail)
    job = await mail.remote("pdf").aenqueue()
    await eventually(lambda: _is_missed(store, job.id))


async def test_until_empty_ends_although_jobs_of_others_are_in_line(make_app: MakeApp, store: Store) -> None:
    app = an_app(make_app, "mail", "pdf")
    mail, pdf = [await app.remote(name).aenqueue() for name in ("mail", "pdf")]

    worker = app.worker(tasks=["mail"])
    async with asyncio.timeout(20):
        await asyncio.to_thread(worker.run, until_empty=True)

    assert (await record_of(store, mail.id)).state is State.SUCCEEDED
    assert (await record_of(store, pdf.id)).state is State.WAITING


async def test_a_suspect_of_another_task_is_left_to_others(make_app: MakeApp, store: Store, start: Start) -> None:
    app = an_app(make_app, "mail", "pdf")
    suspect = await app.remote("pdf").aenqueue()
    for nonce in (1, 2):
        request = LeaseRequest(queues=("default",), limit=1, worker="dead", ttl=60, nonce=nonce)
        [_] = (await store.lease(request)).leases
        await store.retire("dead")
    mails = [await app.remote("mail").aenqueue() for _ in range(3)]

    await start(app, tasks=["mail"])

    for mail in mails:
        await mail.aresult(timeout=8)
    found = await record_of(store, suspect.id)
    assert (found.state, found.losses, found.fence) == (State.WAITING, 2, 2)
    await start(app, tasks=["pdf"])
    assert await suspect.aresult(timeout=8) == "pdf"
