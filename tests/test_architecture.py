"""ARCHITECTURE.md is a map of what is there: it names every module, and nothing that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tenure"
NAMED = set(re.findall(r"`([\w./-]+(?:\.(?:py|sql|md|toml)|/))`", (ROOT / "ARCHITECTURE.md").read_text()))


def test_every_file_that_the_map_names_exists() -> None:
    assert [name for name in sorted(NAMED) if not (PACKAGE / name).exists() and not (ROOT / name).exists()] == []


def test_every_module_is_on_the_map() -> None:
    modules = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if path.read_text().strip()}

    assert sorted(modules - NAMED) == []
