"""`FlowRun`, the handle on one run of a flow, and the pages in which runs and their steps are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec

from tenure.core.checks import Duration
from tenure.core.job import ErrorInfo, JobRecord, State
from tenure.core.outcome import NamedStep
from tenure.errors import InvalidOption, JobNotFound, WrongState
from tenure.jobs.handle import Handle
from tenure.stores.base import BATCH
from tenure.stores.values import Enqueued, RunRecord
from tenure.sync import blocking

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["FlowRun", "RunPage", "StepInfo", "StepPage", "step_name"]


class StepInfo(msgspec.Struct, frozen=True):
    """One step in the history of a run. Times are seconds since the epoch by the store's clock."""

    id: str
    """The id of its job."""

    name: str
    queue: str
    state: State
    attempts: int
    losses: int
    """How often its worker was lost."""

    created_at: float
    started_at: float | None
    """Start of the latest attempt; None if there was none."""

    ended_at: float | None
    worker: str | None
    """The worker that runs it, or ran it last."""

    error: ErrorInfo | None
    """The error of the latest failed attempt; None once an attempt has succeeded."""

    @classmethod
    def of(cls, job: JobRecord, flow: str) -> StepInfo:
        return cls(
            job.id, step_name(job.task, flow), job.queue, job.state, job.attempt, job.losses,
            job.created_at, job.started_at, job.ended_at, job.worker, job.error,
        )  # fmt: skip


class StepPage(list[StepInfo]):
    """One page of the history of a run."""

    cursor: str | None
    """Pass it as `cursor=` to get the next page; None at the end."""


class RunPage(list["FlowRun"]):
    """One page of a listing of runs."""

    cursor: str | None
    """Pass it as `cursor=` to get the next page; None at the end. A page may be short, even empty, and not be the last."""


class FlowRun(Handle):
    """A handle on one run of a flow: what was last known of it, and what can be done to it.

    ```python
    run = order.start(sku="lamp", quantity=2)
    run.step, run.state  # no I/O: what was last known
    run.refresh().step  # read again from the store
    run.result(timeout=60)  # wait until the run has ended
    ```

    A run is in the state of its current step. `cancel`, `trigger` and `release` act on that step; `retry` continues from
    the step that the run ended with. Every method has an async twin whose name begins with `a`: `await run.aresult()`.
    """

    __slots__ = ("_completed_queue", "_created_at", "_flow", "_step")

    def __init__(self, app: App, run_id: str, flow: str, step: str | None = None) -> None:
        super().__init__(app, run_id)
        self._flow = flow
        self._step = step
        self._completed_queue: str | None = None
        self._created_at: float | None = None

    def __repr__(self) -> str:
        return f"<FlowRun {self._id} of {self._flow}, {self._state}" + (f" in {self._step}>" if self._step else ">")

    @property
    def flow(self) -> str:
        """The name of its flow."""
        return self._flow

    @property
    def step(self) -> str | None:
        """The name of its current step, or of its last one once it is final; None if it has not been read."""
        return self._step

    @property
    def created_at(self) -> float | None:
        """When it was started, in seconds since the epoch; None if it has not been read."""
        return self._created_at

    @property
    def completed_queue(self) -> str | None:
        """The queue of the latest step that has succeeded, as last read."""
        return self._completed_queue

    @property
    def failed_queue(self) -> str | None:
        """The queue of the step in which the run failed, as last read; None if it has not failed."""
        return self._record.queue if self.failed and self._record is not None else None

    @property
    def record(self) -> JobRecord | None:
        """Everything about its current step, as last read; None if only the answer to its start is known."""
        return self._record

    async def arefresh(self) -> Self:
        """Read the run again, and return this handle. `JobNotFound` if it is gone."""
        self._update_run(await self._fetch_run())
        return self

    async def aattributes(self, *names: str) -> dict[str, Any]:
        """The attributes of the run by name, as plain JSON values: all of them, or those of `names` that the run has."""
        found = await self._app.internals.session.store.attributes(self._id, names or None)
        if not found:
            await self.arefresh()  # it may have no attributes, or be gone
        return {name: msgspec.json.decode(value) for name, value in found.items()}

    async def asteps(self, *, limit: int = BATCH, cursor: str | None = None) -> StepPage:
        """The steps of the run so far, the first one first, up to `limit` on a page. `JobNotFound` if the run is gone."""
        if not 1 <= limit <= BATCH:
            raise InvalidOption(f"limit must be between 1 and {BATCH}, got {limit}")
        found = await self._app.internals.session.store.steps(self._id, limit, cursor)
        if not found.jobs and cursor is None:
            raise self._not_found()
        page = StepPage(StepInfo.of(job, self._flow) for job in found.jobs)
        page.cursor = found.cursor
        return page

    async def aresult(self, timeout: Duration | None = None) -> Any:
        """Wait until the run has ended, and return its result, which is that of its last step.

        `JobFailed`, `JobCancelled` or `JobBroken` if it ended without a result. `ResultTimeout` if it has not ended after
        `timeout` seconds: 0 looks once, None (the default) waits without limit. `ResultGone` if it is no longer kept.
        """
        if self._record is None or not self._record.state.final:
            self._update(await self._wait_until_final(timeout))
        assert self._record is not None
        return self._result_of(self._record, self._app.internals.caller_of(self._record)._results)

    async def acomplete(self, value: Any = None, *, step: str | NamedStep | None = None) -> None:
        """End the current step as if its function had returned `value`, which may be a `Next`, a `Done` or a mapping.

        A worker that runs the step aborts the attempt. With `step`, nothing is done unless that is the current step:
        `WrongState`. `WrongState` also if the run has ended. Other errors are those of `Job.complete`.

        A program without the code of the flow can call this too. The value is stored, and the next worker that has the code
        ends the step with it, without calling the function. Until then the run stays in this step, and completing it again
        is `WrongState`. A value that means nothing to the step breaks the run. `Done(value)` needs no code and ends the run
        at once.
        """
        wanted = getattr(step, "step_name", step)
        while True:
            run = await self._fetch_run()
            self._update_run(run)
            if wanted is not None and wanted not in (self._step, self._name_of(run.step)):
                raise WrongState(self._id, self._state, "", f"its current step is {self._step!r}, not {wanted!r:.80}")
            if self.done:
                raise WrongState(self._id, self._state, "not final")
            finish = await self._complete(run.step, value)
            # None: the step has handed over meanwhile, so the value is for the next one.
            if finish is not None:
                break
        self._completed_queue = run.step.queue
        successor = finish.successor
        if successor is None:
            self._set_state(State.SUCCEEDED)
        else:
            self._set_state(State.BLOCKED if successor.after else State.WAITING)
            self._step = step_name(successor.task, self._flow)
        await self._continue_inline()

    refresh = blocking(arefresh)
    attributes = blocking(aattributes)
    steps = blocking(asteps)
    result = blocking(aresult)
    complete = blocking(acomplete)

    # Answers of the store.

    def _update_enqueued(self, answer: Enqueued) -> None:
        super()._update_enqueued(answer)
        if answer.duplicate:
            self._step = None  # it may be in another step by now

    def _update_run(self, run: RunRecord) -> None:
        """Store what the store knows of the run."""
        self._update(run.step)
        self._completed_queue = run.completed_queue
        self._created_at = run.created_at

    def _update(self, record: JobRecord) -> None:
        super()._update(record)
        self._step = step_name(record.task, self._flow)
        if record.state is State.SUCCEEDED:
            self._completed_queue = record.queue

    def _name_of(self, step: JobRecord) -> str | None:
        """The name of a step in this app's code. The step may have had another name when it was created."""
        return getattr(self._app.tasks.get(step.task), "step_name", None)

    async def _fetch_run(self) -> RunRecord:
        run = await self._app.internals.session.store.run(self._id)
        if run is None:
            raise self._not_found()
        return run

    async def _fetch(self) -> JobRecord | None:
        run = await self._app.internals.session.store.run(self._id)
        return None if run is None else run.step

    def _not_found(self) -> JobNotFound:
        return JobNotFound(self._id, "run")


def step_name(task: str, flow: str) -> str:
    """The name of a step, from the name of its task."""
    return task.removeprefix(f"{flow}.")
