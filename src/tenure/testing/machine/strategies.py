"""Hypothesis strategies: specs of jobs, steps and schedules, transitions, and arguments of requests."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from tenure.core.job import BlockerPolicy, ErrorInfo, State, Writes
from tenure.core.lifecycle import Finish, Park, Requeue
from tenure.core.schedule import Overlap, TickEnd

__all__ = [
    "BOOM",
    "ENTRY_FIELDS",
    "ENTRY_OPTIONS",
    "FLOWS",
    "GONE",
    "KEYS",
    "LOOKUP",
    "QUEUES",
    "SCHEDULES",
    "TASKS",
    "TEXT",
    "VALUES",
    "WORKERS",
    "FiringSpec",
    "JobSpec",
    "PutSpec",
    "StepSpec",
    "alone",
    "endings",
    "fired_specs",
    "firing_specs",
    "job_specs",
    "overlaps",
    "pick",
    "put_specs",
    "queues",
    "start_specs",
    "step_specs",
    "writes",
]

QUEUES = ("a", "b")
WORKERS = ("w1", "w2")
TASKS = ("t", "u")
KEYS = ("k", "l")
FLOWS = ("f", "g")
SCHEDULES = ("x", "y")
LOOKUP = "n"
VALUES = ("1", '"two"')
BOOM = ErrorInfo("ValueError", "boom", "Traceback …")
TEXT = '"ä"'
"""A text in the payload of some jobs."""

GONE = 15
pick = st.integers(0, GONE)
"""Which job or lease, counted from the newest, 0; `GONE` picks among all ids, also of jobs that are gone."""

queues = st.permutations(QUEUES).flatmap(lambda order: st.sampled_from([tuple(order), (order[0],)]))

alone = st.sampled_from([
    {}, {"solo": True}, {"isolated": ("u",)}, {"solo": True}, {}, {"isolated": TASKS},
    {"skip_tasks": ("u",)}, {"solo": True, "skip_tasks": ("u",)}, {"isolated": TASKS, "skip_tasks": ("t",), "at_most": 9.0},
])  # fmt: skip
"""Options of a request: which suspects it may have, and which tasks it skips."""

finals = st.builds(
    Finish,
    st.sampled_from([State.SUCCEEDED, State.SUCCEEDED, State.FAILED, State.BROKEN]),
    result=st.sampled_from([None, "1", '"two"']),
    error=st.sampled_from([None, BOOM]),
    output=st.sampled_from([None, None, "it wrote\n"]),
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
endings = st.one_of(finals, requeues, st.sampled_from([Park(), Park(20.0), Park(20.0, "three")]))
"""Transitions, without children and successors."""

WRITES = [
    None,
    Writes({"x": "1"}),
    Writes({"x": '"ä"', "y": "null"}, {LOOKUP: VALUES}),
    Writes({}, {LOOKUP: VALUES[:1]}),
    Writes({"y": "[2]"}, {LOOKUP: (VALUES[1], VALUES[1])}),
    Writes({}, {LOOKUP: ()}),
]
writes = st.sampled_from(WRITES)

OPTIONS: list[dict[str, Any]] = [
    {"queue": "b"},
    {"task": "u"},
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
    {"headers": {"tenant": "t1"}},
    {"headers": {"b": "", "a-1": "“ä”"}, "payload": f'{{"args":[{TEXT}]}}'.encode()},
    {"if_blocker_fails": BlockerPolicy.PROCEED},
    {"if_blocker_fails": BlockerPolicy.WAIT},
]
FIRED_OPTIONS = [option for option in OPTIONS if "unique_raises" not in option]
STEP_OPTIONS = [option for option in OPTIONS if "unique" not in option]

ENTRY_FIELDS = ("priority", "delay", "expires", "unique", "window", "keep", "headers")
ENTRY_OPTIONS = [option for option in OPTIONS if option.keys() <= {"queue", *ENTRY_FIELDS}]

no_blockers: list[int] = []
after = st.one_of(st.just(no_blockers), st.just(no_blockers), st.lists(pick, min_size=1, max_size=3))
"""Which jobs a new one waits for, counted from the newest."""


class Start(NamedTuple):
    """What makes a job the first step of a run."""

    flow: str
    reads: tuple[str, ...]
    writes: Writes | None


class JobSpec(NamedTuple):
    """A job to enqueue: its options, what it waits for, and the run that it begins, if any."""

    options: list[dict[str, Any]]
    after: list[int]
    start: Start | None = None


class StepSpec(NamedTuple):
    """A successor to hand over to."""

    options: list[dict[str, Any]]
    after: list[int]
    reads: tuple[str, ...]
    needs: tuple[str, ...]


reads = st.sampled_from([(), ("x",), ("y", "x")])
starts = st.builds(Start, flow=st.sampled_from(FLOWS), reads=reads, writes=writes)
options = st.lists(st.sampled_from(OPTIONS), max_size=3)
job_specs = st.builds(JobSpec, options=options, after=after, start=st.one_of(st.none(), st.none(), starts))
start_specs = st.builds(JobSpec, options=options, after=after, start=starts)
step_specs = st.builds(
    StepSpec,
    options=st.lists(st.sampled_from(STEP_OPTIONS), max_size=2),
    after=after,
    reads=reads,
    needs=st.sampled_from([(), (), (), ("x",), ("x", "y")]),
)

# Schedules.


class PutSpec(NamedTuple):
    """A put of a schedule."""

    name: str
    ahead: int
    """How far its version is ahead of the current one: 0 if it is to be written."""

    settings: str | None
    """None deletes the schedule."""

    due_in: float | None
    active: bool
    seen: bool


class FiringSpec(NamedTuple):
    """A firing of a schedule."""

    name: str
    ahead: int
    """How far its version is ahead of the current one: 0 if it is to be carried out."""

    jobs: list[JobSpec]
    again: int | None
    """Which job that was made before is fired too; None: none."""

    missed: int
    """How many ticks it misses."""

    overlap: Overlap
    end: TickEnd
    due_in: float | None


names = st.sampled_from(SCHEDULES)
aheads = st.sampled_from([0, 0, 0, 0, 1, -1])
due_ins = st.sampled_from([5.0, 30.0, 0.0, -5.0, None])
put_specs = st.builds(
    PutSpec,
    name=names,
    ahead=aheads,
    settings=st.sampled_from(["{}", '{"ä":[1]}', "", None]),
    due_in=due_ins,
    active=st.sampled_from([True, True, False]),
    seen=st.booleans(),
)

fired_options = st.lists(st.sampled_from(FIRED_OPTIONS), max_size=3)
fired_specs = st.builds(
    JobSpec, options=fired_options, after=st.just(no_blockers), start=st.one_of(st.none(), st.none(), starts)
)
"""Jobs that a schedule may fire."""

overlaps = st.sampled_from(Overlap)
firing_specs = overlaps.flatmap(
    lambda overlap: st.builds(
        FiringSpec,
        name=names,
        ahead=aheads,
        jobs=st.lists(fired_specs, max_size=3 if overlap is Overlap.ALLOW else 1),
        again=st.one_of(st.none(), st.none(), pick),
        missed=st.sampled_from([0, 0, 1, 9]),
        overlap=st.just(overlap),
        end=st.sampled_from([TickEnd.ENQUEUED, TickEnd.ENQUEUED, TickEnd.TRIGGERED, TickEnd.BACKFILLED]),
        due_in=due_ins,
    )
)
