"""A table of the user's beside the jobs, which tells how often something was written."""

from __future__ import annotations

from tenure.stores.base import Store
from tenure.stores.postgres.address import Address

__all__ = ["Effects"]


class Effects:
    """One row for each time that something was done."""

    def __init__(self, url: str, store: Store) -> None:
        postgres = url.startswith("postgres")
        self._store = store
        # In the schema of the store, with which it goes when the test ends.
        self.table = f'"{Address.from_url(url).schema}".effects' if postgres else "effects"
        self.insert = f"INSERT INTO {self.table} VALUES ({'$1' if postgres else '?'})"

    @staticmethod
    def dsn(url: str) -> str:
        """The URL of the database that a store on PostgreSQL is in, for its drivers."""
        return Address.from_url(url).dsn

    @classmethod
    async def made(cls, url: str, store: Store) -> Effects:
        effects = cls(url, store)
        await store.open()
        own = await store.begin()
        await own.execute(f"CREATE TABLE {effects.table} (n integer)")
        await own.commit()
        return effects

    async def rows(self) -> list[int]:
        """What was written, in order."""
        own = await self._store.begin(writes=False)
        try:
            return [row[0] for row in await own.fetch(f"SELECT n FROM {self.table} ORDER BY n")]
        finally:
            await own.rollback()
