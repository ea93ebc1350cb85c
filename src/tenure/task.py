"""Tasks: registered functions with their defaults, and the calls of them that become jobs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, Literal, ParamSpec, TypeAlias, TypeVar, overload

from msgspec.structs import replace

from tenure.after import Bound, checked_after
from tenure.backoff import Backoff
from tenure.checks import Duration, job_options, priority
from tenure.checks import name as checked_name
from tenure.codec import Arguments, JoinArguments, JsonArguments, RawArguments, ResultCodec
from tenure.context import Context, current
from tenure.errors import InvalidOption
from tenure.handle import Job
from tenure.hooks import Hooks, JobHooks
from tenure.job import JobRecord, NewJob, State, new_id
from tenure.lifecycle import Finish
from tenure.options import UNSET, TaskOptions, Unset
from tenure.outcome import Answer, Succeeded
from tenure.signature import Signature
from tenure.stores.values import Enqueued

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.run import FlowRun

__all__ = ["AsyncTask", "Blocker", "Call", "Caller", "Registrar", "Task"]

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Blocker: TypeAlias = "Job[Any] | FlowRun | Bound | str"
"""What a job may wait for."""


class Call(Bound, Generic[R_co]):
    """A task with its arguments, checked and encoded: each enqueue of it is a new job."""

    __slots__ = ("caller", "payload")

    def __init__(self, caller: Caller[..., R_co], payload: bytes) -> None:
        self.caller = caller
        self.payload = payload

    @property
    def after(self) -> Sequence[Any]:
        return self.caller.after

    @property
    def connection(self) -> object:
        """That of whoever makes the jobs."""
        return self.caller.connection

    def new_job(self) -> NewJob:
        return self.caller.new_job(self.payload)

    def handle(self, new: NewJob | Enqueued) -> Job[R_co]:
        """The handle of a job that this call has led to."""
        caller = self.caller
        job: Job[R_co] = Job(caller.app, new.id, caller.name, caller.queue, caller.results)
        if isinstance(new, Enqueued):
            job.enqueued(new)
        return job


class Caller(Generic[P, R_co]):
    """Makes jobs of one task, with certain options; `using` gives another with others."""

    def __init__(
        self,
        app: App,
        name: str,
        arguments: Arguments,
        results: ResultCodec,
        fields: Mapping[str, Any],
        connection: object = None,
        after: tuple[Any, ...] = (),
    ) -> None:
        self.app = app
        self.name = name
        self.results = results
        self.connection = connection
        """The caller's own, in whose transaction the jobs are enqueued; None: in one of the store's."""

        self.after = after
        """What the jobs wait for."""

        self.queue: str = fields["queue"]
        self._arguments = arguments
        self._fields = fields
        self.template = NewJob(id="", task=name, **fields)
        """Copied for each job: many times faster than to make it of its fields."""

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Store one call of the task as a job, durably.

        `TypeError` or `PayloadError`, before any I/O, if the arguments do not fit or cannot be stored.
        """
        return self.app.enqueue(self.bind(*args, **kwargs))[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """The async twin of `enqueue`."""
        [job] = await self.app.aenqueue(self.bind(*args, **kwargs))
        return job

    def enqueue_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[Job[R_co]]:
        """Store many calls in one atomic round trip; each is a tuple of arguments, or a mapping of them by name."""
        return self.app.enqueue(*self._bind_many(calls))

    async def aenqueue_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[Job[R_co]]:
        """The async twin of `enqueue_many`."""
        return await self.app.aenqueue(*self._bind_many(calls))

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """Check and encode a call, to be enqueued together with others, or cancelled."""
        return Call(self, self._arguments.encode(args, kwargs))

    def using(
        self,
        *,
        delay: Duration | Unset = UNSET,
        run_at: datetime | Unset = UNSET,
        expires: Duration | Unset | None = UNSET,
        priority: int | Unset = UNSET,
        unique: str | bool | Unset | None = UNSET,
        window: Duration | Unset | None = UNSET,
        unique_raises: bool | Unset = UNSET,
        queue: str | Unset = UNSET,
        tags: Iterable[str] | Unset = UNSET,
        keep: Duration | Unset | None = UNSET,
        max_attempts: int | Unset | None = UNSET,
        after: Iterable[Blocker] | Unset = UNSET,
        if_blocker_fails: Literal["fail", "proceed", "wait"] | Unset = UNSET,
        connection: object = UNSET,
    ) -> Caller[P, R_co]:
        """The same task with other options for the jobs that are enqueued through what this returns.

        `delay` or `run_at`: not before then. `expires`: cancelled if not started within this time. `priority`: lower
        comes first. `unique`: a key that only one job of the task holds at a time, until it is final or for `window`;
        True makes it from the arguments; another enqueue gives the job that holds it, marked `duplicate`, or raises
        `UniqueConflict` with `unique_raises`. `tags`: to find it by. `keep`: how long its record is kept once it is
        final. `max_attempts`: None for ever. `connection`: enqueue in its transaction, as `App.enqueue` says.

        `after`: jobs and runs, or their ids, to wait for, and bound calls and starts, which come to exist in the same step; up
        to 10,000. A job that waits holds no worker; when all have ended it joins the line, and is given their results in this
        order, in its parameter `results` if it has one. If one ends without success, it fails too, or by `if_blocker_fails` it
        may `proceed` (in the place of the result stands `{"$failure": …}`) or `wait` until the other succeeds after a retry.
        """
        given = {name: value for name, value in locals().items() if name != "self" and not isinstance(value, Unset)}
        connection = given.pop("connection", self.connection)
        after = checked_after(given.pop("after")) if "after" in given else self.after
        fields = {**self._fields, **job_options(given)}
        return Caller(self.app, self.name, self._arguments, self.results, fields, connection, after)

    # For those who enqueue, compare and read calls.

    def decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of this payload; `PayloadError` if it is no call of the task."""
        return self._arguments.decode(payload)

    def new_job(self, payload: bytes) -> NewJob:
        """A job of this payload that no store knows yet."""
        if self._fields.get("unique") is True:
            return replace(self.template, id=new_id(), payload=payload, unique=self.key(payload))
        return replace(self.template, id=new_id(), payload=payload)

    def key(self, payload: bytes) -> str:
        """The same for payloads of equal arguments; `PayloadError` if this one is no call of the task."""
        return self._arguments.key(payload)

    def _bind_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[Call[R_co]]:
        encode = self._arguments.encode
        return [
            Call(self, encode((), call) if isinstance(call, Mapping) else encode(_arguments_tuple(call), {}))
            for call in calls
        ]


class Task(Caller[P, R_co], JobHooks):
    """A function that jobs call. Called like a function it runs here and now, as a function does."""

    is_step: ClassVar[bool] = False
    """Whether it is a step of a flow."""

    reads: tuple[str, ...] = ()
    """Names of the attributes that it is given, if it is one."""

    def __init__(self, app: App, name: str, function: Callable[..., Any], options: TaskOptions) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.options = options
        self.hooks = Hooks(app.hooks)
        self.is_async = inspect.iscoroutinefunction(function)
        self._signature = signature = Signature(function)
        self._joins = signature.joins
        limit = app.options.payload_limit
        arguments: Arguments
        if options.raw:
            if len(signature.taken.parameters) != 1:
                raise InvalidOption(f"raw task {name!r} must take one argument, its payload")
            arguments = RawArguments(signature.taken, limit)
        elif signature.joins is not None and signature.joins.required:
            arguments = JoinArguments(signature.taken, signature.hints, limit, "results")
        else:
            arguments = JsonArguments(signature.taken, signature.hints, limit)
        super().__init__(app, name, arguments, ResultCodec(signature.result, limit), _fields_of(options))

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function here; its context, if it takes one, is that of the job around this call."""
        if self._signature.context is not None:
            return self.function(*self._signature.with_context(args, kwargs, current()), **kwargs)  # type: ignore[no-any-return]
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]

    # For whoever runs jobs, and completes them.

    @property
    def aliases(self) -> tuple[str, ...]:
        """Names of tasks whose jobs it runs beside its own: those that it had before."""
        return tuple(self.options.aliases)

    def arguments(self, payload: bytes, ctx: Context | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call the function with: the payload decoded and converted by annotation, and the context if it takes one.

        A parameter `results` that was not passed gets the results of what the job waited for.
        Raises `PayloadError` if the payload is no call of this function.
        """
        args, kwargs = self._arguments.decode(payload)
        if self._joins is not None and ctx is not None:
            self._joins.fill_in(args, kwargs, ctx.job.results)
        if self._signature.context is not None:
            return self._signature.with_context(args, kwargs, ctx), kwargs
        return args, kwargs

    def encode_result(self, value: Any) -> str:
        """The result as JSON text; `PayloadError` if it would not come back equal."""
        return self.results.encode(value)

    def succeeded(self, job: JobRecord, value: Any, children: tuple[NewJob, ...] = ()) -> Succeeded:  # noqa: ARG002
        """What it means that a job of this task has given this value; `PayloadError` if that cannot be stored."""
        if isinstance(value, Answer):
            raise TypeError(f"task {self.name!r} gave {type(value).__name__}, which is an answer of steps of a flow")
        return Succeeded(self.results.encode(value), children)

    def finish(self, job: JobRecord, value: Any, children: tuple[NewJob, ...] = ()) -> Finish:
        """The end of a job of this task with this value, returned by its function or given from outside; as `succeeded`."""
        made = self.succeeded(job, value, children)
        return Finish(State.SUCCEEDED, made.result, None, made.children, made.successor, made.writes)

    def check_answer(self, on_timeout: str | None) -> None:
        """Raise `InvalidOption` if `Wait` cannot hand over to this."""
        if on_timeout is not None:
            raise InvalidOption(
                f"task {self.name!r} is no step of a flow: Wait(on_timeout={on_timeout!r:.80}) leads nowhere"
            )


class AsyncTask(Task[P, R_co]):
    """A task whose function is `async def`: calling it gives a coroutine."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:  # type: ignore[override]
        """Call the function here; its context, if it takes one, is that of the job around this call."""
        return super().__call__(*args, **kwargs)  # type: ignore[return-value]


class Nobody:
    """A type that no parameter is annotated with."""


class Registrar:
    """`@app.task` and `@app.task(...)`: makes a task of a function.

    The name is the function's own unless `name` gives another; two tasks of one app cannot have the same. A parameter
    annotated `Context` is filled in by the worker; put it first, so that type checkers do not ask callers for it.
    For the options see `TaskOptions`.
    """

    def __init__(self, app: App, given: Mapping[str, Any]) -> None:
        self._app = app
        self._given = given

    # Whatever takes a Nobody first has no annotation there, or one that says nothing: no reason to think of a context.
    @overload
    def __call__(self, function: Callable[Concatenate[Nobody, P], Coroutine[Any, Any, R]], /) -> AsyncTask[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Nobody, P], R], /) -> Task[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def __call__(
        self,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        retry: Backoff | Unset | None = UNSET,
        max_attempts: int | Unset | None = UNSET,
        max_losses: int | None = 3,
        lease: Duration | Unset = UNSET,
        renew: Duration | Unset | None = UNSET,
        timeout: Duration | None = None,
        keep: Duration | None = None,
        priority: int = 0,
        raw: bool = False,
        isolation: Literal["process"] | Unset | None = UNSET,
        memory_limit: int | None = None,
        output: int = 0,
        aliases: Iterable[str] = (),
    ) -> Registrar: ...
    def __call__(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        if function is None:
            return Registrar(self._app, {**self._given, **options})
        given = dict(self._given)
        name = checked_name("task", given.pop("name", None) or getattr(function, "__name__", None))
        queue = given.pop("queue", None) or self._app.options.default_queue
        if queue is None:
            raise InvalidOption(f"task {name!r} names no queue, and this app has no default_queue")
        kind = AsyncTask if inspect.iscoroutinefunction(function) else Task
        task: Task[..., Any] = kind(self._app, name, function, TaskOptions(queue=queue, **given))
        self._app.register(task)
        return task


def _fields_of(options: TaskOptions) -> dict[str, Any]:
    """What every job of a task says of itself unless `using` says otherwise."""
    lease = None if isinstance(options.lease, Unset) else options.lease
    return {
        "queue": options.queue,
        "raw": options.raw,
        "priority": priority(options.priority),
        "keep": options.keep,
        "lease": lease,
        "max_losses": options.max_losses or 0,
    }


def _arguments_tuple(call: object) -> tuple[Any, ...]:
    if not isinstance(call, tuple | list):
        raise TypeError(
            f"each call must be a tuple of arguments or a mapping of them, got {type(call).__name__}: write (x,)"
        )
    return tuple(call)
