"""Helpers for tests: `kit` and `context` for tests of tasks; `conformance`, `model`, `machine` for tests of stores."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.testing.attempt import context
    from tenure.testing.driver import Performed, Ran, StillBusy
    from tenure.testing.expecting import EnqueuedJob
    from tenure.testing.kits import Kit, kit

__all__ = ["EnqueuedJob", "Kit", "Performed", "Ran", "StillBusy", "context", "kit"]

_HOMES = {
    "EnqueuedJob": "expecting",
    "Kit": "kits",
    "Performed": "driver",
    "Ran": "driver",
    "StillBusy": "driver",
    "context": "attempt",
    "kit": "kits",
}
"""The module of each name. It is imported at the first use of the name, so that pytest starts as fast with the plugin."""

if not TYPE_CHECKING:  # a type checker that saw this would accept any name

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'tenure.testing' has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(f"tenure.testing.{_HOMES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return __all__
