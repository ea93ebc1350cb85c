"""Schedules on the command line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from tenure.cli.messages import CommandError
from tenure.cli.values import Seconds
from tenure.core.job import NewJob
from tenure.core.schedule import Plan, SchedulePut, Settings
from tenure.core.when import Every
from tenure.stores import open_store

from .conftest import Tenure, document, run_process
from .test_hostile import HOSTILE, OBEYED

PROGRAM = """
from tenure import App, Cron, Every

app = App({url!r})
order = app.flow("order", lookup=["customer"])

@order.step(queue="stock")
async def reserve(sku: str, customer: str = "") -> str:
    return sku

@app.task(queue="mail")
async def send(user: int, copies: int = 1) -> int:
    return user

@app.task(schedule=Cron("0 3 * * *", "Europe/Paris"))
async def nightly() -> None: ...

app.schedule("orders", order.bind(sku="x"), Every(3600), overlap="skip")
"""

TERMINAL = {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80"}

Sql = Callable[..., list[Any]]


@pytest.fixture
def program(tmp_path: Path, url: str) -> str:
    """The target of an app that declares two schedules, in a file of its own."""
    path = tmp_path / "scheduling.py"
    path.write_text(PROGRAM.format(url=url))
    return f"{path}:app"


@pytest.fixture
def sql(tmp_path: Path) -> Sql:
    """Run a statement on the store's file."""

    def run(statement: str, *values: object) -> list[Any]:
        connection = apsw.Connection(str(tmp_path / "jobs.db"))
        try:
            return list(connection.execute(statement, values))
        finally:
            connection.close()

    return run


def work(tenure: Tenure, program: str) -> None:
    result = tenure("work", program, "--until-empty")
    assert result.exit_code == 0, result.output


def add(tenure: Tenure, name: str, *arguments: str) -> Any:
    return document(tenure("schedule", "add", name, *arguments, "--json"))


def shown(tenure: Tenure, name: str) -> Any:
    return document(tenure("schedule", "show", name, "--json"))


def test_a_schedule_is_added_listed_and_shown(tenure: Tenure) -> None:
    added = tenure(
        "schedule", "add", "sync", "--task", "send", "42", "--kwargs", '{"copies": 2}', "-q", "mail", "--priority", "3",
        "--tag", "eu", "--cron", "*/5 9-17 * * MON-FRI", "--timezone", "Europe/Paris", "--overlap", "skip",
        "--catch-up", "3", "--jitter", "90s", "--starts", "2020-01-01T00:00Z", "--ends", "2999-01-01T00:00+01:00",
    )  # fmt: skip
    assert added.exit_code == 0, added.output
    assert added.stdout.startswith("added sync: Every fifth minute from 09:00 through 17:59 on Monday through Friday")
    assert "next tick: 20" in added.stdout

    [listed] = document(tenure("schedules", "--json"))["schedules"]
    whole = shown(tenure, "sync")

    assert whole == whole | listed
    assert [whole[key] for key in ("state", "cron", "timezone", "task", "queue", "overlap", "catch_up", "jitter")] == [
        "active", "*/5 9-17 * * MON-FRI", "Europe/Paris", "send", "mail", "skip", 3, 90.0
    ]  # fmt: skip
    assert (whole["starts"], whole["ends"]) == ("2020-01-01T00:00:00.000+00:00", "2998-12-31T23:00:00.000+00:00")
    assert (whole["payload"], whole["priority"], whole["tags"]) == ({"args": [42], "kwargs": {"copies": 2}}, 3, ["eu"])
    assert (whole["declared"], whole["changed"], whole["history"]) == (False, [], [])
    assert len(whole["next_ticks"]) == 5
    assert whole["next_ticks"][0]["tick"] == whole["next_at"] <= whole["next_ticks"][0]["due_at"]
    row = tenure("schedules").stdout.splitlines()[1].split("\t")
    assert row[:4] == ["sync", "*/5 9-17 * * MON-FRI (Europe/Paris)", "send", "active"]
    text = tenure("schedule", "show", "sync").stdout
    for expected in ('{"args":[42],"kwargs":{"copies":2}}', "created at run time", "mail, priority 3", "up to 90s"):
        assert expected in text


def test_a_narrow_terminal_shows_each_schedule_in_two_lines(tenure: Tenure) -> None:
    add(tenure, "acme-report", "--task", "reports.nightly", "--cron", "0 3 * * *", "--timezone", "Europe/Paris")
    tenure("schedule", "trigger", "acme-report")

    lines = tenure("schedules", **TERMINAL).stdout.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")

    header, first, second = lines.splitlines()
    assert header.split() == ["name", "when,", "task", "state", "next", "(UTC)", "last"]
    assert first.split()[:7] == ["acme-report", "0", "3", "*", "*", "*", "(Europe/Paris)"]
    assert second.split()[0] == "reports.nightly"
    assert all(len(line) <= 80 for line in lines.splitlines())


def test_without_schedules_it_says_how_to_make_one(tenure: Tenure) -> None:
    tenure("enqueue", "send")

    result = tenure("schedules")

    assert (result.exit_code, result.stdout) == (0, "")
    assert "tenure schedule add" in result.stderr
    assert document(tenure("schedules", "--json")) == {"schedules": []}


def test_with_the_code_calls_and_starts_are_checked(tenure: Tenure, program: str) -> None:
    add(tenure, "mails", "--task", "send", "42", "--every", "1h", "--app", program)
    add(tenure, "trips", "--flow", "order", "sku=y", "customer=c1", "--every", "1h", "--app", program)
    add(tenure, "remote", "--flow", "order", "sku=z", "--first", "reserve", "-q", "stock", "--every", "1h")

    misfit = tenure("schedule", "add", "bad", "--task", "send", '"x"', "--every", "1h", "--app", program)
    slip = tenure("schedule", "add", "bad", "--task", "sent", "--every", "1h", "--app", program)

    assert (misfit.exit_code, misfit.stderr.count("\n")) == (2, 1)
    assert (slip.exit_code, "did you mean 'send'?" in slip.stderr) == (2, True)
    assert shown(tenure, "mails")["queue"] == "mail"
    trips = shown(tenure, "trips")
    assert (trips["flow"], trips["queue"], trips["attributes"]) == ("order", "stock", {"sku": "y", "customer": "c1"})
    runs = [document(tenure("schedule", "trigger", name, "--json"))["job_id"] for name in ("trips", "remote")]
    work(tenure, program)
    assert [document(tenure("run", run, "--json"))["result"] for run in runs] == ["y", "z"]
    assert shown(tenure, "trips")["history"][0]["state"] == "succeeded"


def test_jobs_say_which_schedule_and_tick_they_come_from(tenure: Tenure, program: str, sql: Sql) -> None:
    add(tenure, "sync", "--task", "send", "42", "--tag", "eu", "-q", "mail", "--every", "1h")
    other = tenure("enqueue", "send", "1").stdout.strip()
    tick = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    sql("UPDATE tenure_schedules SET next = ? WHERE name = 'sync'", tick.timestamp())
    ran = run_process("work", program, "--until-empty")
    assert ran.returncode == 0, ran.stderr

    [job] = document(tenure("jobs", "--schedule", "sync", "--json"))["jobs"]

    assert (job["schedule"], job["tick"], job["tags"]) == ("sync", f"{tick:%Y-%m-%dT%H:%M:%S}.000+00:00", ["eu"])
    assert (job["task"], job["state"]) == ("send", "succeeded")
    facts = dict(line.split("\t", 1) for line in tenure("job", job["id"]).stdout.splitlines() if "\t" in line)
    assert facts["schedule"].startswith("sync, for the tick 20")
    assert facts["tags"] == "eu"
    explained = document(tenure("explain", job["id"], "--json"))
    assert (explained["schedule"], explained["tick"]) == (job["schedule"], job["tick"])
    assert f"schedule sync enqueued it for the tick {tick:%Y-%m-%d %H:%M:%S} UTC" in explained["summary"]
    assert [document(tenure("job", other, "--json"))[key] for key in ("schedule", "tick")] == [None, None]
    assert "no jobs of schedule snyc" in tenure("jobs", "--schedule", "snyc").stderr
    last = shown(tenure, "sync")["last_tick"]
    assert (last["end"], last["job_id"], last["tick"]) == ("enqueued", job["id"], job["tick"])
    row = tenure("schedules").stdout.splitlines()
    assert any(line.startswith("sync\t") and "\tenqueued " in line for line in row)


def test_a_declared_schedule_is_changed_and_cleared(tenure: Tenure, program: str) -> None:
    work(tenure, program)

    changed = tenure("schedule", "change", "orders", "--every", "15m", "--overlap", "wait", "-q", "slow")

    assert (changed.exit_code, changed.stdout.startswith("changed orders: Every 15 minutes\n")) == (0, True)
    whole = shown(tenure, "orders")
    assert (whole["every"], whole["overlap"], whole["queue"]) == (900.0, "wait", "slow")
    assert (whole["changed"], whole["attributes"]) == (["job", "when", "overlap"], {"sku": "x"})
    assert "active, changed" in tenure("schedules").stdout
    assert "overlap (declared: skip)" in tenure("schedule", "show", "orders").stdout
    assert tenure("schedule", "change", "orders", "--overlap", "wait").stdout == "orders is like that already\n"
    work(tenure, program)  # a deploy
    assert shown(tenure, "orders")["every"] == 900.0
    assert "cleared the changes of orders: Every hour" in tenure("schedule", "change", "orders", "--clear").stdout
    assert shown(tenure, "orders")["changed"] == []
    assert tenure("schedule", "change", "orders", "--clear").stdout == "orders has no changes to clear\n"


def test_bounds_are_set_and_removed(tenure: Tenure) -> None:
    add(tenure, "sync", "--task", "send", "--every", "1h", "--starts", "2020-01-01T00:00Z")

    assert tenure("schedule", "change", "sync", "--starts", "none", "--ends", "2999-01-01T00:00Z").exit_code == 0

    whole = shown(tenure, "sync")
    assert (whole["starts"], whole["ends"][:4]) == (None, "2999")
    assert tenure("schedule", "change", "sync", "--ends", "9999-12-31T23:00-12:00").exit_code == 0
    assert "9999" in tenure("schedule", "show", "sync").stdout


def test_a_schedule_is_paused_resumed_and_deleted(tenure: Tenure) -> None:
    add(tenure, "sync", "--task", "send", "--every", "1h")

    assert tenure("schedule", "pause", "sync").stdout == "paused sync\n"
    assert tenure("schedule", "pause", "sync").stdout == "sync is already paused\n"
    assert (shown(tenure, "sync")["state"], shown(tenure, "sync")["next_at"]) == ("paused", None)
    assert tenure("schedule", "resume", "sync").stdout.startswith("resumed sync: Every hour\nnext tick: ")
    assert tenure("schedule", "resume", "sync").stdout == "sync is not paused\n"
    assert tenure("schedule", "delete", "sync").exit_code == 1  # it asks, and gets no answer
    assert tenure("schedule", "delete", "sync", "--yes").stdout == "deleted sync\n"
    assert document(tenure("schedules", "--json")) == {"schedules": []}


def test_one_that_code_declares_is_not_deleted_until_the_code_is_gone(tenure: Tenure, program: str, sql: Sql) -> None:
    work(tenure, program)
    tenure("schedule", "pause", "orders")

    refused = tenure("schedule", "delete", "orders")
    healthy = {fact["name"]: fact for fact in document(tenure("doctor", "--json"))["facts"]}
    sql("UPDATE tenure_schedules SET seen_at = seen_at - 4000")
    examined = {fact["name"]: fact for fact in document(tenure("doctor", "--json"))["facts"]}

    assert (refused.exit_code, refused.stderr.count("\n"), "is declared in code" in refused.stderr) == (2, 1, True)
    assert (healthy["schedules"]["health"], healthy["schedules"]["value"]) == ("ok", "2")
    assert examined["schedules"]["health"] == "warn"
    assert "nightly, orders" in examined["schedules"]["value"]
    assert "tenure schedule delete" in examined["schedules"]["advice"]
    assert tenure("schedule", "delete", "orders", "--yes").exit_code == 0
    sql("UPDATE tenure_schedules SET active = 0")
    assert shown(tenure, "nightly")["state"] == "lapsed"
    assert "so nothing fires it" in tenure("schedule", "show", "nightly").stdout
    assert tenure("schedule", "delete", "nightly", "--yes").exit_code == 0


def test_trigger_says_what_it_did(tenure: Tenure) -> None:
    add(tenure, "skips", "--task", "send", "--every", "1h", "--overlap", "skip")
    add(tenure, "replaces", "--task", "send", "--every", "1h", "--overlap", "replace")

    first = tenure("schedule", "trigger", "skips").stdout
    again = tenure("schedule", "trigger", "skips")
    as_json = tenure("schedule", "trigger", "skips", "--json")
    before = tenure("schedule", "trigger", "replaces").stdout.split()[-1]
    after = tenure("schedule", "trigger", "replaces").stdout

    job = first.removeprefix("enqueued job ").strip()
    assert document(tenure("job", job, "--json"))["schedule"] == "skips"
    assert (again.exit_code, again.stdout) == (2, "")
    assert again.stderr == (
        f"tenure: schedule skips has enqueued nothing, because job {job} is not final and its overlap is skip\n"
    )
    assert (as_json.exit_code, json.loads(as_json.stdout)["end"]) == (2, "skipped")
    assert after.endswith(f", cancelled {before}\n")
    history = tenure("schedule", "show", "skips").stdout
    assert f"\t{job}\twaiting" in history
    assert f"\t{job}\twas not final" in history


def test_a_backfill_counts_and_asks_first(tenure: Tenure) -> None:
    add(tenure, "sync", "--task", "send", "--every", "1h")
    arguments = ("schedule", "backfill", "sync", "--since", "2026-01-01T00:00Z", "--until", "2026-01-01T05:00Z")

    asked = tenure(*arguments)
    done = tenure(*arguments, "--yes")
    again = tenure(*arguments, "--yes")

    assert (asked.exit_code, "Enqueue 6 jobs for past ticks of sync?" in asked.stderr) == (1, True)
    assert done.stdout == "backfilled: 6 jobs\n"
    assert (again.stdout, "no tick in that time" in again.stderr) == ("backfilled: 0 jobs\n", True)
    ticks = [job["tick"] for job in document(tenure("jobs", "--schedule", "sync", "--json"))["jobs"]]
    assert sorted(ticks) == [f"2026-01-01T0{hour}:00:00.000+00:00" for hour in range(6)]
    more = document(tenure(*arguments[:-1], "2026-01-01T06:00Z", "--yes", "--json"))
    assert (more["backfilled"], more["ticks"][0]["end"]) == (1, "backfilled")


def test_a_preview_of_a_text_needs_no_store(tenure: Tenure) -> None:
    nowhere = {"TENURE_URL": "mysql://nowhere"}

    text = tenure("schedule", "preview", "--cron", "0 3 * * *", "--timezone", "Asia/Tokyo", "-n", "2", **nowhere).stdout
    every = document(tenure("schedule", "preview", "--every", "1d", "-n", "3", "--json", **nowhere))

    sentence, _, header, *rows = text.splitlines()
    assert sentence == "At 03:00 every day, Asia/Tokyo time"
    assert header.split("\t") == ["next (Asia/Tokyo)", "UTC"]
    assert len(rows) == 2
    assert all(" 03:00:00 JST\t" in row and " 18:00\tin " in row for row in rows)
    assert every["words"] == "Every day"
    assert [tick["tick"][10:] for tick in every["ticks"]] == ["T00:00:00.000+00:00"] * 3


def test_a_schedule_is_previewed_with_its_jitter(tenure: Tenure) -> None:
    add(tenure, "sync", "--task", "send", "--every", "1h", "--jitter", "30m")
    tenure("schedule", "pause", "sync")

    text = tenure("schedule", "preview", "sync", "-n", "2").stdout
    ticks = document(tenure("schedule", "preview", "sync", "-n", "2", "--json"))["ticks"]

    assert text.splitlines()[2].split("\t") == ["next (UTC)", "due (UTC)"]
    assert all(tick["tick"] < tick["due_at"] for tick in ticks)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["add", "a", "--task", "t", "--cron", "0 3 * *"], "'0 3 * *' is no cron text: wrong number of fields"),
        (["add", "a", "--task", "t", "--cron", "@daily", "--timezone", "Europe/Pairs"], "no time zone 'Europe/Pairs'"),
        (["add", "a", "--task", "t", "--every", "soon"], "--every needs a duration, got 'soon'"),
        (["add", "a", "--task", "t", "--every", "0.5"], "at least 1 s"),
        (["add", "a", "--task", "t", "--at", "tomorrow"], "--at needs a time in ISO 8601"),
        (["add", "a", "--task", "t", "--at", "2999-01-01T00:00"], "write 2999-01-01T00:00Z for UTC"),
        (["add", "a", "--task", "t", "--at", "2020-01-01T00:00Z"], "would have no tick from now on"),
        (["add", "a", "--task", "t", "--every", "1h", "--cron", "@daily"], "one of --cron, --every and --at"),
        (["add", "a", "--task", "t", "--every", "1h", "--timezone", "UTC"], "--timezone is the time zone of a --cron"),
        (["add", "a", "--task", "t", "--every", "1h", "--catch-up", "101"], "from 1 to 100, not 101"),
        (["add", "a", "--task", "t"], "say when the schedule fires"),
        (["add", "a", "--every", "1h"], "say what the schedule enqueues"),
        (["add", "a", "--task", "t", "--flow", "f", "--every", "1h"], "--task or --flow, not both"),
        (["add", "a", "--task", "t", "--first", "s", "--every", "1h"], "about a --flow"),
        (["add", "a", "--flow", "f", "--every", "1h"], "with --first"),
        (["add", "a b", "--task", "t", "--every", "1h"], "not a valid schedule name"),
        (["add", "sync", "--task", "other", "--every", "1h"], "`tenure schedule change sync`"),
        (["add", "a", "--task", "t", "--tag", "tenure:x", "--every", "1h"], "which Tenure uses itself"),
        (["show", "snyc"], "there is no schedule named 'snyc': did you mean 'sync'?"),
        (["pause", "nothing"], "`tenure schedules` lists those that exist"),
        (["change", "sync"], "say what to change"),
        (["change", "sync", "--clear", "--every", "5"], "give --clear alone"),
        (["change", "sync", "42"], "Name it with --task or --flow"),
        (["preview"], "name a schedule, or give --cron or --every"),
        (["preview", "sync", "--every", "5"], "name a schedule, or give --cron or --every"),
        (["backfill", "sync", "--since", "2020-01-01T00:00Z", "--until", "2999-01-01T00:00Z"], "in the future"),
        (["backfill", "sync", "--since", "2020-01-01T00:00Z", "--until", "2026-01-01T00:00Z"], "more than 1,000 ticks"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(tenure: Tenure, arguments: list[str], why: str) -> None:
    add(tenure, "sync", "--task", "send", "--every", "1h")

    result = tenure("schedule", *arguments)

    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.output
    assert result.stderr.startswith("tenure: ")
    assert why in result.stderr


def test_the_same_schedule_is_added_twice_without_harm(tenure: Tenure) -> None:
    first, again = (add(tenure, "sync", "--task", "send", "--every", "1h") for _ in range(2))

    assert first == again


@pytest.fixture
async def hostile(url: str) -> str:
    """A schedule whose name, task and tags are full of what terminals obey, and one that cannot be read."""
    job = NewJob(id="", task=HOSTILE, queue=HOSTILE, tags=(HOSTILE,), payload=json.dumps({"args": [HOSTILE]}).encode())
    settings = Settings(plan=Plan(job=job, when=Every(3600))).encoded()
    store = open_store(url)
    await store.put_schedules(
        [
            SchedulePut(name=f"x{HOSTILE}", if_version=0, settings=settings, next=time.time() + 60),
            SchedulePut(name="hostile", if_version=0, settings=settings, next=time.time() + 60),
            SchedulePut(name="newer", if_version=0, settings='{"plan": {"job": 1}}', next=time.time() + 60),
        ]
    )
    await store.close()
    return "hostile"


@pytest.mark.parametrize("command", [("schedules",), ("schedule", "show", "hostile"), ("doctor",)])
@pytest.mark.parametrize("terminal", [{}, TERMINAL], ids=["pipe", "terminal"])
def test_hostile_text_is_shown_as_escapes(
    tenure: Tenure, hostile: str, command: tuple[str, ...], terminal: dict[str, str]
) -> None:
    result = tenure(*command, **terminal)

    assert result.exit_code == 0, result.output
    for style in ("1", "2", "0", "1;2", "2;1"):
        result.stdout_bytes = result.stdout_bytes.replace(f"\x1b[{style}m".encode(), b"")
    assert OBEYED.isdisjoint(result.stdout)
    assert "\nroot" not in result.stdout
    assert OBEYED.isdisjoint(result.stderr)
    as_json = tenure(*command, "--json").stdout
    assert as_json.isascii()
    assert OBEYED.isdisjoint(as_json)


def test_one_that_cannot_be_read_is_listed_and_deleted(tenure: Tenure, hostile: str) -> None:
    listed = {each["name"]: each for each in document(tenure("schedules", "--json"))["schedules"]}
    warned = tenure("schedules").stderr
    refused = tenure("schedule", "show", "newer")
    advice = [fact["advice"] for fact in document(tenure("doctor", "--json"))["facts"] if fact["name"] == "schedules"]

    assert (listed["newer"]["state"], listed["newer"]["task"]) == ("unreadable", None)
    assert listed["newer"].keys() == listed["hostile"].keys()
    assert (warned.count("\n"), "cannot be read here" in warned) == (1, True)
    assert (refused.exit_code, refused.stderr) == (2, warned)
    assert advice == ["Update this program, or remove each with tenure schedule delete NAME."]
    assert tenure("schedule", "delete", "newer", "--yes").stdout == "deleted newer\n"


@pytest.mark.parametrize(
    ("given", "seconds"), [("90", 90), ("1.5", 1.5), ("90s", 90), ("15m", 900), ("2 h", 7200), ("1D", 86400)]
)
def test_a_duration_has_a_unit_or_is_in_seconds(given: str, seconds: float) -> None:
    assert Seconds().convert(given, None, None) == seconds


@pytest.mark.parametrize("given", ["", "-5", "1h30", "5w", "1e3", "nan", "inf", "٣"])
def test_what_is_no_duration_is_refused(given: str) -> None:
    with pytest.raises(CommandError, match="needs a duration"):
        Seconds().convert(given, None, None)


def test_as_a_user_runs_it(url: str, tmp_path: Path) -> None:
    added = run_process("schedule", "add", "sync", "--task", "send", "--every", "15m", "--url", url)
    listed = run_process("schedules", "--url", url)

    assert (added.returncode, added.stderr) == (0, "")
    assert listed.stdout.splitlines()[1].startswith("sync\tevery 15 minutes\tsend\tactive\t")
