"""`RqOrigin`: queues and scheduled jobs of RQ, whose calls are JSON, or pickles that are read as data."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from tenure.bridges.importing.inert import MOST_BYTES
from tenure.bridges.importing.origin import PAGE, Origin, text, texts
from tenure.bridges.importing.pickled import arguments_of, pickled
from tenure.bridges.importing.values import Call, Entry, LeftBehind, Part, Place

__all__ = ["RqOrigin"]

CALLBACKS = ("success_callback_name", "failure_callback_name", "stopped_callback_name")
FIELDS = ("data", "repeats_left", *CALLBACKS)
"""Fields of a job's hash that say what it is."""


class RqOrigin(Origin):
    """RQ's queues, scheduled jobs and failures. Jobs that wait for others, and those that others wait for, stay."""

    kind: ClassVar[str] = "rq"
    prefix: ClassVar[str] = "rq"
    has_prefix: ClassVar[bool] = False

    async def workers(self) -> list[str]:
        # An idle worker's key is renewed every few minutes only, and expires soon after; a worker that stops removes it.
        keys = sorted(map(text, await self.command("SMEMBERS", "rq:workers")))
        return [key.removeprefix("rq:worker:") for key in keys if await self.command("EXISTS", key)]

    async def places(self) -> list[Place]:
        found = []
        for queue in await self._queues():
            counts = (
                (Part.WAITING, f"rq:queue:{queue}", "LLEN", ""),
                (Part.WAITING, f"rq:deferred:{queue}", "ZCARD", "it waits for other jobs of RQ"),
                (Part.SCHEDULED, f"rq:scheduled:{queue}", "ZCARD", ""),
                (Part.FAILED, f"rq:failed:{queue}", "ZCARD", ""),
                (Part.RUNNING, f"rq:wip:{queue}", "ZCARD", "a worker runs it"),
                (Part.RUNNING, f"rq:queue:{queue}:intermediate", "LLEN", "a worker has just taken it"),
            )
            for part, key, command, stays in counts:
                if count := await self.command(command, key):
                    found.append(Place(part=part, queue=queue, key=key, count=count, stays=stays))
        return sorted(found, key=lambda place: place.part is not Part.WAITING)

    async def _queues(self) -> list[str]:
        listed = {text(key).removeprefix("rq:queue:") for key in await self.command("SMEMBERS", "rq:queues")}
        scheduled = {key.removeprefix("rq:scheduled:") for key in await self.scan("rq:scheduled:*")}
        return sorted({*listed, *scheduled, *self._named})

    async def look(self, place: Place, start: int) -> list[Entry]:
        if place.part is Part.WAITING:
            names = [(name, b"") for name in await self.command("LRANGE", place.key, start, start + PAGE - 1)]
        else:
            scored = await self.command("ZRANGE", place.key, start, start + PAGE - 1, "WITHSCORES")
            names = list(zip(scored[::2], scored[1::2], strict=True))
        entries = []
        for name, score in names:
            body = await self.run("look_at_rq", name, *FIELDS)
            entries.append(Entry("", place.part, place.queue, text(score), text(name), body))
        return entries

    async def take(self, place: Place, ids: Sequence[str]) -> list[Entry]:
        kind = "list" if place.part is Part.WAITING else "zset"
        return await self.taken(place, "take_rq", place.key, kind, place.part, place.queue, len(FIELDS), *FIELDS, *ids)

    def read(self, entry: Entry) -> Call:
        data, repeats, *callbacks, dependents = texts(entry.body)
        if data is None:
            raise LeftBehind("its record is gone, so that RQ would not run it either")
        found = _decoded(data)
        if not isinstance(found, list | tuple) or len(found) != 4 or not isinstance(task := found[0], str):
            raise LeftBehind("it is no job of RQ")
        if found[1] is not None:
            raise LeftBehind("it calls a method of an object, which no task can be", task)
        if any(callbacks):
            raise LeftBehind(
                "it has callbacks, which would not be called: use a job that waits for it, with after=", task
            )
        if repeats not in (None, b"", b"0"):
            raise LeftBehind("it repeats itself: use a schedule", task)
        if dependents != b"0":
            raise LeftBehind("other jobs of RQ wait for it", task)
        args, kwargs = arguments_of(found[2], found[3], task)
        run_at = float(entry.at) if entry.part is Part.SCHEDULED else None
        return Call(task=task, args=args, kwargs=kwargs, id=entry.name, run_at=run_at)


def _decoded(data: bytes) -> Any:
    """The function, object, arguments and keyword arguments of a job."""
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(data, MOST_BYTES)
        if unpacker.unconsumed_tail:
            raise LeftBehind(f"its data has more than {MOST_BYTES:,} bytes")
    except zlib.error:
        pass  # RQ reads data that is not compressed too
    if data[:1] != b"[":
        return pickled(data)
    try:
        return msgspec.json.decode(data)
    except ValueError as error:
        raise LeftBehind("its data is neither JSON nor a pickle") from error
