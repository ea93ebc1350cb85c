"""Subscription: listens on one channel of PostgreSQL and reconnects by itself."""

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
"""Seconds without a notification after which the connection is checked."""

PROBE_WITHIN = 1.0
"""Seconds within which a notification to itself must arrive."""

PROBE = "probe"


class Subscription:
    """Listens on a channel over a separate connection and passes each payload to `on_message`. Notifications may be lost.

    It first notifies itself, to find out whether notifications arrive at all: some poolers drop them silently.
    """

    def __init__(self, link: Link, channel: str, on_message: Callable[[str], None]) -> None:
        self._link = link
        self._channel = channel
        self._on_message = on_message
        self._probed = asyncio.Event()
        self._decided = asyncio.Event()
        self._lost = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.epoch = 0
        """Incremented each time notifications begin to arrive, after a connect or reconnect."""

    @property
    def is_live(self) -> bool:
        """Whether notifications arrive at the moment."""
        return self._probed.is_set()

    async def open(self, within: float = PROBE_WITHIN) -> None:
        """Start listening, and wait at most `within` seconds until it is known whether notifications arrive."""
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
            self._lost.clear()
            connection.add_termination_listener(lambda _: self._lost.set())
            async with asyncio.timeout(self._link.address.timeout):
                await connection.add_listener(self._channel, self._receive)
            await self._probe()
            while not await self._wait_until_lost(connection):
                pass
        finally:
            connection.terminate()

    async def _probe(self) -> None:
        await self._link.fetch("SELECT pg_notify($1, $2)", self._channel, PROBE)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROBE_WITHIN):
                await self._probed.wait()
        self._decided.set()

    async def _wait_until_lost(self, connection: Connection) -> bool:
        """Wait for up to `SILENCE` seconds and check the connection. Returns whether it is lost."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SILENCE):
                await self._lost.wait()
                return True
        async with asyncio.timeout(self._link.address.timeout):
            await connection.fetchval("SELECT 1")
        return False

    def _receive(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        if payload == PROBE:
            self.epoch += not self._probed.is_set()
            self._probed.set()
        else:
            self._on_message(str(payload))
