"""A program that is replaced while its workers run: what one of them does not know is left to the other."""

from __future__ import annotations

import contextlib
import signal

from tenure import App
from tenure.core.reasons import TaskUnknown
from tenure.errors import WrongState

from .conftest import on_one
from .deploying import work_new, work_old
from .processes import Processes, eventually


@on_one
def test_a_task_that_only_the_new_workers_know_waits_for_them_and_an_old_name_is_known_to_both(
    url: str, processes: Processes
) -> None:  # T22, F18
    with App(url) as app:
        before = processes.start(work_old, url)
        send, report = app.remote("send"), app.remote("report")
        jobs = report.enqueue_many([(str(n),) for n in range(5)])
        assert send.enqueue(1).result(timeout=30) == [1, before.pid]

        def offered() -> bool:
            records = [job.refresh().record for job in jobs]
            return all(record is not None and record.misses > 0 for record in records)

        eventually(offered, before.last_words)
        assert {(job.state, job.record and job.record.attempt) for job in jobs} == {("waiting", 0)}
        assert [each.task for each in app.explain(jobs[0]).reasons if isinstance(each, TaskUnknown)] == ["report"]

        after = processes.start(work_new, url)
        eventually(lambda: any("report" in worker.tasks for worker in app.workers()), after.last_words)

        def met() -> bool:
            more = report.enqueue_many([("5",)] * 10)
            jobs.extend(more)
            return any(job.refresh().done for job in more)

        eventually(met, after.last_words, step=0.1)
        before.send(signal.SIGQUIT)
        assert before.wait() == 0
        assert send.enqueue(2).result(timeout=30) == [2, after.pid]
        for job in jobs:
            with contextlib.suppress(WrongState):  # it is offered again after ten seconds, or now
                job.trigger()
        assert [job.result(timeout=30)[1] for job in jobs] == [after.pid] * len(jobs)
