"""A stage on which things happen to jobs, and a listener that keeps what it hears of them."""

from __future__ import annotations

import asyncio
from typing import Any

from tenure import App
from tenure.core.job import ErrorInfo, NewJob, RunStep, State, new_id
from tenure.core.lifecycle import Finish
from tenure.core.schedule import Firing, SchedulePut, ScheduleSearch
from tenure.events import Event
from tenure.stores.base import Store
from tenure.testing.conformance.scene import lease_one, settle

from .conftest import Timed

__all__ = ["BOOM", "Heard", "Stage"]

BOOM = ErrorInfo("ValueError", "boom")


class Stage:
    """Where a scene is played: a store, its clock, and a queue of its own."""

    def __init__(self, timed: Timed, queue: str) -> None:
        self.app, self.clock = timed
        self.queue = queue

    @property
    def store(self) -> Store:
        return self.app.internals.session.store

    def job(self, **fields: Any) -> NewJob:
        return NewJob(**{"id": new_id(), "task": f"task.{self.queue}", "queue": self.queue} | fields)

    async def enqueue(self, **fields: Any) -> str:
        [answer] = await self.store.enqueue([self.job(**fields)])
        return answer.id

    async def leased(self, **fields: Any) -> Any:
        await self.enqueue(**fields)
        return await lease_one(self.store, self.queue)

    async def settled(self, step: Any, **fields: Any) -> str:
        held = await self.leased(**fields)
        await settle(self.store, held, step)
        return str(held.job.id)

    async def a_run(self) -> NewJob:
        run_id = new_id()
        first = self.job(id=run_id, task="order.first", step=RunStep(run_id=run_id, flow="order"))
        await self.store.enqueue([first])
        return first

    async def advanced(self) -> NewJob:
        """A run that is in its second step; that."""
        first = await self.a_run()
        second = self.job(task="order.second", step=RunStep(run_id=first.id, flow="order"))
        await settle(self.store, await lease_one(self.store, self.queue), Finish(State.SUCCEEDED, successor=second))
        return second

    # A schedule with the name of the queue.

    async def version(self) -> int:
        found = (await self.store.schedules(ScheduleSearch(names=(self.queue,)))).schedules
        return found[0].version if found else 0

    async def put(self, settings: str | None = "{}") -> None:
        """Create it, or change it, or delete it."""
        await self.store.put_schedules(
            [SchedulePut(name=self.queue, if_version=await self.version(), settings=settings)]
        )

    async def fired(self, **fields: Any) -> NewJob:
        """Fire it for the tick 10 seconds ago. Returns the job of that, whatever becomes of it."""
        if not await self.version():
            await self.put()
        job, tick = self.job(**fields.pop("job", {})), self.clock.wall() - 10
        firing = Firing(name=self.queue, version=await self.version(), jobs=((tick, job),), **fields)
        await self.store.fire([firing])
        return job


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.all: list[Event] = []
        app.listen(self.all.append)

    async def of(self, *kinds: type[Event], number: int = 1) -> list[Any]:
        """Wait for so many of these kinds, and see that there are no more."""
        async with asyncio.timeout(10):
            while len(found := self._found(kinds)) < number:
                await asyncio.sleep(0.005)
        await self._app.internals.audience.listeners.aflush()
        found = self._found(kinds)
        assert len(found) == number, found
        return found

    def _found(self, kinds: tuple[type[Event], ...]) -> list[Event]:
        return [event for event in self.all if isinstance(event, kinds)]

    def order(self, job_id: str) -> list[type[Event]]:
        """The kinds of what has happened to a job."""
        return [type(event) for event in self.all if getattr(event, "job_id", None) == job_id]
