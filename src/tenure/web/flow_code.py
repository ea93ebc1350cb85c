"""`FlowCode`: the steps and routes of a flow, as its code declares them, or as runs have shown them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from tenure.core.job import JobRecord
from tenure.jobs.run import step_name

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["FlowCode", "code_of", "seen_in"]


class FlowCode(msgspec.Struct, frozen=True):
    """The steps of a flow and the ways between them."""

    name: str
    steps: tuple[str, ...]
    routes: tuple[tuple[str, str], ...]
    lookup: tuple[str, ...] = ()
    """Attributes that its runs can be found by; empty if the code is not here."""

    tasks: dict[str, str] = {}
    """Name of the task of each step."""

    queues: dict[str, str] = {}
    """Queue of each step."""

    former: dict[str, str] = {}
    """The name of a step today, by its former names."""

    declared: bool = True
    """Whether the code is here."""

    def step_of(self, job: JobRecord) -> str:
        """The name of the step that a job is of, as it is called today."""
        name = step_name(job.task, self.name)
        return self.former.get(name, name)


def code_of(app: App, name: str) -> FlowCode | None:
    """What the code of a flow declares; None if the code is not here."""
    flow = app.internals.flows.get(name)
    if flow is None or not flow.steps:
        return None
    routes = []
    for step in flow.steps.values():
        following = (*((step._then,) if step._then else ()), *(step._allowed_next or ()))
        routes += [(step.step_name, flow._current_names.get(each, each)) for each in following]
    return FlowCode(
        name,
        tuple(flow.steps),
        tuple(dict.fromkeys(routes)),
        lookup=flow.lookup,
        tasks={each.step_name: each.name for each in flow.steps.values()},
        queues={each.step_name: each.queue for each in flow.steps.values()},
        former=dict(flow._current_names),
    )


def seen_in(name: str, runs: Iterable[Sequence[JobRecord]]) -> FlowCode:
    """What the steps of some runs show of a flow whose code is not here."""
    steps: dict[str, JobRecord] = {}
    routes: dict[tuple[str, str], None] = {}
    for run in runs:
        names = [step_name(each.task, name) for each in run]
        steps |= dict(zip(names, run, strict=True))
        routes |= dict.fromkeys(each for each in itertools.pairwise(names))
    return FlowCode(
        name,
        tuple(steps),
        tuple(routes),
        tasks={each: job.task for each, job in steps.items()},
        queues={each: job.queue for each, job in steps.items()},
        declared=False,
    )
