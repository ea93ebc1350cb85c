"""ARCHITECTURE.md and CONTRIBUTING.md name only files that exist, and stay short enough to be read."""

from __future__ import annotations

import re

import pytest

from .documentation import ROOT
from .map import PACKAGE, first_line, modules

PATH = re.compile(r"`([\w./-]+(?:\.(?:py|sql|lua|md|toml)|/)|\.importlinter|\.env\.example)`")


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_file_that_a_page_names_exists(page: str) -> None:
    named = set(PATH.findall((ROOT / page).read_text()))

    assert named
    assert [name for name in sorted(named) if not (PACKAGE / name).exists() and not (ROOT / name).exists()] == []


@pytest.mark.parametrize(("page", "most"), [("ARCHITECTURE.md", 170), ("README.md", 200)])
def test_a_page_can_be_read_in_some_minutes(page: str, most: int) -> None:
    assert len((ROOT / page).read_text().splitlines()) <= most


def test_every_module_says_on_its_first_line_what_it_holds() -> None:
    silent = [module for files in modules().values() for module in files if not first_line(module)]

    assert silent == []
