"""How much of everything: a little in every run, a lot in those that ask for it with `-m long`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

__all__ = ["lengths"]

LONGEST = 1800
"""Seconds that a long test may take."""


def lengths(short: Any, *long: Any) -> Sequence[Any]:
    """Values of a parameter: a short one for every run, others for long runs."""
    return [short, *(pytest.param(each, marks=[pytest.mark.long, pytest.mark.timeout(LONGEST)]) for each in long)]
