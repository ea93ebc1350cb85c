"""Where a Redis is and how to get in, as a URL says it; see docs/redis.md for the forms and the options."""

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
    """Where one server listens: a host and a port, or the path of a socket."""

    host: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host


class Kind(StrEnum):
    """What the URL names: the server itself, or those who know which server it is at the moment."""

    SERVER = "server"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Which Redis, and how to get in."""

    kind: Kind
    nodes: tuple[Node, ...]
    """The server; or sentinels; or some of a cluster's nodes."""

    master: str = ""
    """The name under which sentinels know the master."""

    tls: bool = False
    user: str | None = None
    password: str | None = None
    db: int = 0
    namespace: str = "tenure"
    """Stores of different namespaces in one database know nothing of each other."""

    timeout: float = 5.0
    """Seconds to wait for an answer. Less than a busy server takes for its slowest step means needless doubt."""

    connect_timeout: float = 5.0
    """Seconds that making a connection may take, from the look at the name to the greeting."""

    connections: int = 8
    """Calls under way at the same time, for each event loop; more than that wait for each other. Threads that call without
    a loop wait for nobody, and so many of their connections are kept."""

    any_eviction: bool = False
    """Whether to work with a server that may evict jobs when its memory is full."""

    ca: str | None = None
    """Of TLS: a file of certificates to trust, instead of the system's."""

    cert: str | None = None
    """Of TLS: a file with this client's certificate, and its key unless `key` names it."""

    key: str | None = None
    verify: bool = True
    """Of TLS: whether the server's certificate must be valid, and made out to its host name."""

    sentinel_user: str | None = None
    sentinel_password: str | None = None
    """What the sentinels themselves ask for; `user` and `password` are for the server."""

    @classmethod
    def from_url(cls, url: str) -> Address:
        """`redis://user:password@host:6379/0?namespace=mail`, and its like; `InvalidUrl` says what is wrong with another."""
        return parsed(url, _parsed, "Redis")

    def __str__(self) -> str:
        return ", ".join(map(str, self.nodes))

    def __repr__(self) -> str:
        return f"<Redis at {self}>"  # no password


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
        one = urlsplit(f"//{host}")  # knows brackets, and refuses a port that is none
        nodes.append(Node(one.hostname or "localhost", one.port or port))
    refuse_unless(
        len(nodes) == 1 or "+" in parts.scheme, "only redis+sentinel:// and redis+cluster:// take several hosts"
    )
    return tuple(nodes)


def _path_fields(path: str, kind: str) -> dict[str, Any]:
    """The name of the master, the number of the database, or both."""
    words = path.split("/") if path else []
    fields: dict[str, Any] = {}
    if kind == Kind.SENTINEL:
        refuse_unless(bool(words), "write the name of the master: redis+sentinel://host:26379/mymaster")
        fields["master"] = words.pop(0)
    refuse_unless(len(words) <= 1, f"{path!r} is no database")
    if words:
        fields["db"] = number(words[0], "the database")
    refuse_unless(kind != Kind.CLUSTER or not fields.get("db"), "a cluster has no databases but 0")
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
