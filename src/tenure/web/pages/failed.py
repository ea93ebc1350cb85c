"""Failed and broken jobs: groups by task and error, and what can be done to all jobs of a group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from tenure.core.checks import seconds
from tenure.core.job import JobRecord, State
from tenure.core.measures import OTHERS, HistoryRow, HistorySearch, slot_of
from tenure.errors import PayloadError
from tenure.stores.base import BATCH
from tenure.stores.values import Search
from tenure.web.arguments import Naming, arguments_of, hidden, pretty
from tenure.web.charts import Column, spark
from tenure.web.page import Address, Page, Region

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["broken", "failed"]

FINE, COARSE = 300, 3600
"""Seconds of the slots that the last hour and the last day are read from."""

HISTORY_PAUSE = 5.0
"""Seconds between two reads of the history."""

GROUPS = 100
"""Groups that are shown, at most."""

SHOWN_JOBS = 20
"""Broken jobs that are shown with their bytes."""

PAYLOAD = 20_000
"""Bytes of a broken payload that are read; what is longer is not shown here."""

HEX_ROWS, HEX_COLUMNS = 12, 16


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one task that ended with one type of error."""

    task: str
    error: str
    hour: int
    """Attempts of the last hour that ended with this error."""

    day: int
    kept: int
    """Jobs of the group among those that were looked at."""

    last: float | None
    """When the latest of these jobs ended; None if none is kept."""

    says: str
    """Message of the latest error, its first line."""

    spark: tuple[Column, ...]
    listing: str
    """Query of the listing of its jobs."""


class TabsView(msgspec.Struct, frozen=True):
    state: str
    counts: tuple[tuple[str, int], ...]
    more: bool
    """Whether there are queues that were not counted."""

    kept: int
    """How many of each queue are kept by default, the latest ones."""

    kept_for: float
    """Seconds that they are kept by default."""


class GroupsView(msgspec.Struct, frozen=True, kw_only=True):
    state: str
    groups: tuple[Group, ...]
    left_out: int
    looked: int
    complete: bool
    """Whether all jobs were looked at, so that the counts are exact."""

    ever: bool
    """Whether the store has had any job at all."""


class BrokenJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose arguments could not be read, or whose outcome could not be stored."""

    id: str
    task: str
    queue: str
    at: float | None
    error: str
    size: int
    call: str
    """The arguments as JSON with secrets hidden, if they can be read; else empty."""

    rows: tuple[tuple[str, str, str], ...]
    """The bytes otherwise: offset, hexadecimal, text."""

    too_long: bool


class BrokenView(msgspec.Struct, frozen=True):
    jobs: tuple[BrokenJob, ...]
    shown: bool
    """False: arguments are hidden on this dashboard."""


async def failed(site: Site, at: Address) -> Page:
    """Failed jobs by task and error."""
    return await _page(site, at, State.FAILED)


async def broken(site: Site, at: Address) -> Page:
    """Broken jobs by task and error, and the bytes of the latest ones."""
    page = await _page(site, at, State.BROKEN)
    found = await site.read(site.store.search(Search(state=State.BROKEN, limit=SHOWN_JOBS, brief=PAYLOAD)))
    shown = site.show != "hidden"
    view = BrokenView(tuple(_broken_job(job, site.naming(job.task), shown=shown) for job in found.jobs), shown)
    return msgspec.structs.replace(page, regions=(*page.regions, Region("jobs", "failed/broken.html", view)))


async def _page(site: Site, at: Address, state: State) -> Page:
    del at
    snapshot = await site.snapshot()
    hour, day = await site.recent.get("failures", HISTORY_PAUSE, lambda: site.read(_history(site, snapshot.now)))
    found = await site.read(site.store.search(Search(state=state, limit=BATCH, look=BATCH, brief=300)))
    groups = groups_of(state, hour, day, found.jobs, snapshot.now)
    counts = tuple((name, sum(getattr(each, name) for each in snapshot.queues)) for name in ("failed", "broken"))
    number = dict(counts)[state.value]
    view = GroupsView(
        state=state.value,
        groups=tuple(groups[:GROUPS]),
        left_out=max(len(groups) - GROUPS, 0),
        looked=len(found.jobs),
        complete=found.cursor is None,
        ever=bool(snapshot.queues),
    )
    title, keep = state.value.capitalize(), site.app.options.keep
    return Page(
        title=f"({number:,}) {title}" if number else title,
        kind="failed",
        every=1.0,
        regions=(
            Region(
                "states",
                "failed/states.html",
                TabsView(state.value, counts, snapshot.more, keep.count, seconds(keep.failed, "failed")),
            ),
            Region("groups", "failed/groups.html", view),
        ),
    )


async def _history(site: Site, now: float) -> tuple[list[HistoryRow], list[HistoryRow]]:
    """The rows of tasks in the last hour, and in the last day."""
    fine = HistorySearch(resolution=FINE, since=_first_slot(now), rows="tasks")
    coarse = HistorySearch(resolution=COARSE, since=slot_of(COARSE, now - 86400) + COARSE, rows="tasks")
    return await site.store.history(fine), await site.store.history(coarse)


def _first_slot(now: float) -> float:
    """The first of the slots of the last hour, the current one included."""
    return slot_of(FINE, now - 3600) + FINE


def groups_of(
    state: State, hour: Sequence[HistoryRow], day: Sequence[HistoryRow], jobs: Sequence[JobRecord], now: float
) -> list[Group]:
    """The groups that the history and these jobs know: those with jobs first, each part by its latest failures."""
    kept: dict[tuple[str, str], list[JobRecord]] = {}
    for job in jobs:
        kept.setdefault((job.task, "" if job.error is None else job.error.type), []).append(job)
    first = _first_slot(now)
    series: dict[tuple[str, str], list[float]] = {}
    for slot, key, count in _errors(hour, state):
        values = series.setdefault(key, [0.0] * (3600 // FINE))
        values[min(max(int((slot - first) // FINE), 0), len(values) - 1)] += count
    days: dict[tuple[str, str], float] = {}
    for _, key, count in _errors(day, state):
        days[key] = days.get(key, 0.0) + count
    keys = kept.keys() | (series.keys() | days.keys() if state is State.FAILED else set())
    groups = [_group(state, key, series.get(key, []), days.get(key, 0.0), kept.get(key, [])) for key in keys]
    return sorted(groups, key=lambda each: (not each.kept, -(each.last or 0.0), -each.hour, -each.day, each.task))


def _errors(rows: Iterable[HistoryRow], state: State) -> Iterable[tuple[float, tuple[str, str], float]]:
    """Slot, task and type of error, and number of attempts, of the rows in which jobs may have ended in this state."""
    for row in rows:
        if row.task == OTHERS or (
            state is State.FAILED and not (row.counts.get("failed") or row.counts.get("retried"))
        ):
            continue
        left_out = {f"error:{OTHERS}"}
        if state is State.FAILED and row.counts.get("broken"):
            left_out.add(f"error:{PayloadError.__name__}")  # these jobs are broken
        for name, count in row.counts.items():
            if name.startswith("error:") and name not in left_out:
                yield row.slot, (row.task, name.removeprefix("error:")), count


def _group(state: State, key: tuple[str, str], values: Sequence[float], day: float, jobs: Sequence[JobRecord]) -> Group:
    task, error = key
    latest = max(jobs, key=lambda job: job.ended_at or 0.0) if jobs else None
    message = "" if latest is None or latest.error is None else latest.error.message.partition("\n")[0]
    query = {"state": state.value, "task": task} | ({"error": error} if error else {})
    return Group(
        task=task,
        error=error,
        hour=round(sum(values)),
        day=max(round(day), round(sum(values))),
        kept=len(jobs),
        last=None if latest is None else latest.ended_at,
        says=message,
        spark=spark(values),
        listing=urlencode(query),
    )


# The bytes of broken jobs.


def _broken_job(job: JobRecord, naming: Naming, *, shown: bool) -> BrokenJob:
    call = arguments_of(job.payload, raw=job.raw, naming=naming)
    too_long = len(job.payload) >= PAYLOAD
    return BrokenJob(
        id=job.id,
        task=job.task,
        queue=job.queue,
        at=job.ended_at,
        error="" if job.error is None else f"{job.error.type}: {job.error.message}",
        size=len(job.payload),
        call=pretty({name: hidden(name, value) for name, value in call})[:PAYLOAD] if call and shown else "",
        # What is cut cannot be read, so that nothing in it could be hidden.
        rows=hex_rows(job.payload) if call is None and shown and not too_long else (),
        too_long=too_long,
    )


def hex_rows(data: bytes) -> tuple[tuple[str, str, str], ...]:
    """The first bytes as rows of offset, hexadecimal numbers and text, in which a dot stands for what is no ASCII."""
    rows = []
    for start in range(0, min(len(data), HEX_ROWS * HEX_COLUMNS), HEX_COLUMNS):
        part = data[start : start + HEX_COLUMNS]
        text = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in part)
        rows.append((f"{start:04x}", part.hex(" "), text))
    return tuple(rows)
