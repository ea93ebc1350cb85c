"""The stores, and the one place that knows which URL means which of them."""

from __future__ import annotations

from urllib.parse import urlsplit

from tenure.errors import InvalidUrl
from tenure.stores.base import Store

__all__ = ["masked", "open_store"]


def open_store(url: str) -> Store:
    """Make a store object for this URL, for one event loop; nothing is connected before its first use.

    `sqlite:///jobs.db` is relative to the working directory, `sqlite:////var/lib/jobs.db` absolute. `memory://name` is one
    store for every object of the same name in this process.
    """
    scheme = url.partition(":")[0]
    match scheme:
        case "sqlite":
            from tenure.stores.sqlite.store import SqliteStore

            return SqliteStore.from_url(url)
        case "memory":
            from tenure.stores.memory import MemoryStore

            return MemoryStore.from_url(url)
        case _:
            raise InvalidUrl(f"{masked(url)!r} names no store: use sqlite:///path/to/file.db or memory://")


def masked(url: str) -> str:
    """The URL without its password, for people and logs."""
    try:
        parts = urlsplit(url)
        if parts.password is None:
            return url
        return parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":•••@")).geturl()
    except ValueError:
        return f"{url.partition(':')[0]}:•••"
