"""Files that are damaged, foreign, gone, from the future or from another boot (F15)."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from tenure.core.job import State
from tenure.core.lifecycle import Finish
from tenure.errors import LayoutTooNew, StoreError, StoreUnavailable
from tenure.stores.sqlite.library import Library
from tenure.stores.sqlite.store import SqliteStore
from tenure.stores.values import Search, WorkerInfo
from tests.inspection import rows, run, sound

from .clients import a_job, take

USES: list[Callable[[SqliteStore], Awaitable[object]]] = [
    lambda store: store.open(),
    lambda store: store.enqueue([a_job()]),
    lambda store: take(store),
    lambda store: store.reap(["q"]),
    lambda store: store.queues(),
    lambda store: store.search(Search()),
    lambda store: store.get(["x"]),
    lambda store: store.wait(["x"]),
    lambda store: store.wait_for_work(["q"], 0.2),
    lambda store: store.register(WorkerInfo(id="w", host="h", pid=1, queues=("q",), tasks=(), concurrency=1)),
    lambda store: store.layout(),
]


async def refusal(path: Path, uses: Sequence[Callable[[SqliteStore], Awaitable[object]]] = USES) -> str:
    """What a store says of this file, whatever it is asked."""
    said = set()
    for use in uses:
        store = SqliteStore(path)
        try:
            with pytest.raises(StoreError) as told:
                await use(store)
        finally:
            await store.close()
        assert str(path) in str(told.value)
        assert "\n" not in str(told.value)
        said.add(str(told.value))
    return said.pop()


async def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_text("Dear diary, today I was mistaken for a database.\n" * 100)

    assert "is not a sound SQLite file" in await refusal(path)
    assert path.read_text().startswith("Dear diary"), "and left as it was"


async def test_a_folder_is_refused(path: Path) -> None:
    path.mkdir()

    await refusal(path)


async def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    await refusal(tmp_path / "file" / "jobs.db", USES[:-1])


async def test_a_newer_layout_is_refused_and_left_alone(path: Path) -> None:
    store = SqliteStore(path)
    await store.enqueue([a_job()])
    await store.close()
    run(path, "UPDATE tenure_meta SET value = 999 WHERE key = 'layout'")
    store = SqliteStore(path)

    with pytest.raises(LayoutTooNew) as told:
        await store.enqueue([a_job()])

    assert str(told.value).startswith(f"{str(path)!r} has layout 999, and this Tenure knows layouts up to ")
    assert str(told.value).endswith(": upgrade tenure here")
    assert (await store.layout()).found == 999
    await store.close()
    assert rows(path, "SELECT count(*) FROM tenure_jobs") == [(1,)]


@pytest.mark.parametrize("seed", range(4))
async def test_a_damaged_file_is_an_unavailable_store(path: Path, seed: int) -> None:
    store = SqliteStore(path)
    for _ in range(10):
        await store.enqueue([a_job(payload=b'"' + b"x" * 300 + b'"') for _ in range(100)])
    await store.close()
    chance = random.Random(seed)
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        for page in range(4096, size, 4096):
            file.seek(page + chance.randrange(100))
            file.write(chance.randbytes(100))
        if seed % 2:
            file.truncate(size // 2)

    refused = 0
    for use in USES:
        store = SqliteStore(path)
        try:
            await asyncio.wait_for(use(store), 10)
        except StoreError as error:
            refused += 1
            assert str(path) in str(error)
        finally:
            await store.close()
    assert refused, "damage that nobody could notice shows nothing"


@pytest.mark.parametrize("library", list(Library))
@pytest.mark.parametrize(("before", "file", "folder"), [(None, 0o600, 0o700), (0o640, 0o640, 0o750)])
async def test_only_its_owner_may_read_a_new_file(
    path: Path, library: Library, before: int | None, file: int, folder: int
) -> None:
    if before is not None:
        path.touch(before)
        path.chmod(before)
    umask = os.umask(0o002)
    try:
        store = SqliteStore(path, library=library)
        await store.enqueue([a_job()])
        await store.wait_for_work(["other"], 0.01)
    finally:
        os.umask(umask)

    modes = {
        name: Path(f"{path}{name}").stat().st_mode & 0o777 for name in ("", "-wal", "-shm", "-bells", "-bells/idle")
    }
    await store.close()
    assert modes == {"": file, "-wal": file, "-shm": file, "-bells": folder, "-bells/idle": folder}


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_a_file_that_goes_away_is_told_not_written_to(path: Path, tmp_path: Path, how: str) -> None:
    store = SqliteStore(path)
    await store.enqueue([a_job()])
    [lease] = await take(store)
    if how == "deleted":
        path.unlink()
    else:
        other = SqliteStore(tmp_path / "other.db")
        await other.open()
        await other.close()
        (tmp_path / "other.db").replace(path)
        Path(f"{path}-wal").unlink()
        Path(f"{path}-shm").unlink()

    for write in (
        lambda: store.enqueue([a_job()]),
        lambda: take(store),
        lambda: store.settle([(lease, Finish(State.SUCCEEDED))]),
    ):
        with pytest.raises(StoreUnavailable, match="was deleted or replaced while in use: put it back, or restart"):
            await write()
    await store.close()

    store = SqliteStore(path)
    await store.enqueue([a_job()])
    assert len((await store.search(Search())).jobs) == 1, "a restart begins anew"
    await store.close()


async def test_a_file_that_is_away_for_a_moment_is_not_made_anew(path: Path, tmp_path: Path) -> None:
    store = SqliteStore(path)
    job = a_job()
    await store.enqueue([job])
    path.rename(tmp_path / "away.db")

    for use in (lambda: store.get([job.id]), lambda: store.wait_for_work(["q"], 0.2), lambda: store.enqueue([a_job()])):
        with pytest.raises(StoreUnavailable):
            await use()
    assert not path.exists(), "an empty file in its place would cost it its log"
    (tmp_path / "away.db").rename(path)

    [record] = await store.get([job.id])
    assert record is not None
    await store.enqueue([a_job()])
    await store.close()
    assert sound(path)
    assert rows(path, "SELECT count(*) FROM tenure_jobs") == [(2,)]


async def test_a_doorbell_folder_that_goes_away_costs_nothing_but_time(path: Path) -> None:  # I11
    store, other = SqliteStore(path), SqliteStore(path)
    await store.register(WorkerInfo(id="w", host="h", pid=1, queues=("q",), tasks=(), concurrency=1))
    shutil.rmtree(f"{path}-bells")

    waiting = asyncio.create_task(store.wait_for_work(["q"], 10))
    job = a_job()
    await other.enqueue([job])
    await asyncio.wait_for(waiting, 5)
    assert await other.wait([job.id]) == {}
    [lease] = await take(store)
    await store.settle([(lease, Finish(State.SUCCEEDED))])

    assert (await other.wait([job.id])).keys() == {job.id}
    await store.close()
    await other.close()


# Leases are counted in seconds since boot, and a boot begins them anew.


async def test_a_lease_of_another_boot_has_expired(path: Path) -> None:
    store = SqliteStore(path)
    await store.enqueue([a_job()])
    await store.register(WorkerInfo(id="w", host="h", pid=1, queues=("q",), tasks=(), concurrency=1))
    [lease] = await take(store, ttl=1000)
    assert await store.reap(["q"]) == []
    await store.close()
    run(path, "UPDATE tenure_meta SET value = 'another boot' WHERE key = 'boot'")
    store = SqliteStore(path)

    [reaped] = await store.reap(["q"])

    assert (reaped.id, reaped.losses, reaped.failed) == (lease.job.id, 1, False)
    [verdict] = await store.settle([(lease, Finish(State.SUCCEEDED))])
    assert verdict.kind == "lease_lost"
    [worker] = await store.workers()
    assert worker.silent_for > 600
    await store.close()


@pytest.fixture
def begun() -> Iterator[threading.Event]:
    """Set when any connection begins a write transaction, successfully or not yet."""
    event = threading.Event()

    def seen(statement: dict[str, Any]) -> None:
        if "IMMEDIATE" in statement["sql"]:
            event.set()

    def hook(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, seen)

    apsw.connection_hooks.append(hook)
    yield event
    apsw.connection_hooks.remove(hook)


async def test_the_second_to_open_after_a_boot_leaves_the_leases_of_the_first(
    path: Path, begun: threading.Event
) -> None:  # I4
    store = SqliteStore(path)
    await store.enqueue([a_job()])
    await take(store, ttl=1000)
    await store.close()
    [(boot, until)] = rows(
        path, "SELECT value, lease_until FROM tenure_meta, tenure_jobs WHERE key = 'boot' AND state = 'running'"
    )
    run(path, "UPDATE tenure_meta SET value = 'another boot' WHERE key = 'boot'")
    first = apsw.Connection(str(path))
    first.set_busy_timeout(10_000)
    first.execute("BEGIN IMMEDIATE")
    begun.clear()
    store = SqliteStore(path)

    opening = asyncio.create_task(store.open())
    assert await asyncio.to_thread(begun.wait, 10)
    # What the first does: void what was there, lease a job anew.
    first.execute("UPDATE tenure_meta SET value = ? WHERE key = 'boot'", (boot,))
    first.execute("UPDATE tenure_jobs SET lease_until = ?", (until,))
    first.execute("COMMIT")
    first.close()
    await opening

    assert await store.reap(["q"]) == []
    await store.close()
