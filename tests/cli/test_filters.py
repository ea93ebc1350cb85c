"""Filters on the command line: which jobs `jobs`, `failed` and `cancel` list and act on."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure.cli.messages import CommandError
from tenure.cli.values import Ago
from tenure.core.job import ErrorInfo, State
from tenure.core.lifecycle import Finish
from tenure.stores.base import Store
from tenure.stores.values import LeaseRequest

from .conftest import Tenure, document
from .test_workers import with_store

Ids = dict[str, str]


@pytest.fixture
def ids(tenure: Tenure, url: str) -> Ids:
    """The ids of jobs: two failed ones, one that runs, one in line and one that is scheduled."""

    def enqueued(*arguments: str) -> str:
        return tenure("enqueue", "send", *arguments).stdout.strip()

    async def end(store: Store, worker: str, error: ErrorInfo | None) -> None:
        request = LeaseRequest(queues=("default",), limit=1, worker=worker, ttl=600, nonce=1)
        [lease] = (await store.lease(request)).leases
        if error is not None:
            await store.settle([(lease, Finish(State.FAILED, error=error))])

    found = {}
    for name, argument, worker, error in (
        ("timeout", '"Ann"', "one", ErrorInfo("TimeoutError", "no answer of 10.0.0.1")),
        ("refused", '"Bob"', "two", ErrorInfo("ConnectionError", "refused")),
        ("running", '"Cid"', "two", None),
    ):
        found[name] = enqueued(argument)
        with_store(url, functools.partial(end, worker=worker, error=error))
    found["in line"] = enqueued('"Dan"')
    found["scheduled"] = enqueued('"Eve"', "--delay", "600")
    return found


def listed(tenure: Tenure, ids: Ids, *arguments: str) -> set[str]:
    names = {job_id: name for name, job_id in ids.items()}
    return {names[job["id"]] for job in document(tenure(*arguments, "--json"))["jobs"]}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["jobs", "--error", "TimeoutError"], {"timeout"}),
        (["jobs", "--text", "Bob"], {"refused"}),
        (["jobs", "--text", "bob"], set()),
        (["jobs", "--text", "10.0.0.1"], {"timeout"}),
        (["jobs", "--worker", "two"], {"refused", "running"}),
        (["jobs", "--worker", "two", "--state", "running"], {"running"}),
        (["jobs", "--scheduled"], {"scheduled"}),
        (["jobs", "--in-line"], {"in line"}),
        (["jobs", "--state", "waiting"], {"in line", "scheduled"}),
        (["jobs", "--before", "0s", "--state", "failed"], {"timeout", "refused"}),
        (["jobs", "--before", "2h", "--state", "failed"], set()),
        (["failed"], {"timeout", "refused"}),
        (["failed", "--error", "ConnectionError"], {"refused"}),
        (["failed", "--text", "Ann", "--worker", "one"], {"timeout"}),
        (["failed", "--before", "2999-01-01T00:00Z"], {"timeout", "refused"}),
        (["failed", "--before", "2020-01-01T00:00+02:00"], set()),
        (["broken", "--before", "2999-01-01T00:00Z"], set()),
    ],
)
def test_jobs_are_listed_by_filters(tenure: Tenure, ids: Ids, arguments: list[str], found: set[str]) -> None:
    assert listed(tenure, ids, *arguments) == found


@pytest.mark.parametrize("action", ["retry", "delete"])
@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--error", "TimeoutError"], {"timeout"}),
        (["--text", "Bob"], {"refused"}),
        (["--worker", "one"], {"timeout"}),
        (["--before", "0s"], {"timeout", "refused"}),
        (["--before", "1h"], set()),
        (["--all", "--text", "no such text"], set()),
    ],
)
def test_finished_jobs_are_changed_by_filters(
    tenure: Tenure, ids: Ids, action: str, arguments: list[str], found: set[str]
) -> None:
    done = document(tenure("failed", action, *arguments, "--yes", "--json"))

    assert list(done.values()) == [len(found)]
    assert listed(tenure, ids, "failed") == {"timeout", "refused"} - found


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--worker", "two"], {"running"}),
        (["--text", "Dan"], {"in line"}),
        (["--scheduled"], {"scheduled"}),
        (["--in-line"], {"in line"}),
        (["--error", "TimeoutError"], set()),
    ],
)
def test_unfinished_jobs_are_cancelled_by_filters(
    tenure: Tenure, ids: Ids, arguments: list[str], found: set[str]
) -> None:
    assert document(tenure("cancel", *arguments, "--yes", "--json")) == {"cancelled": len(found)}
    assert listed(tenure, ids, "jobs", "--state", "cancelled") == found


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["jobs", "--before", "2h"], "before is about the end of jobs: give a state too"),
        (["jobs", "--scheduled", "--state", "failed"], "scheduled divides the jobs that are waiting"),
        (["jobs", "--text", ""], "text must be a text of 1 to 200 characters"),
        (["jobs", "--worker", "a b"], "worker"),
        (["jobs", "--follow", "--before", "2h"], "leave --before, --scheduled and --in-line out"),
        (["jobs", "--follow", "--in-line"], "leave --before, --scheduled and --in-line out"),
        (["failed", "--before", "soon"], "or how long ago it was, such as 2h, got 'soon'"),
        (["failed", "--before", "2027-03-01T09:00"], "needs a time with its offset from UTC"),
        (["failed", "retry"], "either by their ids or by a filter such as --queue, or --all"),
        (["cancel"], "either by their ids or by a filter such as --queue"),
        (["cancel", "--task", "send", "--text", "x", "--arguments", "[1]"], "can only be combined with --queue"),
    ],
)
def test_filters_that_cannot_match_are_refused(tenure: Tenure, ids: Ids, arguments: list[str], says: str) -> None:
    answer = tenure(*arguments)

    assert (answer.exit_code, says in answer.stderr) == (2, True), answer.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["jobs", "--error", "KeyError", "--worker", "one"], "there are no jobs with error KeyError, worker one"),
        (["jobs", "--in-line", "-q", "mail"], "there are no waiting jobs of queue mail"),
        (["jobs", "--scheduled", "-q", "mail"], "there are no scheduled jobs of queue mail"),
        (["failed", "--before", "2020-01-01T00:00Z"], "there are no failed jobs that ended by "),
    ],
)
def test_it_is_said_which_jobs_there_are_not(tenure: Tenure, ids: Ids, arguments: list[str], says: str) -> None:
    answer = tenure(*arguments)

    assert (answer.exit_code, answer.stdout) == (0, "")
    assert answer.stderr.startswith(f"tenure: {says}")


@pytest.mark.parametrize(("given", "ago"), [("90", 90), ("15m", 900), ("2h", 7200), ("1.5d", 129_600)])
def test_a_time_may_be_a_duration_ago(given: str, ago: float) -> None:
    now = datetime.now(UTC)

    assert timedelta() <= Ago().convert(given, None, None) - (now - timedelta(seconds=ago)) < timedelta(seconds=10)


def test_a_time_may_be_given_in_iso_8601() -> None:
    assert Ago().convert("2027-03-01T09:00Z", None, None) == datetime(2027, 3, 1, 9, tzinfo=UTC)
    for given in ("999999999999d", "99999999d"):
        with pytest.raises(CommandError, match="longer ago than any calendar goes"):
            Ago().convert(given, None, None)


def test_jobs_are_followed_by_filters() -> None:
    from tenure.cli.follow import _matches
    from tenure.core.job import JobRecord

    job = JobRecord("1", "send", "mail", State.FAILED, b'["Ann"]', worker="one", error=ErrorInfo("KeyError", "gone"))
    nothing: dict[str, Any] = dict.fromkeys(("tag", "schedule", "error", "text", "worker"))

    def matches(**filters: str) -> bool:
        return _matches(job, None, **{**nothing, **filters})

    assert matches(error="KeyError")
    assert matches(text="Ann")
    assert matches(text="gone")
    assert matches(worker="one")
    assert not matches(error="ValueError")
    assert not matches(text="ann")
    assert not matches(worker="two")
