"""`Ui`: what the operator has chosen in `tenure top`; `press` says what a key changes of it and what is to be done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from tenure.core.job import JobRecord
from tenure.jobs.snapshot import QueueFigures, Snapshot, figures_of
from tenure.stores.values import QueueInfo

__all__ = [
    "ORDERS", "Explain", "Pause", "Quit", "Request", "Resume", "RetryFailed", "Ui", "View", "press", "selected_job",
    "selected_queue", "shown_queues",
]  # fmt: skip

View = Literal["queues", "jobs", "failed", "workers", "explain", "help"]

ORDERS = ("name", "in line", "oldest", "rate", "failed")
"""What the queues can be sorted by."""

PAGE = 10
"""Lines that a page key moves."""


class Pause(msgspec.Struct, frozen=True):
    queue: str


class Resume(msgspec.Struct, frozen=True):
    queue: str


class RetryFailed(msgspec.Struct, frozen=True):
    """Retry all failed jobs of a queue."""

    queue: str


class Explain(msgspec.Struct, frozen=True):
    """Explain a job; without an id, the first job in line of the queue."""

    queue: str
    job: str | None = None


class Quit(msgspec.Struct, frozen=True):
    pass


Request = Pause | Resume | RetryFailed | Explain | Quit
"""What a key asks for beyond the screen."""


class Ui(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of a snapshot, and what the bottom line says."""

    view: View = "queues"
    queue: str | None = None
    """Name of the selected queue; None, or the name of one that is not shown: the first."""

    row: int = 0
    """The selected line of the other views."""

    order: int = 0
    filter: str = ""
    """Only queues whose name contains this are shown."""

    typing: str | None = None
    """The filter that is being typed; None if none is."""

    hold: bool = False
    """Whether the screen stays as it is."""

    question: str = ""
    """The question in the bottom line, and what its answer yes does."""

    asked: Request | None = None
    message: str = ""
    """What became of the last request, until the next key."""

    explanation: tuple[str, ...] = ()
    read_only: bool = False


# What is selected.


def shown_queues(snapshot: Snapshot, ui: Ui) -> list[QueueFigures]:
    """The queues that match the filter, in the chosen order."""
    wanted = (ui.filter if ui.typing is None else ui.typing).casefold()
    found = [each for each in figures_of(snapshot) if wanted in each.queue.name.casefold()]
    match ORDERS[ui.order]:
        case "in line":
            return sorted(found, key=lambda each: -each.queue.waiting)
        case "oldest":
            return sorted(found, key=lambda each: -(each.queue.oldest or 0.0))
        case "rate":
            return sorted(found, key=lambda each: -each.rate)
        case "failed":
            return sorted(found, key=lambda each: -each.failed)
    return found


def selected_queue(shown: Sequence[QueueFigures], ui: Ui) -> QueueInfo | None:
    """The selected one of the queues that are shown; the first one if that is not shown; None if none is."""
    queues = [each.queue for each in shown]
    return next((queue for queue in queues if queue.name == ui.queue), queues[0] if queues else None)


def selected_job(snapshot: Snapshot, ui: Ui) -> JobRecord | None:
    """The selected job of a list of jobs."""
    jobs = snapshot.jobs if ui.view in ("jobs", "failed") else None
    return jobs[min(ui.row, len(jobs) - 1)] if jobs else None


# Keys.


def press(ui: Ui, key: str, snapshot: Snapshot) -> tuple[Ui, Request | None]:
    """What is shown after this key, and what is to be done."""
    ui = replace(ui, message="")
    if ui.asked is not None:
        answered = replace(ui, asked=None, question="")
        return (answered, ui.asked) if key in ("y", "Y") else (replace(answered, message="nothing was done"), None)
    if ui.typing is not None:
        return _type(ui, key), None
    match key:
        case "q":
            return ui, Quit()
        case "escape" | "backspace" | "left":
            return _back(ui), None
        case "up" | "down" | "page up" | "page down" | "home" | "end" | "j" | "k":
            return _move(ui, key, snapshot), None
        case " ":
            return replace(ui, hold=not ui.hold), None
        case "?" | "h":
            return _view(ui, "help"), None
        case "w":
            return _view(ui, "workers"), None
        case "o" if ui.view == "queues":
            return replace(ui, order=(ui.order + 1) % len(ORDERS)), None
        case "/" if ui.view == "queues":
            return replace(ui, typing=ui.filter), None
    queue = selected_queue(shown_queues(snapshot, ui), ui)
    if queue is None or ui.view not in ("queues", "jobs", "failed"):
        return ui, None
    return _press_on(ui, key, queue, snapshot)


def _press_on(ui: Ui, key: str, queue: QueueInfo, snapshot: Snapshot) -> tuple[Ui, Request | None]:
    """Keys that are about the selected queue, or the selected job in it."""
    ui = replace(ui, queue=queue.name)
    match key:
        case "enter" | "right" if ui.view == "queues":
            return _view(ui, "jobs"), None
        case "enter" if (job := selected_job(snapshot, ui)) is not None:
            return ui, Explain(queue.name, job.id)
        case "f":
            return _view(ui, "failed"), None
        case "e":
            job = selected_job(snapshot, ui)
            return ui, Explain(queue.name, None if job is None else job.id)
        # Whether it is paused is up to a second old, so the store decides whether there is anything to change.
        case "p" | "u" | "r" if ui.read_only:
            return replace(ui, message="--read-only: nothing can be changed here"), None
        case "p":
            return _ask(ui, f"Pause {queue.name}, with {_jobs(queue.waiting)} in line?", Pause(queue.name)), None
        case "u":
            return _ask(ui, f"Resume {queue.name}, with {_jobs(queue.waiting)} in line?", Resume(queue.name)), None
        case "r" if not queue.failed:
            return replace(ui, message=f"{queue.name} has no failed jobs"), None
        case "r":
            return _ask(ui, f"Retry {_jobs(queue.failed, 'failed ')} of {queue.name}?", RetryFailed(queue.name)), None
    return ui, None


def _jobs(number: int, which: str = "") -> str:
    return f"{number:,} {which}{'job' if number == 1 else 'jobs'}"


def _ask(ui: Ui, question: str, request: Request) -> Ui:
    return replace(ui, question=question, asked=request)


def _view(ui: Ui, view: View) -> Ui:
    """Show a view; its key a second time shows the queues again."""
    return replace(ui, view="queues" if ui.view == view else view, row=0)


def _back(ui: Ui) -> Ui:
    """Close what is open; in the list of queues, drop the filter."""
    return replace(ui, view="queues", row=0) if ui.view != "queues" else replace(ui, filter="")


def _type(ui: Ui, key: str) -> Ui:
    typed = ui.typing or ""
    match key:
        case "enter":
            return replace(ui, filter=typed, typing=None)
        case "escape":
            return replace(ui, filter="", typing=None)
        case "backspace":
            return replace(ui, typing=typed[:-1])
        case _ if len(key) == 1 and key.isprintable():
            return replace(ui, typing=typed + key)
    return ui


def _move(ui: Ui, key: str, snapshot: Snapshot) -> Ui:
    if ui.view != "queues":
        return replace(ui, row=_moved(key, ui.row, _rows(ui, snapshot)))
    names = [each.queue.name for each in shown_queues(snapshot, ui)]
    if not names:
        return ui
    return replace(ui, queue=names[_moved(key, names.index(ui.queue) if ui.queue in names else 0, len(names))])


def _rows(ui: Ui, snapshot: Snapshot) -> int:
    lists: dict[View, Sequence[object]] = {
        "jobs": snapshot.jobs or (), "failed": snapshot.jobs or (), "workers": snapshot.workers, "explain": ui.explanation,
    }  # fmt: skip
    return len(lists.get(ui.view, ()))


def _moved(key: str, row: int, rows: int) -> int:
    by = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -PAGE, "page down": PAGE, "home": -rows, "end": rows}[key]
    return max(min(row + by, rows - 1), 0)
