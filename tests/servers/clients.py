"""Clients of the servers that are not Python: `redis_cli`, `psql`, and `node_modules`, the packages of Node.

`python -m tests.servers.clients` installs what is missing, so that the tests need not.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from .binaries import apt_get
from .postgres import binaries

__all__ = ["node_modules", "psql", "redis_cli"]

PACKAGES = Path(__file__).parents[1] / "snippets"
"""The package.json of the programs in docs/inbox.md, and its lock."""


def redis_cli() -> str:
    """Path of `redis-cli` or `valkey-cli` on PATH. Fails the test if there is none."""
    if (found := _redis_cli()) is None:
        pytest.fail("the programs for Bash in docs/inbox.md need redis-cli: install redis-tools", pytrace=False)
    return found


def _redis_cli() -> str | None:
    return next(filter(None, map(shutil.which, ("redis-cli", "valkey-cli"))), None)


def psql() -> str:
    """Path of `psql`: beside the server, or on PATH. Fails the test if there is none."""
    beside = binaries() / "psql"
    if (found := str(beside) if beside.exists() else shutil.which("psql")) is None:
        pytest.fail("the programs for Bash in docs/inbox.md need psql: install postgresql-client", pytrace=False)
    return found


@functools.cache
def node_modules() -> Path:
    """The folder with the packages of Node, which npm fills once for this environment. Fails the test if it cannot."""
    try:
        return _installed()
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr if isinstance(error, subprocess.CalledProcessError) else error
        pytest.fail(f"the programs for Node in docs/inbox.md need node and npm, and a registry: {said}", pytrace=False)


def _installed() -> Path:
    files = [PACKAGES / "package.json", PACKAGES / "package-lock.json"]
    lock = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    folder = Path(sys.prefix) / f"node-{lock}"
    if not folder.exists():
        # In a folder of its own first: other test processes may be doing the same.
        made = Path(tempfile.mkdtemp(prefix="node-", dir=sys.prefix))
        try:
            for file in files:
                shutil.copy(file, made)
            words = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(words, cwd=made, check=True, capture_output=True, text=True, timeout=50)
            if not folder.exists():
                os.replace(made, folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return folder / "node_modules"


if __name__ == "__main__":
    if _redis_cli() is None:
        apt_get("redis-tools")
    try:
        _installed()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"npm could not install the clients for Node; their tests will fail: {error}", file=sys.stderr)
