"""The cost of the test kit: of a fixture, of a job, of a thousand tests, and of the plugin when pytest starts.

python bench/kit.py prints one line for each bar: the figure, the bar, and whether it is kept.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tenure import App
from tenure.testing import kit

JOBS = 2_000
ROUNDS = 5
ROOT = Path(__file__).parent.parent

app = App("sqlite:///never-used.db", log=False)


@app.task
def noop() -> None: ...


def taken(action: Callable[[], None], pieces: int) -> float:
    """Milliseconds for each piece."""
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) / pieces * 1000


def per_piece(action: Callable[[], None], pieces: int) -> float:
    """Milliseconds for each piece: the median of several rounds."""
    return statistics.median(taken(action, pieces) for _ in range(ROUNDS))


def by_the_kit() -> None:
    with kit(app) as jobs:
        for _ in range(JOBS):
            noop.enqueue()
            jobs.run_until_idle()


def many_in_one_run() -> None:
    with kit(app) as jobs:
        noop.enqueue_many([()] * JOBS)
        jobs.run_until_idle(limit=JOBS)


def inline() -> None:
    with app.inline():
        for _ in range(JOBS):
            noop.enqueue()


def fixtures() -> None:
    for _ in range(200):
        with kit(app):
            pass


TESTS = """
import pytest
from tenure import App

app = App("sqlite:///never-used.db", log=False)

@app.task
def noop() -> None: ...

@pytest.fixture
def tenure_app():
    return app

@pytest.mark.parametrize("number", range(1000))
def test_one_job(jobs, number):
    noop.enqueue()
    assert len(jobs.run_until_idle()) == 1
"""


def pytest_seconds(folder: str, *options: str) -> float:
    """Seconds that pytest takes in a folder, with the plugin or without."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    began = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    subprocess.run(command, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def thousand_tests() -> float:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_kit.py").write_text(TESTS)
        return pytest_seconds(folder, "-p", "tenure.testing.plugin")


def start_up() -> float:
    """Milliseconds that the import of the plugin adds to the start of pytest: the median of several processes."""
    code = "import pytest, time; began = time.perf_counter(); import tenure.testing.plugin; print(time.perf_counter() - began)"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    imports = [float(subprocess.check_output([sys.executable, "-c", code], env=env)) for _ in range(10)]
    return statistics.median(imports) * 1000


def line(what: str, figure: float, unit: str, bar: float) -> None:
    print(f"{what:<44} {figure:8.3f} {unit:<3} bar {bar:g} {unit:<3} {'kept' if figure <= bar else 'MISSED'}")


def main() -> None:
    # In turn, so that other programs of the machine disturb both alike.
    rounds = [(taken(by_the_kit, JOBS), taken(inline, JOBS)) for _ in range(ROUNDS)]
    line("a job, enqueued and run", statistics.median(of_kit for of_kit, _ in rounds), "ms", 1.0)
    line("the same ÷ app.inline()", statistics.median(of_kit / of_inline for of_kit, of_inline in rounds), "×", 1.5)
    line("a job of many in one run", per_piece(many_in_one_run, JOBS), "ms", 1.0)
    line("fixture", per_piece(fixtures, 200), "ms", 2.0)
    line("1,000 tests of one job", thousand_tests(), "s", 5.0)
    line("import of the plugin, when pytest starts", start_up(), "ms", 5.0)


if __name__ == "__main__":
    main()
