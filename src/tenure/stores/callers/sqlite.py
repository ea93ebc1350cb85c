"""Connections of `sqlite3` and apsw, and helpers for every connection to a SQLite file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

from tenure.errors import InvalidOption
from tenure.stores.callers.connection import AnotherDatabase, CallerConnection, SqliteAdapter, SqliteWork, Work

__all__ = [
    "ApswCaller",
    "Rows",
    "Sqlite3Adapter",
    "Sqlite3Caller",
    "run_on_sqlite",
    "same_file",
    "sqlite_work",
    "with_named_parameters",
]

T = TypeVar("T")

OLDEST_SQLITE = (3, 38, 0)
"""The oldest version of SQLite that can run the statements of the store."""


class Rows(list[Any]):
    """All rows of a statement. An unfinished statement would keep a savepoint from ending."""

    def fetchall(self) -> list[Any]:
        return self

    def fetchone(self) -> Any:
        return self[0] if self else None


def with_named_parameters(statement: str, values: Sequence[Any]) -> tuple[str, Sequence[Any] | Mapping[str, Any]]:
    """Replace `?1` by `:p1` and so on, and give the values by these names; a statement with bare `?` is unchanged.

    `sqlite3` takes `?1` for a name, and warns in Python 3.12.0 to 3.12.3 about names with a sequence of values.
    """
    if "?1" not in statement:
        return statement, tuple(values)
    return _named(statement), {f"p{number}": value for number, value in enumerate(values, 1)}


@lru_cache(200)
def _named(statement: str) -> str:
    return re.sub(r"\?(\d+)", r":p\1", statement)


class Sqlite3Adapter:
    """A connection of the module `sqlite3`. Rows are tuples, whatever row factory its owner has set."""

    def __init__(self, connection: Any) -> None:
        self.bare = connection
        self._changes = 0

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        cursor = self.bare.cursor()
        cursor.row_factory = None
        rows = Rows(cursor.execute(*with_named_parameters(statement, values)))
        self._changes = cursor.rowcount
        cursor.close()
        return rows

    def changes(self) -> int:
        return self._changes

    def after_commit(self, action: Callable[[], None], /) -> None:
        """Does nothing: `sqlite3` does not report commits."""


class _ApswAdapter:
    """A connection of apsw. Rows are tuples, whatever row trace its owner has set."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        cursor = self._connection.cursor()
        cursor.row_trace = cursor.exec_trace = None
        return Rows(cursor.execute(statement, values))

    def changes(self) -> int:
        changes: int = self._connection.changes()
        return changes

    def after_commit(self, action: Callable[[], None], /) -> None:
        """Does nothing: apsw reports commits by hooks, which belong to the owner of the connection."""


def sqlite_work(work: Work[T], library: str) -> SqliteWork[T]:
    """The work, if it is for SQLite; else `InvalidOption`."""
    if isinstance(work, SqliteWork):
        return work
    raise InvalidOption(f"connection= must be to the store's own PostgreSQL database: this one is of {library}")


def run_on_sqlite(work: SqliteWork[T], connection: SqliteAdapter, owner: Any) -> T:
    """Run work in the transaction of a connection; if none is open, begin the one that its library would have begun.

    `owner` is the connection of `sqlite3` behind it, or that of a library on top of it with the same attributes.
    """
    begins = not owner.in_transaction
    if begins and (owner.isolation_level is None or getattr(owner, "autocommit", False) is True):
        raise autocommit_error()
    with _text_as_str(owner):
        check_connection(work, connection, "sqlite3")
        if begins:
            connection.execute("BEGIN IMMEDIATE")
        return work.action(connection)


def autocommit_error() -> InvalidOption:
    return InvalidOption("connection= commits each statement by itself: begin a transaction on it, and commit that")


def check_connection(work: SqliteWork[Any], connection: SqliteAdapter, library: str) -> None:
    """Refuse a connection to another file, with too old a SQLite, or of a library that the store does not use."""
    [[version]] = connection.execute("SELECT sqlite_version()").fetchall()
    if tuple(int(part) for part in version.split(".")) < OLDEST_SQLITE:
        needed = ".".join(str(part) for part in OLDEST_SQLITE)
        raise InvalidOption(f"connection= is of SQLite {version}, and {needed} is needed: use a newer library, or apsw")
    files = {name: file for _, name, file in connection.execute("PRAGMA database_list").fetchall()}
    if not same_file(files["main"], work.path):
        attached = next((name for name, file in files.items() if same_file(file, work.path)), None)
        raise AnotherDatabase(
            f"connection= must be to the store's own file, {work.path}: this one is to {files['main'] or 'memory'}"
            + (f", and has it attached as {attached!r}, which is not enough" if attached else "")
        )
    work.admit(library)


def same_file(file: str, path: str) -> bool:
    """Whether both exist and are the same file."""
    try:
        return os.path.samefile(file, path)
    except OSError:
        return False


@contextmanager
def _text_as_str(owner: Any) -> Iterator[None]:
    """Have the connection return text as `str` inside the block."""
    before = owner.text_factory
    owner.text_factory = str
    try:
        yield
    finally:
        owner.text_factory = before


class Sqlite3Caller(CallerConnection):
    """A connection of the module `sqlite3`."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, work: Work[T]) -> T:
        return run_on_sqlite(sqlite_work(work, "sqlite3"), Sqlite3Adapter(self._connection), self._connection)


class ApswCaller(CallerConnection):
    """A connection of apsw, which does not begin transactions by itself."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, work: Work[T]) -> T:
        on_sqlite = sqlite_work(work, "apsw")
        if not self._connection.in_transaction:
            raise autocommit_error()
        connection = _ApswAdapter(self._connection)
        check_connection(on_sqlite, connection, "apsw")
        return on_sqlite.action(connection)
