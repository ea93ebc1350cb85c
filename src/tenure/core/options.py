"""Options of apps, tasks and workers: documentation, default and check of each.

Every option has one check, in the table `checks` of its class. `check_names` refuses an unknown name and suggests the one that was
probably meant. `build_options` adds to each error whose option is wrong.
"""

from __future__ import annotations

import difflib
import os
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
from tenure.core.keywords import (
    AppKeywords,
    JobKeywords,
    NextKeywords,
    ScheduleKeywords,
    StepKeywords,
    TaskKeywords,
    WorkerKeywords,
)
from tenure.core.patterns import checked as checked_patterns
from tenure.core.when import At, Cron, Every, When
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
    """The type of `UNSET`, the default of an option that is inherited from the worker or the app. (None is often a valid value.)"""

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Final = Unset()

_ATTEMPTS: Final = 25
"""Default of `max_attempts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long finished jobs are kept: limits by age and by number in each queue. The first limit that is reached applies."""

    succeeded: Duration = 3600.0
    """Seconds that succeeded and cancelled jobs are kept."""

    failed: Duration = 30 * 86400.0
    """Seconds that failed and broken jobs are kept."""

    count: int = 10_000
    """Most succeeded and cancelled jobs that each queue keeps, and most failed and broken ones; the oldest are removed first."""

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


def _release(value: object, option: str) -> str:
    if not isinstance(value, str) or len(value) > 100:
        raise refused(option, "a text of at most 100 characters", value)
    return value or os.environ.get("TENURE_RELEASE", "")[:100]


def _when(value: object, option: str) -> When:
    if not isinstance(value, Cron | Every | At):
        hint = f"write Cron({value!r:.80})" if isinstance(value, str) else ""
        raise refused(option, "Cron(…), Every(…) or At(…)", value, hint)
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
    """Split `App(keep=…)` into the retention of all queues and that of single ones, by name."""
    if not isinstance(keep, Mapping):
        return _retention(keep, "keep"), MappingProxyType({})
    for queue, each in keep.items():
        _retention(each, f"keep[{queue!r:.80}]")
    queues = {checked_name("queue", queue): each for queue, each in keep.items() if queue != "*"}
    return keep.get("*", Retention()), MappingProxyType(queues)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """Options of a task. An option that is `UNSET` is taken from the worker, then from the app."""

    queue: str
    """Queue that its jobs wait in."""

    retry: Backoff | int | Unset | None = UNSET
    """How an exception is retried. An integer: that many retries, with the backoff of the worker or app. None: the first exception fails the job."""

    max_attempts: int | Unset | None = UNSET
    """Attempts before a job that raises fails; losses do not count. None: no limit."""

    max_losses: int | None = 3
    """Losses before a job fails as lost; a loss is an attempt whose worker died. 1: the first loss fails it. None: no limit."""

    lease: Duration | Unset = UNSET
    """Seconds that a worker holds a job without renewing the lease, at least 1. Longer means slower recovery, shorter means more renewals."""

    renew: Duration | Unset | None = UNSET
    """Seconds between renewals of the lease, at most half of `lease`. None: never, so a job that runs longer than its lease goes to
    another worker; until that worker has taken it, the first one may still settle it."""

    timeout: Duration | None = None
    """Seconds that one attempt may take. None: no limit."""

    keep: Duration | None = None
    """Seconds that finished jobs are kept; 0 deletes them at once. None: the retention of the queue applies."""

    priority: int = 0
    """Jobs with a lower priority run first. 32 bits."""

    raw: bool = False
    """True: the function takes one argument, the payload bytes exactly as enqueued."""

    version: int = 1
    """Version of the payload, from 1. Raise it with the signature, and read the jobs of before with `@task.upcast(n)`. Not for raw tasks."""

    inbox: Literal["raw"] | None = None
    """`"raw"`: entries that other programs put in the inbox of the task's queue are payloads of this raw task. None: they are JSON."""

    schedule: When | None = None
    """When to enqueue the task by itself, without arguments: `Cron(…)`, `Every(…)` or `At(…)`. None: only when it is enqueued."""

    isolation: Literal["process"] | Unset | None = UNSET
    """`"process"`: run each attempt in a new child process. None: run it in the worker's process, even if the worker has `isolation`."""

    memory_limit: int | None = None
    """Bytes of memory that an attempt may allocate beyond what the worker had loaded; needs `isolation="process"`. None: no limit."""

    output: int = 0
    """Bytes that are kept with each attempt of what it logs, the last ones; in a child process also of stdout and stderr. 0: none."""

    aliases: Iterable[str] = ()
    """Former names of the task. It also runs the jobs that are stored under these."""

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
        "version": integer(1),
        "inbox": _inbox,
        "schedule": or_none(_when, "only when it is enqueued"),
        "isolation": _isolation,
        "memory_limit": or_none(integer(1 << 20, unit=" of bytes"), "no limit"),
        "output": integer(0, unit=" of bytes"),
        "aliases": _aliases,
    }

    def __post_init__(self) -> None:
        _check(self)
        if self.inbox == "raw" and not self.raw:
            raise InvalidOption('inbox="raw" is for tasks that take bytes: add raw=True')
        if self.raw and self.version != 1:
            raise InvalidOption(
                "a raw task has no version: its payload is bytes, which you can give a version yourself"
            )
        _check_renew(self.lease, self.renew)
        if isinstance(self.retry, int):
            if not isinstance(self.max_attempts, Unset):
                raise _given_twice(self.retry)
            object.__setattr__(self, "max_attempts", self.retry + 1)
        if self.isolation != "process" and self.memory_limit is not None:
            raise InvalidOption('memory_limit applies to a child process: it needs isolation="process" beside it')


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Options of a worker."""

    queues: tuple[str, ...] = ("*",)
    """Queues to serve, in order of priority: names, `*`, globs and `!exclusions`. Patterns are expanded again every second."""

    tasks: tuple[str, ...] | None = None
    """Tasks to run; jobs of other tasks are left to other workers. None: all tasks of the app."""

    concurrency: int = 1
    """Jobs that run at the same time, over all lanes."""

    id: str | None = None
    """Name in the registry, unique among live workers. None: made from host, pid and a random part."""

    poll: Duration = 1.0
    """Seconds after which an idle worker asks the store for jobs although it was not woken, varied at random by up to 10 %."""

    job_delay: Duration = 0.0
    """Seconds that a slot stays empty after each job."""

    retry: Backoff | int | Unset | None = UNSET
    """`retry` of tasks that have none."""

    lease: Duration | Unset = UNSET
    """`lease` of tasks that have none, in seconds."""

    renew: Duration | Unset | None = UNSET
    """`renew` of tasks that have none, in seconds. None: never."""

    reap: bool = True
    """Recover the jobs of dead workers of the same queues, fire schedules, and prune old jobs. A queue needs at least one such worker."""

    look_ahead: bool = True
    """Lease short jobs (under 20 ms) before a slot is free, up to about 20 ms of work."""

    beat: Duration = 2.0
    """Seconds between heartbeats in the registry."""

    prune_interval: Duration = 60.0
    """Seconds between prunings, which remove finished jobs beyond their retention, and missing workers that hold no jobs."""

    health_port: int | None = None
    """Port of the HTTP health check; 0 takes any free one. None: no health check."""

    health_host: str = "127.0.0.1"
    """Address of the HTTP health check."""

    isolation: Literal["process"] | None = None
    """`"process"`: run each attempt in a new child process, for tasks that have no `isolation`. None: in the worker's process."""

    isolated: int | None = None
    """Most child processes at a time; a job that waits for one occupies its slot. None: `concurrency`."""

    run_atexit: bool = False
    """Let a child process join its threads and run its atexit handlers when it ends. False: it exits at once."""

    term_timeout: Duration = 4.0
    """Seconds that jobs have to clean up after TERM or INT has sent them the abort signal. Then they are released; isolated ones are killed."""

    pre_shutdown_timeout: Duration = 0.0
    """Seconds that jobs may go on after TERM or INT before they get the abort signal."""

    term_child: bool = True
    """Send jobs the abort signal before they are released. False: TERM and INT kill isolated jobs and release all jobs at once."""

    graceful_term: bool = False
    """On TERM, finish the running jobs and then stop, as on QUIT."""

    fail_interrupted: bool = False
    """Fail jobs that the worker interrupts (by TERM, INT, `stop(grace)` or `leave`). False: release them to the front of their queue."""

    max_jobs: int | None = None
    """Attempts after which the worker stops as on QUIT, with an exit status that asks for a replacement. None: no limit."""

    max_age: Duration | None = None
    """Age in seconds at which the worker stops in the same way, varied at random by up to 10 % so that workers that were started
    together do not stop together. None: no limit."""

    max_memory: int | None = None
    """Bytes of memory of the worker's process at which it stops in the same way. None: no limit."""

    checks: ClassVar[Mapping[str, Check]] = {
        "queues": _queues,
        "tasks": or_none(_tasks, "all of the app"),
        "concurrency": integer(1),
        "id": or_none(lambda value, _: checked_name("worker", value), "made from host, pid and a random part"),
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
    """Options of an app. They apply where neither the job nor the task nor the worker has the same option."""

    retry: Backoff | int | None = Backoff()
    """How an exception is retried. An integer: that many retries with the default backoff, in place of `max_attempts`. None: no retries."""

    max_attempts: int | None = _ATTEMPTS
    """Attempts before a job that raises fails; losses do not count. None: no limit."""

    lease: Duration = 30.0
    """Seconds that a worker holds a job without renewing the lease, at least 1."""

    renew: Duration | Unset | None = UNSET
    """Seconds between renewals of a lease, at most half of `lease`; None: never. If not given, it is renewed when less than two thirds are left."""

    keep: Retention = Retention()
    """How long finished jobs are kept; a mapping has the retention of each queue by name, and that of all others under `"*"`."""

    keep_in: Mapping[str, Retention] = field(default_factory=lambda: MappingProxyType({}))
    """Retention of single queues, by name; taken from `keep`."""

    default_queue: str | None = "default"
    """Queue of tasks that name none. None: a task that names none is refused when it is registered."""

    payload_limit: int = 1 << 20
    """Largest size of a job's encoded arguments, and of its encoded result, in bytes."""

    unknown_for: Duration = 3600.0
    """Seconds for which a job is offered again when no live worker knows its task. Then it ends as broken."""

    wakeup: bool = True
    """Let the store wake idle workers. False: workers only poll."""

    complete_timeout: Duration = 5.0
    """Seconds that a `ctx.complete()` block may take on SQLite, where it blocks all other writers."""

    missing_after: Duration = 10.0
    """Seconds without a heartbeat after which a worker of this app is shown as missing, at least 1.5 times its `beat`. It keeps its jobs
    until their leases expire."""

    release: str = ""
    """Release of the program, such as a version or a commit; its workers are listed with it, and the history marks when it came.
    Empty: the environment variable TENURE_RELEASE, if there is one."""

    history: bool = True
    """Let workers write to the history how many jobs end how, and how long they wait and run. False: they write nothing."""

    checks: ClassVar[Mapping[str, Check]] = {
        "retry": _retry,
        "max_attempts": attempts,
        "lease": duration(least=1.0),
        "renew": or_none(duration(least=0.01), "never"),
        "keep": _retention,
        "default_queue": or_none(_queue, "every task must name its queue"),
        "payload_limit": integer(1, unit=" of bytes"),
        "unknown_for": seconds,
        "wakeup": flag,
        "complete_timeout": duration(least=0.001),
        "missing_after": duration(least=1.5),
        "release": _release,
        "history": flag,
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
    """Build the options of a task, a worker or an app. An error names `whose` option is wrong."""
    try:
        return kind(**given)
    except (InvalidOption, InvalidName) as error:
        raise named(error, whose) from None


def job_fields(
    whose: str, place: str, given: Mapping[str, Any], before: Mapping[str, Any], after: tuple[Any, ...]
) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Apply the options of a `using` call to a job that has the fields `before` and waits for `after`. Returns both, changed.

    Raises `InvalidOption` or `InvalidName`, which names `whose` option is wrong.
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
    """Replace each option by its checked value. `UNSET` is accepted where it is the default."""
    for option, check in options.checks.items():
        value = getattr(options, option)
        if value is not UNSET or options.__dataclass_fields__[option].default is not UNSET:
            object.__setattr__(options, option, check(value, option))


def _check_renew(lease: Duration | Unset, renew: Duration | Unset | None) -> None:
    if isinstance(lease, float) and isinstance(renew, float) and renew > lease / 2:
        raise InvalidOption(f"renew must be at most half the lease of {lease:g} s, not {renew:g} s")


def _given_twice(retries: int) -> InvalidOption:
    return InvalidOption(f"retry={retries} means max_attempts={retries + 1}: give one of the two, not both")


# Unknown options.

_PLACES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "task": (tuple(TaskKeywords.__annotations__), "@app.task({})"),
    "step": (tuple(StepKeywords.__annotations__), "@flow.step({})"),
    "using": ((*JobKeywords.__annotations__, "after"), ".using({})"),
    "Next": ((*NextKeywords.__annotations__, "after"), "Next(…).using({})"),
    "worker": ((*WorkerKeywords.__annotations__, "queues"), "app.worker({})"),
    "App": ((*AppKeywords.__annotations__, "store", "listeners", "log"), "App({})"),
    "schedule": (tuple(ScheduleKeywords.__annotations__), "app.schedule(…, {})"),
}
"""The options of each place, and how to write one there."""

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
        "schedule": "cron crontab run_every periodic",
        "store": "broker broker_url backend result_backend url redis_url database_url dsn",
        "tasks": "only include",
        "timeout": "time_limit soft_time_limit job_timeout execution_timeout max_time",
        "unique": "job_id task_id unique_key idempotency_key dedupe key lock",
    }.items()
    for other in others.split()
}
"""Our name of an option, by its name in other libraries."""


def check_names(whose: str, place: str, given: Mapping[str, Any]) -> None:
    """Raise `InvalidOption` if `place` does not have one of these options; the message suggests the one that was probably meant."""
    known = _PLACES[place][0]
    for option, value in given.items():
        if option not in known:
            raise InvalidOption(
                f"{whose}: there is no option {option!r:.80}: {_suggestion(option, value, place, known)}"
            )


def job_option_named(option: str) -> str | None:
    """The option of `using` with this name, here or in another library; None if there is none."""
    meant = _FOREIGN_NAMES.get(option, option)
    return meant if meant in _PLACES["using"][0] else None


def _suggestion(option: str, value: object, place: str, known: tuple[str, ...]) -> str:
    if option in {"retries", "max_retries"} and isinstance(value, int) and not isinstance(value, bool):
        if "max_attempts" in known:
            also = f", or retry={value}" if "retry" in known else ""
            return f"write max_attempts={value + 1}, because it counts the first attempt too{also}"
        return f"write retry={value}" if "retry" in known else "it is an option of tasks: write @app.task(retry=…)"
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
    return f"the options are {', '.join(sorted(known))}"
