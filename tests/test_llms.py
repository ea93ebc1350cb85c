"""llms.txt and llms-full.txt are current, and leave no page out."""

from __future__ import annotations

import pytest

from .documentation import PAGES, ROOT
from .llms import FULL, GROUPS, LIST, first_sentence, full_text, list_of_pages, plain


def test_they_are_current() -> None:
    assert LIST.read_text() == list_of_pages(), "make llms writes it anew"
    assert FULL.read_text() == full_text(), "make llms writes it anew"


def test_every_page_is_in_one_group() -> None:
    """Decisions are left out: they are for people who change Tenure."""
    pages = {
        page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in PAGES if ROOT / "docs" in page.parents
    }

    assert sorted(name for names in GROUPS.values() for name in names) == sorted(
        name for name in pages if not name.startswith("decisions/")
    )


def test_the_full_text_is_of_a_size_that_a_model_can_read() -> None:
    assert len(FULL.read_bytes()) < 400_000


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# A\n\nOne *word*. Two.\n", "One word."),
        ("# A\n\n<!-- x -->\n![a](b.svg)\n\nSee [the\npage](x.md) first:\n\n- b\n", "See the page first."),
        ("# A\n\nIt holds (`a.py::test_b`,\n`c.py::test_d`). Two.\n", "It holds."),
    ],
)
def test_the_first_sentence_of_a_page(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence


def test_tables_of_tests_are_left_out() -> None:
    assert plain("a\n\n| x | test |\n|---|---|\n| b | `c.py::test_d` |\n| e | |\n\nf\n") == "a\n\n\nf\n"
    assert plain("| x | y |\n|---|---|\n| b | c |\n") == "| x | y |\n|---|---|\n| b | c |\n"
