"""`StoreMachine`: calls of producers, workers and operators, and the passing of time, in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from msgspec import json
from msgspec.structs import replace

from tenure.core.job import NewJob, Progress, State, Writes
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish, Transition
from tenure.core.options import Retention
from tenure.core.schedule import Overlap
from tenure.stores.base import QUIET
from tenure.stores.values import Leased, LeaseRequest, Order, Pulse, Renewal, Settlement, Verdict, WorkerInfo
from tenure.testing.machine.measure_rules import MeasureRules
from tenure.testing.machine.operator_rules import OperatorRules
from tenure.testing.machine.schedule_rules import ScheduleRules
from tenure.testing.machine.strategies import (
    ENTRY_FIELDS,
    ENTRY_OPTIONS,
    QUEUES,
    WORKERS,
    JobSpec,
    StepSpec,
    alone,
    endings,
    fired_specs,
    job_specs,
    overlaps,
    pick,
    queues,
    start_specs,
    step_specs,
    writes,
)
from tenure.testing.model import Refusal

__all__ = ["StoreMachine"]

T = TypeVar("T")

SUCCESS = Finish(State.SUCCEEDED, "1")
OUTSIDE = Finish(State.SUCCEEDED, '"outside"')


class StoreMachine(ScheduleRules, MeasureRules, OperatorRules):
    """Subclass it and return from `open` the stores to compare. All of them use `self.clock`."""

    def __init__(self) -> None:
        super().__init__()
        self.leases: list[dict[str, Lease]] = []
        """Every lease ever handed out, as each store gave it, by store name."""

        self.settled: list[tuple[int, Transition]] = []
        self.calls = 0

    def lease_of(self, which: int) -> int:
        return len(self.leases) - 1 - which % len(self.leases)

    # Producers.

    @initialize(specs=st.lists(job_specs, min_size=2, max_size=6))
    def begin(self, specs: list[JobSpec]) -> None:
        self.enqueue(specs)

    @rule(specs=st.lists(job_specs, min_size=1, max_size=5))
    def enqueue(self, specs: list[JobSpec]) -> None:
        self._enqueue(self.new_jobs(specs))

    @precondition(lambda self: self.made)
    @rule(which=st.lists(pick, min_size=1, max_size=2))
    def enqueue_again(self, which: list[int]) -> None:
        made = list(self.made)
        ids = sorted((made[-1 - each % len(made)] for each in which), key=made.index)
        self._enqueue([self.made[job_id] for job_id in ids])

    def _enqueue(self, jobs: list[NewJob]) -> None:
        expected = _refusable(lambda: self.model.enqueue(jobs))
        answer = self.ask(
            lambda store: store.enqueue(jobs), lambda found: [(each.id, each.state, each.duplicate) for each in found]
        )
        assert answer == expected

    # A store need not list a queue that has only an inbox, so both queues must exist.
    @precondition(lambda self: self.model.totals.keys() >= set(QUEUES))
    @rule(options=st.lists(st.sampled_from(ENTRY_OPTIONS), max_size=2), again=st.booleans(), which=pick)
    def put_in(self, options: list[dict[str, Any]], again: bool, which: int) -> None:
        """Another program puts an entry in an inbox; its id may be that of a job that exists or existed."""
        new = self.new_job(options, ())
        self.made[new.id] = new
        if again:
            new = replace(new, id=list(self.made)[-1 - which % len(self.made)])
        self.model.put_in(new)
        fields = {name: getattr(new, name) for name in ("id", "task", *ENTRY_FIELDS)}
        entry = json.encode({name: value for name, value in fields.items() if value is not None})
        for party in self.parties.values():
            party.put_in(new.queue, entry)

    @rule(names=queues, limit=st.sampled_from([1000, 1000, 2, 1]))
    def take_in(self, names: tuple[str, ...], limit: int) -> None:
        expected = self.model.take_in(names, limit)
        assert self.ask(lambda store: store.take_in(names, limit)) == expected

    # Workers.

    @rule(names=queues, limit=st.sampled_from([1, 1, 2, 3, 0]), worker=st.sampled_from(WORKERS), alone=alone)
    def lease(self, names: tuple[str, ...], limit: int, worker: str, alone: dict[str, Any]) -> None:
        request = self._request(names, limit, worker, alone)
        expected = self.model.lease(request)
        self._leased(self.ask_each(lambda _, store: store.lease(request)), expected)

    @rule(
        specs=st.lists(job_specs, max_size=3),
        limit=st.integers(1, 4),
        alone=alone,
        outcomes=st.lists(endings, max_size=3),
        then=st.one_of(st.none(), step_specs),
        written=writes,
    )
    def work(
        self,
        specs: list[JobSpec],
        limit: int,
        alone: dict[str, Any],
        outcomes: list[Transition],
        then: StepSpec | None,
        written: Writes | None,
    ) -> None:
        """The usual: some jobs are enqueued, some leased, and some of these settled."""
        self.enqueue(specs)
        self.lease(QUEUES, limit, WORKERS[0], alone)
        newest_first = range(len(self.leases))[::-1]
        self.settled = [
            (number, self.with_jobs(transition, self._run_of_lease(number), [], then, written))
            for number, transition in zip(newest_first, outcomes, strict=False)
        ]
        self._settle()

    @rule(
        specs=st.lists(start_specs, max_size=2),
        children=st.lists(job_specs, max_size=2),
        then=st.lists(st.one_of(step_specs, step_specs, endings), min_size=1, max_size=3),
        written=writes,
    )
    def runs_go_on(
        self, specs: list[JobSpec], children: list[JobSpec], then: list[StepSpec | Transition], written: Writes | None
    ) -> None:
        """The same with flows: some runs start, and most of the held steps hand over."""
        self._enqueue(self.new_jobs(specs))
        self.lease(QUEUES, 3, WORKERS[0], {})
        steps = [number for number in range(len(self.leases))[::-1] if self._holds_a_step(number)]
        coming = self.new_jobs(children) if steps else []
        self.settled = [
            (number, self.with_jobs(SUCCESS, self._run_of_lease(number), coming, after, written))
            if isinstance(after, StepSpec)
            else (number, self.with_jobs(after, self._run_of_lease(number), coming, None, written))
            for number, after in zip(steps, then, strict=False)
        ]
        self._settle()

    @rule(
        spec=fired_specs,
        outcome=st.one_of(st.none(), endings, step_specs),
        overlap=overlaps,
        coming=fired_specs,
    )
    def schedules_go_on(
        self, spec: JobSpec, outcome: Transition | StepSpec | None, overlap: Overlap, coming: JobSpec
    ) -> None:
        """The same with a schedule: a tick fires, its job is leased and perhaps settled, and the next tick fires."""
        job = self.fire_one(spec, Overlap.ALLOW)
        before = len(self.leases)
        self.lease((job.queue,), 1, WORKERS[0], {})
        if outcome is not None and len(self.leases) > before:
            transition, then = (SUCCESS, outcome) if isinstance(outcome, StepSpec) else (outcome, None)
            self.settled = [(before, self.with_jobs(transition, self._run_of_lease(before), [], then, None))]
            self._settle()
        self.fire_one(coming, overlap)

    def _holds_a_step(self, number: int) -> bool:
        lease = self._any_lease(number)
        job = self.model.find(lease.job.id)
        return (
            lease.job.run_id is not None
            and job is not None
            and job.lease_until is not None
            and job.token == lease.token
        )

    def _request(self, names: tuple[str, ...], limit: int, worker: str, alone: dict[str, Any]) -> LeaseRequest:
        self.calls += 1
        return LeaseRequest(queues=names, limit=limit, worker=worker, ttl=30.0, nonce=self.calls, **alone)

    def _leased(self, answers: Mapping[str, Leased], expected: tuple[Any, ...]) -> None:
        for name, answer in answers.items():
            leases = [(each.job.id, each.token, each.ttl, each.solo, each.job.attributes) for each in answer.leases]
            shown = (leases, answer.suspect_waiting, answer.due_in, answer.inbox, answer.passed_over)
            assert shown == expected, f"{name}: {shown}, not {expected}"
            for each in answer.leases:
                [job] = self.run(self.stores[name].get([each.job.id]))
                assert job is not None
                assert replace(each.job, attributes=None) == replace(job, attempts=()), name
        for position in range(len(expected[0])):
            self.leases.append({name: answer.leases[position] for name, answer in answers.items()})

    @precondition(lambda self: self.leases)
    @rule(
        which=st.lists(pick, max_size=3),
        transition=endings,
        children=st.lists(job_specs, max_size=2),
        then=st.one_of(st.none(), step_specs, step_specs),
        written=writes,
    )
    def settle(
        self,
        which: list[int],
        transition: Transition,
        children: list[JobSpec],
        then: StepSpec | None,
        written: Writes | None,
    ) -> None:
        if which:  # else the last settle is repeated
            coming = self.new_jobs(children) if isinstance(transition, Finish) else []
            numbers = [self.lease_of(each) for each in which]
            self.settled = [
                (number, self.with_jobs(transition, self._run_of_lease(number), coming, then, written))
                for number in numbers
            ]
        self._settle()

    def _run_of_lease(self, number: int) -> tuple[str, str] | None:
        """Id and flow of the run that a leased job is a step of; None if it is no step."""
        return self.run_of(self._any_lease(number).job.run_id)

    def _settle(self) -> None:
        expected = [self.model.settle(self._any_lease(number), transition) for number, transition in self.settled]
        answers = self.ask_each(lambda name, store: store.settle(self._settlements(name)))
        for name, verdicts in answers.items():
            assert _kinds(verdicts) == expected, f"{name}: {_kinds(verdicts)}, not {expected}"

    @precondition(lambda self: self.leases)
    @rule(
        which=pick,
        transition=endings,
        then=st.one_of(st.none(), step_specs),
        names=queues,
        limit=st.integers(0, 2),
        worker=st.sampled_from(WORKERS),
        alone=alone,
    )
    def settle_and_lease(
        self,
        which: int,
        transition: Transition,
        then: StepSpec | None,
        names: tuple[str, ...],
        limit: int,
        worker: str,
        alone: dict[str, Any],
    ) -> None:
        number = self.lease_of(which)
        self.settled = [(number, self.with_jobs(transition, self._run_of_lease(number), [], then, None))]
        request = self._request(names, limit, worker, alone)
        verdict = self.model.settle(self._any_lease(number), self.settled[0][1])
        expected = self.model.lease(request)
        answers = self.ask_each(lambda name, store: store.settle_and_lease(self._settlements(name), request))
        for name, (verdicts, _) in answers.items():
            assert _kinds(verdicts) == [verdict], name
        self._leased({name: leased for name, (_, leased) in answers.items()}, expected)

    def _settlements(self, name: str) -> list[Settlement]:
        return [(self.leases[number][name], transition) for number, transition in self.settled]

    def _any_lease(self, number: int) -> Lease:
        """The lease for the model, which needs only job and token: these are the same in every store."""
        return next(iter(self.leases[number].values()))

    @precondition(lambda self: self.leases)
    @rule(which=pick)
    def held(self, which: int) -> None:
        nonce = self._any_lease(self.lease_of(which)).token.nonce
        request = LeaseRequest(queues=QUEUES, limit=0, worker=WORKERS[0], ttl=30.0, nonce=nonce)
        running = self.model.where(lambda job: job.state is State.RUNNING)
        expected = {(job.new.id, job.token) for job in running if job.token and job.token.nonce == nonce}
        for name, leases in self.ask_each(lambda _, store: store.leases_of(request)).items():
            assert {(lease.job.id, lease.token) for lease in leases} == expected, name

    @precondition(lambda self: self.leases)
    @rule(
        which=st.lists(pick, max_size=3),
        ttl=st.sampled_from([None, 30.0, 5.0]),
        progress=st.sampled_from([None, Progress(1), Progress(2, 3, "x")]),
    )
    def renew(self, which: list[int], ttl: float | None, progress: Progress | None) -> None:
        numbers = [self.lease_of(each) for each in dict.fromkeys(which)]
        expected = [self.model.renew(self._any_lease(number), ttl, progress) for number in numbers]
        answers = self.ask_each(
            lambda name, store: store.renew([Renewal(self.leases[number][name], ttl, progress) for number in numbers])
        )
        for name, reasons in answers.items():
            assert reasons == expected, name

    @rule(silence=st.sampled_from([0.0, 5.0, 30.0, 30.0]), names=queues, limit=st.sampled_from([1000, 1000, 2, 1]))
    def crash(self, silence: float, names: tuple[str, ...], limit: int) -> None:
        """Time passes without renewals, so that leases expire, and then a caller reaps."""
        self.clock.advance(silence)
        expected = self.model.reap(names, limit)
        assert self.ask(lambda store: store.reap(names, limit), _reaped) == expected

    # The registry.

    @rule(
        act=st.sampled_from(["register", "register", "beat", "order", "order", "leave", "retire"]),
        worker=st.sampled_from(WORKERS),
        order=st.sampled_from(Order),
    )
    def registry(self, act: str, worker: str, order: Order) -> None:
        match act:
            case "register":
                self.model.register(worker)
                info = WorkerInfo(id=worker, host="h", pid=1, queues=("*",), tasks=("t",), concurrency=1)
                self.ask(lambda store: store.register(info))
            case "beat":
                self._beat(worker)
            case "order":
                known = self.model.order(worker, order)
                assert self.ask(lambda store: store.order(worker, order)) is known
                self._beat(worker)
            case "leave":
                self.model.workers.pop(worker, None)
                self.ask(lambda store: store.leave(worker))
            case "retire":
                reason = "killed by SIGKILL" if worker == WORKERS[0] else None
                taken = sorted(self.model.retire(worker, reason))
                answer = self.ask(
                    lambda store: store.retire(worker, reason=reason), lambda found: sorted(_reaped(found))
                )
                assert answer == taken

    def _beat(self, worker: str) -> None:
        order = self.model.beat(worker, 3)
        assert self.ask(lambda store: store.beat(worker, Pulse(held=3))) is order

    # Operators.

    @precondition(lambda self: self.ids)
    @rule(
        act=st.sampled_from(["cancel", "retry", "retry", "trigger", "release", "delete", "wait", "wait"]),
        which=st.lists(pick, min_size=1, max_size=3),
        runs=st.booleans(),
        cascade=st.booleans(),
    )
    def operate_on_jobs(self, act: str, which: list[int], runs: bool, cascade: bool) -> None:
        there = self.run_ids if runs and self.run_ids else self.ids
        ids = [there[-1 - each % len(there)] for each in which]
        match act:
            case "delete":
                gone = _refusable(lambda: self.model.delete(ids, cascade=cascade))
                assert self.ask(lambda store: store.delete(ids, cascade=cascade), set) == gone
            case "wait":
                ended = self.model.wait(ids)
                assert self.ask(lambda store: store.wait(ids), _ids) == ended
            case _:
                verdicts = [getattr(self.model, act)(job_id) for job_id in ids]
                assert self.ask(lambda store: getattr(store, act)(ids), _kinds) == verdicts

    @precondition(lambda self: self.ids)
    @rule(
        which=pick,
        current=st.booleans(),
        children=st.lists(job_specs, max_size=1),
        then=st.one_of(st.none(), step_specs),
        written=writes,
    )
    def complete(
        self, which: int, current: bool, children: list[JobSpec], then: StepSpec | None, written: Writes | None
    ) -> None:
        job_id = self.job(which)
        if current and self.run_ids and (last := self.model.resolve(self.run_ids[-1 - which % len(self.run_ids)])):
            job_id = last.id
        job = self.model.find(job_id)
        run = None if job is None else self.run_of(job.new.run_id)
        transition = self.with_jobs(OUTSIDE, run, self.new_jobs(children), then, written)
        assert isinstance(transition, Finish)
        verdict = self.model.complete(job_id, transition)
        answer = self.ask(lambda store: store.complete(job_id, transition), lambda found: found.kind)
        assert answer == verdict, f"{answer}, not {verdict}"

    @rule(act=st.sampled_from(["resume", "resume", "pause", "purge"]), name=st.sampled_from(QUEUES))
    def operate_on_a_queue(self, act: str, name: str) -> None:
        expected = getattr(self.model, act)(name)
        assert self.ask(lambda store: getattr(store, act)(name)) == expected

    # Time.

    @rule(seconds=st.sampled_from([1.0, 5.0, 5.0, 10.0, 30.0, 61.0, 600.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(age=st.sampled_from([0.0, 20.0, 1e6]), later=st.sampled_from([0.0, 0.0, QUIET]))
    def things_are_tidied_up(self, age: float, later: float) -> None:
        """Reopens the store objects, prunes old jobs, and forgets queues and workers that have been quiet for long."""
        self.clock.advance(later)
        for name, party in self.parties.items():
            self.run(self.stores[name].close())
            self.stores[name] = self.opened(name, party)
        expected = self.model.prune(age)
        assert self.ask(lambda store: store.prune(Retention(succeeded=age, failed=age), {})) == expected
        silences = dict.fromkeys(WORKERS, 600.0)
        gone = [worker for worker, silence in silences.items() if self.model.forget(worker, silence)]
        assert self.ask(lambda store: store.forget(silences)) == gone


def _refusable(question: Callable[[], T]) -> T | str:
    try:
        return question()
    except Refusal:
        return "refused"


def _kinds(verdicts: Sequence[Verdict]) -> list[str]:
    return [verdict.kind.value for verdict in verdicts]


def _ids(found: Mapping[str, Any]) -> dict[str, str | None]:
    return {job_id: None if job is None else job.id for job_id, job in found.items()}


def _reaped(found: Sequence[Any]) -> list[tuple[str, int, bool]]:
    return [(each.id, each.losses, each.failed) for each in found]
