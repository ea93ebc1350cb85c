"""The address of a PostgreSQL store, parsed from its URL. docs/postgres.md lists the options."""

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
"""Options that every PostgreSQL URL may have. They are passed to the driver."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The server, database and schema of a store, and how to connect to it."""

    dsn: str
    """The URL without the options of Tenure."""

    schema: str = "tenure"
    """The schema of the tables. Stores in different schemas of one database are independent."""

    timeout: float = 5.0
    """Seconds to wait for an answer. A call that got none raises `OutcomeUnknown`, so it should exceed the slowest operation."""

    connect_timeout: float = 5.0
    """Seconds that connecting may take."""

    connections: int = 4
    """Most calls at the same time for each event loop. Further calls wait for a connection."""

    auto_schema: bool = True
    """Whether to create or migrate the schema on first use."""

    pooled: bool = False
    """Whether a pooler in transaction mode (pgbouncer) stands between this process and the server."""

    @classmethod
    def from_url(cls, url: str) -> Address:
        """Parse a URL such as `postgresql://user:password@host:5432/db?schema=jobs`; raise `InvalidUrl` if it is wrong."""
        return parsed(url, _parsed, "PostgreSQL")

    def __str__(self) -> str:
        parts = urlsplit(self.dsn)
        return f"{parts.netloc.rpartition('@')[2] or 'localhost'}{parts.path}"

    def __repr__(self) -> str:
        return f"<PostgreSQL at {self}>"  # no password


def _parsed(url: str) -> Address:
    parts = urlsplit(url)
    refuse_unless(parts.scheme in SCHEMES, f"the scheme must be one of {', '.join(SCHEMES)}")
    refuse_unless(not parts.fragment, "it contains a #, which must be written %23")
    refuse_at_in(parts)
    credentials, at, hosts = parts.netloc.rpartition("@")
    for host in hosts.split(","):
        _ = urlsplit(f"//{host}").port  # raises ValueError for a bad port
    netloc = f"{credentials.replace('@', '%40')}{at}{hosts}"  # the driver ends the password at the first @
    given = options(parts.query, _READ)
    drivers = {option: given.pop(option) for option in sorted(DRIVERS & given.keys())}
    return Address(dsn=urlunsplit(parts._replace(netloc=netloc, query=urlencode(drivers))), **given)


def _schema(value: str, option: str) -> str:
    name(value, option)
    refuse_unless(len(value) <= 63, "the name of a schema has at most 63 characters")
    refuse_unless(not value.startswith("pg_"), "names that begin with pg_ are reserved by PostgreSQL")
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
