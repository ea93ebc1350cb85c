"""What a doctor finds out about a PostgreSQL."""

from __future__ import annotations

import time

from tenure.stores.base import Fact, Health
from tenure.stores.postgres import schema
from tenure.stores.postgres.link import Link

__all__ = ["examine"]

PINGS = 10
"""Round trips of which the median is told."""

SLOW = 5.0
"""Milliseconds of a round trip from which on it is worth mentioning."""

OLD = 300.0
"""Seconds after which a transaction that is still open begins to harm: nothing that has gone since can be cleaned away."""

_SERVER = """
SELECT current_setting('server_version_num')::integer, current_setting('server_version'),
       current_setting('synchronous_commit'), current_setting('fsync'), pg_is_in_recovery(),
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
       (SELECT extract(epoch FROM max(clock_timestamp() - xact_start))::float8 FROM pg_stat_activity
        WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid())
"""
_TABLES = """
SELECT coalesce(sum(n_live_tup), 0)::float8, coalesce(sum(n_dead_tup), 0)::float8,
       coalesce(sum(pg_total_relation_size(relid)), 0)::float8,
       (SELECT sum(pg_total_relation_size(relid))::float8 FROM pg_stat_user_tables WHERE schemaname = $1)
FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'live'
"""


async def examine(link: Link, *, hears: bool) -> list[Fact]:
    """Ask the server about itself and about our schema."""
    [[number, version, commit, fsync, replica, most, used, oldest]] = await link.fetch(_SERVER)
    [[live, dead, size, whole]] = await link.fetch(_TABLES, link.address.schema)
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
        _size(live, dead, size, whole or 0.0),
        _oldest(oldest),
        _connections(used, most),
        _notifications(hears, pooled=link.address.pooled),
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


def _size(live: float, dead: float, size: float, whole: float) -> Fact:
    value = f"{_mib(size)} of jobs that have not ended, {_mib(whole)} in all; {dead:,.0f} dead rows beside {live:,.0f}"
    if dead > 100_000 and dead > live:
        advice = "Let autovacuum run more often (autovacuum_naptime), and end what keeps old transactions open."
        return Fact("bloat", value, Health.WARN, advice)
    return Fact("bloat", value)


def _oldest(seconds: float | None) -> Fact:
    name = "oldest transaction"
    if seconds is None:
        return Fact(name, "none is open")
    if seconds > OLD:
        advice = "End it: as long as it is open no dead row can be cleaned away, and leasing gets slower."
        return Fact(name, f"{seconds:,.0f} s", Health.WARN, advice)
    return Fact(name, f"{seconds:.1f} s")


def _connections(used: int, most: int) -> Fact:
    value = f"{used} of {most} in use"
    if used > 0.9 * most:
        advice = "Raise max_connections, use fewer worker processes, or put a pooler in between (pooled=true)."
        return Fact("connections", value, Health.WARN, advice)
    return Fact("connections", value)


def _notifications(hears: bool, *, pooled: bool) -> Fact:
    if hears:
        return Fact("notifications", "LISTEN and NOTIFY work")
    if pooled:
        return Fact("notifications", "none, because of the pooler: idle workers look for jobs five times a second")
    advice = "Let nothing stand in between that pools by transaction, or say pooled=true."
    return Fact("notifications", "NOTIFY does not arrive", Health.WARN, advice)


def _latency(milliseconds: float) -> Fact:
    value = f"{milliseconds:.2f} ms a round trip"
    if milliseconds > SLOW:
        return Fact("latency", value, Health.WARN, "Bring workers nearer to the server: each step is a round trip.")
    return Fact("latency", value)


def _mib(number: float) -> str:
    return f"{number / 2**20:,.1f} MiB"
