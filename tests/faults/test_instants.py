"""Signals at any instant, in any order, to workers that run jobs in every lane: nothing is lost, and the process ends (F23)."""

from __future__ import annotations

import random
import time
from itertools import accumulate
from signal import SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2

import pytest

from .cluster import Cluster
from .conftest import on_one
from .lanes import register
from .processes import Process
from .scale import lengths

SEQUENCES = (
    (SIGTERM, SIGTERM),
    (SIGUSR1, SIGUSR2, SIGCONT, SIGQUIT),
    (SIGTERM, SIGKILL),
    (SIGINT, SIGINT),
    (SIGQUIT, SIGTERM),
    (SIGUSR1, SIGTERM),
    (SIGUSR2, SIGINT),
    (SIGHUP, SIGTERM),
    (SIGQUIT, SIGUSR1, SIGINT, SIGTERM, SIGKILL),
)

IN_A_ROUND = 4


@on_one
@pytest.mark.parametrize("rounds", lengths(1, 15))
def test_signals_at_any_instant_lose_nothing(cluster: Cluster, rounds: int) -> None:  # F23, F12, I1, I18
    register(cluster.app, cluster.folder)
    for number in range(rounds):
        chance = random.Random(number)
        for lane in ("async", "thread", "process"):
            cluster.enqueue(f"doze.{lane}", 0.25, number=20)
        began = time.monotonic()
        schedule = []
        for n in range(IN_A_ROUND):
            several = ("-p", "2") if n == 0 else ()
            worker = a_worker(cluster, "-c", "3", "--term-timeout", "1", *several)
            signums = SEQUENCES[(number * IN_A_ROUND + n) % len(SEQUENCES)]
            gaps = [chance.uniform(0.2, 2.0), *(chance.uniform(0, 0.3) for _ in signums[1:])]
            schedule += [(at, signum, worker) for at, signum in zip(accumulate(gaps), signums, strict=True)]
        for at, signum, worker in sorted(schedule, key=lambda each: each[0]):
            time.sleep(max(began + at - time.monotonic(), 0))  # the instant is what the test is about
            if not worker.ended:
                worker.send(signum)
        for worker in {worker for *_, worker in schedule}:
            sent = {signum for _, signum, to in schedule if to is worker}
            at_once = {-signum for signum in sent} | ({1} if SIGINT in sent else set())  # before there are handlers
            assert worker.wait(20) in {0, *at_once}, worker.last_words()

    a_worker(cluster, "-c", "8")
    records = cluster.wait_for_end(timeout=60)

    assert {record.state for record in records.values()} == {"succeeded"}
    assert cluster.violations() == []


def a_worker(cluster: Cluster, *options: str) -> Process:
    return cluster.worker(*options, target="tests.faults.lane_program:app")
