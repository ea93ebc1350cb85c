"""Imports point one way: leaves -> app, worker -> stores -> values (`.importlinter` has the contracts)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def lint_imports(source: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with our contracts over the package in this folder."""
    return subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache", "--no-logo",
         "--config", str(ROOT / ".importlinter")],
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip


def test_imports_point_one_way() -> None:
    checked = lint_imports(ROOT / "src")

    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("module", "offence"),
    [
        ("core/job.py", "import tenure.stores.base"),
        ("stores/base.py", "import tenure.app"),
        ("worker/worker.py", "import tenure.testing"),
        ("__init__.py", "import tenure.cli"),
        ("app.py", "import tenure.stores.memory"),
        ("app.py", "import apsw"),
        ("worker/worker.py", "import rich"),
        ("worker/worker.py", "import prometheus_client"),
        ("newcomer.py", "x = 1"),
    ],
)
def test_an_import_against_the_arrows_is_found(tmp_path: Path, module: str, offence: str) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "src" / "tenure" / module).open("a") as file:
        file.write(f"\n{offence}\n")

    checked = lint_imports(tmp_path / "src")

    assert checked.returncode == 1, checked.stdout
