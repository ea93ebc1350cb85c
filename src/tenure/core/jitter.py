"""Draws the pause before the next try with full jitter, so that clients that failed together do not return together."""

from __future__ import annotations

import random

__all__ = ["full_jitter"]


def full_jitter(tries: int, first: float, longest: float) -> float:
    """Seconds to pause after `tries` failed tries: random, from 0 up to `first` doubled `tries` times, at most `longest`."""
    # The exponent is capped because 2.0 ** 1024 overflows; any `longest` is reached before.
    return random.random() * min(first * 2.0 ** min(tries, 30), longest)  # noqa: S311
