"""`stamped` adds the headers that `@app.stamp` functions give to new jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tenure.core.checks import headers as checked_headers
from tenure.core.job import NewJob
from tenure.hooks.registry import name_of

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Stamp", "stamped"]

Stamp = Callable[[], Mapping[str, str] | None]
"""A function that `@app.stamp` registers."""


def stamped(app: App, jobs: Sequence[NewJob], inherited: Mapping[str, str] | None = None) -> Sequence[NewJob]:
    """These jobs with the headers of every stamp, asked once. A stamp overrides what is inherited; a job's own headers override both.

    `InvalidOption` if a stamp gives no headers, or a job has too many with them.
    """
    stamps = app.internals.stamps
    if not stamps and not inherited:
        return jobs
    common = dict(inherited or {})
    for stamp in stamps:
        common |= checked_headers(stamp(), f"what the stamp {name_of(stamp)} returns") or {}
    if not common:
        return jobs
    return [replace(job, headers=checked_headers({**common, **(job.headers or {})})) for job in jobs]
