"""`Lifecycle`: how jobs of the model are enqueued, end and are removed, with all effects on others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tenure.core.clock import Clock
from tenure.core.job import AttemptEnd, BlockerPolicy, ErrorInfo, NewJob, State
from tenure.core.lifecycle import Finish, blocker_failed, failure_value
from tenure.stores.values import Change
from tenure.testing.model.data import Job, ModelData, Refusal, Run

__all__ = ["Lifecycle"]


class Lifecycle(ModelData):
    """Data whose jobs can be enqueued and ended."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.ended_now: list[Job] = []
        """Jobs that became final in the current operation."""

    # Enqueueing.

    def add(self, jobs: Iterable[NewJob]) -> list[tuple[str, State, bool]]:
        """Enqueue jobs. Raises `Refusal` halfway if one is refused; the caller then restores the data."""
        owners: dict[str, str] = {}
        leads_to: list[tuple[str, bool]] = []
        fresh: list[Job] = []
        for new in jobs:
            if self.find(new.id):
                leads_to.append((new.id, False))
                continue
            owner = self.owner_of(new)
            if owner and new.unique_raises:
                raise Refusal(f"{owner.id} owns the key")
            if owner:
                owners[new.id] = owner.id
                leads_to.append((owner.id, True))
                continue
            after = tuple(owners.get(blocker, blocker) for blocker in new.after)
            for blocker in after:
                if not self.find(blocker):
                    raise Refusal(f"there is no {blocker}")
            fresh.append(self._insert(new, after))
            leads_to.append((new.id, False))
        # Edges come last: until all jobs are stored, one that is bound to fail still owns its key.
        for job in fresh:
            self._meet_blockers(job)
        answers = []
        for job_id, duplicate in leads_to:
            led_to = self.resolve(job_id)
            assert led_to
            answers.append((job_id, led_to.state, duplicate))
        self.remove_unkept()
        return answers

    def owner_of(self, new: NewJob) -> Job | None:
        if new.unique is None:
            return None
        return next(
            (
                job
                for job in self.jobs
                if job.new.task == new.task and job.new.unique == new.unique and self.owns_key_now(job)
            ),
            None,
        )

    def _insert(self, new: NewJob, after: tuple[str, ...]) -> Job:
        due = self.now + new.delay if new.run_at is None else new.run_at
        self.made += 1
        job = Job(
            new=replace(new, after=after),
            number=self.made,
            seq=self.draw(),
            created_at=self.now,
            run_at=due if due > self.now else None,
            expires_at=None if new.expires is None else self.now + new.expires,
            ready_at=self.now,
            open=[True] * len(after),
            results=[None] * len(after),
            owns_key=new.unique is not None,
        )
        self.jobs.append(job)
        self.totals.setdefault(new.queue, Counter())
        if new.step is not None:
            run = self.runs.setdefault(new.step.run_id, Run(new.step.flow))
            run.write(new.step.writes)
            if not run.attributes.keys() >= set(new.step.needs):
                raise Refusal(f"{new.id} needs more attributes than {set(run.attributes)}")
        return job

    def _meet_blockers(self, job: Job) -> None:
        for blocker_id in dict.fromkeys(job.new.after):
            blocker = self.resolve(blocker_id)
            assert blocker
            if blocker.state.final and self._act_on(job, blocker, blocker.state.value):
                self.propagate(job, "failed")
        if job.state is State.BLOCKED and not any(job.open):
            self.to_the_back(job, job.run_at)
        job.fresh = False

    def to_the_back(self, job: Job, run_at: float | None = None) -> None:
        job.state = State.WAITING
        job.run_at = run_at if run_at is not None and run_at > self.now else None
        if job.run_at is None:
            job.ready_at = self.now
        if job.run_at is None and not job.fresh:
            job.seq = self.draw()

    # Ending.

    def carry_out(self, job: Job, transition: Finish, worker: str | None, *, settled: bool) -> None:
        """End a job, then add its children and its successor.

        Raises `Refusal` halfway; the caller then restores the data.
        """
        if job.new.run_id is not None:
            self.runs[job.new.run_id].write(transition.writes)
            job.successor = None if transition.successor is None else transition.successor.id
        self.finish(job, transition.state, transition.result, transition.error, worker, settled=settled)
        self.propagate(job, transition.state.value)
        self.add([*transition.children, *([] if transition.successor is None else [transition.successor])])

    def end(self, job: Job, state: State, error: ErrorInfo | None = None, worker: str | None = None) -> None:
        """End a job without children or successor."""
        self.finish(job, state, None, error, worker)
        self.propagate(job, state.value)
        self.remove_unkept()

    def cancel(self, job_id: str) -> str:
        return self.end_from_outside(self.resolve(job_id), Finish(State.CANCELLED), AttemptEnd.CANCELLED)

    def end_from_outside(self, job: Job | None, transition: Finish, of_attempt: AttemptEnd) -> str:
        if job is None:
            return "not_found"
        if job.state.final:
            return "refused"
        before = self.save()
        if job.state is State.RUNNING:
            self.enter_attempt(job, of_attempt)
        try:
            self.carry_out(job, transition, None, settled=False)
        except Refusal:
            self.roll_back(before)
            return "refused"
        return "ok"

    def roll_back(self, before: tuple[object, ...]) -> None:
        self.restore(before)
        self.ended_now = []

    def finish(
        self,
        job: Job,
        state: State,
        result: str | None = None,
        error: ErrorInfo | None = None,
        worker: str | None = None,
        *,
        settled: bool = False,
    ) -> None:
        self.clear_lease(job)
        job.state = state
        job.ended_at = self.now
        job.run_at = job.parked_until = job.on_timeout = None
        job.result = result
        job.error = None if state is State.SUCCEEDED else error or job.error
        if not settled:
            job.token = None
        for each in self.represents(job):
            if each.new.window is None or state is State.CANCELLED:
                each.owns_key = False
        self.count(state.value, job.new.queue, worker)
        self.ended_now.append(job)

    def clear_lease(self, job: Job) -> None:
        job.lease_until = job.progress = None

    def propagate(self, job: Job, how: str) -> None:
        """Propagate the end of a job to its dependents, level by level."""
        ended = [(job, how)]
        while ended:
            blocker, how = ended.pop(0)
            # A job that is being enqueued meets its blockers later, in the order of `after`.
            dependents = [job for job in self.jobs if not job.fresh and self._open_edges_to(job, blocker, how)]
            in_order = sorted(dependents, key=lambda job: job.seq)
            ended += [(dependent, "failed") for dependent in in_order if self._act_on(dependent, blocker, how)]

    def _open_edges_to(self, job: Job, blocker: Job, how: str) -> list[int]:
        """The open edges of a job that the end of `blocker` acts on: those to that step and those to its run, in order."""
        ends = [blocker] if how == "deleted" else self.represents(blocker)
        return sorted(at for end in ends for at, waits in enumerate(self.waits_on(job, end.id)) if waits)

    def _act_on(self, job: Job, blocker: Job, how: str) -> bool:
        """Act on a dependent by how its blocker has ended. Returns whether the dependent failed because of it."""
        policy = job.new.if_blocker_fails
        for at in self._open_edges_to(job, blocker, how):
            waited_for = job.new.after[at]
            if how == "succeeded" or policy is BlockerPolicy.PROCEED:
                job.open[at] = False
                job.results[at] = (
                    blocker.result if how == "succeeded" else failure_value(waited_for, how, blocker.error)
                )
            elif job.state is State.BLOCKED and (policy is BlockerPolicy.FAIL or how == "deleted"):
                self.finish(job, State.FAILED, error=blocker_failed(waited_for, how))
                self.report(Change.FAILED, job)
                return True
        if job.state is State.BLOCKED and not any(job.open) and job.parked_until is None:
            self.to_the_back(job, job.run_at)
            if not job.fresh:
                self.report(Change.UNBLOCKED, job)
        return False

    # Removing.

    def remove_unkept(self) -> None:
        """Remove jobs with `keep=0` that became final in this operation."""
        for job in self.ended_now:
            if job.new.keep == 0 and job in self.jobs and self.removable(job):
                self.drop(self.with_run(job))
        self.ended_now = []

    def removable(self, last: Job) -> bool:
        """Whether a final job may be removed, with the steps before it if it is the last of a run."""
        assert last.ended_at is not None
        recent = last.ended_at + 60 > self.now
        return last.successor is None and not any(
            (step.awaited and recent) or self.owns_key_now(step) or self._wanted(step) for step in self.with_run(last)
        )

    def _wanted(self, job: Job) -> bool:
        return any(other.state is State.BLOCKED and any(self.waits_on(other, job.id)) for other in self.jobs)

    def drop(self, going: Sequence[Job]) -> None:
        self.jobs = [job for job in self.jobs if job not in going]
        self.runs = {run_id: run for run_id, run in self.runs.items() if self.find(run_id)}

    def remove(self, jobs: Sequence[Job]) -> None:
        """Remove jobs, each with its run, then act on their dependents."""
        going = [job for job in self.jobs if any(job in self.with_run(each) for each in jobs)]
        self.drop(going)
        for job in going:
            self.propagate(job, "deleted")
        self.remove_unkept()
