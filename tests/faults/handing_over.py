"""Whether steps handed over: I13."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from .history import Ended, Story, Violation

__all__ = ["handed_over"]

_FINAL = {"succeeded", "failed", "cancelled", "broken"}


def handed_over(story: Story) -> Iterator[Violation]:
    """A step is finished if and only if its successor exists or its run is finished; each successor is created once."""
    runs: dict[str, list[Ended]] = defaultdict(list)
    for record in story.ended.values():
        if record.run_id is not None:
            runs[record.run_id].append(record)
    for run_id, steps in runs.items():
        yield from _a_chain(run_id, steps)
    yield from _both_or_neither(story)
    yield from _not_before(story)


def _a_chain(run_id: str, steps: list[Ended]) -> Iterator[Violation]:
    there = {step.id for step in steps}
    named = Counter(step.successor for step in steps)
    if run_id not in there:
        yield Violation("I13", run_id, "its first step is gone and others are not")
    for step in steps:
        if step.successor is not None and step.successor not in there:
            yield Violation("I13", step.id, f"it has handed over to {step.successor}, which does not exist")
        if step.successor is not None and step.state != "succeeded":
            yield Violation("I13", step.id, f"it has handed over and is {step.state}")
        if step.id != run_id and named[step.id] != 1:
            yield Violation("I13", step.id, f"{named[step.id]} steps have handed over to it")
    if named[None] != 1:
        yield Violation("I13", run_id, f"{named[None]} of its steps have handed over to nobody")


def _both_or_neither(story: Story) -> Iterator[Violation]:
    """What a hand-over was told, and what has become of it."""
    for job, settles in story.settles.items():
        record = story.ended.get(job)
        known = {settle.item.successor: settle.verdict for settle in settles if settle.verdict in {"ok", "unknown"}}
        for settle in settles if record is not None else ():
            successor = settle.item.successor
            if not successor:
                continue
            assert record is not None
            exists, done = successor in story.ended, record.successor == successor
            if exists != done:
                yield Violation(
                    "I13",
                    job,
                    f"it has {'' if done else 'not '}handed over to {successor}, which does {'' if exists else 'not '}exist",
                )
            elif settle.verdict == "ok" and not done:
                yield Violation("I13", job, f"it was acknowledged to have handed over to {successor}, and has not")
            elif done and successor not in known:
                yield Violation("I13", job, f"it has handed over to {successor}, which was refused: {settle.verdict}")


def _not_before(story: Story) -> Iterator[Violation]:
    """Who waits for others is not handed out before the last of them may have ended."""
    for job, enqueues in story.enqueues.items():
        blockers = {blocker for enqueue in enqueues for blocker in enqueue.item.after}
        if not blockers or not story.leases[job]:
            continue
        handed_out = story.leases[job][0].call.answered
        for blocker in blockers:
            ends = _ends(story, blocker)
            if ends and handed_out < min(ends):
                yield Violation("I13", job, f"it was handed out before {blocker}, which it waits for, had ended")


def _ends(story: Story, blocker: str) -> list[float]:
    """When a job, or the run that this is the id of, may have ended."""
    last = next(
        (step.id for step in story.ended.values() if step.run_id == blocker and step.successor is None), blocker
    )
    ends = [
        settle.call.asked
        for settle in story.settles[last]
        if settle.verdict in {"ok", "unknown"} and settle.item.step in _FINAL
    ]
    return ends + [
        act.call.asked
        for act in story.acts[last]
        if act.operation in {"cancel", "complete", "delete"}
        or (act.operation in {"reap", "retire"} and act.item.failed)
    ]
