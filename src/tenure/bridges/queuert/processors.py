"""`ProcessorTask`: processes jobs of one type of Queuert. `Continue`: its answer that continues the chain."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Literal, NoReturn, ParamSpec, TypedDict, TypeVar, overload

import msgspec

from tenure.bridges.names import queue_name
from tenure.bridges.queuert.entries import AGAIN, CONTINUE, Entry
from tenure.core.checks import Duration, refused, seconds
from tenure.core.checks import name as checked_name
from tenure.core.codec import ANY_DECODER, written
from tenure.core.job import JobRecord, NewJob
from tenure.core.options import TaskOptions, build_options, check_names
from tenure.core.outcome import Answer, Done, Reschedule, Retry, Success
from tenure.errors import InvalidOption
from tenure.tasks.context import Context
from tenure.tasks.task import AsyncTask, Call, Task, Untyped

if TYPE_CHECKING:
    from tenure.bridges.queuert.bridge import Queuert

__all__ = [
    "AsyncProcessorTask",
    "Continue",
    "ProcessorKeywords",
    "ProcessorRegistrar",
    "ProcessorTask",
    "declare_processor",
]

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class ProcessorKeywords(TypedDict, total=False):
    """Options of `@queuert.processor(...)` beside `lease`; they are those of a task, see `TaskOptions`."""

    name: str | None
    max_losses: int | None
    timeout: Duration | None
    keep: Duration | None
    priority: int
    isolation: Literal["process"] | None
    memory_limit: int | None
    output: int


class Continue(Done):
    """Go on with a job of this type in the same chain, for a processor of yours or of Queuert's. A processor returns or raises it."""

    def __init__(self, type: str, input: Any = None) -> None:  # noqa: A002  (Queuert's words)
        if not isinstance(type, str) or not type:
            raise refused("the type of Continue", "the name of a type of jobs", type)
        super().__init__(input)
        self.type = type
        self.input = input


class _Later(Done):
    """Let the row run again: Queuert decides when, so the job here is done."""

    def __init__(self, reason: str, after: float | None, at: float | None) -> None:
        super().__init__()
        self.result = {AGAIN: reason, "after": after, "at": at}


class ProcessorTask(Task[P, R_co]):
    """A task that processes the jobs of one type. Jobs of it come from Queuert only.

    1. Its first parameter gets the input; a parameter `results` the outputs of the chains that the job waited for, in their order.
    2. What it returns is the output and ends the chain; `Continue` goes on with the next job of the chain.
    3. After an exception, `Fail` or a timeout Queuert's row runs again: after 10 seconds, doubled each time, 300 at most. `Reschedule`
       and `Retry(after=…)` say when instead. A job here has one attempt; the row counts them.
    """

    def __init__(
        self,
        queuert: Queuert,
        type_name: str,
        name: str,
        function: Callable[..., Any],
        options: TaskOptions,
        hold: float,
    ) -> None:
        super().__init__(queuert.app, name, function, options)
        self.type_name = type_name
        """The type of its jobs in Queuert."""

        self.hold = hold
        """Seconds for which a row is leased at a time."""

        parameters = [each for each in self._signature.call.parameters.values() if each.name != "results"]
        stars = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
        needed = [each for each in parameters if each.default is each.empty and each.kind not in stars]
        if len(needed) > 1 or any(each.kind is each.KEYWORD_ONLY for each in needed):
            raise InvalidOption(
                f"the processor of {type_name!r} must take one argument, the input, and may take results and a Context"
            )
        others = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}
        self._input = next((each for each in parameters if each.kind not in others), None)

    def __repr__(self) -> str:
        return f"<Processor of {self.type_name}>"

    def payload_of(self, entry: Entry) -> bytes:
        """The payload of a job for this row. An input of null leaves a default in place."""
        args: list[msgspec.Raw] = []
        kwargs: dict[str, msgspec.Raw] = {}
        taker = self._input
        if taker is not None and (bytes(entry.input) != b"null" or taker.default is taker.empty):
            if taker.kind is taker.POSITIONAL_OR_KEYWORD:
                kwargs[taker.name] = entry.input  # by name, because `results` may stand before it
            else:
                args.append(entry.input)
        if self._results_parameter is not None:
            waited = bytes(entry.results) != b"null"
            if waited or self._results_parameter.required:
                kwargs["results"] = entry.results if waited else msgspec.Raw(b"[]")
        return msgspec.json.encode({"args": args, "kwargs": kwargs})

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:  # noqa: ARG002
        """Raise `InvalidOption`, because the jobs of a processor come from Queuert."""
        self._refuse()

    def _bind_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[Call[R_co]]:  # noqa: ARG002
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InvalidOption(
            f"jobs of type {self.type_name!r} come from Queuert: start a chain with start({self.type_name!r}, …) of the bridge"
        )

    def _answered(self, answer: Answer) -> Answer:
        match answer:
            case Reschedule():
                return _Later("Reschedule", answer.after, answer.at)
            case Retry() if answer.after is not None:
                return _Later(f"Retry: {answer.why}" if answer.why else "Retry", answer.after, None)
        return answer

    def _succeeded(
        self, job: JobRecord, value: Any, children: tuple[NewJob, ...] = (), *, returned: bool = True
    ) -> Success:
        if isinstance(value, Continue):
            given = msgspec.Raw(written(value.input, ANY_DECODER, "the input of Continue"))
            return Success(msgspec.json.encode({CONTINUE: value.type, "input": given}).decode(), children)
        if isinstance(value, _Later):
            return Success(msgspec.json.encode(value.result).decode(), children)
        made = super()._succeeded(job, value, children, returned=returned)
        if made.result is not None and made.result.startswith((f'{{"{CONTINUE}":', f'{{"{AGAIN}":')):
            raise TypeError(
                f"the output of a processor must not begin with {CONTINUE!r} or {AGAIN!r}: return Continue(…)"
            )
        return made


class AsyncProcessorTask(ProcessorTask[P, R_co], AsyncTask[P, R_co]):
    """A processor whose function is `async def`: calling it returns a coroutine."""


class ProcessorRegistrar:
    """Decorator that `queuert.processor(...)` returns: lets a function process a type of jobs."""

    def __init__(self, declare: Callable[[Callable[..., Any]], ProcessorTask[..., Any]]) -> None:
        self._declare = declare

    @overload
    def __call__(
        self, function: Callable[Concatenate[Untyped, P], Coroutine[Any, Any, R]], /
    ) -> AsyncProcessorTask[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Untyped, P], R], /) -> ProcessorTask[..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncProcessorTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> ProcessorTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncProcessorTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> ProcessorTask[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        return self._declare(function)


def declare_processor(
    queuert: Queuert, type_name: str, function: Callable[..., Any], lease: Duration, options: Mapping[str, Any]
) -> ProcessorTask[..., Any]:
    """Make the task of a type and add it to its app. `InvalidOption` or `InvalidName` if an option is wrong."""
    whose = f"the processor of {type_name!r}"
    if not callable(function):
        raise refused(f"what @….processor({type_name!r}) decorates", "a function", function)
    given = dict(options)
    if wrong := [each for each in ("retry", "max_attempts") if each in given]:
        raise InvalidOption(f"{whose}: {wrong[0]} is not for jobs of Queuert, whose rows run again until they succeed")
    queue = queue_name(queuert.kind, type_name)
    name = given.pop("name", None) or queue
    check_names(whose, "task", given)
    given |= {"queue": queue, "retry": None, "max_attempts": 1}
    kind = AsyncProcessorTask if inspect.iscoroutinefunction(function) else ProcessorTask
    task: ProcessorTask[..., Any] = kind(
        queuert,
        type_name,
        checked_name("task", name),
        function,
        build_options(TaskOptions, whose, given),
        seconds(lease, f"{whose}: lease", least=1.0),
    )
    queuert.app.internals.register(task)
    return task
