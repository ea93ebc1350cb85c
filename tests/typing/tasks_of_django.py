"""What type checkers must accept and must refuse of tasks of Django; as `producing.py`. (Only mypy: pyright sees no types of Django.)"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, assert_type

from django_tasks.base import TaskContext, TaskResult

from tenure import Backoff
from tenure.django import TenureTask, task
from tenure.django.testing import run_tasks


@task
def plain(a: int, b: str = "") -> float:
    return a / len(b)


@task(queue_name="mail", max_attempts=5, retry=Backoff(initial=1), timeout=timedelta(minutes=1), unique=True, keep=60)
def send(order: int) -> str:
    return str(order)


@task(takes_context=True, isolation="process", expires=10)
def described(context: TaskContext, text: str) -> list[str]:
    return [text, *context.task_result.worker_ids]


assert_type(plain.enqueue(1, b="x"), TaskResult[float])
assert_type(send.using(priority=10, unique="k", keep=None).enqueue(1).return_value, str | None)
assert_type(described.enqueue("x").return_value, list[str] | None)
assert_type(described.using(run_after=datetime(2030, 1, 1), max_attempts=None).enqueue("x"), TaskResult[list[str]])
assert_type(run_tasks("default", limit=10), list[TaskResult[Any]])
kept: TenureTask[[int], str] = send

plain.enqueue("one")  # type: ignore[arg-type]
plain.enqueue(1, c=2)  # type: ignore[call-arg]
described.enqueue(1)  # type: ignore[arg-type]
send.using(timeout=1)  # type: ignore[call-arg]
send.using(unique=1.5)  # type: ignore[arg-type]


@task(colour="red")  # type: ignore[call-overload, untyped-decorator]
def wrong() -> None: ...
