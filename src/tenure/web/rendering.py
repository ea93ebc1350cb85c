"""`Renderer` renders pages and regions with Jinja2. Every text is escaped, and control characters are made visible."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from tenure.core.units import duration, size
from tenure.web.page import Address, Page, Region

if TYPE_CHECKING:
    from tenure.web.rail import RailEntry

__all__ = ["Renderer", "visible"]

LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC).timestamp()

LONGEST = 50_000
"""Characters of one text in a page, at most, so that no error or name can make a page that no browser shows."""

GLYPHS = {
    "scheduled": "◷",
    "blocked": "◫",
    "parked": "◫",
    "waiting": "○",
    "retrying": "↻",
    "running": "▶",
    "succeeded": "✓",
    "failed": "✕",
    "cancelled": "⊘",
    "broken": "⚠",
    "active": "✓",
    "paused": "‖",
    "done": "✓",
    "lapsed": "⚠",
    "unreadable": "⚠",
    "bad": "✕",
    "warn": "⚠",
    "ok": "✓",
    "working": "✓",
    "quiet": "‖",
    "stopping": "‖",
    "missing": "✕",
    "troubled": "⚠",
}
"""A sign for each state, so that colour is never needed."""


class Renderer:
    """Renders whole pages, and single regions of them."""

    def __init__(self, title: str, *, logout: bool = False) -> None:
        """`logout`: whether viewers have a session that they can end."""
        self._environment = Environment(
            loader=PackageLoader("tenure.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_finalized,
        )
        self._environment.filters |= {
            "number": number,
            "duration": duration,
            "size": size,
            "share": share,
            "given": lambda values: {name: value for name, value in values.items() if value},
            "iso": iso,
            "clock": clock,
            "short": short,
            "sentence": sentence,
            "path": lambda text: quote(str(text), safe=""),
            "json": lambda value: json.dumps(value, ensure_ascii=False),
        }
        self._environment.globals |= {
            "title": title,
            "logout": logout,
            "glyphs": GLYPHS,
            "static": self.static_path,
            "query": urlencode,
        }

    def page(self, page: Page, at: Address, *, rail: Sequence[RailEntry], **more: Any) -> str:
        """The whole page, as HTML."""
        return self._environment.get_template("page.html").render(page=page, at=at, rail=rail, **more)

    def region(self, region: Region, page: Page, at: Address, csrf: str) -> str:
        """One region of a page, as HTML."""
        return self._environment.get_template("region.html").render(region=region, page=page, at=at, csrf=csrf)

    def rail(self, page: Page, at: Address, rail: Sequence[RailEntry]) -> str:
        """The links to all pages, with their counts."""
        return self._environment.get_template("rail.html").render(page=page, at=at, rail=rail)

    def template(self, name: str, **values: Any) -> str:
        """Another document, such as the login form."""
        return self._environment.get_template(name).render(**values)

    @cached_property
    def static(self) -> dict[str, bytes]:
        """Static files by name."""
        folder = resources.files("tenure.web") / "static"
        return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}

    @cached_property
    def version(self) -> str:
        """A hash of all static files, which is part of their paths, so that browsers may keep them for ever."""
        return hashlib.sha256(b"".join(self.static[name] for name in sorted(self.static))).hexdigest()[:12]

    def static_path(self, name: str) -> str:
        """Path of a static file."""
        assert name in self.static, f"there is no static file {name}"
        return f"/static/{self.version}/{name}"


# What templates write.


_SPACES = "\n\t\u2009"
"""White space that is written as it is; the thin space is our own, in numbers."""


def visible(text: str) -> str:
    r"""The text with every unprintable character but line feeds and tabs as an escape sequence, such as `\u202e`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _SPACES else c.encode("unicode_escape").decode("ascii") for c in text)


def _finalized(value: Any) -> Any:
    """What is written for a value: plain texts with their control characters made visible."""
    if value is None:
        return ""
    if type(value) is not str:
        return value
    return visible(value if len(value) <= LONGEST else f"{value[:LONGEST]}…")


def sentence(text: str) -> str:
    """The text with a capital at its beginning, unless it begins with a command, which must stay as it is typed."""
    return text if text.startswith("tenure ") else text[:1].upper() + text[1:]


def number(value: float | None) -> str:
    """A number with a thin space between thousands; less than ten has a digit behind the point; a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, float) and 0 < value < 10 and value != int(value):
        return f"{value:.1f}" if value >= 0.05 else "<0.1"
    return f"{round(value):,}".replace(",", "\u2009")


def share(value: float | None) -> str:
    """A share in per cent; a dash for None."""
    if value is None:
        return "–"
    percent = value * 100
    return (
        "0 %"
        if value <= 0
        else "<0.1 %"
        if percent < 0.05
        else f"{percent:.1f} %"
        if percent < 10
        else f"{percent:.0f} %"
    )


def iso(at: float) -> str:
    """An instant for the browser, which shows it in its own time zone."""
    return datetime.fromtimestamp(min(at, LAST_DAY), UTC).isoformat(timespec="milliseconds")


def clock(at: float) -> str:
    """An instant in UTC, as it is shown without scripts."""
    return f"{datetime.fromtimestamp(min(at, LAST_DAY), UTC):%Y-%m-%d %H:%M:%S}"


def short(job_id: str) -> str:
    """The end of an id that is a UUID, which differs most; any other id whole, up to 20 characters."""
    if len(job_id) == 36 and job_id.count("-") == 4:
        return job_id[-8:]
    return job_id if len(job_id) <= 20 else job_id[:19] + "…"
