"""Workers, and holders by hand, take in what other programs have put in the inboxes of their queues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tenure.app import App
from tenure.core.job import State
from tenure.errors import StoreFull, StoreUnavailable
from tenure.stores.base import Store
from tenure.stores.memory import MemoryStore
from tenure.stores.values import Fact, Health, LeaseRequest, Search
from tests.conftest import a_url
from tests.inspection import run

from .conftest import MakeApp, Start, Wire, eventually

PutIn = Callable[[str, bytes], None]


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    """Stores that notice what is put in; Redis has tests of its own, for there nobody is told."""
    return a_url(request)


@pytest.fixture
async def put_in(url: str, store: Store) -> PutIn:
    """Put an entry in an inbox, as another program would."""
    await store.open()

    def put_in(queue: str, entry: bytes) -> None:
        if isinstance(store, MemoryStore):
            store.put_in(queue, entry)
            return
        run(url.removeprefix("sqlite:///"), "INSERT INTO tenure_inbox (queue, entry) VALUES (?, ?)", queue, entry)

    return put_in


async def test_an_idle_worker_runs_what_another_program_has_put_in_long_before_it_polls(
    app: App, start: Start, put_in: PutIn
) -> None:  # H1
    ran = asyncio.Queue[tuple[int, str]]()

    @app.task
    async def greet(user: int, language: str = "en") -> None:
        await ran.put((user, language))

    await start(app, poll=60)
    await asyncio.sleep(0.1)
    put_in("default", b'{"task": "greet", "args": [42], "kwargs": {"language": "de"}}')

    async with asyncio.timeout(10):
        assert await ran.get() == (42, "de")


async def test_an_entry_of_an_earlier_version_is_upcast(app: App, start: Start, put_in: PutIn) -> None:
    ran = asyncio.Queue[tuple[int, str]]()

    @app.task(version=3)
    async def greet(user: int, language: str) -> None:
        await ran.put((user, language))

    @greet.upcast(2)
    def _(user: int) -> dict[str, object]:
        return {"user": user, "language": "en"}

    put_in("default", b'{"task": "greet", "version": 3, "args": [1, "de"]}')
    put_in("default", b'{"task": "greet", "version": 2, "args": [2]}')
    await start(app)

    async with asyncio.timeout(10):
        assert sorted([await ran.get(), await ran.get()]) == [(1, "de"), (2, "en")]


async def test_an_entry_is_held_as_long_as_its_task_says(app: App, store: Store, start: Start, put_in: PutIn) -> None:
    finish = asyncio.Event()

    @app.task(lease=20, renew=None)
    async def task() -> None:
        await finish.wait()

    async def is_held() -> bool:
        [job] = await store.get(["entry"])
        return job is not None and (job.lease_left or 0.0) > 15

    await start(app, lease=1)
    put_in("default", b'{"task": "task", "id": "entry"}')
    await eventually(is_held)
    finish.set()


async def test_a_busy_queue_does_not_keep_its_inbox_waiting(app: App, start: Start, put_in: PutIn) -> None:
    order: list[int] = []

    @app.task
    async def note(number: int) -> None:
        order.append(number)
        await asyncio.sleep(0.03)  # long enough for nothing to be leased ahead

    await note.aenqueue_many([(n,) for n in range(60)])
    put_in("default", b'{"task": "note", "args": [100], "priority": -1}')
    await start(app)

    await eventually(lambda: 100 in order)
    assert order.index(100) < 30


async def test_a_worker_that_serves_every_queue_finds_one_by_its_inbox_alone(
    app: App, start: Start, put_in: PutIn
) -> None:
    ran = asyncio.Event()

    @app.task
    async def task() -> None:
        ran.set()

    await start(app, "*", poll=60)
    put_in("never-seen-before", b'{"task": "task"}')

    async with asyncio.timeout(10):
        await ran.wait()


async def test_a_queue_without_entries_costs_no_call(make_app: MakeApp, wire: Wire, start: Start) -> None:
    app = make_app(store=wire.open)
    ran: list[int] = []

    @app.task
    async def task() -> None:
        ran.append(1)

    await task.aenqueue_many([()] * 20)
    await start(app)
    await eventually(lambda: len(ran) == 20)

    assert wire.calls["take_in"] == []


async def test_until_empty_does_not_overlook_the_inbox(app: App, store: Store, put_in: PutIn) -> None:  # Q6
    @app.task
    async def task() -> None:
        return None

    for _ in range(3):
        put_in("default", b'{"task": "task"}')
    worker = app.worker()

    await asyncio.to_thread(worker.run, until_empty=True)

    assert len((await store.search(Search(state=State.SUCCEEDED))).jobs) == 3


async def test_an_entry_over_the_app_s_limit_is_broken(
    make_app: MakeApp, store: Store, start: Start, put_in: PutIn
) -> None:
    app = make_app(payload_limit=100)
    entry = b'{"task": "task", "args": ["%s"]}' % (b"x" * 100)
    put_in("default", entry)
    await start(app)

    async def broken() -> Any:
        return (await store.search(Search(state=State.BROKEN))).jobs

    [job] = await eventually(broken)
    assert job.payload == entry


async def test_a_store_without_room_for_new_jobs_works_off_those_it_has(
    make_app: MakeApp, wire: Wire, start: Start, put_in: PutIn, lines: Callable[[str], list[str]]
) -> None:  # F13
    app = make_app(store=wire.open)
    ran: list[int] = []
    full = True

    @app.task
    async def task(number: int) -> None:
        ran.append(number)

    async def take_in(method: Any, *args: Any, **options: Any) -> Any:
        if full:
            raise StoreFull("no room")
        return await method(*args, **options)

    wire.hooks["take_in"] = take_in
    await task.aenqueue_many([(n,) for n in range(100)])
    put_in("default", b'{"task": "task", "args": [100]}')
    await start(app, poll=0.05)

    await eventually(lambda: len(ran) == 100)
    full = False
    await eventually(lambda: len(ran) == 101)
    assert lines("the store is down") == []


async def test_an_outage_while_taking_in_loses_nothing(
    make_app: MakeApp, wire: Wire, start: Start, put_in: PutIn
) -> None:
    app = make_app(store=wire.open)
    ran = asyncio.Event()

    @app.task
    async def task() -> None:
        ran.set()

    async def take_in(method: Any, *args: Any, **options: Any) -> Any:
        del wire.hooks["take_in"]
        raise StoreUnavailable("away")

    wire.hooks["take_in"] = take_in
    put_in("default", b'{"task": "task"}')
    await start(app, "default", poll=60)

    async with asyncio.timeout(10):
        await ran.wait()


@pytest.mark.parametrize("waiting", [0, 1])
async def test_a_lease_by_hand_takes_in_too(app: App, store: Store, put_in: PutIn, waiting: int) -> None:
    for _ in range(waiting):
        await app.remote("task", queue="q").aenqueue()
    put_in("q", b'{"task": "task", "args": [7]}')

    held = await app.alease("q", limit=5)
    more = await app.alease("q", limit=5)

    assert [each.arguments for each in held + more] == [((), {})] * waiting + [((7,), {})]
    assert len(held) == 1
    for each in held + more:
        await each.arelease()


async def test_a_lease_by_hand_keeps_what_it_has_when_nothing_can_be_taken_in(
    make_app: MakeApp, wire: Wire, put_in: PutIn
) -> None:
    app = make_app(store=wire.open)

    async def take_in(method: Any, *args: Any, **options: Any) -> Any:
        raise StoreFull("no room")

    wire.hooks["take_in"] = take_in
    await app.remote("task", queue="q").aenqueue()
    put_in("q", b'{"task": "task"}')

    [held] = await app.alease("q", limit=5)
    with pytest.raises(StoreFull):
        await app.alease("q")

    await held.afinish()


async def test_a_worker_that_starts_says_what_is_not_well_with_its_store(
    make_app: MakeApp, wire: Wire, start: Start, lines: Callable[[str], list[str]]
) -> None:
    app = make_app(store=wire.open)

    async def facts(method: Any) -> list[Fact]:
        return [
            Fact("weather", "fine"),
            Fact("disk", "nearly full", Health.WARN, "free some space"),
            Fact("journal", "delete", Health.BAD, "leave it alone"),
        ]

    wire.hooks["examine"] = facts
    await start(app, id="w")

    await eventually(lambda: len(lines("the store's")) == 2)
    assert lines("the store's") == [
        "worker w: the store's disk: nearly full; free some space",
        "worker w: the store's journal: delete; leave it alone",
    ]


async def test_entries_wait_their_turn_in_a_paused_queue_as_jobs_do(
    app: App, store: Store, start: Start, put_in: PutIn
) -> None:
    await app.apause("q")
    put_in("q", b'{"task": "task"}')
    await start(app, "q", poll=0.05)

    async def waiting() -> int:
        return (await store.queues())[0].waiting

    await eventually(waiting)
    request = LeaseRequest(queues=("q",), limit=1, worker="w", ttl=30.0, nonce=1)
    assert (await store.lease(request)).leases == []


async def test_an_entry_that_could_not_be_read_becomes_its_job_once_that_is_mended_and_it_is_retried(
    make_app: MakeApp, store: Store, start: Start, put_in: PutIn
) -> None:  # H14
    entry = b'{"task": "length", "kwargs": {"text": "' + 100 * b"x" + b'"}}'
    strict, lenient = make_app(payload_limit=100), make_app()

    @lenient.task
    async def length(text: str) -> int:
        return len(text)

    worker = await start(strict)
    put_in("default", entry)
    [broken] = await eventually(lambda: strict.ajobs(state="broken"))
    await broken.aretry()
    await eventually(lambda: _attempts(store, broken.id, 1))
    [again] = await strict.ajobs(state="broken")
    assert (again.id, again.record and again.record.payload) == (broken.id, entry), "it is as unreadable as before"
    await worker.stop()

    await start(lenient)
    await again.aretry()
    job = await lenient.ajob(await again.aresult(timeout=10))

    assert (job.task, await job.aresult(timeout=10)) == ("length", 100)


async def _attempts(store: Store, job_id: str, number: int) -> bool:
    [job] = await store.get([job_id])
    return job is not None and job.attempt == number and job.state.final
