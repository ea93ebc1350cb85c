"""`tenure import` on the command line: what it prints, its exit codes, what it refuses, and the audit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tenure.cli import main

from .importing import Foreign

PROGRAM = """
from tenure import App

app = App({url!r})

@app.task(aliases=["Add"])
def add(a: int, b: int) -> int:
    return a + b
"""


@pytest.fixture
def target(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(url=f"sqlite:///{tmp_path}/jobs.db"))
    return f"{path}:app"


def run(foreign: Foreign, target: str, *options: str, kind: str = "resque") -> Result:
    return CliRunner().invoke(
        main, ["import", kind, "--from", foreign.url, "--app", target, *options], prog_name="tenure"
    )


def listed(target: str, *command: str) -> str:
    result = CliRunner().invoke(main, [*command, "--app", target])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_it_shows_what_it_would_do_then_does_it(foreign: Foreign, target: str) -> None:
    for number in range(3):
        foreign.push("math", "Add", number, 1)

    dry = run(foreign, target, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert dry.stdout.splitlines() == [
        "queue\tname\twaiting\tscheduled\trunning\tfailed",
        "math\tAdd\t3\t0\t0\t0",
        "3 found: 3 would be moved, 0 would be left in resque",
    ]
    assert len(foreign.waiting("math")) == 3

    moved = run(foreign, target)
    assert moved.exit_code == 0, moved.output
    assert moved.stdout.splitlines()[-1] == "3 found: 3 moved, 0 left in resque"
    assert foreign.waiting("math") == []
    assert listed(target, "jobs").count("add") == 3


@pytest.mark.parametrize("dry_run", [True, False])
def test_an_import_that_finds_nothing_says_what_to_check(foreign: Foreign, target: str, dry_run: bool) -> None:
    foreign.push("math", "Add", 1, 2)
    options = ["--dry-run"] if dry_run else []

    elsewhere = run(foreign, target, "-q", "maths", *options)
    wrong = run(foreign, target, "--prefix", "res", *options)

    assert (elsewhere.exit_code, wrong.exit_code) == (0, 0)
    assert "nothing in the queues asked for; others have entries: math (see --queues)" in elsewhere.stderr
    assert "if there should be, check its database and --prefix" in wrong.stderr
    assert len(foreign.waiting("math")) == 1


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_is_left_is_listed_and_the_exit_code_is_1(foreign: Foreign, target: str, dry_run: bool) -> None:
    foreign.push("math", "Unknown\x1b[31m", 1)
    foreign.push("math", "Add", 1, 2)

    result = run(foreign, target, *(["--dry-run"] if dry_run else []))

    assert result.exit_code == 1
    assert "1 × Unknown" in result.stderr
    assert "no task named" in result.stderr
    assert "\x1b" not in result.output
    assert ("1 would be left" if dry_run else "1 left in resque") in result.stdout


def test_the_account_is_a_json_document_without_the_password(foreign: Foreign, target: str) -> None:
    foreign.push("math", "Add", 1, 2)
    foreign.push("math", "Unknown", 1)

    shown = json.loads(run(foreign, target, "--dry-run", "--json").stdout)

    assert (shown["kind"], shown["dry_run"], shown["found"], shown["moved"], shown["left"]) == ("resque", True, 2, 1, 1)
    assert shown["queues"][0] == {
        "queue": "math",
        "name": "Add",
        "waiting": 1,
        "scheduled": 0,
        "running": 0,
        "failed": 0,
    }
    assert [each["count"] for each in shown["reasons"]] == [1]
    assert shown["difference"] is None


def test_it_refuses_while_workers_live_unless_told_otherwise(foreign: Foreign, target: str) -> None:
    foreign.push("math", "Add", 1, 2)
    foreign.client.sadd("resque:workers", "hostp:1:math")

    refused = run(foreign, target)
    assert refused.exit_code == 2
    assert "hostp:1:math" in refused.stderr
    assert len(foreign.waiting("math")) == 1

    assert run(foreign, target, "--while-running").exit_code == 0
    assert foreign.waiting("math") == []


def test_an_import_is_in_the_audit_when_it_begins_and_when_it_ends(foreign: Foreign, target: str) -> None:
    foreign.push("math", "Add", 1, 2)

    run(foreign, target)

    actions = json.loads(listed(target, "audit", "--json"))["actions"]
    assert [(each["what"], each["count"]) for each in actions] == [("import", 1), ("import", None)]
    assert actions[0]["target"].startswith("resque at redis://127.0.0.1:")


def test_a_queue_gets_another_name(foreign: Foreign, target: str) -> None:
    foreign.push("math", "Add", 1, 2)

    assert run(foreign, target, "--to", "math=sums").exit_code == 0

    assert "sums" in listed(target, "queues")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--to", "math"], "--to needs a queue there and one here"),
        (["--to", "math=a b"], "a b"),
        (["-q", ","], "at least one queue"),
        (["--failed", "delete"], "'delete' is not one of"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(foreign: Foreign, target: str, options: list[str], says: str) -> None:
    result = run(foreign, target, *options)

    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize("kind", ["celery", "arq", "huey"])
def test_failures_are_refused_where_none_are_kept(foreign: Foreign, target: str, kind: str) -> None:
    result = run(foreign, target, "--failed", "retry", kind=kind)

    assert result.exit_code == 2
    assert f"{kind} does not keep the jobs that have failed" in result.stderr


def test_an_app_without_tasks_is_refused(foreign: Foreign, tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.write_text('from tenure import App\napp = App("memory://")\n')

    result = run(foreign, f"{path}:app")

    assert result.exit_code == 2
    assert "has no tasks" in result.stderr


def test_a_server_that_is_not_there_is_told_in_a_sentence(foreign: Foreign, target: str) -> None:
    foreign.url = "redis://127.0.0.1:1/0"

    result = run(foreign, target)

    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1


def test_names_that_are_no_text_are_shown_and_moved(foreign: Foreign, target: str) -> None:
    foreign.client.sadd("resque:queues", b"m\xff\x07")
    foreign.client.rpush(b"resque:queue:m\xff\x07", json.dumps({"class": "Add", "args": [1, 2]}))

    result = run(foreign, target)

    assert result.exit_code == 0, result.output
    assert "m--" in listed(target, "queues")
