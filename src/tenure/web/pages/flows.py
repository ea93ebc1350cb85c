"""`flows` lists the flows and their runs; `flow` shows the graph of one, with the figures of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from tenure.core.attributes import lookup_for
from tenure.core.checks import name as checked_name
from tenure.core.checks import refused
from tenure.core.job import State
from tenure.core.measures import HistorySearch, merge_counts, quantile, slot_of
from tenure.core.redaction import redacted
from tenure.core.units import duration
from tenure.errors import InvalidOption
from tenure.stores.values import RunPage, RunRecord, RunSearch
from tenure.web.flow_code import FlowCode, code_of, seen_in
from tenure.web.graph import Graph, graph_of
from tenure.web.page import Address, Page, Region

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["GraphView", "NodeView", "RouteView", "RunRow", "flow", "flows"]

STATES = ("", *(state.value for state in State))
SPANS: Mapping[str, tuple[int, float]] = {"1h": (300, 3600.0), "24h": (3600, 86400.0)}
"""Resolution and seconds of each span; coarse, because every task of each slot is read."""

PAGE = 50
SEEN = 100
"""Of a store without code, the flows of this many runs are known."""

RECENT_RUNS = 20
SHOWN_BY = 3
"""Runs whose steps show the ways of a flow without code."""

SECONDARY = 5.0
"""Seconds between two reads of what stands beside the main call."""

NAMES = 15.0
"""Seconds between two reads of the names of flows."""

LABEL = 16
"""Characters of the name of a step in the graph."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a row of a listing."""

    id: str
    flow: str
    step: str
    queue: str
    label: str
    created_at: float
    ended_at: float | None
    took: str
    says: str


class FlowRow(msgspec.Struct, frozen=True):
    """A flow, with what its steps have done in the last hour."""

    name: str
    declared: bool
    steps: tuple[str, ...]
    lookup: tuple[str, ...]
    finished: int
    failed: int


class FlowsView(msgspec.Struct, frozen=True):
    rows: tuple[FlowRow, ...]


class RunFilterView(msgspec.Struct, frozen=True):
    flow: str
    state: str
    find: str
    flows: tuple[str, ...]
    lookups: tuple[str, ...]
    """Attributes that the runs of the chosen flow can be found by; empty if it is not known."""

    tabs: tuple[tuple[str, str, bool], ...]
    """Words, link, and whether it is chosen."""

    chips: tuple[tuple[str, str, str], ...]
    """Name, value and the link without it."""


class RunsView(msgspec.Struct, frozen=True):
    rows: tuple[RunRow, ...]
    sentence: str
    filtered: bool
    looked: int
    older: str | None
    first: str | None
    with_flow: bool = True


class NodeView(msgspec.Struct, frozen=True):
    """A step in the graph."""

    name: str
    short: str
    x: float
    y: float
    width: float
    height: float
    label: str
    """State of the step; empty if it has none."""

    note: str
    faint: bool
    link: str


class RouteView(msgspec.Struct, frozen=True):
    path: str
    bold: bool
    title: str


class GraphView(msgspec.Struct, frozen=True):
    width: float
    height: float
    nodes: tuple[NodeView, ...]
    routes: tuple[RouteView, ...]
    declared: bool
    """False: it is made of the steps seen."""

    words: str
    """The same as a sentence, for those who cannot see it."""


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a flow, with what its jobs have done in the span."""

    name: str
    task: str
    queue: str
    following: tuple[str, ...]
    finished: int
    failed: int
    retried: int
    wait: float | None
    p50: float | None
    p95: float | None


class FlowView(msgspec.Struct, frozen=True):
    name: str
    lookup: tuple[str, ...]
    declared: bool
    span: str
    spans: tuple[tuple[str, str], ...]


class StepsView(msgspec.Struct, frozen=True):
    graph: GraphView | None
    rows: tuple[StepRow, ...]


class MissingView(msgspec.Struct, frozen=True):
    heading: str
    sentence: str


# All flows.


async def flows(site: Site, at: Address) -> Page:
    """The flows, and a page of the runs that fit the filters."""
    search = _search_in(site, at)
    found = await site.read(site.store.runs(search))
    names = await _known_names(site)
    counts = await task_counts(site, "1h")
    rows = tuple(_flow_row(site, name, counts) for name in names)
    regions = [Region("runs-filters", "flows/filters.html", _filters(site, at, names))] if names or found.runs else []
    return Page(
        title="Flows",
        kind="flows",
        regions=(
            Region("flows", "flows/flows.html", FlowsView(rows)),
            *regions,
            *([Region("runs", "flows/runs.html", _runs_view(at, found))] if names or found.runs else []),
        ),
    )


def _search_in(site: Site, at: Address) -> RunSearch:
    query = at.query
    state, name, find = query.get("state", ""), query.get("flow", ""), query.get("find", "")
    if state not in STATES:
        raise refused("state", f"one of {', '.join(STATES[1:])}", state)
    if find and not name:
        raise InvalidOption("a lookup needs a flow, because each flow has different lookup attributes")
    return RunSearch(
        flow=checked_name("flow", name) if name else None,
        lookup=_lookup(site, find) if find else None,
        state=State(state) if state else None,
        limit=PAGE,
        cursor=query.get("cursor"),
    )


def _lookup(site: Site, find: str) -> tuple[str, str]:
    """The lookup that `customer=c1` means; a value that is not JSON is a string."""
    name, equals, text = find.partition("=")
    if not equals or not name.strip():
        raise refused("find", "a name and a value, such as customer=c1", find)
    if site.show == "hidden" or redacted(name):
        raise InvalidOption(
            f"the values of {name.strip()!r:.80} are hidden on this dashboard, so runs cannot be found by them"
        )
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        value = text
    return name.strip(), lookup_for(value)


async def _known_names(site: Site) -> list[str]:
    """The flows of the code, and those of the newest runs."""

    async def read() -> list[str]:
        page = await site.read(site.store.runs(RunSearch(limit=SEEN)))
        return list(dict.fromkeys(run.flow for run in page.runs))

    seen = await site.recent.get("flows seen", NAMES, read)
    return sorted(dict.fromkeys((*site.app.internals.flows, *seen)))


async def task_counts(site: Site, span: str) -> dict[str, dict[str, float]]:
    """What the history of a span says of each task, whatever the queue. Read every 5 seconds, for all pages."""
    resolution, length = SPANS[span]

    async def read() -> dict[str, dict[str, float]]:
        now = (await site.snapshot()).now
        since = slot_of(resolution, now - length) + resolution
        rows = await site.read(site.store.history(HistorySearch(resolution=resolution, since=since, rows="tasks")))
        found: dict[str, dict[str, float]] = {}
        for row in rows:
            found[row.task] = merge_counts(found.get(row.task, {}), row.counts)
        return found

    return await site.recent.get(("task counts", span), SECONDARY, read)


def _flow_row(site: Site, name: str, counts: Mapping[str, Mapping[str, float]]) -> FlowRow:
    code = code_of(site.app, name)
    tasks = code.tasks.values() if code else [task for task in counts if task.startswith(f"{name}.")]
    finished = sum(counts.get(task, {}).get("succeeded", 0) for task in tasks)
    failed = sum(counts.get(task, {}).get(end, 0) for task in tasks for end in ("failed", "broken"))
    return FlowRow(
        name, code is not None, code.steps if code else (), code.lookup if code else (), round(finished), round(failed)
    )


def _filters(site: Site, at: Address, names: Sequence[str]) -> RunFilterView:
    state, name, find = (at.query.get(each, "") for each in ("state", "flow", "find"))
    code = code_of(site.app, name) if name else None
    chips = [
        (label, value, at.with_query(**dict.fromkeys(gone)))
        for label, value, gone in (("flow", name, ("flow", "find")), ("lookup", find, ("find",)))
        if value
    ]
    return RunFilterView(
        name,
        state,
        find,
        tuple(names),
        tuple(each for each in (code.lookup if code else ()) if not redacted(each)),
        tuple((each.capitalize() or "All", at.with_query(state=each or None), each == state) for each in STATES),
        tuple(chips),
    )


def _runs_view(at: Address, found: RunPage, *, with_flow: bool = True) -> RunsView:
    state, name, find = (at.query.get(each, "") for each in ("state", "flow", "find"))
    words = " ".join(word for word in (state, "run") if word)
    return RunsView(
        rows=tuple(run_row(run) for run in found.runs),
        sentence=f"No {words}{f' of {name}' if name else ''}{f' with {find}' if find else ''}",
        filtered=bool(state or find or name),
        looked=found.searched,
        older=None if found.cursor is None else at.with_query(cursor=found.cursor),
        first=at.with_query(cursor=None) if "cursor" in at.query else None,
        with_flow=with_flow,
    )


def run_row(run: RunRecord) -> RunRow:
    """A run as a row."""
    step = run.step
    error = "" if step.error is None else f"{step.error.type}: {step.error.message}".partition("\n")[0]
    waits = "waits to be completed" if step.parked else f"waits for {step.blocked_by:,}" if step.blocked_by else ""
    return RunRow(
        id=run.id,
        flow=run.flow,
        step=step.task.removeprefix(f"{run.flow}."),
        queue=step.queue,
        label=step.label,
        created_at=run.created_at,
        ended_at=step.ended_at,
        took="" if step.ended_at is None else duration(max(step.ended_at - run.created_at, 0.0)),
        says=error if step.state is not State.SUCCEEDED and error else waits,
    )


# One flow.


async def flow(site: Site, at: Address) -> Page:
    """The graph of a flow with the figures of its steps over a span, and its newest runs."""
    name = checked_name("flow", at.names["name"])
    span = at.query.get("span", "1h")
    if span not in SPANS:
        raise refused("span", f"one of {', '.join(SPANS)}", span)
    found = await site.read(site.store.runs(RunSearch(flow=name, limit=RECENT_RUNS)))
    code = code_of(site.app, name) or await _seen(site, name, found.runs)
    if not code.declared and not found.runs:
        sentence = f"No code here declares a flow {name}, and the store has no run of it."
        return Page(
            title="No such flow",
            kind="flows",
            regions=(Region("missing", "flow/missing.html", MissingView("No such flow", sentence)),),
            status=404,
        )
    rows = _step_rows(code, await task_counts(site, span))
    view = FlowView(name, code.lookup, code.declared, span, tuple((each, at.with_query(span=each)) for each in SPANS))
    return Page(
        title=name,
        kind="flows",
        every=2.0,
        regions=(
            Region("head", "flow/head.html", view),
            Region("steps", "flow/steps.html", StepsView(_flow_graph(code, rows), rows)),
            Region("runs", "flow/runs.html", _runs_view(at, found, with_flow=False)),
        ),
    )


async def _seen(site: Site, name: str, runs: Sequence[RunRecord]) -> FlowCode:
    async def read() -> FlowCode:
        pages = [await site.read(site.store.steps(run.id)) for run in runs[:SHOWN_BY]]
        return seen_in(name, [page.jobs for page in pages])

    return await site.recent.get(("steps seen", name), NAMES, read)


def _step_rows(code: FlowCode, counts: Mapping[str, Mapping[str, float]]) -> tuple[StepRow, ...]:
    rows = []
    for step in code.steps:
        counted = counts.get(code.tasks[step], {})
        rows.append(
            StepRow(
                name=step,
                task=code.tasks[step],
                queue=code.queues[step],
                following=tuple(target for source, target in code.routes if source == step),
                finished=round(counted.get("succeeded", 0)),
                failed=round(counted.get("failed", 0) + counted.get("broken", 0)),
                retried=round(counted.get("retried", 0)),
                wait=quantile(counted, "wait", 0.95),
                p50=quantile(counted, "run", 0.5),
                p95=quantile(counted, "run", 0.95),
            )
        )
    return tuple(rows)


def _flow_graph(code: FlowCode, rows: Sequence[StepRow]) -> GraphView | None:
    by_name = {row.name: row for row in rows}

    def note(name: str) -> tuple[str, str]:
        row = by_name[name]
        if row.p50 is None or row.p95 is None:
            return "", "nothing in this time"
        failed = f", {row.failed:,} failed" if row.failed else ""
        return "failed" if row.failed else "", f"{duration(row.p50)} / {duration(row.p95)}{failed}"

    drawn = graph_of(code.steps, code.routes)
    nodes = {name: (*note(name), False, f"/tasks/{code.tasks[name]}") for name in code.steps}
    return graph_view(drawn, nodes, (), declared=code.declared)


def graph_view(
    drawn: Graph,
    nodes: Mapping[str, tuple[str, str, bool, str]],
    bold: Sequence[tuple[str, str]],
    *,
    declared: bool,
) -> GraphView | None:
    """The graph as templates draw it; None if there is none. `nodes`: state, note, whether it is faint, and link of each step."""
    if not drawn.boxes:
        return None
    views = []
    for box in drawn.boxes:
        label, note, faint, link = nodes[box.name]
        short = box.name if len(box.name) <= LABEL else box.name[: LABEL - 1] + "…"
        views.append(NodeView(box.name, short, box.x, box.y, box.width, box.height, label, note, faint, link))
    routes = [
        RouteView(each.path, (each.source, each.target) in bold, f"{each.source} to {each.target}")
        for each in drawn.edges
    ]
    routes.sort(key=lambda each: each.bold)  # bold ones lie over the others
    words = ", ".join(f"{name} {nodes[name][0] or nodes[name][1]}".strip() for name in nodes)
    return GraphView(drawn.width, drawn.height, tuple(views), tuple(routes), declared, words[:1000])
