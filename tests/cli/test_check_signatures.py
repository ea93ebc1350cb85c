"""`tenure check --against` over random changes of signatures: what it calls fine can be read."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from tenure import App
from tenure.cli.check.comparing import compare
from tenure.cli.check.record import record_of
from tenure.errors import PayloadError

CHANGES = 2_000


@dataclass
class Size:
    width: int


@dataclass
class Box:
    width: int
    height: int = 1


@dataclass
class Tagged:
    width: int
    tags: list[str] = field(default_factory=list)


VALUES: dict[str, list[Any]] = {
    "int": [0, -3, 2**40],
    "float": [0.5, 2, -1.0],
    "bool": [True, False],
    "str": ["", "a", "2027-01-01"],
    "date": [date(2027, 1, 1)],
    "Decimal": [Decimal("1.50"), Decimal(3)],
    "int | None": [None, 4],
    "int | str": [4, "4"],
    "list[int]": [[], [1, 1]],
    "list[float]": [[1.5, 2]],
    "list[Any]": [[[1], "a"]],
    "set[int]": [{1, 2}],
    "set[Any]": [{1, "a"}],
    "tuple[int, str]": [(1, "a")],
    "tuple[int, ...]": [(1, 2)],
    "dict[str, int]": [{}, {"a": 1}],
    "dict[int, str]": [{1: "a"}],
    "Literal['a', 'b']": ["a", "b"],
    "Literal['a', 'b', 'c']": ["c"],
    "Literal[1, 2]": [1, 2],
    "Size": [Size(1)],
    "Box": [Box(1, 2)],
    "Tagged": [Tagged(1, ["a"])],
    "Size | None": [None, Size(2)],
    "list[Box]": [[Box(1)]],
    "Any": [1, "a", [None]],
    "bytes": [b"a"],
}  # fmt: skip
SCOPE = {"Size": Size, "Box": Box, "Tagged": Tagged, "date": date, "Decimal": Decimal, "Any": Any, "results": None}


class Parameter(NamedTuple):
    name: str
    annotation: str
    default: bool
    kind: str
    """`/`, `` or `*`, or `*args` or `**kwargs`."""


def text_of(parameters: list[Parameter]) -> str:
    """The parameters as code, in an order that Python allows."""
    parts, defaults = [], False
    for kind in ("/", "", "*args", "*", "**kwargs"):
        some = [each for each in parameters if each.kind == kind]
        if kind == "*" and some and not any(each.kind == "*args" for each in parameters):
            parts.append("*")
        for each in some:
            stars = {"*args": "*", "**kwargs": "**"}.get(kind, "")
            # Behind a default there are only defaults, but for parameters that are passed by name.
            default = not stars and (each.default or (defaults and kind in {"/", ""}))
            defaults = defaults or (default and kind in {"/", ""})
            parts.append(f"{stars}{each.name}: {each.annotation}{' = None' if default else ''}")
        if kind == "/" and some:
            parts.append("/")
    return ", ".join(parts)


def task_of(parameters: list[Parameter]) -> tuple[App, Any]:
    scope: dict[str, Any] = {**SCOPE}
    exec(f"from typing import Literal\ndef task({text_of(parameters)}) -> None: ...", scope)
    app = App("memory://")
    return app, app.task(scope["task"])


def parameters(draw: random.Random) -> list[Parameter]:
    kinds = ["/"] * draw.choice([0, 0, 0, 1]) + [""] * draw.randint(0, 3) + ["*"] * draw.choice([0, 0, 1])
    made = [Parameter(f"p{n}", draw.choice([*VALUES]), draw.random() < 0.3, kind) for n, kind in enumerate(kinds)]
    if draw.random() < 0.15:
        made.append(Parameter("more", draw.choice([*VALUES]), False, "*args"))
    if draw.random() < 0.15:
        made.append(Parameter("others", draw.choice([*VALUES]), False, "**kwargs"))
    return made


def changed(draw: random.Random, old: list[Parameter]) -> list[Parameter]:
    new = [*old]
    for _ in range(draw.choice([1, 1, 2])):
        index = draw.randrange(len(new)) if new else None
        match draw.choice(["add", "default", "annotation", "widen", "remove", "kind", "move", "rename"]):
            case "add":
                kind = draw.choice(["", "", "*", "*args", "**kwargs"])
                if kind not in {"*args", "**kwargs"} or all(each.kind != kind for each in new):
                    new.append(Parameter(f"n{len(new)}", draw.choice([*VALUES]), draw.random() < 0.7, kind))
            case "default" if index is not None:
                new[index] = new[index]._replace(default=not new[index].default)
            case "annotation" if index is not None:
                new[index] = new[index]._replace(annotation=draw.choice([*VALUES]))
            case "widen" if index is not None:
                new[index] = new[index]._replace(annotation=draw.choice(["Any", f"{new[index].annotation} | None"]))
            case "remove" if index is not None:
                del new[index]
            case "kind" if index is not None and new[index].kind in {"", "/", "*"}:
                new[index] = new[index]._replace(kind=draw.choice(["", "/", "*"]))
            case "move":
                draw.shuffle(new)
            case "rename" if index is not None:
                new[index] = new[index]._replace(name=f"r{len(new)}")
    return new


def payloads(draw: random.Random, task: Any, given: list[Parameter]) -> list[bytes]:
    """Calls that the old code accepts, with arguments by position and by name."""
    made = []
    for _ in range(6):
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for each in sorted(given, key=lambda each: ["/", "", "*args", "*", "**kwargs"].index(each.kind)):
            if each.default and draw.random() < 0.4:
                continue
            value = draw.choice(VALUES[each.annotation])
            if each.kind == "**kwargs":
                kwargs |= {name: value for name in ("n1", "n2", "zz") if draw.random() < 0.5}
            elif each.kind == "*" or (each.kind == "" and (kwargs or draw.random() < 0.4)):
                kwargs[each.name] = value
            else:
                args.append(value)
        try:
            made.append(task.bind(*args, **kwargs).payload)
        except (TypeError, PayloadError):
            continue
    return made


@pytest.mark.parametrize("seed", range(4))
def test_a_fine_verdict_never_precedes_a_job_that_cannot_be_read(seed: int) -> None:
    draw = random.Random(seed)
    fine = read = 0
    for _ in range(CHANGES // 4):
        before = parameters(draw)
        after = changed(draw, before)
        old, old_task = task_of(before)
        try:
            new, new_task = task_of(after)
        except SyntaxError:
            continue
        findings = compare(record_of(old), new, lambda queue: True)
        if any(each.verdict == "bad" for each in findings):
            continue
        fine += 1
        for payload in payloads(draw, old_task, before):
            read += 1
            try:
                new_task._decode(payload)
            except PayloadError as error:
                raise AssertionError(f"({text_of(before)}) -> ({text_of(after)}): {payload!r}: {error}") from error
    assert fine > CHANGES // 40, "some changes must be fine, or this shows nothing"
    assert read > fine
