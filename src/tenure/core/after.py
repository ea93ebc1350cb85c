"""What a job is to wait for: jobs and runs that there are, and such as come to exist with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from tenure.core.job import BlockerPolicy, NewJob
from tenure.errors import InvalidOption

__all__ = ["BoundCall", "NewJobs", "blocker_policy", "blockers", "checked_after"]


class BoundCall:
    """What becomes a job when it is enqueued, a new one each time: the call of a task, the start of a flow."""

    __slots__ = ()

    @property
    def after(self) -> Sequence[Any]:
        """What it waits for, as `checked_after` has it."""
        return ()

    @property
    def connection(self) -> object:
        """The caller's own, in whose transaction it is to be enqueued; None: in one of the store's."""
        return None

    def new_job(self) -> NewJob:
        """The job alone, which does not know yet what it waits for."""
        raise NotImplementedError

    def new_jobs(self) -> list[NewJob]:
        """The job, which comes last, and before it those that come to exist because it waits for them."""
        new = NewJobs()
        new.add(self)
        return new.jobs


class NewJobs:
    """Jobs on their way into one step of the store, those that are waited for before those that wait for them.

    In it one bound call is one job, however many wait for it, and also if it was added itself, before or after.
    """

    def __init__(self) -> None:
        self.jobs: list[NewJob] = []
        self._made: dict[int, tuple[BoundCall, NewJob]] = {}
        """By identity; with the call, so that no other can have its number."""

        self._added: set[int] = set()

    @property
    def calls(self) -> list[BoundCall]:
        """What has become jobs here."""
        return [call for call, _ in self._made.values()]

    def add(self, call: BoundCall) -> NewJob:
        """Let a call become a job; one that is added twice becomes two."""
        if id(call) in self._added:
            return self._make(call)
        self._added.add(id(call))
        return self._shared(call)

    def ids(self, after: Iterable[Any]) -> tuple[str, ...]:
        """What these are or become, by id, in order."""
        return tuple(self._shared(each).id if isinstance(each, BoundCall) else _id(each) for each in after)

    def _shared(self, call: BoundCall) -> NewJob:
        """The one job of this call. Calls that wait for calls that wait … may nest deeper than Python calls can."""
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
    """The ids to wait for, in order, and the jobs among them that are new, each before those that wait for it.

    A handle (`Job`, `FlowRun`) or an id stands for what there is; a bound call or start becomes a new one.
    """
    new = NewJobs()
    ids = new.ids(after)
    return ids, tuple(new.jobs)


def checked_after(after: object) -> tuple[Any, ...]:
    """What `after` says, if all of it can be waited for; else `InvalidOption`."""
    if isinstance(after, str | BoundCall) or not isinstance(after, Iterable):
        raise InvalidOption(f"after must be several, got {after!r:.80}: write after=[…]")
    several = tuple(after)
    for each in several:
        if not isinstance(each, BoundCall):
            _id(each)
    return several


def blocker_policy(value: object) -> BlockerPolicy:
    """What `if_blocker_fails` says."""
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
