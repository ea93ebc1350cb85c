"""`Builders` makes jobs, runs, transitions and schedules from generated specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tenure.core.job import NewJob, RunStep, State, Writes
from tenure.core.lifecycle import Finish, Park, Transition
from tenure.core.schedule import Firing, Overlap, SchedulePut, TickEnd, TickRecord
from tenure.testing.machine.comparison import Comparison
from tenure.testing.machine.strategies import GONE, FiringSpec, JobSpec, PutSpec, StepSpec

__all__ = ["Builders"]


class Builders(Comparison):
    """A comparison that makes jobs, and remembers those it has made."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[str, NewJob] = {}
        """The jobs that were enqueued or are children, by id. Successors are not in it."""

        self.ticks = 0

    def job(self, which: int) -> str:
        return self.ids[-1 - which % len(self.ids)]

    def new_jobs(self, specs: Sequence[JobSpec]) -> list[NewJob]:
        """Make jobs from specs.

        They wait for jobs that exist or come before them, and now and then for one that is gone.
        """
        jobs: list[NewJob] = []
        for spec in specs:
            new = self.new_job(spec.options, self._blockers(spec.after, jobs))
            if spec.start is not None:
                flow, reads, begins_with = spec.start
                new = replace(new, step=RunStep(run_id=new.id, flow=flow, reads=reads, writes=begins_with))
                self.run_ids.append(new.id)
            self.made[new.id] = new
            jobs.append(new)
        return jobs

    def _blockers(self, after: Sequence[int], coming: Sequence[NewJob]) -> tuple[str, ...]:
        there = [job.id for job in self.model.jobs] + [new.id for new in coming]
        return tuple(self.job(which) if which == GONE else there[-1 - which % len(there)] for which in after if there)

    def new_job(self, options: Sequence[dict[str, Any]], after: tuple[str, ...]) -> NewJob:
        # Ids are not in alphabetical order, because nothing may be ordered by them.
        number = len(self.ids)
        fields: dict[str, Any] = {"id": f"{number * 7 % 10}-{number}", "task": "t", "queue": "a", "after": after}
        for option in options:
            fields |= option
        new = NewJob(**fields)
        self.ids.append(new.id)
        return new

    def run_of(self, run_id: str | None) -> tuple[str, str] | None:
        begins = None if run_id is None else self.made[run_id].step
        return None if begins is None else (begins.run_id, begins.flow)

    def with_jobs(
        self,
        transition: Transition,
        run: tuple[str, str] | None,
        children: Sequence[NewJob],
        then: StepSpec | None,
        written: Writes | None,
    ) -> Transition:
        """The transition with its children and, if a step of a run succeeds by it, with writes and a successor."""
        if isinstance(transition, Park) and run is None:
            return replace(transition, on_timeout=None)  # only a step has another step to go to
        if not isinstance(transition, Finish):
            return transition
        transition = replace(transition, children=tuple(children))
        if run is None or transition.state is not State.SUCCEEDED:
            return transition
        if then is None:
            return replace(transition, writes=written)
        run_id, flow = run
        successor = replace(
            self.new_job(then.options, self._blockers(then.after, children)),
            step=RunStep(run_id=run_id, flow=flow, reads=then.reads, needs=then.needs),
        )
        return replace(transition, writes=written, successor=successor)

    # Schedules.

    def put_of(self, spec: PutSpec) -> SchedulePut:
        return SchedulePut(
            name=spec.name,
            if_version=max(self.model.version(spec.name) + spec.ahead, 0),
            settings=spec.settings,
            next=self._due(spec.due_in),
            active=spec.active,
            seen=spec.seen,
        )

    def firing_of(self, spec: FiringSpec) -> Firing:
        missed = [TickRecord(self._tick(), TickEnd.MISSED, until=self._tick()) for _ in range(spec.missed)]
        # What a schedule fires has no blockers and does not raise.
        known = [job for job in self.made.values() if not job.after and not job.unique_raises]
        jobs = self.new_jobs(spec.jobs)
        if spec.again is not None and known and (spec.overlap is Overlap.ALLOW or not jobs):
            jobs.append(known[-1 - spec.again % len(known)])
        return Firing(
            name=spec.name,
            version=max(self.model.version(spec.name) + spec.ahead, 0),
            jobs=tuple((self._tick(), job) for job in jobs),
            overlap=spec.overlap,
            end=spec.end,
            entries=tuple(missed),
            tick=self._tick(),
            next=self._due(spec.due_in),
        )

    def _tick(self) -> float:
        self.ticks += 1
        return self.ticks / 2

    def _due(self, due_in: float | None) -> float | None:
        return None if due_in is None else self.clock.wall() + due_in
