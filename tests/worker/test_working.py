"""Which jobs a worker takes, when, and how many at a time."""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pytest

from tenure.app import App
from tenure.core.job import State
from tenure.stores.base import Store
from tenure.stores.values import WorkerInfo
from tenure.tasks.context import Context, current
from tests.faults.scale import on

from .conftest import MakeApp, Start, Wire, a_job, eventually, lose, record_of


class Together:
    """How many are inside at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.inside = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.inside -= 1


@dataclass
class Picky:
    number: int

    def __post_init__(self) -> None:
        raise KeyError("anything but seven")


async def test_one_slot_never_runs_two_jobs_at_once_in_any_lane(app: App, start: Start) -> None:  # G6, Q8, T21
    together = Together()

    @app.task
    async def on_the_loop() -> None:
        with together:
            await asyncio.sleep(0.001)

    @app.task
    def in_a_thread() -> None:
        with together:
            time.sleep(0.001)

    jobs = await app.aenqueue(*[task.bind() for _ in range(30) for task in (on_the_loop, in_a_thread)])
    await start(app)
    for job in jobs:
        await job.aresult(timeout=10)
    assert together.most == 1


async def test_all_slots_run_at_once_over_all_lanes(app: App, start: Start) -> None:  # Q8
    together = Together()
    enough = threading.Event()

    def note() -> None:
        if together.most >= 6:
            enough.set()

    @app.task
    async def on_the_loop() -> None:
        with together:
            note()
            await eventually(enough.is_set)

    @app.task
    def in_a_thread() -> None:
        with together:
            note()
            assert enough.wait(10)

    jobs = await app.aenqueue(*[task.bind() for _ in range(5) for task in (on_the_loop, in_a_thread)])
    await start(app, concurrency=6)
    for job in jobs:
        await job.aresult(timeout=10)
    assert together.most == 6


@pytest.mark.usefixtures("keeps_what_is_ahead")
async def test_jobs_of_a_queue_run_in_the_order_in_which_they_came(app: App, start: Start) -> None:  # I8
    ran = []

    @app.task
    async def task(number: int) -> None:
        ran.append(number)

    await task.aenqueue_many([(n,) for n in range(300)])
    await start(app)
    await eventually(lambda: len(ran) == 300)
    assert ran == list(range(300))


async def test_the_first_queue_of_the_list_is_served_first(app: App, start: Start) -> None:  # R28, T17
    ran = []

    @app.task
    async def task(name: str) -> None:
        ran.append(name)

    for queue in ("low", "high", "low", "high", "none"):
        await task.using(queue=queue).aenqueue(queue)
    await start(app, "high", "low", "!none", look_ahead=False)
    await eventually(lambda: len(ran) == 4)
    assert ran == ["high", "high", "low", "low"]


@pytest.mark.parametrize("wakeup", [True, False])
async def test_a_queue_that_appears_later_is_found_by_its_pattern(
    make_app: MakeApp, start: Start, wakeup: bool
) -> None:  # R14, Q2
    app = make_app(wakeup=wakeup)

    @app.task
    async def task() -> int:
        return 1

    await start(app, "mail*", "!mail-slow", poll=0.1)
    await eventually(app.aworkers)
    job = await task.using(queue="mailbox").aenqueue()
    excluded = await task.using(queue="mail-slow").aenqueue()
    assert await job.aresult(timeout=5) == 1
    assert (await excluded.arefresh()).state is State.WAITING


async def test_a_new_job_wakes_an_idle_worker_long_before_it_polls(app: App, start: Start) -> None:  # Q10, Q33, I11
    @app.task
    async def task() -> int:
        return 1

    await start(app, "default", poll=30)
    for _ in range(3):
        assert await (await task.aenqueue()).aresult(timeout=5) == 1


async def test_a_scheduled_job_runs_when_it_is_due_long_before_the_poll(app: App, start: Start) -> None:  # Q10, I10
    ran: list[float] = []

    @app.task
    async def task() -> None:
        ran.append(time.monotonic())

    await start(app, "default", poll=30)
    await eventually(app.aworkers)
    asked = time.monotonic()
    await task.using(delay=0.5).aenqueue()
    # The job that is due makes nobody ring: it is this one, later, that lets the worker hear when the other is due.
    await task.aenqueue()
    await eventually(lambda: len(ran) == 2, within=15)
    # It is due by the clock of the store, which need not go quite as this one does.
    assert 0.49 <= ran[1] - asked < 15


async def test_polling_alone_is_enough(make_app: MakeApp, wire: Wire, start: Start) -> None:  # Q2, T16
    app = make_app(store=wire.open, wakeup=False)

    @app.task
    async def task() -> int:
        return 1

    await start(app, "default", poll=0.05)
    await eventually(app.aworkers)
    wire.calls.clear()
    assert await (await task.aenqueue()).aresult(timeout=5) == 1
    assert not wire.calls["wait_for_work"]


async def test_a_slot_rests_after_each_job(app: App, start: Start) -> None:  # Q6
    ran: list[float] = []

    @app.task
    async def task() -> None:
        ran.append(time.monotonic())

    await task.aenqueue_many([()] * 3)
    await start(app, job_delay=0.2, poll=30)
    await eventually(lambda: len(ran) == 3)
    assert ran[1] - ran[0] >= 0.2
    assert ran[2] - ran[1] >= 0.2


async def test_a_paused_queue_waits(app: App, start: Start) -> None:
    @app.task
    async def task() -> int:
        return 1

    await app.apause("default")
    job = await task.aenqueue()
    other = await task.using(queue="other").aenqueue()
    await start(app, poll=30)
    await other.aresult(timeout=5)
    assert (await job.arefresh()).state is State.WAITING
    await app.aresume("default")
    assert await job.aresult(timeout=5) == 1


async def test_context_variables_do_not_leak_from_job_to_job(app: App, start: Start) -> None:  # taste 18
    mine: ContextVar[str] = ContextVar("mine", default="unset")
    seen: list[tuple[str, str]] = []

    @app.task
    async def on_the_loop(name: str) -> None:
        before = mine.get()
        mine.set(name)
        if name == "waits":
            await asyncio.sleep(0.01)
        assert mine.get() == name
        assert current().job.task == "on_the_loop"
        seen.append((name, before))

    @app.task
    def in_a_thread(name: str) -> None:
        before = mine.get()
        mine.set(name)
        assert current().job.task == "in_a_thread"
        seen.append((name, before))

    await start(app)
    for name in ("waits", "never waits", "waits", "never waits"):
        await (await on_the_loop.aenqueue(name)).aresult(timeout=5)
        await (await in_a_thread.aenqueue(name)).aresult(timeout=5)
    assert len(seen) == 8
    assert {before for _, before in seen} == {"unset"}


async def test_asyncio_s_own_tools_work_inside_a_job(app: App, start: Start) -> None:
    """The slot is the job's task: what cancels "the current task" must end the job's wait and nothing else."""

    @app.task(retry=None)
    async def task(way: str) -> str:
        if way == "timeout":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await asyncio.sleep(5)
        elif way == "group":
            async with asyncio.TaskGroup() as group:
                return await group.create_task(asyncio.sleep(0.01, "from the group"))
        elif way == "wait_for":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.sleep(5), 0.01)
        return way

    await start(app)
    for way, answer in {"timeout": "timeout", "group": "from the group", "wait_for": "wait_for"}.items():
        assert await (await task.aenqueue(way)).aresult(timeout=5) == answer


async def test_middleware_wraps_each_attempt_like_an_onion(app: App, start: Start) -> None:  # Q38
    seen: list[str] = []

    def layer(name: str) -> Any:
        async def wrap(ctx: Context, call_next: Any) -> Any:
            seen.append(f"{name} before {ctx.job.task}")
            value = await call_next()
            seen.append(f"{name} after")
            return f"{name}({value})"

        return wrap

    app.middleware(layer("1"))
    app.middleware(layer("2"))

    @app.task
    async def on_the_loop() -> str:
        seen.append("job")
        return "value"

    @app.task
    def in_a_thread() -> str:
        return "value"

    await start(app, middleware=[layer("3")])
    assert await (await on_the_loop.aenqueue()).aresult(timeout=5) == "1(2(3(value)))"
    assert seen == [
        "1 before on_the_loop",
        "2 before on_the_loop",
        "3 before on_the_loop",
        "job",
        "3 after",
        "2 after",
        "1 after",
    ]
    assert await (await in_a_thread.aenqueue()).aresult(timeout=5) == "1(2(3(value)))"


async def test_a_job_of_another_worker_s_task_stays_in_line_for_it(
    app: App, store: Store, start: Start
) -> None:  # Q14, T22
    @app.task
    async def mine() -> int:
        return 1

    @app.task
    async def yours() -> int:
        return 2

    worker = await start(app, tasks=[mine])
    jobs = [await yours.aenqueue(), await mine.aenqueue()]
    assert await jobs[1].aresult(timeout=5) == 1
    record = await record_of(store, jobs[0].id)
    assert (record.state, record.fence, record.run_at) == (State.WAITING, 0, None)
    await worker.stop()
    await start(app, tasks=["yours"])
    assert await jobs[0].aresult(timeout=5) == 2


async def _missed(store: Store, job_id: str) -> Any:
    record = await record_of(store, job_id)
    return record if record.misses and record.state is not State.RUNNING else None


@pytest.mark.parametrize("known", [True, False])
async def test_a_task_that_nobody_knows_for_long_breaks_the_job_unless_a_live_worker_knows_it(
    make_app: MakeApp, store: Store, start: Start, known: bool
) -> None:  # F18, R35, T22
    app = make_app(unknown_for=0)
    if known:
        await store.register(WorkerInfo(id="other", host="h", pid=1, queues=("x",), tasks=("alien",), concurrency=1))
    job = a_job("alien", payload=b'{"args": [1]}')
    await store.enqueue([job])
    await start(app)
    record = await eventually(lambda: _missed(store, job.id) if known else _final(store, job.id))
    assert record.state is (State.WAITING if known else State.BROKEN)
    assert record.payload == b'{"args": [1]}'
    assert "alien" in record.error.message


async def _final(store: Store, job_id: str) -> Any:
    record = await record_of(store, job_id)
    return record if record.state.final else None


@pytest.mark.parametrize("payload", [b"\xff\xfe", b"{", b"[]", b'{"args": ["not a number"]}', b'{"args": [1, 2]}'])
async def test_what_cannot_be_read_is_broken_and_keeps_its_bytes(
    app: App, store: Store, start: Start, payload: bytes
) -> None:  # H14, F18
    @app.task
    async def task(number: int) -> None: ...

    # Raw, as a stranger would store it: SQLite keeps JSON as text, and this need not even be text.
    job = a_job("task", payload=payload, raw=True)
    good = task.bind(1).new_job()
    await store.enqueue([job, good])
    await start(app)
    record = await eventually(lambda: _final(store, job.id))
    assert (record.state, record.payload) == (State.BROKEN, payload)
    assert record.error.type == "PayloadError"
    assert (await eventually(lambda: _final(store, good.id))).state is State.SUCCEEDED


async def test_arguments_that_a_converter_chokes_on_are_broken(app: App, store: Store, start: Start) -> None:  # F18
    @app.task
    async def task(picky: Picky) -> None: ...

    job = a_job("task", payload=b'{"args": [{"number": 7}]}')
    await store.enqueue([job])
    await start(app)
    record = await eventually(lambda: _final(store, job.id))
    assert record.state is State.BROKEN
    assert "seven" in record.error.message


async def test_a_payload_over_the_limit_is_broken_although_somebody_stored_it(
    make_app: MakeApp, store: Store, start: Start
) -> None:
    app = make_app(payload_limit=100)

    @app.task
    async def task(text: str) -> None: ...

    job = a_job("task", payload=b'{"args": ["%s"]}' % (b"x" * 200))
    await store.enqueue([job])
    await start(app)
    record = await eventually(lambda: _final(store, job.id))
    assert (record.state, record.error.type) == (State.BROKEN, "PayloadTooLarge")


@on("sqlite")
async def test_a_job_that_keeps_running_is_simply_held(app: App, store: Store, start: Start) -> None:  # W9
    ticks = 0

    @app.task(lease=1)
    async def forever() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.05)

    job = await forever.aenqueue()
    await start(app)
    await eventually(lambda: ticks > 30)
    record = await record_of(store, job.id)
    assert (record.state, record.attempt, record.losses) == (State.RUNNING, 1, 0)


async def test_a_suspect_runs_alone_although_the_worker_is_never_idle(
    app: App, store: Store, start: Start
) -> None:  # F6, T1
    together = Together()
    alone: list[int] = []
    relays = 0

    @app.task(max_losses=None)
    async def suspect() -> None:
        with together:
            alone.append(together.inside)
            await asyncio.sleep(0.05)
            alone.append(together.inside)

    @app.task(queue="first")
    async def relay() -> None:
        """Ends only when the next has started, so that the worker always holds one; or when none is taken any more."""
        nonlocal relays
        relays += 1
        mine = relays
        with together:
            if not alone:
                await relay.aenqueue()
            await asyncio.wait([asyncio.ensure_future(eventually(lambda: relays > mine))], timeout=0.5)

    job = await suspect.aenqueue()
    for _ in range(2):
        await lose(store, job.id)
    await app.apause("default")
    await relay.aenqueue()
    await start(app, "first", "default", concurrency=4)
    await eventually(lambda: relays)
    await app.aresume("default")
    await job.aresult(timeout=10)
    assert alone == [1, 1]


async def test_jobs_with_losses_do_not_stop_the_others(app: App, store: Store, start: Start) -> None:  # F6
    finish = asyncio.Event()
    ran = []

    @app.task(max_losses=None)
    async def suspect() -> None: ...

    @app.task
    async def long() -> None:
        await finish.wait()

    @app.task
    async def quick(n: int) -> None:
        ran.append(n)

    job = await suspect.aenqueue()
    await lose(store, job.id)
    await lose(store, job.id)
    await app.apause("default")
    held = await long.using(queue="first").aenqueue()
    await start(app, "first", "default", concurrency=2, poll=0.1)
    await eventually(lambda: _running(store, held.id))
    await app.aresume("default")
    await quick.aenqueue_many([(n,) for n in range(20)])
    # The clearing for the suspect lasts a second; as the long job does not end in it, the worker goes on with the others.
    await eventually(lambda: len(ran) == 20)
    assert (await record_of(store, job.id)).state is State.WAITING
    finish.set()
    await job.aresult(timeout=10)


async def _running(store: Store, job_id: str) -> bool:
    return (await record_of(store, job_id)).state is State.RUNNING
