"""Which library a connection is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tenure.errors import InvalidOption
from tenure.stores.callers.alchemy import AlchemyGuest, AsyncAlchemyGuest
from tenure.stores.callers.connection import Guest
from tenure.stores.callers.django import DjangoGuest
from tenure.stores.callers.postgres import AsyncpgGuest, AsyncPsycopgGuest, PsycopgGuest
from tenure.stores.callers.sqlite import ApswGuest, SqliteGuest

__all__ = ["guest"]

_KINDS: Final[Mapping[str, Callable[[Any], Guest]]] = {
    "apsw.Connection": ApswGuest,
    "asyncpg.Connection": AsyncpgGuest,
    "asyncpg.PoolConnectionProxy": AsyncpgGuest,
    "django.BaseDatabaseWrapper": DjangoGuest,
    "django.ConnectionProxy": DjangoGuest,
    "psycopg.AsyncConnection": AsyncPsycopgGuest,
    "psycopg.Connection": PsycopgGuest,
    "sqlalchemy.AsyncConnection": AsyncAlchemyGuest,
    "sqlalchemy.AsyncSession": AsyncAlchemyGuest,
    "sqlalchemy.Connection": AlchemyGuest,
    "sqlalchemy.Session": AlchemyGuest,
    "sqlalchemy.async_scoped_session": AsyncAlchemyGuest,
    "sqlalchemy.scoped_session": AlchemyGuest,
    "sqlite3.Connection": SqliteGuest,
}
"""Guests by package and class: whoever has such an object has imported the library, and we need not."""


def guest(connection: object) -> Guest:
    """The guest for this connection; `InvalidOption` if it is of no library that we know."""
    if isinstance(own := getattr(connection, "guest", None), Guest):  # an `OwnTransaction`
        return own
    for each in type(connection).__mro__:
        kind = _KINDS.get(f"{each.__module__.partition('.')[0]}.{each.__name__}")
        if kind is not None:
            return kind(connection)
    raise InvalidOption(
        f"connection= takes a connection of asyncpg, psycopg 3, SQLAlchemy 2, Django, sqlite3 or apsw, got {type(connection)!r}"
    )
