"""Notes beside a SQLite file: sockets in a folder, whose owners may be slow, stopped or dead."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tenure.errors import StoreUnavailable
from tenure.stores.sqlite import event_channel
from tenure.stores.sqlite.store import SqliteStore
from tenure.testing.conformance.consequences import receive


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def bells(path: Path) -> Path:
    return Path(f"{path}-bells")


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    await store.close()


def watchers(bells: Path) -> list[str]:
    return [name for name in os.listdir(bells) if name.startswith("watch-")]


async def eventually(test: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not test():
            await asyncio.sleep(0.01)


WATCHER = """
import asyncio, sys
from tenure.stores.sqlite.store import SqliteStore

async def main():
    async with SqliteStore(sys.argv[1]).watch() as notes:
        print("ready", flush=True)
        async for note in notes:
            print(note, flush=True)

asyncio.run(main())
"""


@asynccontextmanager
async def another_process(path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """One that watches, and says what it hears."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", WATCHER, str(path), stdout=subprocess.PIPE)
    try:
        assert await said(process, 1) == ["ready"]
        yield process
    finally:
        process.kill()
        await process.wait()


async def said(process: asyncio.subprocess.Process, number: int) -> list[str]:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return [(await process.stdout.readline()).decode().rstrip("\n") for _ in range(number)]


async def test_another_process_hears_them_until_it_is_killed(path: Path, bells: Path, store: SqliteStore) -> None:
    async with another_process(path) as process:
        assert await store.watched()
        await store.publish(["a", "b"])
        await store.publish(["c"])
        assert await said(process, 3) == ["a", "b", "c"]

    assert len(watchers(bells)) == 1
    assert not await store.watched()
    assert watchers(bells) == []


async def test_to_publish_takes_down_what_the_dead_have_left(path: Path, bells: Path, store: SqliteStore) -> None:
    async with another_process(path):
        pass

    await store.publish(["nobody is there"])

    assert watchers(bells) == []


async def test_a_stopped_watcher_holds_nobody_up_and_hears_all_when_it_goes_on(path: Path, store: SqliteStore) -> None:
    notes = [f"{number} {'x' * 100}" for number in range(5_000)]
    async with another_process(path) as stopped, store.watch() as heard:
        os.kill(stopped.pid, signal.SIGSTOP)
        for start in range(0, len(notes), 10):
            await store.publish(notes[start : start + 10])
            assert await receive(heard, 10) == notes[start : start + 10]

        os.kill(stopped.pid, signal.SIGCONT)
        assert await said(stopped, len(notes)) == notes


@contextmanager
def one_that_never_listens(bells: Path) -> Iterator[None]:
    bells.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(str(bells / "watch-deaf"))
        yield


async def test_what_is_held_back_for_one_who_never_listens_is_bounded(bells: Path, store: SqliteStore) -> None:
    began = time.monotonic()
    with one_that_never_listens(bells):
        for _ in range(50):
            await store.publish(["x" * 100] * 500)
        [held_back] = store._publisher._held_back.values()
        assert len(held_back) == event_channel.HELD_BACK
    assert time.monotonic() - began < 10
    await eventually(lambda: not store._publisher._held_back)


async def test_one_that_goes_while_notes_are_held_back_for_it_leaves_nothing(bells: Path, store: SqliteStore) -> None:
    with one_that_never_listens(bells):
        await store.publish(["x" * 1000] * 1000)
        await store.publish(["more"])
        assert store._publisher._held_back
    await store.close()
    assert not store._publisher._held_back


async def test_what_others_send_is_passed_over(
    bells: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store.watch() as notes:
        [name] = watchers(bells)
        monkeypatch.chdir(bells)  # for the address of a socket is short
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
            for rubbish in (b"", b"rubbish", b"\xff\xfe", b'{"a": 1}', b"[1, 2]"):
                stranger.sendto(rubbish, name)
        await store.publish(["sense"])
        assert await receive(notes, 1) == ["sense"]


async def test_a_watcher_whose_folder_was_deleted_is_there_again(
    path: Path, bells: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_channel, "LOOK_EVERY", 0.05)
    other = SqliteStore(path)
    async with store.watch() as notes:
        await other.publish(["before"])
        assert await receive(notes, 1) == ["before"]
        waiting = asyncio.create_task(receive(notes, 1))
        shutil.rmtree(bells)
        await eventually(lambda: bells.exists() and len(watchers(bells)) == 1)

        await other.publish(["after"])

        assert await waiting == ["after"]
    await other.close()


async def test_where_no_socket_can_be_made_a_watch_is_refused(bells: Path, store: SqliteStore) -> None:
    bells.touch()

    with pytest.raises(StoreUnavailable, match="no notes can be heard, for no socket can be made in"):
        async with store.watch():
            pass
    assert not await store.watched()
    await store.publish(["lost"])


async def test_to_ask_and_to_publish_leave_no_trace(bells: Path, store: SqliteStore) -> None:
    assert not await store.watched()
    await store.publish(["lost"])

    assert not bells.exists()


async def test_a_watch_that_has_ended_leaves_no_trace(bells: Path, store: SqliteStore) -> None:
    async with store.watch(), store.watch():
        assert len(watchers(bells)) == 2

    assert watchers(bells) == []
