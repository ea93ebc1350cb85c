"""Parses the URL of a Redis store into an `Address`. docs/redis.md lists the forms and options."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from tenure.stores.url import (
    Read,
    count,
    name,
    number,
    options,
    parsed,
    refuse_at_in,
    refuse_unless,
    seconds,
    text,
    yes,
)

__all__ = ["SCHEMES", "Address", "Kind", "Node"]

SCHEMES: Final = (
    "redis",
    "rediss",
    "unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
)


class Node(NamedTuple):
    """Where one server listens: host and port, or the path of a Unix socket (port 0)."""

    host: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host


class Kind(StrEnum):
    """What the URL names: the server itself, or sentinels or cluster nodes that know which server is the master."""

    SERVER = "server"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A Redis server, sentinel group or cluster, with credentials and connection options."""

    kind: Kind
    nodes: tuple[Node, ...]
    """The server, the sentinels, or some nodes of the cluster."""

    master: str = ""
    """The name of the master at the sentinels."""

    tls: bool = False
    user: str | None = None
    password: str | None = None
    db: int = 0
    namespace: str = "tenure"
    """Part of the prefix of all keys. Stores with different namespaces in one database do not see each other."""

    timeout: float = 5.0
    """Seconds to wait for a reply. A script that takes longer raises `OutcomeUnknown`, though it may well succeed."""

    connect_timeout: float = 5.0
    """Seconds that connecting may take, from resolving the host name to the server's first reply."""

    connections: int = 8
    """Most concurrent calls per event loop; further calls wait. Threads without a loop do not wait, and this many of
    their connections are kept open."""

    any_eviction: bool = False
    """Whether to accept a server that may evict jobs when its memory is full."""

    ca: str | None = None
    """TLS: file of trusted certificates. None: the system's."""

    cert: str | None = None
    """TLS: file with this client's certificate. It also contains the private key, unless `key` names another file."""

    key: str | None = None
    verify: bool = True
    """TLS: whether the server's certificate must be valid and match its host name."""

    sentinel_user: str | None = None
    sentinel_password: str | None = None
    """Credentials for the sentinels; `user` and `password` are for the server."""

    @classmethod
    def from_url(cls, url: str) -> Address:
        """Parse a URL such as `redis://user:password@host:6379/0?namespace=mail`; raises `InvalidUrl`."""
        return parsed(url, _parsed, "Redis")

    def __str__(self) -> str:
        return ", ".join(map(str, self.nodes))

    def __repr__(self) -> str:
        return f"<Redis at {self}>"  # without the password


def _parsed(url: str) -> Address:
    parts = urlsplit(url)
    scheme, _, kind = parts.scheme.partition("+")
    refuse_unless(parts.scheme in SCHEMES, f"the scheme must be one of {', '.join(SCHEMES)}")
    refuse_unless(not parts.fragment, "there is a # in it, which must be written %23")
    refuse_at_in(parts)
    fields: dict[str, Any] = {"kind": Kind(kind or Kind.SERVER), "tls": scheme == "rediss"}
    fields |= _credentials(parts)
    path = unquote(parts.path)
    if scheme == "unix":
        refuse_unless(path != "", "write unix:///path/of/the/socket")
        fields["nodes"] = (Node(path),)
    else:
        fields["nodes"] = _nodes(parts, 26379 if kind == Kind.SENTINEL else 6379)
        fields |= _path_fields(path.strip("/"), kind)
    given = options(parts.query, _OPTIONS)
    twice = [option for option in given if fields.get(option) is not None]
    refuse_unless(not twice, f"{', '.join(twice)} is given twice")
    return Address(**fields | given)


def _credentials(parts: SplitResult) -> dict[str, Any]:
    before, at, _ = parts.netloc.rpartition("@")
    if not at:
        return {}
    user, _, password = before.partition(":")
    return {"user": unquote(user) or None, "password": unquote(password) or None}


def _nodes(parts: SplitResult, port: int) -> tuple[Node, ...]:
    hosts = parts.netloc.rpartition("@")[2].split(",")
    nodes = []
    for host in hosts:
        one = urlsplit(f"//{host}")  # handles brackets, and rejects an invalid port
        nodes.append(Node(one.hostname or "localhost", one.port or port))
    refuse_unless(
        len(nodes) == 1 or "+" in parts.scheme, "only redis+sentinel:// and redis+cluster:// take several hosts"
    )
    return tuple(nodes)


def _path_fields(path: str, kind: str) -> dict[str, Any]:
    """The master's name and the database number, from the path of the URL."""
    segments = path.split("/") if path else []
    fields: dict[str, Any] = {}
    if kind == Kind.SENTINEL:
        refuse_unless(bool(segments), "write the name of the master: redis+sentinel://host:26379/mymaster")
        fields["master"] = segments.pop(0)
    refuse_unless(len(segments) <= 1, f"{path!r} is not a database number")
    if segments:
        fields["db"] = number(segments[0], "the database")
    refuse_unless(kind != Kind.CLUSTER or not fields.get("db"), "a cluster has only database 0")
    return fields


_OPTIONS: Final[Mapping[str, Read]] = {
    "namespace": name,
    "db": number,
    "user": text,
    "password": text,
    "timeout": seconds,
    "connect_timeout": seconds,
    "connections": count,
    "any_eviction": yes,
    "ca": text,
    "cert": text,
    "key": text,
    "verify": yes,
    "sentinel_user": text,
    "sentinel_password": text,
}
