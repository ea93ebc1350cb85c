"""`tenure import`: the engine that moves what waits in another system into Tenure, and an origin for each system."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from tenure.core.patterns import has_patterns

if TYPE_CHECKING:
    from tenure.bridges.importing.origin import Origin

__all__ = ["KINDS", "origin_of"]

KINDS = {
    "resque": "ResqueOrigin",
    "celery": "CeleryOrigin",
    "rq": "RqOrigin",
    "arq": "ArqOrigin",
    "huey": "HueyOrigin",
    "dramatiq": "DramatiqOrigin",
}
"""The systems that can be imported from, by their names on the command line, and the class of each one's origin."""


def origin_of(kind: str, url: str, prefix: str | None = None, queues: Sequence[str] = ()) -> Origin:
    """The origin of this kind at this address.

    `prefix` is that of its keys; None: as the system has it by default. `queues` are names and patterns; names are looked for even
    if the system does not list them.
    """
    made: type[Origin] = getattr(import_module(f"tenure.bridges.importing.{kind}"), KINDS[kind])
    return made(url, prefix, [queue for queue in queues if not queue.startswith("!") and not has_patterns([queue])])
