"""Many processes on one file, and processes that are killed while they write to it (F15)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.stores.sqlite.store import SqliteStore
from tests.inspection import counted, recounted, rows, sound

from . import clients
from .checker import check
from .processes import Processes
from .recording import Recorder, history_of, recorded
from .scale import lengths


@pytest.mark.parametrize("rounds", lengths(20, 400))
async def test_eight_processes_write_to_one_file_beside_a_long_reader(
    path: Path, processes: Processes, tmp_path: Path, rounds: int
) -> None:  # F15, W2, W5
    url = f"sqlite:///{path}"
    first = SqliteStore(path)
    await first.enqueue([clients.a_job("other")])
    await first.close()
    reader = processes.start(clients.read_for_long, path)
    [seen] = reader.hear("reads")
    writers = [processes.start(clients.write_and_work, url, tmp_path, rounds) for _ in range(8)]
    for writer in writers:
        writer.hear("ready")

    for writer in writers:
        writer.tell("go")
    for writer in writers:
        writer.hear("done", timeout=max(30, 2 * rounds))

    reader.tell("end")
    assert reader.hear("read") == [seen], "a long reader sees one snapshot"
    assert [writer.wait() for writer in writers] == [0] * 8
    recorder = Recorder(tmp_path)
    store = recorded(url, recorder)
    await clients.drain(store, recorder)
    history = await history_of(store, tmp_path)
    await store.close()
    [other] = [job for job in history.ended if job.state == "waiting"]
    history = history.__class__(history.calls, history.starts, [job for job in history.ended if job is not other])
    assert len(history.ended) == 8 * rounds * 5
    assert {call.outcome for call in history.calls} == {"ok"}, "no call was refused for a lock"
    assert check(history) == []
    assert sound(path)
    assert counted(path) == recounted(path)  # I20


@pytest.mark.parametrize("number", lengths(30, 500))
async def test_ten_processes_make_a_file_at_once(processes: Processes, tmp_path: Path, number: int) -> None:
    makers = [processes.start(clients.make_files, tmp_path, number) for _ in range(10)]
    for _ in range(number):
        for maker in makers:
            maker.hear("ready")
        for maker in makers:
            maker.tell("go")
    for maker in makers:
        maker.hear("done")

    for n in range(number):
        path = tmp_path / f"{n}.db"
        assert rows(path, "SELECT count(*) FROM tenure_jobs") == [(10,)]
        assert sound(path)
