"""`ResqueForeign`: the steps of the hand-over in Resque's layout, and the producer's side."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic

from tenure.bridges.arrivals import MOST, Arrivals
from tenure.bridges.custody import Begun, Custody, End, Stopped, Taken
from tenure.bridges.redis import RedisForeign
from tenure.bridges.resque.entries import payload_of
from tenure.bridges.resque.records import DEAD_AFTER, Slots, dead_worker, failure_of, seconds_of
from tenure.core.job import State
from tenure.core.patterns import expand, has_patterns
from tenure.stores.redis.address import Address
from tenure.stores.redis.wire import CommandArg

__all__ = ["ResqueForeign"]

LOOK_ANYWAY = 5.0
"""Seconds after which a bridge that waits for arrivals looks at its queues all the same."""

BEAT = 60.0
"""Seconds between two heartbeats, and between two looks for dead workers."""

SCHEDULE_INTERVAL = 1.0
"""Seconds between two looks for delayed entries that are due."""

PROMOTED = 100
"""Delayed entries that one call moves to their queues at most."""

log = logging.getLogger("tenure.bridges")


class ResqueForeign(RedisForeign):
    """Resque's queues, with the records that its tools show.

    `prune`: also unregister workers that have died. `schedule`: also move delayed entries that are due to their queues.
    """

    layout = "resque"

    def __init__(
        self, address: Address, namespace: str, queues: Sequence[str], *, prune: bool = False, schedule: bool = False
    ) -> None:
        super().__init__(address, namespace)
        self._patterns = queues
        self._wild = has_patterns(queues)
        self._queues = () if self._wild else expand(queues, ())
        self._prune = prune
        self._schedule = schedule
        self.renew_every = SCHEDULE_INTERVAL if schedule else BEAT
        self._beat_at = 0.0
        self._look_at = 0.0
        self._in_vain = False
        """Whether the last look found nothing, though workers need not pause."""

        self._owner = ""
        self._slots = Slots(queues)
        self._entered: list[str] = []
        """The ids under which this worker is registered."""

        self._arrivals: Arrivals | None = None
        if not self._wild and len(self._queues) <= MOST:
            aside = {f"{namespace}:queue:{each}": f"{namespace}:tenure:arrived:{each}" for each in self._queues}
            self._arrivals = Arrivals(self._link.move, aside)

    # The worker's records.

    async def enter(self, owner: str, slots: int) -> None:
        self._entered = [self._slots.of(slot) for slot in range(1, slots + 1)]
        await self.run("enter", self.prefix, owner, self._owner, *self._entered)
        self._owner = owner
        if not await self.command("EXISTS", f"{self.prefix}:queues"):
            log.warning(
                "no queue exists in namespace %s yet: if that is wrong, check the URL and the namespace", self.prefix
            )
        if self._prune:
            await self._prune_dead(self._entered[0])

    async def leave(self, owner: str) -> None:
        if owner != self._owner:
            await self.run("leave", self.prefix, owner)
            return
        if self._arrivals is not None:
            await self._arrivals.stop()
        await self.run("leave", self.prefix, owner)
        self._entered = []
        self._slots.free()

    async def renew(self, owner: str, ids: Sequence[str]) -> list[str]:  # noqa: ARG002
        if self._schedule:
            await self._promote()
        if monotonic() >= self._beat_at:
            await self.run("renew", self.prefix, owner)
            if self._prune:
                await self._prune_dead(owner)
            self._beat_at = monotonic() + BEAT - SCHEDULE_INTERVAL / 2
        return []

    async def close(self) -> None:
        if self._arrivals is not None:
            await self._arrivals.stop()
        self._slots.free()
        await super().close()

    # Taking, and giving back.

    async def take(self, owner: str, ids: Sequence[str]) -> list[Taken]:
        if not ids:
            await self._put_back()
            return []
        if self._arrivals is not None and self._in_vain and self._arrivals.quiet and monotonic() < self._look_at:
            return []  # or an entry would have arrived
        state, found = await self._take(owner, ids)
        if state == "unknown":
            await self.run("enter", self.prefix, owner, "", *self._entered)  # other bridges have taken it for dead
            state, found = await self._take(owner, ids)
        if state == "paused":
            await self._put_back()
        self._in_vain = state == "taken" and not found
        self._look_at = monotonic() + LOOK_ANYWAY
        return found

    async def _take(self, owner: str, ids: Sequence[str]) -> tuple[str, list[Taken]]:
        slot = self._entered[0] if self._entered else ""
        while True:
            before = self._queues
            state, found, names = await self.run(
                "take", self.prefix, owner, slot, int(self._wild), len(before), *before, *ids
            )
            if self._wild:
                self._queues = expand(self._patterns, [name.decode(errors="replace") for name in names])
            # A queue that has come meanwhile is looked at now, not in a second.
            if found or state != b"taken" or set(self._queues) <= set(before):
                return state.decode(), [Taken(job_id.decode(), queue.decode(), entry) for job_id, queue, entry in found]

    async def wait(self, timeout: float) -> None:
        if self._arrivals is not None and self._in_vain:
            await self._arrivals.wait(timeout)
        else:
            await asyncio.sleep(timeout)

    async def _put_back(self) -> None:
        """Stop waiting, and return what was put aside."""
        if self._arrivals is not None and self._arrivals.waiting:
            await self._arrivals.stop()
            await self.run("put_back", self.prefix, *self._queues)

    async def give_back(self, ids: Sequence[str]) -> None:
        if self._arrivals is not None:
            await self._arrivals.stop()
        await self.run("give_back", self.prefix, *ids)

    # Ends and starts.

    async def record(self, owner: str, ends: Sequence[End], begun: Sequence[Begun], stopped: Sequence[Stopped]) -> None:  # noqa: ARG002
        payloads = await self._payloads([end.id for end in ends if end.slot is None and end.state is State.FAILED])
        args: list[CommandArg] = [len(ends), len(stopped)]
        for end in ends:
            args += (
                end.id,
                self._slots.of(end.slot),
                int(end.slot is not None),
                failure_of(end),
                payloads.get(end.id, b""),
            )
        args += (self._slots.of(each.slot) for each in stopped)
        for start in begun:
            args += start.id, self._slots.of(start.slot)
        await self.run("record", self.prefix, *args)

    async def _payloads(self, ids: Sequence[str]) -> dict[str, bytes]:
        """What the list of failures shows of these entries, which no worker has run: they may be unreadable."""
        if not ids:
            return {}
        stored = await self.command("HMGET", self.custody, *ids)
        return {
            job_id: payload_of(Custody.decoded(job_id.encode(), each).entry)
            for job_id, each in zip(ids, stored, strict=True)
            if each is not None
        }

    # What Ruby workers and schedulers do besides.

    async def _prune_dead(self, name: str) -> None:
        """Unregister workers whose heartbeat is too old, and fail their jobs, as one of all workers does every minute.

        Workers without a heartbeat are left alone, and so are those of bridges: their jobs run again.
        """
        if not await self.command("SET", f"{self.prefix}:pruning_dead_workers_in_progress", name, "EX", 60, "NX"):
            return
        beats = await self.command("HGETALL", f"{self.prefix}:workers:heartbeat")
        ours = set(await self.command("HKEYS", self.workers))
        now = float((await self.command("TIME"))[0])
        for worker_id, beat in zip(beats[::2], beats[1::2], strict=True):
            since = seconds_of(beat)
            if worker_id not in ours and since is not None and now - since > DEAD_AFTER:
                record = await self.command("GET", f"{self.prefix}:worker:{worker_id.decode()}") or b""
                dead = dead_worker(worker_id.decode(), record)
                if await self.run("prune", self.prefix, worker_id, beat, record, dead.before, dead.after):
                    log.warning("Resque's worker %s is dead: unregistered", worker_id.decode())

    async def _promote(self) -> None:
        """Move delayed entries that are due to their queues."""
        while True:
            moved, nameless = await self.run("promote", self.prefix, PROMOTED)
            if nameless:
                log.error("%d delayed entries name no queue: they are in %s:tenure:unscheduled", nameless, self.prefix)
            if moved + nameless < PROMOTED:
                return

    # Producing.

    async def push(self, queue: str, entry: bytes, *, at: int | None = None, job_id: str = "") -> bool:
        """Add an entry to a queue, or to those that are due at a time. False, changing nothing, if this job has sent it before."""
        return bool(await self.run("push", self.prefix, queue, entry, "" if at is None else at, job_id))
