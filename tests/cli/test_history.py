"""`tenure history` and `tenure mark`, and what else shows ages and releases."""

from __future__ import annotations

import asyncio
import io
import math
import time
from pathlib import Path

import pytest
from rich.console import Console

from tenure import App
from tenure.cli import history as command
from tenure.cli.chart import drawn
from tenure.core.measures import HistoryRow, Mark, slot_of
from tenure.jobs.history import SPANS, History, Window, assembled
from tenure.stores.values import WorkerInfo

from .conftest import Tenure, document

GOLDEN = Path(__file__).with_name("golden")
NOW = 1_792_000_003.0
"""2026-10-14 17:46:43 UTC."""


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def a_history(span: str, *, queue: str | None = None, busy: bool = True) -> History:
    """The history of a queue whose load comes in waves, with failures at times."""
    resolution, length = SPANS[span]
    first, last = slot_of(resolution, NOW - length) + resolution, slot_of(resolution, NOW)
    rows = []
    for number in range(int((last - first) / resolution) + 1 if busy else 0):
        wave = math.sin(number / 20)
        ended = int(resolution * (2 + 1.8 * wave))
        counts = {
            "succeeded": ended,
            "run:-6": ended * 0.9,
            "run:2": ended * 0.08,
            "run:7": ended * 0.02,
            "wait:-10": ended,
        }
        if number % 37 == 5:
            counts |= {"failed": number % 9 + 1, "retried": 3, "error:ConnectionError": 4, "error:ValueError": 1}
            counts |= {f"error:Error{each}InsideOfTheProvider": 1 for each in range(5)}
        gauges = {"in_line": max(300 * wave + 100, 0), "oldest": max(20 * wave + 2, 0)}
        rows.append(HistoryRow(first + number * resolution, queue or "", "", counts, gauges))
    marks = [Mark(first + length * 0.3, "v1.2.3"), Mark(first + length * 0.9, "config \x1b[31m17")] if busy else []
    return assembled(queue, None, Window(resolution, first, last, NOW), rows, marks)


def picture(history: History, width: int) -> str:
    out = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    for line in drawn(history, width):
        out.print(line, soft_wrap=True)
    return out.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(("span", "width"), [("1h", 60), ("1h", 80), ("1h", 140), ("10m", 80), ("30d", 80)])
def test_a_history_looks_as_it_should(span: str, width: int) -> None:
    """Delete a file of the folder `golden` to have it written anew, and look at it."""
    drawing = picture(a_history(span, queue="mail"), width)
    assert max(map(len, drawing.splitlines())) <= width
    golden = GOLDEN / f"history-{span}-{width}.txt"
    if not golden.exists():
        golden.write_text(drawing)
    assert drawing == golden.read_text()


@pytest.mark.parametrize("width", [20, 60, 80, 140, 300])
@pytest.mark.parametrize("span", SPANS)
def test_a_history_fits_any_terminal(span: str, width: int) -> None:
    for busy in (True, False):
        charts = [line for line in picture(a_history(span, busy=busy), width).splitlines() if "┤" in line]
        assert max(map(len, charts)) <= max(width, 20)


def test_an_empty_history_is_drawn_too() -> None:
    drawing = picture(a_history("1h", busy=False), 80)
    assert "most 0, mean 0, 0 in all" in drawing
    assert "0 succeeded, 0 failed" in drawing
    assert "waited" not in drawing


@pytest.fixture
def app(url: str) -> App:
    return App(url, log=False)


def record(app: App) -> None:
    """Have a worker run six jobs, of which one fails, and leave another in the registry."""

    @app.task(queue="mail", retry=None)
    def send(user: int) -> None:
        if not user:
            raise KeyError(user)

    send.enqueue_many([(user,) for user in range(6)])
    app.worker().run(until_empty=True)
    asyncio.run(_register(app))


async def _register(app: App) -> None:
    info = WorkerInfo(id="w1", host="h", pid=1, queues=("mail",), tasks=(), concurrency=1, release="v1.2.3")
    await app.internals.session.store.register(info)
    await app.aclose()


def test_commands_show_the_history(app: App, tenure: Tenure) -> None:
    record(app)
    for which in ([], ["-q", "mail"], ["--task", "send"], ["-q", "mail", "--task", "send"], ["--span", "30d"]):
        shown = tenure("history", *which)
        assert shown.exit_code == 0, shown.output
        assert "5 succeeded, 1 failed" in shown.stdout
        assert "1 KeyError" in shown.stdout
        assert "\x1b" not in shown.stdout
        assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "0 succeeded, 0 failed" in tenure("history", "-q", "other").stdout


def test_the_document_of_a_history(app: App, tenure: Tenure) -> None:
    record(app)
    assert tenure("mark", "v1.2.3").stdout == "marked v1.2.3\n"
    found = document(tenure("history", "-q", "mail", "--json"))
    assert {name: found[name] for name in ("queue", "task", "span", "resolution")} == {
        "queue": "mail", "task": None, "span": "1h", "resolution": 10,
    }  # fmt: skip
    assert [*found] == ["queue", "task", "span", "resolution", "points", "total", "marks"]
    assert len(found["points"]) == 360
    total = found["total"]
    assert [*total] == [
        "at", "seconds", "succeeded", "failed", "retried", "broken", "lost", "cancelled", "stale", "in_line", "scheduled",
        "blocked", "running", "oldest", "wait", "run", "errors", "finished", "rate",
    ]  # fmt: skip
    assert [*found["points"][0]] == [*total]
    assert (total["succeeded"], total["finished"], total["errors"]) == (5, 6, {"KeyError": 1})
    assert [*total["run"]] == [*total["wait"]] == ["p50", "p95", "p99"]
    [mark] = found["marks"]
    assert mark["label"] == "v1.2.3"
    assert mark["at"].endswith("+00:00")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["history", "--span", "1d"], "Invalid value for '--span': '1d' is not one of"),
        (["history", "-q", "a b"], "a b"),
        (["mark", ""], "label must be a text of 1 to 100 characters"),
        (["mark", "x" * 101], "label must be a text of 1 to 100 characters"),
    ],
)
def test_what_cannot_be_shown_or_marked(app: App, tenure: Tenure, arguments: list[str], message: str) -> None:
    record(app)
    refused = tenure(*arguments)
    assert refused.exit_code == 2
    assert message in refused.output


def test_the_command_offers_the_spans_that_there_are() -> None:
    assert (*SPANS,) == command.SPANS


def test_queues_show_their_oldest_job_and_workers_their_release(app: App, tenure: Tenure) -> None:
    record(app)
    with App(app.url) as other:
        other.remote("send").using(queue="mail").enqueue(1)
    [header, line] = tenure("queues").stdout.splitlines()
    assert header.split("\t")[-1] == "oldest"
    assert line.split("\t")[5].endswith("s")
    assert document(tenure("queues", "--json"))["queues"][0]["oldest"] >= 0
    assert "w1 on h, pid 1, lanes: none, release v1.2.3" in tenure("workers").stdout
    assert document(tenure("workers", "--json"))["workers"][0]["release"] == "v1.2.3"
