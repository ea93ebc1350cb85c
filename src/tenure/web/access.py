"""`Access` decides who a request comes from: by a user's own function, by a token, or by the session that a token opened."""

from __future__ import annotations

import base64
import hashlib
import hmac
import inspect
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal

import msgspec
from starlette.requests import Request

from tenure.errors import InvalidOption

__all__ = ["OPEN", "Access", "Auth", "Identity", "Open", "Role", "Session"]

Role = Literal["read", "operate"]

TOKEN_LENGTH = 20
"""Characters of a token, at least."""

SESSION_SECONDS = 12 * 3600.0
"""Seconds that a session lasts."""

FAILURES, FAILURES_SECONDS = 5, 60.0
"""Wrong tokens from one address within so many seconds, after which it must wait."""

COOKIE = "tenure_session"


class Identity(msgspec.Struct, frozen=True):
    """Who looks at the dashboard, and what they may do."""

    name: str
    """Their name, which the audit shows."""

    role: Role = "read"
    """`read` shows everything and changes nothing; `operate` may act."""

    actions: tuple[str, ...] | None = None
    """Names of the actions that an operator may do, such as `("retry", "pause")`; None: all."""

    def may(self, action: str) -> bool:
        return self.role == "operate" and (self.actions is None or action in self.actions)


class Open:
    """The type of `OPEN`."""

    def __repr__(self) -> str:
        return "OPEN"


OPEN: Final = Open()
"""`dashboard(app, auth=OPEN)`: whoever reaches the dashboard may operate, because something else guards its address."""

Auth = Callable[[Request], Identity | Awaitable[Identity | None] | None]
"""Says who a request comes from; None: nobody that may look."""


class Session(msgspec.Struct, frozen=True):
    """A viewer, and the secret that forms of their pages carry."""

    identity: Identity
    csrf: str
    """Every form must send this back, unless the request carries a token itself."""

    by_token: bool = False
    """Whether the request carries a token in its head, which no other site can make a browser send."""


class _Cookie(msgspec.Struct, frozen=True, array_like=True):
    """What the cookie of a session says."""

    id: str
    name: str
    role: Role
    expires: float


class Access:
    """Decides who a request comes from. Without any of its three ways it refuses to be made."""

    def __init__(self, auth: Auth | Open | None, tokens: Mapping[Role, str] | None) -> None:
        self._auth = auth
        self._tokens = dict(tokens or {})
        if auth is None and not self._tokens:
            raise InvalidOption(
                'say who may look: dashboard(app, auth=…) with a function that returns an Identity, tokens={"read": …, '
                '"operate": …}, or auth=OPEN if something else guards the address'
            )
        for role, token in self._tokens.items():
            if role not in {"read", "operate"}:
                raise InvalidOption(f"tokens are for the roles read and operate, not {role!r}")
            if len(token) < TOKEN_LENGTH:
                raise InvalidOption(f"the {role} token must have at least {TOKEN_LENGTH} characters, not {len(token)}")
        # Derived from the tokens, so that new tokens end all sessions; without tokens, drawn for this process.
        given = "\0".join(f"{role}={token}" for role, token in sorted(self._tokens.items()))
        self._key = hashlib.sha256(f"tenure session\0{given}".encode()).digest() if given else secrets.token_bytes(32)
        self._failures: dict[str, deque[float]] = {}

    @property
    def has_tokens(self) -> bool:
        """Whether viewers can log in with a token."""
        return bool(self._tokens)

    async def session(self, request: Request) -> Session | None:
        """The viewer that this request comes from; None if it says nothing valid."""
        if isinstance(self._auth, Open):
            return Session(Identity("open", "operate"), self._csrf(self._own_id(request)))
        if self._auth is not None:
            found = self._auth(request)
            identity = await found if inspect.isawaitable(found) else found
            return None if identity is None else Session(identity, self._csrf(self._own_id(request)))
        bearer = request.headers.get("authorization", "")
        if bearer.startswith("Bearer "):
            role = self._role(bearer.removeprefix("Bearer "))
            return None if role is None else Session(Identity(f"{role} token", role), "", by_token=True)
        cookie = self._read(request.cookies.get(COOKIE, ""))
        if cookie is None:
            return None
        return Session(Identity(cookie.name, cookie.role), self._csrf(cookie.id))

    def log_in(self, token: str, name: str, address: str) -> str | None:
        """The cookie of a new session for this token; None if the token is wrong, `PermissionError` after too many wrong ones."""
        now = time.monotonic()
        failures = self._failures.setdefault(address, deque(maxlen=FAILURES))
        if len(failures) == FAILURES and failures[0] > now - FAILURES_SECONDS:
            raise PermissionError("too many wrong tokens: wait a minute")
        role = self._role(token)
        if role is None:
            failures.append(now)
            if len(self._failures) > 10_000:
                self._failures.pop(next(iter(self._failures)))
            return None
        self._failures.pop(address, None)
        return self._signed(_Cookie(secrets.token_urlsafe(16), name[:80] or role, role, time.time() + SESSION_SECONDS))

    def visitor_id(self, request: Request) -> str | None:
        """A new id for the cookie of a viewer whom a user's own function lets in; None if there is no need for one."""
        needs = self._auth is not None and COOKIE not in request.cookies
        return secrets.token_urlsafe(16) if needs else None

    def _own_id(self, request: Request) -> str:
        return request.cookies.get(COOKIE) or str(getattr(request.state, "visitor", ""))

    def _role(self, token: str) -> Role | None:
        """The role of a token. All are compared, in constant time."""
        given, found = token.encode(), None
        for role, right in self._tokens.items():
            if hmac.compare_digest(given, right.encode()):
                found = role
        return found

    def _csrf(self, session_id: str) -> str:
        return hmac.new(self._key, b"form\0" + session_id.encode(), hashlib.sha256).hexdigest()

    def _signed(self, cookie: _Cookie) -> str:
        body = base64.urlsafe_b64encode(msgspec.json.encode(cookie)).decode().rstrip("=")
        return f"{body}.{hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()}"

    def _read(self, text: str) -> _Cookie | None:
        body, _, signature = text.partition(".")
        if not hmac.compare_digest(hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest(), signature):
            return None
        try:
            cookie = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=_Cookie)
        except (ValueError, msgspec.MsgspecError):
            return None
        return cookie if cookie.expires > time.time() else None
