"""A wrong argument to a task is an error for type checkers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def check(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.timeout(300)
def test_mypy_accepts_what_is_right_and_refuses_what_is_wrong() -> None:
    checked = check(
        "mypy",
        "--strict",
        *(
            str(HERE / name)
            for name in (
                "producing.py",
                "flowing.py",
                "hooking.py",
                "scheduling.py",
                "kitting.py",
                "serving.py",
                "tasks_of_django.py",
                "bridging.py",
                "guild_queues.py",
                "declaring.py",
                "processing.py",
            )
        ),
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.timeout(300)
def test_pyright_accepts_what_is_right_and_refuses_what_is_wrong() -> None:
    checked = check("pyright", "--project", str(HERE), "--pythonpath", sys.executable)

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_package_says_that_it_is_typed() -> None:
    import tenure

    assert (Path(tenure.__file__).parent / "py.typed").exists()
