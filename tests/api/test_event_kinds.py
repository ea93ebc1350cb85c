"""Everything that can happen is an event, on every store: each kind is shown to happen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tenure import events
from tenure.core.job import State
from tenure.core.lifecycle import Finish, Park, Requeue
from tenure.core.schedule import Overlap
from tenure.events import Event
from tenure.stores.values import Change, Renewal
from tenure.testing.conformance.scene import a_worker, ask, lease_one, settle

from .conftest import Timed
from .stage import BOOM, Heard, Stage

Scene = Callable[[Stage], Awaitable[object]]
SCENES: dict[type[Event], Scene] = {}


def scene(kind: type[Event]) -> Callable[[Scene], Scene]:
    def add(play: Scene) -> Scene:
        SCENES[kind] = play
        return play

    return add


# The rows of the table of transitions, in its order: a job's life.


@scene(events.Enqueued)
async def _(stage: Stage) -> object:
    return await stage.enqueue()


@scene(events.Leased)
async def _(stage: Stage) -> object:
    return (await stage.leased()).job.id


@scene(events.Renewed)
async def _(stage: Stage) -> object:
    held = await stage.leased()
    await stage.store.renew([Renewal(held, 60.0)])
    return held.job.id


@scene(events.Succeeded)
async def _(stage: Stage) -> object:
    return await stage.settled(Finish(State.SUCCEEDED, "42"))


@scene(events.Retried)
async def _(stage: Stage) -> object:
    return await stage.settled(Requeue(5.0, error=BOOM))


@scene(events.Rescheduled)
async def _(stage: Stage) -> object:
    return await stage.settled(Requeue(5.0, counts=False))


@scene(events.Parked)
async def _(stage: Stage) -> object:
    return await stage.settled(Park(60.0))


@scene(events.Failed)
async def _(stage: Stage) -> object:
    return await stage.settled(Finish(State.FAILED, error=BOOM))


@scene(events.Reoffered)
async def _(stage: Stage) -> object:
    return await stage.settled(Requeue(10.0, counts=False, missed=True, error=BOOM))


@scene(events.Broken)
async def _(stage: Stage) -> object:
    return await stage.settled(Finish(State.BROKEN, error=BOOM))


@scene(events.Released)
async def _(stage: Stage) -> object:
    return await stage.settled(Requeue(counts=False, front=True))


@scene(events.Lost)
async def _(stage: Stage) -> object:
    held = await stage.leased()
    stage.clock.advance(31)
    await stage.store.reap([stage.queue])
    return held.job.id


@scene(events.Unblocked)
async def _(stage: Stage) -> object:
    blocker = await stage.enqueue()
    waiting = await stage.enqueue(after=(blocker,))
    await settle(stage.store, await lease_one(stage.store, stage.queue), Finish(State.SUCCEEDED))
    return waiting


@scene(events.Triggered)
async def _(stage: Stage) -> object:
    job_id = await stage.enqueue(delay=60.0)
    await stage.store.trigger([job_id])
    return job_id


@scene(events.Cancelled)
async def _(stage: Stage) -> object:
    job_id = await stage.enqueue()
    await stage.store.cancel([job_id])
    return job_id


@scene(events.Expired)
async def _(stage: Stage) -> object:
    job_id = await stage.enqueue(expires=10.0)
    stage.clock.advance(11)
    await ask(stage.store, stage.queue)
    return job_id


@scene(events.Completed)
async def _(stage: Stage) -> object:
    job_id = await stage.enqueue()
    await stage.store.complete(job_id, Finish(State.SUCCEEDED, "1"))
    return job_id


@scene(events.Deleted)
async def _(stage: Stage) -> object:
    job_id = await stage.enqueue()
    await stage.store.delete([job_id])
    return job_id


@scene(events.Revived)
async def _(stage: Stage) -> object:
    job_id = await stage.settled(Finish(State.FAILED, error=BOOM))
    await stage.store.retry([job_id])
    return job_id


# What else can happen to a job.


@scene(events.LeaseLost)
async def _(stage: Stage) -> object:
    held = await stage.leased()
    await stage.store.cancel([held.job.id])
    await stage.store.renew([Renewal(held, 60.0)])
    return held.job.id


@scene(events.Fenced)
async def _(stage: Stage) -> object:
    held = await stage.leased()
    await stage.store.cancel([held.job.id])
    await settle(stage.store, held, Finish(State.SUCCEEDED))
    return held.job.id


@scene(events.Overdue)
async def _(stage: Stage) -> object:
    first = await stage.a_run()
    await settle(stage.store, await lease_one(stage.store, stage.queue), Park(10.0, "late"))
    stage.clock.advance(11)
    await stage.store.reap([stage.queue])
    return first.id


# Queues, workers, runs: told by the queue, the worker or the run that it happened to.


@scene(events.QueuePaused)
async def _(stage: Stage) -> object:
    await stage.store.pause(stage.queue)
    return stage.queue


@scene(events.QueueResumed)
async def _(stage: Stage) -> object:
    await stage.store.pause(stage.queue)
    await stage.store.resume(stage.queue)
    return stage.queue


@scene(events.QueuePurged)
async def _(stage: Stage) -> object:
    await stage.enqueue()
    await stage.store.purge(stage.queue)
    return stage.queue


@scene(events.WorkerStarted)
async def _(stage: Stage) -> object:
    await stage.store.register(a_worker(stage.queue))
    return stage.queue


@scene(events.WorkerStopping)
async def _(stage: Stage) -> object:
    async with stage.app.worker([stage.queue], id=stage.queue, poll=0.05) as worker:
        async with asyncio.timeout(10):
            while worker.id is None:
                await asyncio.sleep(0.01)
    return stage.queue


@scene(events.WorkerStopped)
async def _(stage: Stage) -> object:
    await stage.store.register(a_worker(stage.queue))
    await stage.store.leave(stage.queue)
    return stage.queue


@scene(events.WorkerMissing)
async def _(stage: Stage) -> object:
    await stage.store.register(a_worker(stage.queue))
    stage.clock.advance(11)
    await stage.store.workers()
    await stage.store.workers()
    return stage.queue


@scene(events.WorkerRetired)
async def _(stage: Stage) -> object:
    await stage.store.register(a_worker(stage.queue))
    await stage.store.retire(stage.queue, reason="killed by SIGKILL")
    return stage.queue


@scene(events.WorkerPruned)
async def _(stage: Stage) -> object:
    await stage.store.register(a_worker(stage.queue))
    stage.clock.advance(11)
    await stage.store.forget({stage.queue: 10.0})
    return stage.queue


@scene(events.RunStarted)
async def _(stage: Stage) -> object:
    return (await stage.a_run()).id


@scene(events.RunAdvanced)
async def _(stage: Stage) -> object:
    second = await stage.advanced()
    return second.run_id


@scene(events.RunEnded)
async def _(stage: Stage) -> object:
    second = await stage.advanced()
    await settle(stage.store, await lease_one(stage.store, stage.queue), Finish(State.FAILED, error=BOOM))
    return second.run_id


# Schedules: told by their names.


@scene(events.ScheduleFired)
async def _(stage: Stage) -> object:
    await stage.fired()
    return stage.queue


@scene(events.ScheduleSkipped)
async def _(stage: Stage) -> object:
    await stage.fired()
    await stage.fired(overlap=Overlap.SKIP)
    return stage.queue


@scene(events.ScheduleChanged)
async def _(stage: Stage) -> object:
    await stage.put()
    return stage.queue


def subject(event: Event) -> str:
    """What an event has happened to."""
    match event:
        case events.JobEvent():
            return event.job_id
        case events.QueueEvent():
            return event.queue
        case events.WorkerEvent():
            return event.worker
        case events.RunEvent():
            return event.run_id
        case events.ScheduleEvent():
            return event.schedule
    raise AssertionError(event)


def test_every_kind_of_event_is_shown_to_happen() -> None:
    """The walk below leaves out nothing, and neither does what stores tell of jobs that nobody named."""
    from tenure.observe.derived_events import BY_CHANGE

    assert SCENES.keys() == set(events.KINDS.values())
    assert BY_CHANGE.keys() == set(Change)


async def test_every_row_of_the_table_of_transitions_is_an_event(timed: Timed) -> None:  # Q69, W31, Q9, Q20
    heard = Heard(timed.app)
    happened = {kind: await play(Stage(timed, f"q{number}")) for number, (kind, play) in enumerate(SCENES.items())}

    async def missing() -> list[str]:
        told = {(type(event), subject(event)) for event in heard.all}
        return [kind.__name__ for kind, what in happened.items() if (kind, what) not in told]

    for _ in range(100):
        if not await missing():
            break
        await asyncio.sleep(0.05)
    assert await missing() == []
    for event in heard.all:
        if isinstance(event, events.JobEvent):
            assert event.task, event
            assert event.queue.startswith("q"), event
    silent = happened[events.WorkerMissing]
    [missed] = [each for each in heard.all if isinstance(each, events.WorkerMissing) and each.worker == silent]
    assert missed.silent_for > 10
