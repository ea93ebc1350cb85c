"""Tasks: registered functions with their defaults, and the calls of them that become jobs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from tenure.backoff import Backoff
from tenure.checks import Duration, job_options, priority
from tenure.checks import name as checked_name
from tenure.codec import Arguments, JsonArguments, RawArguments, ResultCodec
from tenure.context import Context, current
from tenure.errors import InvalidOption
from tenure.handle import Job
from tenure.job import NewJob, new_id
from tenure.options import UNSET, TaskOptions, Unset
from tenure.signature import Signature
from tenure.stores.base import Enqueued

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["AsyncTask", "Call", "Caller", "Registrar", "Task"]

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Call(Generic[R_co]):
    """A task with its arguments, checked and encoded: each enqueue of it is a new job."""

    __slots__ = ("caller", "payload")

    def __init__(self, caller: Caller[..., R_co], payload: bytes) -> None:
        self.caller = caller
        self.payload = payload

    def new_job(self) -> NewJob:
        return self.caller.new_job(self.payload)

    def job(self, new: NewJob | Enqueued) -> Job[R_co]:
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
    ) -> None:
        self.app = app
        self.name = name
        self.results = results
        self.connection = connection
        """The caller's own, in whose transaction the jobs are enqueued; None: in one of the store's."""

        self.queue: str = fields["queue"]
        self._arguments = arguments
        self._fields = fields

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
        connection: object = UNSET,
    ) -> Caller[P, R_co]:
        """The same task with other options for the jobs that are enqueued through what this returns.

        `delay` or `run_at`: not before then. `expires`: cancelled if not started within this time. `priority`: lower
        comes first. `unique`: a key that only one job of the task holds at a time, until it is final or for `window`;
        True makes it from the arguments; another enqueue gives the job that holds it, marked `duplicate`, or raises
        `UniqueConflict` with `unique_raises`. `tags`: to find it by. `keep`: how long its record is kept once it is
        final. `max_attempts`: None for ever. `connection`: enqueue in its transaction, as `App.enqueue` says.
        """
        given = {name: value for name, value in locals().items() if name != "self" and not isinstance(value, Unset)}
        connection = given.pop("connection", self.connection)
        fields = {**self._fields, **job_options(given)}
        return Caller(self.app, self.name, self._arguments, self.results, fields, connection)

    # For those who enqueue, compare and read calls.

    def decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of this payload; `PayloadError` if it is no call of the task."""
        return self._arguments.decode(payload)

    def new_job(self, payload: bytes) -> NewJob:
        """A job of this payload that no store knows yet."""
        if self._fields.get("unique") is True:
            return NewJob(id=new_id(), task=self.name, payload=payload, **{**self._fields, "unique": self.key(payload)})
        return NewJob(id=new_id(), task=self.name, payload=payload, **self._fields)

    def key(self, payload: bytes) -> str:
        """The same for payloads of equal arguments; `PayloadError` if this one is no call of the task."""
        return self._arguments.key(payload)

    def _bind_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[Call[R_co]]:
        encode = self._arguments.encode
        return [
            Call(self, encode((), call) if isinstance(call, Mapping) else encode(_arguments_tuple(call), {}))
            for call in calls
        ]


class Task(Caller[P, R_co]):
    """A function that jobs call. Called like a function it runs here and now, as a function does."""

    def __init__(self, app: App, name: str, function: Callable[..., Any], options: TaskOptions) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.options = options
        self.is_async = inspect.iscoroutinefunction(function)
        self._signature = signature = Signature(function)
        limit = app.options.payload_limit
        arguments: Arguments
        if options.raw:
            if len(signature.taken.parameters) != 1:
                raise InvalidOption(f"raw task {name!r} must take one argument, its payload")
            arguments = RawArguments(signature.taken, limit)
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

    # For whoever runs jobs.

    def arguments(self, payload: bytes, ctx: Context | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call the function with: the payload decoded and converted by annotation, and the context if it takes one.

        Raises `PayloadError` if the payload is no call of this function.
        """
        args, kwargs = self._arguments.decode(payload)
        if self._signature.context is not None:
            return self._signature.with_context(args, kwargs, ctx), kwargs
        return args, kwargs

    def encode_result(self, value: Any) -> str:
        """The result as JSON text; `PayloadError` if it would not come back equal."""
        return self.results.encode(value)


class AsyncTask(Task[P, R_co]):
    """A task whose function is `async def`: calling it gives a coroutine."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:  # type: ignore[override]
        """Call the function here; its context, if it takes one, is that of the job around this call."""
        return super().__call__(*args, **kwargs)  # type: ignore[return-value]


class _Nobody:
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

    # Whatever takes a _Nobody first has no annotation there, or one that says nothing: no reason to think of a context.
    @overload
    def __call__(self, function: Callable[Concatenate[_Nobody, P], Coroutine[Any, Any, R]], /) -> AsyncTask[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[_Nobody, P], R], /) -> Task[..., R]: ...
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
