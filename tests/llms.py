"""Write llms.txt, a list of all pages for language models, and llms-full.txt, the text of the guides (`make llms`).

llms.txt has title, link and first sentence of each page, in the form that llmstxt.org describes. llms-full.txt has the
whole text of the pages that a user of Tenure needs to write and run programs, without the names of tests. Both are
generated; a test fails when they are not current.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .documentation import ROOT

__all__ = ["FULL", "GROUPS", "LIST", "first_sentence", "full_text", "list_of_pages", "plain"]

LIST = ROOT / "llms.txt"
FULL = ROOT / "llms-full.txt"

GROUPS = {
    "Start": ["first-job", "tour", "glossary"],
    "Write tasks": [
        "results", "retries", "flows", "schedules", "transactions", "isolation", "headers", "hooks", "versions", "inbox", "testing",
    ],
    "Run workers": ["running", "worker", "web", "django", "bridges", "deploying", "options"],
    "Operate": ["operating", "monitoring", "dashboard", "prometheus", "events", "logging"],
    "Stores": ["postgres", "redis"],
    "Trust": ["guarantees", "invariants", "speed"],
    "Come from another queue": [
        "coming/README", "coming/celery", "coming/rq", "coming/arq", "coming/huey", "coming/dramatiq", "coming/procrastinate",
        "coming-from",
    ],
    "Optional": ["store-contract", "behaviours"],
}  # fmt: skip
"""The pages in docs/ by group, in the order in which to read them. `Optional` is a word of the format: what can be left out."""

IN_FULL = ("Start", "Write tasks", "Run workers", "Operate", "Stores")
"""The groups whose text is in llms-full.txt."""

ABOUT = """\
Imports come from `tenure`; errors from `tenure.errors`, tools for tests from `tenure.testing`. Every snippet in these pages
is run by the test suite. Programs in other languages enqueue through the inbox, without a client.
"""

_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_PICTURE = re.compile(r"^!\[.*\]\(.*\)\n*", re.MULTILINE)
_TESTS = re.compile(r"\s*\((?:`[^`\n]+::[^`\n]+`(?:,|\sand)?\s*)+\.?\)")
"""Names of tests in brackets, which say where a sentence is shown to be true."""

_TABLE_OF_TESTS = re.compile(r"(?:^\|.*\n)*^\|.*\| (?:`[^`\n]+::[^`\n]+`,? ?)+\|\n(?:^\|.*\n)*", re.MULTILINE)
"""A table with a column of tests."""


def page(name: str) -> Path:
    return ROOT / "docs" / f"{name}.md"


def plain(text: str) -> str:
    """A page without comments, pictures, names of tests in brackets, and tables of tests."""
    for pattern in (_COMMENT, _PICTURE, _TESTS, _TABLE_OF_TESTS):
        text = pattern.sub("", text)
    return text


def title(text: str) -> str:
    """The heading of a page."""
    found = re.match(r"# (.+)\n", text)
    assert found is not None, "a page begins with its heading"
    return found[1]


def first_sentence(text: str) -> str:
    """The first sentence after the heading of a page, as plain words."""
    paragraph = plain(text).split("\n\n")[1]
    words = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(paragraph.split())).replace("*", "")
    return re.split(r"(?<=\.)\s", words, maxsplit=1)[0].rstrip(".:") + "."


def list_of_pages() -> str:
    """The text of llms.txt."""
    readme = (ROOT / "README.md").read_text()
    parts = [f"# {title(readme)}", f"> {first_sentence(readme)}", ABOUT.strip()]
    for group, names in GROUPS.items():
        texts = {name: page(name).read_text() for name in names}
        lines = [f"- [{title(text)}](docs/{name}.md): {first_sentence(text)}" for name, text in texts.items()]
        parts.append("\n".join([f"## {group}", "", *lines]))
    return "\n\n".join(parts) + "\n"


def full_text() -> str:
    """The text of llms-full.txt."""
    return "\n".join(_full())


def _full() -> Iterator[str]:
    yield plain((ROOT / "README.md").read_text())
    for group in IN_FULL:
        for name in GROUPS[group]:
            yield f"---\n\nFrom docs/{name}.md\n\n{plain(page(name).read_text())}"


if __name__ == "__main__":
    LIST.write_text(list_of_pages())
    FULL.write_text(full_text())
