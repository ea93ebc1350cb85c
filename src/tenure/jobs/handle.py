"""The user's handle on one job, and what handles on jobs and on runs have in common."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from tenure.core.checks import Duration, seconds
from tenure.core.codec import ResultCodec
from tenure.core.job import AttemptRecord, ErrorInfo, JobRecord, State, attempts_of
from tenure.core.lifecycle import Finish
from tenure.core.remote_completion import finish_elsewhere, is_decision
from tenure.errors import (
    BlockerNotFound,
    JobBroken,
    JobCancelled,
    JobError,
    JobFailed,
    JobNotFound,
    MissingAttribute,
    ResultGone,
    ResultTimeout,
    UniqueConflict,
    UnknownTask,
    WrongState,
)
from tenure.hooks.calling import awaiting
from tenure.jobs.enqueue_hooks import allowed, come_to_exist
from tenure.stores.values import Enqueued, Verdict, VerdictKind
from tenure.sync import blocking

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Handle", "Job"]

R_co = TypeVar("R_co", covariant=True)


class Handle:
    """What was last known of something with an id, without I/O, and what can be done to it by that id."""

    __slots__ = ("_app", "_duplicate", "_id", "_record", "_state")

    def __init__(self, app: App, id_: str) -> None:
        self._app = app
        self._id = id_
        self._state = State.WAITING
        self._duplicate = False
        self._record: JobRecord | None = None

    @property
    def id(self) -> str:
        return self._id

    @property
    def duplicate(self) -> bool:
        """Whether it is an older one, which held the unique key when this one was enqueued."""
        return self._duplicate

    @property
    def state(self) -> State:
        """As last known; `refresh` asks again."""
        return self._state

    @property
    def done(self) -> bool:
        """Whether its last known state is final."""
        return self._state.final

    @property
    def failed(self) -> bool:
        """Whether it is known to have ended without a result: failed, cancelled or broken."""
        return self._state.final and self._state is not State.SUCCEEDED

    @property
    def error(self) -> ErrorInfo | None:
        """What the latest failed attempt raised, as last read."""
        return self._record.error if self._record is not None else None

    async def acancel(self) -> None:
        """End it as cancelled, in whatever state it is; its holder is told. `WrongState` if it is final."""
        [verdict] = await self._app.internals.session.store.cancel([self._id])
        self._require(verdict, "not final")
        self._changed(State.CANCELLED)

    async def aretry(self) -> None:
        """Put it at the back of its queue again, as if it had never been tried; a run, from the step that it ended with.

        `WrongState` if it is not final, `UniqueConflict` if another job holds its unique key, `BlockerNotFound` if something
        that it waited for, and that has not succeeded, is gone.
        """
        [verdict] = await self._app.internals.session.store.retry([self._id])
        if verdict.kind is VerdictKind.REFUSED and verdict.other is not None:
            self._changed(verdict.state or self._state)
            own, other = await self._app.internals.session.store.get([self._id, verdict.other])
            if other is None:
                raise BlockerNotFound(verdict.other)
            raise UniqueConflict(other.task, (own and own.unique) or other.unique or "", verdict.other)
        self._require(verdict, "final")
        self._changed(State.WAITING)
        await self._go_on()

    async def atrigger(self) -> None:
        """Put it in line now, instead of when it is due; `WrongState` if it is not scheduled."""
        [verdict] = await self._app.internals.session.store.trigger([self._id])
        self._require(verdict, "scheduled")
        await self._go_on()

    async def arelease(self) -> None:
        """Take it from the worker that runs it and put it back at the front of its queue; `WrongState` if it is not running.

        The attempt is given back, as if the job had not been leased. Its worker stops the attempt: a coroutine is cancelled, a
        thread sees it in `ctx.signal`, a child process is terminated. The job is in line at once: another worker, or the same one, may lease
        it before the former attempt has stopped.
        """
        [verdict] = await self._app.internals.session.store.release([self._id])
        self._require(verdict, "running")
        self._changed(State.WAITING)
        await self._go_on()

    async def adelete(self, *, cascade: bool = False) -> None:
        """Remove it, a run with all its steps; its holder is told. `HasDependents` if other jobs wait for it, unless `cascade` removes those too."""
        if not await self._app.internals.session.store.delete([self._id], cascade=cascade):
            raise self._not_found()

    cancel = blocking(acancel)
    retry = blocking(aretry)
    trigger = blocking(atrigger)
    release = blocking(arelease)
    delete = blocking(adelete)

    # For those who have heard from the store.

    def _enqueued(self, answer: Enqueued) -> None:
        """Note what became of the enqueue that made this handle."""
        self._id = answer.id
        self._state = answer.state
        self._duplicate = answer.duplicate

    def _note(self, record: JobRecord) -> None:
        """Note what the store knows of the job, of a run its current step."""
        self._record = record
        self._state = record.state

    def _changed(self, state: State) -> None:
        self._record = None
        self._state = state

    def _not_found(self) -> JobNotFound:
        return JobNotFound(self._id)

    def _require(self, verdict: Verdict, wanted: str) -> None:
        match verdict.kind:
            case VerdictKind.OK:
                return
            case VerdictKind.NOT_FOUND:
                raise self._not_found()
            case _:
                self._changed(verdict.state or self._state)
                # What is final and cannot be retried for all that: only the store knows why.
                why = verdict.reason if wanted == "final" and self._state.final else ""
                raise WrongState(self._id, self._state, wanted, why)

    async def _go_on(self) -> None:
        """Run what has come in line, if jobs run here."""
        if self._app.internals.inlines:
            await self._app.internals.inlines[-1].run_pending([self])

    async def _final(self, timeout: Duration | None) -> JobRecord:
        """Wait until it is final, and give what it ended with: the record of the job, or of the last step of a run."""
        limit = None if timeout is None else seconds(timeout, "timeout")
        if limit == 0:
            record = await self._look()
            if record is not None and not record.state.final:
                raise ResultTimeout(self._id, 0.0)
        else:
            try:
                async with asyncio.timeout(limit):
                    record = await self._app.internals.session.waiting.final(self._id)
            except TimeoutError:
                raise ResultTimeout(self._id, limit or 0.0) from None
        if record is None:
            raise ResultGone(self._id)
        return record

    async def _look(self) -> JobRecord | None:
        """What it is now: the record of the job, or of the current step of a run."""
        raise NotImplementedError

    def _value(self, record: JobRecord, results: ResultCodec) -> Any:
        if record.state is State.SUCCEEDED:
            return results.decode(record.result or "null")
        kind = {State.CANCELLED: JobCancelled, State.BROKEN: JobBroken}.get(record.state, JobFailed)
        error = record.error or ErrorInfo(record.state.capitalize(), "somebody ended the job, without giving a reason")
        raise kind(self._id, error.type, error.message, error.traceback)

    async def _complete(self, record: JobRecord, value: Any) -> Finish | None:
        """End a step with this value, as if its function had given it; None if it has ended by itself meanwhile."""
        if is_decision(record):
            why = "it was completed before, and a worker that has its code is to say what follows"
            raise WrongState(self._id, record.state, "", why)
        finish = await self._finish(record, value)
        if finish.children and self._app.internals.hooks.enqueues:
            await awaiting(allowed(self._app, finish.children))
        verdict = await self._app.internals.session.store.complete(record.id, finish)
        match verdict.kind:
            case VerdictKind.OK:
                if finish.children and self._app.internals.hooks.enqueues:
                    await awaiting(come_to_exist(self._app, finish.children))
                return finish
            case VerdictKind.NOT_FOUND:
                raise self._not_found()
            case _ if verdict.state is not None:
                return None
            case _:
                raise await self._refusal(verdict, record, finish)

    async def _finish(self, record: JobRecord, value: Any) -> Finish:
        """The end of a step with this value: by its code, or to be decided by a worker that has it."""
        step = self._app.tasks.get(record.task)
        if step is not None:
            if not step._is_step:
                raise UnknownTask(record.task, self._app.tasks)
            return step._finish(record, value, ())
        run = await self._app.internals.session.store.run(record.run_id or "")
        if run is None:
            raise self._not_found()
        return finish_elsewhere(record, run.flow, value, self._app.internals.caller_of(record)._results)

    async def _refusal(self, verdict: Verdict, record: JobRecord, finish: Finish) -> JobError:
        """Why the jobs that come with this end cannot be stored."""
        coming = finish.children if finish.successor is None else (*finish.children, finish.successor)
        if verdict.other is not None:
            if any(verdict.other in job.after for job in coming):
                return BlockerNotFound(verdict.other)
            keyed = next((job for job in coming if job.unique is not None and job.unique_raises), coming[0])
            return UniqueConflict(keyed.task, keyed.unique or "", verdict.other)
        if finish.successor is not None and finish.successor.step is not None:
            needs = finish.successor.step.needs
            written = finish.writes.attributes if finish.writes is not None else {}
            known = await self._app.internals.session.store.attributes(record.run_id or "", needs)
            for name in needs:
                if name not in known and name not in written:
                    return MissingAttribute(finish.successor.task, name)
        return JobError(verdict.reason)


class Job(Handle, Generic[R_co]):
    """One job: what was last known of it, without I/O, and what can be done to it."""

    __slots__ = ("_queue", "_results", "_task")

    def __init__(self, app: App, job_id: str, task: str, queue: str, results: ResultCodec) -> None:
        super().__init__(app, job_id)
        self._task = task
        self._queue = queue
        self._results = results

    def __repr__(self) -> str:
        return f"<Job {self._id} of {self._task}, {self._state}>"

    @property
    def task(self) -> str:
        """The name of its task."""
        return self._task

    @property
    def queue(self) -> str:
        return self._queue

    @property
    def record(self) -> JobRecord | None:
        """Everything about it, as last read; None if only its enqueueing is known."""
        return self._record

    async def arefresh(self) -> Self:
        """Read the job again; `JobNotFound` if it is gone."""
        [record] = await self._app.internals.session.store.get([self._id])
        if record is None:
            raise self._not_found()
        self._note(record)
        return self

    async def aattempts(self) -> list[AttemptRecord]:
        """What has become of each attempt, the first first, the one that runs included; the latest ten or so. `JobNotFound` if it is gone."""
        await self.arefresh()
        assert self._record is not None
        return attempts_of(self._record)

    async def aresult(self, timeout: Duration | None = None) -> R_co:
        """Wait until the job is final and give its result; of the first step of a run, that of the run.

        `JobFailed`, `JobCancelled` or `JobBroken` if it ended without one, `ResultTimeout` if it is not final after
        `timeout` seconds (0 looks once), `ResultGone` if its record is no longer kept.
        """
        record = self._record
        if record is None or not record.state.final or _began_a_run(record):
            record = await self._final(timeout)
            if record.id == self._id:
                self._note(record)
        results = self._results if record.id == self._id else self._app.internals.caller_of(record)._results
        return self._value(record, results)  # type: ignore[no-any-return]

    async def acomplete(self, value: Any = None) -> None:
        """End it as succeeded with this result, in whatever state it is; its holder is told. `WrongState` if it is final.

        A step of a flow hands over as if its function had given this value, which may be a `Next`. `MissingAttribute`,
        `BlockerNotFound` or `UniqueConflict`, and nothing has changed, if what is to follow cannot come to exist. If the code of the
        flow is not here, a worker that has it decides what follows; see `FlowRun.complete`.
        """
        if self._duplicate and self._record is None:
            await self.arefresh()  # it may be a step for all that is known
        if self._record is not None and self._record.run_id is not None:
            if await self._complete(self._record, value) is None:
                await self.arefresh()
                raise WrongState(self._id, self._state, "not final")
        else:
            finish = Finish(State.SUCCEEDED, self._results.encode_freely(value))
            self._require(await self._app.internals.session.store.complete(self._id, finish), "not final")
        self._changed(State.SUCCEEDED)
        await self._go_on()

    refresh = blocking(arefresh)
    attempts = blocking(aattempts)
    result = blocking(aresult)
    complete = blocking(acomplete)

    def _note(self, record: JobRecord) -> None:
        super()._note(record)
        self._queue = record.queue

    async def _look(self) -> JobRecord | None:
        [record] = await self._app.internals.session.store.get([self._id])
        if record is not None and _began_a_run(record):
            run = await self._app.internals.session.store.run(self._id)
            return None if run is None else run.step
        return record


def _began_a_run(record: JobRecord) -> bool:
    """Whether it is a first step that has handed over: its id means the run, which goes on, or has ended otherwise."""
    return record.run_id == record.id and record.successor is not None
