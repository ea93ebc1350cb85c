"""The blockers of a job: turns `after=` into ids, and creates the jobs among them that do not exist yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from tenure.core.job import BlockerPolicy, NewJob
from tenure.errors import InvalidOption

__all__ = ["BoundCall", "NewJobs", "blocker_policy", "blockers", "checked_after"]


class BoundCall:
    """A call of a task, or a start of a flow, with its arguments. Each time it is enqueued it becomes a new job."""

    __slots__ = ()

    @property
    def after(self) -> Sequence[Any]:
        """The blockers of the new job, as `checked_after` returns them."""
        return ()

    @property
    def connection(self) -> object:
        """The caller's database connection, in whose transaction the job is enqueued; None: on the store's connection."""
        return None

    def new_job(self) -> NewJob:
        """Make the job alone, without its blockers."""
        raise NotImplementedError

    def new_jobs(self) -> list[NewJob]:
        """Make the job and the new jobs that it waits for: blockers before their dependents, the job itself last."""
        new = NewJobs()
        new.add(self)
        return new.jobs


class NewJobs:
    """Collects the new jobs of one enqueue operation, in `jobs`: every blocker before its dependents.

    One bound call becomes one job here, no matter how many jobs wait for it, and also if it was added by itself.
    """

    def __init__(self) -> None:
        self.jobs: list[NewJob] = []
        self._made: dict[int, tuple[BoundCall, NewJob]] = {}
        """The job of each call, by `id(call)`. The call is held too, so that Python cannot give its id to another object."""

        self._added: set[int] = set()

    @property
    def calls(self) -> list[BoundCall]:
        """The calls that have become jobs here."""
        return [call for call, _ in self._made.values()]

    def add(self, call: BoundCall) -> NewJob:
        """Make a job of this call. A call that is added twice becomes two jobs."""
        if id(call) in self._added:
            return self._make(call)
        self._added.add(id(call))
        return self._shared(call)

    def ids(self, after: Iterable[Any]) -> tuple[str, ...]:
        """The ids of these blockers, in order; bound calls among them become jobs."""
        return tuple(self._shared(each).id if isinstance(each, BoundCall) else _id(each) for each in after)

    def _shared(self, call: BoundCall) -> NewJob:
        """The one job of this call. Not recursive, because calls may nest deeper than Python's stack allows."""
        ahead = [call]
        while ahead:
            nearest = ahead[-1]
            if id(nearest) not in self._made:
                missing = [each for each in nearest.after if isinstance(each, BoundCall) and id(each) not in self._made]
                if missing:
                    ahead.extend(reversed(missing))
                    continue
                self._made[id(nearest)] = nearest, self._make(nearest)
            ahead.pop()
        return self._made[id(call)][1]

    def _make(self, call: BoundCall) -> NewJob:
        new = call.new_job()
        if call.after:
            new = replace(new, after=self.ids(call.after))
        self.jobs.append(new)
        return new


def blockers(after: Iterable[Any]) -> tuple[tuple[str, ...], tuple[NewJob, ...]]:
    """The ids of these blockers, in order, and the jobs among them that are new, each before its dependents.

    A handle (`Job`, `FlowRun`) or an id stands for an existing job; a bound call or start becomes a new one.
    """
    new = NewJobs()
    ids = new.ids(after)
    return ids, tuple(new.jobs)


def checked_after(after: object) -> tuple[Any, ...]:
    """The members of `after` as a tuple; `InvalidOption` if a job cannot wait for one of them."""
    if isinstance(after, str | BoundCall) or not isinstance(after, Iterable):
        raise InvalidOption(f"after must be a list, got {after!r:.80}: write after=[…]")
    several = tuple(after)
    for each in several:
        if not isinstance(each, BoundCall):
            _id(each)
    return several


def blocker_policy(value: object) -> BlockerPolicy:
    """The value of the option `if_blocker_fails`."""
    try:
        return BlockerPolicy(str(value))
    except ValueError:
        raise InvalidOption(f"if_blocker_fails must be one of {', '.join(BlockerPolicy)}, got {value!r:.80}") from None


def _id(existing: object) -> str:
    found = existing if isinstance(existing, str) else getattr(existing, "id", None)
    if isinstance(found, str):
        return found
    if hasattr(existing, "bind"):
        raise InvalidOption(f"after takes calls with their arguments, got {existing!r:.80} without any: write .bind(…)")
    raise InvalidOption(f"after takes jobs, runs, bound calls, bound starts and ids, got {existing!r:.80}")
