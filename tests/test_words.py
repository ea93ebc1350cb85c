"""The words of the house: banned phrases do not occur, and the first line of a module names what is in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tenure"

ROOMS = ("src/tenure",)
"""Files and folders that these tests read; test_docs.py reads the documentation."""

KINDS = {".lua", ".md", ".py", ".sql"}

BANNED = (
    "are told",
    "how-manieth",
    "is told",
    "nobody",
    "of its own",
    "so many",
    "somebody",
    "what there is",
    "whoever",
)
_BANNED = re.compile(rf"\b(?:{'|'.join(map(re.escape, BANNED))})\b", re.IGNORECASE)
_CONTINUED = re.compile(r"[ \t]*\"?\n[ \t]*(?:#|--|[-*>]|[fr]*\")?[ \t]*")
"""A line break within a comment, a docstring, a string or a paragraph, with what the next line begins with."""

WIDTH = 120
"""Columns of a module's first line."""


def covered(kinds: set[str]) -> Iterator[Path]:
    """The files of these kinds in `ROOMS`."""
    for room in ROOMS:
        path = ROOT / room
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.suffix in kinds:
                yield file


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def banned_in(text: str) -> list[str]:
    """The banned phrases in a text, also those that a line break divides."""
    return [found.lower() for found in _BANNED.findall(_CONTINUED.sub(" ", text))]


def words_in(text: str) -> set[str]:
    """The stems of the words in a text or a name: split at capitals and underscores, without the endings of forms."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", text)
    return {stem(part.lower()) for part in parts if len(part) > 2}


def stem(word: str) -> str:
    """A word without the ending of a plural or of a form of a verb: jobs, retries, retried, encodes, encoding."""
    for ending in ("ings", "ing", "ies", "ied", "ers", "er", "es", "ed", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            base = word.removesuffix(ending)
            return base[:-1] if len(base) > 3 and base[-1] == base[-2] else base
    return word


def public_names(file: Path, tree: ast.Module) -> list[str]:
    """The names of the public classes and functions of a module, what `__all__` lists, and of a package its folder."""
    names = [file.parent.name] if file.name == "__init__.py" else []
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            names.append(node.name)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            names += ast.literal_eval(node.value)
    return list(dict.fromkeys(names))


def faults_of(file: Path, source: str) -> list[str]:
    """What is wrong with the first line of a module."""
    tree = ast.parse(source)
    docstring = ast.get_docstring(tree)
    if docstring is None:
        return ["has no docstring"]
    first, width = docstring.partition("\n")[0], len(source.partition("\n")[0])
    faults = []
    if not first.endswith("."):
        faults.append(f"does not end with a period: {first}")
    if width > WIDTH:
        faults.append(f"has {width} columns, more than {WIDTH}")
    names = public_names(file, tree)
    if names and words_in(first).isdisjoint(words_in(" ".join(names))):
        faults.append(f"names none of {', '.join(names)}: {first}")
    return faults


@pytest.mark.parametrize("file", [*covered(KINDS)], ids=name_of)
def test_no_banned_word_occurs(file: Path) -> None:
    assert banned_in(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("file", [*covered({".py"})], ids=name_of)
def test_the_first_line_of_a_module_names_what_is_in_it(file: Path) -> None:
    assert faults_of(file, file.read_text(encoding="utf-8")) == []


def test_every_room_exists() -> None:
    assert [each for each in ROOMS if not (ROOT / each).exists()] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# Nobody knows whoever\n# is here", ["nobody", "whoever"]),
        ("-- run so\n-- many jobs", ["so many"]),
        ('"a worker is "\n    f"told"', ["is told"]),
        ("what X is\ntold", ["is told"]),
        ("the busybody of itself owns", []),
    ],
)
def test_banned_words_are_found(text: str, found: list[str]) -> None:
    assert banned_in(text) == found


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("def encode(): ...", "has no docstring"),
        ('"""Encodes values"""\n\ndef encode(): ...', "does not end with a period"),
        ('"""Things that happen."""\n\nclass JobRecord: ...', "names none of JobRecord"),
        (f'"""Encodes {"x" * 120}."""\n\ndef encode(): ...', "columns, more than 120"),
    ],
)
def test_a_wrong_first_line_is_found(source: str, fault: str) -> None:
    [found] = faults_of(PACKAGE / "module.py", source)

    assert fault in found


@pytest.mark.parametrize(
    "source",
    [
        '"""Encodes values."""\n\ndef encode(): ...',
        '"""The jobs of a store."""\n\nclass JobRecord: ...',
        '"""Retries what has failed."""\n\nclass RetryPolicy: ...',
        '"""No public name: nothing to name."""',
    ],
)
def test_a_right_first_line_is_accepted(source: str) -> None:
    assert faults_of(PACKAGE / "module.py", source) == []
