"""Whether everything went as it had to, once all has ended. Without I/O: from the history, the ends of jobs, and the counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tenure.core.job import FINAL, JobRecord, State
from tenure.stores.values import QueueInfo
from tests.faults.checker import check
from tests.faults.history import Call, Ended, History, Start, Story

from .load import ATTEMPTS, PREY
from .sights import Sight

__all__ = ["against_arguments", "against_counters", "against_history"]


def against_history(
    calls: Sequence[Call], starts: Sequence[Start], sights: Mapping[str, Sight], *, locking: bool
) -> Iterator[str]:
    """What contradicts I1 to I9, I13 and I14."""
    # How a job was when it was seen may not be how it was when it was deleted.
    deleted = {item.id for call in calls if call.operation == "delete" for item in call.items}
    ended = [Ended.of(sight.job) for job, sight in sights.items() if job not in deleted]
    history = History(calls, starts, ended, locking=locking)
    for violation in check(history):
        sight = sights.get(violation.job)
        if violation.invariant == "I1" and sight is not None and _need_not_start(sight.job):
            continue
        yield f"{violation.invariant}: {violation.job}: {violation.why}"
    story = Story(history)
    for job in story.acts:
        retried = [act.call.asked for act in story.of(job, "retry") if act.certain]
        if retried and job not in deleted and (job not in sights or sights[job].at < max(retried)):
            yield f"I1: {job}: an operator retried it, and it was not seen to end again"


def _need_not_start(job: JobRecord) -> bool:
    """Whether a job may end without a start: by an operator, by its blocker, or lost before its function began."""
    return job.queue == PREY or (job.error is not None and job.error.type in {"BlockerFailed", "Lost"})


def against_arguments(jobs: Sequence[JobRecord]) -> Iterator[str]:
    """What did not end as its task and its arguments make it end."""
    for job in jobs:
        if why := _wrong_end(job):
            yield f"{job.task} {job.id} {_arguments(job)}: {why}"
    yield from _wrong_children(jobs)


def _wrong_end(job: JobRecord) -> str | None:
    arguments = _arguments(job)
    match job.task:
        case "trip.pack" | "trip.drive" | "trip.arrive":
            return _wrong_step(job)
        case "stumble" if arguments[1] >= ATTEMPTS:
            return _unless(job, "failed", error="ValueError")
        case "fragile" if job.losses:
            return _unless(job, "failed", error="Lost")
        case "join" if None in arguments[0] and not arguments[1]:
            return _unless(job, "failed", error="BlockerFailed")
        case "join":
            return _unless(job, "succeeded", len(arguments[0]))
        case "brief" if job.state is State.CANCELLED:
            return "it expired although it had started" if job.attempt else None
        case "prey" if job.state is State.CANCELLED or job.result == "null":
            return None  # an operator did that
        case _:
            return _unless(job, "succeeded", arguments[0])


def _wrong_step(job: JobRecord) -> str | None:
    """A step looks at what it is given itself; here it is seen that the run goes to its end."""
    if job.state is not State.SUCCEEDED:
        return f"it ended as {job.state}, {job.error}"
    last = job.task == "trip.arrive"
    return None if (job.successor is None) == last else f"it has handed over to {job.successor}"


def _unless(job: JobRecord, state: str, result: Any = None, error: str | None = None) -> str | None:
    end = (job.state.value, job.result and msgspec.json.decode(job.result), job.error and job.error.type)
    return None if end == (state, result, error) else f"it ended as {end}, not as {(state, result, error)}"


def _arguments(job: JobRecord) -> list[Any]:
    arguments: list[Any] = msgspec.json.decode(job.payload).get("args", [])
    return arguments


def _wrong_children(jobs: Iterable[JobRecord]) -> Iterator[str]:
    """Parents that have not exactly one child each, and children without a parent (I13)."""
    parents = Counter(job.id for job in jobs if job.task == "parent")
    children = Counter(_arguments(job)[0] for job in jobs if job.task == "child")
    for parent in parents | children:
        if (parents[parent], children[parent]) != (1, 1):
            yield f"I13: parent {parent} is there {parents[parent]} times and has {children[parent]} children"


def against_counters(
    queues: Iterable[QueueInfo], ended: Iterable[JobRecord], kept: Iterable[JobRecord]
) -> Iterator[str]:
    """Counts that do not equal a recount of the jobs that are kept; totals, one of all jobs that have ended (I20)."""
    totals, counts, lost = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[str]()
    for job in kept:
        counts[job.queue, job.state] += 1
    for job in ended:
        totals[job.queue, job.state] += 1
        lost[job.queue] += job.losses
    for queue in queues:
        for state in FINAL:
            if (count := getattr(queue, state)) != counts[queue.name, state]:
                yield f"I20: {queue.name} counts {count} {state} jobs and lists {counts[queue.name, state]}"
            # Operators delete and retry: of their prey some have ended unseen, some twice.
            if queue.name != PREY and (total := getattr(queue.totals, state)) != totals[queue.name, state]:
                yield f"I20: {queue.name} has {total} {state} in all and {totals[queue.name, state]} were seen"
        if queue.name != PREY and queue.totals.lost != lost[queue.name]:
            yield f"I20: {queue.name} has {queue.totals.lost} losses in all and {lost[queue.name]} were seen"
