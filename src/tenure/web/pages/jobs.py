"""The jobs: which ones fit the filters, and what can be done to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from tenure.core.checks import refused
from tenure.core.job import State
from tenure.errors import InvalidOption
from tenure.jobs.bulk import search_of
from tenure.stores.values import QueueInfo, Search
from tenure.web.moments import instant_of
from tenure.web.page import Address, Page, Region
from tenure.web.rows import JobRow, row_of

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["ALLOWED", "FILTERS", "JobRow", "filters_in", "jobs", "known_count", "row_of", "search_in"]

FILTERS = ("queue", "task", "tag", "error", "worker", "text", "before")
"""Filters of a listing beside its state, in the order in which they are shown."""

LOOK = 500
"""Rows that one call looks at, at most."""

PAGE_LENGTHS = (50, 100, 200)
BRIEF = 2_000
"""Characters of payload, result and error of each row that are read."""

TABS = ("", "waiting", "scheduled", "blocked", "running", "succeeded", "failed", "cancelled", "broken")
TAB_LABELS = {"": "All", "waiting": "In line"}

ALLOWED: dict[str, tuple[str, ...]] = {
    "": (),
    "waiting": ("cancel", "delete"),
    "scheduled": ("trigger", "cancel", "delete"),
    "blocked": ("cancel", "delete"),
    "running": ("cancel", "release"),
    "succeeded": ("retry", "delete"),
    "failed": ("retry", "delete"),
    "cancelled": ("retry", "delete"),
    "broken": ("retry", "delete"),
}
"""What can be done to the jobs of each tab."""


class Tab(msgspec.Struct, frozen=True):
    state: str
    label: str
    count: int | None
    """None if a filter makes it unknown."""

    here: bool
    link: str


class Chip(msgspec.Struct, frozen=True):
    """A filter that is set, and the link that removes it."""

    name: str
    value: str
    without: str


class FilterView(msgspec.Struct, frozen=True):
    tabs: tuple[Tab, ...]
    chips: tuple[Chip, ...]
    hidden: dict[str, str]
    """Parameters that the form of the filter keeps."""


class TableView(msgspec.Struct, frozen=True):
    rows: tuple[JobRow, ...]
    actions: tuple[str, ...]
    bulk: tuple[tuple[str, str], ...]
    """What can be done to all that fit, each with its link."""

    fit: int | None
    """How many fit, if that is known without a walk."""

    looked: int
    """Rows that were looked at, with those of the pages before."""

    of: int | None
    """Rows that there are to look at, about; None if that is unknown."""

    filtered: bool
    """Whether more filters than state and queue are set, so that the store walks."""

    older: str | None
    first: str | None
    """Link to the first page; None if this is it."""

    limit: int
    lengths: tuple[tuple[int, str], ...]
    sentence: str
    """What was looked for, as a sentence, if nothing was found."""

    going_on: bool
    """Whether the page looks on by itself while it is open."""

    wider: tuple[tuple[str, str], ...]
    """Links that look for more, each with its words."""


async def jobs(site: Site, at: Address) -> Page:
    """A page of the jobs that fit the filters in the address."""
    search = search_in(at, site.show)
    found = await site.walks.look(site, at.here, search)
    snapshot = await site.snapshot()
    state = at.query.get("state", "")
    filtered = _is_filtered(at.query)
    before = at.query.get("looked", "")
    looked = found.looked + (int(before) if before.isdigit() and len(before) < 12 else 0)
    older = None if found.cursor is None else at.with_query(cursor=found.cursor, looked=str(looked))
    table = TableView(
        rows=tuple(found.rows),
        actions=ALLOWED[state],
        bulk=tuple((action, _bulk_link(at, action)) for action in ALLOWED[state]),
        fit=known_count(at.query, snapshot.queues, more=snapshot.more),
        looked=looked,
        of=None if snapshot.more else _counted(state, at.query.get("queue"), snapshot.queues),
        filtered=filtered,
        older=older,
        first=at.with_query(cursor=None) if "cursor" in at.query else None,
        limit=search.limit,
        lengths=tuple((length, at.with_query(limit=str(length))) for length in PAGE_LENGTHS),
        sentence=_sentence(at, state),
        going_on=not found.over,
        wider=tuple(_wider(at)),
    )
    filters = _filters(at, state, snapshot.queues, filtered=filtered)
    return Page(
        title=f"{TAB_LABELS.get(state, state.capitalize())} jobs" if state else "Jobs",
        kind="jobs",
        regions=(Region("filters", "jobs/filters.html", filters), Region("table", "jobs/table.html", table)),
    )


def _is_filtered(query: Mapping[str, str]) -> bool:
    """Whether more filters than state and queue are set."""
    return any(query.get(name) for name in FILTERS if name != "queue")


def known_count(query: Mapping[str, str], queues: Sequence[QueueInfo], *, more: bool) -> int | None:
    """How many jobs fit the filters, if the counts of these queues say so; `more`: whether there are other queues."""
    state, queue = query.get("state", ""), query.get("queue")
    if _is_filtered(query) or (more and all(each.name != queue for each in queues)):
        return None
    return _counted(state, queue, queues)


def _counted(state: str, queue: str | None, queues: Sequence[QueueInfo]) -> int:
    return sum(_count(each, state) for each in queues if not queue or each.name == queue)


def filters_in(query: Mapping[str, str]) -> dict[str, str]:
    """The parameters of an address that say which jobs fit."""
    return {name: query[name] for name in ("state", *FILTERS) if query.get(name)}


def _bulk_link(at: Address, action: str) -> str:
    return f"/bulk?{urlencode({'action': action, **filters_in(at.query)})}"


def search_in(at: Address, show: str) -> Search:
    """The search that the parameters of a listing mean. `InvalidOption` or `InvalidName` if one is wrong.

    `show`: how arguments are shown. Where they are hidden, a search for a text is refused, because it would tell what is in them.
    """
    query = at.query
    state: str | None = query.get("state") or None
    if state is not None and state not in TABS:
        raise refused("state", f"one of {', '.join(TABS[1:])}", state)
    filters: dict[str, Any] = {name: query.get(name) or None for name in FILTERS}
    if filters["text"] is not None and show == "hidden":
        raise InvalidOption("this dashboard shows no arguments, so that jobs cannot be found by a text in them")
    if filters["before"] is not None:
        filters["before"] = instant_of(filters["before"])
    if state in {"waiting", "scheduled"}:
        filters |= {"state": State.WAITING, "scheduled": state == "scheduled"}
    else:
        filters["state"] = state
    found = search_of(filters)
    return replace(found, limit=_limit(query.get("limit")), cursor=query.get("cursor"), look=LOOK, brief=BRIEF)


def _limit(text: str | None) -> int:
    if text is None:
        return PAGE_LENGTHS[0]
    if not text.isdigit() or not 1 <= int(text) <= PAGE_LENGTHS[-1]:
        raise refused("limit", f"an integer from 1 to {PAGE_LENGTHS[-1]}", text)
    return int(text)


def _filters(at: Address, state: str, queues: Sequence[QueueInfo], *, filtered: bool) -> FilterView:
    queue = at.query.get("queue")
    tabs = []
    for name in TABS:
        count = None if filtered else _counted(name, queue, queues)
        link = at.with_query(state=name or None)
        tabs.append(Tab(name, TAB_LABELS.get(name, name.capitalize()), count, name == state, link))
    chips = tuple(Chip(name, at.query[name], at.with_query(**{name: None})) for name in FILTERS if at.query.get(name))
    return FilterView(
        tuple(tabs), chips, {name: text for name, text in at.query.items() if name not in {"cursor", "q"}}
    )


def _count(queue: QueueInfo, tab: str) -> int:
    names = TABS[1:] if not tab else (tab,)
    return sum(getattr(queue, name) for name in names)


def _sentence(at: Address, state: str) -> str:
    words = [TAB_LABELS.get(state, state).lower() + " jobs" if state else "jobs"]
    words += [f"{name} {at.query[name]}" for name in FILTERS if at.query.get(name)]
    return "No " + " with ".join([words[0], ", ".join(words[1:])] if words[1:] else words)


def _wider(at: Address) -> list[tuple[str, str]]:
    links = []
    if at.query.get("queue"):
        links.append(("in every queue", at.with_query(queue=None)))
    if at.query.get("state"):
        links.append(("in any state", at.with_query(state=None)))
    return links
