"""Flow: a chain of steps that hand over to each other. Starter: starts runs of it with certain options."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

import msgspec
from msgspec.structs import replace

from tenure.core.after import BoundCall
from tenure.core.attributes import decoded, lookup_for, write
from tenure.core.checks import Duration, integer
from tenure.core.checks import name as checked_name
from tenure.core.codec import Decode, decoder_of, digest
from tenure.core.job import NewJob, RunStep, Writes, new_id
from tenure.core.keywords import JobKeywords, StepKeywords, WorkerKeywords
from tenure.core.options import UNSET, Unset, job_fields
from tenure.errors import InvalidOption, MissingAttribute
from tenure.stores.values import Enqueued, RunSearch
from tenure.sync import blocking
from tenure.tasks.context import Context
from tenure.tasks.step import AsyncStep, Step, StepRegistrar, declare_step
from tenure.tasks.task import Untyped

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.jobs.run import FlowRun, RunPage
    from tenure.tasks.task import Blocker
    from tenure.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["AsyncStep", "Flow", "FlowWorkers", "NamedFlow", "RemoteFlow", "Start", "Starter", "Step"]


class Start(BoundCall):
    """A start of a flow, with its attributes checked and encoded. Each enqueue of it is a new run."""

    __slots__ = ("caller", "writes")

    def __init__(self, caller: Starter, writes: Writes | None) -> None:
        self.caller = caller
        self.writes = writes

    def new_job(self) -> NewJob:
        """Build the job of the first step of a new run."""
        return self.caller._new_job(self.writes)

    @property
    def after(self) -> Sequence[Any]:
        return self.caller._after

    @property
    def connection(self) -> object:
        """The connection of its `Starter`."""
        return self.caller._connection

    def handle(self, new: NewJob | Enqueued) -> FlowRun:
        """The handle of a run that was made from this start."""
        from tenure.jobs.run import FlowRun

        run = FlowRun(self.caller.app, new.id, self.caller._flow.name, self.caller._flow._first_name)
        if isinstance(new, Enqueued):
            run._update_enqueued(new)
        return run


class Starter:
    """Starts runs of one flow with certain options for their first step. `using` returns another `Starter` with other options."""

    _flow: NamedFlow
    app: App

    def __init__(
        self, flow: NamedFlow, fields: Mapping[str, Any], connection: object = None, after: tuple[Any, ...] = ()
    ) -> None:
        self._flow = flow
        self.app = flow.app
        self._connection = connection
        """Database connection of the caller, in whose transaction runs are started; None: the store uses its own."""

        self._after = after
        """Blockers of the first steps, as `checked_after` returns them."""

        self._fields = fields

    def start(self, /, **attributes: Any) -> FlowRun:
        """Start a run with these attributes, durably.

        Raises, before any I/O, `MissingAttribute` if the first step needs one that is not given, or `PayloadError` if one cannot be
        stored.
        """
        [run] = self.app.enqueue(self.bind(**attributes))
        return run

    async def astart(self, /, **attributes: Any) -> FlowRun:
        """The async twin of `start`."""
        [run] = await self.app.aenqueue(self.bind(**attributes))
        return run

    def start_many(self, runs: Iterable[Mapping[str, Any]]) -> list[FlowRun]:
        """Start many runs in one atomic round trip; each is a mapping of attributes."""
        return self.app.enqueue(*[self.bind(**attributes) for attributes in runs])

    async def astart_many(self, runs: Iterable[Mapping[str, Any]]) -> list[FlowRun]:
        """The async twin of `start_many`."""
        return await self.app.aenqueue(*[self.bind(**attributes) for attributes in runs])

    def bind(self, /, **attributes: Any) -> Start:
        """Check and encode a start, to enqueue it together with others, or to wait for it."""
        return Start(self, self._flow._initial_writes(attributes))

    def using(self, *, after: Iterable[Blocker] | Unset = UNSET, **options: Unpack[JobKeywords]) -> Starter:
        """Return the same flow with other options for the first step of its runs; docs/options.md and `JobKeywords` describe them.

        The steps that follow inherit priority, tags and keep. A unique key is owned by the run, until the run ends or for `window`;
        `unique=True` derives it from the attributes.
        """
        given = options if isinstance(after, Unset) else {**options, "after": after}
        fields, blockers = job_fields(f"flow {self._flow.name!r}", "using", given, self._fields, self._after)
        return Starter(self._flow, fields, options.get("connection", self._connection), blockers)

    # For Tenure's modules that enqueue.

    def _new_job(self, writes: Writes | None) -> NewJob:
        """Build the job of the first step of a run with these attributes."""
        new = self._flow._first_job(new_id(), writes)
        if not self._fields:
            return new
        new = replace(new, **self._fields)
        if self._fields.get("unique") is True:
            texts = {} if writes is None else writes.attributes
            new = replace(new, unique=digest(msgspec.json.encode(texts, order="deterministic")))
        return new


class NamedFlow(Starter):
    """A flow known by its name: starts runs and finds them. The base of `Flow` and `RemoteFlow`."""

    def __init__(self, app: App, name: str, lookup: Iterable[str] = ()) -> None:
        if isinstance(lookup, str):
            raise InvalidOption(
                f"lookup must be a list of attributes, not the text {lookup!r:.80}: write [{lookup!r:.80}]"
            )
        self.app = app
        super().__init__(self, {})
        self.name = checked_name("flow", name)
        self.lookup = tuple(dict.fromkeys(lookup))

    async def afind(self, /, *, limit: int = 50, cursor: str | None = None, **attribute: Any) -> RunPage:
        """Find the runs whose attribute has this value, a page at a time, newest first: `find(customer="c1")`.

        The attribute must be one of `lookup`. The value must be a string, number or bool; an attribute that is a list is found by
        each of its elements.
        """
        if len(attribute) != 1:
            raise InvalidOption(f"find takes one attribute, as in find(customer='c1'), got {len(attribute)}")
        [(name, value)] = attribute.items()
        if name not in self.lookup:
            raise InvalidOption(f"runs of flow {self.name!r} cannot be found by {name!r:.80}: name it in lookup=[…]")
        search = RunSearch(flow=self.name, lookup=(name, lookup_for(value)), limit=limit, cursor=cursor)
        return await self.app.internals.runs_found(search)

    find = blocking(afind)

    # For Tenure's modules that start runs.

    @property
    def _first_name(self) -> str:
        """Name of the first step."""
        raise NotImplementedError

    def _initial_writes(self, attributes: Mapping[str, Any]) -> Writes | None:
        """Check and encode the attributes that a run starts with."""
        raise NotImplementedError

    def _first_job(self, run_id: str, writes: Writes | None) -> NewJob:
        """Build the job of the first step of a run that starts with these attributes."""
        raise NotImplementedError


class RemoteFlow(NamedFlow):
    """A flow whose code is in another program. Runs are started, found and inspected here; their steps run where the code is.

    The worker that runs the first step checks the attributes. If one is missing or does not fit, the run ends as broken, with an error
    that names it (`MissingAttribute` or `PayloadError`).
    """

    def __init__(self, app: App, name: str, first: str, queue: str, lookup: Iterable[str] = ()) -> None:
        super().__init__(app, name, lookup)
        self._first = checked_name("step", first)
        self._task = checked_name("task", f"{self.name}.{first}")
        self._queue = checked_name("queue", queue)

    def __repr__(self) -> str:
        return f"<RemoteFlow {self.name}>"

    @property
    def _first_name(self) -> str:
        return self._first

    def _initial_writes(self, attributes: Mapping[str, Any]) -> Writes | None:
        return write(attributes, {}, self.lookup, self.app.options.payload_limit)

    def _first_job(self, run_id: str, writes: Writes | None) -> NewJob:
        # The first step can read only what the run starts with, so the names of its parameters need not be known.
        reads = () if writes is None else tuple(writes.attributes)
        step = RunStep(run_id=run_id, flow=self.name, reads=reads, writes=writes)
        return NewJob(id=run_id, task=self._task, queue=self._queue, step=step)


class Flow(NamedFlow):
    """A chain of steps that share attributes. Declare the steps with `@flow.step(...)`, the first one first; start a run with `start`.

    A step ends and the next one is enqueued in one transaction. `lookup` names the attributes that runs can be found by.
    """

    def __init__(self, app: App, name: str, lookup: Iterable[str] = ()) -> None:
        super().__init__(app, name, lookup)
        self._steps: dict[str, Step[..., Any]] = {}
        self._current_names: dict[str, str] = {}  # name of each step by its former names
        self._hints: dict[str, list[Any]] = {}
        self._decoders: dict[str, list[Decode]] = {}
        self._checked = False

    def __repr__(self) -> str:
        return f"<Flow {self.name}: {', '.join(self._steps)}>"

    @overload
    def step(self, function: Callable[Concatenate[Untyped, P], Coroutine[Any, Any, R]], /) -> AsyncStep[..., R]: ...
    @overload
    def step(self, function: Callable[Concatenate[Untyped, P], R], /) -> Step[..., R]: ...
    @overload
    def step(self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /) -> AsyncStep[P, R]: ...
    @overload
    def step(self, function: Callable[Concatenate[Context, P], R], /) -> Step[P, R]: ...
    @overload
    def step(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncStep[P, R]: ...
    @overload
    def step(self, function: Callable[P, R], /) -> Step[P, R]: ...
    @overload
    def step(
        self,
        /,
        **options: Unpack[StepKeywords],
    ) -> StepRegistrar: ...
    def step(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a step from a function: `@flow.step` or `@flow.step(...)`. Runs start with the first step that is declared.

        `then`: the step that follows by default, or its name. `next`: the steps that this one may choose with `Next`; default: any.
        When the flow is first used, it checks that these steps exist. `name`: default, the name of the function. docs/options.md and
        `TaskOptions` describe the other options.
        """
        return StepRegistrar(self, options) if function is None else declare_step(self, function, options)

    @property
    def steps(self) -> Mapping[str, Step[..., Any]]:
        """The steps by name, in the order of their declaration."""
        return MappingProxyType(self._steps)

    @property
    def _first(self) -> Step[..., Any]:
        """The first step."""
        self._must_have_steps()
        return next(iter(self._steps.values()))

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues of the steps, each once."""
        return tuple(dict.fromkeys(step.queue for step in self._steps.values()))

    # Working.

    def worker(self, **options: Unpack[WorkerKeywords]) -> Worker:
        """Make a worker for the queues of the steps, not yet started. It runs all jobs of these queues. Options: as for `App.worker`."""
        self._check()
        return self.app.worker(self.queues, **options)

    def workers(self, /, **slots: int) -> FlowWorkers:
        """Make workers for the queues of the steps, started and stopped together: `async with order.workers(reserve=2, charge=5): …`.

        Each queue has one worker. Its concurrency is the sum of the numbers given here for the steps of that queue; default: 1 a step.
        """
        self._check()
        for name, count in slots.items():
            self._step_named(name)
            integer(1)(count, name)
        total: dict[str, int] = dict.fromkeys(self.queues, 0)
        for name, step in self._steps.items():
            total[step.queue] += slots.get(name, 1)
        return FlowWorkers([self.app.worker([queue], concurrency=count) for queue, count in total.items()])

    # For Tenure's modules.

    @property
    def _first_name(self) -> str:
        return self._first.step_name

    def _initial_writes(self, attributes: Mapping[str, Any]) -> Writes | None:
        self._check()
        writes = self._writes(attributes)
        for needed in self._first._needs:
            if needed not in attributes:
                raise MissingAttribute(self._first.name, needed)
        return writes

    def _first_job(self, run_id: str, writes: Writes | None) -> NewJob:
        first = self._first
        step = RunStep(run_id=run_id, flow=self.name, reads=first._reads, needs=first._needs, writes=writes)
        return replace(first._template, id=run_id, step=step)

    def _declare(self, step: Step[..., Any]) -> None:
        """Add a step."""
        self.app.internals.register(step)
        self._steps[step.step_name] = step
        self._current_names |= dict.fromkeys(step.options.aliases, step.step_name)
        self._checked = False
        for name, hint in step._hints.items():
            hints = self._hints.setdefault(name, [])
            if hint not in hints:
                hints.append(hint)
                self._decoders.setdefault(name, []).append(decoder_of(hint))

    def _step_named(self, name: str) -> Step[..., Any]:
        """The step with this name or former name. `InvalidOption` if there is none."""
        step = self._steps.get(self._current_names.get(name, name))
        if step is None:
            raise InvalidOption(f"flow {self.name!r} has no step {name!r:.80}{_suggestion(name, self._steps)}")
        return step

    def _writes(self, attributes: Mapping[str, Any]) -> Writes | None:
        """Encode attributes to be written to a run. `PayloadError` if one fits none of the annotations that steps have for it."""
        return write(attributes, self._decoders, self.lookup, self.app.options.payload_limit)

    def _converted(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Convert JSON values of attributes by the annotations that steps have for them. `PayloadError` if one does not fit."""
        return {
            name: decoded(name, msgspec.json.encode(value), self._decoders.get(name, ()))
            for name, value in attributes.items()
        }

    def _check(self) -> None:
        """Raise `InvalidOption` if `then=` or `next=` of a step names no step. A check that passed is not repeated."""
        if self._checked:
            return
        self._must_have_steps()
        for step in self._steps.values():
            for option, names in (("then", (step._then,)), ("next", step._allowed_next or ())):
                for name in names:
                    if name is not None and name not in self._steps:
                        raise InvalidOption(
                            f"step {step.step_name!r} of flow {self.name!r} has {option}={name!r:.80}, "
                            f"and there is no such step{_suggestion(name, self._steps)}"
                        )
        self._checked = True

    def _must_have_steps(self) -> None:
        if not self._steps:
            raise InvalidOption(f"flow {self.name!r} has no steps: declare the first one with @{self.name}.step")


class FlowWorkers:
    """Workers that are started and stopped together: `async with`, or `start` and `stop`."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.workers = tuple(workers)

    async def start(self) -> None:
        """Start all of them. If one cannot start, stop the others and raise its error."""
        try:
            for worker in self.workers:
                await worker.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self, grace: Duration | None = None) -> None:
        """Stop all of them, as `Worker.stop` does. The first error is raised after all have stopped."""
        alive = [worker for worker in self.workers if worker.status != "stopped"]
        ended = await asyncio.gather(*(worker.stop(grace) for worker in alive), return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _suggestion(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f": it has {', '.join(known)}"
