"""examples/django_shop works as it stands, and docs/django.md shows it as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.documentation import blocks

from .conftest import PATIENCE, ROOT

SHOP = ROOT / "examples" / "django_shop"
PAGE = ROOT / "docs" / "django.md"
PLACE = """
from django.test import Client
placed = Client().post("/orders/", {"email": "ann@example.org", "copies": 3}).json()
print(placed["receipt"])
"""


def in_shop(folder: Path, command: str) -> str:
    """What a command of the page prints, in a copy of the project."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "TENURE_UNTIL_EMPTY": "1"}
    ended = subprocess.run(
        ["sh", "-euc", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_the_example_runs(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shutil.copytree(SHOP, shop, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
    commands = [line for block in blocks(PAGE) if block.language == "sh" for line in block.code.splitlines()]
    manage = [line for line in commands if line.startswith("python manage.py")]
    assert [line.split()[2] for line in manage] == ["migrate", "tenure", "tenure", "test"]
    migrate, work, jobs, test = manage

    assert "Tables of Tenure" in in_shop(shop, migrate)
    assert "no issues" in in_shop(shop, "python manage.py check")
    id_ = in_shop(shop, f"python manage.py shell -v 0 -c '{PLACE}'").split()[-1]
    in_shop(shop, work)
    assert id_ in in_shop(shop, jobs)
    shown = in_shop(shop, f"python manage.py tenure job {id_}")
    assert "3 copies for ann@example.org" in shown
    said = in_shop(shop, test)
    assert "Ran 1 test" in said
    assert "\nOK\n" in said


def test_the_page_shows_the_files_of_the_example() -> None:
    """Each block names its file in the first line."""
    shown = [block for block in blocks(PAGE) if block.language == "python" and block.code.startswith("# bookshop/")]
    assert len(shown) >= 4
    for block in shown:
        name, _, code = block.code.partition("\n")
        text = (SHOP / name.removeprefix("# ")).read_text()
        assert code.strip() in text, f"{block} is not in {name}"
