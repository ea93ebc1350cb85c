"""Take docs/images/dashboard-*.png: the pages of a dashboard that shows real jobs (`make pictures ADDRESS=…`).

The address is the one that `tenure dashboard` or `tenure demo --dashboard` prints. The longer its workers have run, the more the
charts show.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, sync_playwright

from tests.servers.browser import ARGUMENTS, chromium

IMAGES = Path(__file__).parent.parent / "docs/images"
PAGES = {
    "overview": "/",
    "jobs": "/jobs?state=failed",
    "job": "first a.id of /jobs?state=failed",
    "failed": "/failed",
    "broken": "/broken",
    "queues": "/queues",
    "queue": "first th a.chip of /queues",
    "tasks": "/tasks",
    "task": "first th a.chip of /tasks",
    "workers": "/workers",
    "worker": "first th a.chip of /workers",
    "flows": "/flows",
    "run": "first a[href*='/runs/'] of /flows",
    "schedules": "/schedules",
    "schedule": "first th a of /schedules",
    "events": "/events?kind=ended",
    "audit": "/audit",
    "health": "/health",
}
"""Where each picture is taken: a path, or the first such link on another page."""

MORE = {
    "overview-dark": ("/", 1440, "dark"),
    "overview-phone": ("/", 390, "light"),
    "jobs-phone": ("/jobs", 390, "dark"),
}
"""Pictures with another width or in the dark."""


def take(address: str) -> None:
    """Take all pictures of the dashboard at this address."""
    parts = urlsplit(address)
    base = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
    wanted = {name: (path, 1440, "light") for name, path in PAGES.items()} | MORE
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        for name, (path, width, scheme) in wanted.items():
            size = {"width": width, "height": 900 if width > 400 else 844}
            context = browser.new_context(viewport=size, color_scheme=scheme, locale="en-GB")  # type: ignore[arg-type]
            page = context.new_page()
            page.goto(address)
            _go(page, base, path)
            page.wait_for_timeout(3000)
            page.screenshot(path=IMAGES / f"dashboard-{name}.png")
            context.close()
            print(f"dashboard-{name}.png")
        browser.close()


def _go(page: Page, base: str, path: str) -> None:
    if path.startswith("first "):
        link, _, where = path.removeprefix("first ").partition(" of ")
        page.goto(base + where)
        path = page.locator(link).first.get_attribute("href") or "/"
        base = base.removesuffix(urlsplit(base).path)
    page.goto(base + path)


if __name__ == "__main__":
    take(sys.argv[1])
