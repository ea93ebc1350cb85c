"""`draw`: makes a frame from a snapshot, the size of the terminal and what the operator has chosen."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tenure.cli.display import duration
from tenure.cli.top.frame import Frame, Line, beside, clip, fit, sparkline, spread, width_of, wrapped
from tenure.cli.top.state import ORDERS, Ui
from tenure.cli.top.tables import LEVELS, age, job_panes, jobs_table, queues_table, rate, workers_table
from tenure.jobs.attention import Attention
from tenure.jobs.snapshot import Snapshot, Summary, summary_of

__all__ = ["PANES_FROM", "draw"]

PANES_FROM = 100
"""Columns from which on running and failed jobs are shown beside the queues."""

NOTICES, ONCE_NOTICES = 3, 20
"""Lines for what needs attention, at most; the second on a frame that is as long as it takes."""

KEYS = (
    ("p", "ause"), ("u", "npause"), ("enter", " jobs"), ("f", "ailed"), ("r", "etry failed"), ("e", "xplain"),
    ("w", "orkers"), ("o", "rder"), ("/", " filter"), ("space", " hold"), ("?", " help"), ("q", "uit"),
)  # fmt: skip
CHANGING = ("p", "u", "r")

HELP = """
up, down, j, k   select a queue, a job or a worker; page up, home and so on too
enter            list the jobs in line of the queue; on a job: explain it
f                list the failed jobs of the queue, the latest first
e                explain why the first in line, or the selected job, does not run
p, u             pause the queue, or resume it; asks first
r                retry all failed jobs of the queue; asks first
w                list the workers
o                sort the queues by name, jobs in line, age, rate or failures
/                show only queues whose name contains a text
space            hold the screen: nothing is read until space is pressed again
escape           go back
q, Ctrl-C        leave

IN LINE   jobs that wait for a worker     OLDEST  how long the first has been due
SCHED     jobs that are not due yet       RUN     jobs that run
/S        jobs that end, a second         FAIL/H  jobs that failed in the last hour
WAIT P95  95 % of the jobs that began lately had been due for no longer than this
""".strip("\n")


def draw(snapshot: Snapshot, width: int, height: int | None, ui: Ui) -> Frame:
    """The frame of this moment. `height` is that of the terminal; None: as many lines as it takes, without a line of keys."""
    head = [_title(snapshot, width, ui, once=height is None), _summary(summary_of(snapshot), width)]
    head += _notices(snapshot, width, ONCE_NOTICES if height is None else NOTICES if height >= 20 else 1)
    if height is None:
        return Frame([*head, *_body(snapshot, width, None, ui)], width)
    rows = max(height - len(head) - 1, 0)
    body = list(_body(snapshot, width, rows, ui))[:rows]
    body += [[]] * (rows - len(body))
    return Frame([*[*head, *body][: height - 1], _bottom(width, ui)], width)


# The first lines.


def _title(snapshot: Snapshot, width: int, ui: Ui, *, once: bool) -> Line:
    if snapshot.problem:
        return [(fit(f"tenure top · {snapshot.problem}", width), "bold white on red")]
    layout = "" if snapshot.layout is None else f" · layout {snapshot.layout}"
    clock = f"{datetime.fromtimestamp(snapshot.at).astimezone():%H:%M:%S}"
    chosen = [f"{ORDERS[ui.order]} first"] if ui.order else []
    chosen += [f"/{ui.filter}"] if ui.filter else []
    chosen += ["read-only"] if ui.read_only else []
    about = "".join(f" · {each}" for each in [clock, *chosen])
    right: Line = [] if once else [("? help  q quit", "dim")]
    if ui.hold:
        right = [(" HELD ", "reverse"), (" space goes on", "")]
    room = width - len("tenure top · ") - len(about) - len(layout) - width_of(right) - 2
    url = f" · {clip(snapshot.store, room)}{layout}" if room >= 10 else ""
    return spread([("tenure top", "bold"), (url, ""), (clip(about, width), "")], right, width)


def _summary(summary: Summary, width: int) -> Line:
    parts: list[tuple[str, str]] = [(f"{rate(summary.rate)}/s finished", "bold")]
    if summary.failed_share is not None:
        parts.append((f"{summary.failed_share * 100:.2g} % failed", "bold red" if summary.failed_share > 0.05 else ""))
    if summary.wait is not None:
        parts.append((f"wait p95 {duration(summary.wait)}", ""))
    parts.append((f"oldest {age(summary.oldest)}", ""))
    parts.append((f"{summary.busy:,}/{summary.slots:,} slots", ""))
    parts.append((f"{summary.workers:,} {'worker' if summary.workers == 1 else 'workers'}", ""))
    if summary.missing:
        parts.append((f"{summary.missing:,} missing", "yellow"))
    line: Line = []
    for text, style in parts:
        gap = "   " if line else " "
        if width_of(line) + len(gap) + len(text) > width:
            break
        line += [(gap, ""), (text, style)]
    bars = sparkline(summary.finished)
    return spread(line, [(bars, "cyan"), (" 1h", "dim")] if bars.strip() else [], width)


def _notices(snapshot: Snapshot, width: int, most: int) -> list[Line]:
    found = snapshot.attention
    if not found:
        return [[(" …" if found is None else " nothing needs attention", "dim")]]
    if most == 1:
        rest = f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
        style = LEVELS[found[0].level.value]
        return [[(" ! ", style), (clip(found[0].sentence, max(width - 3 - len(rest), 0)), style), (rest, "dim")]]
    shown = found if len(found) <= most else found[: most - 1]
    lines = [_notice(each, width) for each in shown]
    if more := len(found) - len(shown):
        lines.append([(f" ! {more:,} more", "yellow"), (": tenure health lists them", "dim")])
    return lines


def _notice(each: Attention, width: int) -> Line:
    style = LEVELS[each.level.value]
    line: Line = [(" ! ", style), (clip(each.sentence, width - 3), style)]
    room = width - width_of(line) - 3
    return [*line, (f"   {clip(each.advice, room)}", "dim")] if room > 20 else line


# The body.


def _body(snapshot: Snapshot, width: int, rows: int | None, ui: Ui) -> Iterator[Line]:
    match ui.view:
        case "queues" if width >= PANES_FROM:
            left = min(max(width // 2 + 6, 64), 96)
            queues = list(queues_table(snapshot, left, rows, ui))
            jobs = list(job_panes(snapshot, width - left - 2, max(len(queues), 12) if rows is None else rows))
            for number in range(max(len(queues), len(jobs))):
                first, second = (side[number] if number < len(side) else [] for side in (queues, jobs))
                yield beside(first, second, left)
        case "queues":
            yield from queues_table(snapshot, width, rows, ui)
        case "jobs" | "failed":
            yield from jobs_table(snapshot, width, rows, ui)
        case "workers":
            yield from workers_table(snapshot, width, rows, ui)
        case "explain":
            lines = [
                line
                for text in ui.explanation
                for line in wrapped(text, width - 2, "  " if text.startswith("  ") else "")
            ]
            yield from ([(f" {line}", "")] for line in lines[: None if rows is None else rows])
        case "help":
            yield from ([(f" {line}", "")] for line in HELP.split("\n"))


# The last line.


def _bottom(width: int, ui: Ui) -> Line:
    if ui.asked is not None:
        return [(clip(f" {ui.question}", width - 7), "bold"), ("  y / n", "bold cyan")]
    if ui.typing is not None:
        return [
            (" queues with ", "dim"),
            (f"/{clip(ui.typing, max(width - 50, 8))}", "bold"),
            ("█", ""),
            ("  enter keeps it, escape drops it", "dim"),
        ]
    if ui.message:
        return [(fit(f" {ui.message}", width), "bold")]
    if ui.view in ("explain", "help", "workers"):
        return [(" escape", "bold cyan"), (" goes back", "dim")]
    line: Line = []
    for key, rest in KEYS:
        if (ui.read_only and key in CHANGING) or (ui.view != "queues" and key in ("o", "/", "space")):
            continue
        if width_of(line) + len(key) + len(rest) + 3 > width:
            break
        line += [(" [", "dim"), (key, "bold cyan"), ("]", "dim"), (rest, "dim")]
    return line
