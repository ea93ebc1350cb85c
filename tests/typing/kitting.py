"""What type checkers must accept and must refuse of a test kit; as `producing.py`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_type

from tenure import App, FlowRun, Job
from tenure.testing import EnqueuedJob, Kit, Performed, Ran, kit

app = App("memory://")
order = app.flow("order")


@app.task
def charge(card: str) -> int:
    return len(card)


with kit(app, store="sqlite", at="2027-03-28T01:30+01:00", schedules=True) as jobs:
    assert_type(jobs, Kit)
    assert_type(jobs.assert_enqueued(charge, card="visa", delay=timedelta(hours=1)), Job[int])
    assert_type(jobs.assert_enqueued(charge, count=2), list[Job[int]])
    assert_type(jobs.assert_enqueued(charge.using(priority=1), count=None), list[Job[int]])
    assert_type(jobs.assert_enqueued("charge"), Job[Any])
    assert_type(jobs.assert_enqueued(order), FlowRun)
    assert_type(jobs.assert_enqueued(order, count=3), list[FlowRun])
    assert_type(jobs.enqueued(charge), list[EnqueuedJob])
    assert_type(jobs.run_until_idle(skip=True), list[Ran])
    assert_type(jobs.run_one("mail"), Ran | None)
    assert_type(jobs.perform(charge.bind("visa")), Performed)
    assert_type(jobs.elapsed, float)
    assert_type(jobs.attempts(charge.enqueue("visa")), list[str])
    jobs.advance(hours=1, minutes=30)
    jobs.advance(timedelta(days=1))
    jobs.advance(weeks=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    jobs.assert_waits(order.start(), step="decide", timeout=timedelta(days=3))
    with jobs.crash(charge, at="before_settle"), jobs.failing(charge, ValueError, times=2), jobs.stub(charge, 1):
        jobs.run_until_idle()
    jobs.crash(charge, at="never")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

kit(app, store="redis")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def awaited() -> None:
    async with kit(app) as jobs:
        assert_type(await jobs.arun_until_idle(), list[Ran])
        assert_type(await jobs.aperform(charge.bind("visa")), Performed)
