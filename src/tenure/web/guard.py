"""`Guard` wraps the dashboard: refuses foreign hosts, forged and oversized requests, and sets the headers of every answer."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Guard", "forged"]

URL_BYTES = 8_000
"""Bytes of a path with its query, at most."""

BODY_BYTES = 1 << 20
"""Bytes of a request's body, at most."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types tenure"
)
"""Nothing from elsewhere, no inline script or style; HTML from the live stream goes through one policy of our own."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Guard:
    """An ASGI app that lets through what a browser on an allowed host may send."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        """`hosts`: names that the dashboard answers to, with or without a port; empty: all."""
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            return await PlainTextResponse(*refusal)(scope, receive, self._with_headers(send))
        return await self._app(scope, _limited(receive), self._with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[str, int] | None:
        host = headers.get("host", "").lower()
        if self._hosts and host not in self._hosts and host.rpartition(":")[0] not in self._hosts:
            return f"this dashboard does not answer to {host[:100]!r}: start it with --allow-host\n", 421
        if len(scope["raw_path"] if "raw_path" in scope else scope["path"]) + len(scope["query_string"]) > URL_BYTES:
            return "the address is too long\n", 414
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > BODY_BYTES:
            return "the request is too large\n", 413
        return None

    def _with_headers(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        return sending


def _limited(receive: Receive) -> Receive:
    """The same body, which ends as if the client had gone once it is larger than it may be."""
    received = 0

    async def receiving() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        return {"type": "http.disconnect"} if received > BODY_BYTES else message

    return receiving


def forged(headers: Headers, scheme: str) -> bool:
    """Whether a request that changes something may come from a page of another site."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site != "same-origin"
    origin = headers.get("origin")
    if origin is None:
        return True
    parts = urlsplit(origin)
    return parts.scheme not in {scheme, "https"} or parts.netloc.lower() != headers.get("host", "").lower()
