# test_shop.py
from datetime import timedelta

import pytest
from approval import app as approvals
from approval import expense
from shop import app, charge, send_receipt

from tenure import App, Context
from tenure.testing import Kit, kit

charges: dict[str, str] = {}  # a bank that knows a charge by its key


@app.task
def bill(ctx: Context, card: str) -> str:
    return charges.setdefault(ctx.job.id, f"{card} pays")


@pytest.fixture
def tenure_app() -> App:  # or, in pyproject.toml: tenure_app = "shop:app"
    return app


def place_order(order: int) -> None:
    send_receipt.using(delay=timedelta(hours=1)).enqueue(order)


def test_a_receipt_goes_out_an_hour_after_the_order(jobs: Kit) -> None:
    place_order(42)
    job = jobs.assert_enqueued(send_receipt, order=42, queue="mail", delay=timedelta(hours=1))
    assert jobs.run_until_idle() == []  # nothing is due
    jobs.advance(hours=1)
    [ran] = jobs.run_until_idle()
    assert (ran.task, ran.outcome, job.result()) == ("send_receipt", "succeeded", "receipt for order 42")


def test_the_bank_is_asked_five_times_within_ten_minutes(jobs: Kit) -> None:
    with jobs.failing(charge, TimeoutError("bank"), times=4):
        job = charge.enqueue("visa")
        jobs.run_until_idle(skip=True)  # jumps to whatever is due next, as often as there is something
    assert job.refresh().state == "succeeded"
    assert jobs.elapsed < 600
    assert jobs.attempts(job) == ["retried"] * 4 + ["succeeded"]


def test_a_worker_that_dies_after_charging_does_not_charge_twice(jobs: Kit) -> None:
    with jobs.crash(bill, at="before_settle"):  # its effects are done, the store was not told
        job = bill.enqueue("visa")
        jobs.run_until_idle(skip=True)  # the lease runs out, it is reaped, runs again
    assert jobs.attempts(job) == ["lost", "succeeded"]
    assert charges == {job.id: "visa pays"}


def test_an_expense_is_paid_once_somebody_says_yes() -> None:
    with kit(approvals) as jobs:  # also in unittest, Django's TestCase and scripts
        run = expense.start(employee="ann", amount=80)
        jobs.run_until_idle()
        jobs.assert_waits(run, step="decide", timeout=timedelta(days=3))
        run.complete({"approved": True})
        jobs.run_until_idle()
        assert jobs.steps(run) == ["ask", "decide", "pay"]
        assert run.result() == "paid 80"


def test_nobody_is_forgotten() -> None:
    with kit(approvals) as jobs:
        run = expense.start(employee="bob", amount=9)
        jobs.run_until_idle()
        jobs.advance(days=3)
        jobs.run_until_idle()
        assert jobs.steps(run) == ["ask", "decide", "remind", "decide"]


async def test_async_too(jobs: Kit) -> None:
    job = await send_receipt.aenqueue(7)
    await jobs.arun_until_idle()
    assert await job.aresult() == "receipt for order 7"
