"""Workers and what they hold, as an operator sees them and acts on them."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure import App
from tenure.errors import StoreUnavailable
from tenure.stores import open_store
from tenure.stores.base import Store
from tenure.stores.sqlite.store import SqliteStore
from tenure.stores.values import LeaseRequest, Pulse, WorkerInfo
from tenure.testing.clock import ManualClock

from .conftest import Tenure, document, free_port


def with_store(url: str, act: Callable[[Store], Any], clock: ManualClock | None = None) -> Any:
    """Do something past the command line."""

    async def run() -> Any:
        store = open_store(url) if clock is None else SqliteStore(url.removeprefix("sqlite:///"), clock=clock)
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(run())


def a_worker(worker_id: str, *queues: str, host: str = "h") -> WorkerInfo:
    return WorkerInfo(
        id=worker_id, host=host, pid=7, queues=queues or ("*",), tasks=(), concurrency=2, lanes=("loop", "process")
    )


async def enter(store: Store, *workers: WorkerInfo, **pulse: Any) -> None:
    for worker in workers:
        await store.register(worker)
        await store.beat(worker.id, Pulse(**pulse))


async def take(store: Store, worker_id: str, *queues: str) -> list[str]:
    request = LeaseRequest(queues=queues, limit=10, worker=worker_id, ttl=600, nonce=1)
    return [lease.job.id for lease in (await store.lease(request)).leases]


def test_everything_about_a_worker_is_shown(tenure: Tenure, url: str) -> None:
    said = {"held": 1, "jobs": ("job-1",), "memory": 45_300_000}
    with_store(url, lambda store: enter(store, a_worker("one", "mail", "!x"), **said))

    [shown] = document(tenure("workers", "--json"))["workers"]
    shown_to_people = tenure("workers").stdout

    assert shown | {"started_at": 0, "silent_for": 0} == {
        "id": "one", "host": "h", "pid": 7, "queues": ["mail", "!x"], "tasks": [], "concurrency": 2,
        "lanes": ["loop", "process"], "held": 1, "jobs": ["job-1"], "memory": 45_300_000, "strays": 0, "trouble": "",
        "started_at": 0, "silent_for": 0, "missing_after": 10.0, "missing": False, "release": "", "order": "go_on",
        "totals": {"processed": 0, "succeeded": 0, "failed": 0, "retried": 0, "lost": 0, "cancelled": 0, "broken": 0},
    }  # fmt: skip
    for words in ("mail,!x", "1/2", "45 MB", "one on h, pid 7, lanes: loop, process\n  at job-1\n"):
        assert words in shown_to_people


def test_what_is_wrong_with_a_worker_is_shown(tenure: Tenure, url: str) -> None:
    with_store(url, lambda store: enter(store, a_worker("stuck"), trouble="it is \x1b[31mpaused", strays=2))
    with_store(url, lambda store: enter(store, a_worker("dead")), clock=_an_hour_ago())

    dead, stuck = tenure("workers").stdout.split("\n\n")[1:]

    assert dead.startswith("dead on h, pid 7, lanes: loop, process\n  missing: silent for 36")
    assert stuck.endswith("paused, 2 stray thread(s)\n")
    assert "\x1b" not in stuck


def _an_hour_ago() -> ManualClock:
    return _before(3600)


def _before(seconds: float) -> ManualClock:
    # Below zero, perhaps: the machine may have been up for minutes only.
    return ManualClock(boot=time.clock_gettime(time.CLOCK_BOOTTIME) - seconds)


def test_how_long_a_silent_worker_is_not_missing_is_what_it_says_itself(tenure: Tenure, url: str) -> None:  # W25
    job = tenure("enqueue", "t").stdout.strip()
    with_store(url, lambda store: enter(store, a_worker("short"), missing_after=5400.0), clock=_before(7200))
    with_store(url, lambda store: enter(store, a_worker("long"), missing_after=10_800.0), clock=_before(7200))

    listed = document(tenure("workers", "--json"))["workers"]
    assert {each["id"]: (each["missing_after"], each["missing"]) for each in listed} == {
        "short": (5400.0, True), "long": (10_800.0, False),
    }  # fmt: skip
    assert document(tenure("health", "--json"))["missing"] == ["short"]
    [reason, *_] = document(tenure("explain", job, "--json"))["reasons"]
    assert (reason["kind"], reason["workers"]) == ("task_unknown", ["long"])


def test_a_retired_worker_loses_its_jobs_and_they_say_why(tenure: Tenure, url: str) -> None:  # W29
    first, last = [tenure("enqueue", "t").stdout.strip() for _ in range(2)]
    with_store(url, lambda store: enter(store, a_worker("dead")))
    with_store(url, lambda store: take(store, "dead", "default"))

    retired = tenure("retire", "dead", "--reason", "unplugged")

    assert (retired.exit_code, "2 of its jobs went back to the front, 0 failed" in retired.stderr) == (0, True)
    assert document(tenure("workers", "--json"))["workers"] == []
    for job in (first, last):
        assert document(tenure("job", job, "--json"))["error"]["message"] == (
            "its worker was retired (unplugged), 1 time(s) in all"
        )
    assert "retired (unplugged)" in tenure("job", first).stdout
    assert "retired (unplugged)" in tenure("jobs").stdout


@pytest.mark.parametrize(
    ("given", "order", "says"),
    [
        ("quiet", "quiet", "2 workers are to lease no more jobs\n"),
        ("stop", "stop", "2 workers are to finish their jobs and stop\n"),
        ("go-on", "go_on", "2 workers are to lease jobs again\n"),
    ],
)
def test_workers_have_orders(tenure: Tenure, url: str, given: str, order: str, says: str) -> None:
    with_store(url, lambda store: enter(store, a_worker("one"), a_worker("two"), a_worker("other")))
    tenure("order", "quiet", "one")

    answer = tenure("order", given, "one", "two")

    assert (answer.exit_code, answer.stdout) == (0, says)
    listed = document(tenure("workers", "--json"))["workers"]
    assert {each["id"]: each["order"] for each in listed} == {"one": order, "two": order, "other": "go_on"}
    assert tenure("workers").stdout.count(f"\n  order: {order}\n") == (0 if order == "go_on" else 2)
    [beat] = with_store(url, lambda store: asyncio.gather(store.beat("one", Pulse())))
    assert beat == order


def test_an_order_to_a_worker_that_there_is_not_names_it(tenure: Tenure, url: str) -> None:
    with_store(url, lambda store: enter(store, a_worker("one")))

    answer = tenure("order", "stop", "nobody", "one", "nothing", "--json")

    assert (answer.exit_code, json.loads(answer.stdout)) == (2, {"order": "stop", "workers": ["one"]})
    assert answer.stderr == "tenure: there is no worker nobody, nothing: tenure workers lists them\n"
    assert tenure("order", "halt", "one").exit_code == 2
    assert tenure("order", "stop").exit_code == 2


def test_a_worker_that_there_is_not_cannot_be_retired(tenure: Tenure, url: str) -> None:
    tenure("enqueue", "t")
    with_store(url, lambda store: enter(store, a_worker("idle")))

    answer = tenure("retire", "nobody", "idle", "--json")

    assert (answer.exit_code, "no worker nobody:" in answer.stderr) == (2, True)
    assert json.loads(answer.stdout) == {"retired": [{"worker": "nobody", "jobs": []}, {"worker": "idle", "jobs": []}]}
    assert tenure("retire").exit_code == 2


def test_jobs_are_cancelled_by_what_they_are(tenure: Tenure, url: str, program: str) -> None:  # W18
    tenure("enqueue", "send", "1", "-q", "mail")
    tenure("enqueue", "send", "1", "--kwargs", '{"copies": 1}', "-q", "mail")
    tenure("enqueue", "send", "2", "-q", "mail", "--tag", "red")
    tenure("enqueue", "other", "1", "-q", "mail", "--tag", "red")
    running = tenure("enqueue", "other", "1", "-q", "r").stdout.strip()
    with_store(url, lambda store: take(store, "w", "r"))

    def cancelled(*arguments: str) -> int:
        return int(document(tenure("cancel", *arguments, "--yes", "--json"))["cancelled"])

    assert cancelled("--task", "send", "--arguments", "[1]", "-q", "elsewhere") == 0
    assert cancelled("--task", "send", "--arguments", "[1]") == 1
    assert cancelled("--task", "send", "--arguments", '{"user": 1, "copies": 1}', "--app", program) == 1
    assert cancelled("--tag", "red", "--task", "send") == 1
    assert tenure("cancel", "--state", "running", "--yes").stdout == "cancelled: 1 job\n"
    assert document(tenure("job", running, "--json"))["state"] == "cancelled"
    asked = tenure("cancel", "-q", "mail")
    assert (asked.exit_code, "Cancel 1 unfinished job?" in asked.stderr) == (1, True)
    assert len(document(tenure("jobs", "--state", "waiting", "--json"))["jobs"]) == 1
    assert tenure("cancel", "-q", "mail", "--yes").stdout == "cancelled: 1 job\n"
    assert tenure("cancel", "-q", "mail").stdout == "cancelled: 0 jobs\n"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("some-id", "-q", "mail"),
        ("--state", "failed"),
        ("--arguments", "[1]"),
        ("--arguments", "[1]", "--task", "t", "--tag", "mail"),
        ("--arguments", "1", "--task", "t"),
        ("--arguments", "[", "--task", "t"),
    ],
)
def test_what_to_cancel_must_be_said_clearly(tenure: Tenure, arguments: tuple[str, ...]) -> None:
    tenure("enqueue", "t", "1")

    assert tenure("cancel", *arguments).exit_code == 2
    assert document(tenure("jobs", "--json"))["jobs"][0]["state"] == "waiting"


# Health.


def test_without_a_worker_nothing_works(tenure: Tenure) -> None:
    answer = tenure("health")

    assert (answer.exit_code, answer.stdout, answer.stderr) == (1, "", "tenure: there is no worker\n")


def test_workers_that_get_on_are_well(tenure: Tenure, url: str) -> None:
    with_store(url, lambda store: enter(store, a_worker("one", "mail*"), a_worker("two", "other")))

    answer = tenure("health")
    assert (answer.exit_code, answer.stdout) == (0, "ok: 2 at work\n")
    assert tenure("health", "-q", "mail.eu", "-q", "other").exit_code == 0
    assert tenure("health", "-q", "post").stderr == "tenure: no worker serves queue post\n"
    assert tenure("health", "--here").exit_code == 1
    assert document(tenure("health", "--json"))["status"] == "ok"


def test_one_that_is_stuck_is_named(tenure: Tenure, url: str) -> None:
    here = socket.gethostname()
    with_store(url, lambda store: enter(store, a_worker("good", host=here)))
    with_store(url, lambda store: enter(store, a_worker("bad"), trouble="it is paused"))

    answer = tenure("health", "--json")

    told = json.loads(answer.stdout)
    assert (answer.exit_code, told["status"], told["troubles"]) == (1, "stuck", ["worker bad: it is paused"])
    assert tenure("health", "--here").exit_code == 0


def test_one_that_is_missing_counts_as_not_there(tenure: Tenure, url: str) -> None:
    with_store(url, lambda store: enter(store, a_worker("dead")), clock=_an_hour_ago())
    assert tenure("health").exit_code == 1
    with_store(url, lambda store: enter(store, a_worker("new")))

    answer = tenure("health")

    assert (answer.exit_code, answer.stdout) == (0, "ok: 1 at work\n")
    assert answer.stderr == "tenure: worker dead is missing\n"
    assert document(tenure("health", "--json"))["missing"] == ["dead"]


def test_what_needs_attention_is_shown_and_changes_no_exit_code(tenure: Tenure, url: str) -> None:
    with_store(url, lambda store: enter(store, a_worker("one", "mail")))
    tenure("enqueue", "send", "--queue", "post")
    tenure("enqueue", "send", "--queue", "mail")
    tenure("pause", "mail")

    answer, as_json = tenure("health"), document(tenure("health", "--json"))

    assert (answer.exit_code, answer.stderr) == (0, "")
    assert answer.stdout.splitlines()[:3] == [
        "ok: 1 at work",
        "bad: post: 1 job in line, and no live worker serves the queue",
        "  start one: tenure work module:app -q post",
    ]
    assert "warn: mail: paused, with 1 job in line" in answer.stdout
    assert [(each["kind"], each["level"], each["queue"]) for each in as_json["attention"]] == [
        ("no_worker", "bad", "post"),
        ("paused", "warn", "mail"),
    ]
    assert "post" not in tenure("health", "--here").stdout


def test_attention_that_cannot_be_read_changes_no_exit_code(
    tenure: Tenure, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: App) -> None:
        raise StoreUnavailable("gone")

    with_store(url, lambda store: enter(store, a_worker("one")))
    monkeypatch.setattr(App, "aattention", fail)

    answer = tenure("health")

    assert (answer.exit_code, answer.stdout) == (0, "ok: 1 at work\n")
    assert answer.stderr == "tenure: what needs attention could not be read: gone\n"


def test_a_store_that_does_not_answer_is_no_health(tenure: Tenure, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"redis://127.0.0.1:{deaf.getsockname()[1]}/0?timeout=0.2&connect_timeout=0.2"
        answer = tenure("health", "--url", url)

    assert answer.exit_code == 1
    assert answer.stderr.startswith("tenure: the store does not answer")


@contextlib.contextmanager
def at_work(program: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`tenure work` in a process of its own, and the port where it tells of its health."""
    port = free_port()
    arguments = ["work", program, "--health-port", str(port), "--poll", "0.1"]
    worker = subprocess.Popen([sys.executable, "-m", "tenure", *arguments])
    try:
        yield worker, port
    finally:
        worker.send_signal(signal.SIGCONT)
        worker.terminate()
        worker.wait(20)


def _told(port: int) -> str | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/")
        answer = connection.getresponse()
        told = json.loads(answer.read())
    except OSError:
        return None
    finally:
        connection.close()
    assert (answer.status == 200) is (told["trouble"] == "")
    return str(told["trouble"])


def becomes(port: int, expected: str) -> None:
    end = time.monotonic() + 20
    while (told := _told(port)) != expected:
        assert time.monotonic() < end, told
        time.sleep(0.02)


def test_a_worker_says_over_http_that_it_is_paused(tenure: Tenure, url: str, program: str) -> None:  # R38, T13
    with at_work(program) as (worker, port):
        becomes(port, "")
        os.kill(worker.pid, signal.SIGUSR2)
        becomes(port, "it is paused")
        end = time.monotonic() + 20
        while tenure("health").exit_code == 0:
            assert time.monotonic() < end
        assert "it is paused" in tenure("health").stderr
        os.kill(worker.pid, signal.SIGCONT)
        becomes(port, "")
        with App(url) as app:
            assert [each.pid for each in app.workers()] == [worker.pid]


def test_a_missing_worker_is_busy_only_with_what_it_still_holds(tenure: Tenure, url: str) -> None:
    jobs = [tenure("enqueue", "t").stdout.strip() for _ in range(3)]
    said = {"held": 3, "jobs": tuple(jobs)}
    with_store(url, lambda store: enter(store, a_worker("dead"), **said), clock=_an_hour_ago())
    with_store(url, lambda store: take(store, "dead", "default"))
    tenure("cancel", *jobs[:2])

    [shown] = document(tenure("workers", "--json"))["workers"]
    assert (shown["missing"], shown["held"], shown["jobs"]) == (True, 1, [jobs[2]])
    assert f"at {jobs[2]}\n" in tenure("workers").stdout
    assert "\t1/2\t" in tenure("workers").stdout

    tenure("cancel", jobs[2])
    [shown] = document(tenure("workers", "--json"))["workers"]
    assert (shown["held"], shown["jobs"]) == (0, [])
    assert jobs[2] not in tenure("workers").stdout
