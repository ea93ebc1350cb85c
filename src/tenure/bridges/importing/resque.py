"""`ResqueOrigin`: queues, delayed entries and failures, as Ruby, Node and Python clients leave them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec

from tenure.bridges.importing.origin import LIVE, Origin, text
from tenure.bridges.importing.values import Call, Entry, LeftBehind, Part, Place
from tenure.bridges.resque.entries import read_entry
from tenure.errors import PayloadError

__all__ = ["ResqueOrigin"]


class ResqueOrigin(Origin):
    """A Resque namespace. Running entries stay with their workers."""

    kind: ClassVar[str] = "resque"
    prefix: ClassVar[str] = "resque"

    async def workers(self) -> list[str]:
        now = await self.now()
        ours = {text(each) for each in await self.command("HKEYS", self._key("tenure:workers"))}
        beats = await self.command("HGETALL", self._key("workers:heartbeat"))
        heard = {text(name): _seconds(at) for name, at in zip(beats[::2], beats[1::2], strict=True)}
        found = []
        for worker in sorted(map(text, await self.command("SMEMBERS", self._key("workers")))):
            # Node pings under a worker's name, which is its id without the queues; pyres does neither and counts as alive.
            at = heard.get(worker) or _pinged(
                await self.command("GET", self._key(f"worker:ping:{worker.rpartition(':')[0]}"))
            )
            if worker not in ours and (at is None or at > now - LIVE):
                found.append(worker)
        return found

    async def places(self) -> list[Place]:
        found: list[Place] = []
        for queue in sorted(map(text, await self.command("SMEMBERS", self._key("queues")))):
            # What a bridge of Tenure has moved out of the queue and not taken yet comes first.
            keys = [self._key(f"tenure:arrived:{queue}"), self._key(f"queue:{queue}")]
            counts = [await self.command("LLEN", key) for key in keys]
            found += [
                Place(part=Part.WAITING, queue=queue, key=key, count=count)
                for key, count in zip(keys, counts, strict=True)
                if count
            ]
        for second, count in await self.run("count_resque_delayed", self._prefix):
            key = self._key(f"delayed:{text(second)}")
            found.append(Place(part=Part.SCHEDULED, queue="", key=key, count=count, at=text(second)))
        failed = self._key("failed")
        if count := await self.command("LLEN", failed):
            found.append(Place(part=Part.FAILED, queue="", key=failed, count=count))
        return found + await self._running()

    async def _running(self) -> list[Place]:
        """What workers run, and what bridges of Tenure have in custody."""
        found = []
        for worker in map(text, await self.command("SMEMBERS", self._key("workers"))):
            key = self._key(f"worker:{worker}")
            if (at_work := _decoded(await self.command("GET", key))) is not None:
                queue = str(at_work.get("queue", ""))
                found.append(Place(part=Part.RUNNING, queue=queue, key=key, count=1, stays="a worker runs it"))
        return found

    async def look(self, place: Place, start: int) -> list[Entry]:
        return await self.look_at_list(place, start)

    async def take(self, place: Place, ids: Sequence[str]) -> list[Entry]:
        if place.part is Part.SCHEDULED:
            return await self.taken(place, "take_resque_delayed", self._prefix, place.at, place.queue, *ids)
        back = self._key(f"queue:{place.queue}") if place.part is Part.WAITING else None
        return await self.take_from_list(place, ids, back=back)

    def read(self, entry: Entry) -> Call:
        body, queue = entry.body, None
        if entry.part is Part.FAILED:
            body, queue = _failed_entry(body)
        elif entry.part is Part.SCHEDULED:
            queue = _queue_of(body)
        try:
            call = read_entry(body)
        except PayloadError as error:
            raise LeftBehind(str(error), queue=queue) from error
        run_at = float(entry.at) if entry.part is Part.SCHEDULED else None
        return Call(task=call.name, args=call.args, kwargs=call.kwargs, queue=queue, run_at=run_at)

    def _key(self, name: str) -> str:
        return f"{self._prefix}:{name}"


def _failed_entry(body: bytes) -> tuple[bytes, str]:
    """The entry that failed, and its queue. `LeftBehind` if the record of the failure has none, or it was retried."""
    failure = _decoded(body)
    if failure is None or "payload" not in failure:
        raise LeftBehind("the failure has no entry")
    queue = str(failure.get("queue", ""))
    if failure.get("retried_at"):
        raise LeftBehind(f"it was retried there at {failure['retried_at']}", queue=queue)
    return msgspec.json.encode(failure["payload"]), queue


def _queue_of(body: bytes) -> str:
    entry = _decoded(body)
    queue = None if entry is None else entry.get("queue")
    if not isinstance(queue, str):
        raise LeftBehind("the delayed entry names no queue", queue="")
    return queue


def _decoded(body: bytes | None) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(body or b"null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _seconds(at: bytes) -> float | None:
    """A time of Ruby's heartbeat, in seconds since the epoch."""
    try:
        return datetime.fromisoformat(text(at)).astimezone(UTC).timestamp()
    except ValueError:
        return None


def _pinged(ping: bytes | None) -> float | None:
    """When a worker of Node pinged last."""
    found = _decoded(ping)
    at = None if found is None else found.get("time")
    return float(at) if isinstance(at, int | float) else None
