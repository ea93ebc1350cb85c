"""Worker processes on one store, and what a test sees of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tenure import Job
from tenure.core.job import JobRecord, State
from tenure.errors import OutcomeUnknown, StoreUnavailable
from tenure.stores.values import QueueInfo
from tests.inspection import counted, recounted, sound
from tests.stores.postgres.soundness import unsound_at

from .checker import check
from .history import Ended, History, Start, Violation, read
from .processes import PATIENCE, Process, Processes, eventually
from .tasks import make_app

__all__ = ["Cluster"]


class Cluster:
    """An app whose workers are processes of their own, started by the command line."""

    def __init__(self, url: str, folder: Path, processes: Processes) -> None:
        self.url = url
        self.folder = folder
        self.app = make_app(url, folder)
        self._processes = processes

    def worker(
        self,
        *options: str,
        die: str = "",
        skew: float = 0.0,
        lease: float = 1.0,
        target: str = "tests.faults.program:app",
    ) -> Process:
        """Start a worker process; it may be told at which instant of a job's life to die, and that it is another time."""
        return self._processes.work(
            target, *options,
            FAULTS_URL=self.url, FAULTS_FOLDER=str(self.folder), FAULTS_DIE=die, FAULTS_SKEW=str(skew),
            FAULTS_LEASE=str(lease),
        )  # fmt: skip

    def enqueue(self, task: str, *arguments: Any, queue: str = "default", number: int = 1) -> list[Job[Any]]:
        """Enqueue the same call so many times."""
        return self.app.tasks[task].using(queue=queue).enqueue_many([arguments] * number)

    def wait_for_start(self, job: Job[Any], times: int = 1) -> Start:
        """Wait until the function of a job has been started so many times; its last start."""
        eventually(lambda: len(self.starts(job)) >= times, f"start {times} of {job}")
        return self.starts(job)[-1]

    def give_work_to(self, worker: Process) -> None:
        """Enqueue jobs until this worker process has started one; others may be quicker."""
        history = self.folder / f"{worker.pid}.history"

        def started() -> bool:
            if history.exists() and read([history])[1]:
                return True
            self.enqueue("nap", 0.05, number=10)
            return False

        eventually(started, "the first start", step=0.1)

    def starts(self, job: Job[Any]) -> list[Start]:
        """When its function has been started so far, in order."""
        starts = [start for start in read(self.folder.glob("*.history"))[1] if start.id == job.id]
        return sorted(starts, key=lambda start: start.at)

    def wait_for_end(self, timeout: float = PATIENCE) -> dict[str, JobRecord]:
        """Wait until every job is final; all of them, by id."""
        eventually(lambda: self._answers(lambda queue: not _unfinished(queue)), self._what_is_left, timeout)
        return self.records()

    def wait_for_answers(self) -> None:
        """Wait until the store is there again."""
        eventually(self._answers, "a store that answers")

    def _answers(self, of_each: Callable[[QueueInfo], bool] = lambda _: True) -> bool:
        """Whether the store can be asked, and says this of each queue."""
        try:
            return all(map(of_each, self.app.queues()))
        except (StoreUnavailable, OutcomeUnknown):
            return False

    def records(self) -> dict[str, JobRecord]:
        """All jobs, by id."""
        found: dict[str, JobRecord] = {}
        cursor = None
        while True:
            page = self.app.jobs(limit=1000, cursor=cursor)
            found |= {job.id: job.record for job in page if job.record}
            cursor = page.cursor
            if cursor is None:
                return found

    def violations(self, *, ordered: bool = True) -> list[Violation]:
        """What the history of everybody contradicts, once all has ended; and what is stored must be in order.

        Where connections to PostgreSQL are cut jobs may be overtaken, and that is not told unless they must be `ordered`: a lease
        that nobody hears of holds its jobs until the server has undone it, and others pass them over.
        """
        records = self.records().values()
        ends = {
            (queue.name, state): getattr(queue, state) for queue in self.app.queues() for state in State if state.final
        }
        assert Counter(ends) == Counter((record.queue, record.state) for record in records)  # I20
        if self.url.startswith("sqlite"):
            assert sound(self.path)
            assert counted(self.path) == recounted(self.path)
        elif self.url.startswith("postgres"):
            assert asyncio.run(unsound_at(self.url)) == []
        calls, starts = read(self.folder.glob("*.history"))
        ended = [Ended.of(record) for record in records]
        found = check(History(calls, starts, ended, locking=self.url.startswith("postgres")))
        return [each for each in found if ordered or each.invariant != "I8"]

    @property
    def path(self) -> Path:
        """The file, of a store that is one."""
        return Path(self.url.removeprefix("sqlite:///"))

    def _what_is_left(self) -> str:
        left = [f"{job.task} {job.id} is {job.state}" for job in self.records().values() if not job.state.final]
        return f"the end of {', '.join(left[:20])}; {self._processes.last_words()}"


def _unfinished(queue: QueueInfo) -> int:
    return queue.waiting + queue.scheduled + queue.blocked + queue.running
