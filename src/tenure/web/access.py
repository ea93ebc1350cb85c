"""`Access` decides who a request comes from: by the user's own function, by a token, or by a session."""

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

__all__ = ["OPEN", "SESSION_SECONDS", "Access", "Auth", "Identity", "Open", "Role", "Session", "TooManyFailures"]

Role = Literal["read", "operate"]

TOKEN_LENGTH = 20
"""Characters of a token, at least."""

SESSION_SECONDS = 12 * 3600.0
"""Seconds that a session lasts."""

FAILURES, FAILURES_SECONDS = 5, 60.0
"""Wrong tokens from one address, and the seconds within which they count, after which it must wait."""

ADDRESSES = 10_000
"""Addresses whose wrong tokens are remembered, at most."""

SEALED = 300
"""Characters of a text in a cookie, at most."""

COOKIE = "tenure_session"
"""Begins the name of the session's cookie. The rest differs between dashboards, because a browser does not tell ports apart."""


class Identity(msgspec.Struct, frozen=True):
    """Who looks at the dashboard, and what they may do."""

    name: str
    """Their name, which the audit shows."""

    role: Role = "read"
    """`read` shows everything and changes nothing; `operate` may act."""

    actions: tuple[str, ...] | None = None
    """Names of the actions that an operator may do, such as `("retry", "pause")`; None: all."""

    def __post_init__(self) -> None:
        if self.role not in {"read", "operate"}:
            raise InvalidOption(f'the role of {self.name!r:.80} must be "read" or "operate", not {self.role!r:.80}')
        if not isinstance(self.actions, tuple | None):
            raise InvalidOption(f"actions must be a tuple of names, not {self.actions!r:.80}")

    def may(self, action: str) -> bool:
        """Whether they may do this action."""
        return self.role == "operate" and (self.actions is None or action in self.actions)


class Open:
    """The type of `OPEN`."""

    def __repr__(self) -> str:
        return "OPEN"


OPEN: Final = Open()
"""`dashboard(app, auth=OPEN)`: everyone who reaches the dashboard may operate, because a proxy guards its address."""

Auth = Callable[[Request], Identity | Awaitable[Identity | None] | None]
"""Says who a request comes from; None: they may not look."""


class Session(msgspec.Struct, frozen=True):
    """A viewer, and the secret that forms of their pages carry."""

    identity: Identity
    csrf: str
    """Every form must send this back, unless the request carries a token itself."""

    by_token: bool = False
    """Whether the request carries a token in its head, which no other site can make a browser send."""

    def sent_by(self, csrf: str) -> bool:
        """Whether a form with this token comes from a page of this session."""
        return hmac.compare_digest(csrf.encode(errors="replace"), self.csrf.encode())


class _Cookie(msgspec.Struct, frozen=True, array_like=True):
    """What the cookie of a session says."""

    id: str
    name: str
    role: Role
    expires: float


class TooManyFailures(Exception):
    """An address has sent too many wrong tokens, and must wait."""


class Access:
    """Decides who a request comes from. Without any of its three ways it refuses to be made."""

    def __init__(self, auth: Auth | Open | None, tokens: Mapping[Role, str] | None, *, store: str = "") -> None:
        """`store`: URL of the store, which all processes of a dashboard without tokens share."""
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
            if not token.isprintable() or token != token.strip():
                raise InvalidOption(f"the {role} token must have printable characters only, and no space at its ends")
        if len(set(self._tokens.values())) < len(self._tokens):
            raise InvalidOption("the tokens of read and operate must differ")
        # Derived from the tokens, so that new tokens end all sessions. Without tokens there are no sessions to protect: the key only
        # makes tokens of forms from random ids in cookies, and must be the same in all processes that serve one address.
        given = "\0".join(f"{role}={token}" for role, token in sorted(self._tokens.items())) or f"store\0{store}"
        self._key = hashlib.sha256(f"tenure session\0{given}".encode()).digest()
        self.cookie = f"{COOKIE}_{hashlib.sha256(b'name' + self._key).hexdigest()[:8]}"
        """Name of the session's cookie."""

        self.key_holder = ""
        """Name of the viewer whose token comes as `?key=`, as the one drawn for the printed address does; empty: none may."""

        self._failures: dict[str, deque[float]] = {}
        self._ended: dict[str, float] = {}
        """When each session that was logged out would have ended, by its id."""

    @property
    def has_tokens(self) -> bool:
        """Whether viewers can log in with a token."""
        return bool(self._tokens)

    async def session(self, request: Request) -> Session | None:
        """The viewer that this request comes from; None if it says nothing valid, `TooManyFailures` after too many wrong tokens."""
        if isinstance(self._auth, Open):
            return self._visiting(request, Identity("open", "operate"))
        if self._auth is not None:
            found = self._auth(request)
            identity = await found if inspect.isawaitable(found) else found
            return None if identity is None else self._visiting(request, identity)
        bearer = request.headers.get("authorization", "")
        if bearer[:7].lower() == "bearer ":
            role = self._tried(bearer[7:].strip(), _address(request))
            return None if role is None else Session(Identity(f"{role} token", role), "", by_token=True)
        cookie = self._read(request.cookies.get(self.cookie, ""))
        if cookie is None:
            return None
        return Session(Identity(cookie.name, cookie.role), self._csrf(cookie.id))

    def log_in(self, token: str, name: str, request: Request) -> str | None:
        """The cookie of a new session for this token; None if the token is wrong, `TooManyFailures` after too many wrong ones."""
        role = self._tried(token, _address(request))
        if role is None:
            return None
        return self._signed(_Cookie(secrets.token_urlsafe(16), name[:80] or role, role, time.time() + SESSION_SECONDS))

    def log_out(self, request: Request) -> None:
        """End the session of this request, so that a copy of its cookie is worth nothing either."""
        cookie = self._read(request.cookies.get(self.cookie, ""))
        if cookie is not None:
            now = time.time()
            self._ended = {each: until for each, until in self._ended.items() if until > now}
            self._ended[cookie.id] = cookie.expires

    def sealed(self, text: str, session: Session) -> str:
        """A text for a cookie, which `opened` returns only in the same session."""
        body = text[:SEALED].encode(errors="backslashreplace")
        return f"{body.hex()}.{self._seal(body, session)}"

    def opened(self, sealed: str, session: Session) -> str:
        """The text that `sealed` was made from; empty if another program or session made it."""
        body, _, seal = sealed.partition(".")
        try:
            text = bytes.fromhex(body)
        except ValueError:
            return ""
        right = hmac.compare_digest(seal.encode(errors="replace"), self._seal(text, session).encode())
        return text.decode(errors="replace") if right else ""

    def visitor_id(self, request: Request) -> str | None:
        """A new id for the cookie of a viewer whom a user's own function lets in; None if there is no need for one."""
        needs = self._auth is not None and self.cookie not in request.cookies
        return secrets.token_urlsafe(16) if needs else None

    def _visiting(self, request: Request, identity: Identity) -> Session:
        """The session of a viewer who has no session of ours: the token of its forms is bound to a cookie and to the name."""
        own_id = request.cookies.get(self.cookie) or str(getattr(request.state, "visitor", ""))
        return Session(identity, self._csrf(f"{own_id}\0{identity.name}"))

    def _tried(self, token: str, address: str) -> Role | None:
        """The role of a token that came from this address; None if it is wrong, `TooManyFailures` after too many wrong ones."""
        now = time.monotonic()
        failures = self._failures.get(address)
        if failures is not None and len(failures) == FAILURES and failures[0] > now - FAILURES_SECONDS:
            raise TooManyFailures
        role = self._role(token)
        if role is not None:
            self._failures.pop(address, None)
            return role
        self._failures.setdefault(address, deque(maxlen=FAILURES)).append(now)
        if len(self._failures) > ADDRESSES:
            self._failures.pop(next(iter(self._failures)))
        return None

    def _role(self, token: str) -> Role | None:
        """The role of a token. All are compared, in constant time."""
        given, found = token.encode(errors="replace"), None
        for role, right in self._tokens.items():
            if hmac.compare_digest(given, right.encode()):
                found = role
        return found

    def _csrf(self, session_id: str) -> str:
        return hmac.new(self._key, b"form\0" + session_id.encode(), hashlib.sha256).hexdigest()

    def _seal(self, body: bytes, session: Session) -> str:
        return hmac.new(self._key, b"text\0" + session.csrf.encode() + b"\0" + body, hashlib.sha256).hexdigest()

    def _signed(self, cookie: _Cookie) -> str:
        body = base64.urlsafe_b64encode(msgspec.json.encode(cookie)).decode().rstrip("=")
        return f"{body}.{hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()}"

    def _read(self, text: str) -> _Cookie | None:
        body, _, signature = text.partition(".")
        right = hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()
        if not hmac.compare_digest(right.encode(), signature.encode()):
            return None
        try:
            cookie = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=_Cookie)
        except (ValueError, msgspec.MsgspecError):
            return None
        return cookie if cookie.expires > time.time() and cookie.id not in self._ended else None


def _address(request: Request) -> str:
    return request.client.host if request.client else ""
