"""What the store does in a transaction of somebody else's."""

from __future__ import annotations

import contextlib
from typing import TypeVar

from tenure.core.clock import Clock
from tenure.stores.callers import SqliteWork
from tenure.stores.callers.connection import SqliteAdapter
from tenure.stores.sqlite.calls import Action
from tenure.stores.sqlite.engine import Engine
from tenure.stores.sqlite.library import Library
from tenure.stores.sqlite.transaction import NotPlain, Transaction

__all__ = ["work"]

T = TypeVar("T")


def work(engine: Engine, action: Action[T]) -> SqliteWork[T]:
    """What does this in any transaction on the file; if it raises, it leaves that as it was."""

    def run(connection: SqliteAdapter) -> T:
        connection.execute("SAVEPOINT tenure")
        try:
            # For writing from the first: a transaction that has read cannot write any more once somebody else has.
            connection.execute("DELETE FROM tenure_waiters WHERE 0")
            try:
                result, transaction = _perform(connection, engine.clock, action, plainly=True)
            except NotPlain:
                connection.execute("ROLLBACK TO tenure")
                result, transaction = _perform(connection, engine.clock, action, plainly=False)
        except BaseException:
            with contextlib.suppress(Exception):  # a full disk, or the like, has ended the whole transaction
                connection.execute("ROLLBACK TO tenure")
                connection.execute("RELEASE tenure")
            raise
        connection.execute("RELEASE tenure")
        connection.after_commit(lambda: engine.bells.ring(transaction))
        return result

    return SqliteWork(engine.path, lambda library: engine.choose(Library(library)), run)


def _perform(connection: SqliteAdapter, clock: Clock, action: Action[T], *, plainly: bool) -> tuple[T, Transaction]:
    transaction = Transaction(connection, clock, plainly=plainly)
    result = action(transaction)
    transaction.flush()
    return result, transaction
