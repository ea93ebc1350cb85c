"""What is wrong with a schedule is refused before any I/O."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tenure import App, At, Cron, Every
from tenure.errors import InvalidName, InvalidOption, InvalidSchedule

from .conftest import Do, whatever_the_store
from .planned import MINUTE, NOW, make_report


def bound(app: App, **options: Any) -> Any:
    task = app.tasks.get("report") or make_report(app)
    return task.using(**options).bind("x") if options else task.bind("x")


NOWHERE = datetime(2026, 1, 1)
WRONG: dict[str, tuple[type[Exception], str, Callable[[App], tuple[Any, ...]], dict[str, Any]]] = {
    "text": (InvalidSchedule, r"write Cron\('0 3 \* \* \*'\)", lambda app: (bound(app), "0 3 * * *"), {}),
    "number": (InvalidSchedule, r"Cron\(…\), Every\(…\) or At\(…\), not 60$", lambda app: (bound(app), 60), {}),
    "task": (InvalidSchedule, r"a bound call or start.*: write \.bind\(…\) behind it", lambda app: (make_report(app), Every(1)), {}),
    "function": (InvalidSchedule, "a bound call or start", lambda _: (print, Every(1)), {}),
    "flow": (InvalidSchedule, r"write \.bind", lambda app: (app.flow("f"), Every(1)), {}),
    "delay": (InvalidSchedule, "has no delay: its ticks say", lambda app: (bound(app, delay=5), Every(1)), {}),
    "run_at": (InvalidSchedule, "has no run_at", lambda app: (bound(app, run_at=NOW), Every(1)), {}),
    "after": (InvalidSchedule, 'has no after: overlap="wait"', lambda app: (bound(app, after=["id"]), Every(1)), {}),
    "raises": (InvalidSchedule, "has no unique_raises: no program", lambda app: (bound(app, unique="k", unique_raises=True), Every(1)), {}),
    "overlap": (InvalidOption, "overlap must be one of allow, skip, wait, replace, not 'queue'", lambda app: (bound(app), Every(1)), {"overlap": "queue"}),
    "no overlap": (InvalidOption, "overlap must be one of", lambda app: (bound(app), Every(1)), {"overlap": []}),
    "catch_up": (InvalidOption, "an integer from 1 to 100, not 101", lambda app: (bound(app), Every(1)), {"catch_up": 101}),
    "catch_up 0": (InvalidOption, "an integer from 1 to 100, not 0", lambda app: (bound(app), Every(1)), {"catch_up": 0}),
    "catch_up all": (InvalidOption, '"latest", "none" or an integer', lambda app: (bound(app), Every(1)), {"catch_up": "all"}),
    "catch_up True": (InvalidOption, "catch_up must be", lambda app: (bound(app), Every(1)), {"catch_up": True}),
    "jitter": (InvalidOption, "jitter must be at least 0 s", lambda app: (bound(app), Every(1)), {"jitter": -1}),
    "jitter text": (InvalidOption, "jitter must be a finite number", lambda app: (bound(app), Every(1)), {"jitter": "5"}),
    "starts": (InvalidOption, "starts must have a time zone", lambda app: (bound(app), Every(1)), {"starts": NOWHERE}),
    "ends": (InvalidOption, "ends must", lambda app: (bound(app), Every(1)), {"ends": 5}),
    "order": (InvalidSchedule, "cannot end before it starts", lambda app: (bound(app), Every(1)), {"starts": NOW, "ends": NOW - MINUTE}),
    "between": (InvalidSchedule, "no tick between its start and its end", lambda app: (bound(app), Cron("0 3 * * *")), {"starts": NOW, "ends": NOW + MINUTE}),
    "option": (InvalidOption, "no option 'overlapp'.*did you mean 'overlap'", lambda app: (bound(app), Every(1)), {"overlapp": "skip"}),
    "elsewhere": (InvalidOption, "no option 'priority'", lambda app: (bound(app), Every(1)), {"priority": 1}),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
async def test_a_wrong_argument_is_refused_before_any_io(no_store: App, do: Do, what: str) -> None:
    error, message, arguments, options = WRONG[what]
    given = arguments(no_store)

    with pytest.raises(error, match=message):
        no_store.schedule("s", *given, **options)
    with pytest.raises(error, match=message):
        await do(no_store.create_schedule, "s", *given, **options)
    assert no_store.internals.schedules == {}


@whatever_the_store
async def test_a_connection_of_the_caller_is_refused(app: App) -> None:
    call = make_report(app).using(connection=sqlite3.connect(":memory:")).bind("x")

    with pytest.raises(InvalidSchedule, match="has no connection: it fires long after the transaction has ended"):
        app.schedule("s", call, Every(1))


@pytest.mark.parametrize("name", ["a b", "", "a\n", "ä", 5, None])
async def test_a_wrong_name_is_refused_before_any_io(no_store: App, do: Do, name: Any) -> None:
    call = bound(no_store)

    with pytest.raises(InvalidName):
        no_store.schedule(name, call, Every(1))
    with pytest.raises(InvalidName):
        await do(no_store.create_schedule, name, call, Every(1))
    with pytest.raises(InvalidName):
        await do(no_store.get_schedule, name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cron("daily"), "'daily' is no cron text"),
        (lambda: Cron("61 * * * *"), "'61 .*' is no cron text"),
        (lambda: Cron("* * * *"), r"Write minute, hour, day of month, month and day of week, such as '0 3 \* \* \*'"),
        (lambda: Cron("@reboot"), "of those with an @ there are @yearly"),
        (lambda: Cron(""), "is no cron text"),
        (lambda: Cron("0 " * 200), "at most 200 characters"),
        (lambda: Cron("0 0 30 2 *"), "bad day-of-month"),
        (lambda: Cron(5), "takes a text"),  # type: ignore[arg-type]
        (lambda: Cron("0 3 * * *", "Europe/Pari"), "there is no time zone 'Europe/Pari'"),
        (lambda: Cron("0 3 * * *", "../etc/passwd"), "there is no time zone"),
        (lambda: Cron("0 3 * * *", ""), "there is no time zone"),
        (lambda: Cron("0 3 * * *", timezone(timedelta(0))), "the name of a time zone"),  # type: ignore[arg-type]
        (lambda: Every(0.5), "Every must be at least 1 s, not 0.5"),
        (lambda: Every(float("nan")), "Every must be a finite number"),
        (lambda: Every("60"), "Every must be a finite number"),  # type: ignore[arg-type]
        (lambda: Every(timedelta(0)), "at least 1 s"),
        (lambda: At(NOWHERE), "At must have a time zone"),
        (lambda: At("2026-01-01"), "At must be a datetime"),  # type: ignore[arg-type]
    ],
)
def test_a_time_that_can_never_come_is_refused_when_it_is_written(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidSchedule, match=message) as refused:
        make()
    assert isinstance(refused.value, ValueError)


def test_arguments_that_do_not_fit_are_refused_when_they_are_bound(no_store: App) -> None:
    report = make_report(no_store)

    with pytest.raises(TypeError):
        no_store.schedule("s", report.bind(), Every(1))  # type: ignore[call-arg]
    assert no_store.internals.schedules == {}


def test_a_name_that_is_declared_already_is_refused(no_store: App) -> None:
    report = make_report(no_store)
    no_store.schedule("nightly", report.bind("x"), Every(60))

    with pytest.raises(
        InvalidOption, match="there is a schedule named 'nightly' already: give one of them another name"
    ):
        no_store.schedule("nightly", report.bind("x"), Every(60))
    with pytest.raises(InvalidOption, match="there is a schedule named 'nightly' already"):

        @no_store.task(schedule=Every(60))
        def nightly() -> None: ...

    assert "nightly" not in no_store.tasks


def test_a_task_that_needs_arguments_cannot_have_a_schedule_of_its_own(no_store: App) -> None:
    with pytest.raises(
        InvalidSchedule, match=r"passes no arguments; use app\.schedule\('greet', greet\.bind\(…\), …\)"
    ):

        @no_store.task(schedule=Every(60))
        def greet(name: str) -> None: ...

    assert "greet" not in no_store.tasks
    assert no_store.internals.schedules == {}

    @no_store.task(schedule=Every(60), name="greet")
    def greet_all(name: str = "you") -> None: ...

    assert list(no_store.internals.schedules) == ["greet"]


@pytest.mark.parametrize("when", ["0 3 * * *", 60, object()])
def test_a_schedule_of_a_task_is_a_cron_an_interval_or_an_instant(no_store: App, when: Any) -> None:
    with pytest.raises(InvalidOption, match=r"schedule must be Cron\(…\), Every\(…\) or At\(…\)"):

        @no_store.task(schedule=when)
        def nightly() -> None: ...


def test_a_step_has_no_schedule_of_its_own(no_store: App) -> None:
    with pytest.raises(InvalidOption, match="schedule"):

        @no_store.flow("order").step(schedule=Every(60))  # type: ignore[call-overload, untyped-decorator]
        def reserve() -> None: ...


def test_what_other_libraries_call_it_is_understood(no_store: App) -> None:
    with pytest.raises(InvalidOption, match="schedule"):

        @no_store.task(cron="0 3 * * *")  # type: ignore[call-overload, untyped-decorator]
        def nightly() -> None: ...
