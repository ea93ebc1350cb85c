"""`Meters` counts the ends of a worker's attempts, and how long they waited and ran, for the history."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenure.core.job import ErrorInfo, JobRecord, State
from tenure.core.lifecycle import Finish, Requeue, Transition
from tenure.core.measures import OTHERS, HistoryWrite, bucket, sum_counts
from tenure.stores.values import OK, Verdict, VerdictKind

if TYPE_CHECKING:
    from tenure.worker.attempt import Attempt

__all__ = ["Meters"]

SAMPLES = 1000
"""Durations of a pair of queue and task that are kept until they are written; of more, every second one is dropped."""

PAIRS = 60
"""Pairs of queue and task that are written at a time; the rest is written as one. Also queues; of the rest only the store's
totals are known."""

ERRORS = 8
"""Types of errors of a pair that are written at a time; the rest is written as one."""

_SUCCEEDED = State.SUCCEEDED
"""Looked up once, because the members of an enumeration are slow to find and every job asks for this one."""

_ENDS = {State.SUCCEEDED: "succeeded", State.FAILED: "failed", State.BROKEN: "broken"}


class Meters:
    """What one worker has counted since it was last written. The worker's loop adds, its keeper takes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_pair: dict[tuple[str, str], Meter] = {}

    def count(self, ended: Sequence[tuple[Attempt, Transition]], verdicts: Sequence[Verdict]) -> None:
        """Count attempts whose end the store has accepted, and those whose lease was lost before."""
        with self._lock:
            queue = task = meter = None
            for (attempt, transition), verdict in zip(ended, verdicts, strict=True):
                job = attempt.lease.job
                if meter is None or job.task != task or job.queue != queue:  # most batches are of one task
                    queue, task, meter = job.queue, job.task, self._meter(job)
                if verdict is OK or verdict.kind is VerdictKind.OK:
                    meter.count(attempt, transition)
                elif verdict.kind is VerdictKind.LEASE_LOST:
                    meter.counts["stale"] += 1

    def take(self) -> list[HistoryWrite]:
        """All that was counted since the last call: by queue and task, by queue, and in all."""
        with self._lock:
            by_pair, self._by_pair = self._by_pair, {}
        counts = {pair: counts for pair, meter in by_pair.items() if (counts := meter.summed())}
        if not counts:
            return []
        queues: dict[str, list[dict[str, float]]] = {}
        for (queue, _), each in counts.items():
            queues.setdefault(queue, []).append(each)
        pairs = list(counts.items())
        if len(pairs) > PAIRS:
            rest = sum_counts(each for _, each in pairs[PAIRS:])
            pairs = [*pairs[:PAIRS], ((OTHERS, OTHERS), rest)]
        return [
            HistoryWrite("", "", sum_counts(counts.values())),
            *(HistoryWrite(queue, "", sum_counts(all_)) for queue, all_ in list(queues.items())[:PAIRS]),
            *(HistoryWrite(*pair, each) for pair, each in pairs),
        ]

    def _meter(self, job: JobRecord) -> Meter:
        pair = job.queue, job.task
        meter = self._by_pair.get(pair)
        if meter is None:
            meter = self._by_pair[pair] = Meter()
        return meter


class Meter:
    """Counts the attempts of one task in one queue."""

    __slots__ = ("_every", "_samples", "_seen", "_succeeded", "counts")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._samples: list[tuple[float, float]] = []
        """Seconds that attempts waited and ran."""

        self._every = 1
        """How many attempts each sample stands for."""

        self._seen = 0
        self._succeeded = 0

    def count(self, attempt: Attempt, transition: Transition) -> None:
        if type(transition) is Finish and transition.state is _SUCCEEDED:
            self._succeeded += 1
        elif (end := _end_of(transition)) is not None:
            self.counts[end] += 1
            if (error := _error_of(transition)) is not None:
                self._count_error(error)
        else:
            return
        self._seen += 1
        if self._seen % self._every == 0:
            self._samples.append((attempt.lease.job.waited or 0.0, attempt.run_time))
            if len(self._samples) >= SAMPLES:
                del self._samples[::2]
                self._every *= 2

    def _count_error(self, error: ErrorInfo) -> None:
        name = f"error:{error.type}"
        if name not in self.counts and sum(each.startswith("error:") for each in self.counts) >= ERRORS:
            name = f"error:{OTHERS}"
        self.counts[name] += 1

    def summed(self) -> dict[str, float]:
        """Its counters, with the durations in buckets."""
        counts: Counter[str] = Counter({"succeeded": self._succeeded} if self._succeeded else {})
        wait = run = 0.0
        for waited, ran in self._samples:
            wait += waited
            run += ran
            counts[f"wait:{bucket(waited)}"] += self._every
            counts[f"run:{bucket(ran)}"] += self._every
        durations = {"wait": wait * self._every, "run": run * self._every} if self._samples else {}
        return {**self.counts, **counts, **durations}


def _end_of(transition: Transition) -> str | None:
    """The counter of an attempt that ended like this; None if it is given back, and does not count."""
    match transition:
        case Finish(state):
            return _ENDS.get(state)
        case Requeue(counts=True):
            return "retried"
        case _:
            return None


def _error_of(transition: Transition) -> ErrorInfo | None:
    return transition.error if isinstance(transition, Finish | Requeue) else None
