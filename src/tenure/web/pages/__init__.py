"""The pages of the dashboard. `PAGES` maps each path to the function that builds its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.web.pages.audit import audit
from tenure.web.pages.bulk import bulk, operation, operations
from tenure.web.pages.events import events
from tenure.web.pages.failed import broken, failed
from tenure.web.pages.health import health
from tenure.web.pages.job import job
from tenure.web.pages.jobs import jobs
from tenure.web.pages.overview import overview
from tenure.web.pages.queue import queue
from tenure.web.pages.queues import queues
from tenure.web.pages.task import task
from tenure.web.pages.tasks import tasks
from tenure.web.pages.worker import worker
from tenure.web.pages.workers import workers
from tenure.web.pages.written import again, complete

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
    "/jobs/{id}/again": again,
    "/jobs/{id}/complete": complete,
    "/failed": failed,
    "/broken": broken,
    "/bulk": bulk,
    "/operations": operations,
    "/operations/{id}": operation,
    "/queues": queues,
    "/queues/{name}": queue,
    "/tasks": tasks,
    "/tasks/{name}": task,
    "/workers": workers,
    "/workers/{id}": worker,
}
