"""Headers and blockers of jobs on the command line."""

from __future__ import annotations

import pytest

from tenure import App
from tenure.core.redaction import HIDDEN, redact, redacted

from .conftest import Tenure, document

HEADERS = ("--header", "tenant=acme", "--header", "api-key=xyz=1")
SHOWN = {"tenant": "acme", "api-key": HIDDEN}


def facts(shown: str) -> dict[str, str]:
    """The facts that a command has shown in a pipe, by their names."""
    lines = shown.partition("\n\n")[0].replace("\n\t", "\\n").splitlines()
    return dict(line.partition("\t")[::2] for line in lines)


def test_a_job_has_the_headers_that_it_was_enqueued_with(tenure: Tenure, url: str) -> None:
    job, without = tenure("enqueue", "send", *HEADERS).stdout.strip(), tenure("enqueue", "send").stdout.strip()

    assert document(tenure("job", job, "--json"))["headers"] == SHOWN
    assert document(tenure("job", without, "--json"))["headers"] is None
    assert facts(tenure("job", job).stdout)["headers"] == rf"tenant = acme\napi-key = {HIDDEN}"
    assert "headers" not in facts(tenure("job", without).stdout)
    assert "xyz" not in tenure("jobs", "--json").stdout
    record = App(url).job(job).record
    assert record is not None
    assert record.headers == {"tenant": "acme", "api-key": "xyz=1"}


def test_a_run_has_headers(tenure: Tenure) -> None:
    run = tenure("start", "parcel", "--first", "pack", *HEADERS).stdout.strip()

    assert document(tenure("job", run, "--json"))["headers"] == SHOWN


def test_the_jobs_of_a_schedule_have_its_headers(tenure: Tenure) -> None:
    added = tenure("schedule", "add", "nightly", "--task", "send", "--every", "1h", *HEADERS)
    assert added.exit_code == 0, added.output
    shown = document(tenure("schedule", "show", "nightly", "--json"))
    assert shown["headers"] == SHOWN
    assert facts(tenure("schedule", "show", "nightly").stdout)["headers"] == rf"tenant = acme\napi-key = {HIDDEN}"

    assert tenure("schedule", "trigger", "nightly").exit_code == 0
    assert tenure("schedule", "change", "nightly", "--header", "tenant=other").exit_code == 0
    assert tenure("schedule", "trigger", "nightly").exit_code == 0

    jobs = document(tenure("jobs", "--schedule", "nightly", "--json"))["jobs"]
    assert [job["headers"] for job in jobs] == [{"tenant": "other"}, SHOWN]


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        (["tenant"], "--header needs a name and a value, such as tenant=acme, got 'tenant'"),
        (["=acme"], "--header needs a name and a value"),
        (["a=1", "a=2"], "--header a is given twice, and a job has one value for each name"),
        (["Tenant=acme"], "a name in headers must be 1 to 64 of a-z, 0-9 and -"),
        (["a=" + "x" * 2000], "at most 16 with 2,000 bytes in all"),
    ],
)
def test_wrong_headers_are_refused(tenure: Tenure, headers: list[str], says: str) -> None:
    answer = tenure("enqueue", "send", *(part for each in headers for part in ("--header", each)))

    assert (answer.exit_code, says in answer.stderr) == (2, True), answer.output


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("password", True), ("x-passphrase", True), ("client_secret", True), ("Token", True), ("api-key", True),
        ("AUTHORIZATION", True), ("set-cookie", True), ("credit_card", True), ("IBAN", True),
        ("tenant", False), ("user", False), ("", False),
    ],
)  # fmt: skip
def test_values_are_hidden_by_their_names(name: str, hidden: bool) -> None:
    assert redacted(name) is hidden
    assert redact({name: 1}) == {name: HIDDEN if hidden else 1}


def test_a_job_that_waits_is_shown_with_its_blockers(tenure: Tenure, url: str) -> None:
    app = App(url, log=False)

    @app.task
    def send(user: int) -> None: ...

    first, second = send.enqueue(1), send.using(delay=600).enqueue(2)
    last = send.using(after=[first, second]).enqueue(3)
    app.worker().run(until_empty=True)

    waits = facts(tenure("job", last.id).stdout)["waits for"]
    assert waits == rf"1 job\nclosed {first.id}\nopen   {second.id}"
    assert document(tenure("job", last.id, "--json"))["blockers"] == [
        {"id": first.id, "open": False},
        {"id": second.id, "open": True},
    ]
    assert document(tenure("job", first.id, "--json"))["blockers"] == []

    tenure("trigger", second.id)
    app.worker().run(until_empty=True)

    shown = facts(tenure("job", last.id).stdout)
    assert shown["waited for"] == rf"closed {first.id}\nclosed {second.id}"
    assert "waits for" not in shown


def test_of_many_blockers_the_first_are_shown(tenure: Tenure, url: str) -> None:
    app = App(url, log=False)

    @app.task
    def send(user: int) -> None: ...

    blockers = send.enqueue_many([(user,) for user in range(201)])
    last = send.using(after=blockers).enqueue(0)

    lines = facts(tenure("job", last.id).stdout)["waits for"].split("\\n")

    assert lines == ["201 jobs", *(f"open   {job.id}" for job in blockers[:200]), "and others: these are the first 200"]
    assert len(document(tenure("job", last.id, "--json"))["blockers"]) == 200
