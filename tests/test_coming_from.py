"""Every name in the middle column of docs/coming-from.md and of the guides in docs/coming exists."""

from __future__ import annotations

import ast
import inspect
import re
import signal
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tenure
import tenure.core.keywords
from tenure import AbortReason, App, Context, Cron, Flow, FlowRun, Job, Next
from tenure.cli.work import work
from tenure.jobs.by_hand import Held
from tenure.tasks.flow import FlowWorkers, Starter
from tenure.tasks.task import Caller
from tenure.testing import kit
from tenure.worker.signals import HANDLED_SIGNALS
from tenure.worker.worker import Worker

from .documentation import ROOT, blocks, option_errors, prose, spans, variables

PAGE = ROOT / "docs" / "coming-from.md"
SYSTEMS = ("Guild queues", "Worqr", "Queuert", "Resque", "hworker")

INDEX = ROOT / "docs" / "coming" / "README.md"
GUIDES = sorted(set(INDEX.parent.glob("*.md")) - {INDEX})
PARTS = ["Before and after", "Names", "What surprises", "How to move", "What Tenure does not have"]
"""The sections of each guide, in their order."""

REASONS = frozenset(reason.value for reason in AbortReason)
SIGNALS = frozenset(
    {signum.name.removeprefix("SIG") for signum in HANDLED_SIGNALS} | {"HUP"}
)  # that one is the supervisor's
OPTIONS = frozenset(name for each in work.params for name in (*each.opts, *each.secondary_opts))
PLACEHOLDERS = frozenset(
    {"name", "url", "queue", "payload", "value", "step", "run_id", "job_id", "worker_id", "results", "call", "when"}
)
"""Names that stand for values of the reader, and `results`, a parameter of steps."""


KINDS = {kind.__name__: kind for kind in (Caller, Flow, FlowRun, FlowWorkers, Held, Job, Next, Starter, Worker)}


class Row(NamedTuple):
    system: str
    theirs: str
    ours: str
    difference: str


def rows() -> Iterator[Row]:
    """The rows of the page of five systems."""
    for section in re.split(r"^## ", prose(PAGE), flags=re.MULTILINE)[1:]:
        yield from _rows(section.partition("\n")[0], section)


def rows_of_guides() -> Iterator[Row]:
    for guide in GUIDES:
        yield from _rows(guide.stem, prose(guide))


def _rows(system: str, text: str) -> Iterator[Row]:
    for line in re.findall(r"^\|(.+)\|$", text, re.MULTILINE):
        theirs, ours, difference = (cell.strip() for cell in re.split(r"(?<!\\)\|", line))
        if ours not in ("Tenure", "---"):
            yield Row(system, theirs, ours, difference)


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, object]]:
    """The objects that the page names. They are real, because some attributes exist only on instances."""
    app = App(f"sqlite:///{tmp_path_factory.mktemp('coming')}/jobs.db", retry=None)
    found: dict[str, object] = {"app": app, "events": tenure.events, "kit": kit}
    flow = app.flow("flow", lookup=["customer"])

    @app.task
    def task(ctx: Context) -> None:
        with ctx.complete() as tx:
            found.update(ctx=ctx, tx=tx)
            tx.result = None

    @app.task
    def failing() -> None:
        raise ValueError("why")

    @flow.step
    def step(customer: str) -> None:
        raise ValueError(customer)

    task.enqueue()
    job, run = failing.enqueue(), flow.start(customer="c1")
    app.worker().run(until_empty=True)
    task.enqueue()
    [held] = app.lease("default")
    found.update(task=task, flow=flow, job=job.refresh(), run=run.refresh(), held=held, worker=app.worker())
    found["schedule"] = app.create_schedule("nightly", task.bind(), Cron("@daily"))
    yield found
    app.close()


# Looking for a name.


def missing(span: str, things: Mapping[str, object]) -> str | None:
    """What is missing of a piece of code; None if all of it exists."""
    if re.match(r"tenure( |$)", span):
        return ", ".join(option_errors(span)) or None
    if span.startswith("-"):
        return None if span.split()[0] in OPTIONS else f"tenure work has no option {span}"
    if span.startswith("TENURE_"):
        return None if span.partition("=")[0] in variables() else f"no variable {span}"
    if span in REASONS | SIGNALS | PLACEHOLDERS:
        return None
    code = re.sub(r"^(@|async with |with |await )", "", span).replace("…", "...")
    try:
        _resolved(ast.parse(code, mode="eval").body, things)
    except (LookupError, SyntaxError) as error:
        return f"{span}: {error}"
    return None


def _resolved(node: ast.expr, things: Mapping[str, object]) -> object:
    """The object that a node stands for, or the type that a call returns; None if it is not known."""
    match node:
        case ast.Name(name):
            for where in (things, vars(tenure.errors), {each: getattr(tenure, each) for each in tenure.__all__}):
                if name in where:
                    return where[name]
            if name in PLACEHOLDERS or hasattr(signal, f"SIG{name}"):
                return None
            raise LookupError(f"there is no {name}")
        case ast.Attribute(value, name):
            thing = _resolved(value, things)
            if thing is None:
                raise LookupError(f"unknown object {ast.unparse(value)}")
            if not hasattr(thing, name) and name not in getattr(thing, "__annotations__", {}):
                raise LookupError(f"{ast.unparse(value)} has no {name}")
            return getattr(thing, name, None)
        case ast.Call(function, positional, keywords):
            for given in (*positional, *(keyword.value for keyword in keywords)):
                _resolved(given, things)
            called = _resolved(function, things)
            taken = _keywords(called)
            for keyword in keywords:
                if taken is not None and keyword.arg is not None and keyword.arg not in taken:
                    raise LookupError(f"{ast.unparse(function)} takes no {keyword.arg}")
            return _given_by(called)
        case ast.List(elements) | ast.Tuple(elements):
            for element in elements:
                _resolved(element, things)
            return None
        case ast.Constant() | ast.UnaryOp(ast.USub(), ast.Constant()):
            return None
        case _:
            raise LookupError("cannot be resolved: write it as an attribute or a call")


def _keywords(called: Any) -> frozenset[str] | None:
    """The names of the keyword arguments that a callable takes; None if it takes any."""
    overloads = typing.get_overloads(getattr(called, "__func__", called)) if inspect.isroutine(called) else ()
    forms = [inspect.signature(called), *map(inspect.signature, overloads)]
    parameters = [each for form in forms for each in form.parameters.values()]
    by_name = {each.name for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)}
    unpacked = [found[1] for each in parameters if (found := re.match(r"Unpack\[(\w+)\]", str(each.annotation)))]
    for each in unpacked:
        by_name |= getattr(tenure.core.keywords, each).__annotations__.keys()
    any_will_do = len(forms) == 1 and not unpacked and any(each.kind is each.VAR_KEYWORD for each in parameters)
    return None if any_will_do else frozenset(by_name)


def _given_by(called: Any) -> object:
    """The type that a call returns, if it is one of `KINDS`."""
    if inspect.isclass(called):
        return called
    hint = re.match(r"\w+", str(getattr(called, "__annotations__", {}).get("return", "")))
    return KINDS.get(hint[0]) if hint else None


def test_every_name_is_there(things: Mapping[str, object]) -> None:
    found = [*rows(), *rows_of_guides()]
    gone = {span: why for row in found for span in spans(row.ours) if (why := missing(span, things))}

    assert gone == {}


@pytest.mark.parametrize(
    "span",
    [
        "app.enqeue(…)",
        "app.nothing",
        "@app.task(colour=…)",
        "@flow.step(colour=…)",
        "@task.before_nothing",
        "task.using(dealy=60)",
        "task.using(delay=60).enqeue(…)",
        "Next(step).using(colour=…)",
        "App(keep=Retention(colour=1))",
        "Nothing",
        "run.error.colour",
        "ctx.signal.nothing",
        "AbortReason.NOTHING",
        "worker.nothing()",
        "app.worker().nothing()",
        "tenure wrok",
        "tenure work --colour",
        "--colour",
        "TENURE_COLOUR",
        "taken_by_nobody",
        "events.Nothing",
    ],
)
def test_a_name_that_is_not_there_would_be_found(span: str, things: Mapping[str, object]) -> None:
    assert missing(span, things) is not None


def test_every_system_has_rows_that_are_whole() -> None:
    found = list(rows())

    assert tuple(dict.fromkeys(row.system for row in found)) == SYSTEMS
    assert [row for row in found if not row.theirs or not row.ours] == []
    assert [
        row.theirs for row in found if row.ours == "none" and not row.difference and row.theirs not in NOTHING
    ] == []


NOTHING = ("`keys`", "ActiveJob", "`Plugin.lint`")
"""Rows that need no explanation."""


def test_every_section_ends_with_a_program() -> None:
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]

    assert [section.partition("\n")[0] for section in sections if not section.rstrip().endswith("```")] == []


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_has_every_part_and_rows_that_are_whole(guide: Path) -> None:
    found = [row for row in rows_of_guides() if row.system == guide.stem]

    assert re.findall(r"^## (.+)$", prose(guide), re.MULTILINE) == PARTS
    assert [row for row in found if not row.theirs or not row.ours] == []
    assert [row for row in found if row.ours == "none" and not row.difference] == []


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_shows_a_program_of_the_other_library_and_runs_ours(guide: Path) -> None:
    before, after, *_ = (block for block in blocks(guide) if block.language == "python")

    assert before.excuse is not None
    assert guide.stem in before.code
    assert after.excuse is None
    assert "from tenure import" in after.code


def test_the_index_leads_to_every_guide() -> None:
    assert GUIDES != []
    assert {guide.name for guide in GUIDES} - set(re.findall(r"\]\(([^)#]+)", INDEX.read_text())) == set()
