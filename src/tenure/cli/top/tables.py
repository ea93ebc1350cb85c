"""Tables of `tenure top`: `queues_table`, `jobs_table`, `workers_table`, and running and failed jobs in `job_panes`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from tenure.cli.display import duration, size
from tenure.cli.top.frame import Line, clip, fit, width_of
from tenure.cli.top.state import Ui, selected_queue, shown_queues
from tenure.core.job import JobRecord
from tenure.jobs.snapshot import QueueFigures, Snapshot
from tenure.stores.values import WorkerInfo

__all__ = ["LEVELS", "age", "count", "job_panes", "jobs_table", "queues_table", "rate", "workers_table"]

T = TypeVar("T")

SPLIT_BELOW = 60
"""Columns below which a queue takes two lines."""

LEVELS = {"bad": "bold red", "warn": "yellow"}
"""Styles of what needs attention."""

COLUMNS: tuple[tuple[str, int, int], ...] = (
    ("IN LINE", 8, 0), ("OLDEST", 7, 0), ("SCHED", 6, 64), ("RUN", 6, 0), ("/S", 6, 0), ("FAIL/H", 7, 0), ("WAIT P95", 9, 64),
)  # fmt: skip
"""Title of each column, its width, and the width of the table from which on it is shown."""


def queues_table(snapshot: Snapshot, width: int, rows: int | None, ui: Ui) -> Iterator[Line]:
    queues = shown_queues(snapshot, ui)
    chosen = selected_queue(queues, ui)
    selected = None if rows is None or chosen is None else chosen.name
    if width < SPLIT_BELOW:
        room = None if rows is None else rows // 2
        for each in _window(queues, room, [each.queue.name for each in queues], selected):
            yield from _two_lines(each, width, selected=each.queue.name == selected)
        return
    columns = [(title, wide) for title, wide, least in COLUMNS if width >= least]
    name = width - 1 - sum(wide for _, wide in columns)
    yield [(" " + fit("QUEUE", name) + "".join(fit(title, wide, "right") for title, wide in columns), "bold dim")]
    room = None if rows is None else max(rows - 1, 0)
    for each in _window(queues, room, [each.queue.name for each in queues], selected):
        yield _queue_line(each, name, columns, selected=each.queue.name == selected)
    if not queues:
        yield [(" no queue has had a job yet" if not snapshot.queues else " no queue matches the filter", "dim")]
    if snapshot.more and rows is None:
        yield [(f" only the first {len(snapshot.queues):,} queues by name are shown", "dim")]


def _queue_line(each: QueueFigures, name: int, columns: Sequence[tuple[str, int]], *, selected: bool) -> Line:
    queue = each.queue
    values: dict[str, tuple[int | str, float | None]] = {
        "IN LINE": (queue.waiting, queue.waiting),
        "OLDEST": (age(queue.oldest), queue.oldest),
        "SCHED": (queue.scheduled, queue.scheduled),
        "RUN": (queue.running, queue.running),
        "/S": (rate(each.rate), each.rate),
        "FAIL/H": (each.failed, each.failed),
        "WAIT P95": (age(each.wait), each.wait),
    }
    plain = "reverse" if selected else ""
    title = f"{queue.name} ⏸" if queue.paused else queue.name
    if queue.paused and len(title) > name:
        title = f"{fit(queue.name, name - 2)} ⏸"
    named = LEVELS.get(each.level, "yellow" if queue.paused else "")
    line: Line = [("▸" if selected else " ", plain), (fit(title, name), f"{named} {plain}".strip())]
    for column, wide in columns:
        text, value = values[column]
        style = "bold red" if column == "FAIL/H" and value else "" if value else "dim"
        shown = count(text, wide - 1) if isinstance(text, int) else text
        line.append((fit(shown, wide, "right"), f"{style} {plain}".strip()))
    return line


def _two_lines(each: QueueFigures, width: int, *, selected: bool) -> Iterator[Line]:
    queue, style = each.queue, "reverse" if selected else ""
    named = LEVELS.get(each.level, "")
    mark = " ⏸" if queue.paused else ""
    yield [("▸" if selected else " ", style), (fit(queue.name + mark, width - 1), f"{named} {style}".strip())]
    parts = [
        f"{queue.waiting:,} in line",
        f"oldest {age(queue.oldest)}",
        f"{queue.running:,} run",
        f"{rate(each.rate)}/s",
    ]
    parts += [f"{each.failed:,} failed/h"] if each.failed else []
    yield [(f"   {fit(', '.join(parts), width - 3)}", "dim")]


def job_panes(snapshot: Snapshot, width: int, rows: int) -> Iterator[Line]:
    """Running and failed jobs, one below the other."""
    running, ended = snapshot.running or (), snapshot.failed or ()
    failed = min(len(ended), max(rows // 3, 1)) if ended else 0
    room = max(rows - 1 - (failed + 2 if failed else 0), 0)
    name = max(width - 7 - 15, 8)
    places = {worker.id: f"{worker.host}:{worker.pid}" for worker in snapshot.workers}
    yield [(fit("RUNNING", name) + fit("FOR", 7, "right") + "  " + fit("WHERE", 13), "bold dim")]
    if not running:
        yield [("…" if snapshot.running is None else "no job runs", "dim")]
    for job in running[:room]:
        since = "" if job.started_at is None else age(max(snapshot.running_at - job.started_at, 0.0))
        percent = None if job.progress is None else job.progress.percent
        yield [
            (fit(_named(job, name - 6), name - 6), ""),
            (fit("" if percent is None else f"{percent:.0f} %", 6, "right"), "cyan"),
            (fit(since, 7, "right"), ""),
            ("  " + fit(places.get(job.worker or "", job.worker or ""), 13), "dim"),
        ]
    if failed:
        yield []
        wide = max(width - 7, 8)
        yield [(fit("FAILED", wide) + fit("AGO", 7, "right"), "bold dim")]
        for job in ended[:failed]:
            error = "" if job.error is None else f"{job.error.type}: {job.error.message}"
            ago = "" if job.ended_at is None else age(max(snapshot.now - job.ended_at, 0.0))
            task = clip(job.task, wide // 2)
            yield [
                (task + " ", ""),
                (fit(error, wide - width_of([(task, "")]) - 1), "red"),
                (fit(ago, 7, "right"), "dim"),
            ]


def _named(job: JobRecord, width: int) -> str:
    """Its task, and the beginning of its id if there is room for it."""
    short = job.id[:18]
    return f"{job.task} {short}" if len(job.task) + 1 + len(short) <= width else job.task


def jobs_table(snapshot: Snapshot, width: int, rows: int | None, ui: Ui) -> Iterator[Line]:
    what, jobs = "failed jobs" if ui.view == "failed" else "jobs in line and scheduled", snapshot.jobs or ()
    yield [(fit(f" {what} of {ui.queue}", width), "bold")]
    rest = width - 1 - 24 - 5 - 8
    task = min(max(rest // 2, 10), 30)
    titles = fit("ID", 24) + fit("TASK", task) + fit("TRY", 5, "right") + fit("AGE", 8, "right")
    yield [(" " + titles + "  " + fit("", max(rest - task - 2, 0)), "bold dim")]
    if not jobs:
        yield [(" …" if snapshot.jobs is None else " there are none", "dim")]
    selected = min(ui.row, len(jobs) - 1)
    numbers = list(range(len(jobs)))
    for number in _window(numbers, None if rows is None else rows - 2, numbers, selected):
        job = jobs[number]
        style = "reverse" if number == selected else ""
        since = job.ended_at if ui.view == "failed" else job.run_at or job.created_at
        error = "" if job.error is None else f"{job.error.type}: {job.error.message}"
        cells = (
            fit(job.id[:23], 24)
            + fit(job.task, task)
            + fit(job.attempt, 5, "right")
            + fit(_distance(since, snapshot.now), 8, "right")
        )
        yield [
            ("▸" if style else " ", style),
            (cells, style),
            ("  " + fit(error, max(rest - task - 2, 0)), f"red {style}".strip()),
        ]


def workers_table(snapshot: Snapshot, width: int, rows: int | None, ui: Ui) -> Iterator[Line]:
    name = max((width - 1 - 6 * 9) * 2 // 3, 12)
    served = max(width - 1 - 6 * 9 - name - 1, 0)
    titles = ("BUSY", "MEMORY", "UP", "HEARD", "DONE", "FAILED")
    yield [
        (
            " " + fit("WORKER", name) + " " + fit("QUEUES", served) + "".join(fit(each, 9, "right") for each in titles),
            "bold dim",
        )
    ]
    if not snapshot.workers:
        yield [(" no worker is registered", "dim")]
    numbers = list(range(len(snapshot.workers)))
    selected = min(ui.row, len(numbers) - 1)
    for number in _window(numbers, None if rows is None else rows - 1, numbers, selected):
        worker = snapshot.workers[number]
        style = "reverse" if number == selected else ""
        ordered = "" if worker.order == "go_on" else f"order: {worker.order}"
        state = "yellow" if worker.missing or ordered else "bold red" if worker.trouble else ""
        cells = "".join(fit(each, 9, "right") for each in _worker_cells(worker, snapshot.now))
        wrong = ", ".join(filter(None, [ordered, worker.trouble or ("missing" if worker.missing else "")]))
        yield [
            ("▸" if style else " ", style),
            (fit(worker.id, name) + " ", f"{state} {style}".strip()),
            (fit(wrong or ",".join(worker.queues), served), f"{state} {style}".strip()),
            (cells, style),
        ]


def _worker_cells(worker: WorkerInfo, now: float) -> tuple[str, ...]:
    return (
        f"{worker.held:,}/{worker.concurrency:,}",
        size(worker.memory) if worker.memory else "",
        duration(max(now - worker.started_at, 0.0)),
        duration(worker.silent_for),
        f"{worker.totals.processed:,}",
        f"{worker.totals.failed:,}",
    )


# Cells.


def _window(items: Sequence[T], rows: int | None, keys: Sequence[object], selected: object) -> Sequence[T]:
    """The part of a list that has the selected item in it, about in the middle."""
    if rows is None or len(items) <= rows:
        return items
    at = keys.index(selected) if selected in keys else 0
    first = max(min(at - rows // 2, len(items) - rows), 0)
    return items[first : first + max(rows, 0)]


def count(number: int, width: int) -> str:
    """A number; in thousands or millions if it is wider than this."""
    text = f"{number:,}"
    if len(text) <= width:
        return text
    return f"{number / 1e3:.0f}k" if number < 999_500 else f"{number / 1e6:.3g}M"


def _distance(at: float | None, now: float) -> str:
    return "" if at is None else age(now - at) if now >= at else f"in {age(at - now)}"


def age(seconds: float | None) -> str:
    return "–" if seconds is None else duration(seconds)


def rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 or not rate else f"{rate:.1f}" if rate >= 0.05 else "<0.1"
