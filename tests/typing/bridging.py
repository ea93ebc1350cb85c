"""What type checkers say about a bridge to Resque. Each `type: ignore` is an error that they must find."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import assert_type

from tenure import App, Job
from tenure.bridges import Resque
from tenure.worker.worker import Worker

app = App()
resque = Resque(app, "redis://localhost", namespace="resque", prune=True, schedule=True)


def right() -> None:
    assert_type(resque.enqueue("Notify", 42, "text", queue="mail"), None)
    resque.enqueue("Notify", queue="mail", at=datetime.now(UTC), client="node")
    notify = resque.remote("Notify", queue="mail")
    assert_type(notify.using(delay=60, unique=True).enqueue(42), Job[None])
    assert_type(resque.worker(["critical", "*", "!slow"], concurrency=4, keep=True), Worker)


async def right_on_a_loop() -> None:
    await resque.aenqueue("Notify", 42, queue="mail")


def wrong() -> None:
    resque.enqueue("Notify", 42)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    resque.enqueue("Notify", queue="mail", client="perl")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    resque.enqueue("Notify", queue="mail", at=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    resque.worker(["*"], concurency=4)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
