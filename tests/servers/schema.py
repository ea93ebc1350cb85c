"""A schema that tests use one after the other, because to make one takes longer than most of them."""

from __future__ import annotations

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from psycopg import sql

from tenure.stores.postgres.store import PostgresStore

__all__ = ["Schema"]

LARGE = 200_000
"""Bytes from which a table is truncated, so that deleted rows do not pile up in it."""


class Schema:
    """One that holds a store in which there is nothing, each time that it has been emptied."""

    def __init__(self, server: str) -> None:
        self.name = f"t{secrets.token_hex(8)}"
        self.url = f"{server}{'&' if '?' in server else '?'}schema={self.name}"
        with ThreadPoolExecutor() as elsewhere:  # a fixture may be asked for on a loop that runs
            elsewhere.submit(asyncio.run, self._make()).result()
        self._server = server
        self._own: psycopg.Connection[Any] | None = None
        self._tables = self._find(self._connection)
        # One statement for all tables: a round trip for each took longer than most tests.
        has_rows = sql.SQL("SELECT {}, pg_relation_size({}::regclass) > {} WHERE EXISTS (SELECT FROM {})")
        self._full = sql.SQL(" UNION ALL ").join(
            has_rows.format(table, f"{self.name}.{table}", LARGE, self._named([table]))
            for table in sorted(self._tables - {"layout"})
        )

    def do(self, statement: str, *values: Any) -> Any:
        """Do something past the store; the rows, if there are any."""
        return self._connection.execute(statement.encode(), values)

    def empty(self) -> None:
        """Remove all rows, and all tables that a test has made."""
        connection = self._connection
        # Of a process that was killed, the last statement may still be under way: wait until its backend is gone.
        connection.execute(
            "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND pid IN ("
            "SELECT l.pid FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE c.relnamespace = %s::regnamespace)",
            [self.name],
        )
        if made := self._find(connection) - self._tables:
            connection.execute(sql.SQL("DROP TABLE {}").format(self._named(made)))
        for table, large in connection.execute(self._full).fetchall():
            # TRUNCATE makes new files for the table and each index: fifty times the work of deleting a few rows.
            how = sql.SQL("TRUNCATE {}" if large else "DELETE FROM {}")
            connection.execute(how.format(self._named([table])))

    def remove(self) -> None:
        self._connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(self.name)))
        self._connection.close()

    @property
    def _connection(self) -> psycopg.Connection[Any]:
        """The one that there is, unless a test has ended it with all the others."""
        try:
            if self._own is not None:
                self._own.execute("SELECT 1")
                return self._own
        except psycopg.OperationalError:
            pass
        self._own = psycopg.connect(self._server, autocommit=True)
        return self._own

    async def _make(self) -> None:
        store = PostgresStore.from_url(self.url)
        await store.open()
        await store.close()

    def _find(self, connection: psycopg.Connection[Any]) -> set[str]:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [self.name])
        return {table for (table,) in found}

    def _named(self, tables: Any) -> sql.Composed:
        return sql.SQL(", ").join(sql.Identifier(self.name, table) for table in tables)
