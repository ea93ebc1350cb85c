"""Vacuum: vacuums the busiest tables of a store earlier than autovacuum would.

A lease searches the index from the front of the line, where the dead entries of all jobs leased before stand until a vacuum
removes them: at 15,000 jobs a second, leases are slower by a quarter after ten seconds. Autovacuum looks for such tables once
a minute, unless `autovacuum_naptime` is set.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

from tenure.stores.postgres.link import Connection, Link

__all__ = ["Vacuum"]

DEAD, SHARE = 50_000, 0.05
"""A table is vacuumed once it has `DEAD` dead rows plus `SHARE` of its live rows."""

CHECK_EVERY, PAUSE = 1.0, 60.0
"""Seconds between checks; and after a vacuum that could not remove the rows, because an older transaction is open."""

TIMEOUT = 60.0
"""Seconds that a vacuum may take."""

# Only tables that this role owns: a vacuum of others only warns.
_DIRTY: Final = """
SELECT c.relname FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
WHERE s.schemaname = $1 AND c.relname IN ('live', 'ended', 'tallies') AND s.n_dead_tup > $2 + $3 * s.n_live_tup
  AND pg_has_role(c.relowner, 'USAGE')
"""
# It neither waits for another vacuum nor blocks other transactions in order to truncate the file.
_VACUUM: Final = "VACUUM (SKIP_LOCKED, TRUNCATE off, INDEX_CLEANUP on, PARALLEL 0) "


class Vacuum:
    """Vacuums the tables of a link's schema that have many dead rows."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._due = 0.0

    async def run_if_due(self) -> None:
        """Check for tables with many dead rows if the last check is old enough, and vacuum them."""
        if monotonic() < self._due:
            return
        tables = await self._tables_to_vacuum()
        if tables:
            await self._link.use(lambda connection: self._vacuum(connection, tables), TIMEOUT)
            tables = await self._tables_to_vacuum()
        self._due = monotonic() + (PAUSE if tables else CHECK_EVERY)

    async def _tables_to_vacuum(self) -> list[str]:
        return [table for [table] in await self._link.fetch(_DIRTY, self._link.address.schema, DEAD, SHARE)]

    async def _vacuum(self, connection: Connection, tables: list[str]) -> None:
        await connection.execute(_VACUUM + ", ".join(f'"{self._link.address.schema}".{table}' for table in tables))
