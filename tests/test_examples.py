"""The examples run as they stand, and are shown as they stand: in the README, or in the page about flows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PRINTED = {
    "approval.py": "may ann spend 80?\npaid 80\n",
    "first_job.py": "5\n",
    "image_fanout.py": "cat.png@100, cat.png@800, dog.png@100, dog.png@800\n",
    "order_flow.py": "c1 has paid 24 for 2 x lamp\n"
    "['reserve in stock: succeeded', 'charge in billing: succeeded', 'receipt in mail: succeeded']\n[True]\n",
    "orders.py": "order 1 is confirmed [(1, 'confirmed')]\n",
}
SHOWN = "\n".join(page.read_text() for page in (ROOT / "README.md", ROOT / "docs" / "flows.md"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_where_nothing_was_prepared(example: Path, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, PRINTED.get(example.name, ""), "")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_documentation_shows_it_as_it_is(example: Path) -> None:
    assert f"```python\n{example.read_text()}```" in SHOWN


def test_a_first_job_takes_at_most_eight_lines() -> None:
    lines = [line for line in (ROOT / "examples" / "first_job.py").read_text().splitlines() if line.strip()]

    assert len(lines) <= 8
