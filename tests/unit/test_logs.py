"""What happens to jobs, in the log: at which level, in which words, as lines that nothing can forge."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import Literal

import pytest

from tenure import App, current, events
from tenure.core.job import ErrorInfo, new_id
from tenure.events import Event
from tenure.observe.log_lines import BOUND, FORMATS, Bound, Human, Json, Lines, bind
from tenure.observe.logs import LEVELS, Logs, line_of

AT = 1_700_000_000.25
HOSTILE = "two\nlines \x1b[2J \x9b \u202e \u2028 \ud800 \U000e0001"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger that nobody else has, whose records go nowhere else."""
    made = logging.getLogger(f"test.{new_id()}")
    made.propagate = False
    made.setLevel(logging.DEBUG)
    yield made
    made.handlers = []


def succeeded(duration: float | None = 0.25) -> Event:
    return events.Succeeded(AT, "j1", "send", "mail", attempt=2, worker="w", duration=duration)


def tell(logs: Logs, happened: Sequence[Event]) -> None:
    prepared = logs.prepare(happened)
    assert prepared is not None
    logs.take([prepared])


def written(logger: logging.Logger, form: str, *happened: Event) -> list[str]:
    """The lines that events become through Tenure's own handler, which writes them together."""
    stream = io.StringIO()
    logger.handlers = [Lines(form, stream)]  # without pytest's own
    assert Lines.only(logger) is not None
    tell(Logs(logger), happened)
    return stream.getvalue().split("\n")[:-1]


class Kept(logging.Handler):
    """A handler of the user's, which keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def test_every_kind_of_event_has_a_line_or_is_told_by_the_worker_itself() -> None:
    silent = {kind for kind in events.KINDS.values() if kind not in LEVELS}
    assert silent == {events.LeaseLost, events.Fenced, events.WorkerRetired, events.WorkerPruned}


def test_a_job_that_has_ended_is_one_line_and_everything_else_is_for_those_who_look_for_it() -> None:
    ended: set[type[Event]] = {
        events.Succeeded,
        events.Completed,
        events.Cancelled,
        events.Expired,
        events.Failed,
        events.Broken,
    }
    assert {kind for kind in ended if LEVELS[kind] < logging.INFO} == set()
    louder = {kind for kind, level in LEVELS.items() if level >= logging.INFO} - ended
    of_schedules: set[type[Event]] = {events.ScheduleSkipped, events.ScheduleChanged}
    assert {LEVELS[kind] for kind in of_schedules} == {logging.INFO}
    louder -= of_schedules
    assert louder == {events.Retried, events.Reoffered, events.Lost, events.WorkerMissing}
    assert {LEVELS[kind] for kind in louder} == {logging.WARNING}


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (succeeded(), "job j1 of task send succeeded, attempt 2, in 250 ms"),
        (succeeded(duration=None), "job j1 of task send succeeded, attempt 2"),
        (
            events.Failed(AT, "j1", "send", attempt=1, duration=2.5, error=ErrorInfo("ValueError", "a\nb")),
            r"job j1 of task send ended as failed, attempt 1, in 2.500 s: ValueError: a\nb",
        ),
        (events.Failed(AT, "j1", "send"), "job j1 of task send ended as failed: tenure job j1 says why"),
        (
            events.Retried(AT, "j1", "send", attempt=1, error=ErrorInfo("Retry", "later"), delay=30.0),
            "job j1 of task send runs again in 30 s, attempt 1: Retry: later",
        ),
        (events.Lost(AT, "j1", "send", worker="w", losses=2), "job j1 of task send was lost by worker w, loss 2"),
        (events.QueuePaused(AT, "mail"), "queue paused: queue mail"),
        (
            events.ScheduleFired(AT, "nightly", 1.7e9, "j1", "send", "mail", 0.25),
            "schedule nightly enqueued job j1 of task send for 2023-11-14 22:13:20 UTC, 250 ms late",
        ),
        (
            events.ScheduleSkipped(AT, "nightly", 1.7e9, "skipped", "j1"),
            "schedule nightly enqueued nothing for 2023-11-14 22:13:20 UTC: its last job is not final (job j1)",
        ),
        (
            events.ScheduleSkipped(AT, "nightly", 1.7e9, "duplicate", "j1"),
            "schedule nightly enqueued nothing for 2023-11-14 22:13:20 UTC: another job owns the unique key (job j1)",
        ),
        (
            events.ScheduleSkipped(AT, "nightly", 1.7e9, "missed"),
            "schedule nightly enqueued nothing for 2023-11-14 22:13:20 UTC: it was not fired in time",
        ),
        (
            events.ScheduleSkipped(AT, "nightly", 1.7e9, "refused"),
            "schedule nightly enqueued nothing for 2023-11-14 22:13:20 UTC: a before_enqueue hook refused it",
        ),
        (events.ScheduleChanged(AT, "nightly", "created"), "schedule nightly was created"),
    ],
)
def test_what_a_line_says(event: Event, line: str) -> None:
    assert line_of(event)[2] == line


@pytest.mark.parametrize("form", FORMATS)
def test_one_event_is_one_line_whatever_is_in_it(logger: logging.Logger, form: str) -> None:  # I22
    hostile = events.Failed(AT, HOSTILE, HOSTILE, HOSTILE, worker=HOSTILE, error=ErrorInfo(HOSTILE, HOSTILE))

    [line] = written(logger, form, hostile)

    assert line.isprintable()
    if form == "json":
        assert json.loads(line)["task"] == HOSTILE


def test_lines_for_people_have_time_level_and_logger(logger: logging.Logger) -> None:
    [line] = written(logger, "human", succeeded())
    record = logger.makeRecord(logger.name, logging.INFO, "", 0, line_of(succeeded())[2], (), None)
    record.created = AT
    assert line == Human().format(record)
    assert line.endswith(f" INFO    {logger.name}  job j1 of task send succeeded, attempt 2, in 250 ms")


def test_json_has_what_the_event_says(logger: logging.Logger) -> None:
    [line] = written(logger, "json", succeeded())
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z", "level": "info", "logger": logger.name,
        "message": "job j1 of task send succeeded, attempt 2, in 250 ms",
        "event": "succeeded", "job_id": "j1", "task": "send", "queue": "mail", "attempt": 2, "worker": "w", "duration": 0.25,
    }  # fmt: skip


def test_levels_decide_what_is_written_and_what_is_wanted(logger: logging.Logger) -> None:
    logger.setLevel(logging.WARNING)
    retried = events.Retried(AT, "j1", "send")
    assert Logs(logger).wants() & (events.Retried.bit | events.Succeeded.bit) == events.Retried.bit
    assert len(written(logger, "human", succeeded(), retried, events.Enqueued(AT, "j2"))) == 1
    logger.setLevel(logging.CRITICAL)
    assert Logs(logger).wants() == 0


def test_handlers_of_the_users_get_records_with_the_events_time_and_fields(logger: logging.Logger) -> None:
    kept = Kept()
    logger.addHandler(kept)
    tell(Logs(logger), [succeeded()])
    [record] = kept.records
    assert (record.getMessage(), record.levelno, record.created) == (line_of(succeeded())[2], logging.INFO, AT)
    fields = vars(record)
    assert {name: fields[name] for name in ("event", "job_id", "task", "queue", "attempt", "worker", "duration")} == {
        "event": "succeeded", "job_id": "j1", "task": "send", "queue": "mail", "attempt": 2, "worker": "w", "duration": 0.25,
    }  # fmt: skip


def test_what_anybody_else_looks_at_is_not_written_past_them(logger: logging.Logger) -> None:
    lines, kept = Lines("human", io.StringIO()), Kept()
    logger.handlers = [lines]  # without pytest's own
    assert Lines.only(logger) is lines
    logger.addHandler(kept)
    assert Lines.only(logger) is None
    logger.removeHandler(kept)
    lines.addFilter(lambda record: False)
    assert Lines.only(logger) is None
    lines.removeFilter(lines.filters[-1])
    lines.setFormatter(logging.Formatter())
    assert Lines.only(logger) is None


def test_a_record_of_the_users_as_json(logger: logging.Logger) -> None:
    try:
        raise ValueError("no\nway")
    except ValueError:
        record = logger.makeRecord(
            "shop", logging.ERROR, "", 0, "paid %s", ("€5 \x1b",), sys.exc_info(), extra={"order": 7, "who": object}
        )
    Bound().filter(record)

    line = Json().format(record)

    document = json.loads(line)
    assert line.isprintable()
    assert (document["message"], document["order"], document["who"]) == ("paid €5 \x1b", 7, "<class 'object'>")
    assert document["exception"].endswith("ValueError: no\nway")
    assert not document.keys() & set(BOUND)


@pytest.mark.parametrize("extra", [{"task": "their own"}, {}])
async def test_records_made_in_a_job_say_which(logger: logging.Logger, extra: dict[str, str]) -> None:
    kept = Kept()
    bind(kept)
    bind(kept)
    assert len(kept.filters) == 1
    logger.addHandler(kept)
    app = App(f"memory://{new_id()}")

    @app.task
    async def on_loop() -> None:
        logger.warning("on the loop", extra=extra)

    @app.task
    def in_thread() -> str:
        logger.warning("in a thread", extra=extra)
        return current().worker_id

    logger.warning("outside", extra=extra)
    jobs = await app.aenqueue(on_loop.bind(), in_thread.bind())
    async with app.worker():
        await jobs[0].aresult(timeout=10)
        worker = await jobs[1].aresult(timeout=10)
    await app.aclose()
    outside, *inside = [vars(record) for record in kept.records]
    assert [outside[name] for name in ("job_id", "attempt", "worker")] == ["", "", ""]
    assert [[record[name] for name in BOUND] for record in inside] == [
        [job.id, extra.get("task", job.task), 1, worker] for job in jobs
    ]


def test_people_see_the_job_once(logger: logging.Logger) -> None:
    record = logger.makeRecord(
        "shop", logging.INFO, "", 0, "paid", (), None, extra={"job_id": "j1", "task": "t", "attempt": 1}
    )
    assert Human("%(message)s").format(record) == "paid  [t #1 j1]"
    record = logger.makeRecord("x", logging.INFO, "", 0, "t j1 #1: paid", (), None, extra={"job_id": "j1", "task": "t"})
    assert Human("%(message)s").format(record) == "t j1 #1: paid"


async def test_an_app_logs_through_another_logger_or_none(logger: logging.Logger) -> None:
    kept = Kept()
    logger.addHandler(kept)
    loggers: tuple[logging.Logger | Literal[False], ...] = (logger, False)
    for log in loggers:
        app = App(f"memory://{new_id()}", log=log)
        job = await app.remote("t").aenqueue()
        await job.acancel()
        await app.aclose()
    assert [record.getMessage() for record in kept.records if record.levelno >= logging.INFO] == [
        f"job {kept.records[0].__dict__['job_id']} of task t was cancelled"
    ]
