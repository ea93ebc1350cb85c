"""`CallerConnection`: runs work of a store on a connection of the caller's, in a transaction that the caller ends.

A store describes the work (`PostgresWork`, `SqliteWork`); a `CallerConnection`, which knows the library of the
connection, runs it. So each store has one way to enqueue and to settle in a caller's transaction, and each library has
one file.

No library is imported here, because a caller that has a connection has imported its library.
"""

from __future__ import annotations

from tenure.stores.callers.connection import AnotherDatabase, CallerConnection, PostgresWork, SqliteWork, Work
from tenure.stores.callers.libraries import caller_connection
from tenure.stores.callers.postgres import collided

__all__ = ["AnotherDatabase", "CallerConnection", "PostgresWork", "SqliteWork", "Work", "caller_connection", "collided"]
