"""`caller_connection` recognizes the library of a connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tenure.errors import InvalidOption
from tenure.stores.callers.alchemy import AlchemyCaller, AsyncAlchemyCaller
from tenure.stores.callers.connection import CallerConnection
from tenure.stores.callers.django import DjangoCaller
from tenure.stores.callers.postgres import AsyncpgCaller, AsyncPsycopgCaller, PsycopgCaller
from tenure.stores.callers.sqlite import ApswCaller, Sqlite3Caller

__all__ = ["caller_connection"]

_CALLERS: Final[Mapping[str, Callable[[Any], CallerConnection]]] = {
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
    "sqlite3.Connection": Sqlite3Caller,
}
"""`CallerConnection` classes by package and class name, so that no library need be imported here."""


def caller_connection(connection: object) -> CallerConnection:
    """The `CallerConnection` for this connection; `InvalidOption` if its library is not supported."""
    if isinstance(own := getattr(connection, "caller", None), CallerConnection):  # an `OwnTransaction`
        return own
    for each in type(connection).__mro__:
        make = _CALLERS.get(f"{each.__module__.partition('.')[0]}.{each.__name__}")
        if make is not None:
            return make(connection)
    raise InvalidOption(
        f"connection= takes a connection of asyncpg, psycopg 3, SQLAlchemy 2, Django, sqlite3 or apsw, got {type(connection)!r}"
    )
