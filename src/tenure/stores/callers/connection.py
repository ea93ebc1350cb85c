"""`Work` of a store for a caller's connection, and `CallerConnection`, which runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from tenure.errors import InvalidOption

__all__ = [
    "AnotherDatabase",
    "CallerConnection",
    "PostgresWork",
    "SqliteAdapter",
    "SqliteConnection",
    "SqliteCursor",
    "SqliteWork",
    "Work",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class SqliteCursor(Protocol):
    """The rows of a statement on a SQLite connection."""

    def fetchall(self) -> list[Any]: ...
    def fetchone(self) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


class SqliteConnection(Protocol):
    """A SQLite connection of any library, as the store uses it: rows are tuples, text is `str`."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> SqliteCursor: ...
    def changes(self) -> int:
        """Number of rows that the last statement changed."""
        ...


class SqliteAdapter(SqliteConnection, Protocol):
    """A SQLite connection of a caller, as `SqliteWork` uses it."""

    def after_commit(self, action: Callable[[], None], /) -> None:
        """Call `action` after the commit, if the library can report commits; else never."""
        ...


class PostgresWork(Generic[T_co]):
    """Work on PostgreSQL: one statement with one text parameter, written `{}`, and a function that reads its one value."""

    __slots__ = ("read", "statement", "value")

    def __init__(self, statement: str, value: str, read: Callable[[Any], T_co]) -> None:
        self.statement = statement
        self.value = value
        self.read = read


class SqliteWork(Generic[T_co]):
    """Work on SQLite: an atomic function of the connection."""

    __slots__ = ("action", "admit", "path")

    def __init__(self, path: str, admit: Callable[[str], None], action: Callable[[SqliteAdapter], T_co]) -> None:
        self.path = path
        """The file that the connection must have open as its main database."""

        self.admit = admit
        """Called with the name of the connection's library; `InvalidOption` if the store uses another library."""

        self.action = action


Work = PostgresWork[T_co] | SqliteWork[T_co]


class AnotherDatabase(InvalidOption):
    """The connection is to another database than the work is for."""


class CallerConnection:
    """A caller's connection. Work on it becomes part of the caller's transaction, which only the caller ends.

    Errors of its library pass through, because the caller handles the connection. `InvalidOption` if the connection is
    to another database than the work is for, or commits each statement by itself.
    """

    awaited: ClassVar[bool] = False
    """Whether its calls are awaited; if so, only `arun` works."""

    def run(self, work: Work[T]) -> T:
        """Run the work on this thread."""
        raise NotImplementedError

    async def arun(self, work: Work[T]) -> T:
        """Run the work; if the connection is a blocking one, on this thread too."""
        return self.run(work)
