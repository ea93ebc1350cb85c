"""A flow whose steps hand over, fan out and join, and workers that die between "step done" and "next step queued".

A worker process is told at which end of which step to die: when the function has `returned` and nothing is settled, while the
hand-over is `on its way`, or when it is `settled` and the worker has not heard.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from tenure import App, Backoff, Context, Flow, Next, Retention
from tenure.stores import open_store
from tenure.stores.base import Store
from tenure.stores.values import Leased, LeaseRequest, Settlement, Verdict

from .completing import A_COMMIT, TOGETHER, fork
from .processes import say
from .recording import RecordedStore, Recorder

__all__ = ["INSTANTS", "SHARES", "TASKS", "die_between_steps", "make_flow", "queue_of", "work_and_be_killed"]

INSTANTS = ("returned", "on its way", "settled")
TASKS = ("order.reserve", "order.share", "count", "order.gather", "order.ship")
"""The steps as they follow each other, and the task of which `gather` waits for several."""

SHARES = 3

doomed: tuple[str, str] | None = None
"""At which end of which task this process is to die."""


class DyingStore(RecordedStore):
    """Kills its process when a job of the doomed task is settled."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        ends = _doom(settlements)
        verdicts = await super().settle(settlements)
        if ends:
            _die()
        return verdicts

    async def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        ends = _doom(settlements)
        answer = await super().settle_and_lease(settlements, request)
        if ends:
            _die()
        return answer


def _doom(settlements: Sequence[Settlement]) -> bool:
    """Die now or soon, if this is the task and the instant; whether to die once it is settled, at the latest."""
    if doomed is None or doomed[0] not in {lease.job.task for lease, _ in settlements}:
        return False
    match doomed[1]:
        case "returned":
            _die()
        case "on its way":
            threading.Timer(random.uniform(0, A_COMMIT), _die).start()
            return True  # a fast store answers sooner: going on would settle the job that the next worker is to die of
        case "settled":
            return True
    return False


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def make_flow(url: str, folder: str) -> Flow:
    """The flow `order` of an app with short leases, on record.

    All of a run, its children too, is in the queue that its attribute `where` names.
    """
    recorder = Recorder(folder)
    app = App(
        lambda: cast("Store", DyingStore(open_store(url), recorder)),
        lease=1,
        retry=Backoff(initial=0.01, jitter=0),
        keep=Retention(count=1_000_000),
        max_attempts=None,
    )

    @app.middleware
    async def record(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
        recorder.start(ctx)
        return await call_next()

    order = app.flow("order", lookup=["where"])

    @order.step(max_losses=None)
    async def reserve(where: str) -> Next:
        return Next("share", reserved=True).using(queue=where)

    @order.step(max_losses=None)
    def share(where: str, reserved: bool) -> Next:
        assert reserved
        return Next("gather").using(queue=where, after=[count.using(queue=where).bind(n) for n in range(SHARES)])

    @order.step(max_losses=None)
    async def gather(where: str, results: list[int]) -> Next:
        return Next("ship", total=sum(results)).using(queue=where)

    @order.step(max_losses=None)
    async def ship(total: int) -> int:
        return total

    @app.task(max_losses=None)
    async def count(n: int) -> int:
        return n

    return order


# What the processes of the tests run.


def die_between_steps(url: str, folder: str, tasks: Sequence[str], times: int) -> None:
    """Let workers die: for each task and each instant so many, each with a run in the queue that is named after both."""
    deaths = [(task, instant) for task in tasks for instant in INSTANTS] * times
    codes: list[int] = []
    for first in range(0, len(deaths), TOGETHER):
        children = [fork(_work_until_dead, url, folder, death) for death in deaths[first : first + TOGETHER]]
        codes += [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    say("died", codes)


def work_and_be_killed(url: str, folder: str, times: int) -> None:
    """Let workers work on everything, and kill each at some instant."""
    for _ in range(times):
        child = fork(_work_until_dead, url, folder, None)
        time.sleep(random.uniform(0.1, 0.4))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    say("killed")


def queue_of(task: str, instant: str) -> str:
    return f"{task}.{instant.replace(' ', '-')}"


def _work_until_dead(url: str, folder: str, death: tuple[str, str] | None) -> None:
    global doomed
    doomed = death
    random.seed()
    queues = ["*"] if death is None else [queue_of(*death)]
    make_flow(url, folder).app.worker(queues, concurrency=4 if death is None else 1, look_ahead=False).run()
