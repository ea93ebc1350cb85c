"""`run` shows one run of a flow: where it is, what it knows, and what holds it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from tenure.core.job import JobRecord, State
from tenure.core.origin import user_tags
from tenure.core.redaction import redacted
from tenure.core.units import duration
from tenure.explain import explain_by
from tenure.stores.values import EdgeInfo, RunRecord
from tenure.web.arguments import hidden, pretty
from tenure.web.flow_code import FlowCode, code_of, seen_in
from tenure.web.graph import graph_of
from tenure.web.page import Address, Page, Region
from tenure.web.pages.flows import SECONDARY, GraphView, MissingView, graph_view
from tenure.web.pages.job import Fact, WhyView
from tenure.web.waterfall import Waterfall, waterfall_of

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["run"]

STEPS = 200
"""Steps that a page shows, at most."""

EDGES = 100
"""Jobs that it waits for, of which the page shows the states."""

ALIKE = 5
"""As many jobs of one task as this are shown as one group."""

LONGEST = 20_000
"""Characters of the value of an attribute."""


class Blockers(msgspec.Struct, frozen=True):
    """Jobs that the current step waits for: one, or many of the same task."""

    task: str
    count: int
    id: str
    """Of one: its id."""

    states: tuple[tuple[str, int], ...]
    """How many are in each state."""

    over: int
    """How many are over."""


class RunHeadView(msgspec.Struct, frozen=True):
    id: str
    flow: str
    step: str
    label: str
    facts: tuple[Fact, ...]
    actions: tuple[str, ...]


class CompleteView(msgspec.Struct, frozen=True):
    id: str
    step: str
    steps: tuple[str, ...]
    """Steps that it may go on with."""

    declared: bool
    possible: bool
    """False: the run has ended, and the region is empty."""


class PathView(msgspec.Struct, frozen=True):
    graph: GraphView | None
    blockers: tuple[Blockers, ...]
    more: int
    """Jobs that it waits for beyond those that were read."""


class StepsView(msgspec.Struct, frozen=True):
    waterfall: Waterfall
    older: str | None
    first: str | None


class AttributesView(msgspec.Struct, frozen=True):
    shown: bool
    attributes: tuple[tuple[str, str], ...]
    lookups: tuple[tuple[str, str, str], ...]
    """Name, value, and the query that finds the runs with it."""

    flow: str
    result: str | None


class _Details(msgspec.Struct, frozen=True):
    """What is read beside the run itself."""

    steps: list[JobRecord]
    cursor: str | None
    attributes: dict[str, str]
    edges: list[EdgeInfo]
    blockers: list[JobRecord | None]
    why: WhyView


async def run(site: Site, at: Address) -> Page:
    """The run with this id, or with a step that has it."""
    found = await site.read(site.store.run(at.names["id"]))
    if found is None:
        sentence = "It never existed, was deleted, or was removed by retention."
        view = MissingView(f"There is no run {at.names['id'][:80]}", sentence)
        return Page(
            title="No such run", kind="flows", regions=(Region("missing", "flow/missing.html", view),), status=404
        )
    step = found.step
    # The key changes with the step, so that what has changed is read at once, and all else every 5 seconds.
    key = ("run", found.id, at.query.get("cursor"), step.id, step.label, step.fence, step.ended_at, step.blocked_by)
    details = await site.recent.get(key, SECONDARY, lambda: _read(site, found, at.query.get("cursor")))
    now = (await site.snapshot()).now
    code = code_of(site.app, found.flow) or seen_in(found.flow, [details.steps])
    regions = [
        Region("head", "run/head.html", _head(found, code, len(details.steps), details.cursor is not None)),
        Region("complete", "run/complete.html", _complete(found, code)),
        Region("why", "job/why.html", details.why),
        Region("path", "run/path.html", _path(found, code, details)),
        Region("waterfall", "run/steps.html", _steps(at, found, details, now)),
        Region("attributes", "run/attributes.html", _attributes(site, found, code, details)),
    ]
    return Page(title=f"{found.flow} {step.label}", kind="run", regions=tuple(regions))


async def _read(site: Site, found: RunRecord, cursor: str | None) -> _Details:
    store, step = site.store, found.step
    page = await site.read(store.steps(found.id, STEPS, cursor))
    attributes = await site.read(store.attributes(found.id)) if site.show != "hidden" else {}
    edges = await site.read(store.edges(step.id)) if step.results or step.state is State.BLOCKED else []
    ids = [edge.blocker for edge in edges if edge.blocker is not None][:EDGES]
    blockers = await site.read(store.get(ids)) if ids else []
    snapshot = await site.snapshot()
    why = await site.read(explain_by(site.app, store, step.id, snapshot.queues, snapshot.workers))
    reasons = tuple((reason.sentence, reason.advice) for reason in why.reasons)
    return _Details(page.jobs, page.cursor, attributes, edges, blockers, WhyView(why.summary, reasons, found=True))


# The head.


def _head(found: RunRecord, code: FlowCode, steps: int, more: bool) -> RunHeadView:
    step = found.step
    facts = [
        Fact("step", code.step_of(step), f"/jobs/{step.id}"),
        Fact(
            "steps", f"{'more than ' if more else ''}{steps:,}{f' of {len(code.steps)}' if _once(code, steps) else ''}"
        ),
        Fact("queue", step.queue, f"/queues/{step.queue}"),
        Fact("started", at=found.created_at),
    ]
    if step.state is State.RUNNING:
        facts.append(Fact("in this step since", at=step.started_at))
    if step.ended_at is not None:
        facts.append(Fact("ended", at=step.ended_at))
        facts.append(Fact("took", duration(max(step.ended_at - found.created_at, 0.0))))
    if step.run_at is not None:
        facts.append(Fact("due", at=step.run_at))
    if step.attempt > 1:
        facts.append(Fact("attempt", f"{step.attempt}{f' of {step.max_attempts}' if step.max_attempts else ''}"))
    if step.unique:
        facts.append(Fact("unique key", step.unique))
    if step.schedule:
        facts.append(Fact("schedule", step.schedule, f"/schedules/{step.schedule}"))
    facts += [Fact("tag", tag) for tag in user_tags(step.tags)]
    actions = ("retry", "delete") if step.state.final else ("cancel",)
    if step.state is State.WAITING and step.run_at is not None:
        actions = ("trigger", *actions)
    return RunHeadView(found.id, found.flow, code.step_of(step), step.label, tuple(facts), actions)


def _once(code: FlowCode, steps: int) -> bool:
    return code.declared and steps <= len(code.steps)


def _complete(found: RunRecord, code: FlowCode) -> CompleteView:
    return CompleteView(found.id, code.step_of(found.step), code.steps, code.declared, not found.step.state.final)


# The graph, and what it waits for.


def _path(found: RunRecord, code: FlowCode, details: _Details) -> PathView:
    jobs: dict[str, list[JobRecord]] = {}
    names = [code.step_of(job) for job in details.steps]
    for name, job in zip(names, details.steps, strict=True):
        jobs.setdefault(name, []).append(job)
    taken = list(itertools.pairwise(names))
    known = (*code.steps, *(name for name in jobs if name not in code.steps))
    nodes = {name: _node(jobs.get(name, [])) for name in known}
    drawn = graph_of(known, (*code.routes, *taken))
    blockers, more = _blockers(details) if found.step.state is State.BLOCKED else ((), 0)
    return PathView(graph_view(drawn, nodes, taken, declared=code.declared), blockers, more)


def _node(jobs: Sequence[JobRecord]) -> tuple[str, str, bool, str]:
    """State, note, whether it is faint, and link of a step with these jobs."""
    if not jobs:
        return "", "", True, ""
    last = jobs[-1]
    times = f"{len(jobs)} times, " if len(jobs) > 1 else ""
    ran = last.started_at is not None and last.ended_at is not None
    took = duration(max((last.ended_at or 0.0) - (last.started_at or 0.0), 0.0)) if ran else ""
    return last.label, f"{times}{took}".removesuffix(", "), False, f"/jobs/{last.id}"


def _blockers(details: _Details) -> tuple[tuple[Blockers, ...], int]:
    """What it waits for, by task: five or more of a task as a group, fewer one by one."""
    by_task: dict[str, list[tuple[str, str]]] = {}
    ids = [edge.blocker for edge in details.edges if edge.blocker is not None]
    for id_, job in zip(ids, details.blockers, strict=False):
        task, label = ("", "gone") if job is None else (job.task, job.label)
        by_task.setdefault(task, []).append((id_, label))
    found: list[Blockers] = []
    for task, each in by_task.items():
        for group in [each] if len(each) >= ALIKE else [[one] for one in each]:
            labels = [label for _, label in group]
            states = tuple(sorted({label: labels.count(label) for label in labels}.items()))
            over = sum(label in {"succeeded", "failed", "cancelled", "broken", "gone"} for label in labels)
            found.append(Blockers(task, len(group), group[0][0] if len(group) == 1 else "", states, over))
    return tuple(found), max(len(details.edges) - len(details.blockers), 0)


# Steps and attributes.


def _steps(at: Address, found: RunRecord, details: _Details, now: float) -> StepsView:
    older = None if details.cursor is None else at.with_query(cursor=details.cursor)
    first = at.with_query(cursor=None) if "cursor" in at.query else None
    return StepsView(waterfall_of(details.steps, found.flow, _tick(now, found)), older, first)


def _tick(now: float, found: RunRecord) -> float:
    """Now in steps of a hundredth of the age of the run, at least a second, so that a bar grows visibly or not at all."""
    unit = max((now - found.created_at) / 100, 1.0)
    return now // unit * unit if not found.step.state.final else now


def _attributes(site: Site, found: RunRecord, code: FlowCode, details: _Details) -> AttributesView:
    shown = site.show != "hidden"
    result = found.step.result if shown and found.step.state is State.SUCCEEDED else None
    values = _decoded(details.attributes)
    return AttributesView(
        shown,
        tuple((name, pretty(hidden(name, value))[:LONGEST]) for name, value in sorted(values.items())),
        tuple(
            (name, _one_line(each), f"{name}={_findable(each)}")
            for name in code.lookup
            if name in values and not redacted(name)
            for each in _several(values[name])
            if isinstance(each, str | int | float)
        )[:20],
        found.flow,
        None if result in {None, "null"} else _shown_result(result or ""),
    )


def _decoded(attributes: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, text in attributes.items():
        try:
            found[name] = msgspec.json.decode(text)
        except (msgspec.MsgspecError, RecursionError):
            found[name] = "…"
    return found


def _several(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _one_line(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _findable(value: object) -> str:
    """The value as the filter of runs takes it: a string that reads like other JSON has quotes."""
    try:
        msgspec.json.decode(str(value))
    except (msgspec.MsgspecError, RecursionError):
        return str(value)
    return msgspec.json.encode(value).decode()


def _shown_result(result: str) -> str:
    try:
        return pretty(hidden("", msgspec.json.decode(result)))[:LONGEST]
    except (msgspec.MsgspecError, RecursionError):
        return "…"
