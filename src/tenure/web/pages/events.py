"""The events: what happens in the store, as it happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.core.checks import name as checked_name
from tenure.core.units import duration
from tenure.events import Event, JobEvent, bits_of
from tenure.web.page import Address, Page, Region
from tenure.web.tail import Entry

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["events"]

LINES = 100
"""Lines that the server renders, the latest ones; the browser adds them to those that it shows already."""

LONGEST = 200
"""Characters of the details of a line."""

GROUPS: dict[str, tuple[str, ...]] = {
    "All": (),
    "Ends": ("succeeded", "failed", "broken", "cancelled", "completed", "expired"),
    "Trouble": ("failed", "broken", "retried", "lost", "lease_lost", "fenced", "worker_missing", "worker_retired"),
    "Workers": ("worker_started", "worker_stopping", "worker_stopped", "worker_missing", "worker_retired", "worker_pruned"),
    "Flows": ("run_started", "run_advanced", "run_ended"),
    "Queues": ("queue_paused", "queue_resumed", "queue_purged"),
    "Schedules": ("schedule_fired", "schedule_skipped", "schedule_changed"),
}  # fmt: skip
"""Kinds of events that one link shows."""

STATES = {
    "succeeded": "succeeded", "completed": "succeeded", "failed": "failed", "broken": "broken", "retried": "retrying",
    "reoffered": "retrying", "rescheduled": "scheduled", "lost": "failed", "lease_lost": "retrying", "fenced": "retrying",
    "cancelled": "cancelled", "expired": "cancelled", "deleted": "cancelled", "enqueued": "waiting", "leased": "running",
    "renewed": "running", "released": "waiting", "unblocked": "waiting", "parked": "parked", "triggered": "waiting",
    "revived": "waiting", "overdue": "retrying", "worker_missing": "bad", "worker_retired": "bad", "queue_paused": "paused",
    "queue_resumed": "active", "schedule_skipped": "warn",
}  # fmt: skip
"""The state whose colour and sign a kind of event has."""

NAMED = ("event", "task", "queue", "flow", "job_id", "run_id", "worker", "schedule")
"""Fields that a line shows by themselves, not among its details."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """An event as a line."""

    number: int
    at: float
    kind: str = ""
    state: str = ""
    task: str = ""
    flow: str = ""
    queue: str = ""
    job: str = ""
    run: str = ""
    worker: str = ""
    schedule: str = ""
    details: str = ""
    gap: str = ""
    """A sentence about events that were missed, instead of an event."""


class FiltersView(msgspec.Struct, frozen=True):
    groups: tuple[tuple[str, str, bool], ...]
    """Label, link, and whether it is chosen."""

    kind: str
    queue: str
    task: str
    job: str
    clear: str | None
    """Link without any filter; None if there is none."""


class TailView(msgspec.Struct, frozen=True):
    lines: tuple[Line, ...]
    previous: int
    """Number of the line before the first one; 0 if there is none. A browser whose last line is older has missed some."""

    watching: bool
    problem: str
    filtered: bool


async def events(site: Site, at: Address) -> Page:
    """The latest events that fit the filters in the address."""
    query = {name: at.query.get(name) or "" for name in ("kind", "queue", "task", "job")}
    wanted = _Wanted(query)
    tail = site.tail
    entries = [entry for entry in tail.look() if wanted.fits(entry)]
    shown = entries[-LINES:]
    filtered = any(query.values())
    view = TailView(
        lines=tuple(_line(entry) for entry in shown),
        previous=entries[-LINES - 1].number if len(entries) > LINES else 0,
        watching=tail.since is not None,
        problem=tail.problem,
        filtered=filtered,
    )
    chosen = tuple(query["kind"].split(",")) if query["kind"] else ()
    groups = tuple(
        (label, at.with_query(kind=",".join(kinds) or None), kinds == chosen) for label, kinds in GROUPS.items()
    )
    clear = at.root + at.path if filtered else None
    filters = FiltersView(groups, query["kind"], query["queue"], query["task"], query["job"], clear)
    return Page(
        title="Events",
        kind="events",
        every=0.5,
        regions=(
            Region("watch", "events/watch.html", filters),
            Region("tail", "events/tail.html", view),
        ),
    )


class _Wanted:
    """The filters of a page. `InvalidOption` or `InvalidName` if one is wrong."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self._bits = bits_of(query["kind"].split(",")) if query["kind"] else None
        self._fields = {"queue": query["queue"], "task": query["task"], "job_id": query["job"]}
        for name in ("queue", "task", "job"):
            if query[name]:
                checked_name(name, query[name])

    def fits(self, entry: Entry) -> bool:
        event = entry.event
        if event is None:
            return True
        if self._bits is not None and not event.bit & self._bits:
            return False
        return all(getattr(event, name, None) == value for name, value in self._fields.items() if value)


def _line(entry: Entry) -> Line:
    event = entry.event
    if event is None:
        return Line(number=entry.number, at=entry.at, gap=entry.gap)
    fields = event.fields()
    return Line(
        number=entry.number,
        at=entry.at,
        kind=event.kind.replace("_", " "),
        state=STATES.get(event.kind, ""),
        task=str(fields.get("task", "")),
        flow=str(fields.get("flow", "")),
        queue=str(fields.get("queue", "")),
        job=str(fields.get("job_id", "")),
        run=str(fields.get("run_id", "")) if not isinstance(event, JobEvent) else "",
        worker=str(fields.get("worker", "")),
        schedule=str(fields.get("schedule", "")),
        details=_details(event, fields),
    )


def _details(event: Event, fields: Mapping[str, Any]) -> str:
    del event
    text = ", ".join(_texts((name, value) for name, value in fields.items() if name not in NAMED))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _texts(fields: Iterable[tuple[str, Any]]) -> Iterable[str]:
    for name, value in fields:
        match name, value:
            case "error", {"type": kind, "message": message}:
                yield f"{kind}: {message}".partition("\n")[0]
            case (("duration" | "delay" | "timeout" | "silent_for" | "lag"), float(seconds)):
                yield f"{name.replace('_', ' ')} {duration(seconds)}"
            case (("tick" | "run_at"), _):
                continue
            case "state", "waiting":
                continue
            case _, (tuple() | list()) as several:
                yield f"{name.replace('_', ' ')} {', '.join(map(str, several))}"
            case _:
                yield f"{name.replace('_', ' ')} {value}"
