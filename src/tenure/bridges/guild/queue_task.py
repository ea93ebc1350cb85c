"""`QueueTask`: a function that serves a queue of Guild. Its parameters name the attributes that it reads."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    NamedTuple,
    NoReturn,
    ParamSpec,
    TypedDict,
    TypeVar,
    overload,
)

from tenure.bridges.guild.attributes import result_texts
from tenure.bridges.names import queue_name
from tenure.core.backoff import Backoff
from tenure.core.checks import Duration, refused, seconds
from tenure.core.checks import name as checked_name
from tenure.core.job import JobRecord, NewJob
from tenure.core.options import TaskOptions, build_options, check_names
from tenure.core.outcome import Success
from tenure.errors import InvalidOption
from tenure.tasks.context import Context
from tenure.tasks.task import AsyncTask, Call, Task, Untyped

if TYPE_CHECKING:
    from tenure.bridges.guild.bridge import Guild

__all__ = ["AsyncQueueTask", "QueueKeywords", "QueueRegistrar", "QueueTask"]

EXTRA = 1
"""Seconds that a lock lasts longer than `lock`, as in Guild's own worker."""

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class QueueKeywords(TypedDict, total=False):
    """Options of `@guild.queue(...)` beside `then`, `lock` and `reads`; they are those of a task, see `TaskOptions`."""

    name: str | None
    retry: Backoff | int | None
    max_attempts: int | None
    max_losses: int | None
    lease: Duration
    renew: Duration | None
    timeout: Duration | None
    keep: Duration | None
    isolation: Literal["process"] | None
    memory_limit: int | None
    output: int


class Read(NamedTuple):
    """An attribute that a parameter reads."""

    attribute: str
    has_default: bool


class QueueTask(Task[P, R_co]):
    """A task that serves a queue of a Guild flow. Jobs of it come from there only.

    1. Its parameters name the attributes that it reads; `id` is the id of Guild's job. A missing attribute is None, or the default.
       `reads` gives the names of attributes that no parameter can have.
    2. It returns a mapping, which is merged into the attributes, or None. `nextQueue` in it names the next queue instead of `then`.
    3. An exception fails the job, as in Guild's own worker, unless `retry` or `max_attempts` is given. `Retry(after=…)` delays it.
    4. A child queue, named `parent:child`, must return `done: True`: its parent waits for that.
    """

    def __init__(
        self,
        guild: Guild,
        guild_queue: str,
        name: str,
        function: Callable[..., Any],
        options: TaskOptions,
        then: str | None,
        lock: float,
        reads: Mapping[str, str],
    ) -> None:
        super().__init__(guild.app, name, function, options)
        self.guild_queue = guild_queue
        """The name of the queue in Guild."""

        self._guild = guild
        self.then = then
        """The queue that follows; None if this is the last."""

        self.lock = lock
        """Seconds after which Guild's monitor fails a job whose worker is gone."""

        self.reads: dict[str, Read] = {}
        """The attributes that it reads, by parameter."""

        whose = f"queue {guild_queue!r}"
        for parameter in self._signature.call.parameters.values():
            if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
                raise InvalidOption(
                    f"{whose} takes {parameter}: its parameters name attributes, so it must be possible to pass each by name"
                )
            attribute = reads.get(parameter.name, parameter.name)
            self.reads[parameter.name] = Read(attribute, parameter.default is not parameter.empty)
        if unknown := reads.keys() - self.reads.keys():
            raise InvalidOption(f"reads= of {whose} names {min(unknown)!r}, which is no parameter of its function")
        self.takes_id = "id" not in reads and self.reads.pop("id", None) is not None

    def __repr__(self) -> str:
        return f"<Queue {self.guild_queue} of {self._guild.flow}>"

    @property
    def is_child(self) -> bool:
        """Whether it is a child queue, whose jobs a parent queue has made."""
        return ":" in self.guild_queue

    @property
    def lock_seconds(self) -> int:
        """Seconds after which its lock expires unless it is renewed."""
        return math.ceil(self.lock) + EXTRA

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:  # noqa: ARG002
        """Raise `InvalidOption`, because the jobs of a queue come from Guild."""
        self._refuse()

    def _bind_many(self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]]) -> list[Call[R_co]]:  # noqa: ARG002
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InvalidOption(
            f"jobs of queue {self.guild_queue!r} come from Guild: create one with start(...) of the bridge instead"
        )

    def _succeeded(
        self, job: JobRecord, value: Any, children: tuple[NewJob, ...] = (), *, returned: bool = True
    ) -> Success:
        made = super()._succeeded(job, value, children, returned=returned)
        _, texts = result_texts(made.result)
        if self.is_child and texts.get("done") != b"true":
            raise TypeError(f'child queue {self.guild_queue!r} must return {{"done": True}}: its parent waits for that')
        return made


class AsyncQueueTask(QueueTask[P, R_co], AsyncTask[P, R_co]):
    """A queue whose function is `async def`: calling it returns a coroutine."""


class QueueRegistrar:
    """Decorator that `guild.queue(...)` returns: lets a function serve a queue."""

    def __init__(self, declare: Callable[[Callable[..., Any]], QueueTask[..., Any]]) -> None:
        self._declare = declare

    @overload
    def __call__(
        self, function: Callable[Concatenate[Untyped, P], Coroutine[Any, Any, R]], /
    ) -> AsyncQueueTask[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Untyped, P], R], /) -> QueueTask[..., R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncQueueTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> QueueTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncQueueTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> QueueTask[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        return self._declare(function)


def declare_queue(
    guild: Guild,
    queue: str,
    function: Callable[..., Any],
    then: str | None,
    lock: Duration,
    reads: Mapping[str, str],
    options: Mapping[str, Any],
) -> QueueTask[..., Any]:
    """Make the task of a queue and add it to its app. `InvalidOption` or `InvalidName` if an option is wrong."""
    whose = f"queue {queue!r} of flow {guild.flow!r}"
    if not callable(function):
        raise refused(f"what @….queue({queue!r}) decorates", "a function", function)
    given = dict(options)
    name = given.pop("name", None) or f"{guild.flow}.{queue}"
    if then is not None and ":" in queue:
        raise InvalidOption(f"{whose} is a child queue: its parent goes on, so it takes no then=")
    check_names(whose, "task", given)
    if not given.keys() & {"retry", "max_attempts"}:
        # Guild knows no retries, so an exception fails the job; Retry(after=…), its DelayError, must have no limit.
        given |= {"retry": None, "max_attempts": None}
    given["queue"] = queue_name(guild.kind, queue)
    kind = AsyncQueueTask if inspect.iscoroutinefunction(function) else QueueTask
    task: QueueTask[..., Any] = kind(
        guild,
        queue,
        checked_name("task", name),
        function,
        build_options(TaskOptions, whose, given),
        then,
        seconds(lock, f"{whose}: lock", least=1.0),
        dict(reads),
    )
    guild.app.internals.register(task)
    return task
