"""`Origin`: what an import needs of another system, as a system in Redis provides it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from tenure.bridges.foreign import ForeignError
from tenure.bridges.importing.values import Call, Entry, Part, Place
from tenure.bridges.redis import address_of
from tenure.bridges.scripts import load
from tenure.errors import InvalidOption, StoreError
from tenure.stores import masked
from tenure.stores.redis.link import Link
from tenure.stores.redis.wire import CommandArg

__all__ = ["LIVE", "PAGE", "Origin", "text", "texts"]

PAGE = 500
"""Entries that one call reads at most, when an import only looks."""

LIVE = 60.0
"""Seconds since its last heartbeat after which a worker of another system counts as gone."""


class Origin(ABC):
    """Another system that an import takes entries from, for one event loop. Every step that changes something is one script.

    `take` moves entries into custody: a hash beside the keys of the other system, with each entry's bytes and the commands that
    return it. From there an entry either becomes a job (`drop`) or goes back to the front of where it was (`put_back`). Both do
    nothing to an entry that is no longer in custody, so they may be repeated.
    """

    kind: ClassVar[str]
    prefix: ClassVar[str]
    """The prefix of its keys by default."""

    has_prefix: ClassVar[bool] = True
    """Whether its keys can have another prefix."""

    keeps_failures: ClassVar[bool] = True
    """Whether jobs that have failed are kept so that they can be imported."""

    def __init__(self, url: str, prefix: str | None = None, queues: Sequence[str] = ()) -> None:
        """`queues` are queues to look for, beside those that are found."""
        if prefix is not None and not self.has_prefix:
            raise InvalidOption(f"the keys of {self.kind} always begin with {self.prefix!r}: leave the prefix out")
        self.url = url
        self._named = tuple(queues)
        self._prefix = self.prefix if prefix is None else prefix
        self.custody = f"{self._prefix}:tenure:importing" if self._prefix else "tenure:importing"
        self._link = Link(address_of(url, self._prefix), (self.custody,))

    @property
    def shown(self) -> str:
        """Its address, without the password."""
        return masked(self.url)

    @abstractmethod
    async def workers(self) -> list[str]:
        """The names of its workers that seem to be alive; bridges of Tenure do not count."""

    @abstractmethod
    async def places(self) -> list[Place]:
        """Where its entries are, in the order in which they are to be moved."""

    @abstractmethod
    async def look(self, place: Place, start: int) -> list[Entry]:
        """Up to `PAGE` entries of a place from this position, in order. Changes nothing."""

    @abstractmethod
    async def take(self, place: Place, ids: Sequence[str]) -> list[Entry]:
        """Take up to one entry for each of these new ids into custody, in the order of the place."""

    @abstractmethod
    def read(self, entry: Entry) -> Call:
        """The call of an entry. Raises `LeftBehind` if it has none that a task could get."""

    async def in_custody(self) -> list[Entry]:
        """The entries that an earlier import has taken and not finished with, in the order in which it took them."""
        stored = await self.command("HGETALL", self.custody)
        found: list[tuple[int, Entry]] = []
        for field, value in zip(stored[::2], stored[1::2], strict=True):
            if field:
                header, _, body = value.partition(b"\n")
                facts = json.loads(text(header))
                entry = Entry(
                    field.decode(), Part(facts["part"]), facts["queue"], facts["at"], facts.get("name", ""), body
                )
                found.append((facts["seq"], entry))
        return [entry for _, entry in sorted(found)]

    async def drop(self, ids: Sequence[str]) -> int:
        """Drop the custody of entries that are jobs now. Returns how many were in custody."""
        return int(await self.run("drop", *ids))

    async def put_back(self, ids: Sequence[str]) -> int:
        """Return entries to the front of where they were, the first foremost. Returns how many were in custody."""
        return int(await self.run("put_back", *ids))

    async def close(self) -> None:
        """Disconnect."""
        await self._link.close()

    # For subclasses.

    async def run(self, name: str, *args: CommandArg) -> Any:
        """Run a script of the import."""
        try:
            return await self._link.run_script(load("importing", name), [*map(_word, args)])
        except StoreError as error:
            raise ForeignError(str(error)) from error

    async def command(self, *args: CommandArg) -> Any:
        """Run one command."""
        try:
            return await self._link.command(*map(_word, args))
        except StoreError as error:
            raise ForeignError(str(error)) from error

    async def taken(self, place: Place, name: str, *args: CommandArg) -> list[Entry]:
        """Run a script that takes entries of this place."""
        found = await self.run(name, *args)
        return [
            Entry(text(each), place.part, place.queue, text(at), text(name), body) for each, at, name, body in found
        ]

    async def take_from_list(
        self, place: Place, ids: Sequence[str], *, first: str = "LEFT", back: str | None = None
    ) -> list[Entry]:
        """Take entries from the `first` end of a list; they return to the same end of `back`, or of the list itself."""
        key = place.key
        return await self.taken(
            place, "take_list", key, first, key if back is None else back, place.part, place.queue, *ids
        )

    async def look_at_list(self, place: Place, start: int, *, first: str = "LEFT") -> list[Entry]:
        """Entries of a list from this position, counted from its `first` end."""
        if first == "LEFT":
            bodies = await self.command("LRANGE", place.key, start, start + PAGE - 1)
        else:
            bodies = (await self.command("LRANGE", place.key, -start - PAGE, -start - 1))[::-1]
        return [Entry("", place.part, place.queue, place.at, "", body) for body in bodies]

    async def clients(self, *commands: str, patterns: bool = False) -> list[str]:
        """The clients of this database that wait in one of these commands, or, if `patterns`, subscribe to patterns."""
        database = str(self._link.address.db)
        found = []
        for line in text(await self.command("CLIENT", "LIST")).splitlines():
            client = dict(each.partition("=")[::2] for each in line.split(" "))
            waits = client.get("cmd") in commands or (patterns and client.get("psub", "0") != "0")
            if client.get("db") == database and waits:
                found.append(f"a client at {client.get('addr')}")
        return found

    async def scan(self, pattern: str) -> list[str]:
        """The keys that match a pattern, sorted."""
        found: set[str] = set()
        cursor = b"0"
        while True:
            cursor, keys = await self.command("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
            found.update(map(text, keys))
            if cursor == b"0":
                return sorted(found)

    async def now(self) -> float:
        """Seconds since the epoch by the clock of its server."""
        seconds, micros = await self.command("TIME")
        return int(seconds) + int(micros) / 1e6


def text(data: bytes) -> str:
    """Text of the other system; bytes that are no UTF-8 stay recognisable."""
    return data.decode(errors="surrogateescape")


def _word(word: CommandArg) -> CommandArg:
    """The bytes that `text` has read; other words as they are."""
    return word.encode(errors="surrogateescape") if isinstance(word, str) else word


def texts(joined: bytes) -> list[bytes | None]:
    """Take apart what the script's `joined` has made: texts, each with its length before it."""
    found: list[bytes | None] = []
    start = 0
    while start < len(joined):
        if joined[start : start + 1] == b"-":
            found.append(None)
            start += 2
            continue
        length, _, _ = joined[start : start + 20].partition(b":")
        begin = start + len(length) + 1
        found.append(joined[begin : begin + int(length)])
        start = begin + int(length) + 1
    return found
