"""Runs of flows on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tenure import App

from .conftest import Tenure, document, run_process

PROGRAM = """
from datetime import date

from tenure import App, Done, Fail, Next, Wait

app = App({url!r})
order = app.flow("order", lookup=["customer", "number"])

@order.step(then="approve", queue="stock")
async def reserve(sku: str, customer: str = "") -> dict[str, str]:
    if sku == "none":
        raise Fail("sold out")
    return {{"reservation": f"r-{{sku}}"}}

@order.step(then="ship", queue="desk")
async def approve() -> Wait:
    return Wait()

@order.step(queue="dock")
async def ship(reservation: str, day: date) -> str:
    return f"{{reservation}} on {{day:%d.%m.%Y}}"

@app.task
async def wait() -> Wait:
    return Wait()

@app.task
async def when() -> date:
    return Wait()
"""


@pytest.fixture
def program(tmp_path: Path, url: str) -> str:
    """The target of an app with a flow, in a file of its own."""
    path = tmp_path / "flowing.py"
    path.write_text(PROGRAM.format(url=url))
    return f"{path}:app"


@pytest.fixture
def app(tmp_path: Path, program: str, url: str) -> App:
    """The same app, here."""
    names: dict[str, Any] = {}
    exec((tmp_path / "flowing.py").read_text(), names)
    app: App = names["app"]
    return app


def start(app: App, **attributes: Any) -> str:
    with app:
        return app.internals.flows["order"].start(**attributes).id


def work(tenure: Tenure, program: str) -> None:
    result = tenure("work", program, "--until-empty")
    assert result.exit_code == 0, result.output


def test_runs_are_listed_with_their_current_step(tenure: Tenure, program: str, app: App) -> None:  # Q63
    one, two = start(app, sku="x", customer="c1"), start(app, sku="none", customer="c2")
    work(tenure, program)

    shown = tenure("flows").stdout
    runs = document(tenure("flows", "--json"))["runs"]

    assert [line.split()[0] for line in shown.splitlines()[1:]] == [two, one]
    assert "Fail: sold out" in shown
    assert [(run["id"], run["flow"], run["step"], run["queue"], run["state"]) for run in runs] == [
        (two, "order", "reserve", "stock", "failed"),
        (one, "order", "approve", "desk", "blocked"),
    ]
    assert (runs[0]["failed_queue"], runs[0]["error"]["message"]) == ("stock", "sold out")
    assert (runs[1]["completed_queue"], runs[1]["failed_queue"]) == ("stock", None)


def test_runs_are_filtered_found_and_paged(tenure: Tenure, program: str, app: App) -> None:  # G41
    ids = [start(app, sku="x", customer=f"c{n % 2}", number=n) for n in range(4)]
    ids.append(start(app, sku="x", customer="7"))

    def listed(*arguments: str) -> list[str]:
        return [run["id"] for run in document(tenure("flows", "--json", *arguments))["runs"]]

    assert listed("--flow", "order") == ids[::-1]
    assert listed("--flow", "other") == []
    assert listed("--state", "waiting") == ids[::-1]
    assert listed("--state", "failed") == []
    assert listed("--flow", "order", "--find", "customer=c1") == [ids[3], ids[1]]
    assert listed("--flow", "order", "--find", "number=2") == [ids[2]]
    assert listed("--flow", "order", "--find", 'number="2"') == []
    assert listed("--flow", "order", "--find", 'customer="7"') == [ids[4]]
    page = document(tenure("flows", "--limit", "3", "--json"))
    assert listed("--limit", "3", "--cursor", page["cursor"]) == ids[1::-1]
    assert "--cursor" in tenure("flows", "--limit", "1").stderr
    assert "no run matches" in tenure("flows", "--flow", "other").stderr


@pytest.mark.parametrize(
    "arguments",
    [["--find", "a=1"], ["--flow", "order", "--find", "customer"], ["--flow", "order", "--find", "customer=[1]"]],
)
def test_a_search_that_makes_no_sense_is_refused(tenure: Tenure, app: App, arguments: list[str]) -> None:
    start(app, sku="x")
    result = tenure("flows", *arguments)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)


def test_a_run_is_shown_whole(tenure: Tenure, program: str, app: App) -> None:
    run = start(app, sku="x", customer="c1", hostile="\x1b[31m")
    work(tenure, program)

    shown = tenure("run", run).stdout
    whole = document(tenure("run", run, "--json"))

    for expected in (run, "order", "blocked", "approve in desk", "reserve", '"r-x"', '"c1"'):
        assert expected in shown
    assert "\x1b" not in shown
    assert (whole["id"], whole["step"], whole["state"]) == (run, "approve", "blocked")
    assert whole["attributes"] == {"sku": "x", "customer": "c1", "hostile": "\x1b[31m", "reservation": "r-x"}
    assert [(step["name"], step["queue"], step["state"], step["attempts"]) for step in whole["steps"]] == [
        ("reserve", "stock", "succeeded", 1),
        ("approve", "desk", "blocked", 0),
    ]
    assert whole["steps"][0]["worker"] is not None
    by_step = document(tenure("run", whole["steps"][1]["id"], "--json"))
    assert by_step["id"] == run
    assert document(tenure("job", whole["steps"][1]["id"], "--json"))["run_id"] == run
    assert run in tenure("job", whole["steps"][1]["id"]).stdout


def test_a_long_history_is_shown_in_pages(tenure: Tenure, program: str, app: App) -> None:
    run = start(app, sku="x")
    work(tenure, program)

    page = document(tenure("run", run, "--limit", "1", "--json"))
    rest = document(tenure("run", run, "--limit", "1", "--cursor", page["cursor"], "--json"))

    assert [step["name"] for step in page["steps"] + rest["steps"]] == ["reserve", "approve"]
    assert "--cursor" in tenure("run", run, "--limit", "1").stderr


def test_what_is_no_run_is_told(tenure: Tenure, app: App) -> None:
    start(app, sku="x")
    job = tenure("enqueue", "send").stdout.strip()
    for id_, why in ((job, "not a run of a flow"), ("nothing", "there is no run 'nothing'")):
        result = tenure("run", id_)
        assert (result.exit_code, result.stderr.count("\n"), why in result.stderr) == (2, 1, True)


def test_a_step_is_completed_with_the_code_of_its_flow(tenure: Tenure, program: str, app: App) -> None:  # Q60
    run = start(app, sku="x")
    work(tenure, program)

    misfit = tenure("complete", run, '{"day": "someday"}', "--app", program)
    missing = tenure("complete", run, "--app", program)
    other = tenure("complete", run, "--step", "ship", "--app", program)
    done = tenure("complete", run, '{"day": "2026-11-16"}', "--step", "approve", "--app", program)

    assert (misfit.exit_code, "'day'" in misfit.stderr) == (2, True)
    assert (missing.exit_code, "'day'" in missing.stderr) == (2, True)
    assert (other.exit_code, "its current step is 'approve'" in other.stderr) == (2, True)
    assert (done.exit_code, done.stdout) == (0, f"completed: 1 step, run {run} is waiting in step ship\n")
    work(tenure, program)
    assert document(tenure("run", run, "--json"))["result"] == "r-x on 16.11.2026"


def test_a_step_is_completed_without_the_code_and_a_worker_says_what_follows(
    tenure: Tenure, program: str, app: App
) -> None:  # Q60
    run = start(app, sku="x")
    work(tenure, program)

    done = tenure("complete", run, '{"day": "2026-11-16"}')
    again = tenure("complete", run, '{"day": "2026-11-17"}')

    assert (done.exit_code, done.stdout) == (0, f"completed: 1 step, run {run} is waiting in step approve\n")
    assert (again.exit_code, "it was completed before" in again.stderr) == (2, True)
    work(tenure, program)
    assert document(tenure("run", run, "--json"))["result"] == "r-x on 16.11.2026"


def test_a_run_is_started_with_and_without_the_code(tenure: Tenure, program: str) -> None:
    known = tenure("start", "order", "sku=x", "customer=c1", "--tag", "red", "--app", program).stdout.strip()
    remote = document(
        tenure(
            "start", "order", "sku=y", "number=7", "--first", "reserve", "-q", "stock", "--lookup", "number", "--json"
        )
    )
    work(tenure, program)

    for run, reservation in ((known, "r-x"), (remote["id"], "r-y")):
        shown = document(tenure("run", run, "--json"))
        assert (shown["step"], shown["attributes"]["reservation"]) == ("approve", reservation)
    found = document(tenure("flows", "--flow", "order", "--find", "number=7", "--json"))["runs"]
    assert [run["id"] for run in found] == [remote["id"]]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["order", "sku=x"], "--first"),
        (["order", "sku", "--first", "reserve"], "such as customer=c1"),
        (["order", "--app", "PROGRAM"], "needs the attribute 'sku'"),
        (["order", "sku=x", "--first", "reserve", "--app", "PROGRAM"], "leave out --first"),
        (["trip", "--app", "PROGRAM"], "the app has no flow 'trip': it has order"),
    ],
)
def test_a_start_that_makes_no_sense_is_refused(tenure: Tenure, program: str, arguments: list[str], why: str) -> None:
    refused = tenure("start", *(program if each == "PROGRAM" else each for each in arguments))

    assert (refused.exit_code, why in refused.stderr) == (2, True), refused.stderr
    assert "has never been used" in tenure("flows").stderr


def test_a_step_is_completed_by_its_own_id_too(tenure: Tenure, program: str, app: App) -> None:
    run = start(app, sku="x")
    work(tenure, program)
    step = document(tenure("run", run, "--json"))["job"]

    assert tenure("complete", step, "--step", "approve", "--app", program).exit_code == 2
    assert tenure("complete", step, '{"day": "2026-11-16"}', "--app", program).stdout == "completed: 1 job\n"
    assert document(tenure("run", run, "--json"))["step"] == "ship"


def test_a_plain_job_is_completed_without_any_code(tenure: Tenure, program: str) -> None:  # Q60
    jobs = [tenure("enqueue", task).stdout.strip() for task in ("wait", "wait", "when")]
    work(tenure, program)

    assert tenure("complete", jobs[0], '{"a": [1]}').stdout == "completed: 1 job\n"
    assert tenure("complete", jobs[1]).exit_code == 0
    assert tenure("complete", jobs[2], '"2026-11-16"', "--app", program).exit_code == 0

    assert [document(tenure("job", job, "--json"))["result"] for job in jobs] == [{"a": [1]}, None, "2026-11-16"]
    again = tenure("complete", jobs[0], "1")
    assert (again.exit_code, "succeeded" in again.stderr) == (2, True)
    assert tenure("complete", "nothing").exit_code == 2
    assert tenure("complete", jobs[0], "no json").exit_code == 2


def test_operators_act_on_runs_by_their_ids(tenure: Tenure, program: str, app: App) -> None:  # Q58, Q61
    run = start(app, sku="x")
    work(tenure, program)

    def state() -> tuple[str, str]:
        shown = document(tenure("run", run, "--json"))
        return shown["step"], shown["state"]

    assert tenure("cancel", run).stdout == "cancelled: 1 job\n"
    assert state() == ("approve", "cancelled")
    assert tenure("retry", run).stdout == "put back: 1 job\n"
    assert state() == ("approve", "waiting")
    assert "not scheduled" in tenure("trigger", run).stderr
    assert tenure("delete", run).stdout == "deleted: 2 jobs\n"
    assert tenure("run", run).exit_code == 2


def test_a_scheduled_run_is_triggered(tenure: Tenure, program: str, app: App) -> None:  # Q58
    with app:
        run = app.internals.flows["order"].using(delay=3600).start(sku="x").id
    assert document(tenure("flows", "--json"))["runs"][0]["label"] == "scheduled"

    assert tenure("trigger", run).stdout == "put in line: 1 job\n"

    work(tenure, program)
    assert document(tenure("run", run, "--json"))["step"] == "approve"


def test_as_a_user_runs_it(program: str, url: str, app: App) -> None:
    run = start(app, sku="x")
    shown = run_process("run", run, "--url", url)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "reserve" in shown.stdout
