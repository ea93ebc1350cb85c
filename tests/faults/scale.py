"""How much of everything: a little in every run, a lot in those that ask for it with `-m long`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.conftest import KINDS

__all__ = ["lengths", "on"]

LONGEST = 1800
"""Seconds that a long test may take."""


def lengths(short: Any, *long: Any) -> Sequence[Any]:
    """Values of a parameter: a short one for every run, others for long runs."""
    return [short, *map(_long, long)]


def on(*kinds: str) -> pytest.MarkDecorator:
    """These stores in every run, and all others in long ones: for what takes seconds and is a worker's own doing on any store."""
    others = [_long(kind) for kind in KINDS if kind not in kinds]
    return pytest.mark.parametrize("url", [*kinds, *others], indirect=True)


def _long(value: Any) -> Any:
    return pytest.param(value, marks=[pytest.mark.long, pytest.mark.timeout(LONGEST)])
