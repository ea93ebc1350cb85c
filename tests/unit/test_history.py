"""How rows of the history are put together, and what a worker counts for them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.job import ErrorInfo, JobRecord, State
from tenure.core.lease import Lease, Token
from tenure.core.lifecycle import RELEASE, Finish, Park, Requeue, Transition
from tenure.core.measures import OTHERS, HistoryRow, HistoryWrite, Mark, bucket, buckets
from tenure.core.options import AppOptions, WorkerOptions
from tenure.jobs.history import History, Window, assembled, gauges_of
from tenure.stores.values import LEASE_LOST, NOT_FOUND, OK, QueueInfo, Totals, UniqueHeld, Verdict, refused
from tenure.worker.attempt import Attempt
from tenure.worker.meter import ERRORS, PAIRS, SAMPLES, Meters
from tenure.worker.settings import resolve

SUCCEED = Finish(State.SUCCEEDED)

# Points out of rows.

FIRST = 1_000_000.0


def row(
    number: int, counts: Mapping[str, float] | None = None, total: float | None = None, **gauges: float
) -> HistoryRow:
    """The row of a slot, by its number from the first, with the total of successes at its end if that is known."""
    if total is not None:
        gauges |= {"in_line": gauges.get("in_line", 0), "total_succeeded": total}
    return HistoryRow(FIRST + number * 10, "q", "", dict(counts or {}), gauges)


def history(*rows: HistoryRow, slots: int = 4, marks: list[Mark] | None = None) -> History:
    last = FIRST + (slots - 1) * 10
    return assembled("q", None, Window(10, FIRST, last, last + 4), rows, marks or [])


def successes(*rows: HistoryRow, slots: int = 4) -> list[int]:
    made = history(*rows, slots=slots)
    assert made.total.succeeded == sum(point.succeeded for point in made.points)
    return [point.succeeded for point in made.points]


def test_what_workers_have_counted_is_shown_while_no_totals_are_known() -> None:
    assert successes(row(0, {"succeeded": 3}), row(2, {"succeeded": 4})) == [3, 0, 4, 0]


def test_the_difference_of_exact_totals_wins_over_counts() -> None:
    rows = [row(0, {"succeeded": 3}, 10), row(1, {"succeeded": 1}, 15), row(2, {"succeeded": 9}, 15)]
    assert successes(*rows) == [3, 5, 0, 0]


def test_what_was_counted_after_the_first_total_of_a_new_store_is_not_counted_twice() -> None:
    assert successes(row(0, {"succeeded": 3}, 0), row(1, {"succeeded": 1}, 4)) == [0, 4, 0, 0]
    assert successes(row(0, {"succeeded": 3}), row(1, {"succeeded": 9}, 5), row(2, {}, 7)) == [3, 5, 2, 0]


def test_the_slot_before_gives_the_first_one_its_begin() -> None:
    assert successes(row(-1, {"succeeded": 99}, 10), row(0, {"succeeded": 1}, 12)) == [2, 0, 0, 0]


def test_slots_between_two_totals_have_what_was_counted_and_the_rest_goes_to_the_last() -> None:
    assert successes(row(0, {}, 10), row(1, {"succeeded": 5}), row(2, {"succeeded": 5}), row(3, {}, 23)) == [0, 5, 5, 3]
    assert successes(row(0, {}, 10), row(3, {"succeeded": 1}, 20)) == [0, 0, 0, 10]


def test_what_was_written_late_is_not_counted_twice() -> None:
    # Five of the eight were settled before the total of 10 was read, and written after it.
    assert successes(row(0, {}, 10), row(1, {"succeeded": 8}), row(2, {}, 13)) == [0, 3, 0, 0]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), min_size=2, max_size=20))
def test_between_two_totals_all_slots_add_up_to_their_difference(slots: list[tuple[int, int, bool]]) -> None:
    rows, total = [row(0, {}, 0)], 0
    for number, (happened, counted, known) in enumerate(slots, 1):
        total += happened
        rows.append(row(number, {"succeeded": counted}, total if known else None))
    rows.append(row(len(rows), {}, total))
    assert sum(successes(*rows, slots=len(rows))) == total


def test_where_a_queue_was_forgotten_counts_are_shown() -> None:
    fell = [row(0, {}, 500), row(1, {"succeeded": 4}, 20), row(2, {"succeeded": 1}, 27)]
    assert successes(*fell) == [0, 4, 7, 0]
    hidden = [row(0, {}, 500, queues=2), row(1, {"succeeded": 40}, 510, queues=1), row(2, {}, 512, queues=2)]
    assert successes(*hidden) == [0, 40, 2, 0], "though the total of the others grew by more"


def test_losses_and_cancels_are_known_from_totals_alone() -> None:
    before = HistoryRow(FIRST, "q", "", {}, {"total_lost": 1, "total_cancelled": 2, "total_failed": 0})
    later = HistoryRow(FIRST + 10, "q", "", {}, {"total_lost": 4, "total_cancelled": 2, "total_failed": 2})
    point = history(before, later).points[1]
    assert (point.lost, point.cancelled, point.failed, point.finished) == (3, 0, 2, 2)


def test_a_slot_without_a_row_is_there_and_empty() -> None:
    made = history(row(1, {"succeeded": 1}, in_line=7))
    assert [point.at for point in made.points] == [datetime.fromtimestamp(FIRST + 10 * n, UTC) for n in range(4)]
    empty = made.points[2]
    assert (empty.finished, empty.in_line, empty.oldest, empty.wait, empty.run, empty.errors) == (
        0,
        None,
        None,
        {},
        {},
        {},
    )


def test_the_last_slot_is_as_long_as_the_time_that_has_passed() -> None:
    made = history(row(0, {"succeeded": 20}), row(3, {"succeeded": 20}))
    assert [point.seconds for point in made.points] == [10, 10, 10, 4]
    assert [point.rate for point in made.points] == [2.0, 0, 0, 5.0]
    assert made.total.seconds == 34
    assert made.total.rate == pytest.approx(40 / 34)


def test_the_whole_has_the_latest_lengths_and_all_durations() -> None:
    made = history(
        row(0, {"run:2": 98, "wait:-6": 1, "error:A": 1}, in_line=5, running=1, oldest=9.5),
        row(1, {"run:8": 2, "error:B": 2, "error:A": 2}, in_line=3, scheduled=2, blocked=4),
        row(2, {"stale": 1}),
    )
    total = made.total
    assert (total.in_line, total.scheduled, total.blocked, total.running, total.oldest) == (3, 2, 4, None, None)
    assert total.run == {"p50": pytest.approx(2**0.75), "p95": pytest.approx(2**0.75), "p99": pytest.approx(2**3.75)}
    assert {*total.wait} == {"p50", "p95", "p99"}
    assert list(total.errors.items()) == [("A", 3), ("B", 2)], "the most frequent first"
    assert total.stale == 1
    assert made.points[0].oldest == 9.5


def test_marks_come_along() -> None:
    marks = [Mark(FIRST + 3, "deploy 1"), Mark(FIRST + 30, "deploy 2")]
    assert history(marks=marks).marks == marks


# Lengths and ages of queues.


def a_queue(name: str, waiting: int, oldest: float | None, succeeded: int) -> QueueInfo:
    return QueueInfo(name=name, waiting=waiting, oldest=oldest, totals=Totals(succeeded=succeeded))


def test_all_queues_together_have_the_sum_and_the_greatest_age() -> None:
    queues = [a_queue("a", 2, 5.0, 10), a_queue("b", 1, 7.0, 20), a_queue("c", 0, None, 3)]
    [whole, a, _, c] = gauges_of(queues)
    assert (whole.queue, whole.task, whole.counts) == ("", "", {})
    assert (whole.gauges["in_line"], whole.gauges["oldest"], whole.gauges["total_succeeded"]) == (3, 7.0, 33)
    assert (a.queue, a.gauges["in_line"], a.gauges["oldest"], a.gauges["total_succeeded"]) == ("a", 2, 5.0, 10)
    assert "oldest" not in c.gauges


def test_the_sum_of_some_queues_is_no_total() -> None:
    [whole, a] = gauges_of([a_queue("a", 2, 5.0, 10)], complete=False)
    assert [name for name in whole.gauges if name.startswith("total_")] == []
    assert whole.gauges["in_line"] == 2
    assert a.gauges["total_succeeded"] == 10


# What a worker counts.


def attempt(queue: str = "q", task: str = "t", *, waited: float = 0.5, ran: float = 0.25) -> Attempt:
    job = JobRecord("id", task, queue, State.RUNNING, b"", created_at=100.0, started_at=100.0 + waited)
    settings = resolve(None, WorkerOptions(), AppOptions())
    made = Attempt(Lease(job, Token(1, 1), 60.0), settings, 0.0)
    made.run_time = ran
    return made


def taken(meters: Meters) -> dict[tuple[str, str], dict[str, float]]:
    return {(write.queue, write.task): write.counts for write in meters.take()}


def count(meters: Meters, transition: Transition, verdict: Verdict = OK, **fields: Any) -> None:
    meters.count([(attempt(**fields), transition)], [verdict])


def failed(type_: str = "ValueError") -> Finish:
    return Finish(State.FAILED, error=ErrorInfo(type_, "no"))


def test_each_end_is_counted_for_its_task_its_queue_and_all() -> None:
    meters = Meters()
    count(meters, SUCCEED)
    count(meters, SUCCEED, task="u")
    count(meters, failed(), queue="other")
    count(meters, Requeue(delay=3.0, error=ErrorInfo("KeyError", "no")), queue="other")
    count(meters, Finish(State.BROKEN, error=ErrorInfo("Undecodable", "no")))

    durations = {"wait": 0.5, "run": 0.25, f"wait:{bucket(0.5)}": 1, f"run:{bucket(0.25)}": 1}
    written = taken(meters)
    assert written["q", "u"] == {"succeeded": 1, **durations}
    ends = {
        pair: {name: number for name, number in counts.items() if not name.startswith(("wait", "run"))}
        for pair, counts in written.items()
    }
    assert ends == {
        ("", ""): {
            "succeeded": 2, "failed": 1, "retried": 1, "broken": 1,
            "error:ValueError": 1, "error:KeyError": 1, "error:Undecodable": 1,
        },
        ("q", ""): {"succeeded": 2, "broken": 1, "error:Undecodable": 1},
        ("other", ""): {"failed": 1, "retried": 1, "error:ValueError": 1, "error:KeyError": 1},
        ("q", "t"): {"succeeded": 1, "broken": 1, "error:Undecodable": 1},
        ("q", "u"): {"succeeded": 1},
        ("other", "t"): {"failed": 1, "retried": 1, "error:ValueError": 1, "error:KeyError": 1},
    }  # fmt: skip
    assert written["", ""]["run"] == 5 * 0.25
    assert meters.take() == []


@pytest.mark.parametrize(
    "transition", [RELEASE, Requeue(delay=5.0, counts=False), Requeue(missed=True, counts=False), Park(10.0, "f.two")]
)
def test_what_is_given_back_does_not_count(transition: Transition) -> None:
    meters = Meters()
    count(meters, transition)
    assert meters.take() == []


def test_an_end_that_the_store_did_not_accept_is_stale_or_nothing() -> None:
    meters = Meters()
    count(meters, SUCCEED, LEASE_LOST)
    count(meters, SUCCEED, NOT_FOUND)
    count(meters, SUCCEED, refused(UniqueHeld("id")))
    assert taken(meters)["", ""] == {"stale": 1}


@pytest.mark.parametrize("number", [1, SAMPLES - 1, SAMPLES, SAMPLES + 1, 5 * SAMPLES, 100_003])
def test_many_durations_are_sampled_and_ends_are_counted_exactly(number: int) -> None:
    meters = Meters()
    batch = [(attempt(waited=1.5, ran=0.001), SUCCEED)] * 1000
    for begin in range(0, number, 1000):
        part = batch[: number - begin]
        meters.count(part, [OK] * len(part))

    [meter] = meters._by_pair.values()
    assert len(meter._samples) < SAMPLES
    counts = taken(meters)["q", "t"]
    assert counts["succeeded"] == number
    # Each sample stands for as many attempts as were passed over; the last ones may be missing.
    [sampled] = buckets(counts, "run").values()
    assert number * (1 - 2 / SAMPLES) - 1 < sampled <= number
    assert counts["run"] == pytest.approx(sampled * 0.001)
    assert counts["wait"] == pytest.approx(sampled * 1.5)


def test_samples_are_taken_from_the_whole_time() -> None:
    meters = Meters()
    for number in range(4 * SAMPLES):
        count(meters, SUCCEED, ran=0.01 if number < 3 * SAMPLES else 10.0)
    counts = buckets(taken(meters)["q", "t"], "run")
    assert counts[bucket(10.0)] / sum(counts.values()) == pytest.approx(0.25, abs=0.01)


def test_pairs_beyond_the_bound_are_written_as_one() -> None:
    meters = Meters()
    for number in range(PAIRS + 5):
        count(meters, SUCCEED, task=f"t{number}")
    written = taken(meters)
    assert len(written) == 1 + 1 + PAIRS + 1
    assert written[OTHERS, OTHERS]["succeeded"] == 5
    assert written["", ""]["succeeded"] == written["q", ""]["succeeded"] == PAIRS + 5


def test_queues_beyond_the_bound_are_written_as_one() -> None:
    meters = Meters()
    for number in range(PAIRS + 5):
        count(meters, SUCCEED, queue=f"q{number}")
    written = taken(meters)
    assert len(written) == 1 + PAIRS + PAIRS + 1
    assert written["", ""]["succeeded"] == PAIRS + 5


def test_types_of_errors_beyond_the_bound_are_counted_as_one() -> None:
    meters = Meters()
    for number in range(ERRORS + 3):
        count(meters, failed(f"E{number}"))
    count(meters, failed("E0"))
    counts = taken(meters)["q", "t"]
    errors = {name: number for name, number in counts.items() if name.startswith("error:")}
    assert errors == {**{f"error:E{n}": 1 + (n == 0) for n in range(ERRORS)}, f"error:{OTHERS}": 3}
    assert counts["failed"] == ERRORS + 4


def test_nothing_is_lost_between_the_threads_that_add_and_take() -> None:
    meters, done = Meters(), threading.Event()
    found: list[HistoryWrite] = []

    def take() -> None:
        while not done.is_set():
            found.extend(meters.take())

    taker = threading.Thread(target=take)
    taker.start()
    for number in range(5000):
        meters.count([(attempt(task=f"t{number % 3}"), SUCCEED), (attempt(), failed())], [OK, OK])
    done.set()
    taker.join()
    found += meters.take()

    whole = [write.counts for write in found if not write.queue]
    assert sum(counts.get("succeeded", 0) for counts in whole) == 5000
    assert sum(counts.get("failed", 0) for counts in whole) == 5000
    assert sum(sum(buckets(counts, "run").values()) for counts in whole) == pytest.approx(10_000, rel=0.01)
