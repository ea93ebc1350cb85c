"""Tasks of the project."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from datetime import date
from typing import Any

from asgiref.sync import sync_to_async

from tenure import Backoff, Retry
from tenure.django import task
from tenure.django.framework import TaskContext

from .models import Order


@task
def add(a: int, b: int = 1) -> int:
    return a + b


@task(queue_name="mail")
async def double(number: int) -> int:
    await asyncio.sleep(0)
    return number * 2


@task
def echo(*args: Any, **kwargs: Any) -> Any:
    return [args, kwargs]


@task
def typed(day: date) -> str:
    """The annotation must not convert: Django's backends pass JSON."""
    return type(day).__name__


@task
def fail(message: str) -> None:
    raise ShopError(message)


@task
def divide(a: int, b: int) -> float:
    return a / b


@task
def unstorable() -> object:
    return object()


@task
async def not_a_number() -> float:
    """JSON as Django makes it can hold this, and that of other programs cannot."""
    return float("nan")


@task(takes_context=True)
def describe(context: TaskContext, text: str) -> list[Any]:
    result = context.task_result
    stored = describe.get_result(result.id)
    return [
        context.attempt,
        result.id,
        result.status,
        stored.status,
        result.args,
        result.worker_ids == stored.worker_ids,
        text,
    ]


@task(takes_context=True, retry=Backoff(initial=0.01), max_attempts=3)
def third_time(context: TaskContext) -> int:
    if context.attempt < 3:
        raise ShopError(f"attempt {context.attempt}")
    return context.attempt


@task(takes_context=True, max_attempts=2)
async def later(context: TaskContext) -> int:
    if context.attempt == 1:
        raise Retry(after=0)
    return context.attempt


@task(timeout=0.2)
async def slow() -> None:
    await asyncio.sleep(30)


@task(timeout=0.1)
def dawdle() -> None:
    """Notices too late that it should stop, and returns."""
    time.sleep(0.3)


@task(unique=True)
def once(key: str) -> str:
    return key


@task
async def acount_orders() -> list[Any]:
    return [await Order.objects.acount(), await sync_to_async(lambda: threading.current_thread().name)()]


@task
def count_orders() -> list[Any]:
    """What a task sees of the database, and on which thread it ran."""
    return [Order.objects.count(), threading.current_thread().name]


@task
def die_once(marker: str) -> int:
    """Kill the worker at the first attempt."""
    if not os.path.exists(marker):
        with open(marker, "w") as file:
            file.write(str(os.getpid()))
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


class ShopError(Exception):
    """An error of this project, to see where results find its class."""


@task(isolation="process", takes_context=True)
def alone(context: TaskContext) -> list[Any]:
    """What a task sees in a child process."""
    return [os.getpid(), context.attempt, Order.objects.count()]
