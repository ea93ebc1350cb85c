"""The queues: all of them, those that need attention first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from tenure.core.checks import name as checked_name
from tenure.jobs.snapshot import QueueFigures, Snapshot, figures_of
from tenure.web.charts import Column, spark
from tenure.web.page import Address, Page, Region
from tenure.web.paging import LENGTH, Pager, paged

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["queues"]

LEVELS = {"bad": 0, "warn": 1}


class QueueRow(msgspec.Struct, frozen=True):
    figures: QueueFigures
    spark: tuple[Column, ...]


class QueuesView(msgspec.Struct, frozen=True):
    rows: tuple[QueueRow, ...]
    pager: Pager
    total: str
    """How many queues there are, as a text."""


async def queues(site: Site, at: Address) -> Page:
    """A page of the queues. The snapshot has the first 1,000; what comes after them is read by name."""
    snapshot = await site.snapshot()
    after = at.query.get("after")
    if after is None:
        figures, pager = paged(sorted(figures_of(snapshot), key=_order), at)
        if snapshot.more and pager.next is None:
            pager = replace(pager, next=at.with_query(page=None, after=snapshot.queues[-1].name))
    else:
        figures, pager = await _after(site, snapshot, at, checked_name("queue", after))
    rows = tuple(QueueRow(each, spark(snapshot.measures.by_slot.get(each.queue.name, ()))) for each in figures)
    total = f"{len(snapshot.queues):,}{' and more' if snapshot.more else ''}"
    view = QueuesView(rows, pager, total)
    return Page(title="Queues", kind="queues", every=2.0, regions=(Region("queues", "places/queues.html", view),))


async def _after(site: Site, snapshot: Snapshot, at: Address, after: str) -> tuple[tuple[QueueFigures, ...], Pager]:
    """The queues whose names come after this one."""
    found = await site.read(site.store.queues(after=after, limit=LENGTH + 1))
    following = at.with_query(after=found[LENGTH - 1].name) if len(found) > LENGTH else None
    figures = figures_of(replace(snapshot, queues=tuple(found[:LENGTH])))
    return figures, Pager(f"by name, after {after}", at.with_query(after=None), following)


def _order(figures: QueueFigures) -> tuple[int, str]:
    return LEVELS.get(figures.level, 2), figures.queue.name
