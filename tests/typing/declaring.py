"""What type checkers must accept and must refuse of bridges whose queues are declared. Not run: mypy and pyright read it."""

from __future__ import annotations

from typing import assert_type

from tenure import App, Context, Task
from tenure.bridges import Hworker, Worqr
from tenure.tasks.task import AsyncTask
from tenure.worker.worker import Worker

app = App("memory://")
worqr = Worqr(app, "redis://localhost", prefix="shop")
hworker = Hworker(app, "redis://localhost", monitor=True)


@worqr.queue("mail", max_attempts=None, timeout=60)
def mail(task: bytes) -> int:
    return len(task)


@hworker.queue("reports", timeout=120, on_exception="retry", keep=86400)
async def report(ctx: Context, job: dict[str, int]) -> None: ...


posted: Task[[bytes], int] = mail
reported: AsyncTask[[dict[str, int]], None] = report
assert_type(mail(b""), int)
assert_type(worqr.enqueue("mail", "a", b"b", unique=True), None)
assert_type(worqr.cancel("mail", "a"), int)
assert_type(hworker.enqueue("reports", {"month": 3}), str)
assert_type(worqr.worker(["mail"], concurrency=2, keep=True), Worker)


async def produce() -> None:
    assert_type(await hworker.aenqueue("reports", {"month": 3}), str)
    await worqr.aenqueue("mail", "a")


worqr.queue("mail", raw=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
worqr.enqueue("mail", 7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
hworker.queue("reports", max_attempts=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
hworker.queue("reports", on_exception="ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
