"""Counters that are merged by adding, buckets of durations, and quantiles."""

from __future__ import annotations

import math
from functools import reduce

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenure.core.measures import (
    ERRORS,
    EVER,
    HIGHEST,
    LOWEST,
    OTHERS,
    RESOLUTIONS,
    bucket,
    buckets,
    lower_bound,
    merge_counts,
    merge_gauges,
    quantile,
    slot_of,
    sum_counts,
    upper_bound,
)

OFF_BY = 2**0.25 * 1.000001
"""What a quantile may be off by: half of a bucket, on a logarithmic scale."""

names = st.sampled_from(
    ["succeeded", "failed", "retried", "stale", "wait:-3", "run:7", *(f"error:E{n}" for n in range(8))]
)
counters = st.dictionaries(names, st.integers(1, 1_000_000).map(float), max_size=8)
durations = st.floats(1e-6, 2e6) | st.integers(-39, 40).map(lambda number: 2.0 ** (number / 2))


# Buckets.


@given(durations)
@example(0.0)
@example(1e-7)
@example(1.0)
@example(math.nextafter(1.0, 0))
@example(1e9)
def test_the_bucket_of_a_duration_contains_it(seconds: float) -> None:
    number = bucket(seconds)
    assert LOWEST <= number <= HIGHEST
    # The square root of two is no floating-point number, so a bound may belong to either side.
    assert lower_bound(number) <= seconds * (1 + 1e-12)
    assert number == HIGHEST or seconds < upper_bound(number) * (1 + 1e-12)


def test_buckets_follow_upon_each_other() -> None:
    for number in range(LOWEST, HIGHEST):
        assert upper_bound(number) == lower_bound(number + 1)
    assert (lower_bound(LOWEST), upper_bound(0)) == (0.0, 1.0)
    assert lower_bound(0) == pytest.approx(0.7071, abs=1e-4)
    assert 17 < lower_bound(HIGHEST) / 86400 < 18


@given(st.lists(durations, max_size=30))
def test_a_longer_duration_is_in_no_earlier_bucket(seconds: list[float]) -> None:
    numbers = [bucket(each) for each in sorted(seconds)]
    assert numbers == sorted(numbers)


def test_filled_buckets_come_in_order_and_apart_from_other_counters() -> None:
    counts = {"run:3": 1.0, "run:-10": 2.0, "wait:5": 7.0, "run": 9.0, "succeeded": 3.0, "error:run:1": 1.0}
    assert list(buckets(counts, "run").items()) == [(-10, 2.0), (3, 1.0)]
    assert buckets(counts, "wait") == {5: 7.0}


# Quantiles.


def filled(seconds: list[float]) -> dict[str, float]:
    return sum_counts({f"run:{bucket(each)}": 1.0} for each in seconds)


@given(st.lists(durations, min_size=1, max_size=200), st.sampled_from([0.01, 0.5, 0.9, 0.95, 0.99, 1.0]))
def test_a_quantile_is_off_by_a_fifth_at_most(seconds: list[float], share: float) -> None:
    exact = sorted(seconds)[max(math.ceil(len(seconds) * share) - 1, 0)]
    found = quantile(filled(seconds), "run", share)
    assert found is not None
    assert exact / OFF_BY <= found <= max(exact * OFF_BY, upper_bound(LOWEST))


def test_nothing_has_no_quantile() -> None:
    assert quantile({"succeeded": 4.0, "wait:3": 1.0}, "run", 0.5) is None


def test_what_took_no_time_is_less_than_a_microsecond() -> None:
    found = quantile(filled([0.0]), "run", 0.5)
    assert found is not None
    assert found < 1e-6


# Merging.


@given(counters, counters)
def test_merging_is_commutative(one: dict[str, float], other: dict[str, float]) -> None:
    assert merge_counts(one, other) == merge_counts(other, one) == sum_counts([one, other])


@given(counters, counters, counters)
def test_merging_is_associative(one: dict[str, float], two: dict[str, float], three: dict[str, float]) -> None:
    left = merge_counts(merge_counts(one, two), three)
    assert left == merge_counts(one, merge_counts(two, three))
    assert left == sum_counts([one, two, three])


@given(counters)
def test_merging_with_nothing_changes_nothing(counts: dict[str, float]) -> None:
    assert merge_counts(counts, {}) == merge_counts({}, counts) == counts


def test_merging_leaves_its_arguments_as_they_are() -> None:
    before, added = {"failed": 1.0}, {"failed": 2.0, "error:E": 1.0}
    merge_counts(before, added)
    assert (before, added) == ({"failed": 1.0}, {"failed": 2.0, "error:E": 1.0})


@given(
    st.lists(st.dictionaries(st.integers(0, 99).map(lambda n: f"error:E{n}"), st.just(1.0), max_size=40), max_size=10)
)
def test_a_row_has_a_bounded_number_of_errors_and_loses_none(rows: list[dict[str, float]]) -> None:
    merged = reduce(merge_counts, rows, dict[str, float]())
    assert len(merged) <= ERRORS + 1
    assert sum(merged.values()) == sum(len(row) for row in rows)
    types = len({name for row in rows for name in row})
    assert (f"error:{OTHERS}" in merged) == (types > ERRORS)


def test_errors_that_are_known_go_on_to_be_counted_beyond_the_bound() -> None:
    full = {f"error:E{number}": 1.0 for number in range(ERRORS)}
    merged = merge_counts(full, {"error:E3": 1.0, "error:new": 2.0, "error:newer": 3.0, "succeeded": 1.0})
    assert merged == {**full, "error:E3": 2.0, f"error:{OTHERS}": 5.0, "succeeded": 1.0}


@pytest.mark.parametrize(
    ("before", "later", "merged"),
    [
        ({}, {}, {}),
        ({"in_line": 3.0}, {}, {"in_line": 3.0}),
        ({"in_line": 3.0}, {"in_line": 1.0}, {"in_line": 1.0}),
        ({"in_line": 3.0, "total_failed": 2.0}, {"in_line": 1.0}, {"in_line": 1.0, "total_failed": 2.0}),
        ({"oldest": 3.0}, {"oldest": 1.0}, {"oldest": 3.0}),
        ({"oldest": 3.0}, {"oldest": 5.0}, {"oldest": 5.0}),
        ({"oldest": 3.0}, {"in_line": 0.0}, {"oldest": 3.0, "in_line": 0.0}),
        ({}, {"oldest": 0.0}, {"oldest": 0.0}),
    ],
)
def test_gauges_are_replaced_and_the_greatest_age_stays(
    before: dict[str, float], later: dict[str, float], merged: dict[str, float]
) -> None:
    assert merge_gauges(before, later) == merged


# Slots.


@given(st.sampled_from([*RESOLUTIONS]), st.floats(0, 1e11))
def test_a_slot_contains_its_time_and_begins_at_a_multiple(resolution: int, now: float) -> None:
    slot = slot_of(resolution, now)
    assert slot <= now < slot + resolution
    assert slot % resolution == 0
    assert slot_of(resolution, slot) == slot


@given(st.floats(0, 1e11))
def test_each_slot_is_inside_one_of_the_next_resolution(now: float) -> None:
    assert slot_of(3600, slot_of(300, slot_of(10, now))) == slot_of(3600, now)
    assert slot_of(EVER, now) == 0.0
