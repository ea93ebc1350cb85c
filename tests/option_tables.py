"""Tables of every option in Python, for docs/options.md, made from where the options are declared.

`python -m tests.option_tables` writes them into the page; a test fails when the page has others.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any

from tenure.core.keywords import Filters, JobKeywords, NextKeywords, ScheduleKeywords
from tenure.core.options import AppOptions, Retention, TaskOptions, Unset, WorkerOptions

PAGE = Path(__file__).parent.parent / "docs/options.md"

SECTION = re.compile(r"(<!-- options: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
"""A table in the page, between two comments."""


def tables() -> dict[str, str]:
    """The table of each class."""
    made = {each.__name__: with_defaults(each) for each in (AppOptions, Retention, TaskOptions, WorkerOptions)}
    return made | {
        "JobKeywords": without_defaults(NextKeywords, JobKeywords),
        "ScheduleKeywords": without_defaults(ScheduleKeywords),
        "Filters": without_defaults(Filters, title="| filter | which jobs it selects |"),
    }


def without_defaults(*keywords: Any, title: str = "| option | what it does |") -> str:
    rows = [f"| `{name}` | {text} |" for each in keywords for name, text in documented(each).items()]
    return "\n".join([title, "|---|---|", *rows])


def with_defaults(options: Any) -> str:
    texts = documented(options)
    fields = [field for name, field in options.__dataclass_fields__.items() if name != "keep_in" and name in texts]
    rows = [f"| `{field.name}` | {default(options, field)} | {texts[field.name]} |" for field in fields]
    return "\n".join(["| option | default | what it does |", "|---|---|---|", *rows])


def documented(options: Any) -> dict[str, str]:
    """The documentation of each attribute that a class declares itself, in one line."""
    [declaration] = ast.parse(inspect.getsource(options)).body
    assert isinstance(declaration, ast.ClassDef)
    body = declaration.body
    return {
        before.target.id: " ".join(text.value.value.split())
        for before, text in itertools.pairwise(body)
        if isinstance(before, ast.AnnAssign)
        and isinstance(before.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def default(options: Any, field: Field[Any]) -> str:
    match field.default:
        case Unset():
            places = {"worker": WorkerOptions, "app": AppOptions}
            owners = [f"of the {each}" for each, kind in places.items() if field.name in documented(kind)]
            return "" if options is AppOptions else f"that {', else '.join(owners[options is WorkerOptions :])}"
        case _ if field.default is MISSING:
            return "`default_queue` of the app"
        case bool() | None | str() | tuple():
            return f"`{field.default!r}`"
        case int() | float():
            return f"{field.default:,.10g}"
        case value:
            return f"`{type(value).__name__}()`"


def rewritten(page: str) -> str:
    found = tables()
    return SECTION.sub(lambda match: f"{match[1]}{found[match[2]]}\n{match[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
