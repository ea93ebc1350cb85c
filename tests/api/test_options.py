"""Every option of App, task, step, `using` and worker is checked where it is given, and the error says what to write."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tenure import App, Backoff, Next, Retention
from tenure.core.checks import JOB_OPTIONS
from tenure.core.keywords import (
    AppKeywords,
    Filters,
    JobKeywords,
    NextKeywords,
    ScheduleKeywords,
    StepKeywords,
    TaskKeywords,
    WorkerKeywords,
)
from tenure.core.options import UNSET, AppOptions, TaskOptions, WorkerOptions
from tenure.errors import InvalidName, InvalidOption, JobFailed
from tenure.worker.settings import resolve
from tests.option_tables import PAGE, documented, rewritten, tables


def send(user: int) -> None: ...


def make_app(options: dict[str, Any]) -> object:
    return App("memory://", **options)


def make_task(options: dict[str, Any]) -> object:
    return App("memory://").task(**options)(send)


def make_step(options: dict[str, Any]) -> object:
    return App("memory://").flow("order").step(**options)(send)


def use_task(options: dict[str, Any]) -> object:
    return App("memory://").task(send).using(**options)


def use_flow(options: dict[str, Any]) -> object:
    return App("memory://").flow("order").using(**options)


def use_next(options: dict[str, Any]) -> object:
    return Next("send").using(**options)


def make_worker(options: dict[str, Any]) -> object:
    return App("memory://").worker(**options)


def make_flow_worker(options: dict[str, Any]) -> object:
    flow = App("memory://").flow("order")
    flow.step(send)
    return flow.worker(**options)


WHOSE: dict[Callable[..., object], str] = {
    make_app: "App: ",
    make_task: "task 'send': ",
    make_step: "step .send. of flow .order.:? ",
    use_task: "task 'send': ",
    use_flow: "flow 'order': ",
    use_next: r"Next\('send'\): ",
    make_worker: "worker: ",
    make_flow_worker: "worker: ",
}

WRONG: list[tuple[Callable[..., object], dict[str, Any], str]] = [
    # retry
    (make_task, {"retry": True}, "retry must be a Backoff, an integer .* or None, not True: write retry=Backoff"),
    (make_task, {"retry": Backoff}, r"retry must be .*, not the class Backoff: write retry=Backoff\(\)"),
    (make_task, {"retry": -1}, "retry must be .*, not -1"),
    (make_task, {"retry": 2.5}, r"retry must be .*, not 2\.5: write retry=Backoff\(initial=2\.5\)"),
    (make_task, {"retry": "3"}, "retry must be .*, not '3'"),
    (make_task, {"retry": False}, "retry must be .*, not False: write retry=None"),
    (make_task, {"retry": ValueError}, r"not the class ValueError: write retry=Backoff\(on=ValueError\)"),
    (make_task, {"retry": 3, "max_attempts": 5}, "retry=3 means max_attempts=4: give one of the two"),
    (make_step, {"retry": True}, "retry must be"),
    (make_app, {"retry": True}, "retry must be"),
    (make_app, {"retry": 3, "max_attempts": 5}, "retry=3 means max_attempts=4"),
    (make_worker, {"retry": Backoff}, "retry must be .*the class Backoff"),
    # Types and ranges: tasks
    (make_task, {"max_attempts": "3"}, "max_attempts must be an integer, at least 1, or None for no limit, not '3'"),
    (make_task, {"max_attempts": True}, "max_attempts must be"),
    (make_task, {"max_attempts": 2.0}, "max_attempts must be"),
    (make_task, {"max_attempts": 2**31}, "max_attempts must be"),
    (make_task, {"max_losses": 0}, r"max_losses must be an integer, at least 1, not 0 \(None: never\)"),
    (make_task, {"max_losses": "3"}, "max_losses must be"),
    (make_task, {"lease": None}, "lease must be a finite number of seconds or a timedelta, not None"),
    (make_task, {"lease": "30"}, "lease must be .* not '30'"),
    (make_task, {"lease": 10, "renew": 6}, "renew must be at most half the lease of 10 s"),
    (make_task, {"timeout": 0}, r"timeout must be at least 0\.001 s, not 0"),
    (make_task, {"timeout": "5m"}, "timeout must be a finite number"),
    (make_task, {"keep": "forever"}, "keep must be"),
    (make_task, {"keep": Retention()}, "keep must be a finite number of seconds"),
    (make_task, {"priority": "high"}, "priority must be an integer of 32 bits, not 'high'"),
    (make_task, {"raw": "no"}, "raw must be True or False, not 'no'"),
    (make_task, {"isolation": "thread"}, 'isolation must be "process" or None, not \'thread\''),
    (make_task, {"isolation": "process", "memory_limit": 512}, "memory_limit must be an integer of bytes, at least"),
    (make_task, {"isolation": "process", "memory_limit": "512M"}, "memory_limit must be .* not '512M'"),
    (make_task, {"memory_limit": 1 << 30}, 'needs isolation="process" beside it'),
    (make_task, {"isolation": "process", "output": True}, "output must be an integer of bytes, at least 0, not True"),
    (make_task, {"aliases": "old"}, r"aliases must be a list, .*write \['old'\]"),
    (make_task, {"aliases": 3}, "aliases must be a list"),
    (make_task, {"queue": ""}, "'' is not a valid queue name"),
    (make_task, {"queue": "a b"}, "'a b' is not a valid queue name"),
    (make_step, {"then": 3}, "then and next must be steps of the flow, or their names, not 3"),
    (make_step, {"next": "pay"}, r"next must be a list, .*write \['pay'\]"),
    # Apps
    (make_app, {"max_attempts": 0}, "max_attempts must be"),
    (make_app, {"lease": 0.5}, "lease must be at least 1 s"),
    (make_app, {"lease": UNSET}, "lease must be .* not UNSET"),
    (make_app, {"keep": 3600}, r"keep must be a Retention.* not 3600: write keep=Retention\(succeeded=3600\)"),
    (make_app, {"keep": {"mail": 3600}}, r"keep\['mail'\] must be a Retention"),
    (make_app, {"default_queue": 3}, "3 is not a valid queue name"),
    (make_app, {"payload_limit": 1.5}, "payload_limit must be an integer of bytes"),
    (make_app, {"unknown_for": None}, "unknown_for must be a finite number"),
    (make_app, {"wakeup": "off"}, "wakeup must be True or False, not 'off'"),
    (make_app, {"complete_timeout": 0}, "complete_timeout must be at least"),
    (make_app, {"log": True}, "log must be a logging.Logger, False or None, not True"),
    (make_app, {"log": "jobs"}, r"log must be .*write logging\.getLogger\('jobs'\)"),
    (make_app, {"listeners": print}, "listeners must be a list or another iterable, not the function print"),
    # using
    (use_task, {"delay": "10"}, "delay must be a finite number"),
    (use_task, {"delay": None}, "delay must be a finite number"),
    (use_task, {"delay": 1, "run_at": datetime(2026, 1, 1, tzinfo=UTC)}, "either a delay or a run_at"),
    (use_task, {"run_at": 10}, "run_at must be a datetime, not 10"),
    (use_task, {"window": 60}, "window applies to the unique key of a job, and this job has none: give unique= too"),
    (use_task, {"window": 60, "unique": False}, "window applies to the unique key"),
    (use_task, {"unique_raises": True}, "unique_raises applies to the unique key"),
    (use_task, {"unique": "k", "unique_raises": "yes"}, "unique_raises must be True or False"),
    (use_task, {"unique": 3}, "unique must be True or a text"),
    (use_task, {"tags": "vip"}, r"tags must be a list, .*write \['vip'\]"),
    (use_task, {"tags": None}, "tags must be a list"),
    (use_task, {"max_attempts": "3"}, "max_attempts must be"),
    (use_task, {"if_blocker_fails": "hope"}, "if_blocker_fails must be one of"),
    (use_task, {"after": 3}, "after must be a list"),
    (use_flow, {"window": 60}, "window applies to the unique key"),
    (use_flow, {"delay": "10"}, "delay must be"),
    (use_next, {"delay": "10"}, "delay must be"),
    # Workers
    (make_worker, {"concurrency": 0}, "concurrency must be an integer, at least 1, not 0"),
    (make_worker, {"concurrency": "4"}, "concurrency must be .* not '4'"),
    (make_worker, {"queues": []}, "queues must name at least one queue"),
    (make_worker, {"queues": None}, "queues must be a list"),
    (make_worker, {"queues": "a,b"}, r"queues must be a list, not 'a,b': write \['a', 'b'\]"),
    (make_worker, {"queues": [1]}, "queues must be names of queues and patterns, not 1"),
    (make_worker, {"tasks": "send"}, r"tasks must be a list, .*write \['send'\]"),
    (make_worker, {"tasks": [send]}, "tasks must be tasks and names of tasks, not the function send"),
    (make_worker, {"id": "my worker"}, "'my worker' is not a valid worker name"),
    (make_worker, {"poll": 0}, "poll must be at least"),
    (make_worker, {"reap": "no"}, "reap must be True or False"),
    (make_worker, {"health_port": "8080"}, "health_port must be an integer from 0 to 65,535, not '8080'"),
    (make_worker, {"health_host": None}, "health_host must be a text, not None"),
    (make_worker, {"max_jobs": 0}, "max_jobs must be an integer, at least 1, not 0"),
    (make_worker, {"max_memory": "1G"}, "max_memory must be an integer of bytes"),
    (make_worker, {"isolated": 0}, "isolated must be"),
    (make_worker, {"middleware": 3}, "middleware must be a list"),
    (make_flow_worker, {"concurrency": 0}, "concurrency must be"),
    # Names that there are not
    (make_task, {"retries": 3}, "no option 'retries': write max_attempts=4, .*or retry=3"),
    (make_task, {"max_retries": 3}, "no option 'max_retries': write max_attempts=4"),
    (make_task, {"autoretry_for": (ValueError,)}, "no option 'autoretry_for': did you mean 'retry'"),
    (make_task, {"time_limit": 3}, "no option 'time_limit': did you mean 'timeout'"),
    (make_task, {"time_out": 3}, "no option 'time_out': did you mean 'timeout'"),
    (make_task, {"delay": 3}, r"no option 'delay': write \.using\(delay=…\)"),
    (make_task, {"bananas": 3}, "no option 'bananas': the options are aliases, "),
    (make_step, {"raw": True}, "takes attributes by name, not the bytes that raw=True means"),
    (make_step, {"inbox": "raw"}, r"no option 'inbox': write @app\.task\(inbox=…\)"),
    (make_step, {"nxt": ["pay"]}, "no option 'nxt': did you mean 'next'"),
    (use_task, {"countdown": 10}, "no option 'countdown': did you mean 'delay'"),
    (use_task, {"eta": 10}, "no option 'eta': did you mean 'run_at'"),
    (use_task, {"timeout": 10}, r"no option 'timeout': write @app\.task\(timeout=…\)"),
    (use_task, {"retry": 3}, r"no option 'retry': write @app\.task\(retry=…\)"),
    (use_task, {"max_retries": 3}, "no option 'max_retries': write max_attempts=4, because it counts the first attempt too$"),
    (use_flow, {"prioritty": 3}, "no option 'prioritty': did you mean 'priority'"),
    (use_next, {"unique": True}, r"no option 'unique': only the first job of a run has it: write flow\.using\(unique=…\)"),
    (use_next, {"countdown": 3}, "no option 'countdown': did you mean 'delay'"),
    (make_worker, {"threads": 3}, "no option 'threads': did you mean 'concurrency'"),
    (make_worker, {"concurency": 3}, "no option 'concurency': did you mean 'concurrency'"),
    (make_app, {"broker": "redis://"}, "no option 'broker': did you mean 'store'"),
    (make_app, {"max_retries": 3}, "no option 'max_retries': write max_attempts=4"),
    (make_app, {"concurrency": 3}, r"no option 'concurrency': write app\.worker\(concurrency=…\)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "options", "sentence"), WRONG, ids=[f"{make.__name__}-{'-'.join(options)}" for make, options, _ in WRONG]
)
def test_a_wrong_option_is_refused_in_one_sentence_that_names_it(
    make: Callable[[dict[str, Any]], object], options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((InvalidOption, InvalidName), match=f"^{WHOSE[make]}.*{sentence}") as refusal:
        make(options)

    assert "\n" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


def test_there_are_more_of_them_than_first_users_found() -> None:
    assert len(WRONG) > 43


@pytest.mark.parametrize("store", [3, Path("jobs.db"), object()])
def test_a_store_is_a_url_or_a_function(store: Any) -> None:
    with pytest.raises(InvalidOption, match="App: store must be a URL, or a function that makes a store, not"):
        App(store)


@pytest.mark.parametrize(
    ("option", "wrong"),
    [("on", "ValueError"), ("on", (ValueError, 3)), ("never", 3), ("multiplier", "2"), ("multiplier", True), ("jitter", "1")],
)  # fmt: skip
def test_a_backoff_is_checked_where_it_is_made(option: str, wrong: Any) -> None:
    with pytest.raises(InvalidOption, match=f"{option} must be"):
        Backoff(**{option: wrong})


def test_one_exception_class_may_stand_for_a_tuple_of_them() -> None:
    backoff = Backoff(on=OSError, never=FileNotFoundError)

    assert backoff.covers(OSError())
    assert not backoff.covers(FileNotFoundError())
    assert not backoff.covers(ValueError())
    assert not backoff.covers(KeyboardInterrupt())


def test_the_count_of_a_retention_is_an_integer() -> None:
    with pytest.raises(InvalidOption, match="count must be an integer, at least 0, not '9'"):
        Retention(count="9")  # type: ignore[arg-type]


def test_what_is_right_is_accepted() -> None:
    app = App("memory://", log=logging.getLogger("x"), keep={"*": Retention(), "mail": Retention(count=0)}, retry=0)
    task = app.task(retry=Backoff(), queue=None, name=None)(send)
    keyed = task.using(unique=True, window=60)

    keyed.using(unique_raises=True, window=None)
    keyed.using(unique=None)  # the window is not given anew
    task.using(window=None, unique_raises=False, unique=None)
    app.worker("mail", tasks=[task, "other"], retry=2)
    assert app.options.max_attempts == 1


def test_a_text_in_the_place_of_the_function_is_taken_for_the_name_that_was_meant() -> None:
    with pytest.raises(InvalidOption, match=r"write @….task\(name='send'\)"):
        App("memory://").task("send")  # type: ignore[call-overload]
    with pytest.raises(InvalidOption, match=r"write @….step\(name='send'\)"):
        App("memory://").flow("f").step("send")  # type: ignore[call-overload]


def test_options_beside_a_function_count() -> None:
    task = App("memory://").task(send, queue="mail")  # type: ignore[call-overload]

    assert task.queue == "mail"


# An integer as `retry`.


@pytest.mark.parametrize(
    ("app", "task", "worker", "attempts", "initial"),
    [
        ({}, {"retry": 3}, {}, 4, 10.0),
        ({}, {"retry": 0}, {}, 1, 10.0),
        ({"retry": 3}, {}, {}, 4, 10.0),
        ({}, {}, {"retry": 3}, 4, 10.0),
        ({"retry": Backoff(initial=1)}, {"retry": 3}, {}, 4, 1.0),
        ({"retry": Backoff(initial=1)}, {"retry": 3}, {"retry": Backoff(initial=2)}, 4, 2.0),
        ({"retry": None}, {"retry": 3}, {}, 4, 10.0),
        ({"retry": None}, {}, {"retry": 3}, 4, 10.0),
        ({}, {"retry": 1}, {"retry": 3}, 2, 10.0),
        ({"max_attempts": 9}, {"retry": Backoff(initial=1)}, {}, 9, 1.0),
        ({"retry": 3}, {"max_attempts": None}, {}, None, 10.0),
    ],
)
def test_an_integer_means_that_many_retries_with_the_backoff_that_holds_otherwise(
    app: dict[str, Any], task: dict[str, Any], worker: dict[str, Any], attempts: int | None, initial: float
) -> None:
    owner = App("memory://", **app)
    policy = resolve(owner.task(**task)(send), WorkerOptions(**worker), owner.options).policy

    assert policy.max_attempts == attempts
    assert policy.retry == Backoff(initial=initial)


async def test_a_task_with_two_retries_is_called_three_times_and_fails_with_its_own_error(app: App) -> None:
    calls: list[int] = []

    @app.task(retry=2)
    async def flaky() -> None:
        calls.append(len(calls))
        raise RuntimeError("the real error")

    job = await flaky.aenqueue()
    worker = app.worker(retry=Backoff(initial=0, jitter=0), poll=0.05)
    await worker.start()
    try:
        with pytest.raises(JobFailed, match="RuntimeError: the real error"):
            await job.aresult(timeout=20)
    finally:
        await worker.stop()
    assert calls == [0, 1, 2]


# Each option is declared in one class, checked in one table, and shown by editors as it is.


@pytest.mark.parametrize("options", [TaskOptions, WorkerOptions, AppOptions])
def test_every_option_has_a_check(options: type[Any]) -> None:
    assert options.checks.keys() == {field.name for field in dataclasses.fields(options)} - {"keep_in"}


@pytest.mark.parametrize(
    ("keywords", "options", "differ"),
    [
        # Keywords take what the options are made from; where the two have other types, both are here.
        (AppKeywords, AppOptions, {"keep": ("Retention | Mapping[str, Retention]", "Retention"), "keep_in": (None, "Mapping[str, Retention]")}),
        (TaskKeywords, TaskOptions, {"name": ("str | None", None), "queue": ("str | None", "str")}),
        (StepKeywords, TaskOptions, {
            "name": ("str | None", None), "queue": ("str | None", "str"), "raw": (None, "bool"), "inbox": (None, "Literal['raw'] | None"),
            "version": (None, "int"),
            "schedule": (None, "When | None"),
            "then": ("str | NamedStep | None", None), "next": ("Iterable[str | NamedStep] | None", None)}),
        (WorkerKeywords, WorkerOptions, {
            "queues": (None, "tuple[str, ...]"), "tasks": ("Iterable[str | Task[..., Any]] | None", "tuple[str, ...] | None"),
            "middleware": ("Sequence[Middleware]", None)}),
    ],
)  # fmt: skip
def test_keywords_have_the_names_and_types_of_the_options_that_document_them(
    keywords: Any, options: Any, differ: dict[str, tuple[str | None, str | None]]
) -> None:
    taken = types_of(keywords)
    declared = {
        field.name: field.type.replace("Unset | ", "").replace(" | Unset", "") for field in dataclasses.fields(options)
    }

    names = taken.keys() | declared.keys()
    assert {
        each: (taken.get(each), declared.get(each)) for each in names if taken.get(each) != declared.get(each)
    } == differ
    assert not keywords.__required_keys__


def test_every_option_of_a_job_has_a_check() -> None:
    assert JOB_OPTIONS.keys() == types_of(JobKeywords).keys() - {"connection"}
    assert types_of(NextKeywords).items() <= types_of(JobKeywords).items()


def types_of(keywords: Any) -> dict[str, str]:
    """The annotations of a class of keywords, as they are written."""
    return {each: hint.__forward_arg__ for each, hint in keywords.__annotations__.items()}


def test_every_option_is_documented_once_and_the_page_has_it_with_its_default() -> None:
    page = PAGE.read_text()

    assert page == rewritten(page), "python -m tests.option_tables writes docs/options.md anew"
    assert set(re.findall(r"<!-- options: (\w+) -->", page)) == tables().keys()
    for options in (AppOptions, TaskOptions, WorkerOptions):
        assert documented(options).keys() == {field.name for field in dataclasses.fields(options)}
    assert {**documented(NextKeywords), **documented(JobKeywords)}.keys() == types_of(JobKeywords).keys()
    for keywords in (ScheduleKeywords, Filters):
        assert documented(keywords).keys() == types_of(keywords).keys()
