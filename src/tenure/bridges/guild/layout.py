"""`GuildForeign`: the steps of the hand-over in the layout of Guild queues, and what its producers do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tenure.bridges.custody import Begun, Custody, End, Look, Stopped, Taken
from tenure.bridges.foreign import ForeignError
from tenure.bridges.guild.attributes import GuildJob, failure_texts, read_job, result_texts
from tenure.bridges.guild.queue_task import QueueTask
from tenure.bridges.redis import RedisForeign
from tenure.core.failure import describe_exception
from tenure.core.job import State
from tenure.errors import StoreError
from tenure.stores.redis.address import Address

__all__ = ["GuildForeign"]

EXPIRY = 86_400
"""Seconds after its creation at which a job expires."""

BLOCKING = 8
"""Queues up to which an idle bridge waits with a connection for each. With more it looks again after `timeout`."""

BLOCK = 30.0
"""Seconds for which one of these connections waits."""


class GuildCustody(Custody, frozen=True):
    """An entry in custody, with the attributes that its job reads."""

    extra: tuple[bytes | None, ...] = ()

    @property
    def taken(self) -> Taken:
        return Taken(self.id, self.queue, self.entry, self.extra)


class GuildForeign(RedisForeign):
    """The queues of a Guild flow.

    | key | type | what it holds |
    |---|---|---|
    | `queue:QUEUE:waiting`, `queue:QUEUE:processing` | list | ids of jobs |
    | `lock:QUEUE:ID` | string, expires | who works on the job; `tenure:` and the id of our job if a bridge does |
    | `job:FLOW:ID`, for a child queue `job:QUEUE:ID` | hash, a day | attribute → JSON |
    | `job:FLOW:ATTRIBUTE:VALUE` | list, a day | ids of the jobs with this value |
    """

    layout = "guild"

    def __init__(
        self,
        address: Address,
        flow: str,
        declared: Mapping[str, QueueTask[..., Any]],
        served: Sequence[str] = (),
    ) -> None:
        """`declared`: all queues that the app has functions for, by name. `served`: those of them to take jobs from."""
        super().__init__(address, f"guild:{flow}")
        self.flow = flow
        self._declared = declared
        self._served = served
        self._waiting: dict[str, asyncio.Task[bool]] = {}
        self.renew_every = min((task.lock for task in declared.values()), default=60.0) / 3

    # The hand-over.

    async def enter(self, owner: str, slots: int) -> None:
        pass

    async def leave(self, owner: str) -> None:
        pass

    async def take(self, owner: str, ids: Sequence[str]) -> list[Taken]:
        locks = {queue: self._declared[queue].lock_seconds for queue in self._served}
        queues = [part for queue, seconds in locks.items() for part in (queue, seconds, *self._reads(queue))]
        found = await self.run("take", self.flow, owner, len(ids), *ids, *queues)
        return [Taken(job_id.decode(), queue.decode(), entry, tuple(texts)) for job_id, queue, entry, texts in found]

    async def wait(self, timeout: float) -> None:
        if not 0 < len(self._served) <= BLOCKING:
            await asyncio.sleep(timeout)
            return
        for queue in self._served:
            if queue not in self._waiting:
                has_element = self._link.has_element(f"queue:{queue}:waiting", BLOCK)
                self._waiting[queue] = asyncio.create_task(has_element, name=f"wait for {queue}")
        done, _ = await asyncio.wait(self._waiting.values(), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        self._waiting = {queue: task for queue, task in self._waiting.items() if task not in done}
        errors = [error for task in done if (error := task.exception()) is not None]
        for error in errors:
            if isinstance(error, StoreError):
                raise ForeignError(str(error)) from error
            raise error

    async def record(
        self,
        owner: str,  # noqa: ARG002
        ends: Sequence[End],
        begun: Sequence[Begun],  # noqa: ARG002
        stopped: Sequence[Stopped],  # noqa: ARG002
    ) -> None:
        if ends:
            queues = {
                queue: (msgspec.json.encode(queue).decode(), task.then or "") for queue, task in self._declared.items()
            }
            texts = [part for end in ends for part in _end_arguments(end)]
            await self.run("end", self.flow, msgspec.json.encode(queues), *texts)

    async def renew(self, owner: str, ids: Sequence[str]) -> list[str]:  # noqa: ARG002
        lost = await self.run("renew", self.flow, self._lock_seconds(), *ids) if ids else []
        return [job_id.decode() for job_id in lost]

    async def look(self) -> Look:
        entries = await self._with_attributes((await super().look()).entries)
        return Look(entries, frozenset(entry.owner for entry in entries))

    async def find(self, ids: Sequence[str]) -> list[Custody]:
        return await self._with_attributes(await super().find(ids))

    async def _with_attributes(self, custody: Sequence[Custody]) -> list[Custody]:
        """The entries of queues that this app has functions for, with attributes: a take that was not followed by a job had read them.

        Another program, with the same store, looks after the other queues.
        """
        entries = [entry for entry in custody if entry.queue in self._declared]
        if not entries:
            return []
        jobs = [part for entry in entries for part in (entry.queue, entry.entry, *self._reads(entry.queue))]
        found = await self.run("attributes", self.flow, *jobs)
        return [
            GuildCustody(entry.id, entry.owner, entry.queue, entry.entry, entry.taken_at, entry.returning, tuple(texts))
            for entry, texts in zip(entries, found, strict=True)
        ]

    def _reads(self, queue: str) -> Iterator[str | int]:
        """The number of attributes that a queue reads, and their names, as scripts take them."""
        reads = self._declared[queue].reads
        yield len(reads)
        yield from (read.attribute for read in reads.values())

    async def held_there(self, ids: Sequence[str]) -> list[bool]:
        return [bool(held) for held in await self.run("held", self.flow, self._lock_seconds(), *ids)]

    def _lock_seconds(self) -> bytes:
        return msgspec.json.encode({queue: task.lock_seconds for queue, task in self._declared.items()})

    async def give_back(self, ids: Sequence[str]) -> None:
        await self.run("give_back", self.flow, *ids)

    async def let_go(self, ids: Sequence[str]) -> None:
        await self.run("let_go", self.flow, *ids)

    async def close(self) -> None:
        waiting = list(self._waiting.values())
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await super().close()

    # Producers.

    async def start_job(
        self, queue: str, job_id: str, lookups: Sequence[tuple[str, str]], texts: Mapping[str, bytes]
    ) -> None:
        """Create a job in this queue. `lookups` are attributes and values that it is found by."""
        lists = [self._lookup_list(*lookup) for lookup in lookups]
        fields = [part for field in texts.items() for part in field]
        await self.run("start", self.flow, queue, job_id, EXPIRY, len(lists), *lists, *fields)

    async def find_jobs(self, attribute: str, value: str) -> list[GuildJob]:
        """The jobs that were created with this value of an attribute, the oldest first."""
        found = await self.run("find", self.flow, self._lookup_list(attribute, value))
        return [read_job(job_id, texts) for job_id, texts in found]

    async def read_job(self, job_id: str) -> GuildJob | None:
        """The job of this id; None if there is none."""
        texts = await self.command("HGETALL", f"job:{self.flow}:{job_id}")
        return read_job(job_id, texts) if texts else None

    def _lookup_list(self, attribute: str, value: str) -> str:
        return f"job:{self.flow}:{attribute}:{value}"


def _end_arguments(end: End) -> list[str | bytes | int]:
    following, texts, kind = "", failure_texts(end), "failed"
    if end.state is State.SUCCEEDED:
        try:
            following, texts = result_texts(end.result)
            kind = "completed"
        except TypeError as error:  # code of another release has let it pass
            texts = failure_texts(End(end.id, State.FAILED, error=describe_exception(error)))
    return [end.id, kind, following, 2 * len(texts), *(part for field in texts.items() for part in field)]
