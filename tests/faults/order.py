"""Whether jobs were handed out in order: I8 and I9."""

from __future__ import annotations

from bisect import bisect_right
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

    @property
    def returned(self) -> bool:
        """Whether it came back to the place that it had before."""
        return self.came is not self.place


def in_order(story: Story) -> Iterator[Violation]:
    """I8 and I9: who stands before another is not overtaken by him."""
    lines: dict[tuple[str, int], list[_Stay]] = defaultdict(list)
    back = _Back(story)
    for job, enqueues in story.enqueues.items():
        if job in story.ended and len(enqueues) == 1 and enqueues[0].item.in_line:
            lines[enqueues[0].item.queue, enqueues[0].item.priority] += _stays(story, job, enqueues[0], back)
    for stays in lines.values():
        # Whoever came at the back has been in line since he has his place; who came back to the front, since then only.
        yield from _overtaken([stay for stay in stays if not stay.returned], stays)
        stays.sort(key=lambda stay: stay.lease.call.asked)
        leased = [stay.lease.call.asked for stay in stays]
        for returned in _groups([stay for stay in stays if stay.returned], lambda stay: stay.came):
            # Nobody overtakes who is leased after the last of them.
            last = max(stay.lease.call.asked for stay in returned)
            since = stays[bisect_right(leased, returned[0].came.answered) : bisect_right(leased, last)]
            yield from _overtaken(returned, since)
        yield from _out_of_order_in_one_answer(stays)


class _Back:
    """The calls by which jobs came back, each as if it had been answered when nobody kept the job locked any more.

    A write under a token that is not current may have waited for whoever took the job, and so may another who reaps: both keep it
    locked until their end, and a lease passes it over.
    """

    def __init__(self, story: Story) -> None:
        self._story = story
        self._takers = [call for call in story.calls if story.locking and call.operation in {"reap", "retire"}]
        self._known: dict[tuple[int, float], Call] = {}

    def to_the_front(self, job: str, call: Call) -> Call:
        if not self._story.locking:
            return call
        others = [*self._takers, *(settle.call for settle in self._story.settles[job])]
        free = max(
            (each.answered for each in others if each.asked < call.answered < each.answered), default=call.answered
        )
        return self._known.setdefault((id(call), free), msgspec.structs.replace(call, answered=free))


def _stays(story: Story, job: str, enqueue: Enqueue, back: _Back) -> Iterator[_Stay]:
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
    if story.locking and any(call.asked > enqueue.call.answered for call in story.refused[job]):
        return  # whoever asked in vain kept it locked meanwhile, and a lease may have passed it over
    for fence in range(1, story.ended[job].fence + 1):
        if fence in leases and not leases[fence].item.suspect:
            yield _Stay(job, came, place, index, leases[fence])
        ended = settles.get(fence)
        if ended is None:
            reap = next(reaps, None)
            if reap is None or reap.item.suspect:
                return
            came = back.to_the_front(job, reap.call)
        elif ended.verdict == "unknown" or ended.item.step not in {"release", "retry"}:
            return
        elif ended.item.step == "release":
            came = back.to_the_front(job, ended.call)
        else:
            came = place = ended.call
            index = 0


def _overtaken(stays: Sequence[_Stay], others: Sequence[_Stay]) -> Iterator[Violation]:
    """Those of the first who were leased surely later than one of the others who stood surely behind. In n log n."""
    behind = _Line(others, lambda stay: stay.place.asked)
    # Jobs of one enqueue stand in the order of the call; of those that one settle put back nothing is said.
    enqueued = [stay for stay in others if stay.place.operation == "enqueue"]
    together = {
        id(group[0].place): _Line(group, lambda stay: stay.index)
        for group in _groups(enqueued, lambda stay: stay.place)
    }
    for stay in stays:
        for line, place in ((behind, stay.place.answered), (together.get(id(stay.place)), stay.index)):
            other = line.first_leased_behind(place) if line is not None else None
            if other is not None and other.lease.call.answered < stay.lease.call.asked:
                yield _overtaking(stay, other)


class _Line:
    """Stays in the order of some place, and who of those behind a place was leased first."""

    def __init__(self, stays: Sequence[_Stay], place: Callable[[_Stay], float]) -> None:
        ordered = sorted(stays, key=place)
        self._places = [place(stay) for stay in ordered]
        self._first_leased = list(accumulate(reversed(ordered), _leased_earlier))[::-1]

    def first_leased_behind(self, place: float) -> _Stay | None:
        at = bisect_right(self._places, place)
        return self._first_leased[at] if at < len(self._places) else None


def _leased_earlier(one: _Stay, other: _Stay) -> _Stay:
    return min(one, other, key=lambda stay: stay.lease.call.answered)


def _out_of_order_in_one_answer(stays: Sequence[_Stay]) -> Iterator[Violation]:
    for same in _groups(stays, lambda stay: stay.lease.call):
        first, *others = sorted(same, key=lambda stay: stay.lease.index)
        for last, stay in zip(accumulate([first, *others], _placed_later), others, strict=False):
            if stay.place.answered < last.place.asked or (
                stay.place is last.place and stay.place.operation == "enqueue" and stay.index < last.index
            ):
                yield _overtaking(stay, last)


def _placed_later(one: _Stay, other: _Stay) -> _Stay:
    return max(one, other, key=lambda stay: (stay.place.asked, stay.index))


def _groups(stays: Sequence[_Stay], of: Callable[[_Stay], Call]) -> Iterable[list[_Stay]]:
    found: dict[int, list[_Stay]] = defaultdict(list)
    for stay in stays:
        found[id(of(stay))].append(stay)
    return found.values()


def _overtaking(stay: _Stay, other: _Stay) -> Violation:
    return Violation(
        "I9" if stay.returned else "I8", stay.job, f"it was overtaken by {other.job}, which stood behind it"
    )
