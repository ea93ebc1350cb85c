"""Small frozen values that users set, each documented where it is declared and checked where it is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from tenure.backoff import Backoff
from tenure.checks import Duration, seconds
from tenure.checks import name as checked_name
from tenure.errors import InvalidOption

__all__ = ["UNSET", "AppOptions", "Retention", "TaskOptions", "Unset", "WorkerOptions"]


class Unset:
    """The type of `UNSET`: this option was not given, ask the next place. (None is often a value of its own.)"""

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Final = Unset()


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
        if self.count < 0:
            raise InvalidOption(f"count must not be negative, got {self.count}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """The defaults of a task. What is `UNSET` is looked up on the worker, then on the app."""

    queue: str
    """Where its jobs wait."""

    retry: Backoff | Unset | None = UNSET
    """How an exception is retried; None: the first one fails the job."""

    max_attempts: int | Unset | None = UNSET
    """Attempts before a job fails for errors, losses not counted; None: for ever."""

    max_losses: int | None = 3
    """Losses (its worker died) before a job fails as lost; 1: at the first one; None: never."""

    lease: Duration | Unset = UNSET
    """Seconds that a silent worker keeps a job, at least 1. Longer means slower recovery, shorter means more renewals."""

    renew: Duration | Unset | None = UNSET
    """Seconds between renewals, at most half the lease; None: never, so a job that outlives its lease goes to another worker."""

    timeout: Duration | None = None
    """Seconds that one attempt may take; None: no limit."""

    keep: Duration | None = None
    """Seconds that finished jobs are kept, in place of the queue's retention; 0: not at all."""

    priority: int = 0
    """Lower comes first."""

    raw: bool = False
    """The function takes one argument, the payload bytes exactly as enqueued."""

    isolation: Literal["process"] | Unset | None = UNSET
    """`"process"`: each attempt in a child process of its own; None: in the worker's process, whatever the worker says."""

    memory_limit: int | None = None
    """Bytes of memory that an attempt may allocate, beside what the worker had loaded; needs `isolation="process"`."""

    output: int = 0
    """Bytes kept with each attempt of what it writes to stdout and stderr, the last ones; needs `isolation="process"`. 0: none."""

    aliases: Iterable[str] = ()
    """Names that the task had before: jobs that are stored under them are run by it too."""

    def __post_init__(self) -> None:
        checked_name("queue", self.queue)
        if isinstance(self.aliases, str):
            raise InvalidOption(
                f"aliases must be several, got the text {self.aliases!r:.80}: write [{self.aliases!r:.80}]"
            )
        object.__setattr__(self, "aliases", tuple(checked_name("task", alias) for alias in self.aliases))
        _check_attempts(self.max_attempts)
        if self.max_losses is not None and self.max_losses < 1:
            raise InvalidOption(f"max_losses must be at least 1, or None for never, got {self.max_losses}")
        _check_lease(self, self.lease, self.renew)
        if self.timeout is not None:
            object.__setattr__(self, "timeout", seconds(self.timeout, "timeout", least=0.001))
        if self.keep is not None:
            object.__setattr__(self, "keep", seconds(self.keep, "keep"))
        _check_isolation(self.isolation)
        if self.isolation != "process" and (self.memory_limit is not None or self.output):
            raise InvalidOption(
                'memory_limit and output are of a child process: they need isolation="process" beside them'
            )
        if self.memory_limit is not None and self.memory_limit < 1 << 20:
            raise InvalidOption(f"memory_limit must be at least {1 << 20:,} bytes, got {self.memory_limit:,}")
        if self.output < 0:
            raise InvalidOption(f"output must not be negative, got {self.output}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What a worker serves and how."""

    queues: tuple[str, ...] = ("*",)
    """Names and patterns in order of priority: `*`, globs and `!exclusions`; expanded again every second."""

    tasks: tuple[str, ...] | None = None
    """Names of the only tasks to run; jobs of others are put back for somebody else. None: all that the app knows."""

    concurrency: int = 1
    """Slots, over all lanes: jobs that run at the same time. 1 never runs two at once."""

    id: str | None = None
    """Name in the registry; made from host, pid and chance if not given. Must be unique among living workers."""

    poll: Duration = 1.0
    """Seconds after which the store is asked again although no wake-up came, moved by up to 10 % at random."""

    job_delay: Duration = 0.0
    """Seconds that a slot rests after each job."""

    retry: Backoff | Unset | None = UNSET
    lease: Duration | Unset = UNSET
    renew: Duration | Unset | None = UNSET
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

    def __post_init__(self) -> None:
        if not self.queues:
            raise InvalidOption('queues must name at least one queue; "*" serves them all')
        if self.concurrency < 1:
            raise InvalidOption(f"concurrency must be at least 1, got {self.concurrency}")
        if self.id is not None:
            checked_name("worker", self.id)
        object.__setattr__(self, "poll", seconds(self.poll, "poll", least=0.01))
        object.__setattr__(self, "job_delay", seconds(self.job_delay, "job_delay"))
        object.__setattr__(self, "beat", seconds(self.beat, "beat", least=0.01))
        object.__setattr__(self, "prune_interval", seconds(self.prune_interval, "prune_interval", least=0.01))
        if self.health_port is not None and not 0 <= self.health_port <= 65535:
            raise InvalidOption(f"health_port must be between 0 and 65535, or None for none, got {self.health_port}")
        _check_isolation(self.isolation)
        if self.isolated is not None and self.isolated < 1:
            raise InvalidOption(f"isolated must be at least 1, got {self.isolated}")
        object.__setattr__(self, "term_timeout", seconds(self.term_timeout, "term_timeout"))
        object.__setattr__(self, "pre_shutdown_timeout", seconds(self.pre_shutdown_timeout, "pre_shutdown_timeout"))
        if self.max_age is not None:
            object.__setattr__(self, "max_age", seconds(self.max_age, "max_age", least=0.1))
        for option, limit in (("max_jobs", self.max_jobs), ("max_memory", self.max_memory)):
            if limit is not None and limit < 1:
                raise InvalidOption(f"{option} must be at least 1, or None for no limit, got {limit}")
        _check_lease(self, self.lease, self.renew)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    """What holds wherever neither job, task nor worker says otherwise."""

    retry: Backoff | None = Backoff()
    max_attempts: int | None = 25
    lease: Duration = 30.0
    renew: Duration | Unset | None = UNSET
    """UNSET: a lease is renewed when less than two thirds of it are left."""

    keep: Retention = Retention()
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

    def __post_init__(self) -> None:
        _check_attempts(self.max_attempts)
        _check_lease(self, self.lease, self.renew)
        if self.default_queue is not None:
            checked_name("queue", self.default_queue)
        if self.payload_limit < 1:
            raise InvalidOption(f"payload_limit must be positive, got {self.payload_limit}")
        object.__setattr__(self, "unknown_for", seconds(self.unknown_for, "unknown_for"))
        object.__setattr__(self, "complete_timeout", seconds(self.complete_timeout, "complete_timeout", least=0.001))


def _check_attempts(max_attempts: int | Unset | None) -> None:
    if isinstance(max_attempts, int) and max_attempts < 1:
        raise InvalidOption(f"max_attempts must be at least 1, or None for no limit, got {max_attempts}")


def _check_isolation(isolation: str | Unset | None) -> None:
    if isolation not in ("process", None) and not isinstance(isolation, Unset):
        raise InvalidOption(f'isolation must be "process" or None, got {isolation!r:.80}')


def _check_lease(options: object, lease: Duration | Unset, renew: Duration | Unset | None) -> None:
    if isinstance(lease, Unset):
        if not isinstance(renew, Unset) and renew is not None:
            object.__setattr__(options, "renew", seconds(renew, "renew", least=0.01))
        return
    length = seconds(lease, "lease", least=1.0)
    object.__setattr__(options, "lease", length)
    if not isinstance(renew, Unset) and renew is not None:
        interval = seconds(renew, "renew", least=0.01)
        if interval > length / 2:
            raise InvalidOption(f"renew must be at most half the lease of {length:g} s, got {interval:g} s")
        object.__setattr__(options, "renew", interval)
