"""Which PostgreSQL, and how to get in, as a URL says it; see docs/postgres.md for the options."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from tenure import checks
from tenure.errors import InvalidName, InvalidUrl

__all__ = ["SCHEMES", "Address"]

SCHEMES: Final = ("postgresql", "postgres")

DRIVERS: Final = frozenset(
    {
        "host",
        "port",
        "user",
        "password",
        "dbname",
        "passfile",
        "service",
        "servicefile",
        "sslmode",
        "sslrootcert",
        "sslcert",
        "sslkey",
        "sslcrl",
        "sslpassword",
        "target_session_attrs",
        "application_name",
    }
)
"""Options of every PostgreSQL URL, which the driver reads."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Which PostgreSQL, and how to get in."""

    dsn: str
    """The URL without our own options."""

    schema: str = "tenure"
    """Where the tables are. Stores in different schemas of one database know nothing of each other."""

    timeout: float = 5.0
    """Seconds to wait for an answer. Less than the slowest step takes, or than others hold locks, means needless doubt."""

    connect_timeout: float = 5.0
    """Seconds that making a connection may take."""

    connections: int = 4
    """Calls under way at the same time, for each event loop; more than that wait for each other."""

    auto_schema: bool = True
    """Whether to make the tables, and bring them up to date, on first use."""

    pooled: bool = False
    """Whether a pooler that gives each transaction another connection (pgbouncer) stands in between."""

    @classmethod
    def from_url(cls, url: str) -> Address:
        """`postgresql://user:password@host:5432/db?schema=jobs`; `InvalidUrl` says what is wrong with another."""
        try:
            return _parsed(url)
        except ValueError as error:
            from tenure.stores import masked

            raise InvalidUrl(f"{masked(url)!r} names no PostgreSQL: {error}") from None

    def __str__(self) -> str:
        parts = urlsplit(self.dsn)
        return f"{parts.netloc.rpartition('@')[2] or 'localhost'}{parts.path}"

    def __repr__(self) -> str:
        return f"<PostgreSQL at {self}>"  # no password


def _parsed(url: str) -> Address:
    parts = urlsplit(url)
    _refuse_unless(parts.scheme in SCHEMES, f"the scheme must be one of {', '.join(SCHEMES)}")
    _refuse_unless(not parts.fragment, "there is a # in it, which must be written %23")
    ours: dict[str, Any] = {}
    drivers: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)):
        _refuse_unless(name not in ours and name not in drivers, f"{name} is given twice")
        if name in DRIVERS:
            drivers[name] = value
        elif name in _READ:
            ours[name] = _READ[name](value, name)
        else:
            raise ValueError(f"it has no option {name!r}, only {', '.join(sorted(_READ.keys() | DRIVERS))}")
    return Address(dsn=urlunsplit(parts._replace(query=urlencode(drivers))), **ours)


def _schema(value: str, name: str) -> str:
    try:
        checks.name(name, value)
    except InvalidName as error:
        raise ValueError(str(error)) from None
    _refuse_unless(len(value) <= 63, "a schema's name has at most 63 letters")
    _refuse_unless(not value.startswith("pg_"), "schemas that begin with pg_ are PostgreSQL's own")
    return value


def _count(value: str, name: str) -> int:
    _refuse_unless(value.isascii() and value.isdigit() and int(value) > 0, f"{name} must be a number, got {value!r}")
    return int(value)


def _seconds(value: str, name: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    _refuse_unless(0 < number < math.inf, f"{name} must be a number of seconds, got {value!r}")
    return number


def _yes(value: str, name: str) -> bool:
    _refuse_unless(value in {"true", "false"}, f"{name} must be true or false, got {value!r}")
    return value == "true"


_READ: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "schema": _schema,
    "timeout": _seconds,
    "connect_timeout": _seconds,
    "connections": _count,
    "auto_schema": _yes,
    "pooled": _yes,
}


def _refuse_unless(true: bool, why: str) -> None:
    if not true:
        raise ValueError(why)
