"""`BridgeSource`: the hand-over of entries between another system and a worker's own store."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from tenure.bridges.clerk import Clerk
from tenure.bridges.custody import Begun, Custody, End, Judgement, Stopped, Taken, judge
from tenure.bridges.foreign import Foreign, ForeignError
from tenure.bridges.names import queue_name
from tenure.core.checks import seconds
from tenure.core.failure import describe_exception
from tenure.core.job import ErrorInfo, JobRecord, NewJob, State, new_id
from tenure.core.lease import Lease, new_nonce
from tenure.core.lifecycle import RELEASE, Finish, Transition
from tenure.core.loops import call_soon
from tenure.errors import STORE_OUTAGE, StoreError
from tenure.stores.base import BATCH
from tenure.stores.values import LeaseRequest, VerdictKind, WorkerInfo
from tenure.worker.attempt import Attempt
from tenure.worker.outage import Outage
from tenure.worker.sources import Host, Source

if TYPE_CHECKING:
    from tenure.bridges.bridge import Bridge
    from tenure.worker.chores import Chore

__all__ = ["BridgeSource"]

POLL = 1.0
"""Seconds between two looks for entries while none comes, and until the first look at an entry whose job this worker does not hold."""

ASIDE_FOR = 0.5
"""Seconds for which entries that have come during a wait are put aside while the worker has no room for them."""

LONGEST_POLL = 10.0
"""Seconds between two looks at an entry whose job has waited, or has run elsewhere, for long."""

SWEEP_INTERVAL = 5.0
"""Seconds between two sweeps of what dead workers have left; one of all bridges does it."""

OWN_SWEEP_INTERVAL = 30.0
"""Seconds after which a bridge sweeps all the same: only it can find an entry that the server took for it after it gave up waiting."""

CLOSE_TIMEOUT = 5.0
"""Seconds that a stopping worker has to write ends and give entries back. What is left is recovered by another bridge."""

RETURN_LEASE = 10.0
"""Seconds for which a stopping worker leases what it gives back. If it dies meanwhile, the entries are recovered that much later."""

LEASES_TO_RETURN = 20
"""Leases that a stopping worker asks for at most, to find its own jobs among those of others."""

log = logging.getLogger("tenure.bridges")


@dataclass(slots=True)
class Own:
    """An entry in custody of this worker."""

    look_at: float
    """When to look at it, by the monotonic clock, if this worker does not hold its job by then."""

    pause: float
    """Seconds until the look after that, doubled each time."""

    stored: bool = False
    """Whether this worker knows that the store has had its job."""

    waiting: bool = True
    """Whether its job waits in the store. Then it needs a slot, and another entry must not be taken for that slot."""


class BridgeSource(Source):
    """Takes entries into custody, stores their jobs, and writes their ends back.

    1. An entry leaves custody only when its end is written there, when it is given back, or when the other system took it back.
    2. Its job has the id that custody has, so storing it again changes nothing.
    3. A worker that dies at any point leaves an entry that `judge` knows what to do with.
    """

    def __init__(self, bridge: Bridge, queues: Sequence[str], *, keep: bool) -> None:
        self._bridge = bridge
        self._queues = queues
        self._keep = keep
        self._prefix = queue_name(bridge.kind, "")
        self._mine: dict[str, Own] = {}
        """Entries in custody that this worker owns, by id. The keeper's thread reads the ids."""

        self._slots: dict[str, int] = {}
        """Slots of the jobs that it runs."""

        self._unsure: set[str] = set()
        """Entries to judge at the next look, because the other system has taken them back, or may have."""

        self._unstored: list[Taken] = []
        self._taking: asyncio.Task[int] | None = None
        self._looked_in_vain: int | None = None
        """Number of ends that had been written before the last look, which found no entry; None if it found one."""

        self._aside = False
        """Whether a wait may have put entries aside, or may still do so, since they were last returned."""

        self._swept_at = 0.0
        self._closing = False
        self._retries_too = False
        """Whether to give back what waits for a retry, too."""

        self.returned = 0
        """Number of entries that it has given back."""

        self._silence = seconds(bridge.app.options.missing_after, "missing_after")
        self._beat_at = 0.0
        self._renew_at = 0.0
        self._owner = ""
        self._renewing: Foreign | None = None

    def __repr__(self) -> str:
        return f"<{self._bridge.kind} bridge to {self._bridge.shown}>"

    # Called by the worker.

    def attach(self, host: Host) -> None:
        self._host = host
        self._foreign = self._bridge.connect(self._queues)
        self._loop = asyncio.get_running_loop()
        self._outage = Outage(host.stem, self._bridge.shown)
        self._clerk = Clerk(self._foreign, lambda: self._owner)
        self._swept = asyncio.Event()
        self._sweep_soon = asyncio.Event()
        self._sweep_soon.set()
        place = hashlib.sha256(self._foreign.place.encode()).hexdigest()[:16]
        self._chore = f"bridge:{self._bridge.kind}:{place}"

    def chores(self) -> Mapping[str, Chore]:
        parts = {
            "take": self._take,
            "record": self._record,
            "sweep": self._sweep,
            "own entries": self._look_after_own,
            **self._foreign.chores(self._cancel),
        }
        return {f"{self._bridge.kind} {part}": self._riding_out(part, do) for part, do in parts.items()}

    def _riding_out(self, part: str, do: Chore) -> Chore:
        """The same chore, which waits while the other system is down. Errors of the own store are the worker's to ride out."""

        async def chore() -> float:
            try:
                pause = await do()
            except ForeignError as error:
                return self._outage.failed(part, error)
            self._outage.answered(part)
            return pause

        return chore

    def began(self, attempt: Attempt, slot: int) -> None:
        job = attempt.lease.job
        if job.queue.startswith(self._prefix):
            self._slots[job.id] = slot
            self._clerk.began(Begun(job.id, slot))
            if (own := self._mine.get(job.id)) is not None:
                own.waiting = False
            elif self._foreign.custody_is_hold:
                self._unsure.add(job.id)  # its owner may have died, and the other system have taken it back since

    def ended(self, attempt: Attempt, transition: Transition) -> None:
        self._looked_in_vain = None  # it may have put an entry there
        job = attempt.lease.job
        if not job.queue.startswith(self._prefix):
            return
        slot = self._slots.pop(job.id, None)
        if isinstance(transition, Finish):
            self._mine.pop(job.id, None)
            self._clerk.ended(End.of_transition(job.id, transition, slot))
            return
        if slot is not None:
            self._clerk.stopped(Stopped(job.id, slot))
        if (own := self._mine.get(job.id)) is not None:
            own.look_at, own.pause = monotonic() + POLL, POLL

    @property
    def empty(self) -> bool:
        taking = self._taking is not None and not self._taking.done()
        vain = self._looked_in_vain == self._clerk.written
        return vain and not (taking or self._mine or self._clerk.pending or self._sweep_soon.is_set())

    async def renew(self) -> float:
        if self._renewing is None:
            self._renewing = self._bridge.connect(self._queues)
        every, now = self._renewing.renew_every, monotonic()
        if not self._owner or self._closing:
            return min(every, POLL)
        try:
            if now >= self._beat_at:
                await self._renewing.beat(self._owner, self._silence)
                self._beat_at = now + self._silence / 3
            if now >= self._renew_at:
                await self._renew_holds(self._renewing)
                self._renew_at = now + every
        except ForeignError as error:
            return min(self._outage.failed("renewal", error), every)
        self._outage.answered("renewal")
        return max(min(self._beat_at, self._renew_at) - monotonic(), 0.0)

    async def _renew_holds(self, foreign: Foreign) -> None:
        held = dict.fromkeys(self._mine)
        if foreign.custody_is_hold:
            # Also what another took and this worker runs: the other may have died, and the hold must not end meanwhile.
            held.update(dict.fromkeys(self._slots))
        missed = await foreign.renew(self._owner, list(held))
        lost = [each for each in missed if each in self._mine or each in self._slots]  # others have ended meanwhile
        if lost:
            log.warning("%r has taken back %d entries, the first is that of job %s", self, len(lost), lost[0])
            call_soon(self._loop, self._unsure.update, lost)

    async def close_renewing(self) -> None:
        if self._renewing is not None:
            await self._renewing.close()

    async def close(self) -> None:
        self._closing = True
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._finish()
        except TimeoutError:
            log.warning("%r: closing took too long; the next bridge finishes what this worker leaves", self)
        finally:
            if self._taking is not None:
                self._taking.cancel()
            await self.disconnect()

    async def disconnect(self) -> None:
        """Close the connection to the other system."""
        await self._foreign.close()

    async def _finish(self) -> None:
        """Write all ends, give back what has not started, and remove the records of this worker."""
        if self._taking is not None:
            # Or it would take entries, or store jobs, after what follows.
            await asyncio.gather(asyncio.shield(self._taking), return_exceptions=True)
        for part in (self._clerk.write, self._give_back, self._leave):
            try:
                await part()
            except StoreError as error:
                log.warning("%r: the next bridge finishes what this worker leaves: %s", self, error)

    async def _leave(self) -> None:
        if self._owner:
            await self._foreign.take(self._owner, ())
            await self._foreign.leave(self._owner)
            await self._foreign.beat(self._owner, 0)

    # Taking.

    async def _take(self) -> float:
        """Take entries for the free slots and store their jobs. Returns the seconds until the next call."""
        await self._swept.wait()
        await self._in_one_piece(self._store_taken())
        room = await self._room()
        if (owner := await self._entered()) is None:
            return 0.1
        if (room := min(room, await self._needed())) <= 0:
            return POLL  # the jobs here cannot be leased: their queue is paused, or others are first
        written = self._clerk.written
        if await self._in_one_piece(self._take_and_store(owner, room)):
            self._looked_in_vain = None
            return 0.0
        if self._looked_in_vain != written:
            self._looked_in_vain = written
            self._host.wake()  # it may be waiting for this to stop
        self._aside = True
        await self._foreign.wait(POLL)
        return 0.0

    async def _room(self) -> int:
        """Wait until there is room. Meanwhile entries that have come are not kept from the workers of the other system."""
        try:
            async with asyncio.timeout(ASIDE_FOR if self._aside else None):
                return await self._host.room.claim()
        except TimeoutError:
            self._aside = False
            await self._foreign.take(self._owner, ())
            return await self._host.room.claim()

    async def _in_one_piece(self, work: Coroutine[Any, Any, int]) -> int:
        """Do this to its end, even if the worker stops meanwhile: `close` must know what was taken and stored."""
        self._taking = asyncio.create_task(work)
        return await asyncio.shield(self._taking)

    async def _needed(self) -> int:
        """The number of slots for which no job waits in the store."""
        for look in (True, False):
            held = self._host.held()
            waiting = [job_id for job_id, own in self._mine.items() if own.waiting and job_id not in held]
            if look and len(waiting) >= self._host.slots:
                await self._look_at(waiting)  # others may have leased them since
        return self._host.slots - len(waiting)

    async def _take_and_store(self, owner: str, room: int) -> int:
        try:
            taken = await self._foreign.take(owner, sorted(new_id() for _ in range(min(room, BATCH))))
        except Exception:
            self._sweep_soon.set()  # the answer may be lost, and the entries be in custody
            raise
        look_at = monotonic() + POLL
        self._mine.update((each.id, Own(look_at, POLL)) for each in taken)
        self._unstored += taken
        return await self._store_taken()

    async def _entered(self) -> str | None:
        """The id of this worker, after its records were written; None while it must take nothing."""
        owner = self._host.worker_id()
        if owner is not None and owner != self._owner:
            await self._foreign.beat(owner, self._silence)
            await self._foreign.enter(owner, self._host.slots)
            self._owner = owner
        return owner

    async def _store_taken(self) -> int:
        """Store the jobs of what was taken, and return their number. What cannot be read fails at once."""
        number = len(self._unstored)
        while self._unstored:
            batch = self._unstored[:BATCH]
            await self._enqueue(batch)
            del self._unstored[: len(batch)]
        return number

    async def _enqueue(self, entries: Sequence[Taken]) -> None:
        jobs = [job for entry in entries if (job := self._read(entry)) is not None]
        if not jobs:
            return
        try:
            answers = await self._host.store.enqueue(jobs)
        except STORE_OUTAGE:
            raise
        except Exception as error:
            if len(entries) > 1:
                for entry in entries:
                    await self._enqueue([entry])
                return
            log.exception("the store refuses the job of an entry in queue %s: it fails", entries[0].queue)
            self._fail(entries[0].id, describe_exception(error))
            return
        for job, answer in zip(jobs, answers, strict=True):
            if answer.duplicate:
                log.info(
                    "job %s has the unique key of an entry in queue %s, which ends as cancelled", answer.id, job.queue
                )
                self._end(End(job.id, State.CANCELLED))
            elif (own := self._mine.get(job.id)) is not None:
                own.stored = True

    def _read(self, entry: Taken) -> NewJob | None:
        """The job of an entry; None if it cannot be read, and fails."""
        try:
            made = self._bridge.read(entry)
        except Exception as error:  # noqa: BLE001  (no entry ends the bridge)
            made = describe_exception(error)
        if isinstance(made, ErrorInfo):
            # No job is made, so no event and no listing here would tell of it.
            log.error("an entry in queue %s fails without a job: %s: %s", entry.queue, made.type, made.message)
            self._fail(entry.id, made)
            return None
        return made

    def _fail(self, job_id: str, error: ErrorInfo) -> None:
        self._end(End(job_id, State.FAILED, error=error))

    def _end(self, end: End) -> None:
        self._mine.pop(end.id, None)
        self._clerk.ended(end)

    async def _record(self) -> float:
        """Write what became of jobs."""
        pause = await self._clerk.work()
        if self.empty:
            self._host.wake()  # it may be waiting for this to stop
        return pause

    # What is left over.

    async def _sweep(self) -> float:
        """Adopt what dead workers have left, and judge it: at the start, after a lost answer, and when it is this bridge's turn."""
        if not (
            self._sweep_soon.is_set()
            or monotonic() > self._swept_at + OWN_SWEEP_INTERVAL
            or await self._host.store.claim_chore(self._chore, SWEEP_INTERVAL)
        ):
            await _set_within(self._sweep_soon, SWEEP_INTERVAL / 2)
            return 0.0
        if (owner := await self._entered()) is None:
            return 0.05
        self._sweep_soon.clear()
        try:
            await self._adopt_and_judge(owner)
        except BaseException:
            self._sweep_soon.set()
            raise
        self._swept_at = monotonic()
        self._swept.set()
        return 0.0

    async def _adopt_and_judge(self, owner: str, *, give_back: bool = False) -> None:
        """Take over the entries of workers that are gone and judge them. With `give_back`, also return what does not run."""
        look = await self._foreign.look()
        # After the look: a worker registers before it takes, so an owner that is missing here is not a new one.
        workers = {worker.id: worker for worker in await self._host.store.workers()}
        # Workers that this store does not know may be those of another store.
        alive = await self._foreign.alive([each for each in look.owners if each not in workers])
        gone = frozenset(each for each in look.owners if each != owner and _gone(each, workers, alive))
        adopted = [
            entry
            for entry in look.entries
            if (entry.owner == owner and entry.id not in self._mine)
            or (entry.owner in gone and await self._foreign.adopt(entry.id, entry.owner, owner))
        ]
        look_at = monotonic() + POLL
        for entry in adopted:
            if not self._clerk.has_end_of(entry.id):
                self._mine.setdefault(entry.id, Own(look_at, POLL))
        await self._judge(adopted, give_back=give_back)
        for dead in gone:
            await self._foreign.leave(dead)

    async def _cancel(self, ids: Sequence[str]) -> list[str]:
        """Cancel the jobs of these entries, because the other system asks for it. Returns the ids that the store does not have."""
        verdicts = await self._host.store.cancel(ids)
        return [each for each, verdict in zip(ids, verdicts, strict=True) if verdict.kind is VerdictKind.NOT_FOUND]

    async def _look_after_own(self) -> float:
        """Judge the entries whose jobs this worker does not hold: another worker may run them, or have run them."""
        held, now = self._host.held(), monotonic()
        for job_id, slot in list(self._slots.items()):
            if job_id not in held:  # it lost its lease
                del self._slots[job_id]
                self._clerk.stopped(Stopped(job_id, slot))
        unsure = list(self._unsure)
        unseen = {job_id for job_id, own in self._mine.items() if own.look_at <= now and job_id not in held}
        if ids := [*unseen.union(unsure)]:
            await self._look_at(ids)
            self._unsure.difference_update(unsure)
        return POLL

    async def _look_at(self, ids: Sequence[str]) -> None:
        """Judge these entries, and forget those that are no longer this worker's."""
        found = {entry.id: entry for entry in await self._foreign.find(ids)}
        gone = [each for each in ids if each not in found and not self._clerk.has_end_of(each)]
        if self._foreign.custody_is_hold:
            for start in range(0, len(gone), BATCH):
                await self._host.store.cancel(gone[start : start + BATCH])  # they have ended, or run over there
        for each in ids:
            if each not in found or found[each].owner != self._owner:
                self._mine.pop(each, None)
        await self._judge([each for each in found.values() if each.owner == self._owner or each.id in self._slots])

    async def _judge(self, entries: Sequence[Custody], *, give_back: bool = False) -> None:
        """Act on each entry as `judge` says. With `give_back`, what no worker runs is returned instead of stored."""
        entries = [entry for entry in entries if not self._clerk.has_end_of(entry.id)]
        for start in range(0, len(entries), BATCH):
            await self._judge_batch(entries[start : start + BATCH], give_back=give_back)

    async def _judge_batch(self, entries: Sequence[Custody], *, give_back: bool) -> None:
        ids = [entry.id for entry in entries]
        records = await self._host.store.get(ids)
        held_there = await self._foreign.held_there(ids)
        if None in records:
            await self._doubt_if_forgotten()
        to_do: dict[Judgement, list[Custody]] = {judgement: [] for judgement in Judgement}
        waiting: list[JobRecord] = []
        for entry, record, held in zip(entries, records, held_there, strict=True):
            own = self._mine.get(entry.id)
            state = None if record is None else record.state
            judgement = judge(state, held_there=held, returning=entry.returning, stored=own is not None and own.stored)
            due = record is not None and state is State.WAITING and record.run_at is None
            idle = due or (self._retries_too and state is State.WAITING)
            if give_back and (judgement is Judgement.ENQUEUE or (judgement is Judgement.WAIT and idle)):
                judgement = Judgement.GIVE_BACK
            to_do[judgement].append(entry)
            if judgement is Judgement.END:
                slot = self._slots.pop(entry.id, None)
                self._end(End(entry.id, State.CANCELLED, slot=slot) if record is None else End.of_record(record, slot))
            elif judgement is Judgement.WAIT and own is not None:
                own.stored, own.waiting = True, due
                own.look_at, own.pause = monotonic() + own.pause, min(own.pause * 2, LONGEST_POLL)
            elif judgement is Judgement.GIVE_BACK and record is not None and due:
                waiting.append(record)
        if missing := [entry.taken for entry in to_do[Judgement.ENQUEUE]]:
            await self._enqueue(missing)
            self._host.wake()
        if let_go := [entry.id for entry in to_do[Judgement.LET_GO]]:
            await self._host.store.cancel(let_go)
            await self._foreign.let_go(let_go)
            for each in let_go:
                self._mine.pop(each, None)
        if returning := [entry.id for entry in to_do[Judgement.GIVE_BACK]]:
            await self._return(returning, waiting)

    async def _doubt_if_forgotten(self) -> None:
        """Store missing jobs again if the store does not know this worker either: it has lost its data, and no worker deleted them."""
        if self._owner not in {worker.id for worker in await self._host.store.workers()}:
            for own in self._mine.values():
                own.stored = False

    # Giving back.

    async def give_back_all(self, owner: str) -> int:
        """Give back what workers that are gone have left, and write the ends that they have left, instead of working.

        Also what waits for a retry. Returns the number of entries that stay in custody, because their jobs run, their queues are paused
        here, or their owners are alive. `owner` is a name that no worker has.
        """
        self._owner, self._retries_too = owner, True
        await self._reap()
        await self._adopt_and_judge(owner, give_back=True)
        await self._clerk.write()
        await self._leave()
        return len((await self._foreign.look()).entries)

    async def _reap(self) -> None:
        """End the leases that have expired on jobs in custody: no worker may be left to do it."""
        ids = [entry.id for entry in (await self._foreign.look()).entries]
        queues = dict[str, None]()
        for start in range(0, len(ids), BATCH):
            records = await self._host.store.get(ids[start : start + BATCH])
            queues |= {record.queue: None for record in records if record and record.state is State.RUNNING}
        while queues and len(await self._host.store.reap(tuple(queues))) == BATCH:
            pass

    async def _give_back(self) -> None:
        """Return to the other system what waits here, in its old order. What runs elsewhere, or waits for a retry, stays."""
        if self._owner and not self._keep:
            look = await self._foreign.look()  # not only what it knows of: the answer of a take may be lost
            await self._judge([entry for entry in look.entries if entry.owner == self._owner], give_back=True)
            await self._clerk.write()

    async def _return(self, ids: Sequence[str], waiting: Sequence[JobRecord]) -> None:
        """Return these entries to the front of their queues; `waiting` are the jobs among them that a worker could start."""
        leased_at = monotonic()
        leases = await self._lease_by_hand(waiting)
        started = {record.id for record in waiting} - {lease.job.id for lease in leases}
        # Older entries first, whatever the priorities of their jobs are.
        back = sorted(each for each in ids if each not in started)
        if back:
            await self._foreign.mark_returning(back)
            if monotonic() > leased_at + RETURN_LEASE / 2:
                return  # it may have been frozen: others may run these jobs by now, and the next sweep judges them
            # Still leased, so no worker has started them.
            verdicts = await self._host.store.cancel(back)
            # A job that is final by now has an end to be written, unless an earlier try has cancelled it.
            finals = [each for each, verdict in zip(back, verdicts, strict=True) if verdict.kind is VerdictKind.REFUSED]
            records = await self._host.store.get(finals) if finals else []
            ended = {record.id for record in records if record and record.state is not State.CANCELLED}
            back = [each for each in back if each not in ended]
            await self._foreign.give_back(back)
            self.returned += len(back)
            for each in back:
                self._mine.pop(each, None)

    async def _lease_by_hand(self, waiting: Sequence[JobRecord]) -> list[Lease]:
        """Lease these jobs, so that no worker can start them. Jobs of others that come with them are released to where they were."""
        wanted, leases, others = {record.id for record in waiting}, list[Lease](), list[Lease]()
        queues = tuple({record.queue: None for record in waiting})
        for _ in range(LEASES_TO_RETURN):
            if len(leases) == len(wanted):
                break
            request = LeaseRequest(
                queues=queues, limit=BATCH, worker=self._owner, ttl=RETURN_LEASE, nonce=new_nonce(), solo=True
            )
            leased = (await self._host.store.lease(request)).leases
            leases += [lease for lease in leased if lease.job.id in wanted]
            others += [lease for lease in leased if lease.job.id not in wanted]
            if not leased:
                break
        for start in range(0, len(others), BATCH):
            await self._host.store.settle([(lease, RELEASE) for lease in others[start : start + BATCH]])
        return leases


def _gone(owner: str, workers: Mapping[str, WorkerInfo], alive: Collection[str]) -> bool:
    """Whether a worker is gone, or silent for longer than `missing_after`, so that another must look after what it owns.

    If it comes back nothing is lost: its leases decide which jobs it still runs, and custody whether an end is written.
    """
    worker = workers.get(owner)
    return owner not in alive if worker is None else worker.missing


async def _set_within(event: asyncio.Event, timeout: float) -> None:
    try:
        async with asyncio.timeout(timeout):
            await event.wait()
    except TimeoutError:
        pass
