"""Which PostgreSQL, and how to get in, as a URL says it; see docs/postgres.md for the options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

from tenure.stores.url import Read, count, name, options, parsed, refuse_at_in, refuse_unless, seconds, text, yes

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
        return parsed(url, _parsed, "PostgreSQL")

    def __str__(self) -> str:
        parts = urlsplit(self.dsn)
        return f"{parts.netloc.rpartition('@')[2] or 'localhost'}{parts.path}"

    def __repr__(self) -> str:
        return f"<PostgreSQL at {self}>"  # no password


def _parsed(url: str) -> Address:
    parts = urlsplit(url)
    refuse_unless(parts.scheme in SCHEMES, f"the scheme must be one of {', '.join(SCHEMES)}")
    refuse_unless(not parts.fragment, "there is a # in it, which must be written %23")
    refuse_at_in(parts)
    credentials, at, hosts = parts.netloc.rpartition("@")
    for host in hosts.split(","):
        _ = urlsplit(f"//{host}").port  # refuses a port that is none
    netloc = f"{credentials.replace('@', '%40')}{at}{hosts}"  # the driver takes the first @ for the end of the password
    given = options(parts.query, _READ)
    drivers = {option: given.pop(option) for option in sorted(DRIVERS & given.keys())}
    return Address(dsn=urlunsplit(parts._replace(netloc=netloc, query=urlencode(drivers))), **given)


def _schema(value: str, option: str) -> str:
    name(value, option)
    refuse_unless(len(value) <= 63, "a schema's name has at most 63 letters")
    refuse_unless(not value.startswith("pg_"), "schemas that begin with pg_ are PostgreSQL's own")
    return value


_READ: Final[Mapping[str, Read]] = {
    **dict.fromkeys(DRIVERS, text),
    "schema": _schema,
    "timeout": seconds,
    "connect_timeout": seconds,
    "connections": count,
    "auto_schema": yes,
    "pooled": yes,
}
