"""Many processes on one store, and processes that are killed while they write to it."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from . import clients
from .checker import check
from .conftest import on_redis
from .processes import Processes
from .recording import Recorder, history_of, recorded
from .scale import lengths


@on_redis
@pytest.mark.parametrize("rounds", lengths(20, 400))
async def test_eight_processes_write_to_one_store(
    url: str, processes: Processes, tmp_path: Path, rounds: int
) -> None:  # F15, W2, W5
    writers = [processes.start(clients.write_and_work, url, tmp_path, rounds) for _ in range(8)]
    for writer in writers:
        writer.hear("ready")

    for writer in writers:
        writer.tell("go")
    for writer in writers:
        writer.hear("done", timeout=max(30, 2 * rounds))

    assert [writer.wait() for writer in writers] == [0] * 8
    recorder = Recorder(tmp_path)
    store = recorded(url, recorder)
    await clients.drain(store, recorder)
    history = await history_of(store, tmp_path)
    await store.close()
    assert len(history.ended) == 8 * rounds * 5
    assert {call.outcome for call in history.calls} == {"ok"}, "no call was refused for a lock"
    assert check(history) == []


@pytest.mark.parametrize("times", lengths(400, 3_000))
async def test_interrupts_of_blocking_code_harm_nobody_else(
    url: str, processes: Processes, tmp_path: Path, times: int
) -> None:  # F23, I19
    producer = processes.start(clients.enqueue_and_be_interrupted, url, tmp_path, times)

    assert producer.hear("done") == [[]]

    assert producer.wait() == 0
    recorder = Recorder(tmp_path)
    store = recorded(url, recorder)
    await clients.drain(store, recorder)
    assert check(await history_of(store, tmp_path)) == []
    await store.close()


@pytest.mark.parametrize("times", lengths(50, 1_000))
async def test_a_signal_handler_enqueues_whatever_it_has_interrupted(
    url: str, processes: Processes, tmp_path: Path, times: int
) -> None:  # F23, I1
    producer = processes.start(clients.enqueue_in_signal_handlers, url, tmp_path, times)

    [handled] = producer.hear("done")

    assert producer.wait() == 0
    recorder = Recorder(tmp_path)
    store = recorded(url, recorder)
    await clients.drain(store, recorder)
    history = await history_of(store, tmp_path)
    assert {job.id for job in history.ended} >= set(handled)
    assert check(history) == []
    await store.close()


@pytest.mark.parametrize("children", lengths(10, 300))
async def test_a_signal_handler_enqueues_while_the_app_is_used_for_the_first_time(
    url: str, processes: Processes, children: int
) -> None:  # F23
    producer = processes.start(clients.begin_with_a_signal, url, children)

    assert producer.hear("done", timeout=120) == [[]]

    assert producer.wait() == 0


@pytest.mark.parametrize("seed", lengths(0, *range(1, 20)))
async def test_what_a_killed_producer_was_told_is_stored(
    url: str, processes: Processes, tmp_path: Path, seed: int
) -> None:  # F15, I1, I2, I19
    chance = random.Random(seed)
    for _ in range(2):
        producers = [processes.start(clients.produce, url, tmp_path) for _ in range(3)]
        for producer in producers:
            producer.hear("ready")
        for producer in producers:
            time.sleep(chance.uniform(0, 0.1))  # the instant of the kill is what the test is about
            producer.kill()

    recorder = Recorder(tmp_path)
    store = recorded(url, recorder)
    before = await history_of(store, tmp_path)
    acked = {item.id for call in before.calls if call.outcome == "ok" for item in call.answers}
    assert acked
    assert acked <= {job.id for job in before.ended}
    await clients.drain(store, recorder)
    assert check(await history_of(store, tmp_path)) == []
    await store.close()
