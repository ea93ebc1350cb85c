"""Engine: gives a benchmark fresh stores, and measures the bare engine in a plain Python loop with no feature on top.

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
    """The target of each figure, as text."""

    batch = 64
    """Jobs per operation of the bare drain."""

    @abstractmethod
    def fresh(self) -> str:
        """The URL of an unused store."""

    @abstractmethod
    def enqueue(self, number: int) -> float:
        """Enqueue jobs one by one from blocking code, acknowledged as durably as by Tenure."""

    async def aenqueue(self, number: int) -> float:
        """The same from an event loop, if that differs."""
        return self.enqueue(number)

    @abstractmethod
    def enqueue_bulk(self, number: int) -> float:
        """Enqueue jobs, a thousand at a time."""

    @abstractmethod
    def drain(self, number: int) -> float:
        """Settle and lease a batch in one operation, decode each job and await a no-op, until all are done."""

    @abstractmethod
    def floor(self, number: int) -> list[float]:
        """Seconds from the storing of a job until another process, which it wakes, has leased it."""

    async def orders(
        self,
        number: int,  # noqa: ARG002
        also: Callable[[Any], Awaitable[object]] | None = None,  # noqa: ARG002
    ) -> tuple[float, float] | None:
        """Seconds and round trips of one transaction of the caller that inserts a row and calls `also` on the connection.

        None if the store has no callers' transactions.
        """
        return None

    def cpu(self) -> float:
        """Seconds of processor time that the server has used so far; 0 for an embedded store."""
        return 0.0

    def calls(self) -> int | None:
        """Number of commands that the server has received so far; None if unknown."""
        return None

    @contextmanager
    def watched(self) -> Iterator[dict[str, float]]:
        """Measure, during the block, the longest wait of another client and the longest operation of the server, in seconds."""
        yield {}

    @abstractmethod
    def bytes_used(self, url: str) -> int:
        """Bytes of memory or disk that the store of this URL uses."""

    def close(self) -> None:  # noqa: B027  (an embedded store has no server)
        """Stop the server."""


@contextmanager
def other_process(program: str, *arguments: str) -> Iterator[Callable[[], str]]:
    """Run a program of this folder, which prints `ready` and then lines; yields a function that reads the next line."""
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
