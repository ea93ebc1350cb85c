"""`Reading`: what one scrape reads from the store, and `slots_wanted`, the number of slots that a queue needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from time import monotonic, time

import msgspec

from tenure.core.measures import EVER, HistoryRow, HistorySearch, buckets, sum_counts
from tenure.core.patterns import serves
from tenure.stores.base import Store
from tenure.stores.values import Fact, QueueInfo, WorkerInfo

__all__ = ["QUEUES", "Background", "Reading", "read", "read_background", "slots_wanted"]

QUEUES = 1000
"""Queues that are read, the first ones by name."""

ASSUMED_RUN = 1.0
"""Seconds that a job of a queue is assumed to run while no run time is known."""

RECENT = 2 * 3600
"""Run times of the slots of an hour that begin within these seconds count: of this hour, and of the one before."""


class Background(msgspec.Struct, frozen=True):
    """What changes slowly, and need not be read for each scrape."""

    facts: list[Fact]
    run_times: dict[str, float]
    """Mean run time of the jobs of each queue in the last hour or two, in seconds."""


class Reading(msgspec.Struct, frozen=True):
    """The state of the store at one moment."""

    queues: list[QueueInfo]
    workers: list[WorkerInfo]
    rows: list[HistoryRow]
    """The counts since ever, one row for each pair of queue and task."""

    due: frozenset[str]
    """Queues that no worker serves, with nothing in line, and yet with something to do: a delayed job is due, for example."""

    seconds: float
    """Seconds that the store took to answer."""

    run_times: dict[str, float]
    """Mean run time of the jobs of each queue, in seconds, as far as it is known."""

    facts: list[Fact]

    def slots(self, queue: QueueInfo, target: float) -> int:
        """Slots that a queue needs, see `slots_wanted`."""
        return slots_wanted(queue, self.run_times.get(queue.name), target, due=queue.name in self.due)


async def read(store: Store, background: Background) -> Reading:
    """Read the store: three calls, and a fourth while there is a queue at rest that no worker serves.

    Workers put delayed jobs in line when they are due. Where there is no worker, only the fourth call finds them. It may
    name a queue too early: Redis does so from the enqueue of a delayed job until a worker has looked.
    """
    begun = monotonic()
    queues = await store.queues(limit=QUEUES)
    workers = await store.workers()
    rows = await store.history(HistorySearch(resolution=EVER, rows="tasks"))
    asleep = _asleep(queues, workers)
    if asleep:
        asleep &= {*(await store.busy_queues(("*",))).queues}
    return Reading(
        queues,
        workers,
        rows,
        frozenset(asleep),
        monotonic() - begun,
        _mean_run_times(rows) | background.run_times,
        background.facts,
    )


async def read_background(store: Store) -> Background:
    """Examine the store and read the latest run times: two calls."""
    search = HistorySearch(resolution=3600, since=time() - RECENT, rows="queues")
    return Background(await store.examine(), _mean_run_times(await store.history(search)))


def slots_wanted(queue: QueueInfo, run_time: float | None, target: float, *, due: bool = False) -> int:
    """Slots that run what is running and everything in line within `target` seconds; one slot for each job at most.

    `run_time` is the mean run time of a job, None if it is not known. `due`: the queue has something to do, though nothing
    is in line. A paused queue needs slots for its running jobs only.
    """
    if queue.paused:
        return queue.running
    needed = ceil(queue.waiting * (ASSUMED_RUN if run_time is None else run_time) / target)
    extra = min(max(needed, 1), queue.waiting)
    return queue.running + extra or int(due)


def _asleep(queues: Sequence[QueueInfo], workers: Sequence[WorkerInfo]) -> set[str]:
    """The queues that no worker serves, with no job in line or running."""
    served = {worker.queues for worker in workers if not worker.missing}
    at_rest = [each.name for each in queues if not (each.paused or each.waiting or each.running)]
    return {name for name in at_rest if not any(serves(patterns, name) for patterns in served)}


def _mean_run_times(rows: list[HistoryRow]) -> dict[str, float]:
    by_queue: dict[str, list[Mapping[str, float]]] = {}
    for row in rows:
        by_queue.setdefault(row.queue, []).append(row.counts)
    means = {}
    for queue, counts in by_queue.items():
        total = sum_counts(counts)
        if runs := sum(buckets(total, "run").values()):
            means[queue] = total.get("run", 0.0) / runs
    return means
