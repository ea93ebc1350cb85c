"""What an app is asked, and tells, of many jobs at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.checks import name as checked_name
from tenure.errors import InvalidOption
from tenure.handle import Job
from tenure.job import State
from tenure.stores.values import QueueInfo, Search, Totals, WorkerInfo

if TYPE_CHECKING:
    from tenure.task import Task

__all__ = ["JobPage", "Stats", "search_of", "state_of"]


class JobPage(list[Job[Any]]):
    """A part of a listing."""

    cursor: str | None
    """Where the next page begins; None at the end. A page may be short, even empty, and still not be the last."""


class Stats(msgspec.Struct, frozen=True):
    """What has happened since the store was made; retention does not lower it."""

    totals: Totals
    queues: dict[str, Totals]
    workers: dict[str, Totals]
    """Of the workers that are registered now."""

    @classmethod
    def of(cls, queues: Iterable[QueueInfo], workers: Iterable[WorkerInfo]) -> Stats:
        by_queue = {queue.name: queue.totals for queue in queues}
        rows = [msgspec.structs.astuple(totals) for totals in by_queue.values()]
        totals = Totals(*map(sum, zip(*rows, strict=True)))
        return cls(totals, by_queue, {worker.id: worker.totals for worker in workers})


def search_of(
    state: State | str | None, queue: str | None, task: str | Task[..., Any] | None, tag: str | None
) -> Search:
    """Which jobs a user means; `InvalidName` or `InvalidOption` for what can be none."""
    return Search(
        state=None if state is None else state_of(state),
        queue=None if queue is None else checked_name("queue", queue),
        task=None if task is None else checked_name("task", task if isinstance(task, str) else task.name),
        tag=None if tag is None else checked_name("tag", tag),
    )


def state_of(value: State | str) -> State:
    """The state of this name; `InvalidOption` if there is none."""
    try:
        return State(value)
    except ValueError:
        raise InvalidOption(f"there is no state {value!r:.80}: it is one of {', '.join(State)}") from None
