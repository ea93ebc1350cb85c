"""`ArqOrigin`: the sorted sets of arq, whose jobs are pickles that are read as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tenure.bridges.importing.origin import PAGE, Origin, text
from tenure.bridges.importing.pickled import arguments_of, pickled
from tenure.bridges.importing.values import Call, Entry, LeftBehind, Part, Place

__all__ = ["ArqOrigin"]

QUEUE = "arq:queue"
"""The queue of arq by default."""


class ArqOrigin(Origin):
    """arq's queues. Jobs that a worker runs stay."""

    kind: ClassVar[str] = "arq"
    prefix: ClassVar[str] = "arq"
    has_prefix: ClassVar[bool] = False
    keeps_failures: ClassVar[bool] = False

    async def workers(self) -> list[str]:
        # A worker renews this key seldom, once an hour by default, and removes it when it stops.
        keys = [f"{queue}:health-check" for queue in await self._queues()]
        return [key for key in keys if await self.command("EXISTS", key)]

    async def places(self) -> list[Place]:
        found = []
        now = int(await self.now() * 1000)
        for queue in await self._queues():
            due, later, running = await self.run("count_arq", queue, now)
            counts = ((Part.WAITING, due, ""), (Part.SCHEDULED, later, ""), (Part.RUNNING, running, "a worker runs it"))
            found += [
                Place(part=part, queue=queue, key=queue, count=count, stays=stays, at=str(now))
                for part, count, stays in counts
                if count
            ]
        return found

    async def _queues(self) -> list[str]:
        found = {
            QUEUE,
            *self._named,
            *(key for key in await self.scan("arq:queue*") if not key.endswith(":health-check")),
        }
        return [key for key in sorted(found) if await self.command("TYPE", key) in (b"zset", b"none")]

    async def look(self, place: Place, start: int) -> list[Entry]:
        range_ = "ZRANGEBYSCORE", place.key, *_scores(place), "WITHSCORES", "LIMIT", start, PAGE
        found = await self.command(*range_)
        entries = []
        for name, score in zip(found[::2], found[1::2], strict=True):
            part = Part.RUNNING if await self.command("EXISTS", b"arq:in-progress:" + name) else place.part
            body = await self.command("GET", b"arq:job:" + name)
            entries.append(Entry("", part, place.queue, text(score), text(name), body or b""))
        return entries

    async def take(self, place: Place, ids: Sequence[str]) -> list[Entry]:
        return await self.taken(place, "take_arq", place.key, *_scores(place), place.part, place.queue, *ids)

    def read(self, entry: Entry) -> Call:
        if not entry.body:
            raise LeftBehind("its arguments have expired, so that arq would not run it either")
        found = pickled(entry.body)
        if not isinstance(found, dict) or not isinstance(task := found.get("f"), str):
            raise LeftBehind("it is no job of arq")
        args, kwargs = arguments_of(found.get("a"), found.get("k"), task)
        run_at = float(entry.at) / 1000 if entry.part is Part.SCHEDULED else None
        return Call(task=task, args=args, kwargs=kwargs, id=entry.name, run_at=run_at)


def _scores(place: Place) -> tuple[str, str]:
    """The lowest and the highest score of a place, which knows the time of the look."""
    return ("-inf", place.at) if place.part is Part.WAITING else (f"({place.at}", "+inf")
