"""Names, durations, instants, options, ids and answers: checked where they are built."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.checks import instant, name, seconds
from tenure.core.job import FINAL, JobRecord, Progress, State, new_id
from tenure.core.lease import Token, new_nonce
from tenure.core.options import AppOptions, Retention, TaskOptions, WorkerOptions
from tenure.core.outcome import Fail, Reschedule, Retry, Wait
from tenure.errors import InvalidName, InvalidOption


@given(st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_.:-]{0,126}\Z"))
def test_a_name_of_letters_digits_and_four_marks_is_accepted(text: str) -> None:
    assert name("queue", text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-a",
        ".a",
        "a b",
        "a\n",
        "a/b",
        "ä",
        "٣",
        "a\0",
        "a" * 128,
        "\u202ea",
        "a\x1b[31m",
        None,
        3,
        b"a",
        "{a}",
        "a*",
    ],
)
def test_any_other_name_is_refused(text: object) -> None:
    with pytest.raises(InvalidName, match="not a valid queue name") as refusal:
        name("queue", text)

    assert "\n" not in str(refusal.value)
    assert "\x1b" not in str(refusal.value)


@pytest.mark.parametrize(("value", "number"), [(0, 0.0), (1.5, 1.5), (timedelta(minutes=2), 120.0)])
def test_durations_are_seconds_or_timedeltas(value: Any, number: float) -> None:
    assert seconds(value, "delay") == number


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, "3", None, timedelta(seconds=-1)])
def test_what_is_no_duration_is_refused_naming_the_option(value: Any) -> None:
    with pytest.raises(InvalidOption, match="delay"):
        seconds(value, "delay")


def test_an_instant_is_the_same_in_every_zone_and_a_naive_one_is_refused() -> None:
    noon = datetime(2026, 6, 1, 12, tzinfo=UTC)

    assert instant(noon, "run_at") == instant(noon.astimezone(timezone(timedelta(hours=9))), "run_at") == 1780315200.0
    with pytest.raises(InvalidOption, match=r"run_at.*naive.*tzinfo"):
        instant(datetime(2026, 6, 1), "run_at")
    with pytest.raises(InvalidOption, match="run_at must be a datetime"):
        instant(3, "run_at")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: TaskOptions(queue="a b"), "queue"),
        (lambda: TaskOptions(queue="q", max_attempts=0), "max_attempts"),
        (lambda: TaskOptions(queue="q", max_losses=0), "max_losses"),
        (lambda: TaskOptions(queue="q", lease=0.5), "lease"),
        (lambda: TaskOptions(queue="q", lease=10, renew=6), "renew"),
        (lambda: TaskOptions(queue="q", timeout=0), "timeout"),
        (lambda: TaskOptions(queue="q", keep=-1), "keep"),
        (lambda: WorkerOptions(queues=()), "queues"),
        (lambda: WorkerOptions(concurrency=0), "concurrency"),
        (lambda: WorkerOptions(id="a b"), "worker"),
        (lambda: WorkerOptions(poll=0), "poll"),
        (lambda: WorkerOptions(job_delay=-1), "job_delay"),
        (lambda: WorkerOptions(lease=4, renew=3), "renew"),
        (lambda: AppOptions(max_attempts=0), "max_attempts"),
        (lambda: AppOptions(lease=0), "lease"),
        (lambda: AppOptions(default_queue=""), "queue"),
        (lambda: AppOptions(payload_limit=0), "payload_limit"),
        (lambda: AppOptions(unknown_for=-1), "unknown_for"),
        (lambda: Retention(succeeded=-1), "succeeded"),
        (lambda: Retention(failed=float("nan")), "failed"),
        (lambda: Retention(count=-1), "count"),
        (lambda: Reschedule(), "after= or at="),
        (lambda: Reschedule(after=1, at=datetime(2026, 1, 1, tzinfo=UTC)), "after= or at="),
        (lambda: Reschedule(at=datetime(2026, 1, 1)), "naive"),
        (lambda: Retry(after=-1), "after"),
        (lambda: Wait(timeout=-1), "timeout"),
    ],
)
def test_an_option_out_of_range_is_refused_naming_it(make: Callable[[], object], word: str) -> None:
    with pytest.raises((InvalidOption, InvalidName), match=word):
        make()


def test_options_hold_seconds_whatever_unit_they_were_given_in() -> None:
    options = TaskOptions(
        queue="q",
        lease=timedelta(minutes=1),
        renew=timedelta(seconds=20),
        timeout=timedelta(hours=1),
        keep=timedelta(days=1),
    )

    assert (options.lease, options.renew, options.timeout, options.keep) == (60.0, 20.0, 3600.0, 86400.0)
    assert Retention(succeeded=timedelta(minutes=1)).succeeded == 60.0
    assert WorkerOptions(poll=timedelta(seconds=2)).poll == 2.0


def test_a_lease_may_be_left_without_renewal() -> None:
    assert TaskOptions(queue="q", lease=10, renew=None).renew is None


def test_ids_are_uuids_of_version_7_none_twice_and_ordered_by_time() -> None:
    ids = [new_id() for _ in range(2000)]
    time.sleep(0.002)
    later = new_id()

    assert len(set(ids)) == len(ids)
    assert {uuid.UUID(i).version for i in ids} == {7}
    assert {uuid.UUID(i).variant for i in ids} == {uuid.RFC_4122}
    assert max(ids) < later


def test_ids_made_by_threads_and_after_a_fork_are_nobody_elses() -> None:
    with ThreadPoolExecutor(8) as threads:
        ids = [id_ for made in threads.map(lambda _: [new_id() for _ in range(2000)], range(8)) for id_ in made]
    reader, writer = os.pipe()
    child = os.fork()
    here = [new_id() for _ in range(300)]
    if child == 0:
        os.write(writer, " ".join(here).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        there = told.read().split()
    os.waitpid(child, 0)

    assert len({*ids, *here}) == len(ids) + 300
    random_parts = {id_[19:] for id_ in (*here, *there)}
    assert len(random_parts) == len(here) + len(there) == 600


def test_nonces_fit_a_signed_integer_of_64_bits_and_do_not_repeat() -> None:
    nonces = [new_nonce() for _ in range(1000)]

    assert len(set(nonces)) == 1000
    assert all(0 <= nonce < 2**63 for nonce in nonces)


def test_tokens_grow_with_their_fence() -> None:
    assert Token(1, 99) < Token(2, 0)
    assert str(Token(3, 255)) == "3-00000000000000ff"


def test_four_states_are_final() -> None:
    assert {state for state in State if state.final} == FINAL
    assert {"succeeded", "failed", "cancelled", "broken"} == FINAL


@pytest.mark.parametrize(
    ("state", "run_at", "attempt", "label"),
    [
        (State.WAITING, None, 0, "waiting"),
        (State.WAITING, 5.0, 0, "scheduled"),
        (State.WAITING, 5.0, 1, "retrying"),
        (State.WAITING, None, 1, "retrying"),
        (State.RUNNING, None, 1, "running"),
    ],
)
def test_scheduled_and_retrying_are_labels_of_waiting(
    state: State, run_at: float | None, attempt: int, label: str
) -> None:
    assert JobRecord("j", "t", "q", state, b"{}", run_at=run_at, attempt=attempt).label == label


@pytest.mark.parametrize(("results", "label"), [((), "parked"), (("1",), "parked"), (("1", None), "blocked")])
def test_a_blocked_job_that_waits_for_no_other_is_parked(results: tuple[str | None, ...], label: str) -> None:
    job = JobRecord("j", "t", "q", State.BLOCKED, b"{}", blocked_by=1, results=results)
    assert (job.label, job.parked) == (label, label == "parked")


@pytest.mark.parametrize(("total", "percent"), [(None, None), (0, None), (120, 25), (30, 100)])
def test_progress_in_per_cent(total: float | None, percent: float | None) -> None:
    assert Progress(30, total).percent == percent


def test_a_job_is_a_suspect_from_its_second_loss() -> None:
    assert [JobRecord("j", "t", "q", State.WAITING, b"", losses=n).suspect for n in range(4)] == [
        False,
        False,
        True,
        True,
    ]


def test_answers_say_why_when_they_are_printed() -> None:
    assert str(Retry("later", after=3)) == "later"
    assert str(Fail("no such user")) == "no such user"
