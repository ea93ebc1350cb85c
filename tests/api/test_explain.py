"""Why a job does not run, asked of every store."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import App, FlowRun, Job, State
from tenure.core.job import new_id
from tenure.core.lease import Lease, new_nonce
from tenure.core.lifecycle import Park
from tenure.core.reasons import (
    AttemptsUsedUp,
    AwaitsCompletion,
    BlockedBy,
    Blocker,
    Broken,
    Expired,
    Failed,
    Finished,
    HandedOver,
    Held,
    HolderMissing,
    InLine,
    LossesUsedUp,
    NotFound,
    NoWorker,
    Orphaned,
    Paused,
    Reason,
    Scheduled,
    Suspect,
    TaskUnknown,
    WorkersInTrouble,
)
from tenure.stores.values import LeaseRequest, WorkerInfo

from .conftest import Do, Timed


async def a_worker(app: App, id_: str = "w", **fields: Any) -> str:
    """Enter a worker in the registry, whoever it is."""
    told = {"queues": ("*",), "tasks": ("t",), "lanes": ("loop",), **fields}
    await app.internals.session.store.register(WorkerInfo(id=id_, host="h", pid=1, concurrency=1, **told))
    return id_


async def taken(app: App, worker: str, ttl: float = 60.0, **fields: Any) -> Lease:
    """Have this worker lease the first job in line."""
    request = LeaseRequest(queues=("q",), limit=1, worker=worker, ttl=ttl, nonce=new_nonce(), **fields)
    [lease] = (await app.internals.session.store.lease(request)).leases
    return lease


async def why(app: App, job: Job[Any] | FlowRun | str) -> list[Reason]:
    return list((await app.aexplain(job)).reasons)


async def test_the_state_is_told_in_one_sentence(app: App, do: Do) -> None:
    job = await do(app.remote("t", queue="q").enqueue)
    await do(app.pause, "q")

    found = await do(app.explain, job)

    assert (found.id, found.task, found.queue, found.state) == (job.id, "t", "q", State.WAITING)
    assert found.summary == f"Job {job.id} of task t is waiting in queue q."
    assert str(found).splitlines()[:2] == [found.summary, "- queue q is paused. tenure resume q"]
    assert await do(app.explain, job.id) == found


async def test_whoever_waits_in_line_is_told_behind_how_many(app: App) -> None:
    await a_worker(app)
    remote = app.remote("t", queue="q")
    first, *_, last = await remote.aenqueue_many([(n,) for n in range(102)])
    urgent = await remote.using(priority=-1).aenqueue()

    assert await why(app, urgent) == [InLine(0, -1, False, ("w",))]
    assert await why(app, first) == [InLine(1, 0, False, ("w",))]
    assert await why(app, last) == [InLine(100, 0, True, ("w",))]


async def test_a_paused_queue_and_one_that_nobody_serves(app: App) -> None:
    job = await app.remote("t", queue="q").aenqueue()
    await app.apause("q")
    await a_worker(app, queues=("r", "s*"))

    assert await why(app, job) == [Paused("q"), NoWorker("q", ()), InLine(0, 0, False, ())]


async def test_a_worker_that_cannot_be_heard_does_not_serve_a_queue(timed: Timed) -> None:
    await a_worker(timed.app)
    job = await timed.app.remote("t", queue="q").aenqueue()
    timed.clock.advance(11)

    assert await why(timed.app, job) == [NoWorker("q", ("w",)), InLine(0, 0, False, ())]


async def test_nobody_who_serves_the_queue_knows_the_task(app: App) -> None:
    job = await app.remote("t", queue="q").aenqueue()
    await a_worker(app, tasks=("u",))
    await a_worker(app, "elsewhere", queues=("r",))

    assert await why(app, job) == [TaskUnknown("t", "q", ("w",)), InLine(0, 0, False, ())]

    await a_worker(app, "other")
    [reason] = await why(app, job)
    assert reason == InLine(0, 0, False, ("other",), ("w",))
    assert "only other can run it, w does not know its task" in reason.advice


async def test_whoever_could_run_it_is_in_trouble(app: App) -> None:
    job = await app.remote("t", queue="q").aenqueue()
    await a_worker(app, trouble="it is paused")

    assert await why(app, job) == [WorkersInTrouble({"w": "it is paused"}), InLine(0, 0, False, ("w",))]


async def test_a_scheduled_job_and_one_that_is_tried_again(app: App) -> None:
    await a_worker(app)
    remote = app.remote("t", queue="q")
    later = await remote.using(delay=3600).aenqueue()
    tried = await remote.aenqueue()
    [held] = await app.alease("q")
    await held.aretry("busy", after=7200)

    [first], [second] = await why(app, later), await why(app, tried)

    assert isinstance(first, Scheduled)
    assert (3500 < first.left <= 3601, first.attempt, first.error) == (True, 0, None)
    assert isinstance(second, Scheduled)
    assert (7100 < second.left <= 7201, second.attempt, second.error and second.error.message) == (True, 1, "busy")


async def test_a_job_that_waits_for_others_names_them_and_their_states(app: App) -> None:
    remote = app.remote("t", queue="q")
    first, second = await remote.aenqueue_many([(1,), (2,)])
    await app.alease("q")
    job = await remote.using(after=[first, second]).aenqueue()

    told = BlockedBy((Blocker(first.id, "t", "q", State.RUNNING), Blocker(second.id, "t", "q", State.WAITING)), 0)
    assert await why(app, job) == [told]

    crowd = await remote.aenqueue_many([(n,) for n in range(12)])
    [many] = await why(app, await remote.using(after=crowd).aenqueue())
    assert isinstance(many, BlockedBy)
    assert ([each.id for each in many.blockers], many.more) == ([each.id for each in crowd[:10]], 2)


async def test_a_job_that_waits_to_be_completed(app: App) -> None:
    job = await app.remote("t", queue="q").aenqueue()
    lease = await taken(app, await a_worker(app))
    await app.internals.session.store.settle([(lease, Park())])

    assert await why(app, job) == [AwaitsCompletion(job.id)]


async def test_a_running_job_is_held_by_its_worker(app: App) -> None:
    job = await app.remote("t", queue="q").aenqueue()
    await taken(app, await a_worker(app))

    [held] = await why(app, job)

    assert isinstance(held, Held)
    assert (held.worker, 50 < held.left <= 60) == ("w", True)


async def test_the_holder_of_a_job_is_missing_or_unknown(timed: Timed) -> None:
    job = await timed.app.remote("t", queue="q").aenqueue()
    await taken(timed.app, await a_worker(timed.app))
    timed.clock.advance(20)

    assert await why(timed.app, job) == [HolderMissing("w", 40, 20)]

    await timed.app.internals.session.store.leave("w")
    assert await why(timed.app, job) == [HolderMissing("w", 40, None)]


async def test_a_lease_has_ended_and_nobody_reaps(timed: Timed) -> None:
    job = await timed.app.remote("t", queue="q").aenqueue()
    await taken(timed.app, await a_worker(timed.app))
    timed.clock.advance(65)

    assert await why(timed.app, job) == [Orphaned("q", "w", 5, ())]

    await a_worker(timed.app, "v")
    assert await why(timed.app, job) == [Orphaned("q", "w", 5, ("v",))]


async def test_a_suspect_waits_to_run_alone_and_fails_when_its_losses_are_used_up(app: App) -> None:
    job = await app.remote("t", queue="q").aenqueue()
    for loss in range(3):
        await taken(app, await a_worker(app), solo=loss == 2)
        await app.aretire("w")
        if loss == 1:
            await a_worker(app, "v")
            assert await why(app, job) == [Suspect(2, 3), InLine(0, 0, False, ("v",))]

    [used_up] = await why(app, job)
    assert isinstance(used_up, LossesUsedUp)
    assert (used_up.losses, used_up.limit, used_up.error and used_up.error.type) == (3, 3, "Lost")


@pytest.mark.parametrize("knows", [True, False])
async def test_the_attempts_are_used_up(app: App, knows: bool) -> None:
    if knows:

        @app.task(name="t", queue="q", max_attempts=1)
        def task() -> None: ...

    remote = app.remote("t", queue="q")
    job = await (remote if knows else remote.using(max_attempts=1)).aenqueue()
    [held] = await app.alease("q")
    await held.aretry("once more", after=0)

    [used_up] = await why(app, job)

    assert isinstance(used_up, AttemptsUsedUp)
    assert (used_up.attempts, used_up.limit, used_up.error and used_up.error.message) == (1, 1, "once more")


async def test_a_job_that_failed_at_once(app: App) -> None:
    job = await app.remote("t", queue="q").aenqueue()
    [held] = await app.alease("q")
    await held.afail("never again")

    [failed] = await why(app, job)

    assert isinstance(failed, Failed)
    assert (failed.attempt, failed.error and failed.error.message) == (1, "never again")


async def test_a_job_that_has_expired(timed: Timed) -> None:
    job = await timed.app.remote("t", queue="q").using(expires=5).aenqueue()
    timed.clock.advance(6)

    [expired, *_] = await why(timed.app, job)
    assert isinstance(expired, Expired)
    assert not expired.cancelled

    assert await timed.app.alease("q") == []
    [expired] = await why(timed.app, job)
    assert isinstance(expired, Expired)
    assert expired.cancelled


async def test_a_job_that_is_broken(app: App) -> None:
    @app.task(name="t", queue="q")
    async def task(number: int) -> None: ...

    job = await app.remote("t", queue="q").aenqueue("none")
    async with app.worker(poll=0.05):
        with pytest.raises(Exception, match="number"):
            await job.aresult(timeout=20)

    [broken] = await why(app, job)
    assert isinstance(broken, Broken)
    assert broken.error is not None
    assert broken.error.type == "PayloadError"


async def test_a_finished_job(app: App) -> None:
    done, cancelled = await app.remote("t", queue="q").aenqueue_many([(1,), (2,)])
    await done.acomplete()
    await cancelled.acancel()

    [[first], [second]] = [await why(app, done), await why(app, cancelled)]

    assert (await app.aexplain(done)).summary == f"Job {done.id} of task t has succeeded in queue q."
    assert isinstance(first, Finished)
    assert isinstance(second, Finished)
    assert (first.state, second.state) == (State.SUCCEEDED, State.CANCELLED)


async def test_an_id_that_no_job_has_may_lie_in_an_inbox_that_nobody_empties(app: App) -> None:
    await app.remote("t", queue="q").aenqueue()
    await app.remote("t", queue="r").aenqueue()
    await a_worker(app, queues=("r",))
    stranger = new_id()

    found = await app.aexplain(stranger)

    assert (found.id, found.state, found.reasons) == (stranger, None, (NotFound(stranger, ("q",)),))


async def test_the_id_of_a_run_means_its_current_step(app: App) -> None:
    flow = app.flow("order")

    @flow.step(then="second", queue="q")
    async def first() -> None: ...

    @flow.step(queue="q")
    async def second() -> None: ...

    run = await flow.astart()
    waiter = await app.remote("t", queue="z").using(after=[run]).aenqueue()
    [held] = await app.alease("q")
    await held.afinish()
    [_, step] = await run.asteps()
    await a_worker(app, tasks=("order.second",))

    found = await app.aexplain(run)

    assert (found.id, found.task, found.reasons) == (step.id, "order.second", (InLine(0, 0, False, ("w",)),))
    assert await why(app, waiter) == [BlockedBy((Blocker(run.id, "order.second", "q", State.WAITING),), 0)]

    [held] = await app.alease("q")
    await held.afinish()
    assert [type(each) for each in await why(app, run)] == [Finished]


async def test_a_step_that_has_handed_over(app: App) -> None:
    flow = app.flow("order")

    @flow.step(then="second", queue="q")
    async def first() -> None: ...

    @flow.step(then="third", queue="q")
    async def second() -> None: ...

    @flow.step(queue="q")
    async def third() -> None: ...

    run = await flow.astart()
    for _ in range(2):
        [held] = await app.alease("q")
        await held.afinish()
    _, middle, last = await run.asteps()

    assert await why(app, middle.id) == [HandedOver(run.id, last.id)]
