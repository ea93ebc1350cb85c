"""`WorkerHealth`: whether a worker makes progress, and a small HTTP server that reports it.

A worker is healthy if its loop has settled and leased within the last seconds. The heartbeat of its keeper says nothing
about that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable
from http import HTTPStatus
from time import monotonic
from typing import NoReturn

from tenure.errors import InvalidOption
from tenure.worker.outage import Outage

__all__ = ["WorkerHealth", "listener", "serve"]

STUCK_POLLS, STUCK_SECONDS = 3, 2.0
"""The loop is stuck if its last round trip is older than `STUCK_POLLS` times its `poll` interval plus `STUCK_SECONDS` seconds."""

ERROR_SHOWN = 200
"""Characters of the store's error message that are shown at most."""

REQUEST_WITHIN = 2.0
"""Seconds within which a client must have sent its request."""


class WorkerHealth:
    """Progress of a worker's loop. The loop writes it; the keeper reads it, on its own thread."""

    def __init__(self, outage: Outage, poll: float) -> None:
        self.paused = False
        """Whether the worker is paused."""

        self.stopping = False
        self._outage = outage
        self._recent = STUCK_POLLS * poll + STUCK_SECONDS
        self._round_done_at = monotonic()

    def round_done(self) -> None:
        """Record that the loop has completed a round trip, or had no reason to make one."""
        self._round_done_at = monotonic()

    def trouble(self, *, registered: bool, blocked_by: str | None) -> str:
        """What keeps the worker from leasing jobs, as a phrase for people; empty if it can.

        `blocked_by` names the job that blocks the event loop now; None if none does.
        """
        if self.stopping:
            return "it is stopping"
        if self.paused:
            return "it is paused"
        stuck_for, down_for = monotonic() - self._round_done_at, self._outage.down_for
        stuck = stuck_for > self._recent
        if stuck and blocked_by is not None:
            return f"{blocked_by} has blocked the event loop for {stuck_for:.0f} s"
        # Also when the loop makes rounds because it has nothing to ask: its slots are full, or there is no queue.
        if down_for is not None and (stuck or down_for > self._recent):
            return f"the store has been down for {down_for:.0f} s: {self._outage.last_error[:ERROR_SHOWN]}"
        if stuck:
            return f"its loop has made no progress for {stuck_for:.0f} s"
        return "" if registered else "it is not registered"


def listener(host: str, port: int) -> socket.socket:
    """A listening socket for health requests. Raises `InvalidOption` if the port cannot be used."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InvalidOption(
            f"health_port {port} on {host} cannot be used: {error.strerror or error}; choose another"
        ) from error


async def serve(listening: socket.socket, report: Callable[[], dict[str, object]]) -> NoReturn:
    """Answer HTTP requests, whatever their path: status 200 if `report` has no trouble, else 503.

    Runs until cancelled.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(REQUEST_WITHIN):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(report()))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, sock=listening, limit=8192)
    async with server:
        while True:
            await server.serve_forever()


def _response(report: dict[str, object]) -> bytes:
    status = HTTPStatus.SERVICE_UNAVAILABLE if report["trouble"] else HTTPStatus.OK
    body = json.dumps(report).encode() + b"\n"
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
