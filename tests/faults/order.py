"""Whether jobs were handed out in order: I8 and I9."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec

from .history import Call, Enqueue, Lease, Settle, Story, Violation

__all__ = ["in_order"]


class _Stay(msgspec.Struct, frozen=True):
    """A time that a job stood in line: how it came there, where, and who ended it."""

    job: str
    came: Call
    place: Call
    """The call that gave it its place: the one that it came by, or, at the front, the one that first put it in line."""

    index: int
    """Where in that call it stood."""

    lease: Lease


def in_order(story: Story) -> Iterator[Violation]:
    """I8 and I9: who stands before another is not overtaken by him."""
    lines: dict[tuple[str, int], list[_Stay]] = defaultdict(list)
    for job, enqueues in story.enqueues.items():
        if job in story.ended and len(enqueues) == 1 and enqueues[0].item.in_line:
            lines[enqueues[0].item.queue, enqueues[0].item.priority] += _stays(story, job, enqueues[0])
    for stays in lines.values():
        yield from _overtaken_once(stays)
        for stay in stays:
            if stay.came is not stay.place:
                yield from (_overtaking("I9", stay, other) for other in stays if _overtook(other, stay))


def _stays(story: Story, job: str, enqueue: Enqueue) -> Iterator[_Stay]:
    """The stays of a job that are known for certain; none after something that is not."""
    leases = {lease.item.fence: lease for lease in story.leases[job]}
    settles: dict[int, Settle] = {}
    for settle in sorted(story.settles[job], key=lambda settle: settle.call.asked):
        if settle.verdict in {"ok", "unknown"}:
            settles.setdefault(settle.item.fence, settle)  # the first; the same again changes nothing
    reaps = iter(sorted(story.of(job, "reap", "retire"), key=lambda act: act.call.asked))
    came = place = enqueue.call
    index = enqueue.index
    if any(act.operation not in {"reap", "retire"} for act in story.acts[job]):
        return
    for fence in range(1, story.ended[job].fence + 1):
        if fence in leases and not leases[fence].item.suspect:
            yield _Stay(job, came, place, index, leases[fence])
        ended = settles.get(fence)
        if ended is None:
            reap = next(reaps, None)
            if reap is None or reap.item.suspect:
                return
            came = reap.call
        elif ended.verdict == "unknown" or ended.item.step not in {"release", "retry"}:
            return
        elif ended.item.step == "release":
            came = ended.call
        else:
            came = place = ended.call
            index = 0


def _overtook(other: _Stay, stay: _Stay) -> bool:
    """Whether `other` was leased before `stay` although it surely stood behind it."""
    same = stay.place is other.place and stay.place.operation == "enqueue" and stay.index < other.index
    if not (same or stay.place.answered < other.place.asked) or other.job == stay.job:
        return False
    if other.lease.call is stay.lease.call:
        return other.lease.index < stay.lease.index
    return stay.came.answered < other.lease.call.asked and other.lease.call.answered < stay.lease.call.asked


def _overtaken_once(stays: Sequence[_Stay]) -> Iterator[Violation]:
    """The same for jobs that came to their place by the call that gave it, in n log n: there are many of them."""
    plain = [stay for stay in stays if stay.came is stay.place]
    by_answer = sorted(plain, key=lambda stay: stay.place.answered)
    answered = [stay.place.answered for stay in by_answer]
    # Of those whose place was given by then, the one that was leased last.
    latest = list(accumulate(by_answer, _leased_later))
    for other in plain:
        before = bisect_left(answered, other.place.asked)
        if before and other.lease.call.answered < latest[before - 1].lease.call.asked:
            yield _overtaking("I8", latest[before - 1], other)
    # Jobs of one enqueue stand in the order of the call; of those that one settle put back nothing is said.
    for same in _groups([stay for stay in plain if stay.place.operation == "enqueue"], lambda stay: stay.place):
        first, *others = sorted(same, key=lambda stay: stay.index)
        for last, stay in zip(accumulate([first, *others], _leased_later), others, strict=False):
            if stay.lease.call.answered < last.lease.call.asked:
                yield _overtaking("I8", last, stay)
    for same in _groups(plain, lambda stay: stay.lease.call):
        first, *others = sorted(same, key=lambda stay: stay.lease.index)
        for last, stay in zip(accumulate([first, *others], _placed_later), others, strict=False):
            if stay.place.answered < last.place.asked or (stay.place is last.place and stay.index < last.index):
                yield _overtaking("I8", stay, last)


def _leased_later(one: _Stay, other: _Stay) -> _Stay:
    return max(one, other, key=lambda stay: stay.lease.call.asked)


def _placed_later(one: _Stay, other: _Stay) -> _Stay:
    return max(one, other, key=lambda stay: (stay.place.asked, stay.index))


def _groups(stays: Sequence[_Stay], of: Callable[[_Stay], Call]) -> Iterable[list[_Stay]]:
    found: dict[int, list[_Stay]] = defaultdict(list)
    for stay in stays:
        found[id(of(stay))].append(stay)
    return found.values()


def _overtaking(invariant: str, stay: _Stay, other: _Stay) -> Violation:
    return Violation(invariant, stay.job, f"it was overtaken by {other.job}, which stood behind it")
