"""Small frozen values that users set, each documented where it is declared and checked where it is built.

Every option has one check, in the table of its class. `build_options` builds the options of a task, a worker or an app: it refuses an
unknown name, saying which one was meant, and says in each error whose option is wrong.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, TypeVar

from tenure.core.after import checked_after
from tenure.core.backoff import Backoff
from tenure.core.checks import (
    Check,
    Duration,
    attempts,
    duration,
    flag,
    integer,
    job_options,
    named,
    or_none,
    refused,
    seconds,
    several,
)
from tenure.core.checks import name as checked_name
from tenure.core.checks import priority as checked_priority
from tenure.core.keywords import AppKeywords, JobKeywords, NextKeywords, StepKeywords, TaskKeywords, WorkerKeywords
from tenure.core.patterns import checked as checked_patterns
from tenure.errors import InvalidName, InvalidOption

__all__ = [
    "UNSET",
    "AppOptions",
    "Retention",
    "TaskOptions",
    "Unset",
    "WorkerOptions",
    "build_options",
    "check_names",
    "job_fields",
    "job_option_named",
    "split_retention",
]


class Unset:
    """The type of `UNSET`: this option was not given, ask the next place. (None is often a value of its own.)"""

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Final = Unset()

_ATTEMPTS: Final = 25
"""Attempts that a job has if nothing says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long finished jobs are kept, by age and by number in each queue, whichever is reached first."""

    succeeded: Duration = 3600.0
    """Seconds that succeeded and cancelled jobs are kept."""

    failed: Duration = 30 * 86400.0
    """Seconds that failed and broken jobs are kept."""

    count: int = 10_000
    """How many succeeded or cancelled jobs, and how many failed or broken ones, each queue keeps at most; the oldest go first."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "succeeded", seconds(self.succeeded, "succeeded"))
        object.__setattr__(self, "failed", seconds(self.failed, "failed"))
        integer(0)(self.count, "count")


# Checks of single options.


def _retry(value: object, option: str) -> Backoff | int | None:
    if value is None or isinstance(value, Backoff):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    instead = "write retry=Backoff()" if value is Backoff or value is True else ""
    if isinstance(value, type) and issubclass(value, BaseException):
        instead = f"write retry=Backoff(on={value.__name__})"
    elif value is False:
        instead = "write retry=None for no retries"
    elif isinstance(value, float):
        instead = f"write retry=Backoff(initial={value:g}) for a delay in seconds"
    raise refused(option, "a Backoff, an integer (that many retries) or None", value, instead)


def _isolation(value: object, option: str) -> Literal["process"] | None:
    if value is not None and value != "process":
        raise refused(option, '"process" or None', value)
    return value


def _inbox(value: object, option: str) -> Literal["raw"] | None:
    if value is not None and value != "raw":
        raise refused(option, '"raw" or None', value)
    return value


def _text(value: object, option: str) -> str:
    if not isinstance(value, str) or not value:
        raise refused(option, "a text", value)
    return value


def _queue(value: object, _: str) -> str:
    return checked_name("queue", value)


def _aliases(value: object, option: str) -> tuple[str, ...]:
    return tuple(checked_name("task", alias) for alias in several(value, option))


def _queues(value: object, option: str) -> tuple[str, ...]:
    queues = (value,) if isinstance(value, str) else several(value, option)
    if not queues:
        raise InvalidOption('queues must name at least one queue; "*" serves them all')
    for queue in queues:
        if not isinstance(queue, str):
            raise refused(option, "names of queues and patterns", queue)
        if "," in queue:
            raise refused(option, "a list", queue, f"write {[each.strip() for each in queue.split(',')]}")
    checked_patterns(queues)
    return queues


def _tasks(value: object, option: str) -> tuple[str, ...]:
    names = tuple(task if isinstance(task, str) else getattr(task, "name", task) for task in several(value, option))
    for task in names:
        if not isinstance(task, str):
            raise refused(option, "tasks and names of tasks", task)
    return names


def _retention(value: object, option: str) -> Retention:
    if not isinstance(value, Retention):
        wants_seconds = isinstance(value, (int, float)) and not isinstance(value, bool)
        instead = f"write {option}=Retention(succeeded={value!r:.20})" if wants_seconds else ""
        raise refused(option, "a Retention, or a mapping from queues to them", value, instead)
    return value


def split_retention(keep: object) -> tuple[Retention, Mapping[str, Retention]]:
    """What `App(keep=…)` says: what holds for all queues, and what for single ones."""
    if not isinstance(keep, Mapping):
        return _retention(keep, "keep"), MappingProxyType({})
    for queue, each in keep.items():
        _retention(each, f"keep[{queue!r:.80}]")
    queues = {checked_name("queue", queue): each for queue, each in keep.items() if queue != "*"}
    return keep.get("*", Retention()), MappingProxyType(queues)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """The defaults of a task. What is `UNSET` is looked up on the worker, then on the app."""

    queue: str
    """Where its jobs wait."""

    retry: Backoff | int | Unset | None = UNSET
    """How an exception is retried; an integer: that many times, with the backoff of worker or app; None: the first one fails the job."""

    max_attempts: int | Unset | None = UNSET
    """Attempts before a job fails for errors, losses not counted; None: for ever."""

    max_losses: int | None = 3
    """Losses (its worker died) before a job fails as lost; 1: at the first one; None: never."""

    lease: Duration | Unset = UNSET
    """Seconds that a silent worker keeps a job, at least 1. Longer means slower recovery, shorter means more renewals."""

    renew: Duration | Unset | None = UNSET
    """Seconds between renewals, at most half the lease; None: never, so a job that outlives its lease goes to another worker,
    and may settle until that has taken it."""

    timeout: Duration | None = None
    """Seconds that one attempt may take; None: no limit."""

    keep: Duration | None = None
    """Seconds that finished jobs are kept, in place of the queue's retention; 0: not at all."""

    priority: int = 0
    """Lower comes first."""

    raw: bool = False
    """The function takes one argument, the payload bytes exactly as enqueued."""

    inbox: Literal["raw"] | None = None
    """`"raw"`: what other programs put in the inbox of the task's queue are payloads of this raw task, and no JSON."""

    isolation: Literal["process"] | Unset | None = UNSET
    """`"process"`: each attempt in a child process of its own; None: in the worker's process, whatever the worker says."""

    memory_limit: int | None = None
    """Bytes of memory that an attempt may allocate, beside what the worker had loaded; needs `isolation="process"`."""

    output: int = 0
    """Bytes kept with each attempt of what it writes to stdout and stderr, the last ones; needs `isolation="process"`. 0: none."""

    aliases: Iterable[str] = ()
    """Names that the task had before: jobs that are stored under them are run by it too."""

    checks: ClassVar[Mapping[str, Check]] = {
        "queue": _queue,
        "retry": _retry,
        "max_attempts": attempts,
        "max_losses": or_none(integer(1), "never"),
        "lease": duration(least=1.0),
        "renew": or_none(duration(least=0.01), "never"),
        "timeout": or_none(duration(least=0.001), "no limit"),
        "keep": or_none(seconds, "as long as the queue keeps its jobs"),
        "priority": checked_priority,
        "raw": flag,
        "inbox": _inbox,
        "isolation": _isolation,
        "memory_limit": or_none(integer(1 << 20, unit=" of bytes"), "no limit"),
        "output": integer(0, unit=" of bytes"),
        "aliases": _aliases,
    }

    def __post_init__(self) -> None:
        _check(self)
        if self.inbox == "raw" and not self.raw:
            raise InvalidOption('inbox="raw" is for tasks that take bytes: say raw=True too')
        _check_renew(self.lease, self.renew)
        if isinstance(self.retry, int):
            if not isinstance(self.max_attempts, Unset):
                raise _given_twice(self.retry)
            object.__setattr__(self, "max_attempts", self.retry + 1)
        if self.isolation != "process" and (self.memory_limit is not None or self.output):
            raise InvalidOption(
                'memory_limit and output are of a child process: they need isolation="process" beside them'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What a worker serves and how."""

    queues: tuple[str, ...] = ("*",)
    """Names and patterns in order of priority: `*`, globs and `!exclusions`; expanded again every second."""

    tasks: tuple[str, ...] | None = None
    """Names of the only tasks to run; jobs of others stay in line for other workers. None: all that the app knows."""

    concurrency: int = 1
    """Slots, over all lanes: jobs that run at the same time. 1 never runs two at once."""

    id: str | None = None
    """Name in the registry; made from host, pid and chance if not given. Must be unique among living workers."""

    poll: Duration = 1.0
    """Seconds after which the store is asked again although no wake-up came, moved by up to 10 % at random."""

    job_delay: Duration = 0.0
    """Seconds that a slot rests after each job."""

    retry: Backoff | int | Unset | None = UNSET
    """How an exception is retried in tasks that do not say so themselves."""

    lease: Duration | Unset = UNSET
    """Seconds that a lease lasts, at least 1, for tasks that do not say so themselves."""

    renew: Duration | Unset | None = UNSET
    """Seconds between renewals of a lease, at most half of it, for tasks that do not say so themselves; None: never."""

    reap: bool = True
    """Take jobs from dead workers of the same queues, and prune what is old. Without any such worker nobody recovers them."""

    look_ahead: bool = True
    """Lease short jobs (under 20 ms) before there is a free slot for them, about 20 ms of work."""

    beat: Duration = 2.0
    """Seconds between signs of life in the registry."""

    prune_interval: Duration = 60.0
    """Seconds between removals of finished jobs that retention does not keep, and of missing workers that hold nothing."""

    health_port: int | None = None
    """Port on which the worker tells over HTTP whether it works; 0: any that is free. None: it does not."""

    health_host: str = "127.0.0.1"
    """Address on which it tells so."""

    isolation: Literal["process"] | None = None
    """`"process"`: run every task that says nothing else in a child process of its own."""

    isolated: int | None = None
    """Child processes at a time; what waits for one keeps its slot. None: as many as there are slots."""

    run_atexit: bool = False
    """Let child processes end as programs do, with the threads and atexit handlers that were begun in them, instead of at once."""

    term_timeout: Duration = 4.0
    """Seconds that jobs have to clean up once TERM or INT has told them to stop; then they are released, an isolated one is killed."""

    pre_shutdown_timeout: Duration = 0.0
    """Seconds that jobs have to finish after TERM or INT before they are told to stop."""

    term_child: bool = True
    """Tell jobs to stop before they are released; False: TERM and INT kill isolated jobs and release all of them at once."""

    graceful_term: bool = False
    """TERM finishes the jobs in hand, as QUIT does."""

    fail_interrupted: bool = False
    """A job that its worker interrupts (by TERM, INT, `stop(grace)`, `leave`) fails; else it is released, to the front."""

    max_jobs: int | None = None
    """Jobs after which the worker stops as if by QUIT, with an exit status that asks for another; None: no limit."""

    max_age: Duration | None = None
    """Seconds after which it does, moved by up to 10 % at random, so that those started together do not end together; None: no limit."""

    max_memory: int | None = None
    """Bytes of memory that its process may occupy before it does; None: no limit."""

    checks: ClassVar[Mapping[str, Check]] = {
        "queues": _queues,
        "tasks": or_none(_tasks, "all of the app"),
        "concurrency": integer(1),
        "id": or_none(lambda value, _: checked_name("worker", value), "made from host, pid and chance"),
        "poll": duration(least=0.01),
        "job_delay": seconds,
        "retry": _retry,
        "lease": duration(least=1.0),
        "renew": or_none(duration(least=0.01), "never"),
        "reap": flag,
        "look_ahead": flag,
        "beat": duration(least=0.01),
        "prune_interval": duration(least=0.01),
        "health_port": or_none(integer(0, 65535), "none"),
        "health_host": _text,
        "isolation": _isolation,
        "isolated": or_none(integer(1), "as many as there are slots"),
        "run_atexit": flag,
        "term_timeout": seconds,
        "pre_shutdown_timeout": seconds,
        "term_child": flag,
        "graceful_term": flag,
        "fail_interrupted": flag,
        "max_jobs": or_none(integer(1), "no limit"),
        "max_age": or_none(duration(least=0.1), "no limit"),
        "max_memory": or_none(integer(1, unit=" of bytes"), "no limit"),
    }

    def __post_init__(self) -> None:
        _check(self)
        _check_renew(self.lease, self.renew)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    """What holds wherever neither job, task nor worker says otherwise."""

    retry: Backoff | int | None = Backoff()
    """An integer: that many retries, with the default backoff; it stands in the place of `max_attempts`."""

    max_attempts: int | None = _ATTEMPTS
    """Attempts before a job fails for errors, losses not counted; None: no limit."""

    lease: Duration = 30.0
    """Seconds that a lease lasts, at least 1."""

    renew: Duration | Unset | None = UNSET
    """UNSET: a lease is renewed when less than two thirds of it are left."""

    keep: Retention = Retention()
    """How long finished jobs are kept; a mapping says it for each queue, with `"*"` for all others."""

    keep_in: Mapping[str, Retention] = field(default_factory=lambda: MappingProxyType({}))
    """Retention of single queues."""

    default_queue: str | None = "default"
    """The queue of tasks that name none; None makes that an error when the task is registered."""

    payload_limit: int = 1 << 20
    """Bytes that the arguments, or the result, of a job may have once encoded."""

    unknown_for: Duration = 3600.0
    """Seconds that a job whose task no live worker knows is offered again before it is broken."""

    wakeup: bool = True
    """Let the store wake idle workers; False works on polling alone."""

    complete_timeout: Duration = 5.0
    """Seconds that a block of `ctx.complete()` may take on SQLite, where nobody else can write meanwhile."""

    missing_after: Duration = 10.0
    """Seconds of silence after which everyone sees a worker of this app as missing, at least 1.5 times its `beat`. It takes nothing
    from the worker: its jobs go to others when their leases expire."""

    checks: ClassVar[Mapping[str, Check]] = {
        "retry": _retry,
        "max_attempts": attempts,
        "lease": duration(least=1.0),
        "renew": or_none(duration(least=0.01), "never"),
        "keep": _retention,
        "default_queue": or_none(_queue, "tasks must name theirs"),
        "payload_limit": integer(1, unit=" of bytes"),
        "unknown_for": seconds,
        "wakeup": flag,
        "complete_timeout": duration(least=0.001),
        "missing_after": duration(least=1.5),
    }

    def __post_init__(self) -> None:
        _check(self)
        _check_renew(self.lease, self.renew)
        if isinstance(self.retry, int):
            if self.max_attempts != _ATTEMPTS:
                raise _given_twice(self.retry)
            object.__setattr__(self, "max_attempts", self.retry + 1)
            object.__setattr__(self, "retry", Backoff())


Options = TaskOptions | WorkerOptions | AppOptions
O = TypeVar("O", TaskOptions, WorkerOptions, AppOptions)  # noqa: E741


def build_options(kind: type[O], whose: str, given: Mapping[str, Any]) -> O:
    """The options of a task, a worker or an app; an error says whose option is wrong."""
    try:
        return kind(**given)
    except (InvalidOption, InvalidName) as error:
        raise named(error, whose) from None


def job_fields(
    whose: str, place: str, given: Mapping[str, Any], before: Mapping[str, Any], after: tuple[Any, ...]
) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Apply what `using` is given to a job that has the fields `before` and waits for `after`: both, changed.

    Raises `InvalidOption` or `InvalidName`, which says whose option is wrong.
    """
    check_names(whose, place, given)
    options = {name: value for name, value in given.items() if name not in {"after", "connection"}}
    try:
        if "after" in given:
            after = checked_after(given["after"])
        return {**before, **job_options(options, before)}, after
    except (InvalidOption, InvalidName) as error:
        raise named(error, whose) from None


def _check(options: Options) -> None:
    """Apply the check of each option; `UNSET` is left where it is the default."""
    for option, check in options.checks.items():
        value = getattr(options, option)
        if value is not UNSET or options.__dataclass_fields__[option].default is not UNSET:
            object.__setattr__(options, option, check(value, option))


def _check_renew(lease: Duration | Unset, renew: Duration | Unset | None) -> None:
    if isinstance(lease, float) and isinstance(renew, float) and renew > lease / 2:
        raise InvalidOption(f"renew must be at most half the lease of {lease:g} s, not {renew:g} s")


def _given_twice(retries: int) -> InvalidOption:
    return InvalidOption(f"retry={retries} means max_attempts={retries + 1}: give one of the two, not both")


# Options that there are not.

_PLACES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "task": (tuple(TaskKeywords.__annotations__), "@app.task({})"),
    "step": (tuple(StepKeywords.__annotations__), "@flow.step({})"),
    "using": ((*JobKeywords.__annotations__, "after"), ".using({})"),
    "Next": ((*NextKeywords.__annotations__, "after"), "Next(…).using({})"),
    "worker": ((*WorkerKeywords.__annotations__, "queues"), "app.worker({})"),
    "App": ((*AppKeywords.__annotations__, "store", "listeners", "log"), "App({})"),
}
"""The options of each place, and how they are written there."""

_FOREIGN_NAMES: Mapping[str, str] = {
    other: option
    for option, others in {
        "after": "depends_on dependencies wait_for",
        "concurrency": "threads workers num_workers max_workers worker_concurrency prefetch",
        "delay": "countdown defer_by delay_seconds wait schedule_in",
        "expires": "ttl expire",
        "keep": "result_ttl result_expires keep_result failure_ttl retention ignore_result",
        "lease": "visibility_timeout lock_timeout heartbeat",
        "max_attempts": "retries max_retries tries max_tries attempts",
        "queue": "queue_name routing_key",
        "retry": "backoff retry_backoff retry_delay default_retry_delay autoretry_for retry_for min_backoff max_backoff",
        "run_at": "eta at scheduled_at schedule_at defer_until",
        "store": "broker broker_url backend result_backend url redis_url database_url dsn",
        "tasks": "only include",
        "timeout": "time_limit soft_time_limit job_timeout execution_timeout max_time",
        "unique": "job_id task_id unique_key idempotency_key dedupe key lock",
    }.items()
    for other in others.split()
}
"""What options are called in other libraries, and what they are called here."""


def check_names(whose: str, place: str, given: Mapping[str, Any]) -> None:
    """Raise `InvalidOption` about the first of these options that does not exist in this place; it says which one was meant."""
    known = _PLACES[place][0]
    for option, value in given.items():
        if option not in known:
            raise InvalidOption(
                f"{whose}: there is no option {option!r:.80}: {_suggestion(option, value, place, known)}"
            )


def job_option_named(option: str) -> str | None:
    """The option of `using` that this is, here or in another library."""
    meant = _FOREIGN_NAMES.get(option, option)
    return meant if meant in _PLACES["using"][0] else None


def _suggestion(option: str, value: object, place: str, known: tuple[str, ...]) -> str:
    if option in {"retries", "max_retries"} and isinstance(value, int) and not isinstance(value, bool):
        if "max_attempts" in known:
            also = f", or retry={value}" if "retry" in known else ""
            return f"write max_attempts={value + 1}, for it counts the first one too{also}"
        return f"write retry={value}" if "retry" in known else "it is one of tasks: write @app.task(retry=…)"
    meant = _FOREIGN_NAMES.get(option, option)
    if meant in known:
        return f"did you mean {meant!r}?"
    if close := difflib.get_close_matches(option, known, n=1, cutoff=0.7):
        return f"did you mean {close[0]!r}?"
    if place == "Next" and meant in JobKeywords.__annotations__:
        return f"only the first job of a run has it: write flow.using({meant}=…)"
    for other, (options, how) in _PLACES.items():
        if meant in options and other != place:
            return f"write {how.format(f'{meant}=…')}"
    return f"there are {', '.join(sorted(known))}"
