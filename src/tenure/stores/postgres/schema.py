"""The layout of the schema: numbered migrations, applied in order, each once, and the functions that are the steps.

The functions are made anew by every migration, so a change to one of them needs a migration, if only a comment; and since
programs of the layout before it go on calling them, a function keeps its parameters or gets another name.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

from tenure.errors import LayoutTooNew, StoreError
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.link import Connection

__all__ = ["KNOWN", "PATIENCE", "found", "migrate", "script"]


def _load(folder: str) -> dict[str, str]:
    found = [file for file in (files(__package__) / folder).iterdir() if file.name.endswith(".sql")]
    return {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in sorted(found, key=lambda file: file.name)
    }


_MIGRATIONS = list(_load("migrations").values())
_PARTS = _load("parts")
_STEPS = _load("steps")

KNOWN = len(_MIGRATIONS)
"""The newest layout that this Tenure knows."""

PATIENCE = 60.0
"""Seconds that a migration may take, while others wait for it."""

_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}
"""How the steps are planned: every path is by an index, row by row. What the planner knows of a queue is old as soon as it is
known, and a plan for the empty tables of the first call would be kept for as long as the connection."""


async def found(connection: Connection, address: Address) -> int | None:
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


async def migrate(connection: Connection, address: Address) -> None:
    """Bring the schema to the newest layout; safe when many do so at once."""
    have = await found(connection, address)
    if have == KNOWN:
        return
    if have is None or have < KNOWN:
        if not address.auto_schema:
            raise StoreError(
                f"the schema {address.schema!r} at {address} has {'no layout' if have is None else f'layout {have}'} and this "
                f"Tenure needs {KNOWN}: run `tenure schema apply` as a role that may change it"
            )
        async with connection.transaction():
            await connection.fetchval("SELECT pg_advisory_xact_lock($1)", _lock(address.schema))
            have = await found(connection, address)  # again: another may have been faster
            if have is None or have < KNOWN:
                await connection.execute(script(address.schema, have or 0))
                return
    if have > KNOWN:
        raise LayoutTooNew(have, KNOWN, f"the schema {address.schema!r} at {address}")


def script(schema: str, have: int = 0) -> str:
    """What brings a schema of that layout to the newest one, to be run as one transaction."""
    first = [] if have else [f'CREATE SCHEMA IF NOT EXISTS "{schema}";']
    return "\n".join(
        [
            *first,
            f'SET LOCAL search_path = "{schema}", pg_temp;',
            "SET LOCAL check_function_bodies = off;",
            *(f"SET LOCAL {name} = {value};" for name, value in _SETTINGS.items()),
            *_MIGRATIONS[have:],
            *_PARTS.values(),
            *_STEPS.values(),
            *(
                f'ALTER FUNCTION "{step}" SET {setting} FROM CURRENT;'
                for step in _STEPS
                for setting in ("search_path", *_SETTINGS)
            ),
            "DELETE FROM layout;",
            f"INSERT INTO layout (version) VALUES ({KNOWN});",
        ]
    )


def _lock(schema: str) -> int:
    return int.from_bytes(hashlib.sha256(f"tenure {schema}".encode()).digest()[:8], signed=True)
