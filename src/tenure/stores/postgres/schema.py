"""Migrates the schema of a store to the current layout: numbered migrations, each applied once, and the SQL functions.

`operations/` holds the functions that this version calls, `compatibility/` those that only programs of earlier layouts call,
`functions/` what these share. Every migration replaces all of them, so a change of a function needs a migration, even if that is
only a comment. Programs of earlier layouts go on calling the operations while a new version is rolled out. Therefore an operation
keeps its parameters or gets another name, and tables keep the columns that statements/enqueue_single.sql names. Functions can be
dropped, or replaced under another name, because PostgreSQL looks a function up when it is called.
"""

from __future__ import annotations

import hashlib

from tenure.errors import LayoutTooNew, StoreError
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.link import ISOLATION, Connection
from tenure.stores.postgres.sql import load

__all__ = ["KNOWN", "TIMEOUT", "current_layout", "identity", "migrate", "migration_script"]


_MIGRATIONS = list(load("migrations").values())
_FUNCTIONS = load("functions")
_OPERATIONS = load("operations") | load("compatibility")

KNOWN = len(_MIGRATIONS)
"""The number of the newest layout that this version knows."""

TIMEOUT = 60.0
"""Seconds that a migration may take, including the wait for another one."""

_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}
"""Planner settings of the operations: every access is by an index, row by row. The planner's statistics of a queue are out of date
at once, and a connection would keep the plan of its first call, which may have met empty tables.

For the same reason operations join tables by `x.n = ANY (ARRAY[y.n])`, which the planner can only answer by an index lookup. With
`x.n = y.n`, a planner that believes a table to be empty, because the last vacuum found it so, may scan all of it for each row. With
EXISTS it may build a hash table of all rows, which `(SELECT true … LIMIT 1)` prevents.
"""


async def current_layout(connection: Connection, address: Address) -> int | None:
    """The layout number of the schema; None if it has none yet."""
    # From the catalogue itself, because to_regclass() may use a cache from before a concurrent migration.
    if (
        await connection.fetchval(
            "SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'layout'", address.schema
        )
        is None
    ):
        return None
    version: int | None = await connection.fetchval(f'SELECT version FROM "{address.schema}".layout')
    return version


async def identity(connection: Connection, address: Address) -> str:
    """The identity of the schema, which one of the same name in another database does not share. It needs a layout."""
    return str(await connection.fetchval(f'SELECT identity FROM "{address.schema}".layout'))


async def migrate(connection: Connection, address: Address, *, may_change: bool) -> None:
    """Migrate the schema to the newest layout; raise `StoreError` if it is older and `may_change` is false.

    Safe if many processes call it at once: one migrates, the others wait.
    """
    have = await _check_layout(connection, address)
    if have == KNOWN:
        return
    if not may_change:
        raise StoreError(
            f"the schema {address.schema!r} at {address} has {f'layout {have}' if have else 'no layout'} and this Tenure needs "
            f"{KNOWN}: run `tenure schema apply` as a role that may change it"
        )
    async with connection.transaction(isolation=ISOLATION):
        await connection.execute(_lock(address.schema))
        have = await _check_layout(connection, address)  # again, because another process may have migrated meanwhile
        if have < KNOWN:
            await connection.execute(_upgrade(address.schema, have))


async def migration_script(connection: Connection, address: Address) -> str:
    """The SQL of `migrate` as one transaction, for any program that runs SQL; empty if the layout is current."""
    have = await _check_layout(connection, address)
    if have == KNOWN:
        return ""
    return "\n".join(["BEGIN;", _lock(address.schema), _upgrade(address.schema, have), "COMMIT;"])


async def _check_layout(connection: Connection, address: Address) -> int:
    have = await current_layout(connection, address) or 0
    if have > KNOWN:
        raise LayoutTooNew(have, KNOWN, f"the schema {address.schema!r} at {address}")
    return have


def _upgrade(schema: str, have: int) -> str:
    """The SQL from the layout `have` to the newest one."""
    return "\n".join(
        [
            # A role that may only create tables in a given schema is refused even CREATE SCHEMA IF NOT EXISTS.
            f'DO $$ BEGIN IF to_regnamespace(\'"{schema}"\') IS NULL THEN CREATE SCHEMA "{schema}"; END IF; END $$;',
            f'SET LOCAL search_path = "{schema}", pg_temp;',
            "SET LOCAL check_function_bodies = off;",
            *(f"SET LOCAL {name} = {value};" for name, value in _SETTINGS.items()),
            *_MIGRATIONS[have:],
            *_FUNCTIONS.values(),
            *_OPERATIONS.values(),
            *(
                f'ALTER FUNCTION "{operation}" SET {setting} FROM CURRENT;'
                for operation in _OPERATIONS
                for setting in ("search_path", *_SETTINGS)
            ),
            f"UPDATE layout SET version = {KNOWN};",
        ]
    )


def _lock(schema: str) -> str:
    """The statement that locks out other migrations of this schema until the transaction ends."""
    number = int.from_bytes(hashlib.sha256(f"tenure {schema}".encode()).digest()[:8], signed=True)
    return f"SELECT pg_advisory_xact_lock({number});"
