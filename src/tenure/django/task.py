"""TenureTask: a task of Django with options of Tenure beside Django's own. `task`: the decorator that makes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypedDict, TypeVar, Unpack, overload

from tenure.core.backoff import Backoff
from tenure.core.checks import Duration, job_options
from tenure.core.options import UNSET, TaskOptions, Unset, build_options
from tenure.django.framework import InvalidTask, Task, TaskContext
from tenure.errors import InvalidName, InvalidOption

__all__ = ["TenureTask", "job_options_of", "task", "task_options_of"]

P = ParamSpec("P")
T = TypeVar("T")

_OF_THE_JOB = ("max_attempts", "unique", "keep", "expires")
"""Options of Tenure that `using` takes."""

_OF_THE_TASK = ("retry", "timeout", "isolation")
"""Options of Tenure that only `@task` takes: the store does not keep them, so a worker knows only those of the function."""


class JobKeywords(TypedDict, total=False):
    """Options of Tenure that one job may have: `task.using(...)`. `TenureTask` describes them."""

    max_attempts: int | None
    unique: str | bool | None
    keep: Duration | None
    expires: Duration | None


class TaskKeywords(JobKeywords, total=False):
    """Options of `@task(...)`: those of Django, and those of `TenureTask`."""

    priority: int
    queue_name: str
    backend: str
    retry: Backoff | int | None
    timeout: Duration | None
    isolation: Literal["process"] | None


if TYPE_CHECKING:

    class _Task(Task[P, T]): ...

else:

    class _Task(Task):
        """Takes type parameters, which the `Task` of Django 6 does not."""

        __slots__ = ()

        def __class_getitem__(cls, _: object) -> type:
            return cls


@dataclass(frozen=True, slots=True, kw_only=True)
class TenureTask(_Task[P, T]):
    """A task of a `TenureBackend`. `@task(...)` takes these fields, and `using(...)` those that one job may have."""

    max_attempts: int | Unset | None = UNSET
    """Attempts before a job that raises fails. Default: 1, unless `retry` is given here or in OPTIONS["APP"]. None: no limit.

    An attempt whose worker died does not count: the job runs again.
    """

    retry: Backoff | int | Unset | None = UNSET
    """How an exception is retried: a `Backoff`, or a number of retries. None: not at all."""

    timeout: Duration | None = None
    """Seconds that one attempt may take. None: no limit."""

    unique: str | bool | None = None
    """Unique key: one job of the task has it at a time. True: derived from the arguments. `enqueue` returns the job that has it."""

    keep: Duration | None = None
    """Seconds that finished jobs, and so results, are kept; 0 deletes them at once. None: as OPTIONS["APP"] says, else an hour."""

    isolation: Literal["process"] | Unset | None = UNSET
    """`"process"`: run each attempt in a child process."""

    expires: Duration | None = None
    """Seconds within which the job must have started, or it is cancelled. None: never."""

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        **options: Unpack[JobKeywords],
    ) -> Self:
        """The same task with other options: those of Django, and `max_attempts`, `unique`, `keep` and `expires`."""
        for option in options:
            if option in _OF_THE_TASK:
                raise InvalidTask(f"{option} is an option of the function, not of one job: write @task({option}=…)")
            if option not in _OF_THE_JOB:
                raise TypeError(f"using() got an unexpected keyword argument {option!r}")
        given = {"priority": priority, "queue_name": queue_name, "run_after": run_after, "backend": backend}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return replace(self, **changes, **options)


@overload
def task(function: Callable[P, T], /) -> TenureTask[P, T]: ...
@overload
def task(
    *, takes_context: Literal[True], **options: Unpack[TaskKeywords]
) -> Callable[[Callable[Concatenate[TaskContext, P], T]], TenureTask[P, T]]: ...
@overload
def task(
    *, takes_context: Literal[False] = False, **options: Unpack[TaskKeywords]
) -> Callable[[Callable[P, T]], TenureTask[P, T]]: ...
def task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a task of a function: as Django's own decorator, with the options of `TenureTask` in `@task(...)` and `using(...)`.

    Type checkers know the options. And the task can be made while `TASKS` names a backend that lacks them, such as Django's
    `ImmediateBackend` in the settings of tests; it ignores them.
    """

    def make(function: Callable[..., Any]) -> TenureTask[..., Any]:
        return TenureTask(func=function, **options)

    return make if function is None else make(function)


def task_options_of(task: Task[..., Any], app: Mapping[str, Any]) -> dict[str, Any]:
    """Options of Tenure's task for this task of Django. `app`: those of the app. `InvalidTask` if one is wrong."""
    given: dict[str, Any] = {"queue": task.queue_name, "priority": -task.priority}
    if isinstance(task, TenureTask):
        options = {name: getattr(task, name) for name in ("retry", "max_attempts", "timeout", "keep", "isolation")}
        given |= {name: value for name, value in options.items() if not isinstance(value, Unset)}
    if not ({"retry", "max_attempts"} & given.keys() or {"retry", "max_attempts"} & app.keys()):
        given["max_attempts"] = 1  # as every other backend of Django: no retries unless they are asked for
    try:
        build_options(TaskOptions, f"task {task.module_path!r}", given)
    except (InvalidOption, InvalidName) as error:
        raise InvalidTask(str(error)) from None
    return given


def job_options_of(task: Task[..., Any], run_at: datetime | None) -> dict[str, Any]:
    """Options of one job of this task, as `using` of Tenure takes them. `InvalidTask` if one is wrong."""
    given: dict[str, Any] = {"queue": task.queue_name, "priority": -task.priority}
    if run_at is not None:
        given["run_at"] = run_at
    if isinstance(task, TenureTask):
        given |= {name: getattr(task, name) for name in ("unique", "keep", "expires")}
        if not isinstance(task.max_attempts, Unset):
            given["max_attempts"] = task.max_attempts
    try:
        job_options(given)
    except (InvalidOption, InvalidName) as error:
        raise InvalidTask(f"task {task.module_path!r}: {error}") from None
    return given
