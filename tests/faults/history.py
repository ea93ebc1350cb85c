"""What several processes asked of a store and what came back.

Each process appends lines to a file of its own: one when it asks, one when it has its answer, one when a function starts. All
of them read the same monotonic clock, so what ended before something else began is known to have happened before it; nothing
else is. `checker.check` finds fault only with what no order of the uncertain parts could explain.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tenure.core.job import JobRecord

__all__ = [
    "Act",
    "Answer",
    "Ask",
    "Call",
    "Ended",
    "Enqueue",
    "History",
    "Item",
    "Lease",
    "Line",
    "Settle",
    "Start",
    "Story",
    "Violation",
    "read",
]


class Item(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One job as a call names it, or as its answer does. What a field means depends on the operation."""

    id: str
    queue: str = ""
    priority: int = 0
    fence: int = 0
    nonce: int = 0
    ttl: float | None = None
    """lease, renew: seconds that the job is held from then on; None leaves the expiry as it is."""

    attempt: int = 0
    step: str = ""
    """settle: the final state, or `release`, `retry` (to the back at once), `later` (to the back when due), `park`."""

    counts: bool = True
    """settle: whether the attempt stays counted."""

    in_line: bool = True
    """enqueue: whether the job is to stand in line at once."""

    suspect: bool = False
    """reap: whether the job may from now on be handed out only alone. lease: whether it was."""

    failed: bool = False
    """reap: whether the job has failed as lost."""

    duplicate: bool = False
    """enqueue: whether the job was not stored, because another holds its key."""

    after: tuple[str, ...] = ()
    """enqueue: what the job waits for."""

    unique: str = ""
    """enqueue: the key that the job holds until it has ended."""

    successor: str = ""
    """settle, complete: the step of its run that the job hands over to."""

    verdict: str = "ok"
    """settle, renew, operators: `ok`, or what stood in the way."""


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    process: str
    number: int
    operation: str
    at: float
    items: list[Item] = []


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """The outcome is `ok`, `fail` (surely not done) or `unknown`; so is an ask without an answer."""

    process: str
    number: int
    outcome: str
    at: float
    items: list[Item] = []


class Start(msgspec.Struct, frozen=True, tag="start"):
    """A function began to run a job."""

    process: str
    at: float
    id: str
    fence: int
    nonce: int


Line = Ask | Answer | Start


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """An ask with its answer."""

    operation: str
    asked: float
    answered: float = math.inf
    outcome: str = "unknown"
    process: str = ""
    items: tuple[Item, ...] = ()
    """What was asked for."""

    answers: tuple[Item, ...] = ()
    """What came back; for operations that answer one by one, in the order of `items`."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the store shows it in the end."""

    id: str
    state: str
    attempt: int
    losses: int
    fence: int
    max_losses: int = 3
    run_id: str | None = None
    successor: str | None = None

    @classmethod
    def of(cls, job: JobRecord) -> Ended:
        return cls(
            id=job.id,
            state=job.state,
            attempt=job.attempt,
            losses=job.losses,
            fence=job.fence,
            max_losses=job.max_losses,
            run_id=job.run_id,
            successor=job.successor,
        )


class History(msgspec.Struct, frozen=True):
    """All calls, all starts, and what the store holds after everything has healed and drained."""

    calls: Sequence[Call]
    starts: Sequence[Start]
    ended: Sequence[Ended]
    locking: bool = False
    """Whether a step keeps the jobs that it looks at locked until its end, and a lease passes over those of others."""


class Violation(msgspec.Struct, frozen=True):
    """Something that must not happen, and did."""

    invariant: str
    job: str
    why: str


def read(files: Iterable[Path]) -> tuple[list[Call], list[Start]]:
    """Join the lines of all processes; the last line of a process that was killed may be cut short."""
    decode = msgspec.json.Decoder(Line).decode
    asks: dict[tuple[str, int], Ask] = {}
    answers: dict[tuple[str, int], Answer] = {}
    starts: list[Start] = []
    for file in files:
        for text in file.read_bytes().split(b"\n")[:-1]:
            match decode(text):
                case Ask() as ask:
                    asks[ask.process, ask.number] = ask
                case Answer() as answer:
                    answers[answer.process, answer.number] = answer
                case Start() as start:
                    starts.append(start)
    return [_call(ask, answers.get(key)) for key, ask in asks.items()], starts


def _call(ask: Ask, answer: Answer | None) -> Call:
    if answer is None:
        return Call(operation=ask.operation, asked=ask.at, process=ask.process, items=tuple(ask.items))
    return Call(
        operation=ask.operation,
        asked=ask.at,
        answered=answer.at,
        outcome=answer.outcome,
        process=ask.process,
        items=tuple(ask.items),
        answers=tuple(answer.items),
    )


class Lease(msgspec.Struct, frozen=True):
    """One lease of a job: the call that got it, and what became of it."""

    item: Item
    call: Call
    index: int
    """Its place in the answer."""


class Settle(msgspec.Struct, frozen=True):
    item: Item
    verdict: str
    """`unknown` if the answer never came."""

    call: Call


class Act(msgspec.Struct, frozen=True):
    """Something that was done to a job by somebody who did not hold it."""

    operation: str
    call: Call
    item: Item
    certain: bool


class Enqueue(msgspec.Struct, frozen=True):
    item: Item
    call: Call
    index: int


class Story:
    """The history, by job."""

    def __init__(self, history: History) -> None:
        self.locking = history.locking
        self.calls = history.calls
        self.starts = history.starts
        self.ended = {job.id: job for job in history.ended}
        self.listed = Counter(job.id for job in history.ended)
        self.enqueues: dict[str, list[Enqueue]] = defaultdict(list)
        self.leases: dict[str, list[Lease]] = defaultdict(list)
        self.settles: dict[str, list[Settle]] = defaultdict(list)
        self.renewals: dict[str, list[Settle]] = defaultdict(list)
        self.acts: dict[str, list[Act]] = defaultdict(list)
        self.refused: dict[str, list[Call]] = defaultdict(list)
        """What was asked of a job in vain."""

        self.unknown: Counter[str] = Counter()
        """Calls that may have done something to some job or other, by operation."""

        self.perhaps_retired = [
            call.asked for call in history.calls if call.operation == "retire" and call.outcome == "unknown"
        ]
        """When a worker's jobs may have been taken from it, whatever they were."""

        for call in history.calls:
            self._sort(call)
        for leases in self.leases.values():
            leases.sort(key=lambda lease: (lease.item.fence, lease.call.asked))

    def _sort(self, call: Call) -> None:
        if call.outcome == "fail":
            for item in call.items:
                self.refused[item.id].append(call)
            return
        match call.operation:
            case "enqueue":
                duplicates = {n for n, answer in enumerate(call.answers) if answer.duplicate}
                for index, item in enumerate(call.items):
                    if index not in duplicates:
                        self.enqueues[item.id].append(Enqueue(item, call, index))
            case "lease":
                for index, item in enumerate(call.answers):
                    self.leases[item.id].append(Lease(item, call, index))
            case "settle" | "renew":
                told = self.settles if call.operation == "settle" else self.renewals
                for index, item in enumerate(call.items):
                    verdict = call.answers[index].verdict if call.answers else "unknown"
                    told[item.id].append(Settle(item, verdict, call))
            case "reap" | "retire":
                for item in call.answers:
                    self.acts[item.id].append(Act(call.operation, call, item, certain=True))
            case operation:
                for index, item in enumerate(call.items):
                    if not call.answers or call.answers[index].verdict == "ok":
                        certain = call.outcome == "ok"
                        self.acts[item.id].append(Act(operation, call, item, certain))
                    else:
                        self.refused[item.id].append(call)
        if call.outcome == "unknown":
            self.unknown[call.operation] += 1

    def of(self, job: str, *operations: str) -> list[Act]:
        """What was done to a job in one of these ways."""
        return [act for act in self.acts[job] if act.operation in operations]
