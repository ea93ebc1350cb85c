"""What a benchmark needs of a store: a fresh one, and what its bare engine does in a plain Python loop, with no feature on top.

The bare engine is the ceiling that Tenure's figures are compared with, in the same run and on the same machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Engine(ABC):
    """One kind of store. Rates are jobs per second."""

    name: str
    bars: Mapping[str, str]
    """What each figure is to reach, in words."""

    batch = 64
    """Jobs to a step of the bare drain."""

    @abstractmethod
    def fresh(self) -> str:
        """The URL of a store that nobody has used."""

    @abstractmethod
    def enqueue(self, number: int) -> float:
        """Jobs one by one, acknowledged as Tenure's are, from blocking code."""

    async def aenqueue(self, number: int) -> float:
        """The same from an event loop, where that is another thing."""
        return self.enqueue(number)

    @abstractmethod
    def enqueue_bulk(self, number: int) -> float:
        """Jobs a thousand at a time."""

    @abstractmethod
    def drain(self, number: int) -> float:
        """Settle and lease a batch in one step, decode, await a no-op, and so on."""

    @abstractmethod
    def floor(self, number: int) -> list[float]:
        """Seconds from storing a job until another process, woken for it, has it."""

    async def orders(
        self,
        number: int,  # noqa: ARG002
        also: Callable[[Any], Awaitable[object]] | None = None,  # noqa: ARG002
    ) -> tuple[float, float] | None:
        """Seconds and round trips of one of a caller's own transactions: a row is inserted, and what else is done on the connection.

        None from a store that has no transactions of others.
        """
        return None

    def cpu(self) -> float:
        """Seconds of processor time that the server has used so far; an embedded store has none."""
        return 0.0

    def calls(self) -> int | None:
        """Commands that the server has been sent so far."""
        return None

    @contextmanager
    def watched(self) -> Iterator[dict[str, float]]:
        """Note meanwhile how long another client waits at most, and how long the server is at one step, in seconds."""
        yield {}

    @abstractmethod
    def bytes_used(self, url: str) -> int:
        """Memory or disk that the store of this URL takes."""

    def close(self) -> None:  # noqa: B027  (an embedded store has nothing to let go of)
        """Let go of the server."""


@contextmanager
def other_process(program: str, *arguments: str) -> Iterator[Callable[[], str]]:
    """Run a program of this folder that says `ready` and then a line whenever it has something; gives what reads a line."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / program), *arguments],
        env=os.environ | {"PYTHONPATH": str(HERE.parent)},  # for the servers of the tests
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip() == "ready"
        yield process.stdout.readline
    finally:
        process.kill()
        process.wait()
