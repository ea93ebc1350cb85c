"""PostgresStore: keeps jobs in PostgreSQL, where they can commit with the application's data."""

from __future__ import annotations

import asyncio
import functools
import secrets
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
from tenure.core.measures import HistoryRow, HistorySearch, HistoryWrite, Mark
from tenure.core.options import Retention
from tenure.core.patterns import literal_prefix
from tenure.core.schedule import Firing, SchedulePage, SchedulePut, ScheduleSearch, TickRecord
from tenure.errors import HasDependents, StoreError, StoreUnavailable
from tenure.stores.base import AHEAD, BATCH, NAMED, QUIET, OwnTransaction, Store, busy_queues_of
from tenure.stores.callers import Work
from tenure.stores.joining import Joiner
from tenure.stores.mailbox import Mailbox
from tenure.stores.postgres import audit, health, history, reading, runs, schedules, schema, settling, single
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.caller_work import CallerWork
from tenure.stores.postgres.event_channel import KIND, EventChannel
from tenure.stores.postgres.link import Connection, DuplicateKey, Link, Refusal
from tenure.stores.postgres.queue_regex import regex, regexes
from tenure.stores.postgres.records import (
    are_alike,
    check_first_steps,
    dumps,
    encode_error,
    encode_result,
    enqueued,
    is_special,
    leased,
    new_fields,
    record,
    record_with_attempts,
)
from tenure.stores.postgres.subscription import Subscription
from tenure.stores.postgres.transaction import JobsTransaction
from tenure.stores.postgres.vacuum import Vacuum
from tenure.stores.postgres.wakeup import WORK, Wakeup
from tenure.stores.values import (
    NOT_RUNNING,
    NOT_SCHEDULED,
    PRIORITIES,
    UNCHANGED,
    Action,
    ActionPage,
    Announcement,
    AnnouncementKind,
    BusyQueues,
    Change,
    Consequence,
    EdgeInfo,
    Enqueued,
    Fact,
    Layout,
    Leased,
    LeaseRequest,
    LeaseStatus,
    Order,
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
"""Most pages of `BATCH` queues that one call of `prune` looks at."""

PEEK = 100
"""Inbox entries that are read and taken in together."""

LOCKED, LOCKED_FOR = "locked", 0.02
"""What `renew` answers for a job that another transaction has locked, and the seconds until it is tried once more."""

ABORT_REASONS: dict[str, AbortReason | Unchanged] = {
    LOCKED: UNCHANGED,
    "gone": AbortReason.NOT_FOUND,
    "cancelled": AbortReason.CANCELLED,
    "succeeded": AbortReason.COMPLETED,
    "failed": AbortReason.COMPLETED,
    "broken": AbortReason.COMPLETED,
}
"""Why a holder must stop, by what `renew` answers; any other answer means that the job was taken from it."""

_loads = msgspec.json.Decoder().decode
_decode_consequences = msgspec.json.Decoder(list[tuple[Change, str, str, str]]).decode


class PostgresStore(Store):
    """Jobs in one schema of a PostgreSQL database. Nearly every method is one statement that calls one operation."""

    def __init__(self, address: Address, *, clock: Clock | None = None) -> None:
        """Nothing is connected yet. `clock` replaces the clock of the server, in tests."""
        self._address = address
        self._schema = f'"{address.schema}"'
        self._statements: dict[str, str] = {}
        """The statements used so far, with the schema filled in."""

        self._link = Link(address)
        self._vacuum = Vacuum(self._link)
        self._transaction_link = Link(address)
        """Connections for transactions of jobs, so that other calls never wait for one of these."""

        self._clock = clock
        self._caller_work: CallerWork | None = None
        """None until the store is open."""

        self._closed = False
        self._pruned_to = ""
        """The queue after which the next `prune` goes on; empty: from the first."""

        self._joiner = Joiner(self._enqueue)
        self._channel = f"tenure_{secrets.token_hex(8)}"
        self._subscription = Subscription(self._link, self._channel, self._on_message)
        self._wakeup = Wakeup(self._subscription, self._channel, self._value)
        self._events = EventChannel(self._subscription, self._channel, self._value)
        self._link.on_reports = self._on_reports
        self._announced: Mailbox[Announcement] = Mailbox()

    @classmethod
    def from_url(cls, url: str) -> PostgresStore:
        """The store of a `postgresql://` URL; see `Address` for its options."""
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

        self._caller_work = CallerWork(self._schema, await self._link.use(migrate, schema.TIMEOUT), self._now)

    async def migration(self) -> str:
        self._check_open()
        return await self._link.use(
            lambda connection: schema.migration_script(connection, self._address), schema.TIMEOUT
        )

    async def close(self) -> None:
        if self._closed:
            return
        await self._events.close()
        self._closed = True
        self._announced.close()
        self._wakeup.stop()
        await self._subscription.close()
        await self._wakeup.close()
        await self._transaction_link.close()
        await self._link.close()

    async def layout(self) -> Layout:
        self._check_open()
        found = await self._link.use(
            lambda connection: schema.current_layout(connection, self._address), schema.TIMEOUT
        )
        return Layout(found, schema.KNOWN)

    async def examine(self) -> list[Fact]:
        await self._subscription.open()
        await self._ready()
        [[beats, leases]] = await self._rows("clock_skew", self._now())
        return [*await health.examine(self._link, is_live=self._subscription.is_live), clock_fact(beats, leases)]

    # Producers.

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if not jobs:
            self._check_open()
            return []
        check_first_steps(jobs)
        if any(job.unique_raises or job.after for job in jobs):
            return await self._enqueue(jobs)
        return await self._joiner.enqueue(jobs)

    async def _enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if len(jobs) == 1 and jobs[0].plain:
            try:
                await self._fetch(single.ENQUEUE, self._now(), *single.values(jobs[0]))
            except DuplicateKey:
                pass
            else:
                return [Enqueued(jobs[0].id, State.WAITING)]
        special = is_special(jobs)
        payloads = [job.payload for job in jobs]
        starts = any(job.step for job in jobs)
        if not special and not starts and are_alike(jobs):
            with suppress(DuplicateKey):
                ids = [job.id for job in jobs]
                await self._rows("enqueue_alike", self._now(), dumps(new_fields(jobs[0])), ids, payloads)
                return [Enqueued(id_, State.WAITING) for id_ in ids]
        values = (self._now(), dumps([new_fields(job) for job in jobs]), payloads)
        if not special:
            with suppress(DuplicateKey):
                await self._rows("enqueue_starts" if starts else "enqueue_new", *values)
                return [Enqueued(job.id, State.WAITING) for job in jobs]
        try:
            answers = await self._rows("enqueue_jobs", *values, special)
        except Refusal as refusal:
            raise settling.refusal(_loads(refusal.detail)) from None
        return enqueued(jobs, answers)

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
            while taken < limit and (entries := await self._rows("peek", queue, min(limit - taken, PEEK))):
                read = [inbox.read(queue, entry, entry_limit, raw.get(queue)) for _, entry in entries]
                # Fewer than were read if another caller took some meanwhile.
                taken += await self._value(
                    "take_in",
                    self._now(),
                    [number for number, _ in entries],
                    dumps([new_fields(job) for job, _ in read]),
                    [job.payload for job, _ in read],
                    [encode_error(error) for _, error in read],
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

    def getting(self, ids: Sequence[str]) -> Work[list[JobRecord | None]]:
        assert self._caller_work is not None, "not open"
        return self._caller_work.getting(ids)

    async def begin(self, *, writes: bool = True, timeout: float | None = None) -> OwnTransaction:  # noqa: ARG002
        await self._ready()
        return await JobsTransaction.begin(self._transaction_link, writes=writes)

    async def lease_status(self, lease: Lease) -> LeaseStatus:
        token = lease.token
        return LeaseStatus(await self._value("lease_status", lease.job.id, token.fence, token.nonce))

    # Workers.

    async def lease(self, request: LeaseRequest) -> Leased:
        if not request.queues:
            self._check_open()
            return Leased([])
        return _leased(request, await self._rows("lease_work", *self._request(request)))

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        if not settlements:
            self._check_open()
            return []
        try:
            answers = await self._value("settle_all", self._now(), *settling.settle_all_arguments(settlements))
        except DuplicateKey:
            arguments = settling.settle_arguments(settlements, known=True)
            return settling.verdicts(settlements, await self._value("settle", self._now(), *arguments))
        return settling.verdicts(settlements, await self._settle_again(settlements, answers))

    async def _settle_again(self, settlements: Sequence[Settlement], answers: list[str] | None) -> list[str] | None:
        """Settle again, as JSON, what `settle_all` could not settle with the others. Returns the answers on all."""
        if answers is None or settling.AGAIN not in answers:
            return answers
        again = [at for at, verdict in enumerate(answers) if verdict == settling.AGAIN]
        arguments = settling.settle_arguments([settlements[at] for at in again], known=True)
        verdicts = await self._value("settle", self._now(), *arguments) or ["ok"] * len(again)
        for at, verdict in zip(again, verdicts, strict=True):
            answers[at] = verdict
        return answers

    async def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        if not request.queues or not settlements:
            return await self.settle(settlements), await self.lease(request)
        values = (*self._request(request), self._now(), *settling.settle_all_arguments(settlements))
        try:
            rows = await self._fetch(_SETTLE_AND_LEASE, *values)
        except DuplicateKey:
            return await self.settle(settlements), await self.lease(request)
        answers: list[str] | None = rows[-1]["verdicts"]
        leased = await self.lease(request) if answers and settling.LOST in answers else _leased(request, rows)
        return settling.verdicts(settlements, await self._settle_again(settlements, answers)), leased

    def _request(self, request: LeaseRequest) -> tuple[object, ...]:
        queues = list(dict.fromkeys(request.queues))
        who = (request.worker, request.ttl, request.nonce, request.solo)
        tasks = (request.isolated or None, request.skip_tasks or None)
        return self._now(), queues, request.limit, *who, *tasks, request.at_most

    async def leases_of(self, request: LeaseRequest) -> list[Lease]:
        rows = await self._fetch(reading.LEASES, self._now(), request.nonce)
        return [request.given(record(row, row["now"]), row["n"]) for row in rows]

    async def renew(self, renewals: Sequence[Renewal]) -> list[AbortReason | Unchanged | None]:
        answers = await self._renew(renewals)
        if locked := [at for at, what in enumerate(answers) if what == LOCKED]:
            # Most likely by a short operation; else by a transaction that may settle it, and then it cannot be taken meanwhile.
            await asyncio.sleep(LOCKED_FOR)
            for at, what in zip(locked, await self._renew([renewals[at] for at in locked]), strict=True):
                answers[at] = what
        return [None if what is None else ABORT_REASONS.get(what, AbortReason.TAKEN) for what in answers]

    async def _renew(self, renewals: Sequence[Renewal]) -> list[str | None]:
        """The answer of `renew` for each: None if its token is current, else the state of its job."""
        leases = [renewal.lease for renewal in renewals]
        answers: list[str | None] | None = await self._value(
            "renew",
            self._now(),
            [lease.number for lease in leases],
            [lease.job.id for lease in leases],
            [lease.token.fence for lease in leases],
            [lease.token.nonce for lease in leases],
            [renewal.ttl for renewal in renewals],
            [None if renewal.progress is None else dumps(renewal.progress) for renewal in renewals],
        )
        return [None] * len(renewals) if answers is None else answers

    async def reap(self, queues: Sequence[str], limit: int = BATCH) -> list[Reaped]:
        return _reaped(await self._rows("reap", self._now(), list(dict.fromkeys(queues)), limit))

    async def busy_queues(self, patterns: Sequence[str]) -> BusyQueues:
        served = [entry for entry in patterns if not entry.startswith("!")]
        prefixes, expressions = [*map(literal_prefix, served)], [*map(regex, served)]
        excluded = regexes(patterns)[1]
        rows = (
            await self._rows("busy_queues", self._now(), prefixes, expressions, excluded, NAMED, AHEAD)
            if served
            else ()
        )
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
            "register_worker",
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
            worker.release,
        )

    async def beat(self, worker_id: str, pulse: Pulse) -> Order | None:
        order = await self._value("beat_worker", self._now(), worker_id, dumps(pulse))
        return None if order is None else Order(order)

    async def order(self, worker_id: str, order: Order) -> bool:
        return bool(await self._value("order_worker", *_ids([worker_id]), order))

    async def leave(self, worker_id: str) -> None:
        await self._value("leave", worker_id)

    async def retire(self, worker_id: str, limit: int = BATCH, reason: str | None = None) -> list[Reaped]:
        return _reaped(await self._rows("retire", self._now(), worker_id, limit, kept_reason(reason)))

    async def forget(self, silences: Mapping[str, float]) -> list[str]:
        gone: list[str] = await self._value("forget", self._now(), list(silences), list(silences.values()))
        return gone

    async def claim_chore(self, chore: str, interval: float) -> bool:
        return bool(await self._value("claim_chore", self._now(), chore, interval))

    async def workers(self) -> list[WorkerInfo]:
        return [reading.worker_info(*row) for row in await self._rows("registered_workers", self._now())]

    # Operators.

    async def cancel(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operator_verdicts(await self._value("cancel", self._now(), _ids(ids)))

    async def complete(self, job_id: str, transition: Finish) -> Verdict:
        payloads: list[bytes] = []
        finish = settling.finish_json(transition, payloads, known=True)
        answer = await self._value(
            "complete_with", self._now(), *_ids([job_id]), encode_result(transition.result), finish, payloads
        )
        return settling.completion_verdict(answer)

    async def retry(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operator_verdicts(await self._value("retry", self._now(), _ids(ids)))

    async def trigger(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operator_verdicts(await self._value("trigger", self._now(), _ids(ids)), NOT_SCHEDULED)

    async def release(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operator_verdicts(await self._value("release", self._now(), _ids(ids)), NOT_RUNNING)

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
            [(went, after)] = await self._rows("prune_from", self._now(), limit - pruned, *values)
            await self._value("forget_queues", self._now(), begun_at, after, QUIET)
            pruned += went
            self._pruned_to = after or ""
            if after is None or pruned >= limit:
                break
        await self._vacuum.run_if_due()
        return pruned

    # Schedules.

    async def schedules(self, search: ScheduleSearch) -> SchedulePage:
        return schedules.schedule_page(
            await self._fetch(schedules.FIND, self._now(), *schedules.search_arguments(search))
        )

    async def put_schedules(self, puts: Sequence[SchedulePut]) -> list[bool]:
        written: list[bool] = await self._value("put_schedules", self._now(), *schedules.put_arguments(puts))
        return written

    async def confirm_schedules(self, names: Sequence[str]) -> list[bool]:
        known: list[bool] = await self._value("confirm_schedules", self._now(), schedules.valid_names(names))
        return known

    async def fire(self, firings: Sequence[Firing]) -> list[tuple[TickRecord, ...] | None]:
        if not firings:
            self._check_open()
            return []
        check_first_steps([job for firing in firings for _, job in firing.jobs])
        answers = await self._rows("fire", self._now(), *schedules.fire_arguments(firings))
        return schedules.fired(firings, answers)

    # Measures.

    async def record_history(self, writes: Sequence[HistoryWrite]) -> None:
        if not writes:
            self._check_open()
            return
        await self._value("record_history", self._now(), *history.record_arguments(writes))

    async def history(self, search: HistorySearch) -> list[HistoryRow]:
        rows = await self._rows("find_history", self._now(), *history.search_arguments(search))
        return [history.history_row(*row) for row in rows]

    async def mark(self, label: str) -> None:
        await self._value("add_mark", self._now(), *history.mark_arguments(label))

    async def marks(self, since: float = 0.0) -> list[Mark]:
        return [history.mark_of(*row) for row in await self._rows("find_marks", *history.marks_arguments(since))]

    # The audit.

    async def note_actions(self, actions: Sequence[Action]) -> None:
        if not actions:
            self._check_open()
            return
        await self._value("note_actions", self._now(), *audit.note_arguments(actions))

    async def actions(self, limit: int = 50, cursor: str | None = None) -> ActionPage:
        rows = await self._rows("find_actions", self._now(), *audit.find_arguments(limit, cursor))
        return audit.action_page(rows, limit)

    # Readers.

    async def get(self, ids: Sequence[str]) -> list[JobRecord | None]:
        if not ids:
            self._check_open()
            return []
        rows = await self._fetch(reading.GET, self._now(), _ids(ids))
        found = {job.id: job for row in rows if (job := record_with_attempts(row, row["now"]))}
        return [found.get(id_) for id_ in ids]

    async def search(self, search: Search) -> Page:
        statement = reading.SEARCH if search.brief is None else reading.SEARCH_SHORTENED
        rows = await self._fetch(statement, self._now(), *reading.search_arguments(search))
        return reading.page(rows, search.brief)

    async def run(self, run_id: str) -> RunRecord | None:
        rows = await self._fetch(runs.RUN, self._now(), *_ids([run_id]))
        return runs.run_record(rows[0]) if rows and rows[0]["id"] is not None else None

    async def runs(self, search: RunSearch) -> RunPage:
        name, value = search.lookup or (None, None)
        values = (search.flow, name, value, search.state, search.limit, runs.decode_cursor(search.cursor))
        return runs.run_page(await self._fetch(runs.RUNS, self._now(), *values))

    async def steps(self, run_id: str, limit: int = 50, cursor: str | None = None) -> Page:
        values = (*_ids([run_id]), limit, runs.decode_cursor(cursor))
        return runs.steps_page(await self._fetch(runs.STEPS, self._now(), *values))

    async def attributes(self, run_id: str, names: Sequence[str] | None = None) -> dict[str, str]:
        asked = None if names is None else _ids(names)
        return dict(await self._rows("get_attributes", *_ids([run_id]), asked))

    async def ids(self, prefix: str, limit: int) -> list[str]:
        return [row[0] for row in await self._fetch(reading.IDS, prefix, f"{prefix}{reading.LAST}", limit)]

    async def blockers(self, job_id: str, limit: int = 50) -> list[str]:
        return [row[0] for row in await self._rows("get_blockers", *_ids([job_id]), limit)]

    async def edges(self, job_id: str, limit: int = 200) -> list[EdgeInfo]:
        return [EdgeInfo(*row) for row in await self._rows("get_edges", *_ids([job_id]), limit)]

    async def queues(self, after: str = "", limit: int | None = None) -> list[QueueInfo]:
        # No name has a NUL, so those after "a\0b" are those after "a".
        values = (self._now(), after.partition("\0")[0], limit, PRIORITIES)
        return [reading.queue_info(*row) for row in await self._rows("find_queues", *values)]

    async def wait(self, ids: Sequence[str]) -> dict[str, JobRecord | None]:
        await self._listen()
        rows = await self._fetch(reading.WATCH, _ids(ids), self._channel)
        found = {row["asked"]: None if row["id"] is None else record(row, 0.0) for row in rows}
        return {id_: found.get(id_) for id_ in ids if id_ not in found or found[id_] is not None}

    @property
    def announcement_epoch(self) -> int:
        return self._subscription.epoch if self._subscription.is_live else 0

    async def announcements(self) -> AsyncIterator[Announcement]:
        await self._listen()
        async for announcement in self._announced.read():
            yield announcement

    async def _listen(self) -> None:
        """Open the channel of this object, so that announcements from now on arrive."""
        await self._ready()
        await self._subscription.open()

    async def watched(self) -> bool:
        return bool(await self._value("is_watched"))

    async def publish(self, messages: Sequence[str]) -> None:
        self._check_open()
        await self._events.publish(messages)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[str]]:
        if self._address.pooled:
            raise StoreError(
                "notifications do not pass a pooler: watch with the URL of the server itself, without pooled=true"
            )
        await self._ready()
        async with self._events.watch() as messages:
            yield messages

    def _on_reports(self, reports: Sequence[str]) -> None:
        """Pass on what an operation reported about jobs that its call did not name."""
        if self.on_consequences is not None:
            self.on_consequences(
                [Consequence(*change) for report in reports for change in _decode_consequences(report)]
            )

    def _on_message(self, payload: str) -> None:
        kind, _, rest = payload.partition(" ")
        if kind == KIND:
            self._events.receive(rest)
        elif kind == WORK and rest != "-1":
            self._wakeup.wake(rest)
        else:
            self._announced.put((Announcement(AnnouncementKind(kind), "" if kind == WORK else rest),))

    # Statements.

    async def _rows(self, name: str, *values: object) -> list[Any]:
        """Call an operation and return its rows."""
        return await self._fetch(_statement(name, len(values)), *values)

    async def _value(self, name: str, *values: object) -> Any:
        """Call an operation that returns one value."""
        [[value]] = await self._rows(name, *values)
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
def _statement(name: str, values: int) -> str:
    parameters = ", ".join(f"${number}" for number in range(1, values + 1))
    return f"SELECT * FROM {{schema}}.{name}({parameters})"


def _ids(ids: Sequence[str]) -> list[str]:
    """Ids without NUL, which PostgreSQL refuses. An id with one becomes empty, which is no job's id either."""
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
