"""docs/store-contract.md is complete: every rule names tests that exist, and every conformance test belongs to a rule."""

from __future__ import annotations

import re
from collections import Counter

from .test_behaviours import ROOT, functions_of

PAGE = ROOT / "docs" / "store-contract.md"
CONFORMANCE = ROOT / "src" / "tenure" / "testing" / "conformance"

RULE = re.compile(r"^- \*\*([A-Z]+-\d+)\.\*\* (.*?)(?=\n- \*\*|\n\n|\Z)", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"`([\w/]+\.py): (test_\w+)`")
REFERENCE = re.compile(r"\b(?!UTF-)[A-Z]{3,}-\d+\b")


def rules(page: str) -> list[tuple[str, str]]:
    """Number and text of each rule of such a page, in order."""
    return RULE.findall(page)


def problems(page: str) -> dict[str, str]:
    """What is wrong with the rules of such a page, by number."""
    found = rules(page)
    wrong = {
        number: "stands there twice" for number, times in Counter(number for number, _ in found).items() if times > 1
    }
    known = {number for number, _ in found}
    for number, text in found:
        tests = TEST.findall(text)
        missing = [f"{file}: {test}" for file, test in tests if not exists(file, test)]
        unknown = [other for other in REFERENCE.findall(text) if other not in known]
        if not tests:
            wrong[number] = "names no test"
        elif missing:
            wrong[number] = f"names a test that does not exist: {', '.join(missing)}"
        elif unknown:
            wrong[number] = f"names a rule that does not exist: {', '.join(unknown)}"
    return wrong


def exists(file: str, test: str) -> bool:
    path = ROOT / file if "/" in file else CONFORMANCE / file
    return path.is_file() and test in {name.rpartition("::")[2] for name in functions_of(path)}


def test_every_rule_names_tests_that_exist() -> None:
    assert problems(PAGE.read_text()) == {}


def test_every_conformance_test_shows_a_rule() -> None:
    tests = {
        f"{file.name}: {name.rpartition('::')[2]}" for file in CONFORMANCE.glob("*.py") for name in functions_of(file)
    }
    named = {f"{file}: {test}" for _, text in rules(PAGE.read_text()) for file, test in TEST.findall(text)}

    assert {test for test in tests if ": test_" in test} - named == set()


def test_the_rules_of_a_group_are_numbered_from_one() -> None:
    groups: dict[str, list[int]] = {}
    for number, _ in rules(PAGE.read_text()):
        group, _, position = number.partition("-")
        groups.setdefault(group, []).append(int(position))

    assert groups == {group: list(range(1, len(found) + 1)) for group, found in groups.items()}
    assert len(groups) > 20


def test_the_docstrings_of_a_store_refer_to_rules_that_exist() -> None:
    known = {number for number, _ in rules(PAGE.read_text())}
    for file in ("base.py", "values.py"):
        text = (ROOT / "src" / "tenure" / "stores" / file).read_text()
        assert set(REFERENCE.findall(text)) - known == set(), file


def test_what_is_wrong_with_a_rule_would_be_found() -> None:
    page = (
        "- **AAA-1.** It has a test (`leasing.py: test_first_in_first_out`).\n"
        "- **AAA-2.** It has none.\n"
        "- **AAA-3.** It is made up (`leasing.py: test_nothing_of_the_kind`).\n"
        "- **AAA-4.** See BBB-9 (`leasing.py: test_first_in_first_out`).\n"
    )

    assert problems(page).keys() == {"AAA-2", "AAA-3", "AAA-4"}
