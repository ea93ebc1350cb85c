"""The name of a dashboard: that of its store."""

from __future__ import annotations

import pytest

from tenure import App
from tenure.web import OPEN, dashboard


@pytest.mark.parametrize(
    ("url", "title"),
    [
        ("sqlite:///shop.db", "shop.db"),
        ("redis://cache:6379/0", "cache"),
        ("postgresql://ann:secret@db/postgres", "db"),
        ("postgresql://db/shop?schema=jobs", "shop"),
        ("memory://", "memory"),
    ],
)
def test_a_dashboard_is_named_after_its_store(url: str, title: str) -> None:
    assert dashboard(App(url), auth=OPEN).site.title == title
    assert dashboard(App(url), auth=OPEN, title="mine").site.title == "mine"
