"""The store for jobs that commit with the application's own data: PostgreSQL, whose functions are the steps."""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from tenure.core import inbox
from tenure.core.checks import seconds
from tenure.core.clock import Clock
from tenure.core.inbox import ENTRY_LIMIT, NO_RAW
from tenure.core.job import JobRecord, NewJob, State
from tenure.core.lease import AbortReason, Lease
from tenure.core.lifecycle import Finish, kept_reason
from tenure.core.options import Retention
from tenure.core.patterns import literal_prefix
from tenure.errors import HasDependents, StoreError, StoreUnavailable
from tenure.stores.base import AHEAD, BATCH, NAMED, QUIET, OwnTransaction, Store, busy_queues_of
from tenure.stores.callers import Work
from tenure.stores.joining import Joiner
from tenure.stores.postgres import health, reading, runs, schema, settling, single
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.caller_work import CallerWork
from tenure.stores.postgres.cleaning import Cleaning
from tenure.stores.postgres.event_channel import KIND, Notes
from tenure.stores.postgres.expressions import expression, expressions
from tenure.stores.postgres.link import Connection, KnownAlready, Link, Refusal
from tenure.stores.postgres.records import (
    are_alike,
    check_starts,
    dumps,
    enqueued,
    is_special,
    leased,
    new_fields,
    record,
    stored,
    text_of,
    whole,
)
from tenure.stores.postgres.subscription import Subscription
from tenure.stores.postgres.transaction import JobsTransaction
from tenure.stores.postgres.wakeup import WORK, Wakeup
from tenure.stores.values import (
    UNCHANGED,
    Announcement,
    AnnouncementKind,
    BusyQueues,
    Change,
    Consequence,
    Enqueued,
    Fact,
    Layout,
    Leased,
    LeaseRequest,
    LeaseStatus,
    Page,
    Pulse,
    QueueInfo,
    Reaped,
    Renewal,
    RunPage,
    RunRecord,
    RunSearch,
    Search,
    Settlement,
    Unchanged,
    Verdict,
    WorkerInfo,
    clock_fact,
)

__all__ = ["PostgresStore"]

PAGES = 5
"""Pages of a thousand queues that one call prunes."""

PEEK = 100
"""Entries of an inbox that are looked at together."""

LOCKED, LOCKED_FOR = "locked", 0.02
"""What `renew` says of a job that somebody else has locked, and seconds until it is asked once more."""

ANSWERS: dict[str, AbortReason | Unchanged] = {
    LOCKED: UNCHANGED,
    "gone": AbortReason.NOT_FOUND,
    "cancelled": AbortReason.CANCELLED,
    "succeeded": AbortReason.COMPLETED,
    "failed": AbortReason.COMPLETED,
    "broken": AbortReason.COMPLETED,
}
"""What a holder is told of its job, by what the step says of it; anything else means that it is taken."""

_loads = msgspec.json.Decoder().decode
_told = msgspec.json.Decoder(list[tuple[Change, str, str, str]]).decode


class PostgresStore(Store):
    """Jobs in one schema of a PostgreSQL database. Every method is one statement."""

    def __init__(self, address: Address, *, clock: Clock | None = None) -> None:
        """A store object; a clock, which tests have, takes the place of the server's."""
        self._address = address
        self._schema = f'"{address.schema}"'
        self._statements: dict[str, str] = {}
        """Those that were used, with the schema filled in."""

        self._link = Link(address)
        self._cleaning = Cleaning(self._link)
        self._jobs = Link(address)
        """For jobs' own transactions: however many are open, nobody else waits for a connection."""

        self._clock = clock
        self._caller_work: CallerWork | None = None
        """What is known once it is open."""

        self._closed = False
        self._pruned_to = ""
        """The queue after which to go on pruning."""

        self._joiner = Joiner(self._enqueue)
        self._channel = f"tenure_{secrets.token_hex(8)}"
        self._subscription = Subscription(self._link, self._channel, self._heard)
        self._wakeup = Wakeup(self._subscription, self._channel, self._value)
        self._notes = Notes(self._subscription, self._channel, self._value)
        self._link.on_notes = self._happened
        self._signals: deque[Announcement] = deque(maxlen=10_000)
        self._signalled = asyncio.Event()

    @classmethod
    def from_url(cls, url: str) -> PostgresStore:
        """The store that a `postgresql://` URL names; `address.py` says what it may hold."""
        return cls(Address.from_url(url))

    # Opening and closing.

    async def open(self) -> None:
        await self._migrate(may_change=self._address.auto_schema)

    async def migrate(self) -> None:
        await self._migrate(may_change=True)

    async def _migrate(self, *, may_change: bool) -> None:
        self._check_open()

        async def migrate(connection: Connection) -> str:
            await schema.migrate(connection, self._address, may_change=may_change)
            return await schema.identity(connection, self._address)

        self._caller_work = CallerWork(self._schema, await self._link.use(migrate, schema.PATIENCE), self._now)

    async def migration(self) -> str:
        self._check_open()
        return await self._link.use(lambda connection: schema.script(connection, self._address), schema.PATIENCE)

    async def close(self) -> None:
        if self._closed:
            return
        await self._notes.close()
        self._closed = True
        self._signalled.set()
        self._wakeup.stop()
        await self._subscription.close()
        await self._wakeup.close()
        await self._jobs.close()
        await self._link.close()

    async def layout(self) -> Layout:
        self._check_open()
        found = await self._link.use(lambda connection: schema.found(connection, self._address), schema.PATIENCE)
        return Layout(found, schema.KNOWN)

    async def examine(self) -> list[Fact]:
        await self._subscription.open()
        await self._ready()
        [[beats, leases]] = await self._step("ahead", self._now())
        return [*await health.examine(self._link, hears=self._subscription.hears), clock_fact(beats, leases)]

    # Producers.

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if not jobs:
            self._check_open()
            return []
        check_starts(jobs)
        if any(job.unique_raises or job.after for job in jobs):
            return await self._enqueue(jobs)
        return await self._joiner.enqueue(jobs)

    async def _enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if len(jobs) == 1 and jobs[0].plain:
            try:
                await self._fetch(single.ENQUEUE, self._now(), *single.values(jobs[0]))
            except KnownAlready:
                pass
            else:
                return [Enqueued(jobs[0].id, State.WAITING)]
        special = is_special(jobs)
        payloads = [job.payload for job in jobs]
        starts = any(job.step for job in jobs)
        if not special and not starts and are_alike(jobs):
            with suppress(KnownAlready):
                ids = [job.id for job in jobs]
                await self._step("enqueue_alike", self._now(), dumps(new_fields(jobs[0])), ids, payloads)
                return [Enqueued(id_, State.WAITING) for id_ in ids]
        values = (self._now(), dumps([new_fields(job) for job in jobs]), payloads)
        if not special:
            with suppress(KnownAlready):
                await self._step("enqueue_starts" if starts else "enqueue_new", *values)
                return [Enqueued(job.id, State.WAITING) for job in jobs]
        try:
            told = await self._step("enqueue_jobs", *values, special)
        except Refusal as refusal:
            raise settling.refusal(_loads(refusal.detail)) from None
        return enqueued(jobs, told)

    async def take_in(
        self,
        queues: Sequence[str],
        limit: int = BATCH,
        *,
        entry_limit: int = ENTRY_LIMIT,
        raw: Mapping[str, NewJob] = NO_RAW,
    ) -> int:
        taken = 0
        for queue in dict.fromkeys(queues):
            while taken < limit and (entries := await self._step("peek", queue, min(limit - taken, PEEK))):
                read = [inbox.read(queue, entry, entry_limit, raw.get(queue)) for _, entry in entries]
                # Fewer than were seen if another has been quicker.
                taken += await self._value(
                    "take_in",
                    self._now(),
                    [number for number, _ in entries],
                    dumps([new_fields(job) for job, _ in read]),
                    [job.payload for job, _ in read],
                    [text_of(error) for _, error in read],
                )
        return taken

    # Transactions.

    transactional = True

    def enqueueing(self, jobs: Sequence[NewJob]) -> Work[list[Enqueued]]:
        assert self._caller_work is not None, "not open"
        return self._caller_work.enqueueing(jobs)

    def settling(self, settlement: Settlement) -> Work[Verdict]:
        assert self._caller_work is not None, "not open"
        return self._caller_work.settling(settlement)

    async def begin(self, *, writes: bool = True, timeout: float | None = None) -> OwnTransaction:  # noqa: ARG002
        await self._ready()
        return await JobsTransaction.begin(self._jobs, writes=writes)

    async def lease_status(self, lease: Lease) -> LeaseStatus:
        token = lease.token
        return LeaseStatus(await self._value("holding", lease.job.id, token.fence, token.nonce))

    # Workers.

    async def lease(self, request: LeaseRequest) -> Leased:
        if not request.queues:
            self._check_open()
            return Leased([])
        return _leased(request, await self._step("lease_work", *self._request(request)))

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        if not settlements:
            self._check_open()
            return []
        try:
            told = await self._value("settle_all", self._now(), *settling.values(settlements))
        except KnownAlready:
            words = settling.in_words(settlements, known=True)
            return settling.verdicts(settlements, await self._value("settle", self._now(), *words))
        return settling.verdicts(settlements, await self._in_words(settlements, told))

    async def _in_words(self, settlements: Sequence[Settlement], told: list[str] | None) -> list[str] | None:
        """Do again what could not be done together; the verdicts on all."""
        if told is None or settling.AGAIN not in told:
            return told
        again = [at for at, verdict in enumerate(told) if verdict == settling.AGAIN]
        words = settling.in_words([settlements[at] for at in again], known=True)
        verdicts = await self._value("settle", self._now(), *words) or ["ok"] * len(again)
        for at, verdict in zip(again, verdicts, strict=True):
            told[at] = verdict
        return told

    async def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        if not request.queues or not settlements:
            return await self.settle(settlements), await self.lease(request)
        values = (*self._request(request), self._now(), *settling.values(settlements))
        try:
            rows = await self._fetch(_SETTLE_AND_LEASE, *values)
        except KnownAlready:
            return await self.settle(settlements), await self.lease(request)
        told: list[str] | None = rows[-1]["verdicts"]
        leased = await self.lease(request) if told and settling.LOST in told else _leased(request, rows)
        return settling.verdicts(settlements, await self._in_words(settlements, told)), leased

    def _request(self, request: LeaseRequest) -> tuple[object, ...]:
        queues = list(dict.fromkeys(request.queues))
        who = (request.worker, request.ttl, request.nonce, request.solo)
        tasks = (request.isolated or None, request.skip_tasks or None)
        return self._now(), queues, request.limit, *who, *tasks, request.at_most

    async def leases_of(self, request: LeaseRequest) -> list[Lease]:
        rows = await self._fetch(reading.HELD, self._now(), request.nonce)
        return [request.given(record(row, row["now"]), row["n"]) for row in rows]

    async def renew(self, renewals: Sequence[Renewal]) -> list[AbortReason | Unchanged | None]:
        told = await self._renew(renewals)
        if locked := [at for at, what in enumerate(told) if what == LOCKED]:
            # By a step that took a moment, most likely; else by a transaction that may settle it, and nobody can take it meanwhile.
            await asyncio.sleep(LOCKED_FOR)
            for at, what in zip(locked, await self._renew([renewals[at] for at in locked]), strict=True):
                told[at] = what
        return [None if what is None else ANSWERS.get(what, AbortReason.TAKEN) for what in told]

    async def _renew(self, renewals: Sequence[Renewal]) -> list[str | None]:
        """What the jobs are now, if their tokens are not current."""
        leases = [renewal.lease for renewal in renewals]
        told: list[str | None] | None = await self._value(
            "renew",
            self._now(),
            [lease.number for lease in leases],
            [lease.job.id for lease in leases],
            [lease.token.fence for lease in leases],
            [lease.token.nonce for lease in leases],
            [renewal.ttl for renewal in renewals],
            [None if renewal.progress is None else dumps(renewal.progress) for renewal in renewals],
        )
        return [None] * len(renewals) if told is None else told

    async def reap(self, queues: Sequence[str], limit: int = BATCH) -> list[Reaped]:
        return _reaped(await self._step("reap", self._now(), list(dict.fromkeys(queues)), limit))

    async def busy_queues(self, patterns: Sequence[str]) -> BusyQueues:
        served = [entry for entry in patterns if not entry.startswith("!")]
        prefixes, regular = [*map(literal_prefix, served)], [*map(expression, served)]
        excluded = expressions(patterns)[1]
        rows = await self._step("busy_queues", self._now(), prefixes, regular, excluded, NAMED, AHEAD) if served else ()
        return busy_queues_of(
            patterns, [row["queue"] for row in rows], [row["queue"] for row in rows if row["overdue"]]
        )

    async def nudge(self, workers: Sequence[str]) -> None:
        await self._value("nudge", list(workers))

    async def wait_for_work(self, patterns: Sequence[str], timeout: float, *, skip_tasks: tuple[str, ...] = ()) -> None:
        self._check_open()
        await self._subscription.open()
        await self._wakeup.wait(patterns, timeout, skip_tasks)

    # The registry.

    async def register(self, worker: WorkerInfo) -> None:
        await self._listen()
        await self._value(
            "register",
            self._now(),
            worker.id,
            worker.host,
            worker.pid,
            list(worker.queues),
            list(worker.tasks),
            worker.concurrency,
            list(worker.lanes),
            dumps(worker.pulse),
            self._channel,
        )

    async def beat(self, worker_id: str, pulse: Pulse) -> bool:
        return bool(await self._value("beat", self._now(), worker_id, dumps(pulse)))

    async def leave(self, worker_id: str) -> None:
        await self._value("leave", worker_id)

    async def retire(self, worker_id: str, limit: int = BATCH, reason: str | None = None) -> list[Reaped]:
        return _reaped(await self._step("retire", self._now(), worker_id, limit, kept_reason(reason)))

    async def forget(self, silences: Mapping[str, float]) -> list[str]:
        gone: list[str] = await self._value("forget", self._now(), list(silences), list(silences.values()))
        return gone

    async def claim_chore(self, chore: str, interval: float) -> bool:
        return bool(await self._value("turn", self._now(), chore, interval))

    async def workers(self) -> list[WorkerInfo]:
        return [reading.worker_info(*row) for row in await self._step("list_workers", self._now())]

    # Operators.

    async def cancel(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operated(await self._value("cancel", self._now(), _ids(ids)), "it is final already")

    async def complete(self, job_id: str, step: Finish) -> Verdict:
        payloads: list[bytes] = []
        words = settling.ending(step, payloads, known=True)
        told = await self._value("complete_with", self._now(), *_ids([job_id]), stored(step.result), words, payloads)
        return settling.completed(told)

    async def retry(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operated(await self._value("retry", self._now(), _ids(ids)))

    async def trigger(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operated(await self._value("trigger", self._now(), _ids(ids)), "it is not scheduled")

    async def release(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operated(await self._value("release", self._now(), _ids(ids)), "it is not running")

    async def delete(self, ids: Sequence[str], *, cascade: bool = False) -> list[str]:
        try:
            gone: list[str] = await self._value("delete", self._now(), _ids(ids), cascade)
        except Refusal as refusal:
            raise HasDependents(*_loads(refusal.detail)) from None
        return gone

    async def pause(self, queue: str) -> bool:
        return bool(await self._value("pause", queue))

    async def resume(self, queue: str) -> bool:
        return bool(await self._value("resume", queue))

    async def purge(self, queue: str, limit: int = BATCH) -> int:
        purged: int = await self._value("purge", self._now(), queue, limit)
        return purged

    async def prune(self, default: Retention, queues: Mapping[str, Retention], limit: int = BATCH) -> int:
        own = [value for retention in queues.values() for value in _retention(retention)]
        await self._value("fold_counters")
        pruned = 0
        for _ in range(PAGES):
            begun_at = self._pruned_to
            values = (_retention(default), list(queues), own, begun_at, BATCH)
            [(went, after)] = await self._step("prune_from", self._now(), limit - pruned, *values)
            await self._value("forget_queues", self._now(), begun_at, after, QUIET)
            pruned += went
            self._pruned_to = after or ""
            if after is None or pruned >= limit:
                break
        await self._cleaning.clean()
        return pruned

    # Readers.

    async def get(self, ids: Sequence[str]) -> list[JobRecord | None]:
        if not ids:
            self._check_open()
            return []
        rows = await self._fetch(reading.GET, self._now(), _ids(ids))
        found = {job.id: job for row in rows if (job := whole(row, row["now"]))}
        return [found.get(id_) for id_ in ids]

    async def search(self, search: Search) -> Page:
        values = (search.state, search.queue, search.task, search.tag, search.limit, reading.place(search.cursor))
        return reading.page(await self._fetch(reading.SEARCH, self._now(), *values))

    async def run(self, run_id: str) -> RunRecord | None:
        rows = await self._fetch(runs.RUN, self._now(), *_ids([run_id]))
        return runs.run_record(rows[0]) if rows and rows[0]["id"] is not None else None

    async def runs(self, search: RunSearch) -> RunPage:
        name, value = search.lookup or (None, None)
        values = (search.flow, name, value, search.state, search.limit, runs.number(search.cursor))
        return runs.run_page(await self._fetch(runs.RUNS, self._now(), *values))

    async def steps(self, run_id: str, limit: int = 50, cursor: str | None = None) -> Page:
        values = (*_ids([run_id]), limit, runs.number(cursor))
        return runs.steps_page(await self._fetch(runs.STEPS, self._now(), *values))

    async def attributes(self, run_id: str, names: Sequence[str] | None = None) -> dict[str, str]:
        asked = None if names is None else _ids(names)
        return dict(await self._step("get_attributes", *_ids([run_id]), asked))

    async def ids(self, prefix: str, limit: int) -> list[str]:
        return [row[0] for row in await self._fetch(reading.IDS, prefix, f"{prefix}{reading.LAST}", limit)]

    async def blockers(self, job_id: str, limit: int = 50) -> list[str]:
        return [row[0] for row in await self._step("get_blockers", *_ids([job_id]), limit)]

    async def queues(self) -> list[QueueInfo]:
        return [reading.queue_info(*row) for row in await self._step("list_queues")]

    async def wait(self, ids: Sequence[str]) -> dict[str, JobRecord | None]:
        await self._listen()
        rows = await self._fetch(reading.WATCH, _ids(ids), self._channel)
        found = {row["asked"]: None if row["id"] is None else record(row, 0.0) for row in rows}
        return {id_: found.get(id_) for id_ in ids if id_ not in found or found[id_] is not None}

    @property
    def announcement_epoch(self) -> int:
        return self._subscription.times if self._subscription.hears else 0

    async def announcements(self) -> AsyncIterator[Announcement]:
        await self._listen()
        while not self._closed:
            while self._signals:
                yield self._signals.popleft()
            self._signalled.clear()
            await self._signalled.wait()

    async def _listen(self) -> None:
        """Let this object's channel be open, so that what happens from now on is heard."""
        await self._ready()
        await self._subscription.open()

    async def watched(self) -> bool:
        return bool(await self._value("is_watched"))

    async def publish(self, notes: Sequence[str]) -> None:
        self._check_open()
        await self._notes.publish(notes)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[str]]:
        if self._address.pooled:
            raise StoreError(
                "nothing can be heard through a pooler: watch with the URL of the server itself, without pooled=true"
            )
        await self._ready()
        async with self._notes.watch() as notes:
            yield notes

    def _happened(self, notes: Sequence[str]) -> None:
        """Say what a step has told of jobs that nobody named."""
        if self.on_consequences is not None:
            self.on_consequences([Consequence(*told) for note in notes for told in _told(note)])

    def _heard(self, said: str) -> None:
        kind, _, rest = said.partition(" ")
        if kind == KIND:
            self._notes.heard(rest)
        elif kind == WORK and rest != "-1":
            self._wakeup.heard(rest)
        else:
            self._signals.append(Announcement(AnnouncementKind(kind), "" if kind == WORK else rest))
            self._signalled.set()

    # Statements.

    async def _step(self, name: str, *values: object) -> list[Any]:
        """Have a step done; its rows."""
        return await self._fetch(_call(name, len(values)), *values)

    async def _value(self, name: str, *values: object) -> Any:
        """Have a step done whose answer is one value."""
        [[value]] = await self._step(name, *values)
        return value

    async def _fetch(self, statement: str, *values: object) -> list[Any]:
        if self._caller_work is None or self._closed:
            await self._ready()
        text = self._statements.get(statement)
        if text is None:
            text = self._statements[statement] = statement.replace("{schema}", self._schema)
        return await self._link.fetch(text, *values)

    async def _ready(self) -> None:
        self._check_open()
        if self._caller_work is None:
            await self.open()

    def _now(self) -> float | None:
        return None if self._clock is None else self._clock.wall()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"the store at {self._address} has been closed")


_SETTLE_AND_LEASE = (
    "SELECT * FROM {schema}.lease_work($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, "
    f"{{schema}}.settle_all({', '.join(f'${number}' for number in range(11, 32))}))"
)


@functools.cache
def _call(name: str, values: int) -> str:
    parameters = ", ".join(f"${number}" for number in range(1, values + 1))
    return f"SELECT * FROM {{schema}}.{name}({parameters})"


def _ids(ids: Sequence[str]) -> list[str]:
    """Ids as the server takes them. It has no NUL in any text: what has one is no job's, like the empty text."""
    return ["" if "\0" in id_ else id_ for id_ in ids]


def _leased(request: LeaseRequest, rows: Sequence[Any]) -> Leased:
    *jobs, last = rows
    now, ttl, left = last["now"], request.length(None), last["tags"]
    return Leased(
        [leased(row, request, now, ttl) for row in jobs],
        suspect_waiting=last["suspect_waiting"],
        due_in=last["due_in"],
        inbox=bool(last["inbox"]),
        passed_over=tuple(task for task in request.skip_tasks if task in left) if left else (),
    )


def _reaped(rows: Sequence[Any]) -> list[Reaped]:
    return [Reaped(*row) for row in rows]


def _retention(retention: Retention) -> list[float]:
    return [seconds(retention.succeeded, "succeeded"), seconds(retention.failed, "failed"), float(retention.count)]
