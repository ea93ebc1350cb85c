"""Bridges to Resque and other systems, whose clients then work with Tenure. Each is imported when it is named."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.bridges.guild.bridge import Guild as Guild
    from tenure.bridges.hworker import Hworker as Hworker
    from tenure.bridges.queuert.bridge import Queuert as Queuert
    from tenure.bridges.queuert.processors import Continue as Continue
    from tenure.bridges.resque.bridge import Resque as Resque
    from tenure.bridges.worqr import Worqr as Worqr

__all__ = ["Continue", "Guild", "Hworker", "Queuert", "Resque", "Worqr"]

_MODULES = {
    "Guild": "tenure.bridges.guild.bridge",
    "Hworker": "tenure.bridges.hworker",
    "Queuert": "tenure.bridges.queuert.bridge",
    "Resque": "tenure.bridges.resque.bridge",
    "Worqr": "tenure.bridges.worqr",
}

_NAMES = {**_MODULES, "Continue": "tenure.bridges.queuert.processors"}


def kinds() -> dict[str, str]:
    """The name of each bridge's class, by the kind that `tenure bridge` takes."""
    return {name.lower(): name for name in _MODULES}


def __getattr__(name: str) -> object:
    if (module := _NAMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
