"""The parts of a worker that decide, without any store."""

from __future__ import annotations

import asyncio
import contextvars
import os
import re
import threading
import time
from typing import Any

import pytest

from tenure.app import App
from tenure.core.backoff import Backoff
from tenure.core.checks import name as checked_name
from tenure.core.failure import MESSAGE, TRACEBACK, describe_exception
from tenure.core.identity import Identity
from tenure.core.job import JobRecord, Progress, State
from tenure.core.lease import AbortReason, Lease, Token
from tenure.core.options import UNSET, AppOptions, WorkerOptions
from tenure.core.patterns import expand
from tenure.errors import Aborted
from tenure.tasks.context import AbortSignal, Context, current
from tenure.worker.attempt import Attempt
from tenure.worker.buffer import Buffer
from tenure.worker.draining import Draining
from tenure.worker.look_ahead import LIMIT, LookAhead
from tenure.worker.outage import FIRST, LONGEST, Outage
from tenure.worker.settings import Settings, resolve
from tenure.worker.slots import Slots
from tenure.worker.threads import Threads
from tenure.worker.wakeup import Wakeup

from .conftest import eventually

# Queue lists.


@pytest.mark.parametrize(
    ("patterns", "existing", "served"),
    [
        (["b", "a"], [], ["b", "a"]),
        (["*"], ["c", "a", "b"], ["a", "b", "c"]),
        (["b", "*"], ["c", "a", "b"], ["b", "a", "c"]),
        (["*", "b"], ["c", "a"], ["a", "c", "b"]),
        (["mail*", "*"], ["x", "mail2", "mail1"], ["mail1", "mail2", "x"]),
        (["q?"], ["q1", "q22", "q3"], ["q1", "q3"]),
        (["q[12]"], ["q1", "q2", "q3"], ["q1", "q2"]),
        (["*", "!b"], ["a", "b"], ["a"]),
        (["!b", "*"], ["a", "b"], ["a"]),
        (["!mail*", "mail1", "*"], ["mail1", "mail2", "x"], ["x"]),
        (["a", "a", "*"], ["a"], ["a"]),
        (["*"], [], []),
        (["!a"], ["a", "b"], []),
        (["A*"], ["a1", "A1"], ["A1"]),
    ],
)
def test_a_list_of_queues_keeps_its_order_and_serves_none_twice(
    patterns: list[str], existing: list[str], served: list[str]
) -> None:  # R14
    assert expand(patterns, existing) == tuple(served)


# Look-ahead.


def look_ahead_after(run_time: float, slots: int = 1, *, enabled: bool = True) -> LookAhead:
    """What a worker with so many slots has measured after many jobs of this length."""
    look_ahead = LookAhead(slots, 0.0, enabled=enabled)
    for _ in range(500):
        look_ahead.ran(run_time)
    return look_ahead


@pytest.mark.parametrize(
    ("run_time", "slots", "ahead"),
    [
        (0.00001, 1, LIMIT),
        (0.00001, 100, LIMIT),
        (0.001, 1, 20),
        (0.010, 1, 2),
        (0.010, 100, 200),
        (0.019, 1, 1),
        (0.021, 100, 0),
        (2.0, 100, 0),
    ],
)
def test_about_twenty_milliseconds_of_work_are_leased_ahead_while_jobs_are_shorter(
    run_time: float, slots: int, ahead: int
) -> None:
    assert look_ahead_after(run_time, slots).wanted(0, 1.0) == ahead
    assert look_ahead_after(run_time, slots).wanted(7, 1.0) == ahead + 7
    assert look_ahead_after(run_time, slots, enabled=False).wanted(7, 1.0) == 7


def test_nothing_is_leased_ahead_before_anything_was_measured() -> None:
    assert LookAhead(3, 0.0, enabled=True).wanted(3, 0.0) == 3


def test_what_had_to_be_given_back_is_leased_again_with_care() -> None:
    look_ahead = LookAhead(30, 0.0, enabled=True)
    assert look_ahead.wanted(30, 0.0) == 30
    look_ahead.stalled(given_back=25)
    assert [look_ahead.wanted(30, now) for now in (0.01, 0.05, 0.15, 0.2, 0.3, 0.6)] == [10, 10, 20, 20, 30, 30]
    look_ahead.stalled(given_back=30)
    assert look_ahead.wanted(30, 0.61) == 1


def test_a_worker_that_stalled_once_is_soon_as_fast_as_before() -> None:
    look_ahead = look_ahead_after(0.00001)
    assert look_ahead.wanted(1, 1.0) == LIMIT + 1
    look_ahead.stalled(given_back=LIMIT + 1)
    look_ahead.wanted(1, 1.0)
    for _ in range(30):
        look_ahead.ran(0.00001)
    assert look_ahead.wanted(1, 1.01) > 50


def test_one_long_job_among_short_ones_stops_the_look_ahead_for_a_short_while() -> None:
    look_ahead = look_ahead_after(0.0001)
    for _ in range(5):
        look_ahead.ran(30.0)
    assert look_ahead.wanted(0, 1.0) == 0
    for _ in range(100):
        look_ahead.ran(0.0001)
    assert look_ahead.wanted(0, 1.0) > 0


# Suspects.


def test_the_time_given_to_suspects_is_bounded() -> None:
    draining, now, cleared = Draining(), 0.0, 0
    for _ in range(200_000):
        draining.begin(now)
        cleared += draining.remaining(now) > 0
        now += 0.01
    assert 0.05 < cleared / 200_000 < 0.45


def test_a_clearing_lasts_longer_each_time_until_even_long_jobs_end_in_it() -> None:
    draining, now, longest = Draining(), 0.0, 0.0
    for _ in range(40_000):
        draining.begin(now)
        longest = max(longest, draining.remaining(now))
        now += 1.0
    assert longest > 3600


def test_a_worker_that_holds_nothing_need_not_wait_for_the_clearing_to_end() -> None:
    draining = Draining()
    draining.begin(0.0)
    assert draining.remaining(0.5) > 0
    draining.done()
    assert draining.remaining(0.5) <= 0


# Leases.


def an_attempt(
    lease: float = 30.0,
    job_lease: float | None = None,
    renew: Any = UNSET,
    leased_at: float = 100.0,
    at_most: float = 3600.0,
) -> Attempt:
    job = JobRecord("id", "task", "default", State.RUNNING, b"{}", lease=job_lease)
    settings = resolve(None, WorkerOptions(), AppOptions())
    settings = Settings(None, settings.policy, lease, renew)
    ttl = 30.0 if job_lease is None else job_lease
    return Attempt(Lease(job, Token(1, 1), min(ttl, at_most)), settings, leased_at)


@pytest.mark.parametrize(
    ("attempt", "renew_at", "give_up_at"),
    [
        (an_attempt(), 110.0, 129.5),
        (an_attempt(job_lease=300.0), 200.0, 399.5),
        (an_attempt(job_lease=3.0), 101.0, 102.7),
        (an_attempt(job_lease=1.0), 100 + 1 / 3, 100.9),
        # It may go on until it is really taken, and two seconds more if the store cannot be asked.
        (an_attempt(renew=None), None, 132.0),
        (an_attempt(renew=0.5), 100.5, 129.5),
        # A job that does not say was leased as the worker asks, 30 s; its task wants more or less.
        (an_attempt(lease=300.0), 110.0, 129.5),
        (an_attempt(lease=300.0, renew=150.0), 110.0, 129.5),
        (an_attempt(lease=300.0, renew=None), 110.0, 129.5),
        (an_attempt(lease=5.0), 100.0, 129.5),
        (an_attempt(lease=5.0, renew=None), 100.0, 129.5),
        # Leased ahead.
        (an_attempt(at_most=9.0), 103.0, 108.5),
        (an_attempt(at_most=9.0, renew=None), 103.0, 108.5),
        (an_attempt(at_most=9.0, renew=15.0), 103.0, 108.5),
        (an_attempt(at_most=9.0, renew=0.5), 100.5, 108.5),
        (an_attempt(job_lease=60.0, at_most=9.0), 103.0, 108.5),
        (an_attempt(job_lease=6.0, at_most=9.0), 102.0, 105.5),
    ],
)
def test_a_lease_is_renewed_when_a_third_is_over_and_given_up_shortly_before_its_end(
    attempt: Attempt, renew_at: float | None, give_up_at: float
) -> None:
    assert attempt.renew_at == pytest.approx(renew_at) if renew_at is not None else attempt.renew_at is None
    assert attempt.give_up_at == pytest.approx(give_up_at)


@pytest.mark.parametrize(
    ("attempt", "ttl", "renew_at", "give_up_at"),
    [
        (an_attempt(at_most=9.0), 30.0, 114.0, 133.5),
        (an_attempt(at_most=9.0, renew=15.0), 30.0, 119.0, 133.5),
        (an_attempt(lease=300.0), 300.0, 204.0, 403.5),
        (an_attempt(lease=6.0), 6.0, 106.0, 109.5),
        # What is never renewed gets what is left of its time.
        (an_attempt(at_most=9.0, renew=None), 26.0, None, 132.0),
        (an_attempt(lease=300.0, renew=None), 296.0, None, 402.0),
        (an_attempt(lease=6.0, renew=None), 2.0, None, 108.0),
    ],
)
def test_the_first_renewal_gives_a_lease_the_length_that_it_should_have(
    attempt: Attempt, ttl: float, renew_at: float | None, give_up_at: float
) -> None:
    assert attempt.renewal(104.0) == pytest.approx(ttl)
    attempt.renewed(104.0, attempt.renewal(104.0))
    assert attempt.renew_at == pytest.approx(renew_at) if renew_at is not None else attempt.renew_at is None
    assert attempt.give_up_at == pytest.approx(give_up_at)


def test_what_is_never_renewed_is_asked_about_once_its_lease_is_over() -> None:
    attempt = an_attempt(renew=None)
    assert an_attempt().check_at is None
    assert (attempt.check_at, attempt.give_up_at) == (130.0, 132.0)
    attempt.renewed(131.0, None)
    assert (attempt.check_at, attempt.give_up_at) == (131.5, 133.0)


def test_the_buffer_gives_back_what_has_waited_too_long_and_keeps_the_rest_in_order() -> None:
    buffer = Buffer()
    attempts = [an_attempt(leased_at=at) for at in (1.0, 1.0, 2.0, 3.0)]
    buffer.put(attempts)
    assert buffer.claim_stale(2.5) == attempts[:3]
    assert buffer.claim() is attempts[3]
    assert buffer.claim() is None
    assert buffer.claim_all() == []


# Slots.


async def test_jobs_that_wait_are_all_started_within_a_few_passes_of_the_loop() -> None:
    finish = asyncio.Event()

    async def execute(attempt: Attempt) -> None:
        await finish.wait()

    buffer = Buffer()
    slots = Slots(50, buffer, execute, LookAhead(1, 0.0, enabled=True), rest=0.0, freed=lambda: None)
    buffer.put([an_attempt() for _ in range(60)])
    slots.wake()
    for _ in range(10):
        await asyncio.sleep(0)
    assert (slots.busy, len(slots.running), len(buffer)) == (50, 50, 10)
    finish.set()
    await eventually(lambda: not slots.busy and not buffer)
    await slots.close()


async def test_jobs_that_never_wait_are_run_one_after_the_other_by_one_slot() -> None:
    ran_by = set()

    async def execute(attempt: Attempt) -> None:
        ran_by.add(asyncio.current_task())

    buffer = Buffer()
    slots = Slots(50, buffer, execute, LookAhead(1, 0.0, enabled=True), rest=0.0, freed=lambda: None)
    buffer.put([an_attempt() for _ in range(1000)])
    slots.wake()
    await eventually(lambda: not buffer)
    assert len(ran_by) == 1
    await slots.close()


async def test_a_slot_whose_jobs_never_wait_lets_the_loop_move() -> None:
    passes = 0

    async def execute(attempt: Attempt) -> None:
        time.sleep(0.002)

    async def count() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    buffer = Buffer()
    slots = Slots(1, buffer, execute, LookAhead(1, 0.0, enabled=True), rest=0.0, freed=lambda: None)
    buffer.put([an_attempt() for _ in range(20)])
    counting = asyncio.create_task(count())
    slots.wake()
    await eventually(lambda: not buffer)
    assert passes >= 20
    counting.cancel()
    await slots.close()


# Settings.


def test_each_setting_is_found_at_the_first_place_that_has_it() -> None:  # Q13
    app = App("memory://", lease=50, retry=None, max_attempts=7)

    @app.task(lease=10)
    async def task() -> None: ...

    @app.task(renew=None, timeout=3, max_attempts=None)
    async def other() -> None: ...

    worker = WorkerOptions(lease=20, renew=9, retry=Backoff(initial=1))
    found = resolve(task, worker, app.options)
    assert (found.lease, found.renew, found.timeout) == (10, 5, None)  # no interval is above half the lease
    assert found.policy.retry == Backoff(initial=1)
    assert found.policy.max_attempts == 7
    found = resolve(other, worker, app.options)
    assert (found.lease, found.renew, found.timeout) == (20, None, 3)
    assert found.policy.max_attempts is None
    assert resolve(task, WorkerOptions(), app.options).policy.retry is None


# Outages.


def test_the_pause_of_an_outage_is_jittered_from_nothing_to_a_bound_that_grows() -> None:  # F17
    outage = Outage("w")
    first = [outage.failed(str(n), ConnectionError()) for n in range(200)]
    for _ in range(20):
        outage.failed("part", ConnectionError())
    later = [outage.failed("part", ConnectionError()) for _ in range(200)]
    assert max(first) <= 2 * FIRST
    assert min(first) < FIRST / 4
    assert max(later) <= LONGEST
    assert max(later) > LONGEST / 2
    assert min(later) < LONGEST / 4


# Errors as text.


def test_a_long_message_keeps_its_beginning_and_a_long_traceback_its_end() -> None:  # F19, Q28
    def raise_at_depth(depth: int) -> None:
        if depth:
            raise_at_depth(depth - 1)
        raise ValueError("first " + "x" * 100_000 + " last")

    try:
        raise_at_depth(30)
    except ValueError as error:
        info = describe_exception(error)
    assert info.message.startswith("first")
    assert "100,011 characters" in info.message
    assert len(info.message) < MESSAGE + 100
    assert info.traceback is not None
    assert info.traceback.endswith(" last\n")
    assert len(info.traceback) < TRACEBACK + 100


def test_of_a_text_that_no_store_could_hold_only_what_is_kept_is_made_fit() -> None:  # F19
    error = ValueError("\0\ud800" * 1_000_000)

    began = time.thread_time()
    info = describe_exception(error)
    took = time.thread_time() - began

    assert info.message.startswith("\\x00\\ud800" * (MESSAGE // 2))
    assert "2,000,000 characters" in info.message
    assert info.traceback is not None
    assert info.traceback.startswith("[cut, it has 2,000,0")
    assert info.traceback.endswith("\\x00\\ud800\n")
    # Made fit first and cut then, it took a second.
    assert took < 0.3


# The name of a worker.


def test_a_name_that_was_not_given_is_host_pid_and_chance_and_never_comes_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # R25, F9
    monkeypatch.setattr("socket.gethostname", lambda: "_bad host.näme-" + "x" * 100)

    identity = Identity(None)
    names = [identity.take() for _ in range(3)]

    assert len(set(names)) == 3
    for name in names:
        host, pid, chance = checked_name("worker", name).split(":")
        assert host.startswith("bad-host.n-me-x")
        assert len(host) <= 80
        assert int(pid) == os.getpid()
        assert re.fullmatch("[0-9a-f]{8}", chance)


def test_a_host_without_a_letter_still_makes_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "--.")

    assert checked_name("worker", Identity(None).take()).startswith("worker:")


def test_a_given_name_is_taken_once_and_then_made_different() -> None:  # W21
    identity = Identity("mine")

    first, second = identity.take(), identity.take()

    assert (first, identity.stem) == ("mine", "mine")
    assert re.fullmatch("mine:[0-9a-f]{8}", second)


# The signal.


async def test_a_signal_ends_every_wait_for_it_with_the_first_reason() -> None:
    signal = AbortSignal()
    waits = [asyncio.create_task(signal.wait()) for _ in range(2)]
    blocking = asyncio.get_running_loop().run_in_executor(None, signal.wait_blocking, 10)
    await asyncio.sleep(0)
    assert not signal.aborted
    signal.raise_if_aborted()
    assert signal.wait_blocking(0.01) is None

    threading.Thread(target=signal.abort, args=(AbortReason.TIMEOUT,)).start()

    assert [await wait for wait in waits] == [AbortReason.TIMEOUT] * 2
    assert await blocking is AbortReason.TIMEOUT
    assert signal.abort(AbortReason.SHUTDOWN) is False
    assert await signal.wait() is AbortReason.TIMEOUT
    with pytest.raises(Aborted, match="timeout"):
        signal.raise_if_aborted()


async def test_a_cancelled_wait_for_a_signal_leaves_it_sound() -> None:
    signal = AbortSignal()
    wait = asyncio.create_task(signal.wait())
    await asyncio.sleep(0)
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait
    assert signal.abort(AbortReason.CANCELLED)
    assert await signal.wait() is AbortReason.CANCELLED


def test_there_is_no_current_job_outside_of_one() -> None:
    with pytest.raises(LookupError, match="no job is running here"):
        current()


def test_the_context_tells_what_it_knows(caplog: pytest.LogCaptureFixture) -> None:
    job = JobRecord("id-1", "task", "q", State.RUNNING, b"{}", attempt=2, results=("1", None, '{"a": [2]}'))
    ctx = Context(Lease(job, Token(3, 4), 30.0), "me", AbortSignal())
    assert (ctx.attempt, ctx.token, ctx.worker_id) == (2, Token(3, 4), "me")
    assert ctx.results == [1, None, {"a": [2]}]
    ctx.progress(1, 2, "half")
    assert ctx._progress == Progress(1, 2, "half")
    ctx.log.warning("watch %s", "out")
    [record] = caplog.records
    assert (record.name, record.getMessage()) == ("tenure.job", "task id-1 #2: watch out")
    assert record.__dict__["job_id"] == "id-1"


# Waiting.


async def test_what_is_set_before_the_wait_is_not_missed() -> None:
    wakeup = Wakeup()
    wakeup.set()
    async with asyncio.timeout(20):
        await wakeup.wait(60)
        asyncio.get_running_loop().call_soon(wakeup.set)
        await wakeup.wait(60)
        before = time.monotonic()
        await wakeup.wait(0.02)
        assert time.monotonic() - before >= 0.02


# Threads.


async def test_as_many_threads_are_started_as_are_needed_and_they_end_with_the_worker() -> None:  # I16
    before = threading.enumerate()

    def started() -> int:
        """Without those that others have left behind, which end when they like."""
        return sum(each not in before for each in threading.enumerate())

    threads = Threads()
    for _ in range(20):
        assert await threads.run(lambda: 1, (), {}) == 1
    assert started() == 1
    barrier = threading.Barrier(3, timeout=20)
    await asyncio.gather(*[threads.run(barrier.wait, (), {}) for _ in range(3)])
    assert started() == 3
    threads.close()
    await eventually(lambda: not started())


async def test_a_function_in_a_thread_sees_the_context_variables_and_keeps_its_own() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    variable.set("outside")

    def function() -> str:
        seen = variable.get()
        variable.set("inside")
        return seen

    threads = Threads()
    assert await threads.run(function, (), {}) == "outside"
    assert variable.get() == "outside"
    threads.close()


async def test_a_thread_that_was_given_up_is_replaced_and_its_result_dropped() -> None:  # F21
    threads, release = Threads(), threading.Event()
    stray = asyncio.create_task(threads.run(release.wait, (10,), {}))
    await asyncio.sleep(0.01)
    stray.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stray
    assert await threads.run(lambda: "on another thread", (), {}) == "on another thread"
    release.set()
    assert await threads.run(lambda: "still here", (), {}) == "still here"
    threads.close()
