"""Totals stay exact although workers are killed and records go."""

from __future__ import annotations

import signal

import msgspec

from tenure import App
from tenure.stores.values import Totals

from .counting import make_app, work
from .processes import Processes, eventually

NUMBER = 20


def test_totals_count_each_end_once_whoever_dies_and_whatever_is_pruned(
    url: str, processes: Processes
) -> None:  # T20, R52
    app = make_app(url)
    with app:
        for task in ("succeed", "stumble", "give_up"):
            app.tasks[task].using(queue="busy").enqueue_many([()] * NUMBER)
        app.remote("succeed", queue="busy").enqueue("no number")
        app.tasks["crash"].using(queue="busy").enqueue()
        app.cancel(app.tasks["succeed"].using(queue="busy", delay=3600).enqueue(7))
        app.tasks["deadly"].using(queue="risky").enqueue()
        assert processes.start(work, url, "risky").wait() == -signal.SIGKILL
        retire_all(app)
        lingering = app.tasks["linger"].using(queue="risky").enqueue()
        doomed = processes.start(work, url, "risky")
        doomed.hear("lingering")
        eventually(lambda: app.stats().totals.succeeded == 1, doomed.last_words)
        doomed.kill()
        retire_all(app)
        last = processes.start(work, url, "*")
        last.hear("lingering")
        app.cancel(lingering)

        def over() -> bool:
            return not any(queue.waiting + queue.scheduled + queue.running for queue in app.queues())

        eventually(over, last.last_words)
        eventually(lambda: len(app.jobs(limit=1000)) <= 2 * 2 * 2, "what retention removes")
        stats = app.stats()

    busy = Totals(
        processed=NUMBER * 5 + 2, succeeded=NUMBER * 2, failed=NUMBER + 1, retried=NUMBER * 2 + 1, cancelled=1, broken=1
    )  # fmt: skip
    risky = Totals(processed=1, succeeded=1, lost=2, cancelled=1)
    assert stats.queues == {"busy": busy, "risky": risky}
    assert stats.totals == Totals(
        processed=busy.processed + 1, succeeded=busy.succeeded + 1, failed=busy.failed, retried=busy.retried,
        lost=2, cancelled=2, broken=1,
    )  # fmt: skip
    assert list(stats.workers.values()) == [msgspec.structs.replace(busy, cancelled=0)], "by those that are registered"


def retire_all(app: App) -> None:
    """Give the jobs of workers that were seen to die to others."""
    for worker in app.workers():
        app.retire(worker.id, "killed by SIGKILL")
