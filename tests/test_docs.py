"""The documentation is true: its code runs, the tests that it names exist, its links lead somewhere."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tenure import App

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

# What the described systems do, and what Tenure decided where they disagree: docs/behaviours.md has a row for each.
BEHAVIOURS = re.findall(
    r"\w+",
    """
    G1 G2 G3 G4 G5 G6 G9 G10 G11 G12 G13 G14 G15 G17 G18 G19 G20 G21 G22 G23 G24 G25 G26 G27 G28 G29 G30 G31
    G32 G33 G34 G35 G36 G37 G38 G39 G40 G41 G42 G44 G45 G46 G47 G48 G49
    W1 W2 W3 W4 W5 W6 W7 W8 W10 W12 W14 W15 W16 W18 W19 W20 W21 W23 W26 W28 W29 W30
    Q1 Q2 Q3 Q4 Q5 Q6 Q7 Q8 Q9 Q13 Q15 Q16 Q17 Q18 Q19 Q20 Q21 Q24 Q25 Q26 Q29 Q30 Q33 Q38
    Q40 Q41 Q42 Q43 Q44 Q45 Q46 Q48 Q49 Q50 Q51 Q52 Q53 Q54 Q55 Q56 Q57 Q58 Q59 Q60 Q61 Q62 Q63
    R1 R2 R3 R4 R6 R7 R12 R13 R15 R16 R17 R18 R19 R20 R24 R25 R26 R27 R28 R29 R31 R36 R38
    H1 H2 H3 H4 H5 H6 H7 H8 H9 H10 H11 H12 H13 H14 H15 H16
    T1 T2 T3 T4 T5 T6 T7 T8 T9 T10 T11 T12 T13 T14 T15 T16 T17 T18 T19 T20 T21 T22 T23
    """,
)

TEST = re.compile(r"`([\w/]+\.py)((?:::\w+)+)`")


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    line: int
    """Where its code begins."""

    language: str
    code: str


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(page, text.count("\n", 0, found.start()) + 2, found[1], found[2])


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


WITH_CODE = [page for page in PAGES if any(block.language in ("python", "sh") for block in blocks(page))]


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TENURE_URL", raising=False)
    names: dict[str, Any] = {"__name__": "page"}
    apps: list[App] = []
    try:
        for block in blocks(page):
            if block.language == "python":
                run_python(block, names)
                apps += [value for value in names.values() if isinstance(value, App)]
            elif block.language == "sh" and "tenure " in block.code:
                run_shell(block)
    finally:
        for app in apps:
            app.close()


def run_python(block: Block, names: dict[str, Any]) -> None:
    """Run it after what came before it on the page; one that opens with a file name becomes that file as well."""
    if file := re.match(r"# (\w+\.py)\n", block.code):
        Path(file[1]).write_text(block.code)
    # Blank lines before it, so that a traceback tells the line of the page.
    exec(compile("\n" * (block.line - 1) + block.code, block.page, "exec"), names)


def run_shell(block: Block) -> None:
    """Run it; a worker that would go on for ever ends when there is nothing left to do."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", "-euc", block.code],
        env=os.environ | {"PATH": path, "TENURE_UNTIL_EMPTY": "1"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ended.returncode == 0, f"{name(block.page)}, line {block.line}:\n{ended.stdout}{ended.stderr}"


@functools.cache
def functions_of(file: Path) -> frozenset[str]:
    """The functions of a module, those of classes as Class::name."""
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found.update(prefix + each.name for each in inner if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(found)


def missing_tests(text: str) -> list[str]:
    """The tests that a text names and that do not exist."""
    missing = []
    for test in TEST.finditer(text):
        folder = ROOT / "src/tenure/testing" if test[1].startswith("conformance/") else ROOT / "tests"
        file = folder / test[1]
        if not file.is_file() or test[2].removeprefix("::") not in functions_of(file):
            missing.append(test[0])
    return missing


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    assert missing_tests(page.read_text()) == []


def test_a_test_that_does_not_exist_would_be_found() -> None:
    assert missing_tests("`test_docs.py::test_nothing` `nowhere.py::test_x` `test_docs.py::blocks`") == [
        "`test_docs.py::test_nothing`",
        "`nowhere.py::test_x`",
    ]


def test_every_behaviour_has_a_row_with_a_test_or_says_that_it_comes_later() -> None:
    rows = re.findall(
        r"^\| ([GWQRHT]\d+) \| (.+?) \| (.+) \|$", (ROOT / "docs/behaviours.md").read_text(), re.MULTILINE
    )

    assert [behaviour for behaviour, _, _ in rows] == BEHAVIOURS
    assert [behaviour for behaviour, _, proof in rows if not TEST.search(proof) and "later: " not in proof] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_make_target_that_the_readme_names_exists() -> None:
    named = set(re.findall(r"`make ([\w-]+)`", (ROOT / "README.md").read_text()))

    assert named - set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)) == set()
