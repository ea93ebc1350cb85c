"""Custody: what `judge` says of every entry that can be left behind, and that following it loses and doubles nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tenure.bridges.custody import Custody, Judgement, judge
from tenure.bridges.names import queue_name, queue_pattern
from tenure.core.checks import name as checked_name
from tenure.core.job import State
from tenure.core.patterns import serves
from tests.faults.scale import lengths

WAIT, ENQUEUE, END, GIVE_BACK, LET_GO = (
    Judgement.WAIT,
    Judgement.ENQUEUE,
    Judgement.END,
    Judgement.GIVE_BACK,
    Judgement.LET_GO,
)


@pytest.mark.parametrize(
    ("state", "ours", "taken_back", "returning"),
    [
        (None, ENQUEUE, LET_GO, GIVE_BACK),
        (State.WAITING, WAIT, LET_GO, GIVE_BACK),
        (State.RUNNING, WAIT, LET_GO, WAIT),
        (State.BLOCKED, WAIT, LET_GO, WAIT),
        (State.SUCCEEDED, END, END, END),
        (State.FAILED, END, END, END),
        (State.BROKEN, END, END, END),
        (State.CANCELLED, END, END, GIVE_BACK),
    ],
)
def test_every_state_of_a_job_has_one_judgement(
    state: State | None, ours: Judgement, taken_back: Judgement, returning: Judgement
) -> None:
    assert judge(state, held_there=True, returning=False) is ours
    assert judge(state, held_there=False, returning=False) is taken_back
    assert judge(state, held_there=True, returning=True) is returning


def test_a_job_that_was_stored_and_is_missing_was_deleted_and_does_not_come_back() -> None:
    assert judge(None, held_there=True, returning=False, stored=True) is END
    assert judge(State.WAITING, held_there=True, returning=False, stored=True) is WAIT


@pytest.mark.parametrize("entry", [b'{"class":"A","args":[1]}', b"", b"\n\n", b"\xff\x00", "ü\n".encode()])
def test_the_bytes_of_an_entry_come_out_of_custody_as_they_went_in(entry: bytes) -> None:
    stored = b'["host:1","ma\\/th",1790000000,false]\n' + entry

    assert Custody.decoded(b"id", stored) == Custody("id", "host:1", "ma/th", entry, 1790000000.0, returning=False)


def test_a_queue_in_custody_may_have_any_bytes_in_its_name() -> None:
    assert Custody.decoded(b"id", b'["o","\xff",1,true]\nx').queue == "\udcff"


@pytest.mark.parametrize("stored", [b"", b"nonsense", b"[1]\nx", b"{}\nx", b'["o","q","when",true]\nx'])
def test_what_is_no_entry_is_refused(stored: bytes) -> None:
    with pytest.raises(ValueError):
        Custody.decoded(b"id", stored)


@pytest.mark.parametrize("queue", ["math", "a:b.c_d-e", "x" * 120])
def test_a_queue_keeps_its_name_if_names_may_be_so(queue: str) -> None:
    assert queue_name("resque", queue) == f"resque:{queue}"


@pytest.mark.parametrize("queue", ["my queue", "x" * 200, "\udcff", "é"])
def test_other_names_are_changed_into_one_that_a_worker_of_the_bridge_serves(queue: str) -> None:
    assert checked_name("queue", queue_name("resque", queue))
    assert serves((queue_pattern("resque"),), queue_name("resque", queue))


def test_different_queues_have_different_names() -> None:
    queues = ["my queue", "my-queue", "my+queue", "x" * 200, "x" * 201, "\udcff", "\udcfe", "é", "è"]
    names = [queue_name("resque", queue) for queue in queues]

    assert len({*names}) == len(queues)
    assert max(map(len, names)) <= 127


# The model: every step of the hand-over is one transition, and a worker may die or freeze between any two of them.


@dataclass
class Job:
    entry: int
    state: State = State.WAITING
    holder: int | None = None
    by_hand: bool = False


@dataclass
class Held:
    owner: int
    entry: int
    returning: bool = False
    taken_back: bool = False


@dataclass
class Worker:
    """What a worker has in its memory, which its death takes away."""

    silent: bool = False
    unstored: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    """Jobs that it has settled, and whose ends it has not written."""

    returning: dict[str, int] = field(default_factory=dict)
    """How far it is with giving back each entry: leased by hand, marked, cancelled."""


workers = st.integers(0, 2)
choices = st.integers(0, 7)


class HandOver(RuleBasedStateMachine):
    """An other system, a store, and workers between them."""

    def __init__(self) -> None:
        super().__init__()
        self.ids, self.people, self.pushed = count(), count(), 0
        self.queue: list[int] = []
        self.custody: dict[str, Held] = {}
        self.jobs: dict[str, Job] = {}
        self.alive: dict[int, Worker] = {}
        self.ended: Counter[int] = Counter()
        self.cancelled: set[str] = set()
        self.runs: Counter[int] = Counter()
        self.excused: Counter[int] = Counter()
        """How often each entry may run again: it ran when its worker died, or the other system took it back."""

    @initialize()
    def begin(self) -> None:
        for _ in range(3):
            self.alive[next(self.people)] = Worker()
        self.push(4)

    def worker(self, n: int) -> tuple[int, Worker] | None:
        awake = [(name, worker) for name, worker in self.alive.items() if not worker.silent]
        return awake[n % len(awake)] if awake else None

    # The other system.

    @rule(n=st.integers(1, 3))
    def push(self, n: int) -> None:
        self.queue += range(self.pushed, self.pushed + n)
        self.pushed += n

    @rule(n=choices)
    def take_back_there(self, n: int) -> None:
        held = [(job_id, each) for job_id, each in self.custody.items() if not each.taken_back]
        if held:
            job_id, chosen = held[n % len(held)]
            chosen.taken_back = True
            # If its worker died before it stored the job, none may be stored any more.
            self.excused[chosen.entry] += job_id in self.jobs or chosen.owner in self.alive
            self.queue.append(chosen.entry)

    # A worker, step by step.

    @rule(n=workers)
    def take(self, n: int) -> None:
        if (found := self.worker(n)) and self.queue:
            job_id = f"{next(self.ids):06}"
            self.custody[job_id] = Held(found[0], self.queue.pop(0))
            found[1].unstored.append(job_id)

    def enqueue(self, job_id: str, entry: int) -> None:
        self.jobs.setdefault(job_id, Job(entry))  # idempotent by id

    @rule(n=workers)
    def store(self, n: int) -> None:
        if (found := self.worker(n)) and found[1].unstored:
            job_id = found[1].unstored.pop(0)
            entry = self.custody[job_id].entry if job_id in self.custody else self.jobs[job_id].entry
            self.enqueue(job_id, entry)

    @rule(n=workers, m=choices)
    def lease(self, n: int, m: int) -> None:
        waiting = [job for job in self.jobs.values() if job.state is State.WAITING]
        if (found := self.worker(n)) and waiting:
            job = waiting[m % len(waiting)]
            job.state, job.holder, job.by_hand = State.RUNNING, found[0], False
            self.runs[job.entry] += 1

    @rule(n=workers, m=choices, state=st.sampled_from([State.SUCCEEDED, State.FAILED, State.WAITING]))
    def settle(self, n: int, m: int, state: State) -> None:
        """The job ends, or waits for a retry. The store settles it only for the worker that holds it."""
        found = self.worker(n)
        mine = [i for i, job in self.jobs.items() if found and job.holder == found[0] and not job.by_hand]
        if found and mine:
            job_id = mine[m % len(mine)]
            job = self.jobs[job_id]
            job.state, job.holder = state, None
            if state.final:
                found[1].ends.append(job_id)
            else:
                self.excused[job.entry] += 1

    def write_end(self, job_id: str) -> None:
        if (held := self.custody.pop(job_id, None)) is not None and not held.taken_back:
            assert self.runs[held.entry] or job_id in self.cancelled, "it ends without having run"
            self.ended[held.entry] += 1

    @rule(n=workers)
    def end(self, n: int) -> None:
        if (found := self.worker(n)) and found[1].ends:
            self.write_end(found[1].ends.pop(0))

    # Giving back, which may stop after each step.

    @rule(n=workers)
    def begin_to_give_back(self, n: int) -> None:
        if found := self.worker(n):
            for job_id, held in self.custody.items():
                if held.owner == found[0] and job_id not in found[1].unstored:
                    self.lease_by_hand(*found, job_id)

    def lease_by_hand(self, name: int, worker: Worker, job_id: str) -> None:
        job = self.jobs.get(job_id)
        if job is None or job.state is State.CANCELLED:
            worker.returning[job_id] = 1 if self.custody[job_id].returning or job is None else 0
        elif job.state is State.WAITING:
            job.state, job.holder, job.by_hand = State.RUNNING, name, True
            worker.returning[job_id] = 1
        if worker.returning.get(job_id) == 0:
            del worker.returning[job_id]  # an operator has cancelled it: that is an end

    @rule(n=workers, m=choices)
    def go_on_giving_back(self, n: int, m: int) -> None:
        if (found := self.worker(n)) and found[1].returning:
            job_id = sorted(found[1].returning)[m % len(found[1].returning)]
            self.give_back_one_step(*found, job_id)

    def give_back_one_step(self, name: int, worker: Worker, job_id: str) -> None:
        job, held, step = self.jobs.get(job_id), self.custody.get(job_id), worker.returning[job_id]
        late = job is not None and job.state is State.RUNNING and job.holder != name
        if held is None or late or (job is not None and job.state is State.WAITING):
            del worker.returning[job_id]  # its lease by hand ran out
            return
        worker.returning[job_id] += 1
        if step == 1:
            held.returning = True
        elif step == 2 and job is not None and not job.state.final:
            job.state, job.holder = State.CANCELLED, None
        elif step == 3:
            del worker.returning[job_id]
            if job is None or job.state is State.CANCELLED:
                del self.custody[job_id]
                if not held.taken_back:
                    self.queue.insert(0, held.entry)

    # What goes wrong.

    @rule(n=workers, steps=st.integers(1, 5), taken_back=st.booleans())
    def work_and_die(self, n: int, steps: int, taken_back: bool) -> None:
        for _, step in zip(range(steps), (self.take, self.store, self.lease_any, self.succeed, self.end), strict=False):
            step(n)
        self.die(n)
        if taken_back:
            self.take_back_there(-1)

    def lease_any(self, n: int) -> None:
        self.lease(n, 0)

    def succeed(self, n: int) -> None:
        self.settle(n, 0, State.SUCCEEDED)

    @rule(n=workers, steps=st.integers(0, 3))
    def give_back_and_die(self, n: int, steps: int) -> None:
        self.take(n)
        self.store(n)
        self.begin_to_give_back(n)
        if found := self.worker(n):
            for job_id in list(found[1].returning):
                for _ in range(steps):
                    if job_id in found[1].returning:
                        self.give_back_one_step(*found, job_id)
            self.die(n)

    @rule(n=workers)
    def die(self, n: int) -> None:
        if found := self.worker(n):
            del self.alive[found[0]]
            self.alive[next(self.people)] = Worker()

    @rule(n=workers)
    def freeze(self, n: int) -> None:
        if found := self.worker(n):
            found[1].silent = True

    @rule()
    def thaw(self) -> None:
        for worker in self.alive.values():
            worker.silent = False

    @rule()
    def expire(self) -> None:
        """The leases of those that are gone, or silent, run out."""
        for job in self.jobs.values():
            if job.state is State.RUNNING and (job.holder not in self.alive or self.alive[job.holder].silent):
                self.excused[job.entry] += not job.by_hand
                job.state, job.holder = State.WAITING, None

    @rule(n=choices)
    def cancel(self, n: int) -> None:
        """An operator cancels a job."""
        unfinished = [job_id for job_id, job in self.jobs.items() if not job.state.final]
        if unfinished:
            job_id = unfinished[n % len(unfinished)]
            self.cancelled.add(job_id)
            self.jobs[job_id].state, self.jobs[job_id].holder = State.CANCELLED, None

    @rule(n=workers, only_adopt=st.booleans())
    def sweep(self, n: int, only_adopt: bool) -> None:
        if found := self.worker(n):
            name, worker = found
            for job_id, held in list(self.custody.items()):
                gone = held.owner not in self.alive or self.alive[held.owner].silent
                lost = held.owner == name and job_id not in worker.unstored and job_id not in worker.ends
                if gone:
                    held.owner = name
                if (gone or lost) and not only_adopt and job_id not in worker.returning:
                    self.act(name, worker, job_id)

    def act(self, name: int, worker: Worker, job_id: str) -> None:
        held, job = self.custody[job_id], self.jobs.get(job_id)
        match judge(None if job is None else job.state, held_there=not held.taken_back, returning=held.returning):
            case Judgement.ENQUEUE:
                self.enqueue(job_id, held.entry)
            case Judgement.END:
                worker.ends.append(job_id)
            case Judgement.LET_GO:
                if job is not None:
                    job.state, job.holder = State.CANCELLED, None
                del self.custody[job_id]
            case Judgement.GIVE_BACK:
                self.lease_by_hand(name, worker, job_id)

    # What must hold.

    @invariant()
    def every_entry_is_in_one_place(self) -> None:
        places = Counter(self.queue) + Counter(held.entry for held in self.custody.values() if not held.taken_back)
        for entry in range(self.pushed):
            assert places[entry] + self.ended[entry] == 1, f"entry {entry}: {places[entry]}, {self.ended[entry]}"

    @invariant()
    def an_entry_runs_again_only_with_an_excuse(self) -> None:
        for entry, runs in self.runs.items():
            assert runs <= 1 + self.excused[entry]

    def teardown(self) -> None:
        """Whatever has happened: one bridge that stays finishes everything."""
        self.alive.clear()
        last = next(self.people)
        self.alive[last] = me = Worker()
        for _ in range(200):
            if not (self.queue or self.custody):
                break
            self.expire()
            self.sweep(0, only_adopt=False)
            self.take(0)
            self.store(0)
            while me.returning:
                self.give_back_one_step(last, me, min(me.returning))
            self.lease(0, 0)
            self.settle(0, 0, State.SUCCEEDED)
            while me.ends:
                self.end(0)
        assert (self.queue, self.custody) == ([], {})
        self.every_entry_is_in_one_place()
        self.an_entry_runs_again_only_with_an_excuse()


@pytest.mark.parametrize("examples", lengths(150, 5000))
def test_whatever_dies_when_nothing_is_lost_and_every_end_is_counted_once(examples: int) -> None:
    run_state_machine_as_test(
        HandOver,
        settings=settings(
            max_examples=examples, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
