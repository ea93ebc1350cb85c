"""Wake-up between processes, and what killed ones leave behind."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from tenure.stores.sqlite.store import SqliteStore

from . import clients
from .processes import Process, Processes, eventually

NEVER = 60.0
"""Seconds between looks at the file of somebody whom only a ring is to wake."""

SOON = 10.0
"""Seconds within which a ring has woken somebody, however busy the machine is."""


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


def marks(path: Path) -> list[str]:
    try:
        return os.listdir(f"{path}-bells/idle")
    except FileNotFoundError:
        return []


def bells(path: Path) -> list[str]:
    return [name for name in os.listdir(f"{path}-bells") if name != "idle"]


def wait_for_marks(path: Path, number: int) -> None:
    eventually(lambda: len(marks(path)) >= number, f"{number} idle processes")


async def wake(store: SqliteStore, path: Path, process: Process) -> float:
    """Enqueue a job for the one process that is alive; seconds until it was woken."""
    wait_for_marks(path, 1)
    job = clients.a_job()
    await store.enqueue([job])
    enqueued = time.monotonic()
    while True:
        woken, ids = await asyncio.to_thread(process.hear, "woken")
        if ids:
            assert ids == [job.id]
            return float(woken) - enqueued


async def test_one_new_job_wakes_one_idle_process(path: Path, store: SqliteStore, processes: Processes) -> None:
    idle = [processes.start(clients.idle, path, NEVER) for _ in range(4)]
    rounds = 20
    delays = []
    for _ in range(rounds):
        await asyncio.to_thread(wait_for_marks, path, len(idle))
        await store.enqueue([clients.a_job()])
        enqueued = time.monotonic()
        await asyncio.to_thread(eventually, lambda: any(not process.silent() for process in idle))
        [first, *_] = [process for process in idle if not process.silent()]
        woken, _ = first.hear("woken")
        delays.append(woken - enqueued)
    await asyncio.to_thread(wait_for_marks, path, len(idle))

    assert max(delays) < SOON
    others = sum(not process.silent() for process in idle)
    assert others <= 1, "the others slept on"


async def test_two_new_jobs_wake_two_idle_processes(path: Path, store: SqliteStore, processes: Processes) -> None:
    idle = [processes.start(clients.idle, path, NEVER) for _ in range(2)]
    delays = []
    for _ in range(5):
        await asyncio.to_thread(wait_for_marks, path, 2)
        await store.enqueue([clients.a_job(), clients.a_job()])
        enqueued = time.monotonic()
        delays += [(await asyncio.to_thread(process.hear, "woken"))[0] - enqueued for process in idle]

    assert max(delays) < SOON


async def test_the_doorbells_of_killed_processes_swallow_no_ring(
    path: Path, store: SqliteStore, processes: Processes
) -> None:  # I11
    killed = processes.start(clients.idle_many_times, path, 200)
    await asyncio.to_thread(wait_for_marks, path, 200)
    killed.kill()
    alive = processes.start(clients.idle, path, NEVER)

    delays = [await wake(store, path, alive) for _ in range(7)]

    assert max(delays) < SOON


async def test_a_stopped_process_that_swallows_a_ring_delays_a_job_by_a_look_at_the_file(
    path: Path, store: SqliteStore, processes: Processes
) -> None:  # I11, F2
    stopped, alive = (processes.start(clients.idle, path) for _ in range(2))
    await asyncio.to_thread(wait_for_marks, path, 2)
    stopped.stop()

    delays = [await wake(store, path, alive) for _ in range(4)]

    assert max(delays) < SOON, "where it waits for a minute"
    stopped.go_on()


async def test_the_doorbells_of_killed_processes_are_taken_down(path: Path, processes: Processes) -> None:  # I16
    killed = processes.start(clients.idle_many_times, path, 20)
    await asyncio.to_thread(wait_for_marks, path, 20)
    killed.kill()
    assert len(bells(path)) == 20

    store = SqliteStore(path)
    await store.wait(["nobody"])

    assert len(bells(path)) == 1
    assert marks(path) == []
    await store.close()


async def test_the_mark_of_a_busy_process_outlives_many_others_coming_and_going(
    path: Path, store: SqliteStore, processes: Processes
) -> None:  # I11
    busy = processes.start(clients.idle, path)
    await wake(store, path, busy)
    await asyncio.to_thread(wait_for_marks, path, 1)
    busy.stop()

    for _ in range(15):
        other = SqliteStore(path)
        await other.wait(["nobody"])
        await other.close()

    assert len(marks(path)) == 1
    busy.go_on()


async def test_a_process_that_leaves_takes_no_wake_up_of_others_with_it(
    path: Path, store: SqliteStore, processes: Processes
) -> None:  # I11
    await store.open()
    busy = processes.start(clients.idle_when_told, path, NEVER)
    busy.hear("ready")
    assert processes.start(clients.visit, path).wait() == 0
    busy.tell("go on")

    delays = [await wake(store, path, busy) for _ in range(7)]

    assert max(delays) < SOON


async def test_a_process_that_rang_others_can_have_a_doorbell_when_they_are_gone(
    path: Path, store: SqliteStore, processes: Processes
) -> None:
    idle = processes.start(clients.idle, path)
    await wake(store, path, idle)
    assert processes.start(clients.visit, path).wait() == 0
    idle.kill()
    assert processes.start(clients.visit, path).wait() == 0

    assert await store.wait(["nobody"]) == {"nobody": None}


async def test_strange_things_in_the_folder_of_the_doorbells_harm_nobody(path: Path, store: SqliteStore) -> None:
    await store.wait(["nobody"])
    for name in ("~", "x", "no-such-bell.0~q", "no.utf-8.\udcff~q"):
        (Path(f"{path}-bells") / "idle" / name).touch()
    for name in ("cannot-be-unlinked.0~*", "nor-this.1~q"):
        (Path(f"{path}-bells") / "idle" / name).mkdir()
    (Path(f"{path}-bells") / "no-socket").touch()

    for _ in range(3):
        await asyncio.wait_for(store.enqueue([clients.a_job()]), 5)
        await asyncio.wait_for(asyncio.to_thread(store.enqueue_now, [clients.a_job()]), 5)
    other = SqliteStore(path)
    await asyncio.wait_for(other.wait_for_work(["q"], 5), 10)

    assert len(await clients.take(other, limit=10)) == 6
    await other.close()


async def test_a_store_leaves_nothing_behind_in_folder_and_process(path: Path) -> None:  # I16
    async def use() -> None:
        store = SqliteStore(path)
        waiting = asyncio.create_task(store.wait_for_work(["q"], 5))
        await store.enqueue([clients.a_job()])
        await waiting
        for lease in await clients.take(store):
            await store.wait([lease.job.id])
        await store.close()

    await use()
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        await use()

    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert marks(path) == []
    assert not os.path.exists(f"{path}-bells") or bells(path) == []


async def test_a_path_longer_than_the_name_of_a_socket_may_be_is_no_hindrance(
    tmp_path: Path, processes: Processes
) -> None:
    path = tmp_path / ("long" * 40) / ("longer" * 30) / "jobs.db"
    path.parent.mkdir(parents=True)
    store = SqliteStore(path)
    await store.open()
    idle = processes.start(clients.idle, path, NEVER)

    delays = [await wake(store, path, idle) for _ in range(5)]

    assert max(delays) < SOON
    await store.close()
