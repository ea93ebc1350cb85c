"""What becomes of a job, as tables of cases: no store, no event loop, no clock."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from tenure.core.backoff import Backoff
from tenure.core.job import ErrorInfo, JobRecord, NewJob, State, Writes
from tenure.core.lifecycle import (
    INTERRUPTED,
    Finish,
    Loss,
    Park,
    Policy,
    Requeue,
    Transition,
    after_loss,
    next_transition,
)
from tenure.core.outcome import (
    Abandoned,
    Collided,
    Fail,
    Interrupted,
    Outcome,
    Raised,
    Reschedule,
    Retry,
    Success,
    Undecodable,
    Unknown,
    Wait,
)

BOOM = ErrorInfo("ValueError", "boom")
STEADY = Backoff(jitter=0)
POLICY = Policy(retry=STEADY, max_attempts=3)
CHILD = NewJob(id="child", task="t", queue="q")


def a_job(attempt: int = 1, losses: int = 0, max_attempts: int | None = None, misses: int = 0) -> JobRecord:
    return JobRecord(
        "j", "t", "q", State.RUNNING, b"{}", attempt=attempt, losses=losses, max_attempts=max_attempts, misses=misses
    )


def given_back(times: int, attempt: int = 1) -> JobRecord:
    return msgspec.structs.replace(a_job(attempt), fence=attempt + times)


def raised(error: BaseException | None = None) -> Raised:
    return Raised(error or ValueError("boom"), BOOM)


@pytest.mark.parametrize(
    ("job", "outcome", "policy", "step"),
    [
        # success
        (a_job(), Success("1"), POLICY, Finish(State.SUCCEEDED, "1")),
        (a_job(), Success("1", (CHILD,)), POLICY, Finish(State.SUCCEEDED, "1", None, (CHILD,))),
        (a_job(attempt=99), Success("null"), POLICY, Finish(State.SUCCEEDED, "null")),
        (
            a_job(),
            Success("null", (), CHILD, Writes({"a": "1"})),
            POLICY,
            Finish(State.SUCCEEDED, "null", None, (), CHILD, Writes({"a": "1"})),
        ),
        (a_job(), Wait(timeout=5, on_timeout="late"), POLICY, Park(5.0, "late")),
        # an exception: retried by the policy, until the attempts are used up (H3, Q26)
        (a_job(), raised(), POLICY, Requeue(10, error=BOOM)),
        (a_job(attempt=2), raised(), POLICY, Requeue(20, error=BOOM)),
        (a_job(attempt=3), raised(), POLICY, Finish(State.FAILED, error=BOOM)),
        # a collision with another transaction: the attempt is given back, not for ever
        (given_back(100), Collided(raised()), POLICY, Requeue(10, error=BOOM)),
        (given_back(100, attempt=3), Collided(raised()), POLICY, Finish(State.FAILED, error=BOOM)),
        (
            given_back(0),
            Collided(raised()),
            Policy(retry=None, fail_interrupted=True),
            Finish(State.FAILED, error=BOOM),
        ),
        (a_job(), raised(), Policy(retry=None), Finish(State.FAILED, error=BOOM)),
        (a_job(), raised(), Policy(retry=Backoff(on=(OSError,))), Finish(State.FAILED, error=BOOM)),
        (a_job(), raised(), Policy(retry=Backoff(never=(ValueError,))), Finish(State.FAILED, error=BOOM)),
        (a_job(attempt=1000), raised(), Policy(STEADY, None), Requeue(300, error=BOOM)),
        # what is no Exception is an exception all the same (F20)
        (a_job(), raised(SystemExit(1)), POLICY, Requeue(10, error=BOOM)),
        (a_job(), raised(KeyboardInterrupt()), POLICY, Requeue(10, error=BOOM)),
        # a loss neither uses up the error budget nor lengthens the backoff
        (a_job(attempt=4, losses=2), raised(), POLICY, Requeue(20, error=BOOM)),
        (a_job(attempt=5, losses=2), raised(), POLICY, Finish(State.FAILED, error=BOOM)),
        # the job's own number wins; 0 means for ever
        (a_job(max_attempts=1), raised(), POLICY, Finish(State.FAILED, error=BOOM)),
        (a_job(attempt=3, max_attempts=4), raised(), POLICY, Requeue(40, error=BOOM)),
        (a_job(attempt=99, max_attempts=0), raised(), POLICY, Requeue(300, error=BOOM)),
        # Retry: its own delay or the backoff's, within the attempts (H2, H12)
        (a_job(), Retry("why", after=7), POLICY, Requeue(7, error=ErrorInfo("Retry", "why"))),
        (a_job(), Retry("why", after=0), POLICY, Requeue(0, error=ErrorInfo("Retry", "why"))),
        (a_job(attempt=2), Retry("why"), POLICY, Requeue(20, error=ErrorInfo("Retry", "why"))),
        (a_job(), Retry("why", after=7), Policy(retry=None), Requeue(7, error=ErrorInfo("Retry", "why"))),
        (a_job(attempt=3), Retry("why", after=7), POLICY, Finish(State.FAILED, error=ErrorInfo("Retry", "why"))),
        # Fail: at once
        (a_job(), Fail("why"), POLICY, Finish(State.FAILED, error=ErrorInfo("Fail", "why"))),
        # Reschedule: no failure, the attempt is given back (Q25)
        (a_job(), Reschedule(after=7), POLICY, Requeue(7, counts=False)),
        (a_job(attempt=3), Reschedule(after=7), POLICY, Requeue(7, counts=False)),
        (a_job(), Reschedule(at=datetime(2026, 1, 1, tzinfo=UTC)), POLICY, Requeue(0, 1767225600.0, counts=False)),
        # Wait
        (a_job(), Wait(), POLICY, Park(None)),
        (a_job(), Wait(timeout=5), POLICY, Park(5)),
        # an unknown task: 10 s, doubling to 5 minutes; broken after an hour unless a live worker knows it (F18)
        (a_job(), Unknown(BOOM, known_elsewhere=False), POLICY, Requeue(10, counts=False, missed=True, error=BOOM)),
        (
            a_job(misses=4),
            Unknown(BOOM, known_elsewhere=False),
            POLICY,
            Requeue(160, counts=False, missed=True, error=BOOM),
        ),
        (
            a_job(misses=9),
            Unknown(BOOM, known_elsewhere=False),
            POLICY,
            Requeue(300, counts=False, missed=True, error=BOOM),
        ),
        (a_job(misses=17), Unknown(BOOM, known_elsewhere=False), POLICY, Finish(State.BROKEN, error=BOOM)),
        (
            a_job(misses=17),
            Unknown(BOOM, known_elsewhere=True),
            POLICY,
            Requeue(300, counts=False, missed=True, error=BOOM),
        ),
        (a_job(), Unknown(BOOM, known_elsewhere=False), Policy(unknown_for=0), Finish(State.BROKEN, error=BOOM)),
        # undecodable
        (a_job(), Undecodable(BOOM), POLICY, Finish(State.BROKEN, error=BOOM)),  # H14
        # released: the front, as if it had not been leased (W3)
        (a_job(), Abandoned(), POLICY, Requeue(counts=False, front=True)),
        (a_job(attempt=3), Abandoned(), POLICY, Requeue(counts=False, front=True)),
        (a_job(), Interrupted(), POLICY, Requeue(counts=False, front=True)),
        (a_job(), Interrupted(), Policy(fail_interrupted=True), Finish(State.FAILED, error=INTERRUPTED)),
        (a_job(), Abandoned(), Policy(fail_interrupted=True), Requeue(counts=False, front=True)),
    ],
)
def test_next_step(job: JobRecord, outcome: Outcome, policy: Policy, step: Transition) -> None:
    assert next_transition(job, outcome, policy) == step


def test_a_job_of_an_unknown_task_is_offered_for_about_an_hour() -> None:
    offered, misses = 0.0, 0
    while isinstance(
        step := next_transition(a_job(misses=misses), Unknown(BOOM, known_elsewhere=False), POLICY), Requeue
    ):
        offered += step.delay
        misses += 1

    assert 3600 <= offered <= 3900


@pytest.mark.parametrize(
    ("losses", "max_losses", "solo", "after"),
    [
        (0, 3, False, Loss(1, False)),
        (1, 3, False, Loss(2, False)),
        # at the limit it fails only if it was held alone: its neighbours are not blamed (F6)
        (2, 3, False, Loss(3, False)),
        (2, 3, True, Loss(3, True)),
        (9, 3, False, Loss(10, False)),
        (9, 3, True, Loss(10, True)),
        (1, 3, True, Loss(2, False)),
        # 1 means the first loss, however it was held (G17); 0 means never (H5)
        (0, 1, False, Loss(1, True)),
        (0, 1, True, Loss(1, True)),
        (99, 0, True, Loss(100, False)),
    ],
)
def test_after_loss(losses: int, max_losses: int, solo: bool, after: Loss) -> None:
    assert after_loss(losses, max_losses, solo) == after


@pytest.mark.parametrize(("times", "longest"), [(0, 0.1), (3, 0.8), (99, 2.0)])
def test_a_job_that_collides_is_given_back_and_waits_longer_each_time(times: int, longest: float) -> None:
    for policy in (POLICY, Policy(retry=None)):
        step = next_transition(given_back(times), Collided(raised()), policy)

        assert isinstance(step, Requeue)
        assert (step.counts, step.front, step.error) == (False, False, BOOM)
        assert 0 <= step.delay <= longest
