"""What Django asks of a backend, on the store that the environment names. tests/django/test_contract.py runs it for each store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import django
import pytest

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import close_old_connections, connection, connections, transaction  # noqa: E402
from django.test import override_settings  # noqa: E402
from django.utils import timezone  # noqa: E402

from tenure import App  # noqa: E402
from tenure.core.job import JobRecord, State  # noqa: E402
from tenure.django import TenureBackend, task  # noqa: E402
from tenure.django.results import UNKNOWN_WORKER, result_of  # noqa: E402
from tenure.django.testing import forget_tasks, run_tasks  # noqa: E402
from tenure.errors import InvalidOption  # noqa: E402
from tests.django.project.framework import (  # noqa: E402
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from tests.django.project.shop import tasks  # noqa: E402
from tests.django.project.shop.models import Order  # noqa: E402

JOINS = os.environ.get("DJANGO_TEST_OPTIONS", "{}") == "{}"


@pytest.fixture(scope="session", autouse=True)
def tables() -> None:
    for alias in connections:
        call_command("migrate", run_syncdb=True, verbosity=0, database=alias)


@pytest.fixture(autouse=True)
def empty() -> None:
    forget_tasks()
    Order.objects.all().delete()


@pytest.fixture
def backend() -> TenureBackend:
    found = task_backends["default"]
    assert isinstance(found, TenureBackend)
    return found


@pytest.fixture
def app(backend: TenureBackend) -> App:
    return backend.app


@pytest.fixture
def heard() -> Iterator[list[tuple[str, Any]]]:
    """The signals so far, each with its name, the result's id and its status then."""
    found: list[tuple[str, Any]] = []

    def hear(name: str) -> Any:
        return lambda sender, task_result, **_: found.append((name, task_result.id, str(task_result.status)))  # type: ignore[arg-type]

    receivers = [
        (s, hear(n)) for n, s in (("enqueued", task_enqueued), ("started", task_started), ("finished", task_finished))
    ]
    for signal, receiver in receivers:
        signal.connect(receiver)
    yield found
    for signal, receiver in receivers:
        signal.disconnect(receiver)


def times(result: Any) -> list[Any]:
    return [result.enqueued_at, result.started_at, result.last_attempted_at, result.finished_at]


def work(app: App) -> None:
    """Run what there is, in threads and on the loop of a real worker."""
    app.worker(concurrency=4, poll=0.05).run(until_empty=True)


# Enqueueing and results.


def test_a_task_is_enqueued_and_runs(app: App) -> None:
    result = tasks.add.enqueue(2, b=3)

    assert (result.status, result.args, result.kwargs, result.attempts) == ("READY", [2], {"b": 3}, 0)
    assert result.enqueued_at is not None
    assert abs(result.enqueued_at - timezone.now()) < timedelta(seconds=5)
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value

    work(app)
    result.refresh()

    assert (result.status, result.return_value, result.is_finished, result.attempts) == ("SUCCESSFUL", 5, True, 1)
    assert sorted(times(result)) == times(result)
    assert result.started_at == result.last_attempted_at
    assert result.errors == []


def test_the_async_methods_do_the_same(app: App) -> None:
    async def scene() -> Any:
        result = await tasks.double.aenqueue(4)
        found = await tasks.double.aget_result(result.id)
        assert (found.id, found.status) == (result.id, "READY")
        await asyncio.to_thread(work, app)
        await result.arefresh()
        return result

    result = asyncio.run(scene())

    assert (result.return_value, result.task.queue_name) == (8, "mail")


def test_a_result_is_found_by_its_id(app: App, backend: TenureBackend) -> None:
    result = tasks.add.using(priority=7).enqueue(1)

    found = tasks.add.get_result(result.id)

    assert (found.id, found.task.func, found.task.priority, found.backend) == (result.id, tasks.add.func, 7, "default")
    with pytest.raises(TaskResultMismatch):
        tasks.echo.get_result(result.id)
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result("nothing")
    job = app.remote("a.task.of.no.django").enqueue()
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(job.id)


def test_a_larger_priority_runs_first() -> None:
    low, high = tasks.add.enqueue(1), tasks.add.using(priority=100).enqueue(2)

    assert [result.id for result in run_tasks()] == [high.id, low.id]


def test_a_task_is_not_run_before_its_time(app: App) -> None:
    moment = timezone.now() + timedelta(hours=1)
    result = tasks.add.using(run_after=moment).enqueue(1)

    assert run_tasks() == []
    result.refresh()
    assert result.status == "READY"
    assert abs((tasks.add.get_result(result.id).task.run_after or timezone.now()) - moment) < timedelta(seconds=1)
    app.job(result.id).trigger()
    assert [each.id for each in run_tasks()] == [result.id]


def test_arguments_and_results_are_plain_json() -> None:
    tasks.echo.enqueue((1, 2), b"text", name={"a": [None, 1.5]})
    tasks.typed.enqueue("2026-01-01")  # type: ignore[arg-type]

    echoed, typed = run_tasks()

    assert echoed.return_value == [[[1, 2], "text"], {"name": {"a": [None, 1.5]}}]
    assert typed.return_value == "str"
    with pytest.raises(TypeError, match="Unsupported type"):
        tasks.echo.enqueue(object())
    with pytest.raises(TypeError, match="missing a required argument"):
        tasks.divide.enqueue(1)  # type: ignore[call-arg]


def test_a_task_gets_its_context() -> None:
    result = tasks.describe.enqueue("text")

    [ran] = run_tasks()

    assert ran.return_value == [1, result.id, "RUNNING", "RUNNING", ["text"], True, "text"]


# Failures and attempts.


def test_a_failure_has_its_class_and_traceback() -> None:
    tasks.fail.enqueue("no\nShopError: not this line")
    tasks.divide.enqueue(1, 0)
    tasks.unstorable.enqueue()

    shop, zero, unstorable = run_tasks()

    assert {each.status for each in (shop, zero, unstorable)} == {"FAILED"}
    with pytest.raises(ValueError, match="Task failed"):
        _ = shop.return_value
    assert [error.exception_class for error in shop.errors] == [tasks.ShopError]
    assert [error.exception_class_path for error in zero.errors] == ["builtins.ZeroDivisionError"]
    assert "return a / b" in zero.errors[0].traceback
    assert unstorable.errors[0].exception_class.__name__ == "InvalidResult"


def test_a_task_is_tried_once_unless_it_says_otherwise(app: App) -> None:
    result = tasks.third_time.enqueue()
    once = tasks.fail.enqueue("no")
    more = tasks.fail.using(max_attempts=2).enqueue("no")
    again = tasks.later.enqueue()

    while not result.is_finished:
        work(app)
        result.refresh()
    for each in (once, more, again):
        each.refresh()

    assert (result.return_value, result.attempts, len(result.worker_ids), len(result.errors)) == (3, 3, 3, 2)
    assert UNKNOWN_WORKER not in result.worker_ids
    assert sorted(times(result)) == times(result)
    assert result.started_at != result.last_attempted_at
    assert (once.status, once.attempts) == ("FAILED", 1)
    assert (more.status, more.attempts) == ("READY", 1)  # its second attempt is not due yet
    assert [again._return_value, again.attempts] == [2, 2]


def test_options_of_tenure(app: App) -> None:
    first, second = tasks.once.enqueue("a"), tasks.once.enqueue("a")
    named = [tasks.add.using(unique="k").enqueue(1), tasks.add.using(unique="k").enqueue(2)]
    unkept = tasks.add.using(keep=0).enqueue(1)
    expired = tasks.add.using(expires=0).enqueue(1)
    slow = tasks.slow.enqueue()

    work(app)
    slow.refresh()
    expired.refresh()

    assert (first.id, named[0].id, named[1].args) == (second.id, named[1].id, [1])
    assert [error.exception_class for error in slow.errors] == [TimeoutError]
    assert (expired.status, expired.attempts) == ("FAILED", 0)
    with pytest.raises(TaskResultDoesNotExist):
        unkept.refresh()
    with pytest.raises(InvalidTask, match="option of the function"):
        tasks.add.using(timeout=1)  # type: ignore[call-arg]
    with pytest.raises(InvalidTask, match="max_attempts"):
        tasks.add.using(max_attempts=0)
    with pytest.raises(TypeError, match="unexpected"):
        tasks.add.using(colour="red")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (State.WAITING, "READY"),
        (State.BLOCKED, "READY"),
        (State.RUNNING, "RUNNING"),
        (State.SUCCEEDED, "SUCCESSFUL"),
        (State.FAILED, "FAILED"),
        (State.BROKEN, "FAILED"),
        (State.CANCELLED, "FAILED"),
    ],
)
def test_each_state_has_a_status(state: State, status: str) -> None:
    job = JobRecord("id", tasks.add.module_path, "gone", state, b'{"args":[1]}', attempt=12, worker="w", started_at=1.0)

    result = result_of(tasks.add, job, "default")

    assert (result.status, result.attempts, result.task.queue_name) == (status, 12, "gone")


def test_a_cancelled_task_has_failed(app: App) -> None:
    result = tasks.add.enqueue(1)
    app.cancel(result.id)

    result.refresh()

    assert (result.status, result.attempts, result.is_finished) == ("FAILED", 0, True)
    assert result.finished_at is not None


def test_signals_are_sent(app: App, heard: list[Any]) -> None:
    good, bad, lasting = tasks.add.enqueue(1), tasks.fail.enqueue("no"), tasks.double.enqueue(1)
    again = tasks.later.enqueue()
    unstorable: list[Any] = [tasks.unstorable.enqueue(), tasks.not_a_number.enqueue()]
    work(app)

    for result, end in ((good, "SUCCESSFUL"), (bad, "FAILED"), (lasting, "SUCCESSFUL")):
        assert [(name, status) for name, id_, status in heard if id_ == result.id] == [
            ("enqueued", "READY"),
            ("started", "RUNNING"),
            ("finished", end),
        ]
    for each in unstorable:
        assert [status for name, id_, status in heard if id_ == each.id and name == "finished"] == ["FAILED"]
    assert [name for name, id_, _ in heard if id_ == again.id] == ["enqueued", "started", "started", "finished"]


def test_a_task_that_was_given_up_does_not_finish_twice(app: App, heard: list[Any]) -> None:
    result = tasks.dawdle.enqueue()
    work(app)

    assert [name for name, id_, _ in heard if id_ == result.id] == ["enqueued", "started", "finished"]
    assert heard[-1][2] == "FAILED"


def test_a_function_needs_a_path_that_is_a_name() -> None:
    def hidden() -> None: ...

    hidden.__module__, hidden.__qualname__ = "_shop.tasks", "hidden"

    with pytest.raises(InvalidTask, match=r"tenure\.E003.*'_shop\.tasks\.hidden'"):
        task(hidden)


@pytest.mark.parametrize("name", ["immediate.ImmediateBackend", "dummy.DummyBackend"])
def test_tasks_with_options_of_tenure_work_with_backends_of_django(name: str) -> None:
    package = type(task_backends).__module__
    with override_settings(TASKS={"default": {"BACKEND": f"{package}.backends.{name}", "QUEUES": []}}):
        result = tasks.third_time.using(max_attempts=4, unique=True).enqueue()

    assert result.status == ("FAILED" if "Immediate" in name else "READY")


# Transactions.


def test_a_task_commits_with_its_transaction_and_is_rolled_back_with_it(app: App) -> None:
    def order(number: int) -> tuple[bool, str]:
        try:
            with transaction.atomic():
                Order.objects.create(name=str(number))
                result = tasks.add.enqueue(number)
                if number % 2:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            return False, result.id
        finally:
            close_old_connections()
            connection.close()
        return True, result.id

    with ThreadPoolExecutor(8) as threads:
        orders = list(threads.map(order, range(40)))

    assert sorted(job.id for job in app.jobs(limit=100)) == sorted(id_ for committed, id_ in orders if committed)
    assert Order.objects.count() == 20


def test_a_savepoint_takes_its_tasks_with_it(app: App) -> None:
    with transaction.atomic():
        outer = tasks.add.enqueue(1)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            tasks.add.enqueue(2)
            raise ZeroDivisionError
        with transaction.atomic():
            inner = tasks.add.enqueue(3)

    assert {job.id for job in app.jobs()} == {outer.id, inner.id}


def test_a_result_is_read_through_the_transaction(app: App, backend: TenureBackend) -> None:
    with transaction.atomic():
        result = tasks.add.enqueue(1)
        if JOINS:
            result.refresh()
            assert (result.status, result.args) == ("READY", [1])
            assert tasks.add.get_result(result.id).id == result.id
            again = tasks.add.using(unique="k").enqueue(1)
            assert tasks.add.using(unique="k").enqueue(2).id == again.id
        with pytest.raises(TaskResultDoesNotExist):
            backend.get_result("nothing")
        assert app.jobs() == []

    result.refresh()


def test_now_does_not_wait_and_after_does(app: App, heard: list[Any]) -> None:
    if connection.vendor == "sqlite" and JOINS:
        with transaction.atomic(), pytest.raises(InvalidOption, match="one writer"):
            tasks.add.using(backend="now").enqueue(1)
        return
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        now = tasks.add.using(backend="now").enqueue(1)
        tasks.add.using(backend="after").enqueue(2)
        raise ZeroDivisionError

    assert [job.id for job in app.jobs()] == [now.id]


def test_after_stores_it_when_the_transaction_has_committed(app: App, heard: list[Any]) -> None:
    with transaction.atomic():
        after = tasks.add.using(backend="after").enqueue(2)
        assert heard == []

    after.refresh()
    assert [job.id for job in app.jobs()] == [after.id]
    assert heard == [("enqueued", after.id, "READY")]
