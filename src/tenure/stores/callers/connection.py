"""What a store wants done on a caller's connection, and who does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

__all__ = [
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
    """What a statement on a SQLite connection has given."""

    def fetchall(self) -> list[Any]: ...
    def fetchone(self) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


class SqliteConnection(Protocol):
    """A SQLite connection as the store uses it, whichever library made it: rows are tuples, text is `str`."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> SqliteCursor: ...
    def changes(self) -> int:
        """Rows that the last statement has changed."""
        ...


class SqliteAdapter(SqliteConnection, Protocol):
    """A SQLite connection as a script uses it."""

    def after_commit(self, action: Callable[[], None], /) -> None:
        """Do this after the commit, if there is a way to hear of it; else never."""
        ...


class PostgresWork(Generic[T_co]):
    """An errand on PostgreSQL: one statement with one parameter, a text, for which it has `{}`; and how its one value is read."""

    __slots__ = ("read", "statement", "value")

    def __init__(self, statement: str, value: str, read: Callable[[Any], T_co]) -> None:
        self.statement = statement
        self.value = value
        self.read = read


class SqliteWork(Generic[T_co]):
    """An errand on SQLite: a function of the connection, all of which happens or nothing."""

    __slots__ = ("action", "admit", "path")

    def __init__(self, path: str, admit: Callable[[str], None], action: Callable[[SqliteAdapter], T_co]) -> None:
        self.path = path
        """The file that the connection must be to."""

        self.admit = admit
        """Makes sure that the store itself uses the file through this library, or raises `InvalidOption`."""

        self.action = action


Work = PostgresWork[T_co] | SqliteWork[T_co]


class CallerConnection:
    """A connection of the caller's. What is done on it is part of the caller's transaction, whose end is not ours.

    What its library raises passes through: it is the caller's connection, and the caller's to handle. `InvalidOption` if it is no
    connection to the errand's database, or commits each statement by itself.
    """

    awaited: ClassVar[bool] = False
    """Whether its calls are awaited; then `run` cannot be used."""

    def run(self, work: Work[T]) -> T:
        """Have it done, on this thread."""
        raise NotImplementedError

    async def arun(self, work: Work[T]) -> T:
        """Have it done; right here, too, if the connection is a blocking one."""
        return self.run(work)
