"""`open_store` makes the store that a URL names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

from tenure.errors import InvalidUrl, MissingExtra
from tenure.stores.base import Store
from tenure.stores.postgres.address import SCHEMES as POSTGRES
from tenure.stores.redis.address import SCHEMES as REDIS
from tenure.stores.url import masked

__all__ = ["masked", "missing_extra", "open_store", "store_maker"]


def store_maker(url: str) -> Callable[[], Store]:
    """A function that makes the store objects of one app. `memory://` without a name is a store of this app alone."""
    if url != "memory://":
        return lambda: open_store(url)
    from tenure.stores.memory import Data, MemoryStore

    return partial(MemoryStore, Data())


def missing_extra(url: str) -> MissingExtra | None:
    """The error of `open_store` if the driver of this URL is not installed; None if it is, or if none is needed."""
    scheme = url.partition(":")[0]
    extra, driver = ("postgres", "asyncpg") if scheme in POSTGRES else ("redis", "redis")
    if scheme not in (*POSTGRES, *REDIS) or find_spec(driver) is not None:
        return None
    return MissingExtra(extra, f"{scheme}:// stores need a driver")


def open_store(url: str) -> Store:
    """Make a store object for this URL, for one event loop. It connects on first use.

    `sqlite:///jobs.db` is relative to the working directory, `sqlite:////var/lib/jobs.db` is absolute. docs/redis.md
    describes `redis://host:6379/0` and its variants, docs/postgres.md `postgresql://host:5432/db`. All objects of
    `memory://name` in this process share one store.
    """
    scheme = url.partition(":")[0]
    match scheme:
        case "sqlite":
            from tenure.stores.sqlite.store import SqliteStore

            return SqliteStore.from_url(url)
        case "memory":
            from tenure.stores.memory import MemoryStore

            return MemoryStore.from_url(url)
        case _ if scheme in REDIS:
            try:
                from tenure.stores.redis.store import RedisStore
            except ModuleNotFoundError as error:
                if str(error.name).partition(".")[0] not in {"redis", "hiredis"}:
                    raise
                raise MissingExtra("redis", f"{scheme}:// stores need a driver") from None
            return RedisStore.from_url(url)
        case _ if scheme in POSTGRES:
            try:
                from tenure.stores.postgres.store import PostgresStore
            except ModuleNotFoundError as error:
                if str(error.name).partition(".")[0] != "asyncpg":
                    raise
                raise MissingExtra("postgres", f"{scheme}:// stores need a driver") from None
            return PostgresStore.from_url(url)
        case _:
            raise InvalidUrl(
                f"{masked(url)!r} names no store: use sqlite:///path/to/file.db, redis://host:6379, postgresql://host/db "
                "or memory://"
            )
