"""Task: a registered function whose calls become jobs. Caller: enqueues these calls with certain options."""

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

from tenure.core.after import BoundCall
from tenure.core.checks import name as checked_name
from tenure.core.checks import named, refused
from tenure.core.codec import Arguments, JoinArguments, JsonArguments, RawArguments, ResultCodec
from tenure.core.job import JobRecord, NewJob, State, new_id
from tenure.core.keywords import JobKeywords
from tenure.core.lifecycle import Finish
from tenure.core.options import TaskOptions, Unset, build_options, check_names, job_fields, job_option_named
from tenure.core.outcome import Answer, Success
from tenure.core.versions import Upcaster, VersionedArguments, version_of
from tenure.errors import InvalidOption, InvalidSchedule, NewerPayload, PayloadError, UnknownTask
from tenure.hooks.registry import Hooks, JobHooks
from tenure.jobs.handle import Job
from tenure.jobs.plans import plan_of
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
Upcast = TypeVar("Upcast", bound=Callable[..., Mapping[str, Any]])

Blocker: TypeAlias = "Job[Any] | FlowRun | BoundCall | str"
"""What a job may wait for: a job or a run, the id of one, or a bound call or start."""


class Call(BoundCall, Generic[R_co]):
    """A call of a task, with its arguments checked and encoded. Each enqueue of it is a new job."""

    __slots__ = ("caller", "payload")

    def __init__(self, caller: Caller[..., R_co], payload: bytes) -> None:
        self.caller = caller
        self.payload = payload

    @property
    def after(self) -> Sequence[Any]:
        return self.caller._after

    @property
    def connection(self) -> object:
        """The connection of its `Caller`."""
        return self.caller._connection

    def new_job(self) -> NewJob:
        return self.caller._new_job(self.payload)

    def handle(self, new: NewJob | Enqueued) -> Job[R_co]:
        """The handle of a job that was made from this call."""
        caller = self.caller
        job: Job[R_co] = Job(caller.app, new.id, caller.name, caller.queue, caller._results)
        if isinstance(new, Enqueued):
            job._update_enqueued(new)
        return job


class Caller(Generic[P, R_co]):
    """Enqueues jobs of one task with certain options. `using` returns another `Caller` with other options."""

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
        """Database connection of the caller, in whose transaction the jobs are enqueued; None: the store uses its own."""

        self._after = after
        """Blockers of the jobs, as `checked_after` returns them."""

        self.queue: str = fields["queue"]
        self._arguments = arguments
        self._fields = fields
        self._template = NewJob(id="", task=name, **fields)
        """Copied for each job, because that is many times faster than building it from its fields."""

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Store one call of the task as a job, durably.

        Raises `TypeError` or `PayloadError`, before any I/O, if the arguments do not fit the function or cannot be stored.
        """
        return self.app.enqueue(self.bind(*args, **kwargs))[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """The async twin of `enqueue`."""
        [job] = await self.app.aenqueue(self.bind(*args, **kwargs))
        return job

    def enqueue_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[Job[R_co]]:
        """Store many calls in one atomic round trip. Each call is a tuple of arguments, or a mapping of them by name."""
        return self.app.enqueue(*self._bind_many(calls))

    async def aenqueue_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[Job[R_co]]:
        """The async twin of `enqueue_many`."""
        return await self.app.aenqueue(*self._bind_many(calls))

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """Check and encode a call, to enqueue it together with others, to wait for it, or to cancel its jobs."""
        try:
            return Call(self, self._arguments.encode(args, kwargs))
        except TypeError as error:
            raise TypeError(f"task {self.name!r}: {error}{_job_option_hint(str(error), kwargs)}") from None

    # With `after`, the types of the arguments are not checked: a type checker cannot know that the worker fills in `results`.
    @overload
    def using(self, *, after: Iterable[Blocker], **options: Unpack[JobKeywords]) -> Caller[..., R_co]: ...
    @overload
    def using(self, **options: Unpack[JobKeywords]) -> Caller[P, R_co]: ...
    def using(self, **options: Any) -> Caller[..., R_co]:
        """Return the same task with other options for its jobs; docs/options.md and `JobKeywords` describe them.

        `after`: what the jobs wait for, up to 10,000 jobs and runs, their ids, and bound calls and starts, which are enqueued in the
        same transaction. A blocked job occupies no worker. When all of them have ended it joins its queue, and its parameter
        `results`, if it has one, receives their results in this order. `if_blocker_fails` says what happens if one of them fails.
        """
        fields, after = job_fields(f"task {self.name!r}", "using", options, self._fields, self._after)
        connection = options.get("connection", self._connection)
        return Caller(self.app, self.name, self._arguments, self._results, fields, connection, after)

    # For Tenure's modules that enqueue, compare and read calls.

    def _decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Decode the arguments of this payload. `PayloadError` if it is no call of the task."""
        return self._arguments.decode(payload)

    def _given(self, job: JobRecord) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Decode the arguments of this job, without the context. `PayloadError` if they cannot be read."""
        return self._decode(job.payload)

    def _converted(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Convert attributes of a run from JSON values by the annotations of its flow, if the flow is registered here."""
        return attributes

    def _completed(self, job: JobRecord, value: Any) -> Success:
        """The outcome of a job that is completed from outside with `value`. `UnknownTask` if it needs the code of the task."""
        if job.run_id is not None:
            raise UnknownTask(job.task, self.app.tasks)
        return Success(self._results.encode(value))

    def _new_job(self, payload: bytes) -> NewJob:
        """Build a job with this payload and a new id."""
        if self._fields.get("unique") is True:
            return replace(self._template, id=new_id(), payload=payload, unique=self._key(payload))
        return replace(self._template, id=new_id(), payload=payload)

    def _key(self, payload: bytes) -> str:
        """The unique key of this payload, the same for equal arguments. `PayloadError` if it is no call of the task."""
        return self._arguments.key(payload)

    def _bind_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[Call[R_co]]:
        encode = self._arguments.encode
        return [
            Call(self, encode((), call) if isinstance(call, Mapping) else encode(_arguments_tuple(call), {}))
            for call in calls
        ]


class Task(Caller[P, R_co], JobHooks):
    """A function that jobs call. Calling the task itself runs the function here, without a job."""

    _is_step: ClassVar[bool] = False
    """True if the task is a step of a flow."""

    _reads: tuple[str, ...] = ()
    """Names of the attributes that a step reads; empty for other tasks."""

    def __init__(self, app: App, name: str, function: Callable[..., Any], options: TaskOptions) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.options = options
        self._hooks = Hooks(app.internals.hooks)
        self._is_async = inspect.iscoroutinefunction(function)
        limit = app.options.payload_limit
        try:
            self._signature = Signature(function)
            arguments = _arguments_of(self._signature, limit, raw=options.raw, version=options.version)
            results = ResultCodec(self._signature.result, limit)
        except InvalidOption as error:
            raise named(error, f"task {name!r}") from None
        self._results_parameter = self._signature.results_parameter
        super().__init__(app, name, arguments, results, _fields_of(options))

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function here. If it takes a context, it gets the one of the job that makes this call."""
        if self._signature.context is not None:
            return self.function(*self._signature.with_context(args, kwargs, current()), **kwargs)  # type: ignore[no-any-return]
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]

    def upcast(self, version: int) -> Callable[[Upcast], Upcast]:
        """Decorator: the function reads jobs that were enqueued when the task had this version, and returns the arguments of the next.

        ```python
        @app.task(version=2)
        def charge(customer: str, amount: Decimal, currency: str) -> str: ...


        @charge.upcast(1)
        def _(customer: str, amount: float) -> dict[str, object]:
            return {"customer": customer, "amount": Decimal(str(amount)), "currency": "EUR"}
        ```

        Its parameters are those that the task had in that version, and convert the arguments. It returns a mapping of arguments by
        name, which must be a call of the next version. From version 1 a job of version 3 is reached by two upcasters, one after the
        other. If it raises, or returns no such call, the job is broken and its payload stays as it is.
        """

        def register(function: Upcast) -> Upcast:
            try:
                self._add_upcaster(version, function)
            except InvalidOption as error:
                raise named(error, f"task {self.name!r}") from None
            return function

        return register

    # For Tenure's modules that run and complete jobs.

    def _add_upcaster(self, version: int, function: Callable[..., Any]) -> None:
        if not isinstance(self._arguments, VersionedArguments):
            raise InvalidOption(f"upcast({version!r:.40}) needs a later version: add version=2 to the task")
        if inspect.iscoroutinefunction(function):
            raise InvalidOption("an upcaster must be a plain def, because payloads are read outside of event loops too")
        signature = Signature(function)
        if signature.context is not None:
            raise InvalidOption("an upcaster takes the arguments of then, and no Context")
        limit = self.app.options.payload_limit
        self._arguments.add(Upcaster(version, function, signature.call, signature.hints, limit))

    def _check_versions(self) -> None:
        """Raise `InvalidOption` if an upcaster is missing between the oldest version that has one and the present version."""
        if isinstance(self._arguments, VersionedArguments):
            try:
                self._arguments.check()
            except InvalidOption as error:
                raise named(error, f"task {self.name!r}") from None

    def _newer(self, job: JobRecord) -> NewerPayload | None:
        """The error of a job with a later version than this code knows; None if the job has none."""
        if self._is_step or job.raw or (version := version_of(job.payload)) <= self.options.version:
            return None
        return NewerPayload(version, self.options.version)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Former names of the task, whose jobs it runs too."""
        return tuple(self.options.aliases)

    def _call_arguments(self, payload: bytes, ctx: Context | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments to call the function with: the payload, decoded and converted by annotation, and the context if it takes one.

        A parameter `results` that the payload lacks gets the results of the jobs that this job waited for.
        Raises `PayloadError` if the payload is no call of this function.
        """
        if ctx is not None and ctx.job.raw != self.options.raw:
            if self.options.raw:
                raise PayloadError(
                    f'task {self.name!r} is raw and takes bytes, but the job has JSON: enqueue bytes, or give the task inbox="raw"'
                )
            raise PayloadError(
                f"the job has raw bytes, but task {self.name!r} takes JSON: enqueue its arguments instead"
            )
        args, kwargs = self._arguments.decode(payload)
        if self._results_parameter is not None and ctx is not None:
            self._results_parameter.fill(args, kwargs, ctx.job.results)
        if self._signature.context is not None:
            return self._signature.with_context(args, kwargs, ctx), kwargs
        return args, kwargs

    def _answered(self, answer: Answer) -> Answer:
        """The answer to act on, for one that the function gave."""
        return answer

    def _encode_result(self, value: Any, *, returned: bool) -> str:
        """Encode a result as JSON. `InvalidResult` if the function returned it and it does not fit the annotation."""
        return self._results.encode(value) if returned else self._results.encode_freely(value)

    def _succeeded(
        self,
        job: JobRecord,  # noqa: ARG002
        value: Any,
        children: tuple[NewJob, ...] = (),
        *,
        returned: bool = True,
    ) -> Success:
        """The outcome of a job of this task that succeeded with this value. `PayloadError` if the value cannot be stored.

        `returned`: the function returned the value, so it must fit the annotation.
        """
        if isinstance(value, Answer):
            raise TypeError(f"task {self.name!r} gave {type(value).__name__}, which only steps of a flow may give")
        return Success(self._encode_result(value, returned=returned), children)

    def _completed(self, job: JobRecord, value: Any) -> Success:
        return self._succeeded(job, value, returned=False)

    def _finish(self, job: JobRecord, value: Any, children: tuple[NewJob, ...] = ()) -> Finish:
        """The transition of a job of this task to success with this value, which the function has set or which came from outside."""
        made = self._succeeded(job, value, children, returned=False)
        return Finish(State.SUCCEEDED, made.result, None, made.children, made.successor, made.writes)

    def _check_answer(self, on_timeout: str | None) -> None:
        """Raise `InvalidOption` if `Wait(on_timeout=…)` names no step that this task can hand over to."""
        if on_timeout is not None:
            raise InvalidOption(
                f"task {self.name!r} is no step of a flow: Wait(on_timeout={on_timeout!r:.80}) leads nowhere"
            )


class AsyncTask(Task[P, R_co]):
    """A task whose function is `async def`: calling it returns a coroutine."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:  # type: ignore[override]
        """Call the function here. If it takes a context, it gets the one of the job that makes this call."""
        return super().__call__(*args, **kwargs)  # type: ignore[return-value]


class Untyped:
    """A type that no parameter is annotated with, so that only a parameter without annotation takes it."""


class Registrar:
    """Decorator that `app.task(...)` returns: makes a task with these options from a function."""

    def __init__(self, app: App, given: Mapping[str, Any]) -> None:
        self._app = app
        self._given = given

    # The first two overloads match a first parameter without annotation (or Any, or object): it is no context.
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
    """Make a task from a function and add it to its app. `InvalidOption` or `InvalidName` if an option is wrong."""
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
    plan = None
    if task.options.schedule is not None:
        try:
            plan = plan_of(task.bind(), task.options.schedule, {})
        except TypeError as error:
            raise InvalidSchedule(
                f"{error}: a schedule in @app.task(…) passes no arguments; use app.schedule({name!r}, {name}.bind(…), …)"
            ) from None
    app.internals.register(task, plan)
    return task


def name_of_function(kind: str, function: object, given: dict[str, Any]) -> str:
    """Name of a task or step: the option `name`, which is removed from `given`, else the name of the function."""
    if not callable(function):
        hint = (
            f"write @….{kind}(name={function!r:.80})" if isinstance(function, str) else f"write @….{kind}(…) above one"
        )
        raise refused(f"what @….{kind} decorates", "a function", function, hint)
    name = given.pop("name", None)
    return checked_name(kind, getattr(function, "__name__", None) if name is None else name)


def _job_option_hint(error: str, kwargs: Mapping[str, Any]) -> str:
    """What to write in place of an argument that is an option of the job; "" if the error is about something else."""
    for name, value in kwargs.items():
        if f"unexpected keyword argument {name!r}" in error and (option := job_option_named(name)) is not None:
            return f", which is an option of the job: write .using({option}={value!r:.40}).enqueue(…)"
    return ""


def _arguments_of(signature: Signature, limit: int, *, raw: bool, version: int) -> Arguments:
    if raw:
        if len(signature.call.parameters) != 1:
            raise InvalidOption("a raw task must take one argument, its payload")
        return RawArguments(signature.call, limit)
    plain = JsonArguments(signature.call, signature.hints, limit)
    arguments: Arguments = plain
    if signature.results_parameter is not None and signature.results_parameter.required:
        arguments = JoinArguments(signature.call, signature.hints, limit, "results")
    return arguments if version == 1 else VersionedArguments(arguments, version, limit, plain)


def _fields_of(options: TaskOptions) -> dict[str, Any]:
    """Fields of every job of a task, which `using` may override."""
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
