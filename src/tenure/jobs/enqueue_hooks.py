"""Calls the hooks around an enqueue and a cancellation, with an `Enqueueing` or a `Dequeueing`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.core.job import NewJob, State
from tenure.errors import EnqueueRefused
from tenure.hooks.calling import HookCalls
from tenure.hooks.registry import Hooks, name_of
from tenure.stores.values import Enqueued
from tenure.sync import refuse_on_loop, run

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.jobs.handle import Handle
    from tenure.tasks.task import Call

__all__ = [
    "Dequeueing",
    "Enqueueing",
    "after_dequeue",
    "after_enqueue",
    "after_enqueue_of_children",
    "before_dequeue",
    "before_enqueue",
    "wait_in_job",
]


class Enqueueing:
    """A job that is about to be enqueued, or a run that is about to be started: the argument of `before_enqueue` hooks."""

    def __init__(self, app: App, job: NewJob) -> None:
        self._app = app
        self.job = job
        """The job as it will be stored, with the options of `using`: delay, priority, tags, unique and so on."""

    @property
    def id(self) -> str:
        """The id of the job or run. If another job owns the unique key, the handle will have that one's id instead."""
        return self.job.id

    @property
    def task(self) -> str:
        """The name of the task; of a run, that of its first step."""
        return self.job.task

    @property
    def queue(self) -> str:
        return self.job.queue

    @property
    def flow(self) -> str | None:
        """The name of the flow; None for a job."""
        return None if self.job.step is None else self.job.step.flow

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments, converted by annotation. Empty for a run: its attributes are all in `kwargs`."""
        return self._arguments[0]

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments, or the attributes of a run. Changing them has no effect."""
        return self._arguments[1]

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that a run starts with; empty for a job."""
        return self.kwargs if self.job.step is not None else {}

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the job. Changing them has no effect."""
        return dict(self.job.headers or {})

    @cached_property
    def _arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if self.job.step is None:
            return self._app.internals.caller_of(self.job)._decode(self.job.payload)
        writes = self.job.step.writes
        texts = {} if writes is None else writes.attributes
        plain = {name: msgspec.json.decode(text) for name, text in texts.items()}
        return (), self._app.internals.caller_of(self.job)._converted(plain)

    def __repr__(self) -> str:
        return f"<Enqueueing {self.task} {self.id}>"


class Dequeueing:
    """A bound call whose unfinished jobs are about to be cancelled: the argument of the hooks around a cancellation."""

    def __init__(self, call: Call[Any]) -> None:
        self._call = call

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._call.caller.name

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments, converted by annotation."""
        return self._arguments[0]

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments."""
        return self._arguments[1]

    @cached_property
    def _arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self._call.caller._decode(self._call.payload)

    def __repr__(self) -> str:
        return f"<Dequeueing {self.task}>"


def before_enqueue(app: App, jobs: Sequence[NewJob]) -> HookCalls[None]:
    """Call all `before_enqueue` hooks for all of these jobs. `EnqueueRefused`, for the first refusal, if any returned False."""
    refused: tuple[str, str] | None = None
    for job in jobs:
        hooks = _hooks(app, job.task).of("before_enqueue")
        enqueueing = Enqueueing(app, job)
        for hook in hooks:
            answer = hook(enqueueing)
            if inspect.isawaitable(answer):
                answer = yield answer
            if answer is False and refused is None:
                refused = job.task, name_of(hook)
    if refused is not None:
        raise EnqueueRefused(*refused)


def after_enqueue(
    app: App, jobs: Sequence[NewJob], handles: Sequence[Handle | None], answers: Sequence[Enqueued]
) -> HookCalls[None]:
    """Call the `after_enqueue` hooks for the jobs that were stored, not for duplicates."""
    for job, handle, answer in zip(jobs, handles, answers, strict=True):
        hooks = () if answer.duplicate else _hooks(app, job.task).of("after_enqueue")
        for hook in hooks:
            returned = hook(handle or app.internals.handle_of(job, answer))
            if inspect.isawaitable(returned):
                yield returned


def after_enqueue_of_children(app: App, jobs: Sequence[NewJob]) -> HookCalls[None]:
    """Call the `after_enqueue` hooks for jobs that were created by the success of another."""
    answers = [Enqueued(job.id, State.BLOCKED if job.after else State.WAITING) for job in jobs]
    return after_enqueue(app, jobs, [None] * len(jobs), answers)


def before_dequeue(app: App, calls: Sequence[Call[Any]]) -> HookCalls[bool]:
    """Call all `before_dequeue` hooks for all of these calls. Returns False if any hook vetoed."""
    vetoed = False
    for call in calls:
        dequeueing = Dequeueing(call)
        for hook in _hooks(app, dequeueing.task).of("before_dequeue"):
            answer = hook(dequeueing)
            if inspect.isawaitable(answer):
                answer = yield answer
            vetoed = vetoed or answer is False
    return not vetoed


def after_dequeue(app: App, counts: Sequence[tuple[Call[Any], int]]) -> HookCalls[None]:
    """Call the `after_dequeue` hooks with the number of jobs that were cancelled for each call."""
    for call, count in counts:
        dequeueing = Dequeueing(call)
        for hook in _hooks(app, dequeueing.task).of("after_dequeue"):
            returned = hook(dequeueing, count)
            if inspect.isawaitable(returned):
                yield returned


def wait_in_job(awaitable: Awaitable[Any]) -> Any:
    """Wait for an async hook of `ctx.enqueue` in a thread. `UseAsync` on the event loop of a job, which would stand still."""

    async def waited() -> Any:
        return await awaitable

    try:
        refuse_on_loop("ctx.enqueue", "a hook of it is async: await ctx.aenqueue()")
    except BaseException:
        if inspect.iscoroutine(awaitable):
            awaitable.close()
        raise
    return run(waited())


def _hooks(app: App, task: str) -> Hooks:
    found = app.tasks.get(task)
    return app.internals.hooks if found is None else found._hooks
