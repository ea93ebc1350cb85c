"""What `tenure top` draws, reads and does at each key; tests/cli/test_top_terminal.py has it on a terminal."""

from __future__ import annotations

import asyncio
import io
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console
from rich.screen import Screen as RichScreen

from tenure import App
from tenure.cli.audit import operator_name
from tenure.cli.top.acting import act
from tenure.cli.top.drawing import draw
from tenure.cli.top.frame import bound, clip, fit, sparkline, spread, width_of, wrapped
from tenure.cli.top.keys import KeyParser
from tenure.cli.top.screen import looking_at
from tenure.cli.top.state import Explain, Pause, Quit, Request, Resume, RetryFailed, Ui, press
from tenure.core.job import ErrorInfo, JobRecord, Progress, State
from tenure.core.lease import new_nonce
from tenure.core.lifecycle import Finish
from tenure.core.measures import HistoryRow, HistoryWrite
from tenure.errors import StoreUnavailable
from tenure.jobs.attention import Attention, attention
from tenure.jobs.snapshot import Measures, Snapshot, figures_of, measures_of, summary_of
from tenure.jobs.snapshot_reader import INTERVALS, PAUSE, Looking, SnapshotReader
from tenure.stores.values import Health, LeaseRequest, Order, QueueInfo, Totals, WorkerInfo

from .conftest import Tenure, run_process

FRAMES = Path(__file__).parent / "frames"
REWRITE = bool(os.environ.get("TENURE_TEST_FRAMES"))
"""Write the expected frames anew instead of comparing with them."""

NOW = 1_700_000_100.0
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe\r\nroot [bold red]x[/] \x9b31m \x7f"
RETRY = ("failed retry", "state=failed queue=mail")
OBEYED = set("\x1b\x07\r\u202e\x9b\x7f")


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock in the first line is local."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def a_job(id_: str, task: str, state: State = State.RUNNING, **fields: Any) -> JobRecord:
    return JobRecord(id_, task, "mail", state, b"{}", **fields)


def a_worker(name: str, **fields: Any) -> WorkerInfo:
    told = {"host": name, "pid": 7, "queues": ("mail", "default", "rep*"), "tasks": ("t",), "concurrency": 32, **fields}
    return WorkerInfo(id=f"{name}:7:9f3a1c2e", lanes=("loop",), started_at=NOW - 4000, **told)


QUEUES = (
    QueueInfo(name="default", waiting=3, oldest=0.04, running=40, totals=Totals(succeeded=90_000, failed=2)),
    QueueInfo(name="mail", waiting=1240, oldest=430.0, scheduled=12, running=8, failed=41, totals=Totals(succeeded=5000, failed=60)),
    QueueInfo(name="reports", waiting=55, oldest=7200.0, paused=True, totals=Totals(succeeded=9)),
    QueueInfo(name="tenant-with-a-name-that-is-longer-than-any-column", waiting=12_345_678, oldest=9e5, running=12_345),
)  # fmt: skip
WORKERS = (a_worker("web-1", held=32), a_worker("web-2", held=16), a_worker("web-3", silent_for=60.0, held=2))
ROWS = [
    *(HistoryRow(1_699_999_800.0 - 300 * ago, "mail", "", {"succeeded": 300.0 * (12 - ago), "wait:15": 10}) for ago in range(12)),
    HistoryRow(1_699_999_800.0 - 3600, "mail", "", {}, {"total_failed": 20, "total_succeeded": 1000}),
    HistoryRow(1_699_999_800.0, "default", "", {"succeeded": 3000, "wait:-12": 99}, {"total_failed": 1, "total_succeeded": 90_000}),
]  # fmt: skip
TASKS = [
    HistoryRow(1_699_999_800.0, "mail", "send_receipt", {"succeeded": 269, "failed": 41, "error:ConnectionError": 41})
]

SNAPSHOT = Snapshot(
    store="postgresql://db/shop",
    layout=8,
    at=NOW,
    now=NOW,
    running_at=NOW,
    queues=QUEUES,
    workers=WORKERS,
    rates={"default": 1002.4, "mail": 310.0, "reports": 0.0},
    measures=measures_of(ROWS, NOW),
    attention=tuple(attention(now=NOW, queues=QUEUES, workers=WORKERS, history=ROWS, tasks=TASKS)),
    running=(
        a_job("0198c1f7-0000-7000-8000-000000000001", "send_receipt", started_at=NOW - 40, worker=WORKERS[2].id),
        a_job("0198c1f8-0000-7000-8000-000000000002", "resize", started_at=NOW - 2, worker=WORKERS[0].id, progress=Progress(6, 10)),
    ),
    failed=(
        a_job("0198c1f6-0000-7000-8000-000000000003", "send_receipt", State.FAILED, ended_at=NOW - 12, attempt=3, error=ErrorInfo("ConnectionError", "smtp refused")),
    ),
    jobs=(
        a_job("0198c1f6-0000-7000-8000-000000000003", "send_receipt", State.FAILED, ended_at=NOW - 12, attempt=3, error=ErrorInfo("ConnectionError", "smtp refused")),
    ),
)  # fmt: skip


# Frames.


@pytest.mark.parametrize(
    ("name", "width", "height", "ui"),
    [
        ("40", 40, 20, Ui()),
        ("60", 60, 20, Ui()),
        ("80", 80, 24, Ui(queue="mail")),
        ("120", 120, 24, Ui(queue="mail")),
        ("200", 200, 30, Ui(order=1)),
        ("80-once", 80, None, Ui()),
        ("120-once", 120, None, Ui(read_only=True)),
        ("80-pause", 80, 24, Ui(queue="mail", question="Pause mail, with 1,240 jobs in line?", asked=Pause("mail"))),
        ("80-filter", 80, 24, Ui(typing="rep", hold=True)),
        ("80-failed", 80, 24, Ui(view="failed", queue="mail")),
        ("120-workers", 120, 24, Ui(view="workers", row=1)),
        ("80-explain", 80, 24, Ui(view="explain", explanation=("Job 1 waits.", "", "- because " + "word " * 40, "  do this"))),
        ("80-help", 80, 30, Ui(view="help", read_only=True)),
        ("20", 20, 6, Ui()),
    ],
)  # fmt: skip
def test_a_frame(name: str, width: int, height: int | None, ui: Ui) -> None:
    drawn = draw(SNAPSHOT, width, height, ui)

    assert [line for line in drawn.lines if width_of(line) > width] == []
    assert height is None or len(drawn.lines) == height
    path = FRAMES / f"top-{name}.txt"
    if REWRITE:
        path.write_text(drawn.plain + "\n", encoding="utf-8")
    assert drawn.plain + "\n" == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [1, 3, 10, 59, 60, 99, 100, 131, 300])
@pytest.mark.parametrize("height", [1, 2, 5, 19, 60, None])
@pytest.mark.parametrize("view", ["queues", "jobs", "failed", "workers", "explain", "help"])
def test_a_frame_fills_any_terminal_exactly(width: int, height: int | None, view: Any) -> None:
    ui = Ui(view=view, queue="mail", explanation=("word " * 50,))

    for snapshot in (SNAPSHOT, Snapshot(store="memory://"), Snapshot(store="memory://", problem="no answer " * 30)):
        drawn = draw(snapshot, width, height, ui)
        assert max(map(width_of, drawn.lines)) <= width
        assert height is None or len(drawn.lines) == height


def test_what_needs_attention_beyond_its_lines_is_counted() -> None:
    high, low = draw(SNAPSHOT, 200, 24, Ui()).plain, draw(SNAPSHOT, 200, 19, Ui()).plain

    assert "! 3 more: tenure health lists them" in high
    assert "no live worker serves the queue (and 4 more)" in low


def test_nothing_is_claimed_before_it_was_read() -> None:
    unread = draw(Snapshot(store="memory://"), 120, 24, Ui()).plain
    empty = Snapshot(store="memory://", attention=(), running=(), failed=())

    assert "nothing needs attention" not in unread
    assert "no job runs" not in unread
    assert "nothing needs attention" in draw(empty, 120, 24, Ui()).plain
    assert "no job runs" in draw(empty, 120, 24, Ui()).plain


def test_a_problem_is_the_first_line() -> None:
    drawn = draw(Snapshot(store="memory://", problem=f"no answer{HOSTILE}"), 80, 24, Ui()).plain

    assert drawn.startswith("tenure top · no answer\\x1b[2J")
    assert OBEYED.isdisjoint(drawn)


@pytest.mark.parametrize("width", [50, 80, 120, 200])
@pytest.mark.parametrize("view", ["queues", "jobs", "workers", "explain"])
def test_hostile_text_stays_in_its_cell(width: int, view: Any) -> None:
    wide = "名" * 200
    job = a_job(
        HOSTILE, HOSTILE + wide, started_at=NOW, worker=wide, error=ErrorInfo(HOSTILE, wide + HOSTILE), ended_at=NOW
    )
    hostile = Snapshot(
        store=HOSTILE,
        now=NOW,
        queues=(QueueInfo(name=HOSTILE, paused=True), QueueInfo(name=wide)),
        workers=(a_worker(HOSTILE, trouble=HOSTILE), a_worker(wide, queues=(wide,))),
        attention=(Attention(level=Health.BAD, kind="x", sentence=HOSTILE + wide, advice=HOSTILE),),
        running=(job,),
        failed=(job,),
        jobs=(job,),
    )  # fmt: skip

    ui = Ui(view=view, queue=HOSTILE, filter="", message=HOSTILE, explanation=(HOSTILE + wide,))
    drawn = draw(hostile, width, 24, ui)

    assert max(map(width_of, drawn.lines)) <= width
    assert OBEYED.isdisjoint(drawn.plain)
    assert len(drawn.plain.splitlines()) == 24


def test_a_frame_with_many_queues_is_drawn_within_20_ms() -> None:
    many = tuple(QueueInfo(name=f"queue-{number}", waiting=number, oldest=9.0) for number in range(1000))
    jobs = (a_job("0198c1f7-0000-7000-8000-000000000001", "send", started_at=NOW, error=ErrorInfo("E", "why")),) * 20
    snapshot = Snapshot(store="memory://", now=NOW, queues=many, running=jobs, failed=jobs)
    console = Console(file=io.StringIO(), width=200, height=60, force_terminal=True)

    def taken() -> float:
        began = time.perf_counter()
        console.print(RichScreen(draw(snapshot, 200, 60, Ui(queue="queue-500"))))
        return time.perf_counter() - began

    assert min(taken() for _ in range(10)) < 0.02


# Cells.


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [("mail", 6, "mail  "), ("mail", 4, "mail"), ("mail", 3, "ma…"), ("mail", 0, ""), ("名名", 4, "名名"), ("名名", 3, "名…"),
     ("\x1b", 4, "\\x1b"), ("\x1b", 3, "\\x…")],
)  # fmt: skip
def test_a_text_is_made_as_wide_as_its_cell(text: str, width: int, shown: str) -> None:
    assert fit(text, width) == shown
    assert cell_len(fit(text, width)) == width
    assert clip(text, width) == shown.rstrip()


def test_lines_are_cut_and_spread() -> None:
    assert bound([("ab", ""), ("cd", "bold")], 3) == [("ab", ""), ("…", "bold")]
    assert spread([("ab", "")], [("cd", "")], 6) == [("ab", ""), ("  ", ""), ("cd", "")]
    assert spread([("ab", "")], [("cd", "")], 4) == [("ab", "")]


@pytest.mark.parametrize(
    ("text", "lines"),
    [("a bc def", ["a bc", "def"]), ("abcdefghij", ["abcde", "fghij"]), ("", [""]), ("名名名", ["名名", "名"]), ("a bcdefgh", ["a", "bcdef", "gh"])],
)  # fmt: skip
def test_text_is_wrapped_between_words(text: str, lines: list[str]) -> None:
    assert wrapped(text, 5) == lines


def test_a_line_of_bars() -> None:
    assert sparkline([0, 1, 4, 8]) == " ▁▄█"
    assert sparkline([0, 0]) == sparkline([]) == ""


# Figures.


def test_figures_of_the_store_as_a_whole() -> None:
    summary = summary_of(SNAPSHOT)

    assert round(summary.rate, 1) == 1312.4
    assert (summary.busy, summary.slots, summary.workers, summary.missing) == (48, 64, 2, 1)
    assert summary.oldest == 9e5
    assert summary.failed_share == pytest.approx(41 / (3000 + 4000 + 41), rel=0.01)
    assert len(summary.finished) == 12


def test_figures_of_a_queue() -> None:
    default, mail, *_ = figures_of(SNAPSHOT)

    assert (mail.rate, mail.failed, mail.level) == (310.0, 40, "warn")
    assert mail.wait == pytest.approx(152, rel=0.2)
    assert (default.failed, default.level) == (1, "")


def test_until_totals_were_read_twice_the_history_says_the_rates() -> None:
    measures = measures_of([HistoryRow(1_699_999_800.0, "mail", "", {"succeeded": 600, "failed": 60})], 1_699_999_860.0)

    assert measures.rates == {"mail": 11.0}
    assert figures_of(Snapshot(store="", queues=QUEUES, measures=measures))[1].rate == 11.0
    assert measures.finished == [0.0] * 11 + [11.0]
    assert measures_of([], NOW) == Measures(finished=[0.0] * 12)


# Keys.


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"pq", ["p", "q"]), (b"\x1b[A\x1b[B", ["up", "down"]), (b"\x1bOA", ["up"]), (b"\x1b[5~\x1b[6~", ["page up", "page down"]),
        (b"\r\n\x7f", ["enter", "enter", "backspace"]), (b"\x1b[1;5Cx", ["x"]), (b"\x1bxq", ["q"]), (b"\x01\x00q", ["q"]),
        ("é名".encode(), ["é", "名"]), (b"\xff\xfeq", ["q"]), (b"\x1b\x1b[A", ["escape", "up"]), (b"\x1b[200~q\x1b[201~", ["q"]),
    ],
)  # fmt: skip
def test_bytes_become_keys_however_they_come(data: bytes, keys: list[str]) -> None:
    whole, split = KeyParser(), KeyParser()

    assert whole.feed(data) == keys
    assert [key for each in data for key in split.feed(bytes([each]))] == keys
    assert not whole.waits


def test_an_escape_alone_is_a_key_after_a_moment() -> None:
    parser = KeyParser()

    assert parser.feed(b"\x1b") == []
    assert parser.waits
    assert parser.flush() == ["escape"]
    assert parser.feed(b"\x1b[") == []
    assert parser.flush() == []


def after(*keys: str, ui: Ui | None = None) -> tuple[Ui, list[Request]]:
    ui, orders = ui or Ui(), []
    for key in keys:
        ui, order = press(ui, key, SNAPSHOT)
        orders += [] if order is None else [order]
    return ui, orders


@pytest.mark.parametrize(
    ("keys", "orders"),
    [
        (["q"], [Quit()]),
        (["p"], []),
        (["p", "n"], []),
        (["p", "y"], [Pause("default")]),
        (["down", "p", "y"], [Pause("mail")]),
        (["j", "j", "k", "p", "Y"], [Pause("mail")]),
        (["end", "up", "u", "y"], [Resume("reports")]),
        (["end", "home", "u", "y"], [Resume("default")]),  # the store says that it is not paused
        (["j", "r", "y"], [RetryFailed("mail")]),
        (["r", "y"], []),  # it has no failed jobs
        (["e"], [Explain("default")]),
        (["j", "f", "e"], [Explain("mail", "0198c1f6-0000-7000-8000-000000000003")]),
        (["j", "enter", "enter"], [Explain("mail", "0198c1f6-0000-7000-8000-000000000003")]),
        (["/", "r", "e", "p", "enter", "u", "y"], [Resume("reports")]),
        (["/", "q"], []),
        (["?", "p", "y"], []),  # keys of queues mean nothing there
        (["w", "r", "y"], []),
        (["o", "p", "y"], [Pause("tenant-with-a-name-that-is-longer-than-any-column")]),
    ],
)  # fmt: skip
def test_keys_ask_for_orders(keys: list[str], orders: list[Request]) -> None:
    assert after(*keys)[1] == orders


def test_nothing_is_ordered_where_nothing_may_be_changed() -> None:
    ui, orders = after("p", "y", "j", "r", "y", "e", ui=Ui(read_only=True))

    assert orders == [Explain("mail")]
    assert after("p", ui=Ui(read_only=True))[0].message == "--read-only: nothing can be changed here"
    assert "[p]ause" not in draw(SNAPSHOT, 120, 24, ui).plain


@pytest.mark.parametrize(
    ("keys", "question"),
    [(["j", "p"], "Pause mail, with 1,240 jobs in line?"), (["j", "r"], "Retry 41 failed jobs of mail?"),
     (["j", "j", "u"], "Resume reports, with 55 jobs in line?")],
)  # fmt: skip
def test_the_bottom_line_asks_with_the_count(keys: list[str], question: str) -> None:
    ui, _ = after(*keys)

    assert draw(SNAPSHOT, 80, 24, ui).plain.splitlines()[-1].strip() == f"{question}  y / n"
    assert draw(SNAPSHOT, 80, 24, press(ui, "x", SNAPSHOT)[0]).plain.splitlines()[-1].strip() == "nothing was done"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["/", "m", "a", "backspace", "enter"], {"filter": "m"}),
        (["/", "m", "escape"], {"filter": "", "typing": None}),
        (["/", "m", "up", "page up"], {"typing": "m"}),
        (["/", "m", "enter", "escape"], {"filter": ""}),
        (["o", "o"], {"order": 2}),
        (["o"] * 5, {"order": 0}),
        ([" "], {"hold": True}),
        ([" ", " "], {"hold": False}),
        (["w"], {"view": "workers"}),
        (["w", "w"], {"view": "queues"}),
        (["w", "down", "down", "page down"], {"row": 2}),
        (["w", "down", "escape"], {"view": "queues", "row": 0}),
        (["f"], {"view": "failed", "queue": "default"}),
        (["j", "enter", "left"], {"view": "queues", "queue": "mail"}),
        (["page down", "page up"], {"queue": "default"}),
        (["x", "right", "right"], {"view": "jobs"}),
    ],
)
def test_keys_change_what_is_shown(keys: list[str], expected: dict[str, Any]) -> None:
    ui, orders = after(*keys)

    assert {name: getattr(ui, name) for name in expected} == expected
    assert orders == []


@pytest.mark.parametrize(
    "key", ["p", "u", "r", "e", "enter", "f", "up", "down", "end", "w", "o", "/", "?", " ", "escape"]
)
def test_keys_do_no_harm_in_an_empty_store(key: str) -> None:
    empty = Snapshot(store="memory://")

    ui, order = press(Ui(), key, empty)

    assert order is None
    assert draw(empty, 80, 24, ui).plain


def test_orders_sort_the_queues() -> None:
    def names(order: int) -> list[str]:
        lines = draw(SNAPSHOT, 60, 24, Ui(order=order)).plain.splitlines()
        return [line[1:7].strip() for line in lines[6:10]]

    assert names(0) == ["defaul", "mail", "report", "tenant"]
    assert names(1) == ["tenant", "mail", "report", "defaul"]
    assert names(2) == ["tenant", "report", "mail", "defaul"]
    assert names(3) == ["defaul", "mail", "report", "tenant"]
    assert names(4) == ["mail", "defaul", "report", "tenant"]


@pytest.mark.parametrize(
    ("ui", "width", "lists"),
    [(Ui(), 99, set()), (Ui(), 100, {"running", "failed"}), (Ui(view="failed", queue="mail"), 80, {"jobs"}), (Ui(view="help"), 200, set())],
)  # fmt: skip
def test_lists_are_read_only_while_they_are_shown(ui: Ui, width: int, lists: set[str]) -> None:
    assert looking_at(ui, width).lists == lists


# Reading and acting, on a store in memory.


@pytest.fixture
async def app() -> App:
    """A store with a job in line, a failed one, a running one, a paused queue, and a history."""
    app = App("memory://")
    store = app.internals.session.store
    for queue in ("mail", "mail", "mail", "reports"):
        await app.remote("send", queue=queue).aenqueue(1)
    request = LeaseRequest(queues=("mail",), limit=2, worker="w", ttl=30, nonce=new_nonce())
    first, _ = (await store.lease(request)).leases
    await store.settle([(first, Finish(State.FAILED, error=ErrorInfo("ValueError", "no")))])
    await app.apause("reports")
    await store.record_history([HistoryWrite("mail", "send", {"failed": 9, "error:ValueError": 9})])
    return app


async def test_everything_is_read_once(app: App) -> None:
    reader = SnapshotReader(app.internals.session.store, app.url)
    reader.look(Looking(frozenset({"running", "failed"})))

    snapshot = await reader.read_all()

    assert [queue.name for queue in snapshot.queues] == ["mail", "reports"]
    assert [len(jobs or ()) for jobs in (snapshot.running, snapshot.failed, snapshot.jobs)] == [1, 1, 0]
    assert [each.kind for each in snapshot.attention or ()] == ["no_worker", "failing", "paused"]
    assert snapshot.store == "memory://"


class Counting:
    """A store that counts the calls, and fails while it is told to."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.calls: list[str] = []
        self.down = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if self.down:
                raise StoreUnavailable("connection refused")
            return await method(*args, **kwargs)

        return call


async def test_the_store_is_asked_at_most_twice_a_second(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = SnapshotReader(app.internals.session.store, app.url)
    reader._store = counting = Counting(reader._store)  # type: ignore[assignment]
    reader.look(Looking(frozenset({"running", "failed"})))
    slept: list[float] = []
    ticking = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: ticking[0])

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        ticking[0] += seconds
        if ticking[0] > 1060:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await reader.run(lambda topic: None)

    assert min(slept) >= PAUSE
    assert len(counting.calls) <= 121 + 1  # the layout, once
    assert counting.calls.count("queues") >= 40
    assert all(counting.calls.count(name) for name in ("workers", "search", "history", "schedules", "examine"))


async def test_a_slow_store_is_asked_less_often(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = SnapshotReader(app.internals.session.store, app.url)
    slept: list[float] = []

    async def slow(topic: str) -> None:
        reader._read_at[topic] = time.monotonic()
        end = time.perf_counter() + 0.1
        while time.perf_counter() < end:
            pass

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        raise asyncio.CancelledError

    monkeypatch.setattr(reader, "_read", slow)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await reader.run(lambda topic: None)

    assert slept[0] >= 2.0


async def test_a_store_that_goes_is_asked_until_it_is_back(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = SnapshotReader(app.internals.session.store, app.url)
    reader._store = counting = Counting(reader._store)  # type: ignore[assignment]
    problems: list[str] = []
    topics: list[str] = []
    sleeping = asyncio.sleep

    async def sleep(seconds: float) -> None:
        problems.append(reader.snapshot.problem)
        counting.down = 3 <= len(problems) < 6
        if len(problems) == 8:
            raise asyncio.CancelledError
        await sleeping(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await reader.run(topics.append)

    assert [bool(problem) for problem in problems] == [False] * 3 + [True] * 3 + [False] * 2
    assert problems[3] == "no answer from the store for 0 s, trying again: connection refused"
    assert len(reader.snapshot.queues) == 2  # what was read before stays
    assert topics.count("") == 3


async def test_rates_are_those_of_the_last_seconds(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    ticking = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: ticking[0])
    reader = SnapshotReader(app.internals.session.store, app.url)

    def read(at: float, ended: int) -> float | None:
        ticking[0] = 1000.0 + at
        rates = reader._rates([QueueInfo(name="mail", totals=Totals(succeeded=ended))])
        return None if rates is None else rates["mail"]

    assert read(0, 100) is None
    assert read(2, 120) == 10.0
    assert read(4, 120) == 5.0
    assert read(14, 120) == 0.0  # measured from the reading at 2 seconds on
    assert read(16, 60) == 0.0  # totals of a queue that was made anew


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (Pause("mail"), "paused mail"),
        (Pause("reports"), "reports is already paused"),
        (Resume("reports"), "resumed reports"),
        (Resume("mail"), "mail is not paused"),
        (RetryFailed("mail"), "put back 1 job of mail"),
        (RetryFailed("reports"), "put back 0 jobs of reports"),
        (Explain("nothing"), "nothing: no job is in line"),
    ],
)
async def test_an_order_is_carried_out(app: App, order: Request, message: str) -> None:
    assert (await act(app, order, Ui())).message == message


@pytest.mark.parametrize(
    ("order", "noted"),
    [
        (Pause("mail"), [("pause", "mail", 1)]),
        (Pause("reports"), []),
        (Resume("reports"), [("resume", "reports", 1)]),
        (Resume("mail"), []),
        (RetryFailed("mail"), [(*RETRY, 1), (*RETRY, None)]),
        (Explain("mail"), []),
    ],
)
async def test_what_an_order_changes_is_in_the_audit(
    app: App, order: Request, noted: list[tuple[str, str, int | None]]
) -> None:
    before = len((await app.aactions()).actions)

    await act(app, order, Ui())

    found = (await app.aactions()).actions
    assert [(each.what, each.target, each.count) for each in found[: len(found) - before]] == noted
    assert {(each.who, each.by) for each in found[: len(found) - before]} <= {(operator_name(), "top")}


def test_the_workers_are_shown_with_their_orders() -> None:
    workers = (
        a_worker("web-1", order=Order.QUIET, trouble="it is paused"),
        a_worker("web-2", order=Order.STOP),
        a_worker("web-3"),
    )
    shown = draw(replace(SNAPSHOT, workers=workers), 160, 24, Ui(view="workers")).plain.splitlines()

    lines = [next(line for line in shown if f"{worker.id} " in line) for worker in workers]
    assert "order: quiet, it is paused" in lines[0]
    assert "order: stop" in lines[1]
    assert "order" not in lines[2]


async def test_an_explanation_is_a_view(app: App) -> None:
    shown = await act(app, Explain("mail"), Ui())

    assert shown.view == "explain"
    assert "no live worker serves queue mail" in "\n".join(shown.explanation)


async def test_an_order_that_fails_is_a_message(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailable("connection refused")

    monkeypatch.setattr(app, "apause", fail)

    assert (await act(app, Pause("mail"), Ui())).message == "connection refused"


def test_every_topic_can_be_read() -> None:
    assert all(hasattr(SnapshotReader, f"_read_{topic}") for topic in INTERVALS)


# The command.


def test_once_prints_one_frame(tenure: Tenure) -> None:
    tenure("enqueue", "send", "--queue", "mail")

    shown = tenure("top", "--once")

    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("tenure top · sqlite:///")
    assert "! mail: 1 job in line, and no live worker serves the queue" in shown.stdout
    assert [line.split()[:2] for line in lines if line.startswith(" mail")] == [["mail", "1"]]
    assert "\x1b" not in shown.stdout


@pytest.mark.parametrize("environment", [{}, {"COLUMNS": "80"}, {"NO_COLOR": "1"}])
def test_a_pipe_gets_one_plain_frame(url: str, environment: dict[str, Any]) -> None:
    with App(url) as app:
        app.remote("send", queue="mail").enqueue(1)

    shown = run_process("top", "--url", url, **environment)

    assert (shown.returncode, shown.stderr) == (0, "")
    assert "\x1b" not in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= int(environment.get("COLUMNS", 120))
    assert "mail" in shown.stdout


def test_programs_get_one_object(tenure: Tenure) -> None:
    tenure("enqueue", "send", "--queue", "mail")

    shown = json.loads(tenure("top", "--once", "--json").stdout)

    assert [(queue["name"], queue["waiting"], queue["rate"]) for queue in shown["queues"]] == [("mail", 1, 0.0)]
    assert shown["summary"]["slots"] == 0
    assert shown["attention"][0]["kind"] == "no_worker"
    assert shown["problem"] is None


def test_a_store_that_was_never_used_is_refused(tenure: Tenure) -> None:
    answer = tenure("top", "--once")

    assert answer.exit_code == 2
    assert "has never been used" in answer.stderr
