"""`HueyOrigin`: the list and the schedule of Huey in Redis, whose messages are pickles that are read as data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from tenure.bridges.importing.inert import Record
from tenure.bridges.importing.origin import PAGE, Origin, text
from tenure.bridges.importing.pickled import arguments_of, pickled
from tenure.bridges.importing.values import Call, Entry, LeftBehind, Part, Place

__all__ = ["HueyOrigin"]

MESSAGE = "huey.registry.Message"
FIELDS = (
    *("id", "name", "eta", "retries", "retry_delay", "priority", "args", "kwargs", "on_complete", "on_error"),
    *("expires", "expires_resolved", "timeout", "chord_config"),
)
"""The fields of a message in order; older versions write fewer, newer ones more."""


class HueyOrigin(Origin):
    """Huey's queues, each named as its `Huey` object. What a consumer runs is nowhere in Redis."""

    kind: ClassVar[str] = "huey"
    prefix: ClassVar[str] = "huey"
    has_prefix: ClassVar[bool] = False
    keeps_failures: ClassVar[bool] = False

    async def workers(self) -> list[str]:
        return await self.clients("brpop", "bzpopmin")

    async def places(self) -> list[Place]:
        names = {key.removeprefix("huey.redis.") for key in await self.scan("huey.redis.*")}
        names |= {key.removeprefix("huey.schedule.") for key in await self.scan("huey.schedule.*")}
        found: list[Place] = []
        for name in sorted(names | {*self._named}):
            key, later = f"huey.redis.{name}", f"huey.schedule.{name}"
            if await self.command("TYPE", key) == b"zset":
                stays = "it is in a storage with priorities, which is not read"
                count = await self.command("ZCARD", key)
                found.append(Place(part=Part.WAITING, queue=name, key=key, count=count, stays=stays))
            elif count := await self.command("LLEN", key):
                found.append(Place(part=Part.WAITING, queue=name, key=key, count=count))
            if count := await self.command("ZCARD", later):
                found.append(Place(part=Part.SCHEDULED, queue=name, key=later, count=count))
        return found

    async def look(self, place: Place, start: int) -> list[Entry]:
        if place.part is Part.WAITING:
            return await self.look_at_list(place, start, first="RIGHT")
        bodies = await self.command("ZRANGE", place.key, start, start + PAGE - 1)
        return [Entry("", place.part, place.queue, "", "", body) for body in bodies]

    async def take(self, place: Place, ids: Sequence[str]) -> list[Entry]:
        if place.part is Part.WAITING:
            return await self.take_from_list(place, ids, first="RIGHT")
        return await self.taken(place, "take_scored", place.key, place.part, place.queue, *ids)

    def read(self, entry: Entry) -> Call:
        found = pickled(entry.body, {MESSAGE})
        if not isinstance(found, Record):
            raise LeftBehind("it is no message of Huey")
        message = dict(zip(FIELDS, found.fields, strict=False))
        if not isinstance(name := message.get("name"), str):
            raise LeftBehind("it is no message of Huey")
        # No task here can have a name that begins with an underscore.
        task = name.removeprefix("__main__.")
        if any(message.get(field) is not None for field in ("on_complete", "on_error", "chord_config")):
            raise LeftBehind("it carries tasks that follow it, which would be lost", task)
        args, kwargs = arguments_of(message.get("args") or (), message.get("kwargs") or {}, task)
        return Call(
            task=task,
            args=args,
            kwargs=kwargs,
            id=text(message["id"]) if isinstance(message["id"], bytes) else message["id"],
            run_at=_instant(message.get("eta"), task),
            expires_at=_instant(message.get("expires_resolved"), task),
        )


def _instant(value: Any, task: str) -> float | None:
    """A time in seconds since the epoch; one without a zone is in UTC, as Huey has it by default."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise LeftBehind(f"{value!r:.80} is no time", task)
    return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp()
