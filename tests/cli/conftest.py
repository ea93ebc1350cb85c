"""A store, the command line on it, and a program with tasks."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tenure.cli import main

PROGRAM = """
import time
from datetime import datetime

from tenure import App, Fail

app = App({url!r})

@app.task(queue="mail")
async def send(user: int, copies: int = 1) -> str:
    return f"{{copies}} to {{user}}"

@app.task
def refuse(why: str) -> None:
    raise Fail(why)

@app.task
async def remind(at: datetime) -> int:
    return at.year

@app.task(raw=True)
async def blob(payload: bytes) -> int:
    return len(payload)
"""

Tenure = Callable[..., Result]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def program(tmp_path: Path, url: str) -> str:
    """The target of an app with tasks, in a file of its own."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(url=url))
    return f"{path}:app"


@pytest.fixture
def tenure(url: str) -> Tenure:
    """Run a command in this process, on the store that TENURE_URL names."""

    def run(*arguments: str, **environment: str) -> Result:
        return CliRunner().invoke(main, arguments, env={"TENURE_URL": url, **environment}, prog_name="tenure")

    return run


def document(result: Result) -> Any:
    """What a command with --json has printed."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def run_process(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user does, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tenure", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def free_port() -> int:
    """A port that nobody uses; not one that clients are given, for who connects there before anybody listens may meet itself."""
    while True:
        port = random.randrange(10_000, 30_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
