"""Step: a task of a flow, whose arguments are attributes of the run and whose result says which step follows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar, overload

import msgspec
from msgspec.structs import replace

from tenure.core.after import blockers
from tenure.core.checks import name as checked_name
from tenure.core.checks import named, refused, several
from tenure.core.codec import decoder_of, read
from tenure.core.job import JobRecord, NewJob, RunStep, new_id
from tenure.core.options import TaskOptions, build_options, check_names
from tenure.core.origin import kept_origin
from tenure.core.outcome import Done, Next, Success
from tenure.core.remote_completion import decision_of, is_decision
from tenure.errors import InvalidOption, MissingAttribute, PayloadError
from tenure.jobs.stamps import stamped
from tenure.tasks.context import Context
from tenure.tasks.task import AsyncTask, Call, Task, Untyped, name_of_function

if TYPE_CHECKING:
    from tenure.tasks.flow import Flow

__all__ = ["AsyncStep", "Step", "StepRegistrar"]

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Step(Task[P, R_co]):
    """A step of a flow. Its parameters name the attributes that it reads; those without a default must exist before it starts.

    Its return value decides how the run goes on. A mapping is merged into the attributes, None leaves them as they are. Then the step
    that `then` names follows; without `then` the run ends with the returned value. `Next(step, **attributes)` and `Done(value)`
    override `then`.
    """

    _is_step = True

    def __init__(
        self,
        flow: Flow,
        step_name: str,
        function: Callable[..., Any],
        options: TaskOptions,
        explicit: Collection[str],
        then: str | None,
        allowed_next: tuple[str, ...] | None,
    ) -> None:
        """`explicit`: names of the options that were given, which are therefore not inherited from the step before."""
        name = checked_name("task", f"{flow.name}.{step_name}")
        super().__init__(flow.app, name, function, options)
        self.flow = flow
        self.step_name = step_name
        self._then = then
        """Name of the step that follows by default; None: the run ends."""

        self._allowed_next = allowed_next
        """Names of the steps that it may choose with `Next`; None: any."""

        self._hints: dict[str, Any] = {}
        needs = []
        for parameter in self._signature.call.parameters.values():
            if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
                raise InvalidOption(
                    f"step {name!r} takes {parameter}: its parameters name attributes, so it must be possible to pass each by name"
                )
            if parameter.name != "results":
                self._hints[parameter.name] = self._signature.hints.get(parameter.name, Any)
                if parameter.default is parameter.empty:
                    needs.append(parameter.name)
        self._reads = tuple(self._hints)
        """Names of the attributes that it reads."""

        self._needs = tuple(needs)
        """Names of the attributes that must exist before it starts."""

        self._needed = frozenset(needs)
        self._decoders = [(each, decoder_of(hint), f"attribute {each!r}") for each, hint in self._hints.items()]
        self._inherits_priority = "priority" not in explicit
        self._inherits_keep = "keep" not in explicit

    def __repr__(self) -> str:
        return f"<Step {self.step_name} of {self.flow.name}>"

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:  # noqa: ARG002
        """Raise `InvalidOption`, because a step is enqueued only by a run of its flow."""
        self._refuse()

    def _bind_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[Call[R_co]]:  # noqa: ARG002
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InvalidOption(
            f"{self.step_name!r} is a step, which only a run of its flow can enqueue: start one with {self.flow.name}.start(...)"
        )

    # For Tenure's modules that run and complete jobs.

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(f"{self.flow.name}.{alias}" for alias in super().aliases)

    def _call_arguments(self, payload: bytes, ctx: Context | None) -> tuple[tuple[Any, ...], dict[str, Any]]:  # noqa: ARG002
        """The attributes that the step reads, converted by annotation, and the context and `results` if it takes them."""
        assert ctx is not None
        args, kwargs = self._given(ctx.job)
        if self._signature.context is not None:
            return self._signature.with_context(args, kwargs, ctx), kwargs
        return args, kwargs

    def _given(self, job: JobRecord) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same without the context. `MissingAttribute` if one is missing, `PayloadError` if one does not fit."""
        given = job.attributes
        if given is None:
            raise PayloadError(
                f"the job of step {self.name!r} belongs to no run: start one with {self.flow.name}.start(...)"
            )
        kwargs = {}
        if self._decoders:
            kwargs = {name: read(decode, given[name], what) for name, decode, what in self._decoders if name in given}
        if len(kwargs) < len(self._reads) and not self._needed <= kwargs.keys():
            raise MissingAttribute(self.name, next(name for name in self._needs if name not in kwargs))
        if self._results_parameter is not None:
            self._results_parameter.fill((), kwargs, job.results)
        return (), kwargs

    def _succeeded(
        self, job: JobRecord, value: Any, children: tuple[NewJob, ...] = (), *, returned: bool = True
    ) -> Success:
        """The outcome of a job of this step that succeeded with this value. `TypeError` or `PayloadError` if a step cannot give it."""
        writes = None
        if value is not None:
            if isinstance(value, Next):
                return self._succeeded_with_next(job, value, children)
            if isinstance(value, Done):
                return Success(self._encode_result(value.value, returned=False), children)
            if isinstance(value, Mapping):
                writes = self.flow._writes(value)
            elif self._then is not None:
                raise TypeError(
                    f"step {self.name!r} has then={self._then!r} and gave {_a(value)}: "
                    "give a mapping of attributes, None, Next(step) or Done(value)"
                )
        if self._then is None:
            return Success(self._encode_result(value, returned=returned), children, None, writes)
        return Success("null", children, self.flow._step_named(self._then)._following(job), writes)

    def _converted(self, attributes: dict[str, Any]) -> dict[str, Any]:
        return self.flow._converted(attributes)

    def _completed(self, job: JobRecord, value: Any) -> Success:
        # If another program has completed the step already, its value counts, not the one given here.
        return self._decided(job) if is_decision(job) else super()._completed(job, value)

    def _decided(self, job: JobRecord) -> Success:
        """The outcome of a step that was completed by a program without its code. `TypeError` or `PayloadError` if a step cannot give it."""
        following, value = decision_of(job)
        if following is not None:
            return self._succeeded(job, Next(following, **self.flow._converted(value)))
        if isinstance(value, dict):
            value = self.flow._converted(value)
        elif value is not None:
            value = self._results.decode(msgspec.json.encode(value).decode())
        return self._succeeded(job, value)

    def _succeeded_with_next(self, job: JobRecord, chosen: Next, children: tuple[NewJob, ...]) -> Success:
        step = self.flow._step_named(chosen.step)
        if self._allowed_next is not None and step.step_name not in (*self._allowed_next, self._then):
            raise TypeError(f"step {self.name!r} gave Next({chosen.step!r}), which its next= does not name")
        fields = dict(chosen.fields)
        if chosen.after:
            fields["after"], coming = blockers(chosen.after)
            if job.run_id in fields["after"]:
                raise InvalidOption(f"a step of run {job.run_id} cannot wait for its own run")
            children = (*children, *stamped(self.app, coming))
        return Success("null", children, step._following(job, fields), self.flow._writes(chosen.attributes))

    def _following(self, job: JobRecord, fields: Mapping[str, Any] | None = None) -> NewJob:
        """The job of this step that follows `job`. It inherits tags and headers, and priority and keep unless the step sets them."""
        assert job.run_id is not None
        template = self._template
        new = replace(
            template,
            id=new_id(),
            step=RunStep(run_id=job.run_id, flow=self.flow.name, reads=self._reads, needs=self._needs),
            priority=job.priority if self._inherits_priority else template.priority,
            keep=job.keep if self._inherits_keep else template.keep,
            tags=job.tags,
        )
        if fields:
            if "tags" in fields:
                fields = {**fields, "tags": kept_origin(fields["tags"], job.tags)}
            new = replace(new, **fields)
        [new] = stamped(self.app, [new], job.headers)
        return new

    def _check_answer(self, on_timeout: str | None) -> None:
        if on_timeout is not None:
            self.flow._step_named(on_timeout)


class AsyncStep(Step[P, R_co], AsyncTask[P, R_co]):
    """A step whose function is `async def`: calling it returns a coroutine."""


class StepRegistrar:
    """Decorator that `flow.step(...)` returns: makes a step with these options from a function."""

    def __init__(self, flow: Flow, given: Mapping[str, Any]) -> None:
        self._flow = flow
        self._given = given

    @overload
    def __call__(self, function: Callable[Concatenate[Untyped, P], Coroutine[Any, Any, R]], /) -> AsyncStep[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Untyped, P], R], /) -> Step[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /) -> AsyncStep[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Step[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncStep[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Step[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        return declare_step(self._flow, function, self._given)


def declare_step(flow: Flow, function: Callable[..., Any], options: Mapping[str, Any]) -> Step[..., Any]:
    """Make a step from a function and add it to its flow. `InvalidOption` or `InvalidName` if an option is wrong."""
    given = dict(options)
    name = name_of_function("step", function, given)
    whose = f"step {name!r} of flow {flow.name!r}"
    then, following = given.pop("then", None), given.pop("next", None)
    if given.pop("raw", False):
        raise InvalidOption(f"{whose} takes attributes by name, not the bytes that raw=True means")
    check_names(whose, "step", given)
    explicit = frozenset(given)
    if given.get("queue") is None:
        given["queue"] = flow.app.options.default_queue
    if given["queue"] is None:
        raise InvalidOption(f"{whose} names no queue, and this app has no default_queue")
    kind = AsyncStep if inspect.iscoroutinefunction(function) else Step
    step: Step[..., Any] = kind(
        flow,
        name,
        function,
        build_options(TaskOptions, whose, given),
        explicit=explicit,
        then=None if then is None else _named(then, whose),
        allowed_next=None if following is None else tuple(_named(each, whose) for each in _steps(following, whose)),
    )
    flow._declare(step)
    return step


def _steps(value: object, whose: str) -> tuple[Any, ...]:
    try:
        return several(value, "next")
    except InvalidOption as error:
        raise named(error, whose) from None


def _named(step: object, whose: str) -> str:
    name = step if isinstance(step, str) else getattr(step, "step_name", None)
    if not isinstance(name, str):
        raise named(refused("then and next", "steps of the flow, or their names", step), whose)
    return name


def _a(value: object) -> str:
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"
