"""The audit: who did what, when, with what, and to how many."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import msgspec

from tenure.stores.values import Action
from tenure.web.page import Address, Page, Region
from tenure.web.pages.jobs import FILTERS

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["audit", "link_of"]

LENGTH = 50
"""Actions of a page."""

BY = {"cli": "command line", "top": "tenure top", "dashboard": "dashboard", "api": "JSON API"}
"""What an action was done with, in words."""

JOBS = ("retry", "cancel", "delete", "trigger", "release", "complete", "run again")
QUEUES = ("pause", "resume", "purge")
WORKERS = ("quiet", "go_on", "stop", "retire", "order quiet", "order go-on", "order stop")


class ActionRow(msgspec.Struct, frozen=True):
    """An action as a row."""

    at: float
    who: str
    by: str
    what: str
    target: str
    link: str
    """Path below the root of what it was done to; empty if there is no page of it."""

    count: int | None
    """None: it only began then."""


class AuditView(msgspec.Struct, frozen=True):
    rows: tuple[ActionRow, ...]
    older: str | None
    first: str | None


async def audit(site: Site, at: Address) -> Page:
    """A page of what operators have done, the latest first."""
    cursor = at.query.get("cursor") or None
    page = await site.read(site.store.actions(LENGTH, cursor))
    view = AuditView(
        rows=tuple(_row(action) for action in page.actions),
        older=None if page.cursor is None else at.with_query(cursor=page.cursor),
        first=None if cursor is None else at.with_query(cursor=None),
    )
    return Page(title="Audit", kind="audit", every=2.0, regions=(Region("actions", "audit/actions.html", view),))


def _row(action: Action) -> ActionRow:
    return ActionRow(
        action.at,
        action.who,
        BY.get(action.by, action.by),
        action.what.replace("_", " "),
        action.target,
        link_of(action),
        action.count,
    )


def link_of(action: Action) -> str:
    """The path of the job, queue or worker that an action was done to, or of the listing with its filter; empty if there is none."""
    words = action.target.split()
    if len(words) == 1 and "=" not in words[0] and not action.target.endswith("…"):
        place = {**dict.fromkeys(JOBS, "jobs"), **dict.fromkeys(QUEUES, "queues"), **dict.fromkeys(WORKERS, "workers")}
        found = place.get(action.what)
        if found is None and action.what.startswith("schedule "):
            found = "schedules"
        return "" if found is None else f"/{found}/{quote(words[0], safe='')}"
    filters = dict(word.split("=", 1) for word in words if "=" in word)
    if len(filters) == len(words) and words and filters.keys() <= {"state", "scheduled", *FILTERS}:
        if filters.pop("scheduled", "") == "True":
            filters["state"] = "scheduled"
        return f"/jobs?{urlencode(filters)}"
    return ""
