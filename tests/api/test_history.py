"""The history of measures as `app.history` gives it, and marks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tenure import App
from tenure.core.measures import HistoryWrite
from tenure.errors import InvalidName, InvalidOption
from tenure.jobs.history import QUEUES, SPANS, sample
from tenure.stores.base import Store

from .conftest import Do, Timed

RUN = {"run": 3.0, "run:2": 3.0, "wait": 0.3, "wait:-6": 3.0}


def store_of(app: App) -> Store:
    return app.internals.session.store


async def write(app: App, *writes: tuple[str, str, dict[str, float]]) -> None:
    await store_of(app).record_history([HistoryWrite(*each) for each in writes])


async def test_the_history_of_all_of_a_queue_and_of_a_task(timed: Timed, do: Do) -> None:
    app = timed.app

    @app.task
    async def send() -> None: ...

    for number in (1, 2):
        await write(
            app,
            ("", "", {"succeeded": 3.0 * number, "failed": 1.0, "error:KeyError": 1.0, **RUN}),
            ("mail", "", {"succeeded": 2.0 * number}),
            ("mail", send.name, {"succeeded": 1.0 * number, "stale": 1.0}),
            ("other", send.name, {"succeeded": 10.0 * number}),
        )
        timed.clock.advance(10)

    whole = await do(app.history)
    assert (whole.queue, whole.task, whole.resolution, len(whole.points)) == (None, None, 10, 360)
    assert [point.succeeded for point in whole.points[-3:]] == [3, 6, 0]
    assert (whole.total.succeeded, whole.total.failed, whole.total.errors) == (9, 2, {"KeyError": 2})
    assert whole.total.run == dict.fromkeys(("p50", "p95", "p99"), pytest.approx(1.68, abs=0.01))
    assert whole.total.wait["p50"] == pytest.approx(0.105, abs=0.001)
    assert (await do(app.history, "mail")).total.succeeded == 6
    assert (await do(app.history, "mail", send)).total.stale == 2
    assert (await do(app.history, queue="mail", task=send.name)).total.succeeded == 3
    assert (await do(app.history, task=send)).total.succeeded == 33, "of all queues"
    assert (await do(app.history, "none")).total.finished == 0


@pytest.mark.parametrize("span", SPANS)
async def test_each_span_has_its_slots(timed: Timed, one_way: Do, span: str) -> None:
    resolution, seconds = SPANS[span]
    await write(timed.app, ("", "", {"stale": 1.0}))
    await store_of(timed.app).mark("deploy")
    history = await one_way(timed.app.history, span=span)
    now = timed.clock.wall()
    assert (history.resolution, len(history.points)) == (resolution, seconds / resolution)
    last = history.points[-1]
    assert last.at == datetime.fromtimestamp(now // resolution * resolution, UTC)
    assert (last.stale, history.total.stale) == (1, 1)
    assert history.total.seconds == pytest.approx((now - history.points[0].at.timestamp()), abs=0.01)
    assert [mark.label for mark in history.marks] == ["deploy"]


async def test_the_last_slot_has_the_lengths_of_this_moment(timed: Timed, one_way: Do) -> None:
    app = timed.app

    @app.task(queue="mail")
    async def send() -> None: ...

    await send.using(delay=60).aenqueue()
    await send.aenqueue()
    timed.clock.advance(7)
    for history in (await one_way(app.history), await one_way(app.history, "mail")):
        total = history.total
        assert (total.in_line, total.scheduled, total.running, total.blocked) == (1, 1, 0, 0)
        assert total.oldest == pytest.approx(7, abs=0.01)
        assert history.points[-1].in_line == 1
        assert history.points[-2].in_line is None
    assert (await one_way(app.history, "mail", send)).total.in_line is None, "tasks have no lengths"


async def test_totals_are_exact_though_nothing_was_counted(timed: Timed, one_way: Do) -> None:
    app = timed.app

    @app.task(queue="mail")
    async def send() -> None: ...

    await store_of(app).record_history(await sample(store_of(app)))
    timed.clock.advance(20)
    jobs = [await send.aenqueue() for _ in range(3)]
    for job in jobs:
        await job.acancel()
    history = await one_way(app.history)
    assert history.total.cancelled == history.points[-1].cancelled == 3
    assert await sample(store_of(app)) != [], "twenty seconds have passed"
    assert await sample(store_of(app)) == [], "another has just looked"


async def test_all_queues_are_added_up_though_not_all_of_them_are_written(timed: Timed) -> None:
    app = timed.app

    @app.task
    async def send() -> None: ...

    await app.aenqueue(*[send.using(queue=f"q{number:03}").bind() for number in range(QUEUES + 5)])
    written = await sample(store_of(app))
    assert len(written) == QUEUES + 1
    assert written[0].gauges["in_line"] == QUEUES + 5
    assert (await app.ahistory()).total.in_line == QUEUES + 5
    assert (await app.ahistory(f"q{QUEUES + 1}")).total.in_line == 1


# Marks.


async def test_marks_are_remembered(timed: Timed, do: Do) -> None:
    await do(timed.app.mark, "config 17")
    at = timed.clock.wall()
    timed.clock.advance(700)
    await do(timed.app.mark, "é 🙂")
    assert [mark.label for mark in (await do(timed.app.history)).marks] == ["config 17", "é 🙂"]
    assert (await do(timed.app.history)).marks[0].at == pytest.approx(at, abs=0.01)
    assert [mark.label for mark in (await do(timed.app.history, span="10m")).marks] == ["é 🙂"]


# Refusals, before any I/O.


@pytest.mark.parametrize("label", ["", "  ", "x" * 101, 5, None])
async def test_a_mark_needs_a_short_text(no_store: App, do: Do, label: Any) -> None:
    with pytest.raises(InvalidOption, match="label must be a text of 1 to 100 characters, not "):
        await do(no_store.mark, label)


@pytest.mark.parametrize("span", ["1d", "", "60", 3600, None, ["1h"]])
async def test_a_span_is_one_of_a_few(no_store: App, do: Do, span: Any) -> None:
    with pytest.raises(InvalidOption, match="span must be one of 10m, 1h, 6h, 24h, 2d, 7d, 30d, not "):
        await do(no_store.history, span=span)


@pytest.mark.parametrize("names", [{"queue": ""}, {"queue": "a b"}, {"task": ""}, {"task": "a b"}, {"task": 5}])
async def test_bad_names_have_no_history(no_store: App, do: Do, names: dict[str, Any]) -> None:
    with pytest.raises(InvalidName):
        await do(no_store.history, **names)
