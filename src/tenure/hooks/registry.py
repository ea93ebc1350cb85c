"""Registers hooks: functions called around an enqueue, an attempt or a cancellation, and in the life of a worker.

An app has hooks of every kind; a task has those about its own jobs. `calling.py` calls them.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tenure.errors import InvalidOption

if TYPE_CHECKING:
    from tenure.core.outcome import Answer
    from tenure.jobs.enqueue_hooks import Dequeueing, Enqueueing
    from tenure.jobs.handle import Job
    from tenure.jobs.run import FlowRun
    from tenure.tasks.context import Context

__all__ = ["Hook", "Hooks", "JobHooks", "WorkerHooks", "name_of"]

Hook = Callable[[], object]
"""A hook about a worker, called without arguments."""

BeforeEnqueue = Callable[["Enqueueing"], "bool | Awaitable[bool | None] | None"]
AfterEnqueue = Callable[["Job[Any] | FlowRun"], object]
BeforeDequeue = Callable[["Dequeueing"], "bool | Awaitable[bool | None] | None"]
AfterDequeue = Callable[["Dequeueing", int], object]
BeforePerform = Callable[["Context"], "bool | Answer | Awaitable[bool | Answer | None] | None"]
AroundPerform = Callable[["Context", Callable[[], Any]], Any]
AfterPerform = Callable[["Context", Any], object]
OnFailure = Callable[["Context", BaseException, bool], object]

H = TypeVar("H", bound=Hook)
BE = TypeVar("BE", bound=BeforeEnqueue)
AE = TypeVar("AE", bound=AfterEnqueue)
BD = TypeVar("BD", bound=BeforeDequeue)
AD = TypeVar("AD", bound=AfterDequeue)
BP = TypeVar("BP", bound=BeforePerform)
RP = TypeVar("RP", bound=AroundPerform)
AP = TypeVar("AP", bound=AfterPerform)
OF = TypeVar("OF", bound=OnFailure)

JOB = {
    "before_enqueue": ("call",),
    "after_enqueue": ("job",),
    "before_dequeue": ("call",),
    "after_dequeue": ("call", "cancelled"),
    "before_perform": ("ctx",),
    "around_perform": ("ctx", "call_next"),
    "after_perform": ("ctx", "result"),
    "on_failure": ("ctx", "error", "final"),
}
"""The hooks about jobs, which the app and each task have, with the names of their arguments."""

WORKER = dict.fromkeys(
    (
        "on_start", "on_stop", "before_first_fork", "before_fork", "after_fork", "queue_empty", "before_pause",
        "after_pause", "worker_exit",
    ),
    (),
)  # fmt: skip
"""The hooks about a worker, which only the app has; called without arguments."""

ARGUMENTS: dict[str, tuple[str, ...]] = {**JOB, **WORKER}

INSIDE_OUT = frozenset({"after_enqueue", "after_dequeue", "after_perform", "on_failure", "on_stop", "after_pause"})
"""Hooks that follow or undo something: called in the reverse order of registration, the app's last."""


class Hooks:
    """Hook functions by hook name. A task's hooks extend its app's; the app's run outermost."""

    def __init__(self, of_app: Hooks | None = None) -> None:
        self._of_app = of_app
        self._hooks: dict[str, list[Callable[..., Any]]] = {}
        self.enqueues = False
        """On the `Hooks` of an app: whether it or any task has a hook around enqueues. Without one, an enqueue pays no more."""

    def add(self, name: str, hook: Callable[..., Any]) -> None:
        """Register a function for this hook.

        `InvalidOption` if there is no such hook, or if the function does not take its arguments.
        """
        if name not in ARGUMENTS:
            raise InvalidOption(f"there is no hook {name!r:.80}: there are {', '.join(ARGUMENTS)}")
        if self._of_app is not None and name in WORKER:
            raise InvalidOption(f"{name} is about a worker, not about one task: write @app.{name}")
        if not callable(hook):
            raise InvalidOption(f"{name} takes a function, got {hook!r:.80}: write @….{name} above a def")
        _check(name, hook)
        self._hooks.setdefault(name, []).append(hook)
        if name in ("before_enqueue", "after_enqueue"):
            (self._of_app or self).enqueues = True

    def of(self, name: str) -> list[Callable[..., Any]]:
        """The functions of this hook in the order of the calls. The app's are outermost."""
        outer = self._of_app.registered(name) if self._of_app is not None else []
        found = [*outer, *self.registered(name)]
        return found[::-1] if name in INSIDE_OUT else found

    def registered(self, name: str) -> list[Callable[..., Any]]:
        """The functions that were registered here, in the order of registration."""
        return self._hooks.get(name, [])


def _check(name: str, hook: Callable[..., Any]) -> None:
    wanted = ARGUMENTS[name]
    try:
        signature = inspect.signature(hook)
    except (TypeError, ValueError):
        return  # functions written in C may have no signature
    try:
        signature.bind(*wanted)
    except TypeError:
        raise InvalidOption(
            f"{name} is called with ({', '.join(wanted)}), and {name_of(hook)}{signature} does not take that"
        ) from None


def name_of(hook: object) -> str:
    """The name of a hook, for messages."""
    return getattr(hook, "__qualname__", None) or repr(hook)


class JobHooks:
    """Decorators for the hooks about jobs: `@app.before_enqueue` for all jobs, `@task.on_failure` for those of one task.

    The app's hooks are the outer ones. Register hooks before the worker starts, because it looks them up once.
    """

    _hooks: Hooks

    def before_enqueue(self, hook: BE, /) -> BE:
        """Call this before a job is enqueued or a run started: `hook(call)`. Returning False refuses it: `EnqueueRefused`."""
        self._hooks.add("before_enqueue", hook)
        return hook

    def after_enqueue(self, hook: AE, /) -> AE:
        """Call this after a job or run has been stored: `hook(job)`."""
        self._hooks.add("after_enqueue", hook)
        return hook

    def before_dequeue(self, hook: BD, /) -> BD:
        """Call this before the jobs of a bound call are cancelled: `hook(call)`. Returning False vetoes it."""
        self._hooks.add("before_dequeue", hook)
        return hook

    def after_dequeue(self, hook: AD, /) -> AD:
        """Call this after the jobs of a bound call were cancelled: `hook(call, cancelled)`, where `cancelled` is their number."""
        self._hooks.add("after_dequeue", hook)
        return hook

    def before_perform(self, hook: BP, /) -> BP:
        """Call this before each attempt: `hook(ctx)`.

        Returning False skips the function, and the job succeeds without a result. Returning an answer, such as `Retry()`,
        ends the attempt with it.
        """
        self._hooks.add("before_perform", hook)
        return hook

    def around_perform(self, hook: RP, /) -> RP:
        """Call this in place of the function: `hook(ctx, call_next)`. Its return value is the result of the attempt."""
        self._hooks.add("around_perform", hook)
        return hook

    def after_perform(self, hook: AP, /) -> AP:
        """Call this after an attempt has succeeded: `hook(ctx, result)`. If it raises, the attempt fails with that error."""
        self._hooks.add("after_perform", hook)
        return hook

    def on_failure(self, hook: OF, /) -> OF:
        """Call this once after each failed attempt: `hook(ctx, error, final)`. `final` is True if the job is not tried again."""
        self._hooks.add("on_failure", hook)
        return hook

    if not TYPE_CHECKING:  # or a type checker would accept any name

        def __getattr__(self, name: str) -> Any:
            if name in WORKER:
                raise AttributeError(f"{name} is about a worker, not about one task: write @app.{name}")
            if name.startswith(("before_", "around_", "after_", "on_")):
                raise AttributeError(f"there is no hook {name!r}: there are {', '.join(ARGUMENTS)}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class WorkerHooks:
    """Decorators for the hooks about a worker, such as `@app.on_start`. They are called without arguments."""

    _hooks: Hooks

    def on_start(self, hook: H, /) -> H:
        """Call this once in each worker process, on the worker's loop, before its first job. An exception ends the worker.

        Put what it opens into `app.state`.
        """
        self._hooks.add("on_start", hook)
        return hook

    def on_stop(self, hook: H, /) -> H:
        """Call this on the same loop after the last job, latest registered first; also if an `on_start` hook has failed."""
        self._hooks.add("on_stop", hook)
        return hook

    def before_first_fork(self, hook: H, /) -> H:
        """Call this once at the start of every worker, before its first job.

        It runs in the process whose memory the children of isolated tasks inherit, or in the worker itself if no task is
        isolated.
        """
        self._hooks.add("before_first_fork", hook)
        return hook

    def before_fork(self, hook: H, /) -> H:
        """Call this before each child is forked, in the process that forks it."""
        self._hooks.add("before_fork", hook)
        return hook

    def after_fork(self, hook: H, /) -> H:
        """Call this in each child before its task. If it raises, the attempt fails. `tenure.current()` is the job's context."""
        self._hooks.add("after_fork", hook)
        return hook

    def queue_empty(self, hook: H, /) -> H:
        """Call this when a worker has run jobs and then finds no more; not when it starts."""
        self._hooks.add("queue_empty", hook)
        return hook

    def before_pause(self, hook: H, /) -> H:
        """Call this before a worker stops taking new jobs: on USR2, or by `worker.pause()`."""
        self._hooks.add("before_pause", hook)
        return hook

    def after_pause(self, hook: H, /) -> H:
        """Call this after a worker has begun to take jobs again: on CONT, or by `worker.resume()`."""
        self._hooks.add("after_pause", hook)
        return hook

    def worker_exit(self, hook: H, /) -> H:
        """Call this in a worker's process when the worker has ended, or has failed to start."""
        self._hooks.add("worker_exit", hook)
        return hook
