"""The tree of errors that Tenure raises. Each error carries its facts, and its message says what to do next.

    TenureError
    ├── InvalidName            a queue, task, worker or tag name that no store accepts        (also ValueError)
    ├── InvalidOption          an option out of range, or two that exclude each other         (also ValueError)
    ├── PayloadError           arguments or a result that cannot be stored exactly            (also ValueError)
    │   ├── PayloadTooLarge
    │   ├── NewerPayload       a payload of a later version of its task than this code knows
    │   └── InvalidResult      a result that does not fit the return annotation, or has no JSON form
    ├── InvalidSchedule        a schedule that can never fire, or whose call cannot be scheduled (also ValueError)
    ├── ScheduleNotFound       no schedule has this name                                      (also LookupError)
    ├── EnqueueRefused         a `before_enqueue` hook returned False: nothing was stored
    ├── UseAsync               a blocking call on a thread whose event loop is running        (also RuntimeError)
    ├── JobError
    │   ├── JobNotFound        no job has this id                                             (also LookupError)
    │   ├── JobFailed          the job has no result, because it did not succeed
    │   │   ├── JobCancelled
    │   │   └── JobBroken
    │   ├── ResultGone         the job has finished, and retention has removed its record
    │   ├── ResultTimeout      the job was not final in time                                  (also TimeoutError)
    │   ├── WrongState         the job is not in a state that allows this
    │   ├── UniqueConflict     another job owns the unique key
    │   ├── MissingAttribute   a step needs an attribute that its run does not have
    │   ├── BlockerNotFound    a job in `after=` does not exist
    │   ├── HasDependents      other jobs wait for the job that was to be deleted
    │   ├── UnknownTask        no function of this name is registered here
    │   ├── ChildDied          the child process of an isolated job ended before the job
    │   ├── LeaseLost          the job is no longer held under this token
    │   └── Aborted            a running job stops because its signal was set
    └── StoreError
        ├── InvalidUrl         a store URL that names no store                                (also ValueError)
        ├── MissingExtra       a store's driver, or another package of an extra, is not installed
        ├── StoreUnavailable   the store cannot be reached, or refuses access                (also ConnectionError)
        ├── StoreFull          the store has no room for more jobs
        ├── OutcomeUnknown     the connection broke: the operation may or may not be done
        └── LayoutTooNew       the store was written by a newer Tenure

`Retry`, `Fail`, `Reschedule` and `Wait` are answers of a task, not errors: they are in `core/outcome.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Final

__all__ = [
    "Aborted",
    "BlockerNotFound",
    "ChildDied",
    "EnqueueRefused",
    "HasDependents",
    "InvalidName",
    "InvalidOption",
    "InvalidResult",
    "InvalidSchedule",
    "InvalidUrl",
    "JobBroken",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobNotFound",
    "LayoutTooNew",
    "LeaseLost",
    "MissingAttribute",
    "MissingExtra",
    "NewerPayload",
    "OutcomeUnknown",
    "PayloadError",
    "PayloadTooLarge",
    "ResultGone",
    "ResultTimeout",
    "ScheduleNotFound",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "TenureError",
    "UniqueConflict",
    "UnknownTask",
    "UseAsync",
    "WrongState",
]


class TenureError(Exception):
    """Base of every error that Tenure raises on purpose."""


class InvalidName(TenureError, ValueError):
    """A name that does not match `[A-Za-z0-9][A-Za-z0-9_.:-]{0,126}`."""

    def __init__(self, kind: str, name: object, whose: str = "") -> None:
        self.kind = kind
        self.name = name
        prefix = f"{whose}: " if whose else ""
        super().__init__(
            f"{prefix}{name!r:.200} is not a valid {kind} name: start with a letter or digit, "
            "then up to 126 letters, digits or any of _ . : -"
        )


class InvalidOption(TenureError, ValueError):
    """An option out of range, or two options that exclude each other."""


class PayloadError(TenureError, ValueError):
    """Arguments or a result that would not come back from the store exactly as they were."""


class PayloadTooLarge(PayloadError):
    """A payload that is longer than the limit once it is encoded."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            f"the payload has {size:,} bytes and the limit is {limit:,}: store the data elsewhere and pass a reference to it"
        )


class NewerPayload(PayloadError):
    """A payload of a later version of its task than this code knows. A worker gives such a job back, as one of an unknown task."""

    def __init__(self, version: int, known: int) -> None:
        self.version = version
        self.known = known
        super().__init__(
            f"the job has version {version} of its task, and this code knows version {known}: deploy the code that enqueued it here"
        )


class InvalidResult(PayloadError):
    """A result that does not fit the return annotation, or has no JSON form. The job fails and is not retried."""


class InvalidSchedule(TenureError, ValueError):
    """A schedule that can never fire, or a call that cannot be scheduled. Raised before any I/O."""


class ScheduleNotFound(TenureError, LookupError):
    """No schedule has this name."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        near = difflib.get_close_matches(name, list(known), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`tenure schedules` lists those that exist"
        super().__init__(f"there is no schedule named {name!r:.140}: {hint}")


class EnqueueRefused(TenureError):
    """A `before_enqueue` hook returned False: nothing was stored and no worker was woken."""

    def __init__(self, task: str, hook: str) -> None:
        self.task = task
        self.hook = hook
        super().__init__(
            f"the before_enqueue hook {hook} refused a job of task {task!r}: no job of this call was enqueued"
        )


class UseAsync(TenureError, RuntimeError):
    """A blocking call on a thread whose event loop is running: it would block that loop."""

    def __init__(self, method: str, instead: str | None = None) -> None:
        self.method = method
        super().__init__(f"{method}() would block the running event loop: {instead or f'await a{method}()'} instead")


class JobError(TenureError):
    """An error about one job."""


class JobNotFound(JobError, LookupError):
    """No job has this id: it never existed, was deleted, or was removed by retention."""

    def __init__(self, job_id: str, kind: str = "job") -> None:
        self.job_id = job_id
        super().__init__(
            f"there is no {kind} {job_id!r:.80}: it never existed, was deleted, or was removed by retention"
        )


class JobFailed(JobError):
    """The job has no result, because it did not succeed; `error_type`, `message` and `traceback` say why."""

    def __init__(self, job_id: str, error_type: str, message: str, traceback: str | None = None) -> None:
        self.job_id = job_id
        self.error_type = error_type
        self.message = message
        self.traceback = traceback
        super().__init__(f"job {job_id} failed with {error_type}: {message}")


class JobCancelled(JobFailed):
    """The job was cancelled, or expired before it could start."""


class JobBroken(JobFailed):
    """The job's payload could not be decoded, or no worker knew its task. Its payload is kept unchanged."""


class ResultGone(JobError):
    """The job has finished, and retention has removed its record."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(
            f"retention has removed the record of job {job_id}: fetch results earlier, or enqueue with a longer keep="
        )


class ResultTimeout(JobError, TimeoutError):
    """The job was not final within `timeout` seconds; it continues. `in_kit`: it is in a test kit, where no job runs by itself."""

    def __init__(self, job_id: str, timeout: float, *, in_kit: bool = False) -> None:
        self.job_id = job_id
        self.timeout = timeout
        advice = (
            "in a test kit no job runs until the test says so: call run_until_idle() first"
            if in_kit
            else "it continues; ask again, or give a longer timeout"
        )
        super().__init__(f"job {job_id} was not final after {timeout:g} s: {advice}")


class WrongState(JobError):
    """The job is not in a state that allows this."""

    def __init__(self, job_id: str, state: str, wanted: str, why: str = "") -> None:
        self.job_id = job_id
        self.state = state
        super().__init__(f"job {job_id} is {state}: {why or f'this needs a job that is {wanted}'}")


class UniqueConflict(JobError):
    """Another job owns the unique key."""

    def __init__(self, task: str, key: str, holder: str) -> None:
        self.task = task
        self.key = key
        self.holder = holder
        super().__init__(
            f"job {holder} of task {task!r} owns the unique key {key!r:.200}: wait for that job or cancel it"
        )


class MissingAttribute(JobError):
    """A step cannot be created, because its function takes an attribute that the run does not have."""

    def __init__(self, task: str, attribute: str) -> None:
        self.task = task
        self.attribute = attribute
        super().__init__(
            f"step {task!r} needs the attribute {attribute!r}, which its run does not have: "
            "pass it to start(), return it from an earlier step, or give the parameter a default"
        )


class BlockerNotFound(JobError, LookupError):
    """A job in `after=` does not exist."""

    def __init__(self, blocker: str) -> None:
        self.blocker = blocker
        super().__init__(
            f"there is no job {blocker!r:.80} to wait for: it never existed, was deleted, or was removed by retention"
        )


class HasDependents(JobError):
    """Other jobs wait for this one."""

    def __init__(self, job_id: str, dependents: Iterable[str]) -> None:
        self.job_id = job_id
        self.dependents = tuple(dependents)
        super().__init__(
            f"{len(self.dependents)} job(s) wait for job {job_id}, the first is {self.dependents[0]}: "
            "delete them first, or delete with cascade=True"
        )


class UnknownTask(JobError):
    """A job names a task that this process has not registered."""

    def __init__(self, task: str, known: Collection[str]) -> None:
        self.task = task
        close = difflib.get_close_matches(task, known, n=1)
        super().__init__(
            f"no task named {task!r} is registered here"
            + (
                f"; did you mean {close[0]!r}?"
                if close
                else "; import its module before starting, or name it with app.include()"
            )
        )


class ChildDied(JobError):
    """The child process of an isolated job ended before the job: it exited, or a signal ended it."""

    def __init__(
        self, why: str, *, exit_code: int | None = None, signal: int | None = None, peak: int | None = None
    ) -> None:
        self.exit_code = exit_code
        self.signal = signal
        self.peak = peak
        """The most memory that the process used, in bytes; None if unknown."""

        super().__init__(why)


class LeaseLost(JobError):
    """The job is no longer held under this token, so the store refused the holder's operation."""

    def __init__(self, job_id: str, reason: str = "taken_by_another_worker") -> None:
        self.job_id = job_id
        self.reason = reason
        super().__init__(f"job {job_id} is no longer held under this lease ({reason}): stop working on it")


class Aborted(JobError):
    """A running job stops because its abort signal was set; raised by `ctx.signal.raise_if_aborted()`."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the job must stop: {reason}")


class StoreError(TenureError):
    """An error about the store as a whole."""


class InvalidUrl(StoreError, ValueError):
    """A store URL that names no store."""


class MissingExtra(StoreError, ImportError):
    """A package that an extra installs is missing: the driver of a store, or what a part of Tenure needs.

    `needs` is the beginning of the sentence, such as "redis:// stores need a driver".
    """

    def __init__(self, extra: str, needs: str) -> None:
        self.extra = extra
        super().__init__(f'{needs} that is not installed: pip install "tenure[{extra}]"')


class StoreUnavailable(StoreError, ConnectionError):
    """The store cannot be reached, did not answer in time, or refuses access (password, rights, missing tables).

    Nothing was done.
    """


class StoreFull(StoreError):
    """The store has no room for more jobs. Workers can still run the jobs that it has."""


class OutcomeUnknown(StoreError):
    """The connection broke before the answer came: the store may or may not have done the operation."""


class LayoutTooNew(StoreError):
    """The store was written by a newer Tenure than this one."""

    def __init__(self, found: int, known: int, where: str) -> None:
        self.found = found
        self.known = known
        super().__init__(
            f"{where} has layout {found}, and this Tenure knows layouts up to {known}: upgrade tenure here"
        )


STORE_OUTAGE: Final = (StoreUnavailable, OutcomeUnknown, StoreFull)
"""The errors of a store that is down or full; an operation that raises one is tried again. Internal, so not in `__all__`."""
