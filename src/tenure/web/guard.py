"""`Guard` wraps the dashboard: refuses foreign hosts and oversized requests, and sets the headers of every answer."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenure.core.checks import refused

__all__ = ["Guard", "UnreadableForm", "check_query", "forged", "form_of", "problem"]

URL_BYTES = 8_000
"""Bytes of a path with its query, at most."""

BODY_BYTES = 1 << 20
"""Bytes of a request's body, at most."""

FIELDS = 2_000
"""Fields of a form, at most: a page of jobs has 200."""

VALUE_BYTES = 200
"""Bytes of a parameter in the address, at most."""

CURSOR_BYTES = 2_000
"""Bytes of a cursor, which the store has made, at most."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types tenure"
)
"""Nothing from elsewhere, no inline script or style; HTML from the live stream goes through one policy of our own."""

TOO_LARGE = "the request is too large"

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
        refusal = self._refusal(scope, Headers(scope=scope))
        sending = self._with_headers(send)
        if refusal is not None:
            sentence, status = refusal
            below = str(scope["path"]).removeprefix(str(scope.get("root_path", "")).rstrip("/"))
            is_api = below.startswith("/api/")
            answer = problem(status, sentence) if is_api else PlainTextResponse(f"{sentence}\n", status)
            return await answer(scope, receive, sending)
        return await self._app(scope, _limited(receive), sending)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[str, int] | None:
        host = headers.get("host", "").lower()
        if self._hosts and host not in self._hosts and _without_port(host) not in self._hosts:
            return f"this dashboard does not answer to {host!r:.100}: start it with --allow-host", 421
        if len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"]) > URL_BYTES:
            return "the address is too long", 414
        length = headers.get("content-length", "0")
        if not re.fullmatch(r"[0-9]{1,10}", length) or int(length) > BODY_BYTES:
            return TOO_LARGE, 413
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


def problem(
    status: int, sentence: str, headers: Mapping[str, str] | None = None, *, count: int | None = None
) -> Response:
    """The answer of the JSON API to what it refuses (RFC 9457)."""
    document: dict[str, object] = {"title": HTTPStatus(status).phrase, "status": status, "detail": sentence}
    if count is not None:
        document["count"] = count
    return Response(json.dumps(document), status, headers, "application/problem+json")


def _without_port(host: str) -> str:
    """The name in a Host header; an IPv6 address keeps its brackets."""
    name, sign, port = host.rpartition(":")
    return name if sign and port.isdecimal() and port.isascii() else host


def _limited(receive: Receive) -> Receive:
    """The same body, of which no more is read than it may have: a body without a length can be of any size."""
    received = 0

    async def receiving() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > BODY_BYTES:
            raise HTTPException(413, TOO_LARGE)
        return message

    return receiving


def forged(headers: Headers, scheme: str) -> bool:
    """Whether a request that changes something may come from a page of another site."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site != "same-origin"
    try:
        origin = urlsplit(headers.get("origin", ""))
    except ValueError:
        return True
    # A proxy may end the encryption: its pages are https, while this program is asked by http.
    return origin.scheme not in {scheme, "https"} or origin.netloc.lower() != headers.get("host", "").lower()


class UnreadableForm(Exception):
    """The body of a request is no form; the message says why, as a sentence."""


async def form_of(request: Request) -> dict[str, list[str]]:
    """The fields of a form that a browser has sent. `UnreadableForm` for files, and for too many fields."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise UnreadableForm("forms are sent as application/x-www-form-urlencoded")
    try:
        pairs = parse_qsl((await request.body()).decode("latin-1"), keep_blank_values=True, max_num_fields=FIELDS)
    except ValueError:
        raise UnreadableForm(f"a form has at most {FIELDS:,} fields") from None
    form: dict[str, list[str]] = {}
    for name, value in pairs:
        form.setdefault(name, []).append(value)
    return form


def check_query(query: Mapping[str, str]) -> None:
    """Refuse parameters that no page means, with `InvalidOption`: too long, or with control characters."""
    for name, value in query.items():
        most = CURSOR_BYTES if name == "cursor" else VALUE_BYTES
        if len(name) > VALUE_BYTES or len(value.encode(errors="replace")) > most:
            raise refused(name[:40], f"at most {most} bytes", value)
        if name == "limit" and not re.fullmatch(r"[0-9]{1,9}", value):
            raise refused("limit", "an integer from 1 to 200", value)
        if re.search(r"[\x00-\x1f\x7f]", name + value):
            raise refused(name[:40], "a text without control characters", value)
