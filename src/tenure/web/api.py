"""`api_route` is the JSON API of the dashboard: it finds the endpoint of a request, and answers with JSON or a problem.

Below the root of the dashboard, `GET /api/openapi.json` describes these:

| path below `/api/v1` | methods |
|---|---|
| `/overview`, `/health`, `/history`, `/audit`, `/tasks` | GET |
| `/jobs`, `/jobs/{id}`, `/jobs/{id}/explain` | GET |
| `/jobs/actions`, `/jobs/{id}/complete`, `/marks` | POST |
| `/operations/{id}` | GET, DELETE |
| `/runs`, `/runs/{id}`, `/schedules`, `/schedules/{name}` | GET |
| `/queues`, `/queues/{name}` | GET |
| `/queues/{name}/pause`, `/queues/{name}/resume`, `/queues/{name}/purge` | POST |
| `/workers`, `/workers/{id}` | GET |
| `/workers/{id}/quiet`, `/workers/{id}/go_on`, `/workers/{id}/stop`, `/workers/{id}/retire` | POST |
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, compile_path

from tenure.errors import (
    InvalidName,
    InvalidOption,
    InvalidSchedule,
    JobNotFound,
    PayloadError,
    ScheduleNotFound,
    StoreError,
    TenureError,
)
from tenure.web.access import Session, TooManyFailures
from tenure.web.actions import Refused
from tenure.web.endpoints import ENDPOINTS, Accepted, Asked, Endpoint, NotAllowed, NotFound, TooManyFit
from tenure.web.entrance import root_of
from tenure.web.guard import check_query, forged
from tenure.web.openapi import description
from tenure.web.operations import TooManyOperations

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["api_route"]

PREFIX = "/v1"
METHODS = ["GET", "POST", "DELETE", "PUT", "PATCH"]

STATUSES: dict[type[Exception], int] = {
    NotFound: 404,
    NotAllowed: 403,
    TooManyFit: 409,
    TooManyOperations: 429,
    TooManyFailures: 429,
    JobNotFound: 404,
    ScheduleNotFound: 404,
    InvalidOption: 400,
    InvalidName: 400,
    InvalidSchedule: 400,
    PayloadError: 400,
    msgspec.MsgspecError: 400,
    StoreError: 503,
    Refused: 409,
    TenureError: 409,
    ClientDisconnect: 400,
}
"""The status of each error; the first that fits counts."""

_PATTERNS = [(compile_path(PREFIX + each.path)[0], each) for each in ENDPOINTS]


class _Answer(Exception):
    """Ends a request with this status."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers or {}


def api_route(site: Site) -> Route:
    """The route of everything below `/api`."""

    async def answer(request: Request) -> Response:
        try:
            return await _answer(site, request)
        except _Answer as error:
            return _problem(error.status, str(error), error.headers)
        except HTTPException as error:
            return _problem(error.status_code, error.detail)
        except TooManyFailures:
            return _problem(429, "too many wrong tokens: wait a minute", {"Retry-After": "60"})
        except tuple(STATUSES) as error:
            status = next(status for kind, status in STATUSES.items() if isinstance(error, kind))
            return _problem(status, str(error), count=error.count if isinstance(error, TooManyFit) else None)

    return Route("/api/{path:path}", answer, methods=METHODS)


async def _answer(site: Site, request: Request) -> Response:
    session = await site.access.session(request)
    if session is None:
        raise _Answer(401, "say who you are: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})
    path = "/" + request.path_params["path"]
    if path == "/openapi.json" and request.method == "GET":
        return _json(description(ENDPOINTS, f"{root_of(request)}/api{PREFIX}"))
    endpoint, names = _found(request.method, path)
    if request.method != "GET":
        _check_not_forged(request, session)
    query = _query(request, endpoint)
    body = await _body(request, endpoint)
    answer = await endpoint.handle(Asked(site, session.identity, names, query, body))
    if isinstance(answer, Accepted):
        return _json(answer.document, 202, {"Location": f"{root_of(request)}/api{PREFIX}{answer.location}"})
    return _json(answer)


def _found(method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
    matches = [(endpoint, found.groupdict()) for pattern, endpoint in _PATTERNS if (found := pattern.match(path))]
    for endpoint, names in matches:
        if endpoint.method == method:
            return endpoint, names
    if matches:
        allowed = ", ".join(sorted({endpoint.method for endpoint, _ in matches}))
        raise _Answer(405, f"{method} is not possible here, {allowed} is", {"Allow": allowed})
    raise _Answer(404, "there is nothing at this address: /api/openapi.json describes what there is")


def _check_not_forged(request: Request, session: Session) -> None:
    """Refuse a change that a page of another site may have sent. None can make a browser send this header."""
    if request.headers.get("authorization", "")[:7].lower() == "bearer ":
        return
    if forged(request.headers, request.scope["scheme"]) or not session.sent_by(request.headers.get("x-csrf-token", "")):
        raise _Answer(
            403, "send Authorization: Bearer TOKEN, or X-CSRF-Token with the token of a form of this dashboard"
        )


def _query(request: Request, endpoint: Endpoint) -> Any:
    given = dict(request.query_params)
    check_query(given)
    return msgspec.convert(given, endpoint.query, strict=False)


async def _body(request: Request, endpoint: Endpoint) -> Any:
    if endpoint.body is None:
        return None
    text = await request.body()
    return msgspec.json.decode(text or b"{}", type=endpoint.body)


def _json(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    # As the command line does: in ASCII, which can also hold texts that are no valid Unicode.
    return Response(json.dumps(document), status, headers, "application/json")


def _problem(
    status: int, sentence: str, headers: dict[str, str] | None = None, *, count: int | None = None
) -> Response:
    document = {"title": HTTPStatus(status).phrase, "status": status, "detail": sentence}
    if count is not None:
        document["count"] = count
    return Response(json.dumps(document), status, headers, "application/problem+json")
