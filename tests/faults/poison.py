"""Jobs that do harm, each time they are run: in processes of their own (`isolated.…`), and in the worker's (`deadly.…`)."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from tenure import App

__all__ = ["DEADLY", "POISONS", "register"]


def exhaust() -> None:
    kept = []
    while True:
        kept.append(bytearray(1 << 20))


def endless() -> None:
    while True:
        pass


POISONS: dict[str, tuple[Callable[[], object], str]] = {
    "exit": (lambda: os._exit(13), "ChildDied: its process ended with exit code 13 "),
    "segfault": (lambda: ctypes.string_at(0), "ChildDied: its process was killed by SIGSEGV;"),
    "kill": (lambda: os.kill(os.getpid(), signal.SIGKILL), "ChildDied: its process was killed by SIGKILL "),
    "memory": (exhaust, "MemoryError: the attempt has reached its memory_limit of 67,108,864 bytes"),
    "endless": (endless, "TimeoutError: the attempt took longer than its timeout of 0.3 s"),
}
"""What each does, and what its error says of it."""

LEASE = 20
"""Seconds, for jobs that must not be lost however little of the machine their worker gets, or whose loss its death must tell of."""

DEADLY = {"exit": 13, "segfault": -signal.SIGSEGV, "kill": -signal.SIGKILL}
"""Those that end the process that they run in, and how that ends."""


def register(app: App) -> None:
    """Make tasks of them all; and two that do no harm, in a process of their own and in the worker's."""
    for name, (harm, _) in POISONS.items():
        app.task(
            name=f"isolated.{name}",
            isolation="process",
            max_attempts=2,
            lease=LEASE,
            memory_limit=64 << 20 if name == "memory" else None,
            timeout=0.3 if name == "endless" else None,
        )(_plain(harm))
    for name in DEADLY:
        app.task(name=f"deadly.{name}", lease=LEASE)(_async(POISONS[name][0]))

    @app.task(name="isolated.quick", isolation="process", lease=LEASE)
    def quick(number: int) -> int:
        return number

    @app.task(name="own.quick", lease=LEASE)
    async def own(number: int) -> int:
        return number


def _plain(harm: Callable[[], object]) -> Callable[[], None]:
    def function() -> None:
        harm()

    return function


def _async(harm: Callable[[], object]) -> Callable[[], Coroutine[Any, Any, None]]:
    async def function() -> None:
        harm()

    return function
