"""Tasks: registered functions with their defaults, and the calls of them that become jobs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Unpack,
    overload,
)

from msgspec.structs import replace

from tenure.core.after import Bound
from tenure.core.checks import name as checked_name
from tenure.core.checks import named, refused
from tenure.core.codec import Arguments, JoinArguments, JsonArguments, RawArguments, ResultCodec
from tenure.core.job import JobRecord, NewJob, State, new_id
from tenure.core.keywords import JobKeywords
from tenure.core.lifecycle import Finish
from tenure.core.options import TaskOptions, Unset, build_options, check_names, job_fields, job_option_named
from tenure.core.outcome import Answer, Succeeded
from tenure.errors import InvalidOption, PayloadError, UnknownTask
from tenure.hooks.registry import Hooks, JobHooks
from tenure.jobs.handle import Job
from tenure.stores.values import Enqueued
from tenure.tasks.context import Context, current
from tenure.tasks.signature import Signature

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.jobs.run import FlowRun

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
        return self.caller._after

    @property
    def connection(self) -> object:
        """That of whoever makes the jobs."""
        return self.caller._connection

    def new_job(self) -> NewJob:
        return self.caller._new_job(self.payload)

    def handle(self, new: NewJob | Enqueued) -> Job[R_co]:
        """The handle of a job that this call has led to."""
        caller = self.caller
        job: Job[R_co] = Job(caller.app, new.id, caller.name, caller.queue, caller._results)
        if isinstance(new, Enqueued):
            job._enqueued(new)
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
        self._results = results
        self._connection = connection
        """The caller's own, in whose transaction the jobs are enqueued; None: in one of the store's."""

        self._after = after
        """What the jobs wait for."""

        self.queue: str = fields["queue"]
        self._arguments = arguments
        self._fields = fields
        self._template = NewJob(id="", task=name, **fields)
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
        try:
            return Call(self, self._arguments.encode(args, kwargs))
        except TypeError as error:
            raise TypeError(f"task {self.name!r}: {error}{_job_option_hint(str(error), kwargs)}") from None

    # With `after`, type checkers do not check the arguments: they cannot know which parameter is `results`, which is filled in.
    @overload
    def using(self, *, after: Iterable[Blocker], **options: Unpack[JobKeywords]) -> Caller[..., R_co]: ...
    @overload
    def using(self, **options: Unpack[JobKeywords]) -> Caller[P, R_co]: ...
    def using(self, **options: Any) -> Caller[..., R_co]:
        """The same task with other options for the jobs that are enqueued through what this returns; see `JobKeywords`.

        `after`: jobs and runs, or their ids, to wait for, and bound calls and starts, which come to exist in the same step; up
        to 10,000. A job that waits holds no worker; when all have ended it joins the line, and is given their results in this
        order, in its parameter `results` if it has one. If one ends without success, `if_blocker_fails` says what follows.
        """
        fields, after = job_fields(f"task {self.name!r}", "using", options, self._fields, self._after)
        connection = options.get("connection", self._connection)
        return Caller(self.app, self.name, self._arguments, self._results, fields, connection, after)

    # For those who enqueue, compare and read calls.

    def _decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of this payload; `PayloadError` if it is no call of the task."""
        return self._arguments.decode(payload)

    def _given(self, job: JobRecord) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that this job is called with, without the context; `PayloadError` if they cannot be read."""
        return self._decode(job.payload)

    def _converted(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Attributes of a run, decoded from JSON, converted by the annotations of its flow if the flow is known here."""
        return attributes

    def _completed(self, job: JobRecord, value: Any) -> Succeeded:
        """The outcome of a job that is completed by hand with `value`; `UnknownTask` if only code elsewhere knows it."""
        if job.run_id is not None:
            raise UnknownTask(job.task, self.app.tasks)
        return Succeeded(self._results.encode(value))

    def _new_job(self, payload: bytes) -> NewJob:
        """A job of this payload that no store knows yet."""
        if self._fields.get("unique") is True:
            return replace(self._template, id=new_id(), payload=payload, unique=self._key(payload))
        return replace(self._template, id=new_id(), payload=payload)

    def _key(self, payload: bytes) -> str:
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

    _is_step: ClassVar[bool] = False
    """Whether it is a step of a flow."""

    _reads: tuple[str, ...] = ()
    """Names of the attributes that it is given, if it is one."""

    def __init__(self, app: App, name: str, function: Callable[..., Any], options: TaskOptions) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.options = options
        self._hooks = Hooks(app.internals.hooks)
        self._is_async = inspect.iscoroutinefunction(function)
        limit = app.options.payload_limit
        try:
            self._signature = Signature(function)
            arguments = _arguments_of(self._signature, limit, raw=options.raw)
            results = ResultCodec(self._signature.result, limit)
        except InvalidOption as error:
            raise named(error, f"task {name!r}") from None
        self._results_parameter = self._signature.results_parameter
        super().__init__(app, name, arguments, results, _fields_of(options))

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

    def _call_arguments(self, payload: bytes, ctx: Context | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call the function with: the payload decoded and converted by annotation, and the context if it takes one.

        A parameter `results` that was not passed gets the results of what the job waited for.
        Raises `PayloadError` if the payload is no call of this function.
        """
        if ctx is not None and ctx.job.raw != self.options.raw:
            if self.options.raw:
                raise PayloadError(
                    f"task {self.name!r} is raw and takes bytes, the job has JSON: enqueue bytes, or declare the inbox of its queue raw"
                )
            raise PayloadError(f"the job has raw bytes, task {self.name!r} takes JSON: enqueue its arguments instead")
        args, kwargs = self._arguments.decode(payload)
        if self._results_parameter is not None and ctx is not None:
            self._results_parameter.fill(args, kwargs, ctx.job.results)
        if self._signature.context is not None:
            return self._signature.with_context(args, kwargs, ctx), kwargs
        return args, kwargs

    def _encode_result(self, value: Any, *, returned: bool) -> str:
        """The result as JSON text; `InvalidResult` if its function returned it and it does not fit the annotation."""
        return self._results.encode(value) if returned else self._results.encode_freely(value)

    def _succeeded(
        self,
        job: JobRecord,  # noqa: ARG002
        value: Any,
        children: tuple[NewJob, ...] = (),
        *,
        returned: bool = True,
    ) -> Succeeded:
        """What it means that a job of this task has given this value; `PayloadError` if that cannot be stored.

        `returned`: its function has returned it, so it must fit the annotation.
        """
        if isinstance(value, Answer):
            raise TypeError(f"task {self.name!r} gave {type(value).__name__}, which is an answer of steps of a flow")
        return Succeeded(self._encode_result(value, returned=returned), children)

    def _completed(self, job: JobRecord, value: Any) -> Succeeded:
        return self._succeeded(job, value, returned=False)

    def _finish(self, job: JobRecord, value: Any, children: tuple[NewJob, ...] = ()) -> Finish:
        """The end of a job of this task with this value, which its function has set or which was given from outside."""
        made = self._succeeded(job, value, children, returned=False)
        return Finish(State.SUCCEEDED, made.result, None, made.children, made.successor, made.writes)

    def _check_answer(self, on_timeout: str | None) -> None:
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


class Untyped:
    """A type that no parameter is annotated with."""


class Registrar:
    """What `@app.task(...)` gives: makes a task, with these options, of a function."""

    def __init__(self, app: App, given: Mapping[str, Any]) -> None:
        self._app = app
        self._given = given

    # Whatever takes a Untyped first has no annotation there, or one that says nothing: no reason to think of a context.
    @overload
    def __call__(self, function: Callable[Concatenate[Untyped, P], Coroutine[Any, Any, R]], /) -> AsyncTask[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Untyped, P], R], /) -> Task[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        return register_task(self._app, function, self._given)


def register_task(app: App, function: Callable[..., Any], options: Mapping[str, Any]) -> Task[..., Any]:
    """Make a task of a function and add it to its app; `InvalidOption` or `InvalidName` if an option is wrong."""
    given = dict(options)
    name = name_of_function("task", function, given)
    whose = f"task {name!r}"
    check_names(whose, "task", given)
    if given.get("queue") is None:
        given["queue"] = app.options.default_queue
    if given["queue"] is None:
        raise InvalidOption(f"{whose} names no queue, and this app has no default_queue")
    kind = AsyncTask if inspect.iscoroutinefunction(function) else Task
    task: Task[..., Any] = kind(app, name, function, build_options(TaskOptions, whose, given))
    app.internals.register(task)
    return task


def name_of_function(kind: str, function: object, given: dict[str, Any]) -> str:
    """The name that the option `name`, which is taken out, gives to a task or step, else that of its function."""
    if not callable(function):
        hint = (
            f"write @….{kind}(name={function!r:.80})" if isinstance(function, str) else f"write @….{kind}(…) above one"
        )
        raise refused(f"what @….{kind} decorates", "a function", function, hint)
    name = given.pop("name", None)
    return checked_name(kind, getattr(function, "__name__", None) if name is None else name)


def _job_option_hint(error: str, kwargs: Mapping[str, Any]) -> str:
    """What to write for an argument that the function does not take, and that is an option of the job."""
    for name, value in kwargs.items():
        if f"unexpected keyword argument {name!r}" in error and (option := job_option_named(name)) is not None:
            return f", which is an option of the job: write .using({option}={value!r:.40}).enqueue(…)"
    return ""


def _arguments_of(signature: Signature, limit: int, *, raw: bool) -> Arguments:
    if raw:
        if len(signature.call.parameters) != 1:
            raise InvalidOption("a raw task must take one argument, its payload")
        return RawArguments(signature.call, limit)
    if signature.results_parameter is not None and signature.results_parameter.required:
        return JoinArguments(signature.call, signature.hints, limit, "results")
    return JsonArguments(signature.call, signature.hints, limit)


def _fields_of(options: TaskOptions) -> dict[str, Any]:
    """What every job of a task says of itself unless `using` says otherwise."""
    lease = None if isinstance(options.lease, Unset) else options.lease
    return {
        "queue": options.queue,
        "raw": options.raw,
        "priority": options.priority,
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
