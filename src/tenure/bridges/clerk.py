"""`Clerk`: writes the starts and ends of jobs to the other system, in order, until it has them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from tenure.bridges.custody import Begun, End, Stopped
from tenure.bridges.foreign import Foreign, ForeignError
from tenure.core.failure import describe_exception
from tenure.core.job import State

__all__ = ["Clerk"]

T = TypeVar("T", Begun, End, Stopped)

log = logging.getLogger("tenure.bridges")

BATCH = 200
"""Ends that one call writes at most."""


class Clerk:
    """Collects what happens to jobs and writes it in batches. No job waits for it.

    What could not be written stays here and is tried again: an end is dropped only once the other system has it.
    """

    def __init__(self, foreign: Foreign, owner: Callable[[], str]) -> None:
        self._foreign = foreign
        self._owner = owner
        self._ends: dict[str, End] = {}
        self._begun: dict[str, Begun] = {}
        self._stopped: dict[str, Stopped] = {}
        self._noticed = asyncio.Event()
        self._writing = asyncio.Lock()
        self.written = 0
        """Number of ends that it has written. Each may have put an entry into another queue there."""

    @property
    def pending(self) -> bool:
        """Whether the end of a job has not been written yet."""
        return bool(self._ends)

    def has_end_of(self, job_id: str) -> bool:
        """Whether the end of this job is waiting to be written."""
        return job_id in self._ends

    def began(self, begun: Begun) -> None:
        """Write that a job has started."""
        self._begun[begun.id] = begun
        self._noticed.set()

    def stopped(self, stopped: Stopped) -> None:
        """Write that a job no longer runs, and will run again."""
        if self._begun.pop(stopped.id, None) is None:
            self._stopped[stopped.id] = stopped
            self._noticed.set()

    def ended(self, end: End) -> None:
        """Write that a job is final."""
        self._begun.pop(end.id, None)  # its start was not written yet, and need not be
        self._stopped.pop(end.id, None)
        self._ends[end.id] = end
        self._noticed.set()

    async def work(self) -> float:
        """Wait for something to write, and write it. Returns the seconds until the next call."""
        await self._noticed.wait()
        self._noticed.clear()
        try:
            await self.write()
        except Exception:
            self._noticed.set()
            raise
        return 0.0

    async def write(self) -> None:
        """Write everything that there is. Raises the other system's error; what was not written stays."""
        async with self._writing:
            while self._ends or self._begun or self._stopped:
                ends = list(self._ends.values())[:BATCH]
                begun: list[Begun] = []
                stopped: list[Stopped] = []
                if len(ends) == len(self._ends):
                    # After all ends, because an end clears the record of its slot, which may be at work on another job by now.
                    begun, stopped = list(self._begun.values()), list(self._stopped.values())
                await self._write(ends, begun, stopped)
                self.written += len(ends)
                _forget(self._ends, ends)
                _forget(self._begun, begun)
                _forget(self._stopped, stopped)

    async def _write(self, ends: Sequence[End], begun: Sequence[Begun], stopped: Sequence[Stopped]) -> None:
        """Write these. An end that has no form in the other system is written as a failure, and holds up no other."""
        try:
            await self._foreign.record(self._owner(), ends, begun, stopped)
        except ForeignError:
            raise
        except Exception as error:
            log.exception("cannot write the ends of %d jobs: each is tried alone", len(ends))
            for end in ends:
                await self._write_alone(end, error)
            if begun or stopped:
                await self._foreign.record(self._owner(), (), begun, stopped)

    async def _write_alone(self, end: End, error: Exception) -> None:
        try:
            await self._foreign.record(self._owner(), [end], (), ())
        except ForeignError:
            raise
        except Exception:
            log.exception("cannot write the end of job %s: it is written as failed", end.id)
            failed = End(end.id, State.FAILED, error=describe_exception(error), slot=end.slot)
            await self._foreign.record(self._owner(), [failed], (), ())


def _forget(kept: dict[str, T], written: Sequence[T]) -> None:
    """Drop what was written, unless a newer notice of the same job has taken its place meanwhile."""
    for each in written:
        if kept.get(each.id) is each:
            del kept[each.id]
