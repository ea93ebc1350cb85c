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

WILDCARDS = ("0.0.0.0", "::", "[::]")  # noqa: S104 - to tell these from the others
"""Hosts that mean every address of this machine, and are the name of none."""

PERIOD = 2
"""Seconds that requests have to end when the dashboard is stopped."""


async def serve(
    app: App,
    *,
    host: str,
    port: int,
    root_path: str,
    allowed_hosts: Collection[str],
    proxies: Collection[str],
    tokens: Mapping[Role, str],
    operate: bool,
    who: str,
    started: Callable[[str], None],
    **options: Any,
) -> None:
    """Serve the dashboard until a signal stops it. Calls `started` with the address to open.

    Without tokens it draws a key for this time, which the address carries, and refuses every address but this machine's own. `who`:
    name of the holder of that key, which the audit shows.
    `proxies`: addresses whose X-Forwarded-For and X-Forwarded-Proto headers are believed.
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
    name = _name_of(host, allowed_hosts)
    made = dashboard(app, tokens=tokens, allowed_hosts=[*LOOPBACK, name, *allowed_hosts], **options)
    made.site.access.key_holder = who if key else ""
    listening: socket.socket = listener(host.strip("[]"), port, "--port")
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(
        made,
        log_config=None,
        access_log=False,
        root_path=root_path,
        lifespan="on",
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        timeout_graceful_shutdown=PERIOD,
        server_header=False,
        date_header=False,
    )
    server = uvicorn.Server(config)
    started(f"http://{name}:{listening.getsockname()[1]}{root_path}/" + (f"?key={key}" if key else ""))
    try:
        await server.serve(sockets=[listening])
    except asyncio.CancelledError:
        await made.aclose()
        raise


def _name_of(host: str, allowed_hosts: Collection[str]) -> str:
    """The name by which a browser finds what listens on `host`."""
    if host in WILDCARDS:
        return next(iter(allowed_hosts), LOOPBACK[0])
    return f"[{host.strip('[]')}]" if ":" in host else host
