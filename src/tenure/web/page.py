"""`Page` and `Region`: what a page shows. `Address` is what was asked for, and by whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from tenure.web.access import Identity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tenure.web.site import Site

    PageFunction = Callable[[Site, "Address"], Awaitable["Page"]]

__all__ = ["Address", "Page", "Region"]


class Address(msgspec.Struct, frozen=True):
    """The address of a page, as one shares it, and who looks at it."""

    path: str
    """Below the root of the dashboard, such as `/jobs/0198c1f6`."""

    names: Mapping[str, str]
    """The variable parts of the path by name."""

    query: Mapping[str, str]
    viewer: Identity
    root: str = ""
    """Path under which the dashboard is mounted."""

    @property
    def here(self) -> str:
        """The path with its query, below the root."""
        return quote(self.path) + (f"?{urlencode(self.query)}" if self.query else "")

    def with_query(self, **changes: str | None) -> str:
        """The same page with other parameters, as a link; None removes one. A change begins at the first page again."""
        query = {name: text for name, text in (*self.query.items(), *changes.items()) if text is not None}
        query = {name: text for name, text in query.items() if changes.get(name, text) is not None}
        if "cursor" not in changes:
            query.pop("cursor", None)
            query.pop("looked", None)
        return self.root + quote(self.path) + (f"?{urlencode(query)}" if query else "")


class Region(NamedTuple):
    """A part of a page that is rendered, compared and sent by itself."""

    name: str
    """Its id in the page."""

    template: str
    view: Any
    """What its template gets as `view`: texts and numbers, no objects of the store."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What a page shows."""

    title: str
    kind: str
    """Name of the page's layout, and of its entry in the rail."""

    regions: tuple[Region, ...]
    status: int = 200
    every: float = 0.8
    """Seconds between two looks while it is open; 0: it is not live."""
