from __future__ import annotations

import pytest

from tenure.core.jitter import full_jitter


@pytest.mark.parametrize(
    ("tries", "longest"),
    [(0, 0.05), (1, 0.1), (4, 0.8), (7, 5.0), (1_000, 5.0), (10_000_000, 5.0)],
)
def test_a_pause_is_anywhere_between_zero_and_the_doubled_first(tries: int, longest: float) -> None:
    pauses = [full_jitter(tries, first=0.05, longest=5.0) for _ in range(1_000)]

    assert 0 <= min(pauses) < longest / 10
    assert longest * 0.9 < max(pauses) <= longest
