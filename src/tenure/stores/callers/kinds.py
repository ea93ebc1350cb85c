"""Which library a connection is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tenure.errors import InvalidOption
from tenure.stores.callers.alchemy import AlchemyCaller, AsyncAlchemyCaller
from tenure.stores.callers.connection import CallerConnection
from tenure.stores.callers.django import DjangoCaller
from tenure.stores.callers.postgres import AsyncpgCaller, AsyncPsycopgCaller, PsycopgCaller
from tenure.stores.callers.sqlite import ApswCaller, SqliteCaller

__all__ = ["caller_connection"]

_KINDS: Final[Mapping[str, Callable[[Any], CallerConnection]]] = {
    "apsw.Connection": ApswCaller,
    "asyncpg.Connection": AsyncpgCaller,
    "asyncpg.PoolConnectionProxy": AsyncpgCaller,
    "django.BaseDatabaseWrapper": DjangoCaller,
    "django.ConnectionProxy": DjangoCaller,
    "psycopg.AsyncConnection": AsyncPsycopgCaller,
    "psycopg.Connection": PsycopgCaller,
    "sqlalchemy.AsyncConnection": AsyncAlchemyCaller,
    "sqlalchemy.AsyncSession": AsyncAlchemyCaller,
    "sqlalchemy.Connection": AlchemyCaller,
    "sqlalchemy.Session": AlchemyCaller,
    "sqlalchemy.async_scoped_session": AsyncAlchemyCaller,
    "sqlalchemy.scoped_session": AlchemyCaller,
    "sqlite3.Connection": SqliteCaller,
}
"""Guests by package and class: whoever has such an object has imported the library, and we need not."""


def caller_connection(connection: object) -> CallerConnection:
    """The guest for this connection; `InvalidOption` if it is of no library that we know."""
    if isinstance(own := getattr(connection, "caller", None), CallerConnection):  # an `OwnTransaction`
        return own
    for each in type(connection).__mro__:
        kind = _KINDS.get(f"{each.__module__.partition('.')[0]}.{each.__name__}")
        if kind is not None:
            return kind(connection)
    raise InvalidOption(
        f"connection= takes a connection of asyncpg, psycopg 3, SQLAlchemy 2, Django, sqlite3 or apsw, got {type(connection)!r}"
    )
