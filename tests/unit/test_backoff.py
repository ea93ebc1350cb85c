"""How long to wait before the next attempt, and whether there is one."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.backoff import Backoff
from tenure.errors import InvalidOption


@pytest.mark.parametrize(("attempt", "delay"), [(1, 10), (2, 20), (3, 40), (5, 160), (6, 300), (7, 300), (10**9, 300)])
def test_delays_double_from_ten_seconds_to_five_minutes_by_default(attempt: int, delay: float) -> None:  # Q24
    assert Backoff().delay(attempt) == delay


def test_a_multiplier_of_one_keeps_all_delays_the_same() -> None:
    assert {Backoff(initial=3, multiplier=1).delay(n) for n in range(1, 50)} == {3.0}


def test_a_delay_of_zero_stays_zero() -> None:
    assert Backoff(initial=0).jittered(7) == 0.0


def test_durations_may_be_timedeltas() -> None:
    backoff = Backoff(initial=timedelta(minutes=1), maximum=timedelta(hours=1))

    assert [backoff.delay(n) for n in (1, 2, 20)] == [60.0, 120.0, 3600.0]


@given(st.floats(0, 1e300), st.floats(0, 1e300), st.floats(1, 1e300), st.floats(0, 1), st.integers(1, 10**12))
def test_no_delay_is_negative_infinite_or_beyond_the_maximum(
    initial: float, maximum: float, multiplier: float, jitter: float, attempt: int
) -> None:
    backoff = Backoff(initial=initial, maximum=maximum, multiplier=multiplier, jitter=jitter)

    assert 0 <= backoff.delay(attempt) <= maximum
    assert 0 <= backoff.jittered(attempt) <= maximum
    assert abs(backoff.jittered(attempt) - backoff.delay(attempt)) <= backoff.delay(attempt) * (jitter + 1e-9)


def test_jitter_moves_the_delay_to_both_sides() -> None:
    delays = [Backoff(initial=100, jitter=0.1).jittered(1) for _ in range(200)]

    assert 90 <= min(delays) < 97
    assert 103 < max(delays) <= 110


def test_delays_that_have_reached_the_maximum_stay_spread_below_it() -> None:
    delays = [Backoff(initial=100, maximum=100, jitter=0.1).jittered(9) for _ in range(200)]

    assert 90 <= min(delays) < 93
    assert 97 < max(delays) <= 100
    assert len(set(delays)) > 190


@pytest.mark.parametrize(
    ("backoff", "error", "covered"),
    [
        (Backoff(), ValueError(), True),
        (Backoff(on=(OSError,)), ConnectionError(), True),
        (Backoff(on=(OSError,)), ValueError(), False),
        (Backoff(never=(OSError,)), ConnectionError(), False),
        (Backoff(never=(OSError,)), ValueError(), True),
        (Backoff(on=(OSError,), never=(ConnectionError,)), ConnectionError(), False),
        (Backoff(), SystemExit(1), True),
        (Backoff(), KeyboardInterrupt(), True),
        (Backoff(), asyncio.CancelledError(), True),
        (Backoff(on=(OSError,)), SystemExit(1), False),
        (Backoff(never=(SystemExit,)), SystemExit(1), False),
    ],
)
def test_which_exceptions_are_worth_another_attempt(backoff: Backoff, error: BaseException, covered: bool) -> None:
    assert backoff.covers(error) is covered


@pytest.mark.parametrize(
    "given_options",
    [
        {"initial": -1},
        {"maximum": float("nan")},
        {"multiplier": 0.5},
        {"jitter": 1.5},
        {"jitter": -0.1},
        {"initial": "10"},
    ],
)
def test_what_makes_no_sense_is_refused_naming_the_option(given_options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match=next(iter(given_options))):
        Backoff(**given_options)
