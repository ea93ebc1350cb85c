"""What a worker's log says of attempts that have failed: with the traceback, in every lane and every form."""

from __future__ import annotations

import io
import json
import logging
import traceback

import pytest

from tenure import App, Context, Fail
from tenure.core.job import new_id
from tenure.errors import JobFailed
from tenure.observe.log_lines import Lines
from tests.faults.scale import on
from tests.worker.conftest import MakeApp, Start, whatever_the_store
from tests.worker.hooked import a_task, lanes

RUDE = 'no good\n\x1b[2J it\'s "so"'


def boom() -> None:
    try:
        dict[str, str]()["missing"]
    except KeyError as error:
        raise ValueError(RUDE) from error


async def run_out(app: App, start: Start, lane: str, function: object = boom, **options: object) -> str:
    """Run a job of this function until it has failed; its id."""
    task = a_task(app, lane, function, **options)  # type: ignore[arg-type]
    worker = await start(app)
    job = await task.aenqueue()
    with pytest.raises(JobFailed):
        await job.aresult(timeout=20)
    await worker.stop()  # it may learn later than this test that its settle was done
    await app.internals.audience.listeners.aflush()
    return job.id


def a_logger() -> logging.Logger:
    """A logger that nobody else has, whose records go nowhere else."""
    made = logging.getLogger(f"shop.{new_id()}")
    made.propagate = False
    made.setLevel(logging.INFO)
    return made


def of_jobs(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "tenure.jobs"]


@on("memory")
@lanes
async def test_the_last_failed_attempt_is_logged_with_its_traceback(
    single_try_app: App, start: Start, lane: str, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = await run_out(single_try_app, start, lane)

    [record] = [each for each in of_jobs(caplog) if each.levelno == logging.ERROR]
    assert record.getMessage().endswith('ValueError: no good\\n\\x1b[2J it\'s "so"')
    assert f"job {job_id}" in record.getMessage()
    written = logging.Formatter().format(record)
    assert "in boom" in written
    assert "KeyError: 'missing'" in written
    assert "tenure/worker/executor.py" not in written
    assert record.exc_info is not None
    kind, error, frames = record.exc_info
    assert kind is not None
    assert (kind.__name__, str(error)) == ("ValueError", RUDE)
    if lane.startswith("process"):  # whose exceptions are of another process: what it wrote of them is the cause
        assert "in boom" in "".join(traceback.format_exception(error))
    else:
        assert isinstance(error, ValueError)
        assert [frame.name for frame in traceback.extract_tb(frames)][-1] == "boom"


@whatever_the_store
@lanes
async def test_earlier_attempts_have_theirs_at_debug(
    retrying_app: App, start: Start, lane: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="tenure.jobs")
    await run_out(retrying_app, start, lane, max_attempts=2)

    failed = [each for each in of_jobs(caplog) if "failed" in each.getMessage() or "again" in each.getMessage()]
    assert [(each.levelno, each.exc_info is not None) for each in failed] == [
        (logging.WARNING, False),
        (logging.ERROR, True),
    ]
    [earlier] = [each for each in of_jobs(caplog) if each.getMessage().startswith("traceback of job")]
    assert earlier.levelno == logging.DEBUG
    assert earlier.getMessage().endswith("of task job, attempt 1")
    assert "in boom" in logging.Formatter().format(earlier)


@whatever_the_store
async def test_they_are_not_shown_above_debug(
    retrying_app: App, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="tenure.jobs")
    await run_out(retrying_app, start, "loop", max_attempts=3)
    assert [each.exc_info is not None for each in of_jobs(caplog)] == [False, False, True]


@whatever_the_store
@lanes
@pytest.mark.parametrize("form", ["human", "json"])
async def test_the_lines_that_a_worker_writes_have_it(make_app: MakeApp, start: Start, lane: str, form: str) -> None:
    logger, stream = a_logger(), io.StringIO()
    logger.addHandler(Lines(form, stream))
    app = make_app(retry=None, log=logger)

    await run_out(app, start, lane)

    head, *rest = stream.getvalue().rstrip("\n").split("\n")
    assert "\x1b" not in stream.getvalue()
    if form == "json":
        assert rest == []
        said = json.loads(head)
        assert (said["event"], said["error"]["type"]) == ("failed", "ValueError")
        trace = said["exception"]
    else:
        assert " ERROR " in head
        assert all(line.startswith("    ") for line in rest)
        trace = "\n".join(rest)
    assert "in boom" in trace
    assert "KeyError: 'missing'" in trace


@whatever_the_store
async def test_handlers_with_other_formatters_are_given_the_traceback_as_it_is(make_app: MakeApp, start: Start) -> None:
    logger, ours, theirs = a_logger(), io.StringIO(), io.StringIO()
    logger.addHandler(Lines("human", ours))
    logger.addHandler(logging.StreamHandler(theirs))

    await run_out(make_app(retry=None, log=logger), start, "loop")

    assert "\n    Traceback (most recent call last):\n" in ours.getvalue()
    assert "\nTraceback (most recent call last):\n" in theirs.getvalue()


@whatever_the_store
async def test_an_answer_is_logged_with_what_it_was_raised_from(
    single_try_app: App, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    def answer() -> None:
        try:
            boom()
        except ValueError as error:
            raise Fail("not today") from error

    await run_out(single_try_app, start, "loop", answer)
    [record] = of_jobs(caplog)
    written = logging.Formatter().format(record)
    assert written.split("\n")[0].endswith("Fail: not today")
    assert "in boom" in written


@whatever_the_store
async def test_exceptions_do_not_outlive_their_settlement(single_try_app: App, start: Start) -> None:
    await run_out(single_try_app, start, "loop")
    await run_out(single_try_app, start, "thread", name="other")
    assert single_try_app.internals.audience.failures == {}


@whatever_the_store
async def test_a_timeout_says_where_the_function_was(
    single_try_app: App, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    @single_try_app.task(timeout=0.05)
    async def sleeps(ctx: Context) -> None:
        import asyncio

        await asyncio.sleep(30)

    await start(single_try_app)
    job = await sleeps.aenqueue()
    with pytest.raises(JobFailed):
        await job.aresult(timeout=20)
    await single_try_app.internals.audience.listeners.aflush()
    [record] = of_jobs(caplog)
    assert record.exc_info is not None
    assert record.exc_info[0] is TimeoutError
    assert "in sleeps" in logging.Formatter().format(record)
