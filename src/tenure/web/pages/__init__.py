"""The pages of the dashboard. `PAGES` maps each path to the function that builds its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.web.pages.audit import audit
from tenure.web.pages.events import events
from tenure.web.pages.health import health
from tenure.web.pages.job import job
from tenure.web.pages.jobs import jobs
from tenure.web.pages.overview import overview

if TYPE_CHECKING:
    from tenure.web.page import PageFunction

__all__ = ["PAGES"]

PAGES: dict[str, PageFunction] = {
    "/": overview,
    "/jobs": jobs,
    "/jobs/{id}": job,
    "/events": events,
    "/audit": audit,
    "/health": health,
}
