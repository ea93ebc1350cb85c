"""Connections that are not ours: the caller's own, in a transaction that is the caller's to end.

A store says what is to be done there as an errand; a guest, which knows the library that made the connection, has it done.
So every store knows one way to enqueue and to settle in somebody else's transaction, and every library is known in one file.

No library is imported here: whoever brings a connection has imported its own.
"""

from __future__ import annotations

from tenure.stores.callers.connection import CallerConnection, PostgresWork, SqliteWork, Work
from tenure.stores.callers.libraries import caller_connection
from tenure.stores.callers.postgres import collided

__all__ = ["CallerConnection", "PostgresWork", "SqliteWork", "Work", "caller_connection", "collided"]
