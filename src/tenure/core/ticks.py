"""`ticks` computes the instants at which a schedule fires: `Cron`, `Every` or `At`. Pure: it reads no clock.

Instants are seconds since the epoch. The same ticks come out from wherever the search starts.

A cron text is matched against the wall clock of its time zone, as Debian's cron does when that clock is changed:

- If the text names times of the day, each fires once. A time that the clock skips fires at the first instant after the
  gap. A time that comes twice fires the first time.
- If its hour or minute has a `*` or `/`, it follows the time that elapses. It fires at every instant whose wall time
  matches: twice where the clock shows a time twice, and not where it skips one.

The wall clock is cut at the instants at which its offset from UTC changes. Between two such instants it runs like UTC,
so cronsim computes the matches there without a time zone, and the rules above are applied at the cuts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim

from tenure.core.when import At, Cron, Every, When, zone_of

__all__ = ["LAST", "newest_ticks", "next_tick", "ticks"]

DAY = 86400.0
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (naive: a wall time)
LAST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
"""No tick is later than this."""


def ticks(when: When, after: float, *, starts: float | None = None, ends: float | None = None) -> Iterator[float]:
    """The ticks later than `after`, in order, from `starts` to `ends`, both included."""
    if starts is not None and not isinstance(when, Every):
        after = max(after, math.nextafter(starts, -math.inf))
    match when:
        case Cron():
            found = _cron_ticks(when, after)
        case Every():
            found = _every_ticks(when.seconds, after, starts)
        case At():
            instant = when.instant.timestamp()
            found = iter([instant] if instant > after else [])
    return takewhile(lambda tick: tick <= (LAST if ends is None else ends), found)


def next_tick(when: When, after: float, *, starts: float | None = None, ends: float | None = None) -> float | None:
    """The first tick later than `after`; None if there is none."""
    return next(ticks(when, after, starts=starts, ends=ends), None)


def newest_ticks(
    when: When, since: float, until: float, count: int, *, starts: float | None = None, ends: float | None = None
) -> list[float]:
    """The newest `count` ticks from `since` to `until`, both included, the oldest first.

    Searches by bisection, so that years of missed ticks cost little more than a day of them.
    """

    def first_after(after: float) -> list[float]:
        """The ticks later than `after`, but no more than `count` and one."""
        found = takewhile(lambda tick: tick <= until, ticks(when, after, starts=starts, ends=ends))
        return list(islice(found, count + 1))

    low, high = math.nextafter(since, -math.inf), until
    newest = first_after(low)
    # More than `count` ticks are later than `low`, and fewer than `count` are later than `high`.
    while len(newest) > count > 0:
        middle = (low + high) / 2
        found = first_after(middle)
        if len(found) < count:
            high = middle
        else:
            low, newest = middle, found
    return newest[:count]


def _every_ticks(interval: float, after: float, starts: float | None) -> Iterator[float]:
    base = 0.0 if starts is None else starts
    number = 0 if starts is not None and after < starts else math.floor((after - base) / interval)
    while base + number * interval <= after:
        number += 1
    while True:
        yield base + number * interval
        number += 1


def _cron_ticks(cron: Cron, after: float) -> Iterator[float]:
    """The instants after `after` at which the wall clock of the cron's time zone matches, by the rules of this module."""
    zone, text, fixed = zone_of(cron.timezone), cron.fields, cron.fixed
    offset = _offset(zone, after)
    wall = after + offset  # the next match is later than this wall time
    if fixed and _shown_before(zone, after):
        wall = max(wall, _wall_before_change(zone, after))
    reached = after
    while True:
        for match in _matches(text, wall):
            tick = match - offset
            change = _next_change(zone, reached, tick)
            if change is not None:
                break
            yield tick
            reached = tick
        else:
            return
        # The clock is changed at `change`, before it shows `match`.
        before, after_change = change + offset, change + _offset(zone, change)
        if fixed and after_change > before and match < after_change:
            yield change  # one or more times of the gap: they fire once, and so does one at its end
            wall = after_change
        else:
            wall = (before if fixed and after_change < before else after_change) - 1
        reached, offset = change, after_change - change


def _matches(text: str, wall: float) -> Iterator[float]:
    """The wall times later than `wall` that match a cron text, as seconds since the epoch of that clock."""
    try:
        start = EPOCH + timedelta(seconds=math.floor(wall))
        for match in CronSim(text, start):
            yield (match - EPOCH).total_seconds()
    except OverflowError:
        return  # the year 10000


def _offset(zone: ZoneInfo, instant: float) -> float:
    """Seconds that the clock of a zone is ahead of UTC at an instant."""
    if instant < -(2**34) or instant > LAST:
        return 0.0
    # Rounded down, because `fromtimestamp` rounds the last instant before a change up to it. Zones are changed at whole seconds.
    offset = datetime.fromtimestamp(math.floor(instant), zone).utcoffset()
    assert offset is not None
    return offset.total_seconds()


def _next_change(zone: ZoneInfo, after: float, until: float) -> float | None:
    """The first instant in (`after`, `until`] at which a zone has another offset than the moment before; None: none."""
    if zone.key == "UTC":
        return None
    days = max(math.ceil((until - after) / DAY), 1)
    for begin, end in pairwise(min(after + day * DAY, until) for day in range(days + 1)):
        before = _offset(zone, begin)
        if _offset(zone, end) != before:
            low, high = math.floor(begin), math.ceil(end)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(zone, middle) == before else (low, middle)
            return float(high)
    return None


def _shown_before(zone: ZoneInfo, instant: float) -> bool:
    """Whether the clock of a zone shows the time of this instant for the second time."""
    return 0 <= instant <= LAST and datetime.fromtimestamp(math.floor(instant), zone).fold == 1


def _wall_before_change(zone: ZoneInfo, instant: float) -> float:
    """A second before the wall time at which the clock was last set back before `instant`."""
    change = _next_change(zone, instant - 2 * DAY, instant)
    assert change is not None, "a time is shown twice only after a change"
    return change + _offset(zone, change - 1) - 1
