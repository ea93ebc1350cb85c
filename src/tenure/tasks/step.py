"""Steps of a flow: tasks whose arguments are attributes of the run, and whose result says what follows."""

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
from tenure.core.outcome import Done, Next, Succeeded
from tenure.core.remote_completion import decision_of, is_decision
from tenure.errors import InvalidOption, MissingAttribute, PayloadError
from tenure.tasks.context import Context
from tenure.tasks.task import AsyncTask, Call, Task, Untyped, name_of_function

if TYPE_CHECKING:
    from tenure.tasks.flow import Flow

__all__ = ["AsyncStep", "Step", "StepRegistrar"]

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Step(Task[P, R_co]):
    """A step of a flow. Its parameters are the attributes that it reads; one without a default it cannot begin without.

    What it returns says what becomes of the run. A mapping is merged into the attributes, None leaves them; then the step that
    `then` names follows, and if there is none the run ends with what was returned. `Next(step, **attributes)` and `Done(value)` decide
    whatever `then` says.
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
        """`explicit`: names of the options that were given, and so are not inherited from the step before."""
        name = checked_name("task", f"{flow.name}.{step_name}")
        super().__init__(flow.app, name, function, options)
        self.flow = flow
        self.step_name = step_name
        self._then = then
        """The name of the step that follows unless this one says otherwise."""

        self._allowed_next = allowed_next
        """The names of the only steps that it may choose with `Next`; None: any."""

        self._hints: dict[str, Any] = {}
        needs = []
        for parameter in self._signature.call.parameters.values():
            if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
                raise InvalidOption(
                    f"step {name!r} takes {parameter}: its parameters name attributes, so each must be one that can be passed by name"
                )
            if parameter.name != "results":
                self._hints[parameter.name] = self._signature.hints.get(parameter.name, Any)
                if parameter.default is parameter.empty:
                    needs.append(parameter.name)
        self._reads = tuple(self._hints)
        """Names of the attributes that it is given."""

        self._needs = tuple(needs)
        """Those of them without which it cannot begin."""

        self._needed = frozenset(needs)
        self._decoders = [(each, decoder_of(hint), f"attribute {each!r}") for each, hint in self._hints.items()]
        self._inherits_priority = "priority" not in explicit
        self._inherits_keep = "keep" not in explicit

    def __repr__(self) -> str:
        return f"<Step {self.step_name} of {self.flow.name}>"

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:  # noqa: ARG002
        """A step is no job of its own: `InvalidOption`."""
        self._refuse()

    def _bind_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[Call[R_co]]:  # noqa: ARG002
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InvalidOption(
            f"{self.step_name!r} is a step, and comes to exist in a run of its flow only: start one with {self.flow.name}.start(...)"
        )

    # For whoever runs jobs, and completes them.

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(f"{self.flow.name}.{alias}" for alias in super().aliases)

    def _call_arguments(self, payload: bytes, ctx: Context | None) -> tuple[tuple[Any, ...], dict[str, Any]]:  # noqa: ARG002
        """The attributes that it reads, converted by annotation; the context and the results of what it waited for, if it takes them."""
        assert ctx is not None
        args, kwargs = self._given(ctx.job)
        if self._signature.context is not None:
            return self._signature.with_context(args, kwargs, ctx), kwargs
        return args, kwargs

    def _given(self, job: JobRecord) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same without the context."""
        given = job.attributes
        if given is None:
            raise PayloadError(
                f"the job is of step {self.name!r} and of no run: start one with {self.flow.name}.start(...)"
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
    ) -> Succeeded:
        """What it means that this step, of this job, has given this value; `TypeError` or `PayloadError` if it means nothing."""
        writes = None
        if value is not None:
            if isinstance(value, Next):
                return self._succeeded_with_next(job, value, children)
            if isinstance(value, Done):
                return Succeeded(self._encode_result(value.value, returned=False), children)
            if isinstance(value, Mapping):
                writes = self.flow._writes(value)
            elif self._then is not None:
                raise TypeError(
                    f"step {self.name!r}, which {self._then!r} follows, gave {_a(value)}: "
                    "give a mapping of attributes, None, Next(step) or Done(value)"
                )
        if self._then is None:
            return Succeeded(self._encode_result(value, returned=returned), children, None, writes)
        return Succeeded("null", children, self.flow._step_named(self._then)._following(job), writes)

    def _converted(self, attributes: dict[str, Any]) -> dict[str, Any]:
        return self.flow._converted(attributes)

    def _completed(self, job: JobRecord, value: Any) -> Succeeded:
        # A value that another program has completed the step with counts, not the one given here.
        return self._decided(job) if is_decision(job) else super()._completed(job, value)

    def _decided(self, job: JobRecord) -> Succeeded:
        """What it means that this step was completed where its code is not; `TypeError` or `PayloadError` if it means nothing."""
        following, value = decision_of(job)
        if following is not None:
            return self._succeeded(job, Next(following, **self.flow._converted(value)))
        if isinstance(value, dict):
            value = self.flow._converted(value)
        elif value is not None:
            value = self._results.decode(msgspec.json.encode(value).decode())
        return self._succeeded(job, value)

    def _succeeded_with_next(self, job: JobRecord, chosen: Next, children: tuple[NewJob, ...]) -> Succeeded:
        step = self.flow._step_named(chosen.step)
        if self._allowed_next is not None and step.step_name not in (*self._allowed_next, self._then):
            raise TypeError(f"step {self.name!r} gave Next({chosen.step!r}), which its next= does not name")
        fields = dict(chosen.fields)
        if chosen.after:
            fields["after"], coming = blockers(chosen.after)
            if job.run_id in fields["after"]:
                raise InvalidOption(f"a step of run {job.run_id} cannot wait for that very run")
            children = (*children, *coming)
        return Succeeded("null", children, step._following(job, fields), self.flow._writes(chosen.attributes))

    def _following(self, job: JobRecord, fields: Mapping[str, Any] | None = None) -> NewJob:
        """The job of this step that comes after that one, which saying nothing else inherits its priority, keep and tags."""
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
        return replace(new, **fields) if fields else new

    def _check_answer(self, on_timeout: str | None) -> None:
        if on_timeout is not None:
            self.flow._step_named(on_timeout)


class AsyncStep(Step[P, R_co], AsyncTask[P, R_co]):
    """A step whose function is `async def`: calling it gives a coroutine."""


class StepRegistrar:
    """What `@flow.step(...)` gives: makes a step, with these options, of a function."""

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
    """Make a step of a function and add it to its flow; `InvalidOption` or `InvalidName` if an option is wrong."""
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
