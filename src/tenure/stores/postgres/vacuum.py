"""Vacuuming the tables that change all the time, before the server would.

A lease looks for its jobs at the front of the line, and there stand the entries of all that were leased before, until a vacuum
has removed them: at 15,000 jobs a second every lease is slower by a quarter after ten seconds. The server looks for such tables
once a minute, unless `autovacuum_naptime` says otherwise.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

from tenure.stores.postgres.link import Connection, Link

__all__ = ["Vacuum"]

DEAD, SHARE = 50_000, 0.05
"""Dead rows in a table, and that share of its live ones more, from which on a vacuum is worth its while."""

CHECK_EVERY, PAUSE = 1.0, 60.0
"""Seconds between looks; and after a vacuum that could not remove them, because some transaction is older."""

TIMEOUT = 60.0
"""Seconds that a vacuum may take."""

# Only those of one's own: a vacuum of others' tables does nothing but warn.
_DIRTY: Final = """
SELECT c.relname FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
WHERE s.schemaname = $1 AND c.relname IN ('live', 'ended', 'tallies') AND s.n_dead_tup > $2 + $3 * s.n_live_tup
  AND pg_has_role(c.relowner, 'USAGE')
"""
# It waits for nobody and has nobody wait: not for another vacuum, and not to cut the file.
_VACUUM: Final = "VACUUM (SKIP_LOCKED, TRUNCATE off, INDEX_CLEANUP on, PARALLEL 0) "


class Vacuum:
    """Vacuums what is dirty in the schema of this link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._due = 0.0

    async def run_if_due(self) -> None:
        """Vacuum if it is time and worth it."""
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
