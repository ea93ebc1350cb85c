"""All that fit: `bulk` counts the jobs and asks, `operation` shows how far it is, `operations` lists the latest."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from tenure.core.checks import refused
from tenure.core.units import duration
from tenure.web.operations import Operation
from tenure.web.page import Address, Page, Region
from tenure.web.pages.jobs import ALLOWED, filters_in, known_count, search_in

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["bulk", "operation", "operations"]

MEANINGS = {
    "retry": "Each goes back in line as if it had never been tried.",
    "delete": "They are gone for good, with their results and errors. A job that another one waits for is left.",
    "cancel": "Those in line do not run any more, and workers abort those that run.",
    "trigger": "They do not wait for their time, but go in line at once.",
    "release": "Workers abort them, and they go back to the front of their line. The attempt does not count.",
}
"""What each action does, as sentences."""


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    """An operation, or the count before it."""

    id: str
    action: str
    status: str
    filters: tuple[tuple[str, str], ...]
    listing: str
    """Query of the listing of the jobs that fit."""

    meaning: str
    looked: int
    found: int
    exact: bool
    done: int
    refused: int
    passed: int
    why: str
    problem: str
    who: str
    took: str
    stopping: bool


class ListView(msgspec.Struct, frozen=True):
    rows: tuple[OperationView, ...]


async def bulk(site: Site, at: Address) -> Page:
    """The number of jobs that fit, and the question whether to act on all of them."""
    filters = filters_in(at.query)
    action, state = at.query.get("action", ""), filters.get("state", "")
    search = search_in(at, site.show)
    if action not in ALLOWED[state]:
        raise refused("action", f"one of {', '.join(ALLOWED[state])}" if state else "for jobs of one state", action)
    snapshot = await site.snapshot()
    known = known_count(filters, snapshot.queues, more=snapshot.more)
    counted = await site.operations.count(action, search, filters, known)
    return Page(
        title=f"{action.capitalize()} all that fit",
        kind="jobs",
        every=0.5 if counted.status == "counting" else 2.0,
        regions=(Region("bulk", "bulk/ask.html", _view(counted)),),
    )


async def operation(site: Site, at: Address) -> Page:
    """How far an operation is."""
    found = site.operations.get(at.names["id"])
    if found is None:
        return Page(
            title="No such operation", kind="jobs", status=404, regions=(Region("bulk", "bulk/gone.html", None),)
        )
    return Page(
        title=f"{found.action.capitalize()}: {found.status}",
        kind="jobs",
        every=5.0 if found.over else 0.5,
        regions=(Region("bulk", "bulk/operation.html", _view(found)),),
    )


async def operations(site: Site, at: Address) -> Page:
    """The latest operations of this dashboard."""
    del at
    view = ListView(tuple(_view(each) for each in site.operations.started))
    return Page(
        title="Operations", kind="jobs", every=1.0, regions=(Region("operations", "bulk/operations.html", view),)
    )


def _view(operation: Operation) -> OperationView:
    return OperationView(
        id=operation.id,
        action=operation.action,
        status=operation.status,
        filters=tuple(operation.filters.items()),
        listing=urlencode(operation.filters),
        meaning=MEANINGS[operation.action],
        looked=operation.looked,
        found=operation.found,
        exact=operation.exact,
        done=operation.done,
        refused=operation.refused,
        passed=operation.passed,
        why=operation.why,
        problem=operation.problem,
        who=operation.who,
        took=duration(operation.seconds) if operation.over else "",
        stopping=operation.stopping and not operation.over,
    )
