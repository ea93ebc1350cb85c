"""`DramatiqOrigin`: queues, delayed messages and dead letters of Dramatiq in Redis, in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from tenure.bridges.importing.origin import LIVE, PAGE, Origin, text
from tenure.bridges.importing.pickled import arguments_of
from tenure.bridges.importing.values import Call, Entry, LeftBehind, Part, Place

__all__ = ["DramatiqOrigin"]

FOLLOWERS = ("pipe_target", "group_completion_uuid", "on_success", "on_failure")
"""Options of a message that name what follows it."""


class DramatiqOrigin(Origin):
    """Dramatiq with Redis as its broker. What live workers have fetched stays, also messages for later."""

    kind: ClassVar[str] = "dramatiq"
    prefix: ClassVar[str] = "dramatiq"

    async def workers(self) -> list[str]:
        """The brokers of workers, and of producers, which beat when they enqueue: a producer counts for a minute."""
        since = int((await self.now() - LIVE) * 1000)
        return [*map(text, await self.command("ZRANGEBYSCORE", self._key("__heartbeats__"), since, "+inf"))]

    async def places(self) -> list[Place]:
        found = await self._fetched()
        for key in await self.scan(f"{self._prefix}:*.msgs"):
            name = key.removeprefix(f"{self._prefix}:").removesuffix(".msgs")
            queue, part, command = name, Part.WAITING, "LLEN"
            if name.endswith(".DQ"):
                queue, part = name.removesuffix(".DQ"), Part.SCHEDULED
            elif name.endswith(".XQ"):
                queue, part, command = name.removesuffix(".XQ"), Part.FAILED, "ZCARD"
            if count := await self.command(command, self._key(name)):
                found.append(Place(part=part, queue=queue, key=self._key(name), count=count))
        return sorted(found, key=lambda place: [Part.RUNNING, *Part].index(place.part))

    async def _fetched(self) -> list[Place]:
        stays = "a worker has fetched it" if await self.workers() else ""
        found = []
        for key in await self.scan(f"{self._prefix}:__acks__.*"):
            name = key.removeprefix(f"{self._prefix}:__acks__.").partition(".")[2]
            if count := await self.command("SCARD", key):
                queue = name.removesuffix(".DQ")
                found.append(Place(part=Part.RUNNING, queue=queue, key=key, count=count, stays=stays, at=name))
        return found

    async def look(self, place: Place, start: int) -> list[Entry]:
        match _type(place):
            case "list":
                names = await self.command("LRANGE", place.key, start, start + PAGE - 1)
            case "zset":
                names = await self.command("ZRANGE", place.key, start, start + PAGE - 1)
            case _:
                names = sorted(await self.command("SMEMBERS", place.key))[start : start + PAGE]
        bodies = await self.command("HMGET", self._messages(place), *names) if names else []
        return [
            Entry("", place.part, place.queue, "", text(name), body or b"")
            for name, body in zip(names, bodies, strict=True)
        ]

    async def take(self, place: Place, ids: Sequence[str]) -> list[Entry]:
        words = place.key, _type(place), self._messages(place), place.part, place.queue
        return await self.taken(place, "take_dramatiq", *words, *ids)

    def read(self, entry: Entry) -> Call:
        if not entry.body:
            raise LeftBehind("its message is gone, so that Dramatiq would not run it either")
        try:
            message: Any = msgspec.json.decode(entry.body)
        except ValueError as error:
            raise LeftBehind("it is not JSON") from error
        if not isinstance(message, dict) or not isinstance(task := message.get("actor_name"), str):
            raise LeftBehind("it is no message of Dramatiq")
        options = message.get("options")
        options = options if isinstance(options, dict) else {}
        if followers := [name for name in FOLLOWERS if options.get(name)]:
            raise LeftBehind(f"it carries {' and '.join(followers)}, which would be lost", task)
        args, kwargs = arguments_of(message.get("args"), message.get("kwargs"), task)
        eta = options.get("eta") if entry.part is not Part.FAILED else None
        name = message.get("message_id")
        return Call(
            task=task,
            args=args,
            kwargs=kwargs,
            id=name if isinstance(name, str) else None,
            run_at=eta / 1000 if isinstance(eta, int | float) else None,
        )

    def _messages(self, place: Place) -> str:
        """The hash that has the messages of a place."""
        return f"{self._key(place.at) if place.part is Part.RUNNING else place.key}.msgs"

    def _key(self, name: str) -> str:
        return f"{self._prefix}:{name}"


def _type(place: Place) -> str:
    return {Part.FAILED: "zset", Part.RUNNING: "set"}.get(place.part, "list")
