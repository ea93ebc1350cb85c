"""`Walks` looks for the jobs of a filtered page: some rows at each look, and further with the next one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec.structs import replace

from tenure.core.job import JobRecord
from tenure.stores.values import Search
from tenure.web.arguments import text_is_shown
from tenure.web.operations import search_for_text

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["Walk", "Walks"]

Row = TypeVar("Row")
"""What is kept of a job that was found."""

CALLS, SECONDS = 4, 0.3
"""Calls of one look, and the time after which there is no further one."""

FARTHEST = 20_000
"""Rows that an open page looks at by itself; then by a link."""

AGAIN = 5.0
"""Seconds after which a long walk that has ended begins anew, to find what is new."""

UNSEEN, MOST = 30.0, 20
"""Seconds after which a long walk is forgotten if its page is not open, and how many are remembered."""


class Walk(Generic[Row]):
    """One walk: what it has found so far, and where it stands."""

    def __init__(self, search: Search, row_of: Callable[[JobRecord], Row]) -> None:
        self._row_of = row_of
        self.rows: list[Row] = []
        self.cursor = search.cursor
        self.looked = 0
        self.over = False
        """Whether the page is full, the listing has ended, or the walk has gone far enough."""

        self.seen_at = self.ended_at = time.monotonic()
        self.busy = False
        self.next: Walk[Row] | None = None
        """The walk that will take its place, once that has come as far."""

    async def go_on(self, site: Site, search: Search) -> None:
        """Call the store until the walk is over, or has taken long enough for one look."""
        if self.busy:
            return
        began, self.busy = time.monotonic(), True
        try:
            for _ in range(CALLS):
                await self._call(site, search)
                if self.over or time.monotonic() - began > SECONDS:
                    break
        finally:
            self.busy = False

    async def _call(self, site: Site, search: Search) -> None:
        left = search.limit - len(self.rows)
        page = await site.read(site.store.search(search_for_text(replace(search, cursor=self.cursor, limit=left))))
        for job in page.jobs:
            if search.text is None or text_is_shown(job, search.text, site.naming(job.task)):
                self.rows.append(self._row_of(job))
        self.cursor = page.cursor
        self.looked += page.searched
        self.over = page.cursor is None or len(self.rows) >= search.limit or self.looked >= FARTHEST
        self.ended_at = time.monotonic()


class Walks(Generic[Row]):
    """The long walks of a dashboard, by the address of their pages. A walk that ends at once is not remembered."""

    def __init__(self, row_of: Callable[[JobRecord], Row]) -> None:
        """`row_of`: makes what is kept of a job, which is much less than the job."""
        self._row_of = row_of
        self._walks: dict[str, Walk[Row]] = {}

    async def look(self, site: Site, here: str, search: Search) -> Walk[Row]:
        """The walk of the page at this address, a look further than it was."""
        self._forget()
        walk = self._walks.get(here) or Walk(search, self._row_of)
        walk.seen_at = time.monotonic()
        if not walk.over:
            await walk.go_on(site, search)
            if not walk.over:
                self._walks[here] = walk
        elif walk.seen_at - walk.ended_at > AGAIN:
            walk = self._walks[here] = await self._anew(site, search, walk)
        return walk

    async def _anew(self, site: Site, search: Search, walk: Walk[Row]) -> Walk[Row]:
        """Go on with the walk that takes the place of this one. Returns the one to show."""
        following = walk.next = walk.next or Walk(search, self._row_of)
        await following.go_on(site, search)
        if not following.over and following.looked < walk.looked:
            return walk
        following.seen_at = walk.seen_at
        return following

    def _forget(self) -> None:
        recent = time.monotonic() - UNSEEN
        kept = {here: walk for here, walk in self._walks.items() if walk.seen_at > recent}
        self._walks = dict(list(kept.items())[-MOST:])
