"""`routes_of` lists what the dashboard answers to: pages, live streams, actions, the JSON API, the login, files."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route, compile_path

from tenure.errors import InvalidName, InvalidOption, StoreError, TenureError
from tenure.web.access import Session, TooManyFailures
from tenure.web.actions import ACTIONS, Refused, perform
from tenure.web.api import api_route
from tenure.web.entrance import (
    TOO_MANY_FAILURES,
    local,
    log_in,
    login,
    logout,
    path_of,
    refused_to_look,
    root_of,
    set_cookie,
    while_allowed,
)
from tenure.web.guard import UnreadableForm, check_query, forged, form_of
from tenure.web.page import Address, Page, Region
from tenure.web.pages import PAGES
from tenure.web.pages.problem import ProblemView
from tenure.web.rail import RailEntry, rail_of
from tenure.web.schedule_actions import pages_of_form
from tenure.web.searching import suggestions_of, summary_of_queues, target_of
from tenure.web.topics import Rendered, TooMany

if TYPE_CHECKING:
    from tenure.web.page import PageFunction
    from tenure.web.site import Site

__all__ = ["routes_of"]

Handler = Callable[["Site", Request, Session], Awaitable[Response]]

SAID = "tenure_said"
"""Cookie with what the last action has done, for the next page."""

KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "png": "image/png"}
"""Media types of static files. The tables of operating systems differ, and a script of another type does not run."""

_PATTERNS = [(compile_path(path)[0], function) for path, function in PAGES.items()]


def routes_of(site: Site) -> list[Route]:
    """All routes of a dashboard."""
    pages = [Route(path, _for_viewers(site, _show)) for path in PAGES]
    return [
        Route("/healthz", functools.partial(_healthz, site)),
        Route("/static/{version}/{name}", functools.partial(_static, site)),
        Route("/login", functools.partial(login, site), methods=["GET", "POST"]),
        Route("/logout", functools.partial(logout, site), methods=["POST"]),
        Route("/live", _for_viewers(site, _live)),
        Route("/search", _for_viewers(site, _search)),
        Route("/suggestions", _for_viewers(site, _suggestions)),
        Route("/actions/{action}", _for_viewers(site, _act), methods=["POST"]),
        api_route(site),
        *pages,
        Route("/{path:path}", _for_viewers(site, _missing)),
    ]


# Who asks.


def _for_viewers(site: Site, handle: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Answer only those who may look. Others get the login form, or 401."""

    async def endpoint(request: Request) -> Response:
        access = site.access
        if access.key_holder and "key" in request.query_params and request.method in {"GET", "HEAD"}:
            return log_in(site, request, request.query_params["key"], access.key_holder, path_of(request))
        visitor = request.state.visitor = access.visitor_id(request) or ""
        try:
            session = await access.session(request)
        except TooManyFailures:
            return PlainTextResponse(TOO_MANY_FAILURES, 429, {"Retry-After": "60"})
        if session is None:
            return refused_to_look(site, request)
        response = await handle(site, request, session)
        if visitor:
            set_cookie(response, request, access.cookie, visitor)
        return response

    return endpoint


# Pages.


async def _show(site: Site, request: Request, session: Session) -> Response:
    at = _address(request, session)
    page = await build(site, at)
    said = request.cookies.get(SAID, "")
    html = await _html(site, page, at, site.access.opened(said, session))
    response = HTMLResponse(html.replace(site.placeholder, session.csrf), page.status)
    if said:
        response.delete_cookie(SAID, path=at.root or "/")
    return response


async def _html(site: Site, page: Page, at: Address, said: str) -> str:
    """The whole page, with the placeholder where the viewer's form token goes."""
    more = {"said": said, "live": site.live, "now": site.now()}
    return site.renderer.page(page, at, rail=await _rail(site, page), csrf=site.placeholder, **more)


async def build(site: Site, at: Address) -> Page:
    """The page at this address; a page that says what is wrong if it cannot be built."""
    function = page_function(at.path)
    try:
        check_query(at.query)
        if function is None:
            return _problem("Nothing is here", "There is no page at this address.", 404)
        return await function(site, at)
    except (InvalidOption, InvalidName, StoreError) as error:
        return problem_of(error)


def problem_of(error: TenureError) -> Page:
    """A page that says why another cannot be built."""
    if isinstance(error, StoreError):
        return _problem("The store does not answer", f"{error}.".replace("?.", "?"), 503)
    return _problem("That cannot be shown", f"{error}.", 400)


async def _rail(site: Site, page: Page) -> tuple[RailEntry, ...]:
    """The rail with its counts; without them if the store does not answer."""
    try:
        return rail_of(None if page.status == 503 else await site.snapshot())
    except StoreError:
        return rail_of(None)


def page_function(path: str) -> PageFunction | None:
    """The function that builds the page at this path."""
    return next((function for pattern, function in _PATTERNS if pattern.match(path)), None)


def _problem(title: str, sentence: str, status: int) -> Page:
    view = ProblemView(title, sentence, away=status == 503)
    return Page(title=title, kind="problem", regions=(Region("problem", "problem.html", view),), status=status)


async def _missing(site: Site, request: Request, session: Session) -> Response:
    return await _show(site, request, session)


def _address(request: Request, session: Session) -> Address:
    return _address_of(path_of(request), dict(request.query_params), session, root_of(request))


def _address_of(path: str, query: dict[str, str], session: Session, root: str) -> Address:
    names = next((found.groupdict() for pattern, _ in _PATTERNS if (found := pattern.match(path))), {})
    return Address(path, names, query, session.identity, root)


# Live.


async def _live(site: Site, request: Request, session: Session) -> Response:
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")
    topic = request.query_params.get("topic", "/")
    target = Request({"type": "http", "path": "", "query_string": topic.partition("?")[2].encode(), "headers": []})
    at = _address_of(unquote(topic.partition("?")[0]), dict(target.query_params), session, root_of(request))
    key = (at.here, at.root, at.viewer.role, at.viewer.actions)
    try:
        opened = site.topics.open(key, lambda: _rendered(site, at))
    except TooMany:
        return PlainTextResponse("too many pages are open: close some, or start another dashboard\n", 503)
    finish: Callable[[str], str] = lambda text: text.replace(site.placeholder, session.csrf)  # noqa: E731
    last_id = request.headers.get("last-event-id") or request.query_params.get("last", "")
    last_id = last_id if re.fullmatch(r"[0-9a-f]{8}-[0-9]{1,12}", last_id) else ""
    if "poll" in request.query_params:
        return Response(await site.topics.poll(opened, last_id, finish), media_type="application/json")
    stream = while_allowed(site, request, session, site.topics.stream(opened, last_id, finish))
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _rendered(site: Site, at: Address) -> Rendered:
    """The page at this address, for those who have it open. Raises `StoreError` if the store does not answer."""
    check_query(at.query)
    function = page_function(at.path)
    page = _problem("Nothing is here", "", 404) if function is None else await function(site, at)
    html = {region.name: site.renderer.region(region, page, at, csrf=site.placeholder) for region in page.regions}
    rail = site.renderer.rail(page, at, await _rail(site, page))
    summary = summary_of_queues((await site.snapshot()).queues)
    return Rendered(f"{page.title} · {site.title}", html | {"rail": rail}, page.every or 60.0, summary)


async def _suggestions(site: Site, request: Request, session: Session) -> Response:
    """Words for the search box, as JSON."""
    del request, session
    snapshot = await site.snapshot()
    return JSONResponse(suggestions_of(snapshot.queues, snapshot.workers))


# Searching and acting.


async def _search(site: Site, request: Request, session: Session) -> Response:
    try:
        target = await target_of(site, request.query_params.get("q", "").replace("\0", ""))
    except TenureError as error:
        page = problem_of(error)
        html = await _html(site, page, _address(request, session), "")
        return HTMLResponse(html.replace(site.placeholder, session.csrf), page.status)
    return RedirectResponse(root_of(request) + target, 303)


async def _act(site: Site, request: Request, session: Session) -> Response:
    try:
        form = await form_of(request)
    except UnreadableForm as error:
        return PlainTextResponse(f"{error}\n", 400)
    action = request.path_params["action"]
    if not session.by_token and (
        forged(request.headers, request.scope["scheme"]) or not session.sent_by(form.get("csrf", [""])[0])
    ):
        return PlainTextResponse("this form is too old, or came from another site: load the page again\n", 403)
    if action not in ACTIONS:
        return PlainTextResponse("there is no such action\n", 404)
    if not session.identity.may(action):
        return PlainTextResponse(f"{session.identity.name} may not {action}: ask for the role operate\n", 403)
    pages = pages_of_form(action, form)
    if pages is not None and "preview" in form:
        site.keep_draft(session.identity, pages.form, pages.sent)
        return RedirectResponse(root_of(request) + pages.form, 303)
    try:
        said = await perform(site, session.identity, action, form)
    except StoreError as error:
        return PlainTextResponse(f"{error}\n", 503)
    except (Refused, TenureError) as error:
        said = f"! {error}"
        if "draft" in form:
            form["back"] = form["draft"]
            site.keep_draft(session.identity, form["draft"][0], form.get("written", [""])[0])
        elif pages is not None:
            form["back"] = [pages.form]
            site.keep_draft(session.identity, pages.form, f"{pages.sent}&refused=1")
    else:
        form["back"] = [pages.after] if pages is not None else form.get("back", ["/"])
    response = RedirectResponse(root_of(request) + local(form.get("back", ["/"])[0]), 303)
    set_cookie(response, request, SAID, site.access.sealed(said, session), 60)
    return response


# Other answers.


async def _healthz(site: Site, request: Request) -> Response:
    del request
    try:
        # Anyone may ask, so the store is asked once a second at most.
        await site.recent.get("healthz", 1.0, lambda: site.read(site.store.layout()))
    except StoreError:
        return PlainTextResponse("the store does not answer\n", 503)
    return PlainTextResponse("ok\n")


async def _static(site: Site, request: Request) -> Response:
    found = site.renderer.static.get(request.path_params["name"])
    if found is None or request.path_params["version"] != site.renderer.version:
        return PlainTextResponse("no such file\n", 404)
    kind = KINDS.get(request.path_params["name"].rpartition(".")[2], "application/octet-stream")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(found, media_type=kind, headers=headers)
