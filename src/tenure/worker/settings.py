"""`Settings`: the settings for the jobs of one task on one worker, looked up once on task, worker and app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenure.core.backoff import Backoff
from tenure.core.checks import seconds
from tenure.core.lifecycle import Policy
from tenure.core.options import UNSET, AppOptions, Unset, WorkerOptions
from tenure.hooks.around import FailureHooks, PerformHooks, failure_hooks_of, perform_hooks_of
from tenure.tasks.task import Task

__all__ = ["Settings", "SettingsByTask", "resolve", "shortened"]


MAX_SHOWN = 10
"""Names that `shortened` shows at most."""

LANES = ("loop", "thread", "process")
"""Where a function may run."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one task. `task` is None for a task that this worker does not know."""

    task: Task[..., Any] | None
    policy: Policy
    lease: float
    """Length of a lease in seconds, unless the job has its own."""

    renew: float | Unset | None
    """Seconds between renewals. UNSET: when less than two thirds of the lease are left; None: never."""

    timeout: float | None = None
    isolated: bool = False
    """Whether each attempt runs in its own child process."""

    memory_limit: int | None = None
    output: int = 0
    performing: PerformHooks | None = None
    """Hooks to call before, around and after its function; None if there are none."""

    failing: FailureHooks = ()
    """Hooks to call when an attempt has failed."""


class SettingsByTask(dict[str, Settings]):
    """Settings by task name, each looked up when the first job of the task arrives."""

    def __init__(self, tasks: Mapping[str, Task[..., Any]], worker: WorkerOptions, app: AppOptions) -> None:
        super().__init__()
        self._tasks = tasks
        self._worker = worker
        self._app = app

    @property
    def known(self) -> tuple[str, ...]:
        """Names of the tasks that this worker runs, former names included."""
        return tuple(sorted(name for name in self._tasks if self._served(name) is not None))

    @property
    def registered(self) -> tuple[str, ...]:
        """What the registry says of them: `known`, and `charge@2` for a task of version 2 or later."""
        known = self.known
        later = [f"{name}@{version}" for name in known if (version := self._tasks[name].options.version) > 1]
        return (*known, *later)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the app's tasks that this worker does not run."""
        return () if self._worker.tasks is None else tuple(name for name in self._tasks if self._served(name) is None)

    @property
    def lanes(self) -> tuple[str, ...]:
        """Where it runs its tasks: a subset of `LANES`."""
        return tuple(lane for lane in LANES if any(self._lane(name) == lane for name in self.known))

    def _lane(self, name: str) -> str:
        options = self._tasks[name].options
        if (self._worker.isolation if isinstance(options.isolation, Unset) else options.isolation) == "process":
            return "process"
        return "loop" if self._tasks[name]._is_async else "thread"

    def __missing__(self, name: str) -> Settings:
        task = self._served(name)
        settings = resolve(task, self._worker, self._app)
        # Unknown tasks are not cached: their module may be imported later, and other programs could fill the memory
        # with names.
        if task is not None:
            self[name] = settings
        return settings

    def _served(self, name: str) -> Task[..., Any] | None:
        """The task with this name, if this worker runs it."""
        only, task = self._worker.tasks, self._tasks.get(name)
        return task if only is None or task is None or name in only or task.name in only else None


def shortened(names: Sequence[str]) -> str:
    """These names as text; of a long list the first ten and the number of the rest."""
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    return ", ".join(names[:MAX_SHOWN]) + more


def resolve(task: Task[..., Any] | None, worker: WorkerOptions, app: AppOptions) -> Settings:
    """Look up each setting on the task, then on the worker, then on the app."""
    if task is None:
        policy = Policy(
            _backoff(app.retry), app.max_attempts, seconds(app.unknown_for, "unknown_for"), worker.fail_interrupted
        )
        return Settings(None, policy, _first(worker.lease, app.lease), _first(worker.renew, app.renew))
    options = task.options
    lease = _first(options.lease, worker.lease, app.lease)
    renew = _first(options.renew, worker.renew, app.renew)
    if isinstance(renew, float):
        renew = min(renew, lease / 2)  # the two may come from different places that do not know of each other
    policy = Policy(
        _backoff(options.retry, worker.retry, app.retry),
        _first(options.max_attempts, worker.retry + 1 if isinstance(worker.retry, int) else UNSET, app.max_attempts),
        seconds(app.unknown_for, "unknown_for"),
        worker.fail_interrupted,
    )
    timeout = None if options.timeout is None else seconds(options.timeout, "timeout")
    isolated = _first(options.isolation, worker.isolation) == "process"
    return Settings(
        task, policy, lease, renew, timeout, isolated, options.memory_limit, options.output,
        perform_hooks_of(task), failure_hooks_of(task),
    )  # fmt: skip


def _backoff(*places: Backoff | int | Unset | None) -> Backoff | None:
    """The backoff of the first place that has a retry policy.

    An integer there means retries, with the next backoff found.
    """
    given = [value for value in places if not isinstance(value, Unset)]
    if given and isinstance(given[0], int):
        return next((value for value in given if isinstance(value, Backoff)), Backoff())
    return _first(*places)  # type: ignore[no-any-return]


def _first(*places: Any) -> Any:
    """The first setting that is set."""
    return next((value for value in places if not isinstance(value, Unset)), places[-1])
