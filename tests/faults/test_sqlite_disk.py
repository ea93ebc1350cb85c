"""Disks that are full, broken, read-only, or that are cut off in the middle of a write (F15)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tenure.core.job import State
from tenure.core.lifecycle import Finish
from tenure.errors import StoreFull, StoreUnavailable
from tenure.stores.sqlite.store import SqliteStore
from tenure.stores.values import RunSearch
from tests.inspection import counted, recounted, rows, sound

from . import clients
from .checker import check
from .processes import Processes
from .recording import Recorder, history_of, recorded
from .scale import lengths

DISK = 64 << 20
LEFT = 2 << 20
"""What a filler leaves of the disk. Once it is gone there is room even for SQLite's log, which may grow to 16 MB."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


async def test_a_full_disk_refuses_jobs_and_keeps_those_it_has(small_disk: Path, tmp_path: Path) -> None:  # F15, I19
    path = small_disk / "jobs.db"
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (DISK - LEFT))
    recorder = Recorder(tmp_path)
    store = recorded(f"sqlite:///{path}", recorder)

    refused, sentence = await clients.fill(store)
    with pytest.raises(StoreFull):
        await store.enqueue([clients.a_job(payload=b'"' + b"x" * 100_000 + b'"')])
    filler.unlink()
    await store.enqueue([clients.a_job()])
    await clients.drain(store, recorder)

    assert (refused, "\n" in sentence) == ("StoreFull", False)
    assert str(path) in sentence
    history = await history_of(store, tmp_path)
    assert check(history) == []
    assert {job.state for job in history.ended} == {"succeeded"}
    await store.close()
    assert sound(path)
    assert counted(path) == recounted(path)


async def test_a_lease_taken_before_the_disk_was_full_is_settled_when_there_is_room(small_disk: Path) -> None:  # F15
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (DISK - LEFT))
    store = SqliteStore(small_disk / "jobs.db")
    await store.enqueue([clients.a_job()])
    [lease] = await clients.take(store)
    await clients.fill(store)
    too_long = Finish(State.SUCCEEDED, '"' + "x" * 500_000 + '"')

    with pytest.raises(StoreFull):
        await store.settle([(lease, too_long)])
    filler.unlink()
    [verdict] = await store.settle([(lease, too_long)])

    assert verdict.kind == "ok"
    await store.close()


async def test_a_disk_without_room_for_a_store_says_so(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * DISK)
    store = SqliteStore(small_disk / "jobs.db")

    with pytest.raises(StoreFull, match=r"^no room left for .*jobs.db"):
        await store.open()
    filler.unlink()

    await store.enqueue([clients.a_job()])
    await store.close()


async def test_files_that_may_not_grow_are_a_full_store(
    path: Path, processes: Processes, tmp_path: Path
) -> None:  # F15
    producer = processes.start(clients.produce_until_limited, path, tmp_path, 1 << 20)

    assert producer.hear("refused")[0] == "StoreFull"
    producer.hear("done")

    assert producer.wait() == 0
    store = SqliteStore(path)
    assert check(await history_of(store, tmp_path)) == []
    await store.close()
    assert sound(path)


async def test_a_broken_disk_is_told_in_one_sentence_and_survived(
    path: Path, processes: Processes, tmp_path: Path
) -> None:  # F15, I19
    producer = processes.start(clients.produce_on_a_broken_disk, path, tmp_path)

    for _ in range(3):
        refused, sentence = producer.hear("refused")
        assert refused in {"StoreUnavailable", "OutcomeUnknown"}
        assert str(path) in sentence
        assert "\n" not in sentence
    producer.hear("done")

    assert producer.wait() == 0
    store = SqliteStore(path)
    assert check(await history_of(store, tmp_path)) == []
    await store.close()
    assert sound(path)


@pytest.mark.parametrize("instants", lengths((1, 2, 3, 4, 5, 7, 11, 20), range(1, 400, 3)))
async def test_a_kill_at_any_write_leaves_a_sound_file_with_all_that_was_acknowledged(
    path: Path, processes: Processes, tmp_path: Path, instants: Sequence[int]
) -> None:  # F15, I1, I2, I19
    for several in zip(*[iter(instants)] * 2, strict=False):
        producers = [processes.start(clients.produce_and_die, path, tmp_path, instant) for instant in several]
        assert [producer.wait() for producer in producers] == [-9] * len(producers)

    assert sound(path)
    assert counted(path) == recounted(path)
    recorder = Recorder(tmp_path)
    store = recorded(f"sqlite:///{path}", recorder)
    await clients.drain(store, recorder)
    assert check(await history_of(store, tmp_path)) == []
    await store.close()


async def test_a_full_disk_refuses_a_hand_over_whole(small_disk: Path) -> None:  # F15, F25, I13
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (DISK - LEFT))
    store = SqliteStore(small_disk / "jobs.db")
    start = clients.a_start({"n": "1"})
    await store.enqueue([start])
    [lease] = await clients.take(store)
    await clients.fill(store)
    step = clients.handing_over(lease, {"n": "2", "long": '"' + "x" * 500_000 + '"'})

    with pytest.raises(StoreFull):
        await store.settle([(lease, step)])
    found = await store.run(start.id)
    assert found is not None
    assert (found.step.id, found.step.state) == (start.id, State.RUNNING)
    assert await store.attributes(start.id) == {"n": "1"}
    filler.unlink()
    [verdict] = await store.settle([(lease, step)])

    assert verdict.kind == "ok"
    assert [job.successor is None for job in (await store.steps(start.id)).jobs] == [False, True]
    await store.close()
    assert sound(small_disk / "jobs.db")
    assert counted(small_disk / "jobs.db") == recounted(small_disk / "jobs.db")


@pytest.mark.parametrize("instants", lengths((50, 75, 101, 124, 150, 177), range(1, 400, 3)))
async def test_a_kill_at_any_write_leaves_every_step_with_its_successor_or_neither(
    path: Path, processes: Processes, instants: Sequence[int]
) -> None:  # F25, I13
    for several in zip(*[iter(instants)] * 2, strict=False):
        walkers = [processes.start(clients.hand_over_and_die, path, instant) for instant in several]
        assert [walker.wait() for walker in walkers] == [-9] * len(walkers)

    assert sound(path)
    assert counted(path) == recounted(path)
    store = SqliteStore(path)
    found = (await store.runs(RunSearch(limit=2000))).runs
    handed_over = 0
    for run in found:
        steps = (await store.steps(run.id, limit=1000)).jobs
        assert [step.successor for step in steps] == [*(step.id for step in steps[1:]), None]
        assert {step.state for step in steps[:-1]} <= {State.SUCCEEDED}
        assert (await store.attributes(run.id))["n"] == str(len(steps) - 1)
        handed_over += len(steps) - 1
    await store.close()
    assert handed_over > 0
    [[passed]] = rows(path, "SELECT passed FROM tenure_queues WHERE name = 'q'")
    assert passed == handed_over


@pytest.mark.parametrize("instants", lengths((1, 2, 4, 9), range(1, 40)))
async def test_a_file_whose_making_was_cut_short_is_made_by_the_next(
    processes: Processes, tmp_path: Path, instants: Sequence[int]
) -> None:
    paths = {instant: tmp_path / f"{instant}.db" for instant in instants}
    makers = [processes.start(clients.die_while_opening, path, instant) for instant, path in paths.items()]
    for maker in makers:
        assert maker.wait() == -9

    for path in paths.values():
        store = SqliteStore(path)
        await store.enqueue([clients.a_job()])
        await store.close()
        assert sound(path)


async def test_a_read_only_disk_is_told_in_one_sentence(small_disk: Path) -> None:
    path = small_disk / "jobs.db"
    store = SqliteStore(path)
    await store.open()
    await store.close()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    store = SqliteStore(path)

    with pytest.raises(StoreUnavailable) as told:
        await store.enqueue([clients.a_job()])

    assert str(path) in str(told.value)
    assert "\n" not in str(told.value)
    await store.close()
