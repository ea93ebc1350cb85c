"""The order in which a worker begins and ends, on errors too: docs/worker.md (R16, R36)."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure import App
from tests.conftest import a_url
from tests.faults.scale import lengths

from . import ordered
from .hosting import CallerConnection, Host, host

__all__ = ["host"]

BEGINNING = ["handlers", "beat", "claim_chore", "before_first_fork", "register"]
END = ["settle", "leave", "worker_exit"]

Start = Callable[..., CallerConnection]


@pytest.fixture(params=["sqlite", *lengths("redis", "postgres")])
def url(request: pytest.FixtureRequest) -> str:
    return a_url(request)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def start(host: Host, url: str, notes: Path) -> Iterator[Start]:
    """Start a worker process with a job in line, in which some things fail once `fail` is there."""
    guests: list[CallerConnection] = []

    def begin(*fails: str, **options: Any) -> CallerConnection:
        with App(url) as app:
            app.remote("child").enqueue()
        fail = str(notes.with_name("fail"))
        guests.append(host.start(ordered.work, url, str(notes), dict.fromkeys(fails, fail), {"beat": 0.1, **options}))
        return guests[-1]

    yield begin
    for guest in guests:
        guest.end()


def once(noted: list[str]) -> list[str]:
    """What is done once, and not over and over."""
    return [what for number, what in enumerate(noted) if what not in noted[:number]]


def beats_no_more(noted: list[str]) -> bool:
    return "beat" not in noted[noted.index("leave") :]


def released(url: str) -> bool:
    """Whether the job is back in line, and nobody is registered."""
    with App(url) as app:
        [job] = app.jobs()
        assert job.record is not None
        return (job.record.state, job.record.attempt, job.record.losses, app.workers()) == ("waiting", 0, 0, [])


def test_a_worker_begins_and_ends_in_a_fixed_order(start: Start, url: str, notes: Path) -> None:  # R16, R36
    worker = start()
    worker.hear("started")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0

    noted = ordered.read(notes)
    assert once(noted) == [*BEGINNING, "job", *END]
    assert beats_no_more(noted)
    assert released(url)


def test_a_hook_that_fails_ends_the_beginning(start: Start, url: str, notes: Path) -> None:  # R16, R44
    worker = start("before_first_fork")
    assert worker.wait() == 1

    assert once(ordered.read(notes)) == [*BEGINNING[:-1], "leave", "worker_exit"]
    assert "before_first_fork failed: ValueError: no model here" in worker.log
    assert released(url)


def test_a_stop_before_the_beginning_is_over_ends_it(host: Host, start: Start, url: str, notes: Path) -> None:  # I18
    worker = start()
    worker.send(signal.SIGTERM)
    assert worker.wait() in (0, -signal.SIGTERM)
    if worker.wait() == 0:
        assert ordered.read(notes)[-1] == "worker_exit"
    assert released(url)


def test_jobs_are_ended_when_the_loop_fails(start: Start, url: str, notes: Path) -> None:  # R36
    worker = start("lease", concurrency=2, term_timeout=0.5)
    worker.hear("started")
    notes.with_name("fail").touch()
    assert worker.wait() == 1

    noted = once(ordered.read(notes))
    assert noted == [*BEGINNING, "job", *END]
    assert "cannot unpack" in worker.log
    assert released(url)


def test_jobs_are_ended_when_the_keeper_dies(start: Start, url: str, notes: Path) -> None:  # R36
    worker = start("beat", term_timeout=0.5)
    worker.hear("started")
    notes.with_name("fail").touch()
    assert worker.wait() == 1

    assert once(ordered.read(notes)) == [*BEGINNING, "job", *END]
    assert " died" in worker.log
    assert released(url)


def test_an_end_that_fails_is_told_and_goes_on(start: Start, notes: Path) -> None:  # R36
    worker = start("leave", "worker_exit")
    worker.hear("started")
    notes.with_name("fail").touch()
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert once(ordered.read(notes)) == [*BEGINNING, "job", *END]
    assert "leave is broken" in worker.log
    assert "no good end" in worker.log
