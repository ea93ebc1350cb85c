"""The user's handle on one job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from tenure.checks import Duration, seconds
from tenure.codec import ResultCodec
from tenure.errors import (
    JobBroken,
    JobCancelled,
    JobFailed,
    JobNotFound,
    ResultGone,
    ResultTimeout,
    UniqueConflict,
    WrongState,
)
from tenure.job import ErrorInfo, JobRecord, State
from tenure.stores.base import Enqueued, Verdict, VerdictKind
from tenure.sync import blocking

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Job"]

R_co = TypeVar("R_co", covariant=True)


class Job(Generic[R_co]):
    """One job: what was last known of it, without I/O, and what can be done to it."""

    __slots__ = ("_app", "_duplicate", "_id", "_queue", "_record", "_results", "_state", "_task")

    def __init__(self, app: App, job_id: str, task: str, queue: str, results: ResultCodec) -> None:
        self._app = app
        self._id = job_id
        self._task = task
        self._queue = queue
        self._results = results
        self._state = State.WAITING
        self._duplicate = False
        self._record: JobRecord | None = None

    def __repr__(self) -> str:
        return f"<Job {self._id} of {self._task}, {self._state}>"

    @property
    def id(self) -> str:
        return self._id

    @property
    def task(self) -> str:
        """The name of its task."""
        return self._task

    @property
    def queue(self) -> str:
        return self._queue

    @property
    def duplicate(self) -> bool:
        """Whether it is an older job, which held the unique key when this one was enqueued."""
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

    @property
    def record(self) -> JobRecord | None:
        """Everything about it, as last read; None if only its enqueueing is known."""
        return self._record

    async def arefresh(self) -> Self:
        """Read the job again; `JobNotFound` if it is gone."""
        [record] = await self._app.session.store.get([self._id])
        if record is None:
            raise JobNotFound(self._id)
        self.note(record)
        return self

    async def aresult(self, timeout: Duration | None = None) -> R_co:
        """Wait until the job is final and give its result.

        `JobFailed`, `JobCancelled` or `JobBroken` if it ended without one, `ResultTimeout` if it is not final after
        `timeout` seconds (0 looks once), `ResultGone` if its record is no longer kept.
        """
        if self._record is None or not self._record.state.final:
            record = await self._final(None if timeout is None else seconds(timeout, "timeout"))
            if record is None:
                raise ResultGone(self._id)
            self.note(record)
        return self._value()

    async def acancel(self) -> None:
        """End it as cancelled, in whatever state it is; its holder is told. `WrongState` if it is final."""
        [verdict] = await self._app.session.store.cancel([self._id])
        self._require(verdict, "not final")
        self._changed(State.CANCELLED)

    async def aretry(self) -> None:
        """Put it at the back of its queue again, as if it had never been tried.

        `WrongState` if it is not final, `UniqueConflict` if another job holds its unique key.
        """
        [verdict] = await self._app.session.store.retry([self._id])
        if verdict.kind is VerdictKind.REFUSED and verdict.other is not None:
            await self.arefresh()
            raise UniqueConflict(self._task, (self._record and self._record.unique) or "", verdict.other)
        self._require(verdict, "final")
        self._changed(State.WAITING)

    async def atrigger(self) -> None:
        """Put it in line now, instead of when it is due; `WrongState` if it is not scheduled."""
        [verdict] = await self._app.session.store.trigger([self._id])
        self._require(verdict, "scheduled")

    async def adelete(self, *, cascade: bool = False) -> None:
        """Remove it; its holder is told. `HasDependents` if other jobs wait for it, unless `cascade` removes those too."""
        if not await self._app.session.store.delete([self._id], cascade=cascade):
            raise JobNotFound(self._id)

    async def acomplete(self, value: Any = None) -> None:
        """End it as succeeded with this result, in whatever state it is; its holder is told. `WrongState` if it is final."""
        verdict = await self._app.session.store.complete(self._id, self._results.encode(value))
        self._require(verdict, "not final")
        self._changed(State.SUCCEEDED)

    refresh = blocking(arefresh)
    result = blocking(aresult)
    cancel = blocking(acancel)
    retry = blocking(aretry)
    trigger = blocking(atrigger)
    delete = blocking(adelete)
    complete = blocking(acomplete)

    # For those who have heard from the store.

    def enqueued(self, answer: Enqueued) -> None:
        """Note what became of the enqueue that made this handle."""
        self._id = answer.id
        self._state = answer.state
        self._duplicate = answer.duplicate

    def note(self, record: JobRecord) -> None:
        """Note what the store knows of the job."""
        self._record = record
        self._state = record.state
        self._queue = record.queue

    def _changed(self, state: State) -> None:
        self._record = None
        self._state = state

    def _require(self, verdict: Verdict, wanted: str) -> None:
        match verdict.kind:
            case VerdictKind.OK:
                return
            case VerdictKind.NOT_FOUND:
                raise JobNotFound(self._id)
            case _:
                self._changed(verdict.state or self._state)
                raise WrongState(self._id, self._state, wanted)

    async def _final(self, timeout: float | None) -> JobRecord | None:
        if timeout == 0:
            [record] = await self._app.session.store.get([self._id])
            if record is None or record.state.final:
                return record
            raise ResultTimeout(self._id, timeout)
        try:
            async with asyncio.timeout(timeout):
                return await self._app.session.waiting.final(self._id)
        except TimeoutError:
            raise ResultTimeout(self._id, timeout or 0.0) from None

    def _value(self) -> R_co:
        record = self._record
        assert record is not None
        if record.state is State.SUCCEEDED:
            return self._results.decode(record.result or "null")  # type: ignore[no-any-return]
        kind = {State.CANCELLED: JobCancelled, State.BROKEN: JobBroken}.get(record.state, JobFailed)
        error = record.error or ErrorInfo(record.state.capitalize(), "somebody ended the job, without giving a reason")
        raise kind(record.id, error.type, error.message, error.traceback)
