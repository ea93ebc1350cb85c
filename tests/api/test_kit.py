"""The test kit: what was enqueued, a clock that the test moves, workers that die, and functions that are replaced."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw
import pytest

from tenure import App, Backoff, Context, Done, Every, Fail, FlowRun, Job, Next, Reschedule, Retry, Wait
from tenure.core.job import State
from tenure.errors import InvalidOption, JobFailed, ResultTimeout, UseAsync
from tenure.jobs import handle
from tenure.sync import run as run_coroutine
from tenure.testing import Kit, StillBusy, driver, kit
from tenure.testing.kits import Stores

NOON = "2027-03-01T12:00Z"
app = App("sqlite:///never-used.db", log=False)
expense = app.flow("expense", lookup=["employee"])


@app.task(queue="mail", retry=Backoff(initial=10, maximum=300), max_attempts=5)
async def send_receipt(order: int, copies: int = 1) -> str:
    return f"receipt for order {order}"


@app.task
def charge(card: str) -> str:
    if card == "expired":
        raise Fail("the card has expired")
    return f"{card} paid"


@app.task(isolation="process", lease=10)
def resize(ctx: Context, name: str) -> str:
    return f"{name} on {threading.current_thread().name}"


@app.task
def order(ctx: Context, number: int) -> None:
    ctx.progress(1, 2)
    ctx.log.info("order %d", number)
    ctx.enqueue(send_receipt.bind(number), charge.using(priority=3).bind("visa"))


@expense.step(then="decide")
async def ask(employee: str, amount: int) -> None: ...


@expense.step(then="pay")
async def decide() -> Wait:
    return Wait(timeout=3 * 24 * 3600, on_timeout="remind")


@expense.step(then="decide")
async def remind(employee: str) -> None: ...


@expense.step
async def pay(amount: int, approved: bool) -> Done:
    return Done(f"paid {amount}" if approved else "declined")


@pytest.fixture(params=["memory", "sqlite"])
def jobs(request: pytest.FixtureRequest) -> Iterator[Kit]:
    with kit(app, store=request.param, at=NOON) as made:
        yield made


@pytest.fixture
def memory() -> Iterator[Kit]:
    with kit(app, at=NOON) as made:
        yield made


def message(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(AssertionError) as raised:
        call(*args, **kwargs)
    return str(raised.value)


# The clock.


def test_a_job_runs_when_the_test_lets_its_time_come(jobs: Kit) -> None:
    job = send_receipt.using(delay=3600).enqueue(1)

    assert jobs.run_until_idle() == []
    jobs.advance(minutes=59)
    assert jobs.run_until_idle() == []
    jobs.advance(timedelta(minutes=1))
    [ran] = jobs.run_until_idle()

    assert (ran.task, ran.queue, ran.outcome, ran.attempt, ran.job.id) == (
        "send_receipt",
        "mail",
        "succeeded",
        1,
        job.id,
    )
    assert job.result(timeout=0) == "receipt for order 1"
    assert (jobs.elapsed, jobs.now) == (3600.0, datetime(2027, 3, 1, 13, tzinfo=UTC))


def test_a_result_that_was_not_run_for_says_what_to_call(memory: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "KIT_TIMEOUT", 0.05)
    job = charge.enqueue("visa")

    for timeout in (None, 0, 0.01):
        with pytest.raises(ResultTimeout, match=r"in a test kit no job runs .* call run_until_idle\(\) first"):
            job.result(timeout)
    memory.run_until_idle()

    assert job.result() == "visa paid"


def test_skipping_goes_from_retry_to_retry_without_jitter(jobs: Kit) -> None:
    with jobs.failing(send_receipt, TimeoutError("bank"), times=4):
        job = send_receipt.enqueue(1)
        ran = jobs.run_until_idle(skip=True)

    assert [each.outcome for each in ran] == ["retried"] * 4 + ["succeeded"] == jobs.attempts(job)
    assert jobs.elapsed == pytest.approx(10 + 20 + 40 + 80, abs=0.001)
    assert isinstance(ran[0].exception, TimeoutError)
    assert ran[0].error is not None and ran[0].error.message == "bank"


def test_all_attempts_are_remembered_however_many(memory: Kit) -> None:
    with memory.failing(charge, ValueError):
        job = charge.enqueue("visa")
        memory.run_until_idle(skip=True)

    assert memory.attempts(job) == ["retried"] * 24 + ["failed"]


def test_a_wait_that_nobody_ends_times_out_when_its_time_has_come(jobs: Kit) -> None:
    run = expense.start(employee="bob", amount=9)
    jobs.run_until_idle()
    jobs.advance(days=3)
    jobs.run_until_idle()

    assert jobs.steps(run) == jobs.steps(run.id) == ["ask", "decide", "remind", "decide"]
    with jobs.failing(pay, ValueError("bank"), times=1):
        run.complete({"approved": True})
        jobs.run_until_idle(skip=True)
    assert jobs.attempts(run) == ["retried", "succeeded"]


def test_jobs_that_go_round_for_ever_are_named(memory: Kit) -> None:
    expense.start(employee="bob", amount=9)
    send_receipt.enqueue(1)

    said = message(memory.run_until_idle, skip=True, limit=20)

    assert said == (
        "still busy after 20 attempts, 12 of them of expense.decide; its last one was succeeded. "
        "Find out why it goes round, or give a higher limit=."
    )
    with pytest.raises(StillBusy) as busy, memory.failing(charge, ValueError("no")):
        charge.enqueue("visa")
        memory.run_until_idle(skip=True, limit=3)
    assert len(busy.value.ran) == 3


def test_schedules_fire_only_if_the_test_wants_them() -> None:
    planned = App("memory://", log=False)

    @planned.task(schedule=Every(3600))
    def measure(ctx: Context) -> str:
        assert ctx.tick is not None
        return f"{ctx.tick:%H:%M}"

    with kit(planned, at=NOON) as jobs:
        jobs.advance(days=1)
        assert jobs.run_until_idle() == []
    with kit(planned, at=NOON, schedules=True) as jobs:
        jobs.advance(hours=3)
        ran = jobs.run_until_idle(skip=True)
        assert [each.outcome for each in ran] == ["succeeded"] * 3
        assert [each.job.refresh().result() for each in ran] == ["13:00", "14:00", "15:00"]
        assert jobs.assert_enqueued(measure, count=None)
        assert {each.place for each in jobs.enqueued()} == {"schedule measure"}


def test_skipping_stops_where_only_the_test_can_go_on(jobs: Kit) -> None:
    with jobs.failing(charge, Wait()):
        job = charge.enqueue("visa")
        jobs.run_until_idle(skip=True)
    jobs.assert_waits(job)

    run = expense.start(employee="ann", amount=80)
    jobs.run_until_idle()
    run.complete({"approved": True})
    with jobs.crash(charge, at="before_start"):
        cancelled = charge.enqueue("master")
        jobs.run_until_idle()
        cancelled.cancel()
    jobs.run_until_idle(skip=True)

    assert (run.result(timeout=0), jobs.elapsed) == ("paid 80", 0.0)  # neither the timeout nor the lease is waited for


def test_too_many_ticks_for_one_step_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = App("memory://", log=False)
    planned.task(schedule=Every(60), name="measure")(lambda: None)
    monkeypatch.setattr(driver, "MOST_TICKS", 5)

    with kit(planned, schedules=True) as jobs:
        jobs.advance(minutes=4)
        with pytest.raises(InvalidOption, match="more than 5 ticks of schedules in one advance"):
            jobs.advance(minutes=9)


# Workers that die.


def test_a_worker_that_dies_before_settling_leaves_its_job_to_the_next(jobs: Kit) -> None:
    with jobs.crash(charge, at="before_settle"):
        job = charge.enqueue("visa")
        [ran] = jobs.run_until_idle()
        assert (ran.outcome, ran.job.refresh().state) == ("crashed", "running")
        [again] = jobs.run_until_idle(skip=True)

    assert again.outcome == "succeeded"
    assert jobs.elapsed == pytest.approx(app.options.lease, abs=0.001)
    record = job.refresh().record
    assert record is not None
    assert (record.losses, record.worker) == (1, "kit-2")
    assert jobs.attempts(job) == ["lost", "succeeded"]


def test_before_the_start_the_function_is_not_called(jobs: Kit) -> None:
    with jobs.crash(resize, at="before_start", times=2), jobs.stub(resize, "small"):
        job = resize.enqueue("a.png")
        ran = jobs.run_until_idle(skip=True)

    assert [each.outcome for each in ran] == ["crashed", "crashed", "succeeded"]
    assert job.result() == "small"
    assert jobs.elapsed == pytest.approx(20, abs=0.001)  # twice the lease of the task


def test_a_job_that_kills_three_workers_fails(memory: Kit) -> None:
    with memory.crash(charge, at="before_start", times=3):
        job = charge.enqueue("visa")
        memory.run_until_idle(skip=True)

    with pytest.raises(JobFailed, match="Lost"):
        job.result()


def test_after_the_settle_the_job_is_done(memory: Kit) -> None:
    with memory.crash(charge, at="after_settle"):
        charge.enqueue("visa")
        [ran] = memory.run_until_idle(skip=True)

    assert (ran.outcome, memory.elapsed, memory.attempts(ran.job)) == ("succeeded", 0.0, ["succeeded"])


def test_a_crash_that_did_not_happen_fails_the_test(memory: Kit) -> None:
    def nothing() -> None:
        with memory.crash(charge, at="before_settle"):
            send_receipt.enqueue(1)
            memory.run_until_idle()

    assert message(nothing) == (
        "no worker crashed: no job of charge reached before_settle inside the block. "
        "Run the jobs inside it, for example with run_until_idle(skip=True)."
    )
    with pytest.raises(InvalidOption, match="at must be one of before_start, before_settle, after_settle, not 'never'"):
        memory.crash(charge, at="never").__enter__()  # type: ignore[arg-type]


# In place of the function.


def test_functions_are_replaced_for_a_block(memory: Kit) -> None:
    with memory.stub(send_receipt, "nothing"), memory.stub("charge", "free"):
        one, two = send_receipt.enqueue(1), charge.enqueue("expired")
        memory.run_until_idle()
    three = charge.enqueue("visa")
    with memory.failing(charge, Retry("later", after=5), times=1):
        memory.run_until_idle(skip=True)

    assert (one.result(), two.result(), three.result()) == ("nothing", "free", "visa paid")
    assert memory.elapsed == pytest.approx(5, abs=0.001)
    with pytest.raises(InvalidOption, match="task must be a task of this app, or the name of one, not 'chrage'"):
        memory.stub("chrage", 1)


# What was enqueued.


def place_order(number: int, queue: str = "mail") -> None:
    send_receipt.using(queue=queue, delay=3600).enqueue(number)


def test_the_job_that_fits_is_returned(jobs: Kit) -> None:
    place_order(42)
    send_receipt.using(tags=["vip"], headers={"tenant": "t1", "lang": "fr"}, unique="k", priority=5).enqueue(
        43, copies=2
    )

    job = jobs.assert_enqueued(send_receipt, order=42, copies=1, queue="mail", delay=timedelta(hours=1))
    assert isinstance(job, Job)
    jobs.assert_enqueued(send_receipt, order=lambda number: number > 42)
    jobs.assert_enqueued("send_receipt", arguments={"order": 43}, tags="vip", headers={"tenant": "t1"}, priority=5)
    jobs.assert_enqueued(send_receipt, unique=True)
    jobs.assert_enqueued(send_receipt, unique="k")
    jobs.assert_enqueued(send_receipt, run_at=datetime(2027, 3, 1, 13, tzinfo=UTC))
    assert len(jobs.assert_enqueued(send_receipt, count=2)) == 2
    assert len(jobs.assert_enqueued(send_receipt, count=None)) == 2
    jobs.assert_not_enqueued(send_receipt, order=44)
    jobs.assert_not_enqueued(charge)
    assert [each.arguments for each in jobs.enqueued(send_receipt)] == [
        {"order": 42, "copies": 1},
        {"order": 43, "copies": 2},
    ]
    jobs.run_until_idle(skip=True)
    jobs.assert_enqueued(send_receipt, order=42, queue="mail", delay=3600)  # as it was enqueued, whatever became of it


def test_a_duplicate_and_what_was_rolled_back_were_not_enqueued(jobs: Kit) -> None:
    charge.using(unique="k").enqueue("visa")
    charge.using(unique="k").enqueue("visa")
    with pytest.raises(ZeroDivisionError), app.batch():
        charge.enqueue("master")
        raise ZeroDivisionError

    jobs.assert_enqueued(charge)


def test_jobs_that_are_not_kept_were_enqueued(jobs: Kit) -> None:
    charge.using(keep=0).enqueue("visa")
    jobs.run_until_idle()

    assert app.jobs() == []
    jobs.assert_enqueued(charge, card="visa")


def test_children_steps_and_runs_are_found(jobs: Kit) -> None:
    order.enqueue(7)
    run = expense.start(employee="ann", amount=80)
    jobs.run_until_idle()

    jobs.assert_enqueued(send_receipt, order=7)
    jobs.assert_enqueued(charge, priority=3)
    found = jobs.assert_enqueued(expense, employee="ann")
    assert isinstance(found, FlowRun) and found.id == run.id
    jobs.assert_enqueued(decide)
    [child] = jobs.enqueued(charge)
    assert child.place.endswith("in order")
    [entry] = jobs.enqueued(decide)
    assert entry.place == "a job of expense.ask"


def test_the_nearest_miss_is_shown_with_its_place(memory: Kit) -> None:
    place_order(42, "vip")
    send_receipt.enqueue(41)
    for card in ("visa", "visa"):
        charge.enqueue(card)
    resize.enqueue("a")
    first = place_order.__code__.co_firstlineno + 1
    here = test_the_nearest_miss_is_shown_with_its_place.__code__
    row = "{:<54}   tests/api/test_kit.py:{} in {}"

    assert message(
        memory.assert_enqueued, send_receipt, order=42, queue="mail", delay=timedelta(hours=1)
    ).splitlines() == [
        "no job of send_receipt with order=42, queue='mail', due in 1h was enqueued.",
        "  nearest:  " + row.format("order=42   queue='vip' (not 'mail')   due in 1h", first, "place_order"),
        "            "
        + row.format("order=41 (not 42)   queue='mail'   due now (not in 1h)", here.co_firstlineno + 2, here.co_name),
        "  others:   charge ×2, resize ×1",
    ]


GOLDEN = {
    "nothing": (
        lambda jobs: jobs.assert_enqueued(charge),
        "no job of charge was enqueued.\n  Nothing was enqueued at all.",
    ),
    "others": (
        lambda jobs: (send_receipt.enqueue(1), jobs.assert_enqueued(charge, card="visa")),
        "no job of charge with card='visa' was enqueued.\n  others:   send_receipt ×1",
    ),
    "count": (
        lambda jobs: (charge.enqueue_many([("a",), ("b",)]), jobs.assert_enqueued(charge)),
        ("2 jobs of charge were enqueued, not 1.\n"
        "  found:    charge(card='a')   PLACE\n"
        "            charge(card='b')   PLACE\n"
        "  count=None accepts any number."),
    ),
    "one of three": (
        lambda jobs: (charge.enqueue("a"), jobs.assert_enqueued(charge, card="a", count=3)),
        ("1 job of charge with card='a' was enqueued, not 3.\n"
        "  found:    card='a'   PLACE\n"
        "  count=None accepts any number."),
    ),
    "not": (
        lambda jobs: (charge.enqueue("a"), jobs.assert_not_enqueued(charge, card=str.islower, queue="default")),
        ("a job of charge with card=<islower>, queue='default' was enqueued, and none should be.\n"
        "  found:    card='a'   queue='default'   PLACE"),
    ),
    "options": (
        lambda jobs: (
            charge.using(tags=["x"], delay=90.5).enqueue("a"),
            jobs.assert_enqueued(charge, tags=["y"], unique=True, headers={"a": "b"}, priority=1, run_at=datetime(2027, 3, 2, tzinfo=UTC)),
        ),
        ("no job of charge with due at 2027-03-02 00:00:00Z, priority=1, tags=['y'], a unique key, headers={'a': 'b'} was enqueued.\n"
        "  nearest:  due at 2027-03-01 12:01:30Z (not 2027-03-02 00:00:00Z)   priority=0 (not 1)   tags=['x'] (not ['y'])"
        "   unique=None (not unique)   headers={} (not {'a': 'b'})   PLACE"),
    ),
    "delay": (
        lambda jobs: (charge.using(delay=90.5).enqueue("a"), jobs.assert_enqueued(charge, delay=lambda span: span > 100)),
        ("no job of charge with delay=<a predicate> was enqueued.\n"
        "  nearest:  due in 1m 30.5s (not delay <a predicate>)   PLACE"),
    ),
    "waits": (
        lambda jobs: jobs.assert_waits(charge.enqueue("visa")),
        "job ID of charge does not wait to be completed: it is waiting; call run_until_idle() first.",
    ),
    "failed": (
        lambda jobs: jobs.assert_waits((charge.enqueue("expired"), jobs.run_until_idle())[0], step="x"),
        "job ID of charge does not wait to be completed in step 'x': it is failed, with Fail: the card has expired.",
    ),
    "step": (
        lambda jobs: jobs.assert_waits((expense.start(employee="a", amount=1), jobs.run_until_idle())[0], step="pay"),
        "run ID waits to be completed in step 'decide', not in step 'pay'.",
    ),
    "timeout": (
        lambda jobs: jobs.assert_waits(
            (expense.start(employee="a", amount=1), jobs.run_until_idle())[0], step=decide, timeout=timedelta(days=2, hours=5)
        ),
        "run ID waits to be completed in step 'decide' with a timeout of 3d, not of 2d 5h.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GOLDEN)
def test_a_message_says_what_was_nearly_right(memory: Kit, case: str) -> None:
    act, expected = GOLDEN[case]
    said = re.sub(r"tests/api/test_kit.py:\d+ in <lambda>", "PLACE", message(act, memory))

    assert re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", said) == expected


def test_names_that_there_are_not_are_refused(memory: Kit) -> None:
    with pytest.raises(
        InvalidOption, match=r"send_receipt has no parameter 'ordr', it takes order, copies; did you mean order="
    ):
        memory.assert_enqueued(send_receipt, ordr=42)
    with pytest.raises(InvalidOption, match="there is no task named 'send_recept'; did you mean 'send_receipt'"):
        memory.assert_enqueued("send_recept")
    app.remote("elsewhere", queue="far").enqueue(1, size=2)
    memory.assert_enqueued("elsewhere", size=2)


# Running.


def test_one_attempt_at_a_time(jobs: Kit) -> None:
    charge.enqueue("a")
    send_receipt.enqueue(1)

    first, second, none = jobs.run_one("mail"), jobs.run_one(), jobs.run_one()

    assert first is not None and second is not None
    assert (first.task, second.task, none) == ("send_receipt", "charge", None)


def test_plain_functions_run_on_the_thread_of_the_test(memory: Kit) -> None:
    job = resize.enqueue("a.png")  # isolated elsewhere
    memory.run_until_idle()

    assert job.result() == f"a.png on {threading.current_thread().name}"


def test_every_outcome_has_its_word(memory: Kit) -> None:
    answers: list[Any] = [Retry("x"), Fail("x"), Reschedule(after=5), Wait(), ValueError("x")]
    ran = []
    for answer in answers:
        with memory.failing(charge, answer):
            charge.enqueue("a")
            ran.append(memory.run_one())
    app.remote("nowhere", queue="default").enqueue()
    ran.append(memory.run_one())

    assert [each and each.outcome for each in ran] == [
        "retried",
        "failed",
        "rescheduled",
        "waits",
        "retried",
        "unknown",
    ]
    assert [each and each.job.state for each in ran] == [
        State.WAITING, State.FAILED, State.WAITING, State.BLOCKED, State.WAITING, State.WAITING,
    ]  # fmt: skip


def test_a_call_is_performed_without_a_queue(memory: Kit) -> None:
    done = memory.perform(order.bind(7))

    assert (done.outcome, done.result) == ("succeeded", None)
    assert done.progress is not None and done.progress.percent == 50
    assert len(done.log) == 1 and done.log[0].endswith("order 7")
    assert [(child.task, child.arguments) for child in done.children] == [
        ("send_receipt", {"order": 7, "copies": 1}),
        ("charge", {"card": "visa"}),
    ]
    assert memory.perform(charge.bind("visa")).result == "visa paid"
    failed = memory.perform(charge.bind("expired"))
    assert (failed.outcome, failed.error and failed.error.message) == ("failed", "the card has expired")
    with memory.failing(send_receipt, ValueError("x")):
        tried = memory.perform(send_receipt.bind(1), attempt=2)
    assert (tried.outcome, tried.delay, str(tried.exception)) == ("retried", 20.0, "x")
    assert (memory.enqueued(), app.jobs()) == ([], [])


def test_hooks_and_middleware_are_called() -> None:
    hooked, called = App("memory://", log=False), []

    @hooked.middleware
    async def layer(ctx: Context, call_next: Any) -> Any:
        called.append("in")
        return await call_next()

    @hooked.task(max_attempts=1)
    def fails() -> None:
        raise ValueError("x")

    @hooked.on_failure
    def failed(ctx: Context, error: BaseException, final: bool) -> None:
        called.append(f"{error} {final}")

    with kit(hooked) as jobs:
        fails.enqueue()
        jobs.run_until_idle()
        jobs.perform(fails.bind())

    assert called == ["in", "x True"] * 2


def test_a_real_worker_runs_what_is_due(jobs: Kit) -> None:
    charge.enqueue("visa")
    place_order(1)

    [ran] = jobs.run_until_idle(worker=True)

    assert (ran.task, ran.outcome) == ("charge", "succeeded")


@app.task(isolation="process")
def in_a_child() -> int:
    return os.getpid()


def test_a_real_worker_has_child_processes(jobs: Kit) -> None:
    job = in_a_child.enqueue()
    jobs.run_until_idle(worker=True)

    assert job.result(timeout=0) != os.getpid()
    with pytest.raises(InvalidOption, match="give either skip= or worker="):
        jobs.run_until_idle(skip=True, worker=True)


async def test_a_real_worker_beside_an_async_test() -> None:
    async with kit(app) as jobs:
        await charge.aenqueue("visa")
        assert [ran.outcome for ran in await jobs.arun_until_idle(worker=True)] == ["succeeded"]


def test_entries_of_an_inbox_become_jobs(memory: Kit) -> None:
    async def put() -> None:
        app.internals.session.store.put_in("default", b'{"task": "charge", "args": ["visa"]}')  # type: ignore[attr-defined]

    charge.enqueue("first")
    run_coroutine(put())
    memory.run_until_idle()

    memory.assert_enqueued(charge, card="visa")
    assert memory.enqueued()[-1].place == "an inbox"


def test_a_job_ends_in_its_own_transaction() -> None:
    with kit(app, store="sqlite") as jobs:
        job = paid.enqueue()
        [ran] = jobs.run_until_idle()
        assert (ran.outcome, job.result(timeout=0)) == ("succeeded", "in a transaction")


@app.task
def paid(ctx: Context) -> str:
    with ctx.complete() as tx:
        tx.result = "in a transaction"
    return "in a transaction"


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_pythons_own_clock_follows(store: Stores) -> None:
    real = time.time()
    with kit(app, store=store, at=NOON, system=True) as jobs:
        noon = jobs.now.timestamp()
        delayed = read_clock.using(delay=60).enqueue()
        jobs.advance(30)
        assert (time.time(), datetime.now(UTC)) == (noon + 30, jobs.now)
        jobs.run_until_idle(skip=True)
        assert delayed.result() == noon + 60
        awaited = await_clock.using(delay=5).enqueue()
        jobs.run_until_idle(skip=True)
        assert awaited.result() == noon + 65
        by_worker = read_clock.enqueue()
        jobs.run_until_idle(worker=True)
        assert by_worker.result() == noon + 65

    assert real <= time.time() < real + 50


async def test_pythons_own_clock_follows_in_async_code() -> None:
    async with kit(app, at=NOON, system=True) as jobs:
        noon = jobs.now.timestamp()
        jobs_due = [await task.using(delay=60).aenqueue() for task in (read_clock, await_clock)]
        await jobs.arun_until_idle(skip=True)

        assert [await job.aresult() for job in jobs_due] == [noon + 60] * 2


@app.task
def read_clock() -> float:
    return time.time()


@app.task
async def await_clock() -> float:
    await asyncio.sleep(0.001)  # by the monotonic clock, which goes on
    return time.time()


def test_the_package_that_moves_pythons_clock_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "time_machine", None)
    with pytest.raises(InvalidOption, match="time-machine: install it"):
        kit(app, system=True).__enter__()


def test_a_timeout_ends_a_coroutine(memory: Kit) -> None:
    slow = App("memory://", log=False)

    @slow.task(timeout=0.05, max_attempts=1)
    async def sleep() -> None:
        await asyncio.sleep(10)

    with kit(slow) as jobs:
        job = sleep.enqueue()
        jobs.run_until_idle()
        assert job.refresh().error is not None and job.error is not None and job.error.type == "TimeoutError"


async def test_coroutines_use_the_twins() -> None:
    async with kit(app, at=NOON) as jobs:
        job = await charge.using(delay=60).aenqueue("visa")
        jobs.assert_enqueued(charge, card="visa", delay=60)
        assert jobs.enqueued()[0].place.endswith("in test_coroutines_use_the_twins")
        assert await jobs.arun_until_idle() == []
        jobs.advance(60)
        ran = await jobs.arun_one()
        assert ran is not None and ran.outcome == "succeeded"
        assert await job.aresult() == "visa paid"
        assert (await jobs.aperform(send_receipt.bind(1))).result == "receipt for order 1"
        with pytest.raises(UseAsync, match="arun_until_idle"):
            jobs.run_until_idle()
        with pytest.raises(UseAsync, match="async with"):
            kit(app).__enter__()


# The store.


def test_the_apps_own_store_is_not_touched() -> None:
    own = App("memory://", log=False)

    @own.task
    def noop() -> None: ...

    noop.enqueue()
    with kit(own) as jobs:
        assert own.jobs() == []
        noop.enqueue()
        noop.enqueue()
        with kit(own):
            assert own.jobs() == []
        assert len(own.jobs()) == len(jobs.enqueued()) == 2
    assert len(own.jobs()) == 1


def test_replaced_takes_any_store() -> None:
    from tenure.stores.memory import Data, MemoryStore

    data = Data()
    with app.replaced(lambda: MemoryStore(data)):
        charge.enqueue("visa")
        assert len(app.jobs()) == 1
    with app.replaced(lambda: MemoryStore(data)):
        assert len(app.jobs()) == 1
    with app.replaced(MemoryStore):
        assert app.jobs() == []


def test_a_connection_to_the_file_of_the_kit_is_the_real_thing() -> None:
    with kit(app, store="sqlite") as jobs:
        app.jobs()
        assert jobs.path is not None
        own = apsw.Connection(jobs.path)
        own.execute("BEGIN IMMEDIATE")
        charge.using(connection=own).enqueue("rolled back")
        own.execute("ROLLBACK")
        own.execute("BEGIN IMMEDIATE")
        charge.using(connection=own).enqueue("committed")
        own.execute("COMMIT")
        own.close()
        jobs.assert_enqueued(charge, card="committed")
        jobs.assert_not_enqueued(charge, card="rolled back")


def test_the_library_of_the_apps_connections_is_that_of_the_kit() -> None:
    other = App("sqlite:///never-used.db?library=sqlite3", log=False)

    @other.task
    def noop(number: int) -> None: ...

    with kit(other, store="sqlite") as jobs:
        other.jobs()
        assert jobs.path is not None
        own = sqlite3.connect(jobs.path)
        noop.using(connection=own).enqueue(1)
        own.rollback()
        noop.using(connection=own).enqueue(2)
        own.commit()
        own.close()
        jobs.assert_enqueued(noop, number=2)


def test_a_connection_to_another_database_is_accepted_and_ignored() -> None:
    with kit(app, store="sqlite") as jobs:
        with sqlite3.connect(":memory:") as elsewhere:
            charge.using(connection=elsewhere).enqueue("a")
        charge.using(connection=object()).enqueue("b")
        jobs.assert_enqueued(charge, count=2)


def test_any_connection_is_accepted_in_memory(memory: Kit) -> None:
    charge.using(connection=object()).enqueue("visa")

    memory.assert_enqueued(charge)


def test_next_is_a_way_to_stub_a_step(memory: Kit) -> None:
    run = expense.start(employee="ann", amount=80)
    with memory.stub(decide, Next("pay", approved=True)):
        memory.run_until_idle()

    assert (memory.steps(run), run.result()) == (["ask", "decide", "pay"], "paid 80")


def test_a_date_needs_its_offset() -> None:
    with pytest.raises(InvalidOption, match="at= needs a time with its offset from UTC"):
        kit(app, at="2027-03-28T01:30")
    with pytest.raises(InvalidOption, match='store must be "memory" or "sqlite"'):
        kit(app, store="postgres")  # type: ignore[arg-type]
    with kit(app, at="2027-03-28T01:30+01:00") as jobs:
        assert jobs.now == datetime(2027, 3, 28, 0, 30, tzinfo=UTC)


async def test_lines_of_the_log_belong_to_the_call_that_caused_them(caplog: pytest.LogCaptureFixture) -> None:
    logged = App("memory://")

    @logged.task(max_attempts=3)
    def fails() -> None:
        raise ValueError("no")

    def lines() -> list[str]:
        return [line.partition("fails ")[2][:9] for line in caplog.messages]

    async with kit(logged) as jobs:
        await fails.aenqueue()
        for number in range(3):
            await jobs.arun_one()
            assert lines() == ["runs agai", "runs agai", "ended as "][: number + 1]
            jobs.advance(hours=1)
        await (await fails.aenqueue()).acancel()
    caplog.clear()
    time.sleep(0.1)
    assert lines() == []
