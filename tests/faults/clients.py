"""What the processes of these tests do with a store, without an app."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import sys
import threading
import time

import apsw

from tenure import App
from tenure.core.job import NewJob, RunStep, State, Writes, new_id
from tenure.core.lease import Lease, new_nonce
from tenure.core.lifecycle import RELEASE, Finish
from tenure.errors import JobFailed, StoreError
from tenure.stores import open_store
from tenure.stores.base import Store
from tenure.stores.sqlite import store as sqlite
from tenure.stores.sqlite.store import SqliteStore
from tenure.stores.values import LeaseRequest, Renewal

from .disk import FaultyDisk
from .processes import say, told
from .recording import Recorder, recorded


def a_job(queue: str = "q", task: str = "task", payload: bytes = b"{}") -> NewJob:
    return NewJob(id=new_id(), task=task, queue=queue, payload=payload)


def request(
    queue: str = "q", limit: int = 1, *, worker: str = "w", ttl: float = 30.0, solo: bool = False
) -> LeaseRequest:
    return LeaseRequest(queues=(queue,), limit=limit, worker=worker, ttl=ttl, nonce=new_nonce(), solo=solo)


async def take(store: Store, queue: str = "q", limit: int = 1, *, ttl: float = 30.0, solo: bool = False) -> list[Lease]:
    return (await store.lease(request(queue, limit, ttl=ttl, solo=solo))).leases


async def drain(store: Store, recorder: Recorder, queue: str = "q") -> None:
    """Do all jobs of a queue that wait."""
    while leases := await take(store, queue, 100):
        for lease in leases:
            recorder.start(lease)
        await store.settle([(lease, Finish(State.SUCCEEDED, "null")) for lease in leases])


async def write_and_work(url: str, folder: str, rounds: int) -> None:
    """Enqueue, lease and settle, over and over."""
    recorder = Recorder(folder)
    store = recorded(url, recorder)
    await store.open()
    say("ready")
    told()
    for _ in range(rounds):
        await store.enqueue([a_job() for _ in range(5)])
        leases = await take(store, limit=random.randint(1, 9))
        for lease in leases:
            recorder.start(lease)
        await store.settle([(lease, Finish(State.SUCCEEDED, "null")) for lease in leases])
    await store.close()
    say("done")


async def produce(url: str, folder: str) -> None:
    """Enqueue batches until killed."""
    store = recorded(url, Recorder(folder))
    await store.open()
    say("ready")
    while True:
        await store.enqueue([a_job() for _ in range(random.choice([1, 1, 3, 150]))])


def read_for_long(path: str) -> None:
    """Hold a read transaction until told to end it; say how many jobs it sees."""
    connection = apsw.Connection(path)
    connection.execute("BEGIN")
    count = "SELECT count(*) FROM tenure_jobs"
    say("reads", connection.execute(count).fetchall()[0][0])
    told()
    say("read", connection.execute(count).fetchall()[0][0])
    connection.close()


async def make_files(folder: str, number: int) -> None:
    """Open files that are not there, each when told, in the same instant as others do."""
    for n in range(number):
        store = SqliteStore(f"{folder}/{n}.db")
        say("ready")
        told()
        await store.open()
        await store.enqueue([a_job()])
        await store.close()
    say("done")


async def produce_and_die(path: str, folder: str, number: int) -> None:
    """Enqueue batches until the so-manieth write or sync, and die there."""
    disk = FaultyDisk()
    store = recorded(f"sqlite:///{path}", Recorder(folder))
    await store.open()
    disk.kill_at(number)
    while True:
        await store.enqueue([a_job(payload=b'"' + b"x" * 3000 + b'"') for _ in range(3)])


def a_start(attributes: dict[str, str]) -> NewJob:
    """The first step of a run."""
    id_ = new_id()
    step = RunStep(run_id=id_, flow="f", reads=("n",), writes=Writes(attributes))
    return NewJob(id=id_, task="f.one", queue="q", step=step)


def handing_over(lease: Lease, attributes: dict[str, str]) -> Finish:
    """The end of a step that another one follows."""
    assert lease.job.run_id is not None
    step = RunStep(run_id=lease.job.run_id, flow="f", reads=("n",), needs=("n",))
    successor = NewJob(id=new_id(), task="f.two", queue="q", step=step)
    return Finish(State.SUCCEEDED, "null", successor=successor, writes=Writes(attributes))


async def hand_over_and_die(path: str, number: int) -> None:
    """Let runs go from step to step, counting them, until the so-manieth write or sync, and die there."""
    disk = FaultyDisk()
    store = SqliteStore(path)
    await store.open()
    disk.kill_at(number)
    filling = '"' + "x" * 3000 + '"'
    while True:
        await store.enqueue([a_start({"n": "0", "filling": filling}) for _ in range(3)])
        leases = await take(store, limit=10)
        numbers = [int((lease.job.attributes or {})["n"]) + 1 for lease in leases]
        writes = [{"n": str(number), "filling": filling} for number in numbers]
        await store.settle([(lease, handing_over(lease, each)) for lease, each in zip(leases, writes, strict=True)])


async def produce_on_a_broken_disk(path: str, folder: str) -> None:
    """Enqueue, fail to, and enqueue again; say what the failure was called."""
    disk = FaultyDisk()
    recorder = Recorder(folder)
    store = recorded(f"sqlite:///{path}", recorder)
    await store.enqueue([a_job()])
    disk.fail()
    for _ in range(3):
        try:
            await store.enqueue([a_job(), a_job()])
        except StoreError as error:
            say("refused", type(error).__name__, str(error))
    disk.heal()
    await store.enqueue([a_job()])
    await drain(store, recorder)
    await store.close()
    say("done")


async def produce_until_limited(path: str, folder: str, limit: int) -> None:
    """Enqueue until no file may grow any more, then let them grow again and enqueue once more."""
    recorder = Recorder(folder)
    store = recorded(f"sqlite:///{path}", recorder)
    await store.open()
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    say("refused", *await fill(store))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.enqueue([a_job()])
    await drain(store, recorder)
    await store.close()
    say("done")


async def fill(store: Store) -> tuple[str, str]:
    """Enqueue until that is refused; by which error."""
    while True:
        try:
            await store.enqueue([a_job(payload=b'"' + b"x" * 10_000 + b'"') for _ in range(10)])
        except StoreError as error:
            return type(error).__name__, str(error)


async def die_while_opening(path: str, number: int) -> None:
    """Make the file, and die at the so-manieth write or sync."""
    disk = FaultyDisk()
    disk.kill_at(number)
    await SqliteStore(path).open()
    say("opened")
    told()


async def idle(path: str, look: float = sqlite.LOOK_EVERY) -> None:
    """Wait for work and do it, saying when it was woken; every so many seconds it looks by itself."""
    sqlite.LOOK_EVERY = look
    store = SqliteStore(path)
    await store.open()
    while True:
        await store.wait_for_work(["q"], 60)
        woken = time.monotonic()
        leases = await take(store)
        await store.settle([(lease, Finish(State.SUCCEEDED)) for lease in leases])
        say("woken", woken, [lease.job.id for lease in leases])


async def idle_when_told(path: str, look: float) -> None:
    """Have a doorbell, but be idle only when told."""
    store = SqliteStore(path)
    await store.wait(["nobody"])
    say("ready")
    told()
    await idle(path, look)


async def visit(path: str) -> None:
    """Have a doorbell for a moment."""
    store = SqliteStore(path)
    await store.wait(["nobody"])
    await store.close()


async def idle_many_times(path: str, number: int) -> None:
    """Wait for work with as many store objects."""
    async with asyncio.TaskGroup() as group:
        for _ in range(number):
            group.create_task(SqliteStore(path).wait_for_work(["q"], 60))
            await asyncio.sleep(0.001)


async def hold_and_settle_late(url: str) -> None:
    """Lease a job and, once told, renew it, finish it and release it, whatever has happened meanwhile."""
    store = open_store(url)
    [lease] = await take(store)
    say("held")
    told()
    [renewal] = await store.renew([Renewal(lease, ttl=30)])
    [settle] = await store.settle([(lease, Finish(State.SUCCEEDED, '"stale"'))])
    [release] = await store.settle([(lease, RELEASE)])
    say("answers", renewal, settle.kind, release.kind)
    await store.close()


async def hold_all(url: str, folder: str, queue: str) -> None:
    """Lease every job of a queue for a second, and say how many."""
    store = recorded(url, Recorder(folder))
    held = 0
    while leases := await take(store, queue, 1000, ttl=1):
        held += len(leases)
    say("held", held)
    told()


def enqueue_remotely(url: str) -> None:
    """Enqueue jobs of tasks whose module this process has never seen, and wait for their results."""
    app = App(url)
    quick = app.remote("quick")
    one = quick.enqueue(7)
    several = app.remote("quick").enqueue_many([(7,), {"number": 8}])
    wrong = quick.enqueue("no number")
    results = [one.result(timeout=20), [job.result(timeout=20) for job in several]]
    try:
        wrong.result(timeout=20)
    except JobFailed as error:
        results.append(type(error).__name__)
    assert not any(name.endswith((".tasks", ".program")) for name in sys.modules if name.startswith("tests."))
    say("results", *results)
    app.close()


def enqueue_and_be_interrupted(url: str, folder: str, times: int) -> None:
    """Enqueue from blocking code that is interrupted again and again, beside a thread whose event loop enqueues too."""
    recorder = Recorder(folder)
    app = App(lambda: recorded(url, recorder))
    task = app.remote("task", queue="q")
    task.enqueue()
    over = threading.Event()
    harmed: list[str] = []

    async def enqueue_on_and_on() -> None:
        while not over.is_set():
            try:
                await task.aenqueue()
            except BaseException as error:
                harmed.append(repr(error))
        await app.aclose()

    beside = threading.Thread(target=asyncio.run, args=(enqueue_on_and_on(),))
    beside.start()
    armed = False

    def interrupt(*_: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0037)
    for _ in range(times):
        try:
            armed = True
            while armed:  # an interrupt that strikes in a callback of the interpreter's is ignored there
                task.enqueue()
        except KeyboardInterrupt:
            pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    over.set()
    beside.join(10)
    task.enqueue()
    app.close()
    say("done", harmed)


def enqueue_in_signal_handlers(url: str, folder: str, times: int) -> None:
    """Enqueue from blocking code, and from handlers of the signals that interrupt it."""
    recorder = Recorder(folder)
    app = App(lambda: recorded(url, recorder))
    task = app.remote("task", queue="q")
    task.enqueue()
    handled: list[str] = []
    handling = False

    def handle(*_: object) -> None:
        nonlocal handling
        if not handling:
            handling = True
            handled.append(task.enqueue().id)
            handling = False

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0037)
    while len(handled) < times:
        task.enqueue()
    signal.setitimer(signal.ITIMER_REAL, 0)
    app.close()
    say("done", handled)


def begin_with_a_signal(url: str, children: int) -> None:
    """Have children make their first enqueue while a signal handler makes one as well; those that never come to an end."""
    app = App(url)
    task = app.remote("task", queue="q")
    chance = random.Random(children)
    stuck = []
    for number in range(children):
        after = chance.uniform(0.0001, 0.03)
        child = os.fork()
        if not child:
            signal.signal(signal.SIGALRM, lambda *_: task.enqueue())
            signal.setitimer(signal.ITIMER_REAL, after)
            task.enqueue()
            os._exit(0)
        deadline = time.monotonic() + 20
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                stuck.append(number)
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                break
            time.sleep(0.001)
    say("done", stuck)
