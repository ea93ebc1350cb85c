"""`timeline_of` draws the life of a job to scale: what it waited, ran and paused, with long pauses folded."""

from __future__ import annotations

import msgspec

from tenure.core.job import JobRecord, State, attempts_of
from tenure.core.units import duration

__all__ = ["Segment", "Timeline", "timeline_of"]

FOLD = 0.25
"""A pause longer than this share of the whole is folded to `FOLDED` of it."""

FOLDED = 0.08
LEAST = 0.012
"""Share of the width that the shortest segment has, so that it can be seen."""


class Segment(msgspec.Struct, frozen=True):
    """A stretch of time. Positions are shares of the width, in per cent."""

    kind: str
    """`wait`, `run` or `pause`."""

    label: str
    begin: float
    """Seconds since the epoch."""

    end: float
    left: float
    width: float
    outcome: str = ""
    """How an attempt ended; empty for others, and while it runs."""

    folded: bool = False


class Timeline(msgspec.Struct, frozen=True):
    """The segments in order, and the time from the first to the last."""

    segments: tuple[Segment, ...]
    begin: float
    end: float

    @property
    def length(self) -> str:
        return duration(self.end - self.begin)


def timeline_of(job: JobRecord, now: float) -> Timeline:
    """The timeline of a job that `get` returned; `now` is the time of the store."""
    spans = _spans(job, now)
    if not spans:
        return Timeline((), job.created_at, job.created_at)
    whole = max(spans[-1][2] - spans[0][1], 1e-6)
    shares = []
    for kind, begin, end, *_ in spans:
        share = (end - begin) / whole
        folded = kind != "run" and share > FOLD
        shares.append((max(FOLDED if folded else share, LEAST), folded))
    scale = 100 / sum(share for share, _ in shares)
    segments, left = [], 0.0
    for (kind, begin, end, label, outcome), (share, folded) in zip(spans, shares, strict=True):
        width = share * scale
        segments.append(Segment(kind, label, begin, end, round(left, 2), round(width, 2), outcome, folded))
        left += width
    return Timeline(tuple(segments), spans[0][1], spans[-1][2])


def _spans(job: JobRecord, now: float) -> list[tuple[str, float, float, str, str]]:
    """Kind, begin, end, label and outcome of each stretch."""
    found: list[tuple[str, float, float, str, str]] = []
    attempts = attempts_of(job)
    ready = job.created_at if job.ready_at is None else job.ready_at
    at = min(job.created_at, attempts[0].started_at) if attempts else job.created_at
    for number, attempt in enumerate(attempts):
        last = number == len(attempts) - 1
        due = ready if last and at < ready < attempt.started_at else at
        if due > at:
            found.append(("pause", at, due, duration(due - at), ""))
        if attempt.started_at > due:
            # Of earlier attempts, only the time between two attempts is known.
            kind = "wait" if number == 0 or last else "pause"
            found.append((kind, due, attempt.started_at, duration(attempt.started_at - due), ""))
        end = now if attempt.ended_at is None else attempt.ended_at
        outcome = "" if attempt.outcome is None else attempt.outcome.value
        found.append(("run", attempt.started_at, max(end, attempt.started_at), f"#{attempt.number}", outcome))
        at = max(end, attempt.started_at)
    if job.state in {State.WAITING, State.BLOCKED} and now > at:
        if at < ready < now:
            found.append(("pause", at, ready, duration(ready - at), ""))
            at = ready
        kind = "pause" if job.run_at is not None or job.state is State.BLOCKED else "wait"
        found.append((kind, at, now, duration(now - at), ""))
    return found
