"""`serve` runs the dashboard of a store on an address until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import uvicorn

from tenure.errors import InvalidOption
from tenure.observe.http import listener
from tenure.web.access import Role
from tenure.web.site import dashboard

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["LOOPBACK", "serve"]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
"""Hosts that only programs on this machine can reach."""


async def serve(
    app: App,
    *,
    host: str,
    port: int,
    root_path: str,
    allowed_hosts: Collection[str],
    tokens: Mapping[Role, str],
    operate: bool,
    started: Callable[[str], None],
    **options: Any,
) -> None:
    """Serve the dashboard until a signal stops it. Calls `started` with the address to open.

    Without tokens it draws a key for this time, which the address carries, and refuses every address but this machine's own.
    """
    key = ""
    if not tokens:
        if host not in LOOPBACK:
            raise InvalidOption(
                f"a dashboard on {host} needs tokens: set TENURE_DASHBOARD_READ_TOKEN or TENURE_DASHBOARD_OPERATE_TOKEN, or "
                "serve it on 127.0.0.1"
            )
        key = secrets.token_urlsafe(24)
        role: Role = "operate" if operate else "read"
        tokens = {role: key}
    made = dashboard(app, tokens=tokens, allowed_hosts=[*LOOPBACK, *allowed_hosts], **options)
    listening: socket.socket = listener(host, port, "--port")
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(
        made,
        log_config=None,
        access_log=False,
        root_path=root_path,
        lifespan="on",
        timeout_graceful_shutdown=2,
        server_header=False,
        date_header=False,
    )
    server = uvicorn.Server(config)
    shown = "127.0.0.1" if host in LOOPBACK else host
    actual = listening.getsockname()[1]
    started(f"http://{shown}:{actual}{root_path}/" + (f"?key={key}" if key else ""))
    try:
        await server.serve(sockets=[listening])
    except asyncio.CancelledError:
        await made.aclose()
        raise
