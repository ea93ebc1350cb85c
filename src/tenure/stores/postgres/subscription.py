"""Hearing what is notified on one channel, connecting again by itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from tenure.core.jitter import full_jitter
from tenure.errors import StoreError
from tenure.stores.postgres.link import BROKEN, Connection, Link

__all__ = ["Subscription"]

SILENCE = 15.0
"""Seconds after which a silent connection is asked whether it still lives."""

PROBE_WITHIN = 1.0
"""Seconds in which a notification of our own must come back."""

PROBE = "probe"


class Subscription:
    """Listens on a channel with a connection of its own; whatever is said there is given to `heard`. Hints may be lost.

    A probe tells whether notifications come through at all: some poolers drop them, silently.
    """

    def __init__(self, link: Link, channel: str, heard: Callable[[str], None]) -> None:
        self._link = link
        self._channel = channel
        self._heard = heard
        self._probed = asyncio.Event()
        self._decided = asyncio.Event()
        self._cut = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.times = 0
        """How often notifications have begun to come through."""

    @property
    def hears(self) -> bool:
        """Whether notifications come through at the moment."""
        return self._probed.is_set()

    async def open(self, within: float = PROBE_WITHIN) -> None:
        """Begin to listen, and wait until it is known whether that works; no longer than so many seconds."""
        if self._task is None:
            if self._link.address.pooled:
                self._decided.set()
            self._task = asyncio.create_task(self._run(), name="tenure-listen")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._decided.wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        tries = 0
        while not self._link.address.pooled:
            try:
                await self._listen()
                tries = 0
            except (StoreError, *BROKEN):
                tries += 1
            finally:
                self._probed.clear()
            await asyncio.sleep(full_jitter(tries, first=0.05, longest=5.0))

    async def _listen(self) -> None:
        """Listen until the connection is lost."""
        connection = await self._link.connect()
        try:
            self._cut.clear()
            connection.add_termination_listener(lambda _: self._cut.set())
            async with asyncio.timeout(self._link.address.timeout):
                await connection.add_listener(self._channel, self._hear)
            await self._probe()
            while not await self._silent(connection):
                pass
        finally:
            connection.terminate()

    async def _probe(self) -> None:
        await self._link.fetch("SELECT pg_notify($1, $2)", self._channel, PROBE)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROBE_WITHIN):
                await self._probed.wait()
        self._decided.set()

    async def _silent(self, connection: Connection) -> bool:
        """Wait for a while; whether the connection is lost."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SILENCE):
                await self._cut.wait()
                return True
        async with asyncio.timeout(self._link.address.timeout):
            await connection.fetchval("SELECT 1")
        return False

    def _hear(self, _connection: Any, _pid: int, _channel: str, said: object) -> None:
        if said == PROBE:
            self.times += not self._probed.is_set()
            self._probed.set()
        else:
            self._heard(str(said))
