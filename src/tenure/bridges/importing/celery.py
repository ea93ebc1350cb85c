"""`CeleryOrigin`: messages of Celery that wait in Redis as JSON, or that workers had fetched when they stopped."""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Final

from tenure.bridges.foreign import ForeignError
from tenure.bridges.importing.origin import PAGE, Origin, text
from tenure.bridges.importing.pickled import arguments_of
from tenure.bridges.importing.values import Call, Entry, LeftBehind, Part, Place

__all__ = ["CeleryOrigin"]

SEPARATOR = "\x06\x16"
"""Stands between a queue and a priority, and between the parts of a binding."""

CONTROL = ("celery.pidbox", "reply.celery.pidbox", "celeryev")
"""Exchanges of commands and events; nothing in their queues is a task."""

CANVAS = {
    "chain": "the next task of a chain",
    "chord": "a chord",
    "callbacks": "callbacks",
    "errbacks": "error callbacks",
}
"""What a message may carry that would be lost without it."""


class CeleryOrigin(Origin):
    """Celery with Redis as its broker. What live workers have fetched stays."""

    kind: ClassVar[str] = "celery"
    prefix: ClassVar[str] = ""
    keeps_failures: ClassVar[bool] = False

    def __init__(self, url: str, prefix: str | None = None, queues: Sequence[str] = ()) -> None:
        super().__init__(url, prefix, queues)
        self._queue_of: dict[tuple[str, str], str] = {}
        """The queue that an exchange sends a routing key to."""

    async def workers(self) -> list[str]:
        """Clients that wait for messages or for commands in the way of a worker; Celery keeps no list of workers in Redis."""
        return await self.clients("brpop", patterns=True)

    async def places(self) -> list[Place]:
        queues = await self._queues()
        found = await self._fetched()
        for queue in queues:
            key = f"{self._prefix}{queue}"
            keys = sorted([key, *await self.scan(_literal(f"{key}{SEPARATOR}") + "*")], key=_priority)
            counts = [await self._length(key) for key in keys]
            found += [
                Place(part=Part.WAITING, queue=queue, key=key, count=count)
                for key, count in zip(keys, counts, strict=True)
                if count
            ]
        return found

    async def _length(self, key: str) -> int:
        return int(await self.command("LLEN", key)) if await self.command("TYPE", key) == b"list" else 0

    async def _fetched(self) -> list[Place]:
        """What workers have fetched: also tasks for later, which wait in a worker's memory until they are due."""
        key = f"{self._prefix}unacked"
        count = int(await self.command("HLEN", key))
        if not count:
            return []
        try:
            live = await self.workers()
        except ForeignError:  # the user may not ask for the clients: leave them alone then
            live = ["?"]
        stays = "a worker has fetched it" if live else ""
        return [Place(part=Part.RUNNING, queue="", key=key, count=count, stays=stays)]

    async def _queues(self) -> list[str]:
        start = f"{self._prefix}_kombu.binding."
        self._queue_of = {}
        for key in await self.scan(_literal(start) + "*"):
            exchange = key.removeprefix(start)
            if exchange in CONTROL:
                continue
            for member in map(text, await self.command("SMEMBERS", key)):
                routing_key, _, queue = member.split(SEPARATOR)
                self._queue_of[exchange, routing_key] = queue
        return sorted({*self._queue_of.values(), *self._named})

    async def look(self, place: Place, start: int) -> list[Entry]:
        if place.part is not Part.RUNNING:
            return await self.look_at_list(place, start, first="RIGHT")
        tags = await self.command("ZRANGE", f"{place.key}_index", start, start + PAGE - 1)
        bodies = await self.command("HMGET", place.key, *tags) if tags else []
        return [Entry("", place.part, "", "", text(tag), body or b"") for tag, body in zip(tags, bodies, strict=True)]

    async def take(self, place: Place, ids: Sequence[str]) -> list[Entry]:
        if place.part is not Part.RUNNING:
            return await self.take_from_list(place, ids, first="RIGHT")
        return await self.taken(place, "take_celery_unacked", place.key, f"{place.key}_index", *ids)

    def read(self, entry: Entry) -> Call:
        message: Any = _json(entry.body)
        queue = None
        if entry.part is Part.RUNNING:
            if not isinstance(message, list) or len(message) != 3:
                raise LeftBehind("it is no message of Celery", queue="")
            message, exchange, routing_key = message
            queue = self._queue_of.get((str(exchange), str(routing_key)), str(routing_key))
        try:
            return _call(message, queue)
        except LeftBehind as left:
            raise LeftBehind(left.reason, left.task, queue) from left


def _call(message: Any, queue: str | None) -> Call:
    headers = message.get("headers") if isinstance(message, dict) else None
    if not isinstance(headers, dict):
        raise LeftBehind("it is no message of Celery")
    task = headers.get("task")
    if not isinstance(task, str):
        raise LeftBehind("it is in the format of Celery 3, or no task")
    kind = message.get("content-type")
    if kind != "application/json" or headers.get("compression"):
        packed = f"compressed ({headers['compression']})" if headers.get("compression") else kind
        raise LeftBehind(f"its body is {packed}: only JSON is read", task)
    properties = message.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    body = message.get("body")
    try:
        encoded = base64.b64decode(body) if properties.get("body_encoding") == "base64" else body.encode()
        args, kwargs, embedded = _json(encoded, _typed)
        canvas = [words for name, words in CANVAS.items() if embedded.get(name)]
    except LeftBehind as left:
        raise LeftBehind(left.reason, task) from left
    except (AttributeError, TypeError, ValueError, binascii.Error) as error:
        raise LeftBehind("its body is no call", task) from error
    if canvas:
        raise LeftBehind(f"it carries {' and '.join(canvas)}, which would be lost", task)
    given, by_name = arguments_of(args, kwargs, task)
    priority = properties.get("priority")
    return Call(
        task=task,
        args=given,
        kwargs=by_name,
        queue=queue,
        id=headers["id"] if isinstance(headers.get("id"), str) else None,
        run_at=_instant(headers.get("eta"), task),
        expires_at=_instant(headers.get("expires"), task),
        priority=priority if type(priority) is int and priority else None,
    )


def _json(data: bytes, hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    try:
        return json.loads(data, object_hook=hook)
    except (ValueError, RecursionError) as error:
        raise LeftBehind("it is not JSON") from error


def _typed(found: dict[str, Any]) -> Any:
    """A value that JSON does not have, as Celery writes it; other objects as they are."""
    if found.keys() != {"__type__", "__value__"}:
        return found
    make = _TYPES.get(found["__type__"]) if isinstance(found["__type__"], str) else None
    if make is None:
        raise LeftBehind(f"its arguments have a value of type {found['__type__']!r:.80}, which is not read")
    try:
        return make(found["__value__"])
    except (TypeError, ValueError, KeyError, AttributeError, InvalidOperation) as error:
        raise LeftBehind(f"its arguments have a {found['__type__']} that is none") from error


_TYPES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "bytes": lambda value: value.encode(),
    "base64": base64.b64decode,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "decimal": lambda value: Decimal(str(value)),
    "uuid": lambda value: uuid.UUID(value["hex"]),
}


def _instant(value: Any, task: str) -> float | None:
    """A time in seconds since the epoch; one without a zone is in UTC."""
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise LeftBehind(f"{value!r:.80} is no time", task) from error
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def _priority(key: str) -> int:
    """The priority of a list; that of the list without one is 0."""
    _, separator, priority = key.rpartition(SEPARATOR)
    return int(priority) if separator and priority.isdecimal() else 0


def _literal(name: str) -> str:
    """A pattern of Redis that matches this text only."""
    return "".join(f"\\{each}" if each in "*?[]\\^" else each for each in name)
