"""What can go wrong, as a short tree. Each error carries its facts and tells the reader what to do next.

    TenureError
    ├── InvalidName            a queue, task, worker or tag name that no store accepts        (also ValueError)
    ├── InvalidOption          an option out of range, or two that exclude each other         (also ValueError)
    ├── PayloadError           arguments or a result that cannot be stored exactly            (also ValueError)
    │   ├── PayloadTooLarge
    │   └── InvalidResult      a result that does not fit the return annotation, or has no JSON form
    ├── EnqueueRefused         a `before_enqueue` hook has said no: nothing was stored
    ├── UseAsync               a blocking call on a thread whose event loop is running        (also RuntimeError)
    ├── JobError
    │   ├── JobNotFound        no job has this id                                             (also LookupError)
    │   ├── JobFailed          the job whose result was asked for ended without one
    │   │   ├── JobCancelled
    │   │   └── JobBroken
    │   ├── ResultGone         the job finished, and retention has removed its record
    │   ├── ResultTimeout      the job was not final in time                                  (also TimeoutError)
    │   ├── WrongState         the job is not in a state that allows this
    │   ├── UniqueConflict     another job holds the unique key
    │   ├── MissingAttribute   a step needs an attribute that its run does not have
    │   ├── BlockerNotFound    a job to wait for does not exist
    │   ├── HasDependents      a job that others wait for is not deleted without cascade
    │   ├── UnknownTask        no function of this name is registered here
    │   ├── ChildDied          the process that an isolated job ran in has ended before the job
    │   ├── LeaseLost          the job is no longer held under this token
    │   └── Aborted            a running job stops because it was told to
    └── StoreError
        ├── InvalidUrl         a store URL that names no store                                (also ValueError)
        ├── MissingExtra       the store's driver is not installed
        ├── StoreUnavailable   the store cannot be reached, or does not let us in            (also ConnectionError)
        ├── StoreFull          the store has no room for more jobs
        ├── OutcomeUnknown     the store may or may not have done what was asked
        └── LayoutTooNew       the store was written by a newer Tenure

`Retry`, `Fail`, `Reschedule` and `Wait` are answers of a task, not errors: they live in `core/outcome.py`.
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
    "OutcomeUnknown",
    "PayloadError",
    "PayloadTooLarge",
    "ResultGone",
    "ResultTimeout",
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
            f"{prefix}{name!r:.200} is no valid {kind} name: start with a letter or digit, "
            "then up to 126 letters, digits or any of _ . : -"
        )


class InvalidOption(TenureError, ValueError):
    """An option out of its range, or one that excludes another that was given."""


class PayloadError(TenureError, ValueError):
    """Arguments or a result that no store could give back exactly as they were."""


class PayloadTooLarge(PayloadError):
    """An encoded payload over the limit."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            f"the payload has {size:,} bytes and the limit is {limit:,}: store the data elsewhere and pass a reference to it"
        )


class InvalidResult(PayloadError):
    """A result that does not fit the return annotation of its function, or has no JSON form; the job fails, and is not retried."""


class EnqueueRefused(TenureError):
    """A `before_enqueue` hook has returned False: nothing was stored, nobody was woken."""

    def __init__(self, task: str, hook: str) -> None:
        self.task = task
        self.hook = hook
        super().__init__(
            f"the before_enqueue hook {hook} has refused a job of task {task!r}: nothing of this call was enqueued"
        )


class UseAsync(TenureError, RuntimeError):
    """A blocking call on a thread whose event loop is running: it would stop that loop."""

    def __init__(self, method: str, instead: str | None = None) -> None:
        self.method = method
        super().__init__(f"{method}() would block the running event loop: {instead or f'await a{method}()'} instead")


class JobError(TenureError):
    """An error about one job."""


class JobNotFound(JobError, LookupError):
    """No job has this id: it never existed, was deleted, or retention has removed it."""

    def __init__(self, job_id: str, kind: str = "job") -> None:
        self.job_id = job_id
        super().__init__(
            f"there is no {kind} {job_id!r:.80}: it never existed, was deleted, or retention has removed it"
        )


class JobFailed(JobError):
    """The job whose result was asked for ended without one; `error_type`, `message` and `traceback` tell why."""

    def __init__(self, job_id: str, error_type: str, message: str, traceback: str | None = None) -> None:
        self.job_id = job_id
        self.error_type = error_type
        self.message = message
        self.traceback = traceback
        super().__init__(f"job {job_id} failed with {error_type}: {message}")


class JobCancelled(JobFailed):
    """The job was cancelled, or expired before it could start."""


class JobBroken(JobFailed):
    """The job could not be read or no worker knew its task; its payload is kept as it was."""


class ResultGone(JobError):
    """The job finished, and retention has removed its record."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(
            f"the record of job {job_id} is gone: wait for results while they are kept, or enqueue with a longer keep="
        )


class ResultTimeout(JobError, TimeoutError):
    """The job was not final in time; it goes on."""

    def __init__(self, job_id: str, timeout: float) -> None:
        self.job_id = job_id
        self.timeout = timeout
        super().__init__(f"job {job_id} was not final after {timeout:g} s: it goes on, ask again or wait longer")


class WrongState(JobError):
    """The job is not in a state that allows this."""

    def __init__(self, job_id: str, state: str, wanted: str, why: str = "") -> None:
        self.job_id = job_id
        self.state = state
        super().__init__(f"job {job_id} is {state}: {why or f'this needs a job that is {wanted}'}")


class UniqueConflict(JobError):
    """Another job holds the unique key."""

    def __init__(self, task: str, key: str, holder: str) -> None:
        self.task = task
        self.key = key
        self.holder = holder
        super().__init__(f"job {holder} of task {task!r} holds the unique key {key!r:.200}: wait for it or cancel it")


class MissingAttribute(JobError):
    """A step cannot come to exist, because its function takes an attribute that the run does not have."""

    def __init__(self, task: str, attribute: str) -> None:
        self.task = task
        self.attribute = attribute
        super().__init__(
            f"step {task!r} needs the attribute {attribute!r}, which its run does not have: "
            "give it to start(), return it from a step before, or give the parameter a default"
        )


class BlockerNotFound(JobError, LookupError):
    """A job to wait for does not exist."""

    def __init__(self, blocker: str) -> None:
        self.blocker = blocker
        super().__init__(f"there is no job {blocker!r:.80} to wait for: its record is gone or it never existed")


class HasDependents(JobError):
    """Other jobs wait for this one."""

    def __init__(self, job_id: str, dependents: Iterable[str]) -> None:
        self.job_id = job_id
        self.dependents = tuple(dependents)
        super().__init__(
            f"{len(self.dependents)} job(s) wait for job {job_id}, the first is {self.dependents[0]}: "
            "delete those too, or delete with cascade=True"
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
    """The process that an isolated job ran in has ended before the job: by itself, by a signal, or because it was killed."""

    def __init__(
        self, why: str, *, exit_code: int | None = None, signal: int | None = None, peak: int | None = None
    ) -> None:
        self.exit_code = exit_code
        self.signal = signal
        self.peak = peak
        """The most memory that it occupied, in bytes."""

        super().__init__(why)


class LeaseLost(JobError):
    """The job is no longer held under this token: what its holder wrote was refused."""

    def __init__(self, job_id: str, reason: str = "taken_by_another_worker") -> None:
        self.job_id = job_id
        self.reason = reason
        super().__init__(f"job {job_id} is no longer held under this lease ({reason}): stop working on it")


class Aborted(JobError):
    """A running job stops because its signal told it to; raised by `ctx.signal.raise_if_aborted()`."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the job was told to stop: {reason}")


class StoreError(TenureError):
    """An error about the store as a whole."""


class InvalidUrl(StoreError, ValueError):
    """A store URL that names no store."""


class MissingExtra(StoreError, ImportError):
    """The driver of this store is not installed."""

    def __init__(self, extra: str, scheme: str) -> None:
        self.extra = extra
        super().__init__(f'{scheme}:// stores need a driver that is not installed: pip install "tenure[{extra}]"')


class StoreUnavailable(StoreError, ConnectionError):
    """The store cannot be reached, did not answer in time, or refuses whatever is asked: rights, a password, tables that are
    missing. Surely nothing was done.
    """


class StoreFull(StoreError):
    """The store has no room for more jobs; those it has can still be worked off."""


class OutcomeUnknown(StoreError):
    """The connection went away before the answer came: the store may or may not have done it."""


class LayoutTooNew(StoreError):
    """The store was written by a newer Tenure than this one."""

    def __init__(self, found: int, known: int, where: str) -> None:
        self.found = found
        self.known = known
        super().__init__(f"{where} has layout {found} and this Tenure knows up to {known}: upgrade tenure here")


STORE_OUTAGE: Final = (StoreUnavailable, OutcomeUnknown, StoreFull)
"""What a store raises while it is out of order: the caller tries again later. For Tenure itself, so not in `__all__`."""
