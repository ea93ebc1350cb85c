"""`chromium` finds the browser of the tests; `python -m tests.servers.browser` installs one if none is here."""

from __future__ import annotations

import functools
import os
import shutil
import sys

import pytest

from .binaries import apt_get

__all__ = ["ARGUMENTS", "chromium"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

MISSING = "the tests of the dashboard need a browser: install chromium, or say where one is with CHROMIUM=/path/to/it"

ARGUMENTS = (
    "--no-sandbox",  # containers run as root, where the sandbox of Chromium refuses to start
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
"""What Chromium is started with: nothing that would ask the network."""


@functools.cache
def chromium() -> str:
    """Path of the browser: `CHROMIUM`, or the first on PATH. Fails the test if there is none."""
    found = _found()
    if found is None:
        pytest.fail(MISSING, pytrace=False)
    return found


def _found() -> str | None:
    given = os.environ.get("CHROMIUM")
    if given:
        return shutil.which(given)
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> None:
    """Install Debian's Chromium, with a font, if none is here and if we may."""
    if _found() is None:
        apt_get("chromium", "fonts-dejavu-core")
    if _found() is None:
        print(f"{MISSING}; they will fail", file=sys.stderr)


if __name__ == "__main__":
    install()
