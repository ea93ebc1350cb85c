"""Runs an operation of the store inside a transaction of the caller's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from tenure.stores.callers import SqliteWork
from tenure.stores.callers.connection import SqliteAdapter
from tenure.stores.sqlite.calls import Action
from tenure.stores.sqlite.engine import Engine
from tenure.stores.sqlite.library import Library
from tenure.stores.sqlite.transaction import Transaction

__all__ = ["caller_reading", "caller_work"]

T = TypeVar("T")


def caller_work(engine: Engine, action: Action[T]) -> SqliteWork[T]:
    """Work that runs `action` in the caller's transaction on the file. If it raises, it leaves that transaction as it was."""

    def run(connection: SqliteAdapter) -> T:
        connection.execute("SAVEPOINT tenure")
        try:
            # Take the write lock first: a transaction that has only read can no longer write once another one has.
            connection.execute("DELETE FROM tenure_waiters WHERE 0")
            transaction = Transaction(connection, engine.clock)
            result = action(transaction)
            transaction.flush()
        except BaseException:
            with contextlib.suppress(Exception):  # an error such as a full disk has ended the whole transaction
                connection.execute("ROLLBACK TO tenure")
                connection.execute("RELEASE tenure")
            raise
        connection.execute("RELEASE tenure")
        connection.after_commit(lambda: engine.bells.ring(transaction))
        return result

    return _on_this_file(engine, run)


def caller_reading(engine: Engine, action: Action[T]) -> SqliteWork[T]:
    """Work that runs `action`, which only reads, in the caller's transaction on the file. It takes no write lock."""
    return _on_this_file(engine, lambda connection: action(Transaction(connection, engine.clock)))


def _on_this_file(engine: Engine, run: Callable[[SqliteAdapter], T]) -> SqliteWork[T]:
    return SqliteWork(engine.path, lambda library: engine.use_library(Library(library)), run)
