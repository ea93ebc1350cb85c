"""A Hypothesis state machine that compares stores with the model, step by step, and with each other.

    class MyMachine(StoreMachine):
        def open(self) -> Mapping[str, Party]: ...

    TestMyStore = MyMachine.TestCase

Every call goes to each store under test; all must give the answer that the model gives, and after each step everything that
can be seen of them from outside must be what the model shows. Leases are kept after they are settled or lost, and used again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import json
from msgspec.structs import replace

from tenure.errors import BlockerNotFound, HasDependents, UniqueConflict
from tenure.job import BlockerPolicy, ErrorInfo, NewJob, Progress, State
from tenure.lease import Lease
from tenure.lifecycle import Finish, Park, Requeue, Transition
from tenure.options import Retention
from tenure.stores.base import Leased, LeaseRequest, Pulse, Renewal, Search, Settlement, Store, Verdict, WorkerInfo
from tenure.testing.clock import ManualClock
from tenure.testing.model import Model, Refusal

__all__ = ["Party", "StoreMachine"]

T = TypeVar("T")

QUEUES = ("a", "b")
WORKERS = ("w1", "w2")
KEYS = ("k", "l")
BOOM = ErrorInfo("ValueError", "boom")

SHOWN = ("state", "attempt", "losses", "fence", "misses", "run_at", "expires_at", "worker", "started_at", "ended_at",
         "lease_left", "result", "error", "progress", "blocked_by", "results")  # fmt: skip
"""What is compared of each job."""

GONE = 15
pick = st.integers(0, GONE)
"""Which of the jobs or leases there are: 0 is the newest."""

queues = st.permutations(QUEUES).flatmap(lambda order: st.sampled_from([tuple(order), (order[0],)]))
finals = st.builds(
    Finish,
    st.sampled_from([State.SUCCEEDED, State.SUCCEEDED, State.FAILED, State.BROKEN]),
    result=st.sampled_from([None, "1", '"two"']),
    error=st.sampled_from([None, BOOM]),
)
requeues = st.sampled_from(
    [
        Requeue(error=BOOM),
        Requeue(10.0, error=BOOM),
        Requeue(5.0, counts=False),
        Requeue(counts=False),
        Requeue(run_at=0.0, counts=False),
        Requeue(7.0, counts=False, missed=True, error=BOOM),
        Requeue(counts=False, front=True),
        Requeue(counts=False, front=True),
    ]
)
steps = st.one_of(finals, requeues, st.sampled_from([Park(), Park(20.0)]))


OPTIONS: list[dict[str, Any]] = [
    {"queue": "b"},
    {"priority": 1},
    {"priority": -1},
    {"delay": 5.0},
    {"delay": 10.0},
    {"expires": 10.0},
    {"unique": "k"},
    {"unique": "l"},
    {"unique": "k", "window": 15.0},
    {"unique": "k", "unique_raises": True},
    {"keep": 0.0},
    {"keep": 30.0},
    {"lease": 5.0},
    {"max_losses": 1},
    {"max_losses": 0},
    {"if_blocker_fails": BlockerPolicy.PROCEED},
    {"if_blocker_fails": BlockerPolicy.WAIT},
]


ENTRY_FIELDS = ("priority", "delay", "expires", "unique", "window", "keep")
ENTRY_OPTIONS = [option for option in OPTIONS if option.keys() <= {"queue", *ENTRY_FIELDS}]


class Wish(NamedTuple):
    """A job to enqueue: what is special about it, and which of the jobs there will be then it waits for."""

    options: list[dict[str, Any]]
    after: list[int]


wishes = st.builds(
    Wish,
    options=st.lists(st.sampled_from(OPTIONS), max_size=3),
    after=st.one_of(st.just([]), st.just([]), st.lists(pick, min_size=1, max_size=3)),
)


@dataclass
class Party:
    """A store under test."""

    make: Callable[[], Store]
    """Gives one more store object on the same data."""

    put_in: Callable[[str, bytes], None]
    """Puts an entry in the inbox of a queue, as another program would. The queue exists."""

    close: Callable[[], None] = lambda: None
    """Removes what is left at the end."""


class StoreMachine(RuleBasedStateMachine):
    """Subclass it and say in `open` which stores to compare; all of them go by `self.clock`."""

    def open(self) -> Mapping[str, Party]:
        """Make the stores, empty."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(wall=1_000_000.0)
        self.model = Model(self.clock)
        self.parties = self.open()
        self.runner = asyncio.Runner()
        self.stores = {name: party.make() for name, party in self.parties.items()}
        self.ids: list[str] = []
        self.made: dict[str, NewJob] = {}
        self.leases: list[dict[str, Lease]] = []
        """Every lease there has been: what each store has handed out for it."""

        self.settled: list[tuple[int, Transition]] = []
        self.calls = 0

    def teardown(self) -> None:
        for store in self.stores.values():
            self.run(store.close())
        self.runner.close()
        for party in self.parties.values():
            party.close()

    def run(self, call: Awaitable[T]) -> T:
        return self.runner.get_loop().run_until_complete(call)

    # Putting one question to all.

    def ask(self, question: Callable[[Store], Awaitable[T]], shown: Callable[[T], Any] = lambda answer: answer) -> Any:
        """Ask every store; all must answer alike. The answer of the first, as it is `shown`, or the error that was raised."""
        answers = {}
        for name, store in self.stores.items():
            answers[name] = self.run(_answer(question(store), shown))
        first, *others = answers.items()
        for other in others:
            assert first[1] == other[1], f"{first[0]} answers {first[1]}, {other[0]} answers {other[1]}"
        return first[1]

    def ask_each(self, question: Callable[[str, Store], Awaitable[T]]) -> dict[str, T]:
        """Ask every store in its own words, for what carries a lease."""
        return {name: self.run(_plain(question(name, store))) for name, store in self.stores.items()}

    def job(self, which: int) -> str:
        return self.ids[-1 - which % len(self.ids)]

    def lease_of(self, which: int) -> int:
        return len(self.leases) - 1 - which % len(self.leases)

    # Producers.

    @initialize(wanted=st.lists(wishes, min_size=2, max_size=6))
    def begin(self, wanted: list[Wish]) -> None:
        self.enqueue(wanted)

    @rule(wanted=st.lists(wishes, min_size=1, max_size=5))
    def enqueue(self, wanted: list[Wish]) -> None:
        self._enqueue(self._new_jobs(wanted))

    @precondition(lambda self: self.ids)
    @rule(which=st.lists(pick, min_size=1, max_size=2))
    def enqueue_again(self, which: list[int]) -> None:
        ids = sorted((self.job(each) for each in which), key=self.ids.index)
        self._enqueue([self.made[job_id] for job_id in ids])

    def _enqueue(self, jobs: list[NewJob]) -> None:
        expected = _refusable(lambda: self.model.enqueue(jobs))
        answer = self.ask(
            lambda store: store.enqueue(jobs), lambda found: [(each.id, each.state, each.duplicate) for each in found]
        )
        assert answer == expected

    def _new_jobs(self, wanted: Sequence[Wish]) -> list[NewJob]:
        """Make jobs of wishes. They wait for jobs that exist or stand before them, and now and then for one that is gone."""
        there = [job.id for job in self.model.jobs]
        jobs = []
        for wish in wanted:
            after = [
                self.job(which) if which == GONE else there[-1 - which % len(there)] for which in wish.after if there
            ]
            jobs.append(self._new_job(wish, tuple(after)))
            there.append(jobs[-1].id)
        return jobs

    def _new_job(self, wish: Wish, after: tuple[str, ...]) -> NewJob:
        # Ids are not in the order of the alphabet: nothing may be ordered by them.
        number = len(self.ids)
        wanted: dict[str, Any] = {"id": f"{number * 7 % 10}-{number}", "task": "t", "queue": "a", "after": after}
        for option in wish.options:
            wanted |= option
        new = NewJob(**wanted)
        self.ids.append(new.id)
        self.made[new.id] = new
        return new

    # A queue that nobody has used yet need not be known by its inbox alone.
    @precondition(lambda self: self.model.known.keys() >= set(QUEUES))
    @rule(options=st.lists(st.sampled_from(ENTRY_OPTIONS), max_size=2), again=st.booleans(), which=pick)
    def put_in(self, options: list[dict[str, Any]], again: bool, which: int) -> None:
        """Another program leaves an entry, which may have the id that a job has or has had."""
        new = self._new_job(Wish(options, []), ())
        if again:
            new = replace(new, id=self.job(which))
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

    @rule(names=queues, limit=st.sampled_from([1, 1, 2, 3, 0]), worker=st.sampled_from(WORKERS), solo=st.booleans())
    def lease(self, names: tuple[str, ...], limit: int, worker: str, solo: bool) -> None:
        request = self._request(names, limit, worker, solo)
        expected = self.model.lease(request)
        self._leased(self.ask_each(lambda _, store: store.lease(request)), expected)

    @rule(
        wanted=st.lists(wishes, max_size=3),
        limit=st.integers(1, 4),
        solo=st.booleans(),
        outcomes=st.lists(steps, max_size=3),
    )
    def work(self, wanted: list[Wish], limit: int, solo: bool, outcomes: list[Transition]) -> None:
        """What goes on all day: some jobs come, some are leased, and of these some are settled."""
        self.enqueue(wanted)
        self.lease(QUEUES, limit, WORKERS[0], solo)
        self.settled = list(zip(range(len(self.leases))[::-1], outcomes, strict=False))
        self._settle()

    def _request(self, names: tuple[str, ...], limit: int, worker: str, solo: bool) -> LeaseRequest:
        self.calls += 1
        return LeaseRequest(queues=names, limit=limit, worker=worker, ttl=30.0, nonce=self.calls, solo=solo)

    def _leased(self, answers: Mapping[str, Leased], expected: tuple[Any, ...]) -> None:
        for name, answer in answers.items():
            leases = [(each.job.id, each.token, each.ttl, each.solo) for each in answer.leases]
            shown = (leases, answer.suspect_waiting, answer.due_in, answer.inbox)
            assert shown == expected, f"{name}: {shown}, not {expected}"
            for each in answer.leases:
                assert each.job == self.run(_plain(self.stores[name].get([each.job.id])))[0], name
        for position in range(len(expected[0])):
            self.leases.append({name: answer.leases[position] for name, answer in answers.items()})

    @precondition(lambda self: self.leases)
    @rule(which=st.lists(pick, max_size=3), step=steps, children=st.lists(wishes, max_size=2))
    def settle(self, which: list[int], step: Transition, children: list[Wish]) -> None:
        if isinstance(step, Finish) and children:
            step = Finish(step.state, step.result, step.error, tuple(self._new_jobs(children)))
        self.settled = [(self.lease_of(each), step) for each in which] or self.settled  # or the same again
        self._settle()

    def _settle(self) -> None:
        expected = [self.model.settle(self._any_lease(number), step) for number, step in self.settled]
        answers = self.ask_each(lambda name, store: store.settle(self._settlements(name)))
        for name, verdicts in answers.items():
            assert _kinds(verdicts) == expected, name

    @precondition(lambda self: self.leases)
    @rule(
        which=pick,
        step=steps,
        names=queues,
        limit=st.integers(0, 2),
        worker=st.sampled_from(WORKERS),
        solo=st.booleans(),
    )
    def settle_and_lease(
        self, which: int, step: Transition, names: tuple[str, ...], limit: int, worker: str, solo: bool
    ) -> None:
        self.settled = [(self.lease_of(which), step)]
        request = self._request(names, limit, worker, solo)
        verdict = self.model.settle(self._any_lease(self.settled[0][0]), step)
        expected = self.model.lease(request)
        answers = self.ask_each(lambda name, store: store.settle_and_lease(self._settlements(name), request))
        for name, (verdicts, _) in answers.items():
            assert _kinds(verdicts) == [verdict], name
        self._leased({name: leased for name, (_, leased) in answers.items()}, expected)

    def _settlements(self, name: str) -> list[Settlement]:
        return [(self.leases[number][name], step) for number, step in self.settled]

    def _any_lease(self, number: int) -> Lease:
        """The lease for the model, to which only job and token matter: these are the same in every store."""
        return next(iter(self.leases[number].values()))

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
        """Nobody says anything for a while, so that leases lapse, and then somebody reaps."""
        self.clock.advance(silence)
        expected = self.model.reap(names, limit)
        assert self.ask(lambda store: store.reap(names, limit), _reaped) == expected

    # The registry.

    @rule(act=st.sampled_from(["register", "register", "beat", "leave", "retire"]), worker=st.sampled_from(WORKERS))
    def registry(self, act: str, worker: str) -> None:
        match act:
            case "register":
                self.model.register(worker)
                info = WorkerInfo(id=worker, host="h", pid=1, queues=("*",), tasks=("t",), concurrency=1)
                self.ask(lambda store: store.register(info))
            case "beat":
                known = self.model.beat(worker, 3)
                assert self.ask(lambda store: store.beat(worker, Pulse(held=3))) == known
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

    # Operators.

    @precondition(lambda self: self.ids)
    @rule(
        act=st.sampled_from(["cancel", "retry", "retry", "trigger", "complete", "delete", "wait", "wait"]),
        which=st.lists(pick, min_size=1, max_size=3),
        cascade=st.booleans(),
    )
    def operate_on_jobs(self, act: str, which: list[int], cascade: bool) -> None:
        ids = [self.job(each) for each in which]
        match act:
            case "complete":
                verdict = self.model.complete(ids[0], '"outside"')
                assert self.ask(lambda store: store.complete(ids[0], '"outside"'), lambda found: found.kind) == verdict
            case "delete":
                gone = _refusable(lambda: self.model.delete(ids, cascade=cascade))
                assert self.ask(lambda store: store.delete(ids, cascade=cascade), set) == gone
            case "wait":
                ended = self.model.wait(ids)
                assert self.ask(lambda store: store.wait(ids), set) == ended
            case _:
                verdicts = [getattr(self.model, act)(job_id) for job_id in ids]
                assert self.ask(lambda store: getattr(store, act)(ids), _kinds) == verdicts

    @rule(act=st.sampled_from(["resume", "resume", "pause", "purge"]), name=st.sampled_from(QUEUES))
    def operate_on_a_queue(self, act: str, name: str) -> None:
        expected = getattr(self.model, act)(name)
        assert self.ask(lambda store: getattr(store, act)(name)) == expected

    # The world.

    @rule(seconds=st.sampled_from([1.0, 5.0, 5.0, 10.0, 30.0, 61.0, 600.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(age=st.sampled_from([0.0, 20.0, 1e6]))
    def things_are_tidied_up(self, age: float) -> None:
        """Store objects are closed and opened again, what is old is pruned, and who has long been silent is forgotten."""
        for name, party in self.parties.items():
            self.run(self.stores[name].close())
            self.stores[name] = party.make()
        expected = self.model.prune(age)
        assert self.ask(lambda store: store.prune(Retention(succeeded=age, failed=age), {})) == expected
        silences = dict.fromkeys(WORKERS, 600.0)
        gone = [worker for worker, silence in silences.items() if self.model.forget(worker, silence)]
        assert self.ask(lambda store: store.forget(silences)) == gone

    # What must hold after each step.

    @invariant()
    def every_store_shows_what_the_model_shows(self) -> None:
        expected = self.model.snapshot()
        for name, store in self.stores.items():
            shown = self.run(_snapshot(store, self.ids))
            for part, value in expected.items():
                assert shown[part] == value, f"{part} of {name}: {_difference(shown[part], value)}"


async def _plain(question: Awaitable[T]) -> T:
    return await question


async def _answer(question: Awaitable[T], shown: Callable[[T], Any]) -> Any:
    try:
        return shown(await question)
    except (UniqueConflict, BlockerNotFound, HasDependents):
        # Which of several reasons is named is the store's choice.
        return "refused"


def _refusable(question: Callable[[], T]) -> T | str:
    try:
        return question()
    except Refusal:
        return "refused"


def _kinds(verdicts: Sequence[Verdict]) -> list[str]:
    return [verdict.kind.value for verdict in verdicts]


def _reaped(found: Sequence[Any]) -> list[tuple[str, int, bool]]:
    return [(each.id, each.losses, each.failed) for each in found]


async def _snapshot(store: Store, ids: Sequence[str]) -> dict[str, Any]:
    """All that can be seen of a store, in the shape of the model's."""
    records = {job.id: job for job in await store.get(ids) if job is not None}
    known = await store.queues()
    listed = await store.search(Search(limit=1000))
    lines = {}
    for queue in known:
        page = await store.search(Search(state=State.WAITING, queue=queue.name, limit=1000))
        lines[queue.name] = [job.id for job in page.jobs]
    workers = await store.workers()
    return {
        "jobs": {job_id: {name: getattr(job, name) for name in SHOWN} for job_id, job in records.items()},
        "newest first": [job.id for job in listed.jobs],
        "lines": lines,
        "counts": {queue.name: {place: getattr(queue, place) for place in ("scheduled", *State)} for queue in known},
        "totals": {queue.name: _nonzero(queue.totals) for queue in known},
        "paused": {queue.name for queue in known if queue.paused},
        "workers": {worker.id: (worker.held, worker.silent_for, _nonzero(worker.totals)) for worker in workers},
        "keys": {("t", key): holder for key in KEYS if (holder := await _holder(store, key))},
    }


def _nonzero(totals: Any) -> dict[str, int]:
    return {name: getattr(totals, name) for name in totals.__struct_fields__ if getattr(totals, name)}


async def _holder(store: Store, key: str) -> str | None:
    """Who holds a unique key, found out by a call that is refused whatever the answer, so that it changes nothing."""
    probe = NewJob(id="probe", task="t", queue="probe", unique=key, unique_raises=True)
    impossible = NewJob(id="impossible", task="t", queue="probe", after=("nobody",))
    try:
        await store.enqueue([probe, impossible])
    except UniqueConflict as conflict:
        return conflict.holder
    except BlockerNotFound:
        return None
    raise AssertionError("a call that had to be refused was not")


def _difference(shown: Any, value: Any) -> str:
    """What a store shows where the model shows something else."""
    if isinstance(shown, dict) and isinstance(value, dict):
        keys = [key for key in shown.keys() | value.keys() if shown.get(key) != value.get(key)]
        return "; ".join(f"{key}: {_difference(shown.get(key), value.get(key))}" for key in keys)
    return f"{shown!r}, not {value!r}"
