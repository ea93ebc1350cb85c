"""Registers hooks: functions that are called around an enqueue, an attempt or a cancellation, and in the life of a worker.

An app has hooks of every kind; a task has those about its own jobs. See `calling.py` for how they are called.
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
"""Called without arguments, at a moment in the life of a worker."""

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
"""What the hooks about jobs are called with; the app has them, and each task."""

WORKER = dict.fromkeys(
    (
        "on_start", "on_stop", "before_first_fork", "before_fork", "after_fork", "queue_empty", "before_pause",
        "after_pause", "worker_exit",
    ),
    (),
)  # fmt: skip
"""Those about a worker, which only the app has, are called with nothing."""

ARGUMENTS: dict[str, tuple[str, ...]] = {**JOB, **WORKER}

INSIDE_OUT = frozenset({"after_enqueue", "after_dequeue", "after_perform", "on_failure", "on_stop", "after_pause"})
"""What undoes or follows something is called in the reverse order."""


class Hooks:
    """Functions by the moment at which they are called. That of a task knows that of its app, whose come first."""

    def __init__(self, of_app: Hooks | None = None) -> None:
        self._of_app = of_app
        self._hooks: dict[str, list[Callable[..., Any]]] = {}
        self.enqueues = False
        """Of an app: whether anybody, here or at a task, wants to know of enqueues. All that an enqueue pays if nobody does."""

    def add(self, name: str, hook: Callable[..., Any]) -> None:
        """Have a function called at this moment; `InvalidOption` if there is no such moment, or it cannot be called like that."""
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
        """The functions for this moment, in the order in which they are called: the app's are the outer ones."""
        outer = self._of_app.registered(name) if self._of_app is not None else []
        found = [*outer, *self.registered(name)]
        return found[::-1] if name in INSIDE_OUT else found

    def registered(self, name: str) -> list[Callable[..., Any]]:
        """Those that were registered here, in that order."""
        return self._hooks.get(name, [])


def _check(name: str, hook: Callable[..., Any]) -> None:
    wanted = ARGUMENTS[name]
    try:
        signature = inspect.signature(hook)
    except (TypeError, ValueError):
        return  # of what is written in C it may not be known
    try:
        signature.bind(*wanted)
    except TypeError:
        raise InvalidOption(
            f"{name} is called with ({', '.join(wanted)}), and {name_of(hook)}{signature} does not take that"
        ) from None


def name_of(hook: object) -> str:
    """What to call a hook in a message."""
    return getattr(hook, "__qualname__", None) or repr(hook)


class JobHooks:
    """`@app.before_enqueue`, `@send_welcome.on_failure`: the hooks about jobs; of the app for all of them, of a task for its own.

    Those of the app are the outer ones. Register them before the worker starts: it looks them up once.
    """

    _hooks: Hooks

    def before_enqueue(self, hook: BE, /) -> BE:
        """Call this before a job is enqueued or a run started: `hook(call)`. False, exactly, refuses it: `EnqueueRefused`."""
        self._hooks.add("before_enqueue", hook)
        return hook

    def after_enqueue(self, hook: AE, /) -> AE:
        """Call this with each job, or run, that has been stored."""
        self._hooks.add("after_enqueue", hook)
        return hook

    def before_dequeue(self, hook: BD, /) -> BD:
        """Call this before the jobs of a bound call are cancelled: `hook(call)`. False, exactly, vetoes it: nothing is cancelled."""
        self._hooks.add("before_dequeue", hook)
        return hook

    def after_dequeue(self, hook: AD, /) -> AD:
        """Call this after they were, with how many: `hook(call, cancelled)`."""
        self._hooks.add("after_dequeue", hook)
        return hook

    def before_perform(self, hook: BP, /) -> BP:
        """Call this before each attempt: `hook(ctx)`. False, exactly, skips the function, and the job succeeds without a result."""
        self._hooks.add("before_perform", hook)
        return hook

    def around_perform(self, hook: RP, /) -> RP:
        """Call this in place of the function: `hook(ctx, call_next)`; what it returns is the result, of `call_next()` or another."""
        self._hooks.add("around_perform", hook)
        return hook

    def after_perform(self, hook: AP, /) -> AP:
        """Call this after an attempt that has succeeded: `hook(ctx, result)`. What it raises is the attempt's."""
        self._hooks.add("after_perform", hook)
        return hook

    def on_failure(self, hook: OF, /) -> OF:
        """Call this once for each attempt that has failed: `hook(ctx, error, final)`; `final`: the job has failed for good."""
        self._hooks.add("on_failure", hook)
        return hook

    if not TYPE_CHECKING:  # a type checker that saw this would believe in any hook

        def __getattr__(self, name: str) -> Any:
            if name in WORKER:
                raise AttributeError(f"{name} is about a worker, not about one task: write @app.{name}")
            if name.startswith(("before_", "around_", "after_", "on_")):
                raise AttributeError(f"there is no hook {name!r}: there are {', '.join(ARGUMENTS)}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class WorkerHooks:
    """`@app.on_start` and its like: the hooks about a worker, which only an app has. They are called without arguments."""

    _hooks: Hooks

    def on_start(self, hook: H, /) -> H:
        """Call this once in each worker process, on the worker's loop, before its first job; an exception ends the worker.

        Put what it opens into `app.state`.
        """
        self._hooks.add("on_start", hook)
        return hook

    def on_stop(self, hook: H, /) -> H:
        """Call this there after its last job, the latest registered first; also if an `on_start` has failed."""
        self._hooks.add("on_stop", hook)
        return hook

    def before_first_fork(self, hook: H, /) -> H:
        """Call this once at the start of every worker, before its first job.

        It runs in the process whose memory the children of isolated tasks inherit; if no task is isolated, in the worker's own.
        """
        self._hooks.add("before_first_fork", hook)
        return hook

    def before_fork(self, hook: H, /) -> H:
        """Call this in that process before each child is forked."""
        self._hooks.add("before_fork", hook)
        return hook

    def after_fork(self, hook: H, /) -> H:
        """Call this in each child, before its task; an exception is the attempt's. `tenure.current()` tells which job it is."""
        self._hooks.add("after_fork", hook)
        return hook

    def queue_empty(self, hook: H, /) -> H:
        """Call this when a worker that has worked finds nothing more to do; not when it starts."""
        self._hooks.add("queue_empty", hook)
        return hook

    def before_pause(self, hook: H, /) -> H:
        """Call this before a worker takes no new jobs: by USR2, or `worker.pause()`."""
        self._hooks.add("before_pause", hook)
        return hook

    def after_pause(self, hook: H, /) -> H:
        """Call this once it takes jobs again: by CONT, or `worker.resume()`."""
        self._hooks.add("after_pause", hook)
        return hook

    def worker_exit(self, hook: H, /) -> H:
        """Call this in a worker's process when the worker has ended, or has failed to start."""
        self._hooks.add("worker_exit", hook)
        return hook
