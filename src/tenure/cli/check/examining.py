"""`Examination`: reads stored jobs with the code of an app, and counts those that its workers could not run."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.cli.check.findings import Finding, close_to
from tenure.core.failure import describe_exception
from tenure.core.inbox import UNREAD, read
from tenure.core.job import JobRecord, State
from tenure.core.lease import Lease, Token
from tenure.core.remote_completion import decision_of, is_decision
from tenure.core.versions import version_of
from tenure.errors import InvalidSchedule, MissingAttribute, NewerPayload, PayloadTooLarge
from tenure.stores.base import BATCH
from tenure.stores.values import Search
from tenure.tasks.context import AbortSignal, Context
from tenure.tasks.step import Step

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.core.schedule import ScheduleRecord
    from tenure.stores.base import Store
    from tenure.stores.values import QueueInfo
    from tenure.tasks.task import Task

__all__ = ["FIRST", "NEWEST", "Examination", "all_jobs", "sampled_jobs", "total"]

FIRST = 2_000
"""Jobs of each queue and state that are looked at, unless all are."""

NEWEST = 10_000
"""The newest jobs, which are looked at too, because jobs of new producers are the last in each queue."""

KINDS_SHOWN = 10
"""Different problems of one task that are shown; the rest is counted."""

AT_ONCE = 20
"""Runs whose attributes are read at the same time."""

UNFINISHED = (State.RUNNING, State.WAITING, State.BLOCKED)
RETRIABLE = (State.FAILED, State.BROKEN)

_MISSING = re.compile(r"missing a required(?: [a-z-]+)? argument: '(.*)'$")
_UNEXPECTED = re.compile(r"got an unexpected keyword argument '(.*)'$")


class Problem(msgspec.Struct, frozen=True):
    """Why a job would not run, and what to do about it."""

    text: str
    advice: str = ""


class Examination:
    """Examines jobs one by one, and counts by task what it finds."""

    def __init__(self, app: App, store: Store) -> None:
        self._app = app
        self._store = store
        self._fine: Counter[str] = Counter()
        self._upcast: Counter[tuple[str, int]] = Counter()
        self._problems: dict[tuple[str, Problem], list[Any]] = {}
        self._leases: Counter[tuple[str, float]] = Counter()
        self._runs: set[str] = set()
        self.jobs = 0

    @property
    def runs(self) -> int:
        """Number of runs that a step of was examined."""
        return len(self._runs)

    async def look_at(self, jobs: Sequence[JobRecord]) -> None:
        """Examine these jobs."""
        steps = [job for job in jobs if job.run_id is not None]
        for start in range(0, len(steps), AT_ONCE):
            some = steps[start : start + AT_ONCE]
            for job, whole in zip(some, await asyncio.gather(*map(self._with_attributes, some)), strict=True):
                self._runs.add(job.run_id or "")
                self._count(whole)
        for job in jobs:
            if job.run_id is None:
                self._count(job)

    async def _with_attributes(self, job: JobRecord) -> JobRecord:
        task = self._app.tasks.get(job.task)
        if not isinstance(task, Step):
            return job
        found = await self._store.attributes(job.run_id or "", task._reads) if task._reads else {}
        return msgspec.structs.replace(job, attributes=found)

    def _count(self, job: JobRecord) -> None:
        self.jobs += 1
        problem = self.problem_of(job)
        if problem is not None:
            seen = self._problems.setdefault((job.task, problem), [0, job.id])
            seen[0] += 1
            return
        self._fine[job.task] += 1
        task = self._app.tasks.get(job.task)
        if task is None or task._is_step:
            return
        if task.options.version > 1 and (version := version_of(job.payload)) < task.options.version:
            self._upcast[job.task, version] += 1
        if job.lease is not None and job.lease != task._template.lease:
            self._leases[job.task, job.lease] += 1

    def problem_of(self, job: JobRecord) -> Problem | None:
        """Why a worker with this code would not run the job; None if it would."""
        task = self._app.tasks.get(job.task)
        if task is None:
            return self._unknown(job)
        if len(job.payload) > self._app.options.payload_limit:
            too_large = PayloadTooLarge(len(job.payload), self._app.options.payload_limit)
            return Problem(f"cannot be read: {too_large}", "Raise payload_limit of the app.")
        if isinstance(task, Step) and (job.on_timeout is not None or is_decision(job)):
            following = job.on_timeout if job.on_timeout is not None else decision_of(job)[0]
            if following is None or following in task.flow.steps or f"{task.flow.name}.{following}" in self._app.tasks:
                return None
            return _step_gone(f"the run goes on with {following!r},", following)
        context = Context(Lease(job, Token(0, 0), 1.0), "", AbortSignal(), task)
        try:
            task._call_arguments(job.payload, context)
        except Exception as error:  # noqa: BLE001 - a PayloadError, or any error of a converter of the user's
            return _unreadable(error, task)
        return None

    def _unknown(self, job: JobRecord) -> Problem | None:
        if job.task == UNREAD:
            _, error = read(
                job.queue, job.payload, self._app.options.payload_limit, self._app.internals.raw_inboxes.get(job.queue)
            )
            return None if error is None else Problem(f"an entry of an inbox that is no job: {error.message}")
        known = self._app.tasks
        if job.run_id is not None:
            flow, _, step = job.task.rpartition(".")
            if flow in self._app.internals.flows:
                return _step_gone("the run is at", step)
            return Problem(f"no such flow: {flow!r}", "Keep its code until its runs are done, or cancel them.")
        return Problem(
            f"no such task{close_to(job.task, known)}", f'Add aliases=["{job.task}"] to the task that runs them.'
        )

    def look_at_schedule(self, record: ScheduleRecord) -> Finding | None:
        """What is wrong with the job that a schedule enqueues; None if nothing is, or the code declares it anew."""
        from tenure.core.schedule import settings_of

        name = f"schedule {record.name}"
        try:
            settings = settings_of(record)
        except InvalidSchedule as error:
            return Finding(name=name, verdict="bad", text=str(error))
        if record.next is None or (settings.declared and "job" not in settings.changes.names):
            return None
        new = settings.effective.job
        attributes = None
        if new.step is not None:
            attributes = {} if new.step.writes is None else dict(new.step.writes.attributes)
        run = None if new.step is None else "of a schedule"
        job = JobRecord("", new.task, new.queue, State.WAITING, new.payload, new.raw, run_id=run, attributes=attributes)
        problem = self.problem_of(job)
        if problem is None:
            return None
        return Finding(
            name=name, verdict="bad", text=f"its jobs of task {new.task!r}: {problem.text}", advice=problem.advice
        )

    def findings(self) -> list[Finding]:
        """What was found, by task."""
        found = []
        for task, jobs in sorted(self._fine.items()):
            upcast = [
                f"{n:,} of them upcast from version {v}"
                for (name, v), n in sorted(self._upcast.items())
                if name == task
            ]
            found.append(Finding(name=task, verdict="fine", jobs=jobs, text=", ".join(["fine", *upcast])))
        for (task, lease), jobs in sorted(self._leases.items()):
            now = self._app.tasks[task]._template.lease
            text = f"have a lease of {lease:g} s, and the code says {'nothing' if now is None else f'{now:g} s'}; stored jobs keep theirs"
            found.append(Finding(name=task, verdict="note", jobs=jobs, text=text))
        shown: Counter[str] = Counter()
        rest: Counter[str] = Counter()
        for (task, problem), (jobs, first) in sorted(
            self._problems.items(), key=lambda item: (item[0][0], -item[1][0])
        ):
            shown[task] += 1
            if shown[task] > KINDS_SHOWN:
                rest[task] += jobs
                continue
            found.append(
                Finding(name=task, verdict="bad", jobs=jobs, first=first, text=problem.text, advice=problem.advice)
            )
        found += [Finding(name=task, verdict="bad", jobs=jobs, text="other problems") for task, jobs in rest.items()]
        return found


def _step_gone(where: str, step: str) -> Problem:
    return Problem(
        f"{where} a step that the flow has no longer",
        f'Add aliases=["{step}"] to the step that replaces it, or keep it until no run is there.',
    )


def _unreadable(error: Exception, task: Task[..., Any]) -> Problem:
    """The problem of a payload that the task cannot read."""
    upcast = "raise the version and upcast" if not task._is_step else "use a new one"
    text = describe_exception(error).message
    if isinstance(error, NewerPayload):
        return Problem(
            f"have version {error.version}, and this code knows version {error.known}",
            "Deploy the code of that version.",
        )
    if isinstance(error, MissingAttribute):
        return Problem(f"attribute {error.attribute!r} is missing", "Give the parameter a default.")
    if (missing := _MISSING.search(text)) is not None and "upcaster" not in text:
        return Problem(f"cannot be read: parameter {missing[1]!r} is missing", f"Give it a default, or {upcast}.")
    if (gone := _UNEXPECTED.search(text)) is not None and "upcaster" not in text:
        return Problem(f"cannot be read: there is no parameter {gone[1]!r}", f"Take it again, or {upcast}.")
    if text.endswith("too many positional arguments"):
        return Problem("cannot be read: there are more arguments than parameters", f"Take them again, or {upcast}.")
    if "upcaster" in text or ".upcast(" in text:
        return Problem(f"cannot be read: {text}", "Mend the upcaster.")
    if "does not fit its annotation" in text:
        return Problem(f"cannot be read: {text}", f"Accept both, or {upcast}.")
    return Problem(f"cannot be read: {text}", "")


# Which jobs are looked at.


def total(queues: Sequence[QueueInfo], *, failed: bool) -> int:
    """Number of jobs that could be looked at."""
    open_ = sum(queue.waiting + queue.scheduled + queue.blocked + queue.running for queue in queues)
    return open_ + (sum(queue.failed + queue.broken for queue in queues) if failed else 0)


def _states(*, failed: bool) -> tuple[State, ...]:
    return (*UNFINISHED, *RETRIABLE) if failed else UNFINISHED


async def all_jobs(store: Store, *, failed: bool) -> AsyncIterator[list[JobRecord]]:
    """All jobs in these states, page by page. One that changes state meanwhile may come twice."""
    for state in _states(failed=failed):
        async for jobs in _found(store, Search(state=state), None):
            yield jobs


async def sampled_jobs(store: Store, queues: Sequence[QueueInfo], *, failed: bool) -> AsyncIterator[list[JobRecord]]:
    """The first `FIRST` jobs of each queue and state and those among the `NEWEST` jobs, page by page, each once."""
    seen: set[str] = set()

    def unseen(jobs: list[JobRecord]) -> list[JobRecord]:
        new = [job for job in jobs if job.id not in seen]
        seen.update(job.id for job in new)
        return new

    states = _states(failed=failed)
    for queue in queues:
        for state, scheduled, number in _lines(queue, failed=failed):
            if number:
                search = Search(queue=queue.name, state=state, scheduled=scheduled)
                async for jobs in _found(store, search, FIRST):
                    yield unseen(jobs)
    async for jobs in _found(store, Search(), NEWEST):
        yield unseen([job for job in jobs if job.state in states])


def _lines(queue: QueueInfo, *, failed: bool) -> list[tuple[State, bool | None, int]]:
    """States of a queue and their numbers of jobs; waiting jobs in line and scheduled ones are two lines."""
    lines: list[tuple[State, bool | None, int]] = [
        (State.RUNNING, None, queue.running),
        (State.WAITING, False, queue.waiting),
        (State.WAITING, True, queue.scheduled),
        (State.BLOCKED, None, queue.blocked),
    ]
    if failed:
        lines += [(State.FAILED, None, queue.failed), (State.BROKEN, None, queue.broken)]
    return lines


async def _found(store: Store, search: Search, most: int | None) -> AsyncIterator[list[JobRecord]]:
    """Up to `most` jobs that the search finds, page by page; None: all."""
    cursor: str | None = None
    left = most
    while left is None or left > 0:
        limit = BATCH if left is None else min(BATCH, left)
        page = await store.search(msgspec.structs.replace(search, limit=limit, cursor=cursor))
        yield page.jobs
        if (cursor := page.cursor) is None:
            return
        if left is not None:
            left -= len(page.jobs)
