"""The entrance of the dashboard: `login`, `logout`, and what those get who may not look."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from tenure.web.access import SESSION_SECONDS, Session, TooManyFailures
from tenure.web.guard import URL_BYTES, UnreadableForm, forged, form_of

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = [
    "TOO_MANY_FAILURES",
    "local",
    "log_in",
    "login",
    "logout",
    "path_of",
    "refused_to_look",
    "root_of",
    "set_cookie",
    "while_allowed",
]

TOO_MANY_FAILURES = "too many wrong tokens came from your address: wait a minute\n"
FOREIGN = "this form is too old, or came from another site: load the page again\n"

CHECKED_EVERY = 60.0
"""Seconds after which the viewer of an open stream is checked again."""


# Where a request goes.


def root_of(request: Request) -> str:
    """Path under which the dashboard is mounted, without a slash at its end."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def path_of(request: Request) -> str:
    """Path below the root. It is not read from `request.url`, which the Host header is part of."""
    path, root = str(request.scope["path"]), root_of(request)
    below = path.removeprefix(root) if path == root or path.startswith(f"{root}/") else path
    return below or "/"


def local(path: str) -> str:
    """A path below the root of this dashboard; `/` for anything that might lead elsewhere."""
    safe = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and len(path) <= URL_BYTES
    return path if safe else "/"


# Coming in and leaving.


def refused_to_look(site: Site, request: Request) -> Response:
    """The login form, or one sentence for programs and for those who cannot log in here."""
    if "text/html" not in request.headers.get("accept", "") or not site.access.has_tokens:
        return PlainTextResponse(
            "you may not look at this dashboard: log in first\n", 401, {"WWW-Authenticate": "Bearer"}
        )
    query = request.scope["query_string"].decode("latin-1")
    # A browser that follows a link of another site, such as a chat, does not send our cookie. It does when our own page asks again.
    again = request.headers.get("sec-fetch-site") == "cross-site"
    return _form(site, request, back=path_of(request) + (f"?{query}" if query else ""), status=401, again=again)


async def login(site: Site, request: Request) -> Response:
    """Show the login form, or log in with it."""
    if not site.access.has_tokens:
        return RedirectResponse(root_of(request) + "/", 303)
    if request.method != "POST":
        return _form(site, request)
    if forged(request.headers, request.scope["scheme"]):
        return PlainTextResponse(FOREIGN, 403)
    try:
        form = await form_of(request)
    except UnreadableForm as error:
        return PlainTextResponse(f"{error}\n", 400)
    token, name, back = (form.get(field, [""])[0].strip() for field in ("token", "name", "back"))
    return log_in(site, request, token, name, back)


def log_in(site: Site, request: Request, token: str, name: str, back: str) -> Response:
    """Begin a session for the holder of this token, and lead to `back`; the form again if the token is wrong."""
    try:
        cookie = site.access.log_in(token, name, request)
    except TooManyFailures:
        return PlainTextResponse(TOO_MANY_FAILURES, 429, {"Retry-After": "60"})
    if cookie is None:
        return _form(site, request, problem="This token is not right.", back=back, status=401)
    response = RedirectResponse(root_of(request) + local(back), 303)
    set_cookie(response, request, site.access.cookie, cookie, int(SESSION_SECONDS))
    return response


async def logout(site: Site, request: Request) -> Response:
    """End the session."""
    if forged(request.headers, request.scope["scheme"]):
        return PlainTextResponse(FOREIGN, 403)
    site.access.log_out(request)
    response = RedirectResponse(root_of(request) + "/login", 303)
    response.delete_cookie(site.access.cookie, path=root_of(request) or "/", httponly=True, samesite="strict")
    return response


def set_cookie(response: Response, request: Request, name: str, value: str, max_age: int | None = None) -> None:
    """Set a cookie that only this dashboard gets, and no script."""
    response.set_cookie(
        name,
        value,
        max_age=max_age,
        path=root_of(request) or "/",
        secure=request.scope["scheme"] == "https",
        httponly=True,
        samesite="strict",
    )


def _form(
    site: Site, request: Request, *, problem: str = "", back: str = "/", status: int = 200, again: bool = False
) -> Response:
    """The login form; with `again`, the browser first asks once more by itself."""
    root = root_of(request)
    html = site.renderer.template("login.html", root=root, problem=problem, back=local(back), again=again)
    return HTMLResponse(html, status)


# Staying.


async def while_allowed(
    site: Site, request: Request, session: Session, stream: AsyncIterator[str]
) -> AsyncIterator[str]:
    """The same stream, which ends when its viewer may not look any more, or may do something else than before."""
    checked_at = time.monotonic()
    async for text in stream:
        yield text
        if time.monotonic() - checked_at >= CHECKED_EVERY:
            checked_at = time.monotonic()
            if await site.access.session(request) != session:
                return
