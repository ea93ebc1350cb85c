"""`Job`, the handle on one job, and `Handle`, what it has in common with the handle on a run."""

from __future__ import annotations

import asyncio
from datetime import datetime
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
    JobFailed,
    JobNotFound,
    ResultGone,
    ResultTimeout,
    UniqueConflict,
    UnknownTask,
    WrongState,
)
from tenure.hooks.calling import acall_hooks
from tenure.jobs.enqueue_hooks import after_enqueue_of_children, before_enqueue
from tenure.stores.values import BlockerGone, Enqueued, UniqueHeld, Verdict, VerdictKind, error_of_refusal
from tenure.stores.values import WrongState as WrongStateRefusal
from tenure.sync import blocking

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Handle", "Job"]

KIT_TIMEOUT = 5.0
"""Seconds that a wait without a limit lasts in a test kit."""

R_co = TypeVar("R_co", covariant=True)


class Handle:
    """The last known state of a job or run, which needs no I/O to read, and the operations on it by its id."""

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
        """Whether this is an older job, which owned the unique key when this one was enqueued; no new job was stored."""
        return self._duplicate

    @property
    def state(self) -> State:
        """The last known state. `refresh` reads it again."""
        return self._state

    @property
    def done(self) -> bool:
        """Whether the last known state is final."""
        return self._state.final

    @property
    def failed(self) -> bool:
        """Whether the last known state is final without a result: failed, cancelled or broken."""
        return self._state.final and self._state is not State.SUCCEEDED

    @property
    def schedule(self) -> str | None:
        """The name of the schedule that has enqueued it, as last read; None if none has."""
        return self._record.schedule if self._record is not None else None

    @property
    def tick(self) -> datetime | None:
        """The instant that the schedule has enqueued it for, as last read, in UTC; None without a schedule."""
        return self._record.tick if self._record is not None else None

    @property
    def error(self) -> ErrorInfo | None:
        """The error of the latest failed attempt, as last read; None if there was none."""
        return self._record.error if self._record is not None else None

    async def acancel(self) -> None:
        """Cancel it, in any state that is not final. A worker that runs it aborts the attempt.

        `WrongState` if it is final, `JobNotFound` if it is gone.
        """
        [verdict] = await self._app.internals.session.store.cancel([self._id])
        self._require(verdict, "not final")
        self._set_state(State.CANCELLED)

    async def aretry(self) -> None:
        """Put a finished job at the back of its queue again, as if it had never been tried.

        A run continues from the step that it ended with. `WrongState` if it is not final. `UniqueConflict` if another job
        now owns its unique key. `BlockerNotFound` if a job that it waited for has not succeeded and is gone.
        """
        [verdict] = await self._app.internals.session.store.retry([self._id])
        match verdict.refusal:
            case BlockerGone(blocker):
                self._set_state(verdict.state or self._state)
                raise BlockerNotFound(blocker)
            case UniqueHeld(owner):
                self._set_state(verdict.state or self._state)
                own, other = await self._app.internals.session.store.get([self._id, owner])
                record = own or other
                raise UniqueConflict(
                    record.task if record is not None else "",
                    (record.unique if record is not None else None) or "",
                    owner,
                )
        self._require(verdict, "final")
        self._set_state(State.WAITING)
        await self._continue_inline()

    async def atrigger(self) -> None:
        """Put a scheduled job in line now, before it is due. `WrongState` if it is not scheduled."""
        [verdict] = await self._app.internals.session.store.trigger([self._id])
        self._require(verdict, "scheduled")
        await self._continue_inline()

    async def arelease(self) -> None:
        """Take a running job from its worker and put it back at the front of its queue. `WrongState` if it is not running.

        The attempt does not count. The worker stops it: a coroutine is cancelled, a thread sees it in `ctx.signal`, a child
        process is terminated. Another worker, or the same one, may lease the job before the old attempt has stopped.
        """
        [verdict] = await self._app.internals.session.store.release([self._id])
        self._require(verdict, "running")
        self._set_state(State.WAITING)
        await self._continue_inline()

    async def adelete(self, *, cascade: bool = False) -> None:
        """Delete it; a run, with all its steps. A worker that runs it aborts the attempt.

        `HasDependents` if other jobs wait for it, unless `cascade=True` deletes those too. `JobNotFound` if it is gone.
        """
        if not await self._app.internals.session.store.delete([self._id], cascade=cascade):
            raise self._not_found()

    cancel = blocking(acancel)
    retry = blocking(aretry)
    trigger = blocking(atrigger)
    release = blocking(arelease)
    delete = blocking(adelete)

    # Answers of the store.

    def _update_enqueued(self, answer: Enqueued) -> None:
        """Store the answer to the enqueue that this handle came from."""
        self._id = answer.id
        self._state = answer.state
        self._duplicate = answer.duplicate

    def _update(self, record: JobRecord) -> None:
        """Store what the store knows of the job; of a run, of its current step."""
        self._record = record
        self._state = record.state

    def _set_state(self, state: State) -> None:
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
                self._set_state(verdict.state or self._state)
                # Why a final job cannot be retried, only the store knows.
                why = verdict.reason if wanted == "final" and self._state.final else ""
                raise WrongState(self._id, self._state, wanted, why)

    async def _continue_inline(self) -> None:
        """Run the jobs that are now in line, if the app runs jobs inline."""
        if self._app.internals.inlines:
            await self._app.internals.inlines[-1].run_pending([self])

    async def _wait_until_final(self, timeout: Duration | None) -> JobRecord:
        """Wait until it is final. Returns the record it ended with: of the job, or of the last step of a run.

        `ResultTimeout` after `timeout` seconds; 0 looks once. `ResultGone` if the record is no longer kept.
        """
        in_kit = self._app.internals.note is not None
        if timeout is None and in_kit:
            timeout = KIT_TIMEOUT  # in a kit no worker ends it, so the test would wait for ever
        limit = None if timeout is None else seconds(timeout, "timeout")
        if limit == 0:
            record = await self._fetch()
            if record is not None and not record.state.final:
                raise ResultTimeout(self._id, 0.0, in_kit=in_kit)
        else:
            try:
                async with asyncio.timeout(limit):
                    record = await self._app.internals.session.waiting.final(self._id)
            except TimeoutError:
                raise ResultTimeout(self._id, limit or 0.0, in_kit=in_kit) from None
        if record is None:
            raise ResultGone(self._id)
        return record

    async def _fetch(self) -> JobRecord | None:
        """Read the record of the job, or of the current step of a run; None if it is gone."""
        raise NotImplementedError

    def _result_of(self, record: JobRecord, results: ResultCodec) -> Any:
        if record.state is State.SUCCEEDED:
            return results.decode(record.result or "null")
        kind = {State.CANCELLED: JobCancelled, State.BROKEN: JobBroken}.get(record.state, JobFailed)
        error = record.error or ErrorInfo(record.state.capitalize(), "the job was ended without a reason")
        raise kind(self._id, error.type, error.message, error.traceback)

    async def _complete(self, record: JobRecord, value: Any) -> Finish | None:
        """End a step with this value, as if its function had returned it. None if the step has ended on its own meanwhile."""
        if is_decision(record):
            why = "it was completed before, and waits for a worker that has its code to decide what follows"
            raise WrongState(self._id, record.state, "", why)
        finish = await self._finish(record, value)
        if finish.children and self._app.internals.hooks.enqueues:
            await acall_hooks(before_enqueue(self._app, finish.children))
        verdict = await self._app.internals.session.store.complete(record.id, finish)
        match verdict.kind:
            case VerdictKind.OK:
                if finish.children and self._app.internals.hooks.enqueues:
                    await acall_hooks(after_enqueue_of_children(self._app, finish.children))
                return finish
            case VerdictKind.NOT_FOUND:
                raise self._not_found()
            case _:
                assert verdict.refusal is not None
                if isinstance(verdict.refusal, WrongStateRefusal):
                    return None
                raise error_of_refusal(verdict.refusal)

    async def _finish(self, record: JobRecord, value: Any) -> Finish:
        """The end of a step with this value: decided by its code, or left to a worker that has the code."""
        step = self._app.tasks.get(record.task)
        if step is not None:
            if not step._is_step:
                raise UnknownTask(record.task, self._app.tasks)
            return step._finish(record, value, ())
        run = await self._app.internals.session.store.run(record.run_id or "")
        if run is None:
            raise self._not_found()
        return finish_elsewhere(record, run.flow, value, self._app.internals.caller_of(record)._results)


class Job(Handle, Generic[R_co]):
    """A handle on one job: what was last known of it, and what can be done to it.

    ```python
    job = send_welcome.enqueue(42)
    job.id, job.state  # no I/O: what was last known
    job.refresh().state  # read again from the store
    job.result(timeout=10)  # wait until the job is final
    ```

    Every method has an async twin whose name begins with `a`: `await job.aresult()`. `app.job(job_id)` gives a handle on a
    job that another process has enqueued.
    """

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
        """Everything about the job, as last read; None if only the answer to its enqueue is known."""
        return self._record

    async def arefresh(self) -> Self:
        """Read the job again, and return this handle. `JobNotFound` if it is gone."""
        [record] = await self._app.internals.session.store.get([self._id])
        if record is None:
            raise self._not_found()
        self._update(record)
        return self

    async def aattempts(self) -> list[AttemptRecord]:
        """The latest ten or so attempts, oldest first, including one that is running. `JobNotFound` if the job is gone."""
        await self.arefresh()
        assert self._record is not None
        return attempts_of(self._record)

    async def aresult(self, timeout: Duration | None = None) -> R_co:
        """Wait until the job is final, and return its result. For the first step of a run it is the result of the run.

        `JobFailed`, `JobCancelled` or `JobBroken` if it ended without a result. `ResultTimeout` if it is not final after
        `timeout` seconds: 0 looks once, None (the default) waits without limit. `ResultGone` if its record is no longer
        kept.
        """
        record = self._record
        if record is None or not record.state.final or _is_first_step_left(record):
            record = await self._wait_until_final(timeout)
            if record.id == self._id:
                self._update(record)
        results = self._results if record.id == self._id else self._app.internals.caller_of(record)._results
        return self._result_of(record, results)  # type: ignore[no-any-return]

    async def acomplete(self, value: Any = None) -> None:
        """End the job as succeeded with this result, in any state that is not final.

        A worker that runs it aborts the attempt. A step of a flow hands over as if its function had returned `value`, which
        may be a `Next`. If this app has no code of the flow, a worker that has it decides what follows; see
        `FlowRun.complete`.

        `WrongState` if it is final. `MissingAttribute`, `BlockerNotFound` or `UniqueConflict`, with nothing changed, if the
        jobs that are to follow cannot be created.
        """
        if self._duplicate and self._record is None:
            await self.arefresh()  # it may be a step: the handle does not know yet
        if self._record is not None and self._record.run_id is not None:
            if await self._complete(self._record, value) is None:
                await self.arefresh()
                raise WrongState(self._id, self._state, "not final")
        else:
            finish = Finish(State.SUCCEEDED, self._results.encode_freely(value))
            self._require(await self._app.internals.session.store.complete(self._id, finish), "not final")
        self._set_state(State.SUCCEEDED)
        await self._continue_inline()

    refresh = blocking(arefresh)
    attempts = blocking(aattempts)
    result = blocking(aresult)
    complete = blocking(acomplete)

    def _update(self, record: JobRecord) -> None:
        super()._update(record)
        self._queue = record.queue

    async def _fetch(self) -> JobRecord | None:
        [record] = await self._app.internals.session.store.get([self._id])
        if record is not None and _is_first_step_left(record):
            run = await self._app.internals.session.store.run(self._id)
            return None if run is None else run.step
        return record


def _is_first_step_left(record: JobRecord) -> bool:
    """Whether this is a first step that has handed over: from then on its id means the run."""
    return record.run_id == record.id and record.successor is not None
