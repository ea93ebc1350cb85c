"""`routes_of` lists what the dashboard answers to: pages, their live streams, actions, the login, static files."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from mimetypes import guess_type
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, compile_path

from tenure.errors import InvalidName, InvalidOption, StoreError, TenureError
from tenure.web.access import COOKIE, SESSION_SECONDS, Session
from tenure.web.actions import ACTIONS, Refused, perform
from tenure.web.guard import forged
from tenure.web.page import Address, Page, Region
from tenure.web.pages import PAGES
from tenure.web.pages.problem import ProblemView
from tenure.web.schedule_actions import pages_of_form
from tenure.web.searching import target_of
from tenure.web.topics import Rendered, TooMany

if TYPE_CHECKING:
    from tenure.web.page import PageFunction
    from tenure.web.site import Site

__all__ = ["routes_of"]

Handler = Callable[["Site", Request, Session], Awaitable[Response]]

SAID = "tenure_said"
"""Cookie with what the last action has done, for the next page."""

_PATTERNS = [(compile_path(path)[0], function) for path, function in PAGES.items()]


def routes_of(site: Site) -> list[Route]:
    """All routes of a dashboard."""
    pages = [Route(path, _for_viewers(site, _show)) for path in PAGES]
    return [
        Route("/healthz", functools.partial(_healthz, site)),
        Route("/static/{version}/{name}", functools.partial(_static, site)),
        Route("/login", functools.partial(_login, site), methods=["GET", "POST"]),
        Route("/logout", functools.partial(_logout, site), methods=["POST"]),
        Route("/live", _for_viewers(site, _live)),
        Route("/search", _for_viewers(site, _search)),
        Route("/actions/{action}", _for_viewers(site, _act), methods=["POST"]),
        *pages,
        Route("/{path:path}", _for_viewers(site, _missing)),
    ]


# Who asks.


def _for_viewers(site: Site, handle: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Answer only those who may look. Others get the login form, or 401."""

    async def endpoint(request: Request) -> Response:
        if "key" in request.query_params and site.access.has_tokens:
            return _log_in(site, request, request.query_params["key"], "", request.url.path)
        visitor = request.state.visitor = site.access.visitor_id(request) or ""
        session = await site.access.session(request)
        if session is None:
            return _refused_to_look(site, request)
        response = await handle(site, request, session)
        if visitor:
            _set_cookie(response, request, COOKIE, visitor)
        return response

    return endpoint


def _refused_to_look(site: Site, request: Request) -> Response:
    wants_page = "text/html" in request.headers.get("accept", "")
    if not wants_page or not site.access.has_tokens:
        return PlainTextResponse("you may not look at this dashboard: log in first\n", 401)
    html = site.renderer.template("login.html", root=_root(request), problem="", back=_here(request))
    return HTMLResponse(html, 401)


async def _login(site: Site, request: Request) -> Response:
    if not site.access.has_tokens:
        return RedirectResponse(_root(request) + "/", 303)
    if request.method == "GET":
        html = site.renderer.template("login.html", root=_root(request), problem="", back="/")
        return HTMLResponse(html)
    if forged(request.headers, request.url.scheme):
        return PlainTextResponse("this form came from another site\n", 403)
    form = await request.form()
    back = str(form.get("back", "/"))
    return _log_in(site, request, str(form.get("token", "")), str(form.get("name", "")), back)


def _log_in(site: Site, request: Request, token: str, name: str, back: str) -> Response:
    address = request.client.host if request.client else ""
    try:
        cookie = site.access.log_in(token.strip(), name.strip(), address)
    except PermissionError as error:
        return PlainTextResponse(f"{error}\n", 429)
    if cookie is None:
        html = site.renderer.template("login.html", root=_root(request), problem="This token is not right.", back=back)
        return HTMLResponse(html, 401)
    response = RedirectResponse(_root(request) + (_local(back.removeprefix(_root(request)))), 303)
    _set_cookie(response, request, COOKIE, cookie, int(SESSION_SECONDS))
    return response


async def _logout(site: Site, request: Request) -> Response:
    del site
    response = RedirectResponse(_root(request) + "/login", 303)
    response.delete_cookie(COOKIE, path=_root(request) or "/")
    return response


def _set_cookie(response: Response, request: Request, name: str, value: str, max_age: int | None = None) -> None:
    secure = request.url.scheme == "https"
    response.set_cookie(
        name, value, max_age=max_age, path=_root(request) or "/", secure=secure, httponly=True, samesite="strict"
    )


# Pages.


async def _show(site: Site, request: Request, session: Session) -> Response:
    at = _address(request, session)
    page = await build(site, at)
    said = request.cookies.get(SAID, "")
    html = site.renderer.page(page, at, csrf=site.placeholder, said=_decoded(said))
    response = HTMLResponse(html.replace(site.placeholder, session.csrf), page.status)
    if said:
        response.delete_cookie(SAID, path=at.root or "/")
    return response


async def build(site: Site, at: Address) -> Page:
    """The page at this address; a page that says what is wrong if it cannot be built."""
    function = page_function(at.path)
    try:
        if function is None:
            return _problem("Nothing is here", "There is no page at this address.", 404)
        return await function(site, at)
    except (InvalidOption, InvalidName) as error:
        return _problem("That cannot be shown", f"{error}.", 400)
    except StoreError as error:
        return _problem("The store does not answer", f"{error}.", 503)


def page_function(path: str) -> PageFunction | None:
    """The function that builds the page at this path."""
    return next((function for pattern, function in _PATTERNS if pattern.match(path)), None)


def _problem(title: str, sentence: str, status: int) -> Page:
    view = ProblemView(title, sentence, away=status == 503)
    return Page(title=title, kind="problem", regions=(Region("problem", "problem.html", view),), status=status)


async def _missing(site: Site, request: Request, session: Session) -> Response:
    return await _show(site, request, session)


def _address(request: Request, session: Session) -> Address:
    root = _root(request)
    path = request.url.path.removeprefix(root) or "/"
    return _address_of(path, dict(request.query_params), session, root)


def _address_of(path: str, query: dict[str, str], session: Session, root: str) -> Address:
    names = next((found.groupdict() for pattern, _ in _PATTERNS if (found := pattern.match(path))), {})
    return Address(path, names, query, session.identity, root)


# Live.


async def _live(site: Site, request: Request, session: Session) -> Response:
    topic = request.query_params.get("topic", "/")
    target = Request({"type": "http", "path": "", "query_string": topic.partition("?")[2].encode(), "headers": []})
    at = _address_of(topic.partition("?")[0], dict(target.query_params), session, _root(request))
    key = (at.here, at.root, at.viewer.role, at.viewer.actions)
    try:
        opened = site.topics.open(key, lambda: _rendered(site, at))
    except TooMany:
        return PlainTextResponse("too many pages are open: close some, or start another dashboard\n", 503)
    finish: Callable[[str], str] = lambda text: text.replace(site.placeholder, session.csrf)  # noqa: E731
    last_id = request.headers.get("last-event-id") or request.query_params.get("last", "")
    stream = site.topics.stream(opened, last_id, finish)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _rendered(site: Site, at: Address) -> Rendered:
    """The page at this address, for those who have it open. Raises `StoreError` if the store does not answer."""
    function = page_function(at.path)
    page = _problem("Nothing is here", "", 404) if function is None else await function(site, at)
    html = {region.name: site.renderer.region(region, page, at, csrf=site.placeholder) for region in page.regions}
    rail = site.renderer.rail(page, at)
    return Rendered(f"{page.title} · {site.title}", html | {"rail": rail}, page.every or 60.0)


# Searching and acting.


async def _search(site: Site, request: Request, session: Session) -> Response:
    del session
    return RedirectResponse(_root(request) + await target_of(site, request.query_params.get("q", "")), 303)


async def _act(site: Site, request: Request, session: Session) -> Response:
    form = {name: [str(value) for value in (await request.form()).getlist(name)] for name in await request.form()}
    action = request.path_params["action"]
    if not session.by_token and (
        forged(request.headers, request.url.scheme) or form.get("csrf", [""])[0] != session.csrf
    ):
        return PlainTextResponse("this form is too old, or came from another site: load the page again\n", 403)
    if action not in ACTIONS:
        return PlainTextResponse("there is no such action\n", 404)
    if not session.identity.may(action):
        return PlainTextResponse(f"{session.identity.name} may not {action}: ask for the role operate\n", 403)
    try:
        said = await perform(site, session.identity, action, form)
    except Refused as error:
        said = f"! {error}"
    except StoreError as error:
        return PlainTextResponse(f"{error}\n", 503)
    except TenureError as error:
        said = f"! {error}"
    pages = pages_of_form(action, form)
    if pages is not None:
        form["back"] = [pages[0] if said.startswith("!") else pages[1]]
    response = RedirectResponse(_root(request) + _local(form.get("back", ["/"])[0].removeprefix(_root(request))), 303)
    _set_cookie(response, request, SAID, said.encode().hex(), 60)
    return response


def _decoded(said: str) -> str:
    try:
        return bytes.fromhex(said).decode()[:500]
    except ValueError:
        return ""


# Other answers.


async def _healthz(site: Site, request: Request) -> Response:
    del request
    try:
        await site.read(site.store.layout())
    except StoreError:
        return PlainTextResponse("the store does not answer\n", 503)
    return PlainTextResponse("ok\n")


async def _static(site: Site, request: Request) -> Response:
    found = site.renderer.static.get(request.path_params["name"])
    if found is None or request.path_params["version"] != site.renderer.version:
        return PlainTextResponse("no such file\n", 404)
    kind = guess_type(request.path_params["name"])[0] or "application/octet-stream"
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(found, media_type=kind, headers=headers)


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")


def _here(request: Request) -> str:
    query = f"?{request.url.query}" if request.url.query else ""
    return request.url.path.removeprefix(_root(request)) + query


def _local(path: str) -> str:
    """A path of this dashboard; `/` for anything that might lead elsewhere."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"
