"""Examines the health of a PostgreSQL server and of the schema, for `tenure doctor`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from tenure.errors import StoreUnavailable
from tenure.stores.postgres import schema
from tenure.stores.postgres.link import Link
from tenure.stores.values import Fact, Health

__all__ = ["examine"]

PINGS = 10
"""Round trips of which the median is reported."""

SLOW = 5.0
"""Milliseconds above which a round trip is a warning."""

OLD = 300.0
"""Seconds after which an open transaction is a warning: rows deleted since its start cannot be vacuumed."""

DEAD = 100_000
"""Dead rows in one table above which operations get slower, if they outnumber the live ones."""

ENTRY, SPARSE, LARGE = 100, 4, 64 << 20
"""Bytes of an index entry in a well-filled index, the factor by which an index may exceed that, and the size in bytes below
which it does not matter."""

LOOPS = 2
"""Event loops of a worker process. Each has `connections` connections and one that listens; jobs have `connections` more."""

_SERVER = """
SELECT current_setting('server_version_num')::integer, current_setting('server_version'),
       current_setting('synchronous_commit'), current_setting('fsync'), pg_is_in_recovery(),
       current_setting('autovacuum')::boolean
"""
_TABLES = """
SELECT t.relname, t.n_live_tup, t.n_dead_tup, pg_table_size(t.relid), pg_indexes_size(t.relid), count(i.indexrelid)
FROM pg_stat_user_tables t LEFT JOIN pg_stat_user_indexes i ON i.relid = t.relid
WHERE t.schemaname = $1 GROUP BY t.relid, t.relname, t.n_live_tup, t.n_dead_tup
"""
# A transaction keeps dead rows from being vacuumed if it has a snapshot or has written. Vacuums themselves do not.
_OLDEST = """
SELECT extract(epoch FROM clock_timestamp() - since)::float8, who, pg_has_role('pg_read_all_stats', 'USAGE')
FROM (SELECT) AS always LEFT JOIN (
    SELECT xact_start AS since, concat_ws(', ', 'process ' || pid, nullif(application_name, ''), state) AS who
    FROM pg_stat_activity
    WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start IS NOT NULL
      AND backend_type <> 'autovacuum worker' AND pid <> pg_backend_pid()
    UNION ALL
    SELECT prepared, 'prepared as ' || gid FROM pg_prepared_xacts
) AS open ON true
ORDER BY since LIMIT 1
"""
_BUDGET = """
SELECT whose, used, most FROM (
    SELECT 'the server', current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer,
           count(*)
    FROM pg_stat_activity WHERE backend_type = 'client backend'
    UNION ALL
    SELECT 'the database', datconnlimit, (SELECT count(*) FROM pg_stat_activity a WHERE a.datid = d.oid)
    FROM pg_database d WHERE datname = current_database() AND datconnlimit >= 0
    UNION ALL
    SELECT 'the role', rolconnlimit, (SELECT count(*) FROM pg_stat_activity a WHERE a.usesysid = r.oid)
    FROM pg_roles r WHERE rolname = current_user AND rolconnlimit >= 0
) AS limits (whose, most, used)
ORDER BY most - used LIMIT 1
"""


class TableSize(NamedTuple):
    """The size of one table and of its indexes, in rows and bytes."""

    table: str
    live: int
    dead: int
    size: int
    index_size: int
    indexes: int


async def examine(link: Link, *, is_live: bool) -> list[Fact]:
    """Query the server about itself and about the schema. `is_live`: whether notifications arrive."""
    [[number, version, commit, fsync, replica, autovacuum]] = await link.fetch(_SERVER)
    tables = [TableSize(*row) for row in await link.fetch(_TABLES, link.address.schema)]
    if not tables:
        raise StoreUnavailable(
            f"PostgreSQL at {link.address} has no tables in the schema {link.address.schema!r}: "
            "run `tenure schema apply`, or bring back what was there"
        )
    [[oldest, who, sees_all]] = await link.fetch(_OLDEST)
    [[whose, used, most]] = await link.fetch(_BUDGET)
    trips = []
    for _ in range(PINGS):
        begun = time.perf_counter()
        await link.fetch("SELECT 1")
        trips.append(time.perf_counter() - begun)
    return [
        _version(number, version),
        Fact("layout", f"{schema.KNOWN}, in the schema {link.address.schema}"),
        _role(replica),
        _durability(commit, fsync),
        _bloat(tables, autovacuum=autovacuum),
        _index_bloat(tables, link.address.schema),
        _oldest(oldest, who, sees_all=sees_all),
        _connections(whose, used, most, LOOPS * (link.address.connections + 1) + link.address.connections),
        _notifications(is_live, pooled=link.address.pooled),
        _latency(sorted(trips)[PINGS // 2] * 1000),
    ]


def _version(number: int, version: str) -> Fact:
    if number < 130000:
        return Fact("version", f"PostgreSQL {version}", Health.BAD, "Use PostgreSQL 13 or newer.")
    return Fact("version", f"PostgreSQL {version}")


def _role(replica: bool) -> Fact:
    if replica:
        return Fact("role", "standby", Health.BAD, "Point the URL at the primary: a standby takes no writes.")
    return Fact("role", "primary")


def _durability(commit: str, fsync: str) -> Fact:
    if fsync != "on":
        return Fact("durability", "fsync is off: a crash may lose every job", Health.BAD, "Set fsync to on.")
    if commit in {"off", "local"}:
        advice = "Set synchronous_commit to on for this role or database."
        value = f"synchronous_commit is {commit}: a crash or a failover may lose what was acknowledged last"
        return Fact("durability", value, Health.WARN, advice)
    return Fact("durability", "on disk before it is acknowledged")


def _bloat(tables: Sequence[TableSize], *, autovacuum: bool) -> Fact:
    worst = max(tables, key=lambda table: table.dead)
    size = _mib(sum(table.size for table in tables))
    value = f"{worst.dead:,} dead rows beside {worst.live:,} in {worst.table}, which has the most ({size} of tables)"
    if not autovacuum:
        return Fact("bloat", f"{value}; autovacuum is off", Health.WARN, "Set autovacuum to on.")
    if worst.dead > DEAD and worst.dead > worst.live:
        advice = "End what keeps old transactions open, and let autovacuum run more often (autovacuum_naptime)."
        return Fact("bloat", value, Health.WARN, advice)
    return Fact("bloat", value)


def _index_bloat(tables: Sequence[TableSize], schema: str) -> Fact:
    for table in tables:
        if table.index_size > max(LARGE, SPARSE * ENTRY * table.indexes * table.live):
            value = f"{_mib(table.index_size)} of indexes for {table.live:,} rows in {table.table}"
            advice = f'Run REINDEX TABLE CONCURRENTLY "{schema}".{table.table}.'
            return Fact("index bloat", value, Health.WARN, advice)
    return Fact("index bloat", f"none, in {_mib(sum(table.index_size for table in tables))} of indexes")


def _oldest(seconds: float | None, who: str | None, *, sees_all: bool) -> Fact:
    name = "oldest transaction"
    if not sees_all:
        return Fact(name, "unknown: this role sees only its own transactions (GRANT pg_read_all_stats to see all)")
    if seconds is None:
        return Fact(name, "none is open")
    if seconds > OLD:
        advice = "End it: while it is open, dead rows cannot be vacuumed, and leasing gets slower."
        return Fact(name, f"{seconds:,.0f} s ({who})", Health.WARN, advice)
    return Fact(name, f"{seconds:.1f} s ({who})")


def _connections(whose: str, used: int, most: int, worker: int) -> Fact:
    value = f"{used} of the {most} of {whose} in use; a worker process of this URL takes up to {worker}"
    if used + worker > most:
        advice = f"Raise the limit of {whose}, set a lower connections= in the URL, or put a pooler in between (pooled=true)."
        return Fact("connections", value, Health.WARN, advice)
    return Fact("connections", value)


def _notifications(is_live: bool, *, pooled: bool) -> Fact:
    if is_live:
        return Fact("notifications", "LISTEN and NOTIFY work")
    if pooled:
        return Fact("notifications", "none, because of the pooler: idle workers poll five times a second")
    advice = "Connect without a pooler in transaction mode, or set pooled=true."
    return Fact("notifications", "NOTIFY does not arrive", Health.WARN, advice)


def _latency(milliseconds: float) -> Fact:
    value = f"{milliseconds:.2f} ms a round trip"
    if milliseconds > SLOW:
        return Fact("latency", value, Health.WARN, "Run workers nearer to the server: each operation is a round trip.")
    return Fact("latency", value)


def _mib(number: float) -> str:
    return f"{number / 2**20:,.1f} MiB"
