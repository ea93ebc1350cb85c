"""`Ledger`: the jobs that were enqueued in a test, each with the line of code that has enqueued it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.core.codec import ANY_CALL, RAW_CALL
from tenure.core.job import JobRecord, NewJob
from tenure.jobs.handle import Job
from tenure.jobs.run import FlowRun
from tenure.stores.base import BATCH
from tenure.stores.values import Search
from tenure.tasks.task import Task
from tenure.testing.clock import ManualClock
from tenure.testing.expecting import EnqueuedJob, named_arguments

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Ledger"]

_TENURE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The folder of Tenure's own code, whose frames are no callers."""


class Ledger:
    """The jobs that were enqueued in one test, each with the line of code that has enqueued it."""

    def __init__(self, app: App, clock: ManualClock) -> None:
        self._app = app
        self._clock = clock
        self._noted: dict[str, tuple[NewJob, float, str]] = {}
        """By id: the job, when it was enqueued, and where."""

    def note(self, jobs: Sequence[NewJob]) -> None:
        """Remember jobs that are about to be enqueued, with the place of the caller. They need not come to exist."""
        now, place = self._clock.wall(), _place()
        self._noted |= {new.id: (new, now, place) for new in jobs}

    def add_created(self, jobs: Sequence[NewJob], task: str) -> None:
        """Remember jobs that a job of `task` has created with its end."""
        for new in jobs:
            self._noted.setdefault(new.id, (new, self._clock.wall(), f"a job of {task}"))

    def knows(self, task: str) -> bool:
        """Whether a job of this task was about to be enqueued."""
        return any(new.task == task for new, _, _ in self._noted.values())

    async def records(self) -> list[JobRecord]:
        """All jobs of the store, the oldest first."""
        found: list[JobRecord] = []
        cursor: str | None = None
        while True:
            page = await self._app.internals.session.store.search(Search(limit=BATCH, cursor=cursor))
            found += page.jobs
            if (cursor := page.cursor) is None:
                return found[::-1]

    async def read(self, seen: set[str]) -> list[EnqueuedJob]:
        """The jobs that exist, or that have run, in the order in which they were enqueued."""
        stored = {record.id: record for record in await self.records()}
        for record in stored.values():
            if record.id not in self._noted:
                self._noted[record.id] = _new_of(record), record.created_at, _origin(record)
        return [
            self.entry_of(new, stored.get(id_))
            for id_, (new, _, _) in self._noted.items()
            if id_ in stored or id_ in seen
        ]

    def entry_of(self, new: NewJob, record: JobRecord | None = None) -> EnqueuedJob:
        _, at, place = self._noted.get(new.id, (new, self._clock.wall(), "not enqueued"))
        due = at + new.delay if new.run_at is None else max(new.run_at, at)
        return EnqueuedJob(
            job=self._handle_of(new, record),
            task=new.task,
            arguments=self._arguments_of(new),
            queue=new.queue,
            priority=new.priority,
            tags=new.tags,
            unique=new.unique,
            headers=new.headers or {},
            delay=due - at,
            due=due,
            place=place,
            by_the_clock=new.run_at is not None,
        )

    def _handle_of(self, new: NewJob, record: JobRecord | None) -> Job[Any] | FlowRun:
        if new.step is not None and new.step.run_id == new.id:
            return FlowRun(self._app, new.id, new.step.flow)
        job: Job[Any] = Job(self._app, new.id, new.task, new.queue, self._app.internals.caller_of(new)._results)
        if record is not None:
            job._update(record)
        return job

    def _arguments_of(self, new: NewJob) -> dict[str, Any]:
        if new.step is not None:
            written = {} if new.step.writes is None else new.step.writes.attributes
            return {name: msgspec.json.decode(value) for name, value in written.items()}
        caller = self._app.internals.caller_of(new)
        try:
            args, kwargs = caller._decode(new.payload)
        except Exception:  # noqa: BLE001 - a job that cannot be read, which its attempt will say
            return {}
        of_others = RAW_CALL if new.raw else ANY_CALL
        return named_arguments(caller._signature.call if isinstance(caller, Task) else of_others, args, kwargs)


def _new_of(record: JobRecord) -> NewJob:
    """A job as it was enqueued, from what the store knows of it."""
    return NewJob(
        id=record.id, task=record.task, queue=record.queue, payload=record.payload, raw=record.raw,
        priority=record.priority, run_at=record.run_at, unique=record.unique, tags=record.tags, headers=record.headers,
    )  # fmt: skip


def _origin(record: JobRecord) -> str:
    if record.schedule is not None:
        return f"schedule {record.schedule}"
    return "a run" if record.run_id is not None else "an inbox"


def _place() -> str:
    """The line of code outside Tenure that makes this call: `shop.py:57 in place_order`."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_TENURE):
        frame = frame.f_back
    code = frame.f_code
    file = os.path.relpath(code.co_filename) if code.co_filename.startswith(os.getcwd() + os.sep) else code.co_filename
    return f"{os.path.basename(file) if os.path.isabs(file) else file}:{frame.f_lineno} in {code.co_name}"
