"""The health of the store: what an examination found, what is kept for how long, and how quickly it answers."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from tenure.core.measures import RESOLUTIONS
from tenure.core.options import Retention
from tenure.core.units import duration
from tenure.stores import masked
from tenure.stores.values import Health
from tenure.web.examination import Examination
from tenure.web.page import Address, Page, Region

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.web.site import Site

__all__ = ["health", "retention_of"]

LEVELS = {Health.BAD: 0, Health.WARN: 1, Health.OK: 2}


class FactRow(msgspec.Struct, frozen=True):
    name: str
    health: str
    value: str
    advice: str


class HealthView(msgspec.Struct, frozen=True):
    heading: str
    level: str
    facts: tuple[FactRow, ...]
    store: str
    tenure: str
    layout: str
    layout_level: str
    round_trip: str
    examined_at: float


class Kept(msgspec.Struct, frozen=True):
    """How long the finished jobs of a queue are kept."""

    queue: str
    succeeded: str
    failed: str
    count: int


class RetentionView(msgspec.Struct, frozen=True):
    rows: tuple[Kept, ...]
    known: bool
    """False: the dashboard has no code, so these are the defaults and workers may keep jobs for another time."""

    history: bool
    """Whether the app's workers write the history."""

    slots: tuple[tuple[str, str], ...]
    """Length of the slots of each resolution, and for how long they are kept."""


async def health(site: Site, at: Address) -> Page:
    """What `tenure doctor` knows, examined at most once a minute."""
    del at
    found = await site.examinations.latest()
    troubles = sum(fact.health is not Health.OK for fact in found.facts)
    return Page(
        title=f"({troubles}) Health" if troubles else "Health",
        kind="health",
        every=10.0,
        regions=(
            Region("facts", "health/facts.html", _facts(site.app, found)),
            Region("kept", "health/kept.html", _retention(site.app)),
        ),
    )


def _facts(app: App, found: Examination) -> HealthView:
    facts = sorted(found.facts, key=lambda fact: LEVELS[fact.health])
    level = facts[0].health if facts else Health.OK
    layout, known = found.layout.found, found.layout.known
    if layout is None:
        text = f"none yet, this Tenure makes layout {known}"
    elif layout == known:
        text = f"{layout}, the newest that this Tenure knows"
    elif layout < known:
        text = f"{layout}, and this Tenure knows {known}: `tenure schema apply` migrates it"
    else:
        text = f"{layout}, and this Tenure knows {known} only: update it"
    return HealthView(
        heading={"ok": "The store is well", "warn": "The store works, with a warning", "bad": "The store is in trouble"}[level],
        level=level.value,
        facts=tuple(FactRow(fact.name, fact.health.value, fact.value, fact.advice) for fact in facts),
        store=masked(app.url),
        tenure=version("tenure"),
        layout=text,
        layout_level="ok" if layout in (None, known) else "warn",
        round_trip=_brief(found.round_trip),
        examined_at=found.at,
    )  # fmt: skip


def retention_of(app: App) -> dict[str, Retention]:
    """The retention of the app by queue; that of all other queues under `*`."""
    return {"*": app.options.keep, **app.options.keep_in}


def _retention(app: App) -> RetentionView:
    rows = tuple(
        Kept("" if queue == "*" else queue, _seconds(retention.succeeded), _seconds(retention.failed), retention.count)
        for queue, retention in retention_of(app).items()
    )
    slots = tuple((_seconds(length), _seconds(kept)) for length, kept in RESOLUTIONS.items())
    return RetentionView(rows, bool(app.tasks), app.options.history, slots)


def _seconds(value: object) -> str:
    assert isinstance(value, int | float)
    return duration(float(value))


def _brief(seconds: float) -> str:
    return f"{seconds * 1e6:.0f}µs" if seconds < 0.001 else f"{seconds * 1000:.1f}ms"
