"""One soak of one store: an agenda of what comes when, and then a look at everything."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from sched import scheduler

from tenure import App
from tenure.core.options import Retention
from tenure.errors import OutcomeUnknown, StoreUnavailable
from tenure.stores import open_store
from tests.faults.history import read
from tests.faults.processes import eventually

from .fleet import Fleet
from .growth import Growth, Sample, changes, process_measures
from .load import unfinished
from .sights import Sights, all_jobs
from .subjects import Subject
from .verdict import against_arguments, against_counters, against_history

__all__ = ["Soak"]

DRAIN = 60.0
"""Seconds within which all jobs must have ended once there are no more faults."""

ENOUGH = 60.0
"""Seconds below which nothing is said about growth: everything grows while it starts."""


class Soak:
    """A store under load and faults for so many seconds. What must not be is a complaint."""

    def __init__(self, subject: Subject, folder: Path, seconds: float, seed: str, say: Callable[[str], None]) -> None:
        self.complaints: list[str] = []
        self.counts: Counter[str] = Counter()
        """What has happened, and how often."""

        self._subject = subject
        self._folder = folder
        self._seconds = seconds
        self._say = say
        self._chance = random.Random(seed)
        self._agenda = scheduler()
        self._fleet = Fleet(subject.url, folder, self._chance, self._agenda)
        self._faults = {
            "kills": self._fleet.kill,
            "stops": self._fleet.stop,
            "restarts": self._fleet.restart,
            **subject.faults(self._agenda, self._chance),
        }
        self._app = App(subject.url)
        self._sights = Sights(self._app)
        self._samples: list[Sample] = []

    def run(self) -> None:
        """Soak, drain, check."""
        try:
            self._fleet.start()
            eventually(lambda: len(self._app.workers()) == 4, "four workers")
            self._plan()
            self._agenda.run()
            self._say("  no more faults: draining")
            self._drain()
            self._say("  drained: checking")
            self._check()
        finally:
            self._fleet.end()
            self._app.close()

    def growth(self) -> list[Growth]:
        """How large everything was, early and late."""
        return list(changes(self._samples, self._seconds))

    # The soak.

    def _plan(self) -> None:
        self._began = time.monotonic()
        self._again(self._strike, lambda: self._chance.uniform(0.2, 2.5))
        self._again(self._fleet.roll_call, lambda: 0.5)
        self._again(self._measure, lambda: 0.7)
        self._again(self._sights.look, lambda: 1.0)
        self._again(self._report, lambda: 5.0)

    def _again(self, act: Callable[[], None], pause: Callable[[], float]) -> None:
        """Do something again and again until it is over; a store that is away for the moment is no reason to stop."""

        def turn() -> None:
            with contextlib.suppress(StoreUnavailable, OutcomeUnknown):
                act()
            self._again(act, pause)

        seconds = pause()
        if self._passed + seconds < self._seconds:
            self._agenda.enter(seconds, 0, turn)

    @property
    def _passed(self) -> float:
        return time.monotonic() - self._began

    def _strike(self) -> None:
        [fault] = self._chance.choices(list(self._faults), [5, 4, 2] + [1] * (len(self._faults) - 3))
        self._faults[fault]()
        self.counts[fault] += 1

    def _measure(self) -> None:
        values = self._subject.measures()
        for member in self._fleet.members:
            if not member.mortal and not member.process.ended:
                values |= process_measures(member.part, member.process.pid)
        self._samples.append((self._passed, values))

    def _report(self) -> None:
        totals, left = self._app.stats().totals, unfinished(self._app.queues())
        ended = totals.succeeded + totals.failed + totals.cancelled + totals.broken
        sizes = [f"{measure.name} {measure.shown(value)}" for measure, value in self._samples[-1][1].items()]
        minutes, seconds = divmod(round(self._passed), 60)
        self._say(
            f"  {minutes}:{seconds:02}  {ended + left:,} jobs, {ended:,} ended, {totals.lost:,} losses; "
            f"{self.counts['kills']} kills, {self.counts.total() - self.counts['kills']} other faults; "
            + ", ".join(size for size in sizes if size.endswith("MiB") and "producer" not in size)
        )

    # The end.

    def _drain(self) -> None:
        """Let those go who make work, then, when there is none left, those who do it."""
        self._fleet.dismiss("producer", "blocking producer", "operator")
        for queue in self._app.queues():
            self._app.resume(queue.name)
        deadline = time.monotonic() + DRAIN
        while (left := unfinished(self._app.queues())) and time.monotonic() < deadline:
            self._sights.look()
            time.sleep(0.5)
        if left:
            what = Counter(f"{job.task} {job.label}" for job in all_jobs(self._app) if not job.state.final)
            self.complaints.append(f"{left} jobs did not end: {dict(what)}")
        self._sights.look()
        self._fleet.dismiss("worker")

    def _check(self) -> None:
        calls, starts = read(self._folder.glob("*/*.history"))
        ended, kept = [sight.job for sight in self._sights.all.values()], all_jobs(self._app)
        seen = {
            "jobs": len(ended),
            "starts": len(starts),
            "losses": sum(job.losses for job in ended),
            "pruned on the way": len(ended) - len(kept),
            "calls": len(calls),
            "without an answer": sum(call.outcome == "unknown" for call in calls),
        }
        self.counts = Counter(seen) + self.counts
        self.complaints += self._fleet.complaints
        self.complaints += self._tracebacks()
        self.complaints += against_history(
            calls, starts, self._sights.all, locking=self._subject.url.startswith("postgres")
        )
        self.complaints += against_arguments(ended)
        self.complaints += against_counters(self._app.queues(), ended, kept)
        self.complaints += self._subject.disorder()
        if self._seconds >= ENOUGH:
            self.complaints += [f"I16: {growth} is too much" for growth in self.growth() if growth.too_much]
        self._empty()
        self.complaints += [f"I16: there is still {what}" for what in self._subject.leftovers()]

    def _tracebacks(self) -> Iterator[str]:
        """What nothing expects: tracebacks that are not those of jobs, which fail on purpose."""
        for log in self._folder.glob("*/*.log"):
            text = re.sub(
                r"^\S+ \w+ +tenure\.jobs .*\n(?:    .*\n)*", "", log.read_text(errors="replace"), flags=re.MULTILINE
            )
            _, found, trace = text.partition("Traceback")
            if found:
                yield f"{log} has a traceback: {trace[:2000]}"

    def _empty(self) -> None:
        """Retire whoever was killed, prune whatever may be pruned, delete what is left."""
        for worker in self._app.workers():
            self._app.retire(worker.id)
        asyncio.run(_prune_all(self._subject.url))
        left = all_jobs(self._app)
        # Somebody waited for the result of a quick one or of a run: it is kept for a minute, whatever retention says.
        unawaited = [job for job in left if job.task != "quick" and job.run_id is None]
        self.complaints += [f"I16: {job.task} {job.id} is not pruned" for job in unawaited]
        self._app.delete(*(job.id for job in left))


async def _prune_all(url: str) -> None:
    store = open_store(url)
    while await store.prune(Retention(succeeded=0, failed=0, count=0), {}):
        pass
    await store.close()
