"""Bridges that die after each step of the hand-over, or freeze: the other system counts every entry once."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest
import redis

from tenure.core.job import new_id

from .bridging import work
from .processes import Process, Processes, eventually
from .scale import lengths

on_sqlite_first = pytest.mark.parametrize("url", lengths("sqlite", "redis", "postgres"), indirect=True)

WORKING = ("take", "enqueue", "settle_and_lease", "record")
RETURNING = ("lease", "mark_returning", "cancel", "give_back")


class Yard:
    """A Resque namespace, a store, and bridges between them."""

    def __init__(self, url: str, redis_url: str, folder: Path, processes: Processes) -> None:
        self.url, self.redis_url, self.folder = url, redis_url, folder
        self.namespace = new_id()
        self.client = redis.Redis.from_url(redis_url)
        self.pushed = 0
        self._processes = processes

    def push(self, name: str, number: int) -> list[int]:
        """Push entries; every tenth fails."""
        numbers = list(range(self.pushed, self.pushed + number))
        self.pushed += number
        self.client.sadd(f"{self.namespace}:queues", "yard")
        for n in numbers:
            self.client.rpush(f"{self.namespace}:queue:yard", json.dumps({"class": name, "args": [n]}))
        return numbers

    def bridge(self, die_after: str = "", concurrency: int = 1) -> Process:
        return self._processes.start(
            work, self.url, self.redis_url, self.namespace, self.folder, die_after, concurrency
        )

    def hold(self, holding: bool) -> None:
        path = self.folder / "hold"
        path.touch() if holding else path.unlink()

    @property
    def runs(self) -> Counter[int]:
        """How often each entry has run."""
        path = self.folder / "ran"
        return Counter(int(line.split()[1]) for line in path.read_text().splitlines()) if path.exists() else Counter()

    @property
    def counts(self) -> tuple[int, int]:
        processed, failed = (
            int(self.client.get(f"{self.namespace}:stat:{what}") or 0) for what in ("processed", "failed")
        )
        return processed, failed

    @property
    def custody(self) -> int:
        return int(self.client.hlen(f"{self.namespace}:tenure:custody"))

    def waiting(self) -> list[int]:
        return [json.loads(each)["args"][0] for each in self.client.lrange(f"{self.namespace}:queue:yard", 0, -1)]

    def wait_for_all(self, failed: int) -> None:
        eventually(
            lambda: self.counts == (self.pushed, failed) and not self.custody,
            lambda: f"{self.counts} of {self.pushed}, {self.custody} in custody; {self._processes.last_words()}",
        )


@pytest.fixture
def yard(url: str, redis_server_url: str, tmp_path: Path, processes: Processes) -> Iterator[Yard]:
    made = Yard(url, redis_server_url, tmp_path, processes)
    yield made
    for key in made.client.scan_iter(match=f"{made.namespace}:*"):
        made.client.unlink(key)
    made.client.close()


@on_sqlite_first
def test_bridges_that_die_after_every_step_lose_nothing_and_count_every_end_once(yard: Yard) -> None:
    failing = 0
    for step in WORKING:
        failing += sum(n % 10 == 0 for n in yard.push("Note", 2))
        assert yard.bridge(step).wait() == -SIGKILL, step
    yard.bridge(concurrency=4)
    yard.wait_for_all(failing)

    assert yard.runs == Counter(range(yard.pushed))


@pytest.mark.parametrize("step", RETURNING)
@on_sqlite_first
def test_a_bridge_that_dies_while_it_gives_back_loses_nothing_and_counts_every_end_once(yard: Yard, step: str) -> None:
    yard.hold(True)
    yard.push("Hold", 2)
    bridge = yard.bridge(step, concurrency=2)
    eventually(lambda: len(yard.runs) == 2, lambda: f"two starts; {bridge.last_words()}")
    bridge.send(SIGTERM)
    assert bridge.wait() == -SIGKILL
    yard.hold(False)
    yard.bridge(concurrency=2)
    yard.wait_for_all(0)

    assert yard.runs == Counter([0, 0, 1, 1])


@on_sqlite_first
def test_term_gives_back_to_the_front_in_order(yard: Yard) -> None:
    yard.hold(True)
    numbers = yard.push("Hold", 5)
    bridge = yard.bridge(concurrency=3)
    eventually(lambda: len(yard.runs) == 3, "three starts")

    bridge.send(SIGTERM)

    assert bridge.wait() == 0
    assert (yard.waiting(), yard.custody, yard.counts) == (numbers, 0, (0, 0))


@on_sqlite_first
def test_a_frozen_bridge_that_comes_back_changes_nothing_twice(yard: Yard) -> None:
    yard.hold(True)
    yard.push("Hold", 2)
    frozen = yard.bridge(concurrency=2)
    eventually(lambda: len(yard.runs) == 2, "two starts")
    frozen.stop()
    yard.hold(False)
    yard.bridge(concurrency=2)
    yard.wait_for_all(0)

    frozen.go_on()
    yard.push("Note", 8)
    yard.wait_for_all(0)
    time.sleep(0.3)

    assert yard.counts == (10, 0)
    assert yard.runs == Counter([*range(10), 0, 1])


@pytest.mark.parametrize("rounds", lengths(1, 40))
@on_sqlite_first
def test_two_bridges_that_are_killed_at_any_instant_count_every_entry_once(yard: Yard, rounds: int) -> None:
    chance = random.Random(rounds)
    failed = sum(n % 10 == 0 for n in yard.push("Note", 100 * rounds))
    other = yard.bridge(concurrency=3)
    for _ in range(rounds):
        bridge = yard.bridge(concurrency=3)
        time.sleep(chance.uniform(0.5, 0.9))  # the instant is what the test is about
        bridge.kill()
        bridge, other = other, yard.bridge(concurrency=3)
        time.sleep(chance.uniform(0.0, 0.2))
        bridge.kill()
    yard.wait_for_all(failed)

    again = sum(yard.runs.values()) - yard.pushed
    assert 0 <= again <= 6 * rounds  # only what ran at a kill
