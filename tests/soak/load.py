"""What the processes of a soak do: the tasks, and those who run them, enqueue them and meddle with them.

Every job says in its arguments how it has to end; `ends` compares.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from tenure import App, Backoff, Context, Fail, FlowRun, Job, Next
from tenure.cli.logs import log_to_stderr
from tenure.core.job import BlockerPolicy
from tenure.core.options import Retention
from tenure.errors import HasDependents, JobNotFound, OutcomeUnknown, StoreUnavailable, WrongState
from tenure.stores.values import QueueInfo
from tenure.tasks.flow import Start, Step
from tenure.tasks.task import Call
from tests.faults.recording import Recorder, recorded

__all__ = ["ATTEMPTS", "KEEP", "LEASE", "PREY", "operate", "produce", "produce_blocking", "unfinished", "work"]

LEASE = 1.0
"""Seconds that a silent worker keeps a job."""

KEEP = {"*": Retention(succeeded=30, failed=30), "nap": Retention(succeeded=30, failed=30, count=300)}
"""Short, so that most jobs are pruned while the soak runs; long enough for it to see each of them once it has ended."""

ATTEMPTS = 3

QUICK = ("quick-1", "quick-2", "quick-3", "quick-4")
"""The queues of quick jobs; every other task has a queue of its own name. Many short lines are checked faster than a long one."""

PREY = "prey"
"""The task, and its queue, whose jobs operators cancel, complete, retry, trigger, release and delete."""

CROWD = 300
"""Unfinished jobs that producers do not add to: the soak is about faults, not about who is quicker."""

AWAY = (StoreUnavailable, OutcomeUnknown)


def make_app(url: str, folder: str) -> App:
    """The app of one process, whose history goes to a folder of its own: ids of processes come again in a long run."""
    recorder = Recorder(folder)
    recorder.process = Path(folder).name
    app = App(
        lambda: recorded(url, recorder),
        lease=LEASE,
        retry=Backoff(initial=0.1, jitter=0.5),
        max_attempts=ATTEMPTS,
        keep=KEEP,
    )

    @app.middleware
    async def record(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
        recorder.start(ctx)
        return await call_next()

    @app.task(queue=QUICK[0], max_losses=None)
    async def quick(n: int) -> int:
        return n

    @app.task(queue="nap", max_losses=None)
    async def nap(n: int, seconds: float) -> int:
        await asyncio.sleep(seconds)
        return n

    @app.task(queue="doze", max_losses=None)
    def doze(n: int, seconds: float) -> int:
        """Sleeps in a thread."""
        time.sleep(seconds)
        return n

    @app.task(queue="stumble", max_losses=None)
    async def stumble(ctx: Context, n: int, times: int) -> int:
        """Fails so many times first; a loss is no failure."""
        if ctx.attempt - ctx.job.losses <= times:
            raise ValueError(f"failure {ctx.attempt - ctx.job.losses} of {times}")
        return n

    @app.task(queue="punctual", max_losses=None)
    async def punctual(n: int, not_before: float) -> int:
        if time.time() < not_before:
            raise Fail(f"{not_before - time.time():.3f} s early")
        return n

    @app.task(queue="single", max_losses=None)
    async def single(n: int) -> int:
        """One at a time of its key."""
        await asyncio.sleep(0.05)
        return n

    @app.task(queue="brief", max_losses=None)
    async def brief(n: int) -> int:
        """Expires soon."""
        return n

    @app.task(queue="fragile", max_losses=1)
    async def fragile(n: int) -> int:
        await asyncio.sleep(0.3)
        return n

    @app.task(queue="parent", max_losses=None)
    async def parent(ctx: Context, n: int) -> int:
        """Has one child, which comes with its success."""
        ctx.enqueue(app.tasks["child"].bind(ctx.job.id))
        return n

    @app.task(queue="child", max_losses=None)
    async def child(of: str) -> str:
        return of

    @app.task(queue="join", max_losses=None)
    async def join(ctx: Context, wanted: list[int | None], proceeds: bool) -> int:
        """Waits for others; None stands for one of them that fails."""
        if len(ctx.results) != len(wanted) or any(
            got != want for got, want in zip(ctx.results, wanted, strict=False) if want is not None
        ):
            raise Fail(f"got {ctx.results} instead of {wanted}")
        return len(wanted)

    trip = app.flow("trip", lookup=["n"])

    @trip.step(then="drive", queue="trip", max_losses=None)
    async def pack(n: int) -> dict[str, int]:
        return {"packed": n + 1}

    @trip.step(queue="trip", max_losses=None)
    def drive(ctx: Context, n: int) -> Next:
        """Fails at first, now and then; then waits for two others."""
        if n % 4 == 0 and ctx.attempt - ctx.job.losses == 1:
            raise ValueError("a breakdown")
        return Next("arrive").using(after=[quick.bind(n), app.tasks["nap"].bind(n, 0.05)])

    @trip.step(queue="trip", max_losses=None)
    async def arrive(n: int, packed: int, results: list[int]) -> int:
        if (packed, results) != (n + 1, [n, n]):
            raise Fail(f"got {packed} and {results} instead of {n + 1} and {[n, n]}")
        return n

    @app.task(queue=PREY, max_losses=None)
    async def prey(n: int, seconds: float) -> int:
        await asyncio.sleep(seconds)
        return n

    return app


# Workers.


def work(url: str, folder: str, concurrency: int) -> None:
    """Run jobs until stopped."""
    log_to_stderr("warning")
    make_app(url, folder).worker(concurrency=concurrency, prune_interval=1).run()


# Producers.


def some_calls(app: App, chance: random.Random) -> list[Call[Any] | Start]:
    """One or several calls, or starts of a flow, to be enqueued together."""
    tasks, n = app.tasks, chance.randrange(1 << 30)
    match chance.choices(
        ["quick", "nap", "doze", "stumble", "punctual", "single", "brief", "fragile", "parent", "trip", PREY],
        [6, 3, 1, 2, 2, 2, 1, 1, 1, 2, 3],
    )[0]:
        case "quick":
            quick = tasks["quick"].using(queue=chance.choice(QUICK), priority=chance.choice([0, 0, -1]))
            return [quick.bind(n) for _ in range(chance.choice([1, 1, 3, 10]))]
        case "nap" | "doze" as kind:
            # Some outlast their lease.
            return [tasks[kind].bind(n, chance.choice([0.01, 0.1, 0.3, 1.5 * LEASE]))]
        case "stumble":
            return [tasks["stumble"].bind(n, chance.randint(1, ATTEMPTS))]
        case "punctual":
            delay = chance.uniform(0, 3)
            return [tasks["punctual"].using(delay=delay).bind(n, time.time() + delay)]
        case "single":
            key = chance.randrange(10)
            return [tasks["single"].using(unique=str(key)).bind(key)]
        case "brief":
            return [tasks["brief"].using(expires=chance.choice([0.01, 1])).bind(n)]
        case "trip":
            first = tasks["trip.pack"]
            assert isinstance(first, Step)
            return [first.flow.bind(n=n) for _ in range(chance.choice([1, 1, 3]))]
        case "prey":
            delay = chance.choice([0, 0, 1])
            return [tasks[PREY].using(delay=delay).bind(n, chance.uniform(0, LEASE))]
        case kind:
            return [tasks[kind].bind(n)]


async def produce(url: str, folder: str, seed: str) -> None:
    """Enqueue from several coroutines until told to stop."""
    chance = random.Random(seed)
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    async with make_app(url, folder) as app, asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(_produce(app, chance, over))


async def _produce(app: App, chance: random.Random, over: asyncio.Event) -> None:
    while not over.is_set():
        with contextlib.suppress(*AWAY):
            if chance.random() < 0.1:
                await _enqueue_a_join(app, chance)
            else:
                await _follow(await app.aenqueue(*some_calls(app, chance)), chance)
            while chance.random() < 0.1 and unfinished(await app.aqueues()) > CROWD:
                await asyncio.sleep(0.5)
        await asyncio.sleep(chance.uniform(0, 0.3))


async def _follow(jobs: Sequence[Job[Any] | FlowRun], chance: random.Random) -> None:
    """See what becomes of jobs: now and then wait for a result, or cancel."""
    for job in jobs:
        if isinstance(job, FlowRun):
            if chance.random() < 0.1:
                await job.aresult(timeout=60)
        elif job.task == "quick" and chance.random() < 0.1:
            await job.aresult(timeout=60)
        elif job.task == PREY and chance.random() < 0.2:
            with contextlib.suppress(WrongState, JobNotFound):
                await job.acancel()


async def _enqueue_a_join(app: App, chance: random.Random) -> None:
    tasks, n = app.tasks, chance.randrange(1 << 30)
    blockers = [tasks["quick"].bind(n), tasks["nap"].bind(n, 0.05), tasks["stumble"].bind(n, 1)]
    wanted: list[int | None] = [n, n, n]
    proceeds = chance.random() < 0.5
    if chance.random() < 0.3:
        blockers.append(tasks["stumble"].bind(n, ATTEMPTS))
        wanted.append(None)
    waited_for = [call.new_job() for call in blockers]
    join = msgspec.structs.replace(
        tasks["join"].bind(wanted, proceeds).new_job(),
        after=tuple(job.id for job in waited_for),
        if_blocker_fails=BlockerPolicy.PROCEED if proceeds else BlockerPolicy.FAIL,
    )
    await app.internals.session.enqueue([*waited_for, join])


def produce_blocking(url: str, folder: str, seed: str) -> None:
    """Enqueue from several threads until told to stop."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    with make_app(url, folder) as app, ThreadPoolExecutor() as pool:
        threads = [pool.submit(_produce_blocking, app, random.Random(f"{seed} {number}"), over) for number in range(3)]
        # A signal that comes while the process stands still may be taken by any of its threads, and a main thread that waits for
        # a lock does not hear of it.
        while not over.is_set() and not any(thread.done() for thread in threads):
            time.sleep(0.1)
        for thread in threads:
            thread.result()


def _produce_blocking(app: App, chance: random.Random, over: threading.Event) -> None:
    while not over.is_set():
        with contextlib.suppress(*AWAY):
            jobs = app.enqueue(*some_calls(app, chance))
            if (isinstance(jobs[0], FlowRun) or jobs[0].task == "quick") and chance.random() < 0.1:
                jobs[0].result(timeout=60)
            while chance.random() < 0.1 and unfinished(app.queues()) > CROWD:
                time.sleep(0.5)
        over.wait(chance.uniform(0, 0.3))


def unfinished(queues: Sequence[QueueInfo]) -> int:
    return sum(queue.waiting + queue.scheduled + queue.blocked + queue.running for queue in queues)


# Operators.


async def operate(url: str, folder: str, seed: str) -> None:
    """Do to jobs, queues and dead workers what people do, until told to stop."""
    chance = random.Random(seed)
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    async with make_app(url, folder) as app:
        while not over.is_set():
            with contextlib.suppress(*AWAY, WrongState, JobNotFound, HasDependents):
                match chance.choices(["job", "queue", "worker"], [10, 1, 1])[0]:
                    case "job":
                        await _meddle(app, chance)
                    case "queue":
                        await _hold_up(app, chance)
                    case _:
                        await _retire_the_dead(app)
            await asyncio.sleep(chance.uniform(0, 0.3))


async def _meddle(app: App, chance: random.Random) -> None:
    doing, states = chance.choice(
        [
            ("acancel", ["waiting", "running"]),
            ("acomplete", ["waiting", "running"]),
            ("atrigger", ["waiting"]),
            ("arelease", ["running"]),
            ("aretry", ["succeeded", "cancelled"]),
            ("adelete", ["waiting", "running", "succeeded", "cancelled"]),
        ]
    )
    jobs = await app.ajobs(state=chance.choice(states), queue=PREY)
    if jobs:
        await getattr(chance.choice(jobs), doing)()


async def _hold_up(app: App, chance: random.Random) -> None:
    queue = chance.choice([task.queue for task in app.tasks.values()])
    await app.apause(queue)
    await asyncio.sleep(chance.uniform(0, 1))
    resumed = False
    while not resumed:
        with contextlib.suppress(*AWAY):
            await app.aresume(queue)
            resumed = True
        await asyncio.sleep(0.05)


async def _retire_the_dead(app: App) -> None:
    for worker in await app.aworkers():
        try:
            os.kill(worker.pid, 0)
        except ProcessLookupError:
            await app.aretire(worker.id)
