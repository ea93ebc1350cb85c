"""`RedisForeign`: custody in the Redis of another system, for the layouts that live there."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from tenure.bridges.custody import Custody, Look
from tenure.bridges.foreign import Foreign, ForeignError
from tenure.bridges.scripts import load
from tenure.errors import InvalidOption, StoreError
from tenure.stores.redis.address import Address, Kind
from tenure.stores.redis.link import Link
from tenure.stores.redis.wire import CommandArg

__all__ = ["RedisForeign", "address_of"]

log = logging.getLogger("tenure.bridges")


def address_of(url: str, prefix: str) -> Address:
    """The address of another system's Redis. A cluster is refused unless the prefix keeps all keys in one slot."""
    address = Address.from_url(url)
    if address.kind is Kind.CLUSTER and not ("{" in prefix and "}" in prefix.partition("{")[2]):
        raise InvalidOption(
            f"the keys of prefix {prefix!r} lie in many slots of a cluster, where no step is atomic: "
            "use a prefix with a hash tag, such as {resque}, or a server that is no cluster"
        )
    return address


class RedisForeign(Foreign):
    """The steps that all layouts in Redis share. A subclass has the scripts of its layout.

    | key | type | what it holds |
    |---|---|---|
    | `PREFIX:tenure:custody` | hash | job id → the entry, and who owns it (`Custody`) |
    | `PREFIX:tenure:workers` | hash | id of a worker as the other system names it → the id of our worker |
    | `PREFIX:tenure:beat:OWNER` | string | there while that worker lives, for bridges with another store |
    """

    layout: str
    """The folder of its scripts."""

    def __init__(self, address: Address, prefix: str) -> None:
        self.prefix = prefix
        self.custody = f"{prefix}:tenure:custody"
        self.workers = f"{prefix}:tenure:workers"
        self.place = f"{address}/{self.custody}"
        self._link = Link(address, (self.custody,))

    async def run(self, name: str, *args: CommandArg, layout: str | None = None) -> Any:
        """Run a script of this layout, or of another."""
        try:
            return await self._link.run_script(load(layout or self.layout, name), args)
        except StoreError as error:
            raise ForeignError(str(error)) from error

    async def command(self, *args: CommandArg) -> Any:
        """Run one command."""
        try:
            return await self._link.command(*args)
        except StoreError as error:
            raise ForeignError(str(error)) from error

    async def wait(self, timeout: float) -> None:
        await asyncio.sleep(timeout)

    async def look(self) -> Look:
        stored = await self.command("HGETALL", self.custody)
        owners = await self.command("HVALS", self.workers)
        entries = self._decoded(stored[::2], stored[1::2])
        return Look(entries, frozenset([*(entry.owner for entry in entries), *(owner.decode() for owner in owners)]))

    async def find(self, ids: Sequence[str]) -> list[Custody]:
        return self._decoded([each.encode() for each in ids], await self.command("HMGET", self.custody, *ids))

    def _decoded(self, ids: Sequence[bytes], stored: Sequence[bytes | None]) -> list[Custody]:
        """The entries of these fields of the hash, the oldest first: ids grow with time. What cannot be read is left alone."""
        entries = []
        for job_id, value in zip(ids, stored, strict=True):
            if value is not None:
                try:
                    entries.append(Custody.decoded(job_id, value))
                except ValueError:
                    log.warning("field %r of %s is no entry in custody: it stays as it is", job_id, self.custody)
        return sorted(entries, key=lambda entry: entry.id)

    async def beat(self, owner: str, seconds: float) -> None:
        if seconds:
            await self.command("SET", self._beat_of(owner), "1", "PX", int(seconds * 1000))
        else:
            await self.command("DEL", self._beat_of(owner))

    async def alive(self, owners: Sequence[str]) -> frozenset[str]:
        if not owners:
            return frozenset()
        beats = await self.command("MGET", *map(self._beat_of, owners))
        return frozenset(owner for owner, beat in zip(owners, beats, strict=True) if beat is not None)

    def _beat_of(self, owner: str) -> str:
        return f"{self.custody.removesuffix('custody')}beat:{owner}"

    async def held_there(self, ids: Sequence[str]) -> list[bool]:
        return [True] * len(ids)

    async def adopt(self, job_id: str, owner: str, adopter: str) -> bool:
        return bool(await self.run("adopt", job_id, owner, adopter, layout="custody"))

    async def mark_returning(self, ids: Sequence[str]) -> None:
        await self.run("mark_returning", *ids, layout="custody")

    async def let_go(self, ids: Sequence[str]) -> None:
        await self.command("HDEL", self.custody, *ids)

    @abstractmethod
    async def give_back(self, ids: Sequence[str]) -> None: ...

    async def close(self) -> None:
        await self._link.close()
