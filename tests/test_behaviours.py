"""docs/behaviours.md is complete and true: every behaviour has a row, and every test in a row exists.

Tests are looked for in the source, not run: this fails in a second, whatever it takes to run them.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "behaviours.md"

# What Tenure's users must be able to count on, whichever of the described systems they know.
PROMISED = re.findall(
    r"\w+",
    """
    G1 G2 G3 G4 G5 G6 G11 G12 G13 G14 G15 G17 G18 G19 G21 G22 G26 G27 G28 G29 G30 G31 G34
    W1 W2 W3 W4 W5 W6 W7 W8 W10 W12 W14 W15 W16 W18 W19 W20 W21 W23 W26 W28 W29 W30
    Q1 Q2 Q3 Q4 Q5 Q6 Q7 Q8 Q9 Q13 Q15 Q16 Q17 Q18 Q19 Q20 Q21 Q24 Q25 Q26 Q29 Q30 Q33 Q38
    R1 R2 R3 R4 R6 R7 R12 R13 R15 R16 R17 R18 R19 R20 R24 R25 R26 R27 R28 R29 R31 R36 R38
    H1 H2 H3 H4 H5 H6 H7 H8 H9 H10 H11 H12 H13 H14 H15 H16
    """,
)

DECIDED = [f"T{number}" for number in range(1, 26)]
"""Where the systems disagree, or Tenure departs from them."""

SECTIONS = "GWQRHT"

ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+?) \|(.*)\|$", re.MULTILINE)
TEST = re.compile(r"`([\w/]+\.py)((?:::\w+)+)`")


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
    """The tests that a text names and that do not exist, or that nothing would run."""
    missing = []
    for test in TEST.finditer(text):
        folder = ROOT / "src/tenure/testing" if test[1].startswith("conformance/") else ROOT / "tests"
        file, function = folder / test[1], test[2].removeprefix("::")
        runs = function.rpartition("::")[2].startswith("test_")
        if not runs or not file.is_file() or function not in functions_of(file):
            missing.append(test[0])
    return missing


def problems(page: str) -> Mapping[str, str]:
    """What is wrong with such a page, by behaviour."""
    rows = ROW.findall(page)
    ids = [behaviour for behaviour, _, _ in rows]
    wrong = {behaviour: "has no row" for behaviour in [*PROMISED, *DECIDED] if behaviour not in ids}
    wrong |= {behaviour: "has several rows" for behaviour in ids if ids.count(behaviour) > 1}
    for behaviour, _, proof in rows:
        if missing := missing_tests(proof):
            wrong[behaviour] = f"names a test that does not exist: {', '.join(missing)}"
        elif not all(TEST.fullmatch(item) for item in proof.strip().split(", ")):
            wrong[behaviour] = "names something else than tests"
    return wrong


def test_every_behaviour_has_a_row_with_tests_that_exist() -> None:
    assert problems(PAGE.read_text()) == {}


def test_rows_stand_in_order() -> None:
    ids = [behaviour for behaviour, _, _ in ROW.findall(PAGE.read_text())]

    assert ids == sorted(ids, key=lambda behaviour: (SECTIONS.index(behaviour[0]), int(behaviour[1:])))


def test_what_is_promised_is_told_once() -> None:
    assert len(PROMISED) == len(set(PROMISED)) == 108


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ("| G1 | it does | `test_behaviours.py::test_rows_stand_in_order` |", None),
        ("| G1 | it does | |", "names something else"),
        ("| G1 | it does | later |", "names something else"),
        ("| G1 | it does | `test_behaviours.py::test_rows_stand_in_order`, later: the rest |", "names something else"),
        ("| G1 | it does | `test_behaviours.py::test_nothing` |", "does not exist"),
        ("| G1 | it does | `nowhere.py::test_rows_stand_in_order` |", "does not exist"),
        ("| G1 | it does | `test_behaviours.py::problems` |", "does not exist"),
        ("| G2 | it does | `test_behaviours.py::test_rows_stand_in_order` |", "has no row"),
    ],
)
def test_what_is_wrong_with_a_row_would_be_found(row: str, wrong: str | None) -> None:
    found = problems(f"| id | what Tenure does | shown by |\n|---|---|---|\n{row}\n")

    assert found.get("G1", "") == "" if wrong is None else wrong in found["G1"]
