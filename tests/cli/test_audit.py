"""The audit on the command line: what operators have done is listed, and every command that changes something is in it."""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click
import pytest

from tenure.cli import COMMANDS, main
from tenure.cli.audit import operator_name
from tenure.stores.values import ACTION_TEXT

from .conftest import Tenure, document
from .test_workers import a_worker, enter, take, with_store

Arguments = Callable[[Tenure, str], list[str]]
"""Prepares the store for a command, and returns the command."""


def an_id(tenure: Tenure, *options: str) -> str:
    return tenure("enqueue", "send", "1", "-q", "mail", *options).stdout.strip()


def running(tenure: Tenure, url: str) -> str:
    job = an_id(tenure)
    with_store(url, lambda store: enter(store, a_worker("one")))
    with_store(url, lambda store: take(store, "one", "mail"))
    return job


def ended(tenure: Tenure, url: str, state: str) -> str:
    from tenure.core.job import ErrorInfo, State
    from tenure.core.lifecycle import Finish
    from tenure.stores.values import LeaseRequest

    job = an_id(tenure)

    async def end(store: Any) -> None:
        request = LeaseRequest(queues=("mail",), limit=1, worker="one", ttl=600, nonce=1)
        [lease] = (await store.lease(request)).leases
        await store.settle([(lease, Finish(State(state), error=ErrorInfo("ValueError", "no")))])

    with_store(url, end)
    return job


def registered(url: str, *workers: str) -> list[str]:
    with_store(url, lambda store: enter(store, *map(a_worker, workers)))
    return [*workers]


def scheduled(tenure: Tenure) -> str:
    assert tenure("schedule", "add", "nightly", "--task", "send", "--every", "1h").exit_code == 0
    return "nightly"


def paused(tenure: Tenure) -> str:
    an_id(tenure)
    assert tenure("pause", "mail").exit_code == 0
    return "mail"


def paused_schedule(tenure: Tenure) -> str:
    name = scheduled(tenure)
    assert tenure("schedule", "pause", name).exit_code == 0
    return name


def a_queue(tenure: Tenure) -> str:
    an_id(tenure)
    return "mail"


CHANGES: Mapping[str, tuple[Arguments, str, int | None]] = {
    "cancel": (lambda tenure, _: ["cancel", an_id(tenure)], "{id}", 1),
    "retry": (lambda tenure, url: ["retry", ended(tenure, url, "failed")], "{id}", 1),
    "trigger": (lambda tenure, _: ["trigger", an_id(tenure, "--delay", "600")], "{id}", 1),
    "release": (lambda tenure, url: ["release", running(tenure, url)], "{id}", 1),
    "delete": (lambda tenure, _: ["delete", an_id(tenure)], "{id}", 1),
    "complete": (lambda tenure, _: ["complete", an_id(tenure)], "{id}", 1),
    "failed retry": (lambda tenure, url: ["failed", "retry", ended(tenure, url, "failed")], "{id}", 1),
    "failed delete": (lambda tenure, url: ["failed", "delete", ended(tenure, url, "failed")], "{id}", 1),
    "broken retry": (lambda tenure, url: ["broken", "retry", ended(tenure, url, "broken")], "{id}", 1),
    "broken delete": (lambda tenure, url: ["broken", "delete", ended(tenure, url, "broken")], "{id}", 1),
    "pause": (lambda tenure, _: ["pause", a_queue(tenure)], "mail", 1),
    "resume": (lambda tenure, _: ["resume", paused(tenure)], "mail", 1),
    "purge": (lambda tenure, _: ["purge", a_queue(tenure), "--yes"], "queue=mail", 1),
    "order": (lambda _, url: ["order", "quiet", *registered(url, "one", "two")], "one two", 2),
    "retire": (lambda _, url: ["retire", *registered(url, "one", "two")], "one two", 2),
    "mark": (lambda *_: ["mark", "deployed 1.2"], "deployed 1.2", 1),
    "schedule add": (lambda *_: ["schedule", "add", "a", "--task", "send", "--every", "1h"], "a", 1),
    "schedule change": (lambda tenure, _: ["schedule", "change", scheduled(tenure), "--every", "2h"], "nightly", 1),
    "schedule pause": (lambda tenure, _: ["schedule", "pause", scheduled(tenure)], "nightly", 1),
    "schedule resume": (lambda tenure, _: ["schedule", "resume", paused_schedule(tenure)], "nightly", 1),
    "schedule trigger": (lambda tenure, _: ["schedule", "trigger", scheduled(tenure)], "nightly", 1),
    "schedule backfill": (
        lambda tenure, _: [
            *("schedule", "backfill", scheduled(tenure), "--yes"),
            *("--since", "2026-03-01T00:30Z", "--until", "2026-03-01T02:30Z"),
        ],
        "nightly",
        2,
    ),
    "schedule delete": (lambda tenure, _: ["schedule", "delete", scheduled(tenure), "--yes"], "nightly", 1),
}  # fmt: skip
"""For each command that changes something: how it is called, and the target and count that the audit has then."""

NOT_NOTED = {"enqueue", "start", "work", "bridge", "demo", "schema", "doctor"}
"""Programs call these as operators do, or they are about the store and not about what is in it."""

READS = {
    "jobs", "job", "explain", "failed", "failed show", "broken", "broken show", "flows", "run", "schedules", "schedule",
    "schedule show", "schedule preview", "queues", "workers", "health", "stats", "history", "audit", "watch", "metrics",
    "completion", "check",
}  # fmt: skip

KEYS = {"top", "dashboard"}
"""Commands with keys or buttons that change something: tests of `tenure top` and of the dashboard check those."""

ELSEWHERE = {"import"}
"""Needs the Redis of another system: tests/bridges/test_importing_command.py checks it."""


def commands() -> Iterator[str]:
    for name in COMMANDS:
        found = main.get_command(click.Context(main), name)
        yield name
        if isinstance(found, click.Group):
            yield from (f"{name} {each}" for each in found.list_commands(click.Context(found)))


def entries(tenure: Tenure) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document(tenure("audit", "--json"))["actions"]
    return found


def test_it_is_known_of_every_command_whether_it_changes_something() -> None:
    assert sorted(commands()) == sorted([*CHANGES, *NOT_NOTED, *READS, *KEYS, *ELSEWHERE])


@pytest.mark.parametrize("command", CHANGES)
def test_a_command_that_changes_something_is_in_the_audit(tenure: Tenure, url: str, command: str) -> None:
    prepare, target, count = CHANGES[command]
    arguments = prepare(tenure, url)
    done = tenure(*arguments)

    assert done.exit_code == 0, done.output
    entry = entries(tenure)[0]
    what = "order quiet" if command == "order" else command
    assert (entry["who"], entry["by"], entry["what"]) == (operator_name(), "cli", what)
    assert (entry["target"], entry["count"]) == (target.format(id=arguments[-1]), count)


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        (("cancel", "-q", "mail", "--text", "send", "--yes"), "queue=mail text=send"),
        (("cancel", "--task", "send", "--arguments", "[1]", "--yes"), "task=send arguments=[1]"),
        (
            ("cancel", "--task", "send", "--arguments", '{"user": 1, "password": "x"}', "--yes"),
            'task=send arguments={"user": 1, "password": "•••"}',
        ),
        (("failed", "retry", "--all", "--yes"), "state=failed"),
        (("failed", "delete", "--error", "ValueError", "--before", "2030-01-01T00:00Z", "--yes", "--json"),
         "state=failed error=ValueError before=2030-01-01T00:00:00+00:00"),
    ],
)  # fmt: skip
def test_what_is_done_to_all_that_match_is_noted_before_and_after(
    tenure: Tenure, url: str, arguments: tuple[str, ...], target: str
) -> None:
    ended(tenure, url, "failed")
    tenure("enqueue", "send", "1")
    tenure("enqueue", "send", "--kwargs", '{"user": 1, "password": "x"}')
    tenure("enqueue", "send", "1", "-q", "mail", "--kwargs", '{"text": "send"}')

    assert tenure(*arguments).exit_code == 0

    what = " ".join(each for each in arguments[:2] if not each.startswith("-"))
    assert [(each["what"], each["target"], each["count"]) for each in entries(tenure)] == [
        (what, target, 1),
        (what, target, None),
    ]


def test_nothing_is_noted_if_nothing_was_changed(tenure: Tenure, url: str) -> None:
    job = ended(tenure, url, "failed")
    refused = [
        ("cancel", job),
        ("cancel", job, "--json"),
        ("cancel", "-q", "nothing", "--yes"),
        ("release", job),
        ("delete", "nothing"),
        ("resume", "mail"),
        ("resume", "--all", "--yes"),
        ("failed", "retry", "-q", "nothing", "--yes"),
        ("order", "stop", "nothing"),
        ("retire", "nothing"),
        ("schedule", "pause", "nothing"),
        ("enqueue", "send", "1"),
    ]
    for arguments in refused:
        tenure(*arguments)

    assert entries(tenure) == []


def test_a_schedule_that_is_added_again_is_noted_once(tenure: Tenure) -> None:
    scheduled(tenure)
    scheduled(tenure)

    assert [(each["what"], each["target"]) for each in entries(tenure)] == [("schedule add", "nightly")]


def test_all_queues_at_once_are_named(tenure: Tenure) -> None:
    tenure("enqueue", "send", "-q", "mail")
    tenure("enqueue", "send", "-q", "news")
    tenure("pause", "mail")

    tenure("pause", "--all", "--yes")
    tenure("resume", "--all", "--yes")

    found = [(each["what"], sorted(each["target"].split()), each["count"]) for each in entries(tenure)]
    assert found == [("resume", ["mail", "news"], 2), ("pause", ["news"], 1), ("pause", ["mail"], 1)]


def test_of_several_jobs_those_that_changed_are_named(tenure: Tenure, url: str) -> None:
    failed, waiting = ended(tenure, url, "failed"), an_id(tenure)

    assert tenure("cancel", failed, waiting).exit_code == 2

    [entry] = entries(tenure)
    assert (entry["target"], entry["count"]) == (waiting, 1)


def test_the_audit_is_listed_the_latest_first_and_a_page_at_a_time(tenure: Tenure) -> None:
    an_id(tenure)
    empty = tenure("audit")
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", "tenure: no operator has changed anything yet\n")
    for label in ("one", "two", "three \x1b[31m"):
        tenure("mark", label)

    first = tenure("audit", "--limit", "2")

    titles, *rows = [line.split("\t") for line in first.stdout.splitlines()]
    assert titles == ["when", "who", "with", "what", "target", "count"]
    assert [row[1:] for row in rows] == [
        [operator_name(), "cli", "mark", r"three \x1b[31m", "1"],
        [operator_name(), "cli", "mark", "two", "1"],
    ]
    assert all(row[0].endswith(" ago") for row in rows)
    assert first.stderr.startswith("tenure: there are more: --cursor ")
    page = document(tenure("audit", "--limit", "2", "--json"))
    last = document(tenure("audit", "--cursor", page["cursor"], "--json"))
    assert ([each["target"] for each in last["actions"]], last["cursor"]) == (["one"], None)
    assert set(last["actions"][0]) == {"at", "who", "by", "what", "target", "count"}


def test_what_only_began_has_no_count(tenure: Tenure) -> None:
    an_id(tenure)
    tenure("purge", "mail", "--yes")

    assert [line.split("\t")[3:] for line in tenure("audit").stdout.splitlines()[1:]] == [
        ["purge", "queue=mail", "1"],
        ["purge", "queue=mail", "begun"],
    ]


def test_long_targets_are_cut(tenure: Tenure) -> None:
    ids = [an_id(tenure) for _ in range(15)]

    tenure("cancel", *ids)

    [entry] = entries(tenure)
    assert (len(entry["target"]), entry["target"][-1], entry["count"]) == (ACTION_TEXT, "…", 15)


def test_an_operator_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", unknown)
    monkeypatch.setattr("os.getuid", lambda: 4711)

    assert operator_name() == f"4711@{socket.gethostname()}"


async def test_the_program_reads_what_commands_have_done(tenure: Tenure, url: str) -> None:
    from tenure import App

    await asyncio.to_thread(tenure, "mark", "now")

    [action] = (await App(url).aactions()).actions

    assert (action.what, action.target, action.count) == ("mark", "now", 1)
