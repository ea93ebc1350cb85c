"""The layout of the schema: numbered migrations, applied in order, each once, and the functions that are the steps.

The functions are made anew by every migration, so a change to one of them needs a migration, if only a comment; and since
programs of the layout before it go on calling them, a function keeps its parameters or gets another name; and tables keep the
columns that `single.py` names.
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
"""The newest layout that this Tenure knows."""

TIMEOUT = 60.0
"""Seconds that a migration may take, while others wait for it."""

_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}
"""How the steps are planned: every path is by an index, row by row. What the planner knows of a queue is old as soon as it is
known, and a plan for the empty tables of the first call would be kept for as long as the connection.

For the same reason steps join tables by `x.n = ANY (ARRAY[y.n])`, which can be answered by looking one row up and in no other way.
By `x.n = y.n` a planner that believes a table to be empty, because the last vacuum found it so, may go through all of it for
each row; and EXISTS it may answer with a hash table of all rows, which `(SELECT true … LIMIT 1)` forbids.
"""


async def current_layout(connection: Connection, address: Address) -> int | None:
    """The layout that the schema has; None if it has none yet."""
    # By the catalogue itself: to_regclass() may answer from a cache that another's migration has outdated meanwhile.
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
    """What tells this schema from those of the same name in other databases, once it has a layout."""
    return str(await connection.fetchval(f'SELECT identity FROM "{address.schema}".layout'))


async def migrate(connection: Connection, address: Address, *, may_change: bool) -> None:
    """Bring the schema to the newest layout, if that may be; safe when many do so at once."""
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
        have = await _check_layout(connection, address)  # again: another may have been faster
        if have < KNOWN:
            await connection.execute(_upgrade(address.schema, have))


async def migration_script(connection: Connection, address: Address) -> str:
    """What `migrate` would do, as one transaction for any program that runs SQL; nothing if there is nothing to do."""
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
    """From that layout to the newest one."""
    return "\n".join(
        [
            # A role that may make nothing but tables in a schema it was given is refused even CREATE SCHEMA IF NOT EXISTS.
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
    """Let nobody else change this schema until the transaction ends."""
    number = int.from_bytes(hashlib.sha256(f"tenure {schema}".encode()).digest()[:8], signed=True)
    return f"SELECT pg_advisory_xact_lock({number});"
