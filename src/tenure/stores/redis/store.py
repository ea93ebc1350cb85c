"""Implements the store on Redis or Valkey, for workers on many machines."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import msgspec

from tenure.core import inbox
from tenure.core.clock import Clock
from tenure.core.inbox import ENTRY_LIMIT, NO_RAW
from tenure.core.job import JobRecord, NewJob
from tenure.core.lease import AbortReason, Lease
from tenure.core.lifecycle import Finish, kept_reason
from tenure.core.measures import MARKS, HistoryRow, HistorySearch, HistoryWrite, Mark
from tenure.core.options import Retention
from tenure.core.patterns import expand, has_patterns, literal_prefix, serves
from tenure.core.schedule import Firing, SchedulePage, SchedulePut, ScheduleSearch, TickRecord
from tenure.errors import HasDependents, LayoutTooNew, StoreError, StoreUnavailable
from tenure.stores.base import BATCH, NAMED, QUIET, Store, busy_queues_of
from tenure.stores.joining import Joiner
from tenure.stores.redis import audit, enqueueing, event_channel, health, measures, reading, schedules, settling
from tenure.stores.redis.address import Address
from tenure.stores.redis.encoding import ScriptArg, lua_expressions, new_job_args, nonce_text, token_bytes
from tenure.stores.redis.keys import Keys, acl_rules
from tenure.stores.redis.link import Link
from tenure.stores.redis.pool import FORBIDDEN, Forbidden
from tenure.stores.redis.records import (
    decode_job,
    decode_job_with_history,
    decode_lease,
    error_text,
    id_of,
    ref_of,
    ref_patterns,
)
from tenure.stores.redis.scripts import scripts
from tenure.stores.redis.subscription import Subscription
from tenure.stores.values import (
    PRIORITIES,
    Action,
    ActionPage,
    Announcement,
    BusyQueues,
    EdgeInfo,
    Enqueued,
    Fact,
    Layout,
    Leased,
    LeaseRequest,
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
    Verdict,
    WorkerInfo,
    clock_fact,
)

__all__ = ["RedisStore"]

LAYOUT = 3
"""The newest version of the stored layout (`keys.py`, `records.py`) that this Tenure knows."""

ABORT_REASONS = {-1: AbortReason.NOT_FOUND, 5: AbortReason.CANCELLED, 3: AbortReason.COMPLETED, 4: AbortReason.COMPLETED, 6: AbortReason.COMPLETED}  # fmt: skip
"""Why a worker must abort a job whose lease it could not renew, by the job's state; `TAKEN` for any other state."""

PRUNE_PAGES = 100
"""Most pages, of about fifty queues each, that one call of `prune` looks at."""

MAX_LOOKS = 40
"""Most further looks of one call of `busy_queues`, at a hundred due queues each."""

ENOUGH_OVERDUE = 100
"""Overdue queues at which `busy_queues` stops looking: they are to be reaped first."""

QUEUES_PAGE = 40
"""Queues that one script describes, at most."""

INBOX_PAGE = 100
"""Inbox entries that are read together."""

_dumps = msgspec.json.Encoder().encode


class RedisStore(Store):
    """Stores jobs in one namespace of a Redis or Valkey server, cluster or sentinel group.

    Each change of a job is one atomic script.
    """

    def __init__(self, address: Address, *, clock: Clock | None = None) -> None:
        """`clock` replaces the server's clock, for tests."""
        self._address = address
        self._keys = Keys(address.namespace)
        self._link = Link(address, self._keys.fixed)
        self._clock = clock
        self._opened = False
        self._closed = False
        self._pruned_to = "0"
        """Cursor among the queues at which the next `prune` continues."""

        self._joiner = Joiner(self._enqueue)
        self._channel = secrets.token_hex(8)
        self._subscription = Subscription(self._link, self._keys.channel(self._channel), reading.decode_announcement)
        self._watching: set[Subscription[str]] = set()

    @classmethod
    def from_url(cls, url: str) -> RedisStore:
        """The store of a `redis://` URL or one of the other `SCHEMES`; `address.py` parses it."""
        return cls(Address.from_url(url))

    # Opening and closing.

    async def open(self) -> None:
        self._check(await self._link.run_script(scripts["open"], self._args(LAYOUT)))

    def _check(self, reply: Sequence[Any]) -> None:
        """Refuse a server that does not give this user enough rights, has a newer layout, or may evict jobs."""
        layout, policy, refused = reply
        if layout is None:
            raise Forbidden(
                f"Redis refused: NOPERM the user {self._address.user or 'default'!r} of {self._address} may not use "
                f"{', '.join(sorted(command.decode() for command in refused))}, so nothing was done: give it the rights of "
                f"docs/redis.md, by ACL SETUSER {self._address.user or 'default'} {acl_rules(self._address.namespace)}"
            )
        if int(layout) > LAYOUT:
            raise LayoutTooNew(int(layout), LAYOUT, f"the namespace {self._address.namespace!r} at {self._address}")
        if policy not in {None, b"noeviction"} and not self._address.any_eviction:
            raise StoreError(
                f"Redis at {self._address} evicts data when its memory is full (maxmemory-policy {policy.decode()}), jobs "
                "too: set the policy to noeviction, or say any_eviction=true in the URL"
            )
        self._opened = True

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._subscription.close()
        for subscription in tuple(self._watching):
            await subscription.close()
        await self._link.close()

    async def layout(self) -> Layout:
        self._check_open()
        found = await self._link.command("HGET", self._keys.meta, "layout")
        return Layout(None if found is None else int(found), LAYOUT)

    async def examine(self) -> list[Fact]:
        cursor: ScriptArg = "0"
        beats = leases = 0
        while True:
            more_beats, more_leases, cursor = await self._run_script("future_times", (cursor,))
            beats, leases = beats + more_beats, leases + more_leases
            if cursor == b"0":
                break
        return [*await health.examine(self._link), clock_fact(beats, leases)]

    async def mend(self, *, dry_run: bool = False) -> int:
        parts = [("jobs", ""), *(("queue", name) for name in sorted(await self._queue_names()))]
        others = ("records", "ready_at", "edges", "uniques", "kept", "holding", "schedules", "schedule_names", "ticks")
        parts += [(part, "") for part in others]
        found = 0
        for part, name in parts:
            cursor: ScriptArg = b"0"
            while True:
                cursor, number = await self._run_script("mend", (int(not dry_run), part, name, cursor))
                found += number
                if cursor == b"0":
                    break
        return found

    # Producers.

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if not jobs:
            self._check_open()
            return []
        if any(job.unique_raises or job.after or (job.step is not None and job.step.needs) for job in jobs):
            return await self._enqueue(jobs)
        return await self._joiner.enqueue(jobs)

    async def _enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return enqueueing.results(jobs, await self._run_script("enqueue", enqueueing.args(jobs)))

    def enqueue_now(self, jobs: Sequence[NewJob]) -> list[Enqueued] | None:
        self._check_open()
        if self.on_consequences is not None and any(job.after for job in jobs):
            return None  # a blocker may have failed, and consequences must be reported on the loop
        if not self._opened:
            self._check(self._link.run_script_now(scripts["open"], self._args(LAYOUT)))
        try:
            reply = self._link.run_script_now(scripts["enqueue"], self._args(*enqueueing.args(jobs)))
        except FORBIDDEN:
            self._opened = False  # so that rights are probed before anything else is sent
            raise
        return enqueueing.results(jobs, reading.split_reply(reply)[0])

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
            while taken < limit and (entries := await self._inbox_page(queue, min(limit - taken, INBOX_PAGE))):
                args: list[ScriptArg] = [queue, len(entries)]
                for entry in entries:
                    new, error = inbox.read(queue, entry, entry_limit, raw.get(queue))
                    args += (entry, error_text(error) or "", *new_job_args(new))
                # Fewer than were read if another worker was faster.
                taken += await self._run_script("take_in", args)
        return taken

    async def _inbox_page(self, queue: str, number: int) -> list[bytes]:
        self._check_open()
        found: list[bytes] = await self._link.command("LRANGE", self._keys.inbox(queue), 0, number - 1)
        return found

    # Workers.

    async def lease(self, request: LeaseRequest) -> Leased:
        if not request.queues:
            self._check_open()
            return Leased([])
        return _leased(request, await self._run_script("lease", _request(request)))

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        if not settlements:
            self._check_open()
            return []
        return settling.verdicts(settlements, await self._run_script("settle", settling.args(settlements)))

    async def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        if not request.queues:
            return await self.settle(settlements), Leased([])
        args = settling.args(settlements) + _request(request)
        verdicts, reply = await self._run_script("settle_and_lease", args)
        return settling.verdicts(settlements, verdicts), _leased(request, reply)

    async def leases_of(self, request: LeaseRequest) -> list[Lease]:
        found = await self._run_script("leases_of", (nonce_text(request.nonce),))
        return [request.given(job) for reply in found if (job := decode_job(reply)) is not None]

    async def renew(self, renewals: Sequence[Renewal]) -> list[AbortReason | None]:
        args: list[ScriptArg] = [len(renewals)]
        for renewal in renewals:
            job, ttl, progress = renewal.lease.job, renewal.ttl, renewal.progress
            args += (ref_of(job.id), token_bytes(renewal.lease.token), job.queue)
            args += ("" if ttl is None else repr(ttl), b"" if progress is None else _dumps(progress))
        states = await self._run_script("renew", args)
        return [None if state is None else ABORT_REASONS.get(state, AbortReason.TAKEN) for state in states]

    async def reap(self, queues: Sequence[str], limit: int = BATCH) -> list[Reaped]:
        return _reaped(await self._run_script("reap", (limit, *dict.fromkeys(queues))))

    async def busy_queues(self, patterns: Sequence[str]) -> BusyQueues:
        reply, soon, overdue, turn, passed, before = await self._run_script("busy_queues", (NAMED, 0, ""))
        # A lease that ended long ago stays in the index until it is looked at: thousands of them after a burst over as
        # many queues.
        for _ in range(MAX_LOOKS):
            if passed is None or len(overdue) >= ENOUGH_OVERDUE:
                break
            _, more_soon, more_overdue, more_turn, passed, _ = await self._run_script(
                "busy_queues", (0, passed, before)
            )
            soon, overdue, turn = soon + more_soon, overdue + more_overdue, turn or more_turn
        if turn:
            await self._run_script("survey", ())
        ready, names = _decoded(reply), _decoded(soon)
        if len(ready) < NAMED:
            names += ready
        else:
            for pattern in patterns:
                if has_patterns([pattern]) and not pattern.startswith("!"):
                    names += await self._ready(pattern, patterns, ready)
        return busy_queues_of(patterns, names, _decoded(overdue))

    async def _ready(self, pattern: str, patterns: Sequence[str], first: list[str]) -> list[str]:
        """The ready queues that one pattern of a list serves, by name; stops once it has found `NAMED`.

        `first` is the first page of the index, which the caller has read already.
        """
        prefix = literal_prefix(pattern)
        found: list[str] = []
        page = first if not prefix else await self._ready_page(f"[{prefix}", prefix)
        while True:
            found += [name for name in page if fnmatchcase(name, pattern) and serves(patterns, name)]
            if len(found) >= NAMED or len(page) < NAMED:
                return found
            page = await self._ready_page(f"({page[-1]}", prefix)

    async def _ready_page(self, after: str, prefix: str) -> list[str]:
        last = f"[{prefix}\xff".encode("latin-1")
        return _decoded(await self._link.command("ZRANGEBYLEX", self._keys.ready, after, last, "LIMIT", 0, NAMED))

    async def nudge(self, workers: Sequence[str]) -> None:
        await self._run_script("nudge", workers)

    async def wait_for_work(
        self,
        patterns: Sequence[str],
        timeout: float,
        *,
        skip_tasks: tuple[str, ...] = (),  # noqa: ARG002
    ) -> str | None:
        self._check_open()
        if not has_patterns(patterns):
            keys = [*map(self._keys.marker, expand(patterns, ()))] or [self._keys.calls("")]
            await self._link.pop(keys, timeout)
            return None
        listed = ",".join(patterns)
        queue = await self._run_script("listen", (listed, lua_expressions(patterns)))
        if queue is None:
            queue = await self._link.pop([self._keys.calls(listed)], timeout)
        return None if queue is None else bytes(queue).decode(errors="replace")

    # The registry.

    async def register(self, worker: WorkerInfo) -> None:
        await self._listen()
        await self._run_script("register", (worker.id, _dumps(worker), self._channel))

    async def beat(self, worker_id: str, pulse: Pulse) -> Order | None:
        found = await self._run_script("beat", (worker_id, _dumps(pulse)))
        return None if found is None else Order(found.decode() or Order.GO_ON)

    async def order(self, worker_id: str, order: Order) -> bool:
        return bool(await self._run_script("order", (worker_id, order.value)))

    async def leave(self, worker_id: str) -> None:
        await self._run_script("leave", (worker_id,))

    async def retire(self, worker_id: str, limit: int = BATCH, reason: str | None = None) -> list[Reaped]:
        return _reaped(await self._run_script("retire", (worker_id, limit, kept_reason(reason))))

    async def forget(self, silences: Mapping[str, float]) -> list[str]:
        args: list[ScriptArg] = [arg for worker, silence in silences.items() for arg in (worker, repr(silence))]
        return [worker.decode() for worker in await self._run_script("forget", args)]

    async def claim_chore(self, chore: str, interval: float) -> bool:
        return bool(await self._run_script("claim_chore", (chore, repr(interval))))

    async def workers(self) -> list[WorkerInfo]:
        return [reading.worker_info(*reply) for reply in await self._run_script("workers", ())]

    # Operators.

    async def cancel(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operator_verdicts(await self._run_script("cancel", [ref_of(id_) for id_ in ids]))

    async def complete(self, job_id: str, transition: Finish) -> Verdict:
        return settling.completion_verdict(
            transition, await self._run_script("complete", settling.completion_args(job_id, transition))
        )

    async def retry(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operator_verdicts(await self._run_script("retry", [ref_of(id_) for id_ in ids]))

    async def trigger(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operator_verdicts(await self._run_script("trigger", [ref_of(id_) for id_ in ids]))

    async def release(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operator_verdicts(await self._run_script("release", [ref_of(id_) for id_ in ids]))

    async def delete(self, ids: Sequence[str], *, cascade: bool = False) -> list[str]:
        gone, *refusal = await self._run_script("delete", (int(cascade), *map(ref_of, ids)))
        if refusal:
            blocker, dependents = refusal
            raise HasDependents(id_of(blocker), map(id_of, dependents))
        return [id_of(ref) for ref in gone]

    async def pause(self, queue: str) -> bool:
        return bool(await self._run_script("pause", (queue,)))

    async def resume(self, queue: str) -> bool:
        return bool(await self._run_script("resume", (queue,)))

    async def purge(self, queue: str, limit: int = BATCH) -> int:
        purged: int = await self._run_script("purge", (queue, limit))
        return purged

    async def prune(self, default: Retention, queues: Mapping[str, Retention], limit: int = BATCH) -> int:
        args: list[ScriptArg] = [*_retention(default)]
        for queue, retention in queues.items():
            args += (queue, *_retention(retention))
        pruned = 0
        for _ in range(PRUNE_PAGES):
            more = 1
            while more and pruned < limit:
                went, more, cursor = await self._run_script(
                    "prune", (self._pruned_to, limit - pruned, repr(QUIET), *args)
                )
                pruned += went
                self._pruned_to = cursor.decode()
            if pruned >= limit or self._pruned_to == "0":
                break
        return pruned

    # Readers.

    async def get(self, ids: Sequence[str]) -> list[JobRecord | None]:
        reply, histories = await self._run_script("get", [ref_of(id_) for id_ in ids])
        return list(map(decode_job_with_history, reply, histories))

    async def search(self, search: Search) -> Page:
        return reading.page(search, await self._run_script("search", reading.search_args(search)))

    async def run(self, run_id: str) -> RunRecord | None:
        reply = await self._run_script("run", (ref_of(run_id),))
        return None if reply is None else reading.run_record(*reply)

    async def runs(self, search: RunSearch) -> RunPage:
        return reading.run_page(await self._run_script("runs", reading.runs_args(search)))

    async def steps(self, run_id: str, limit: int = 50, cursor: str | None = None) -> Page:
        return reading.steps_page(await self._run_script("steps", reading.steps_args(run_id, limit, cursor)))

    async def attributes(self, run_id: str, names: Sequence[str] | None = None) -> dict[str, str]:
        self._check_open()
        key = self._keys.attributes(ref_of(run_id))
        if names is None:
            return reading.attributes(await self._link.command("HGETALL", key))
        found = await self._link.command("HMGET", key, *names) if names else ()
        return reading.attributes([text for pair in zip(names, found, strict=True) for text in pair])

    async def ids(self, prefix: str, limit: int) -> list[str]:
        found: dict[str, None] = {}  # a scan may return a job twice
        args = ref_patterns(prefix)
        cursor: ScriptArg = "0"
        while True:
            cursor, refs = await self._run_script("ids", (cursor, *args))
            found |= dict.fromkeys(map(id_of, refs))
            if len(found) >= limit or int(cursor) == 0:
                return list(found)[:limit]

    async def blockers(self, job_id: str, limit: int = 50) -> list[str]:
        return [id_of(ref) for ref in await self._run_script("blockers", (ref_of(job_id), limit))]

    async def edges(self, job_id: str, limit: int = 200) -> list[EdgeInfo]:
        return reading.edges(await self._run_script("edges", (ref_of(job_id), limit)))

    async def queues(self, after: str = "", limit: int | None = None) -> list[QueueInfo]:
        names = sorted(name for name in await self._queue_names() if name > after)[:limit]
        found: list[QueueInfo] = []
        while names:
            page = await self._run_script("queues", (PRIORITIES, *names[:QUEUES_PAGE]))
            found += [reading.queue_info(*reply) for reply in page if reply is not None]
            names = names[len(page) :]
        return found

    async def _queue_names(self) -> set[str]:
        found: set[str] = set()
        cursor = b"0"
        while True:
            cursor, page = await self._run_script("queue_names", (cursor,))
            found.update(_decoded(page))
            if cursor == b"0":
                return found

    async def wait(self, ids: Sequence[str]) -> dict[str, JobRecord | None]:
        await self._listen()
        reply = await self._run_script("wait", (self._channel, *map(ref_of, ids)))
        return {id_: decode_job(each) for id_, each in zip(ids, reply, strict=True) if each != 0}

    @property
    def announcement_epoch(self) -> int:
        return self._subscription.epoch

    async def announcements(self) -> AsyncIterator[Announcement]:
        await self._listen()
        async for announcement in self._subscription.messages():
            yield announcement

    async def _listen(self) -> None:
        """Subscribe to this object's channel, so that announcements from now on are received."""
        self._check_open()
        await self._subscription.listen()

    # Schedules.

    async def schedules(self, search: ScheduleSearch) -> SchedulePage:
        return schedules.page(await self._run_script("schedules", schedules.search_args(search)))

    async def put_schedules(self, puts: Sequence[SchedulePut]) -> list[bool]:
        if not puts:
            self._check_open()
            return []
        return [*map(bool, await self._run_script("put_schedules", schedules.put_args(puts)))]

    async def confirm_schedules(self, names: Sequence[str]) -> list[bool]:
        if not names:
            self._check_open()
            return []
        return [*map(bool, await self._run_script("confirm_schedules", names))]

    async def fire(self, firings: Sequence[Firing]) -> list[tuple[TickRecord, ...] | None]:
        if not firings:
            self._check_open()
            return []
        return schedules.fired_ticks(await self._run_script("fire", schedules.fire_args(firings)))

    # Measures.

    async def record_history(self, writes: Sequence[HistoryWrite]) -> None:
        self._check_open()
        for args in measures.writes_args(writes):
            await self._run_script("record_history", args)

    async def history(self, search: HistorySearch) -> list[HistoryRow]:
        found: list[HistoryRow] = []
        page: bytes | None = None
        while True:
            reply, page = await self._run_script("history", measures.search_args(search, page))
            found += measures.rows(reply)
            if page is None:
                return sorted(found, key=lambda row: (row.slot, row.queue, row.task))

    async def mark(self, label: str) -> None:
        await self._run_script("mark", (label, MARKS))

    async def marks(self, since: float = 0.0) -> list[Mark]:
        self._check_open()
        return measures.marks(await self._link.command("LRANGE", self._keys.marks, 0, -1), since)

    # The audit.

    async def note_actions(self, actions: Sequence[Action]) -> None:
        await self._run_script("note_actions", audit.note_args(actions))

    async def actions(self, limit: int = 50, cursor: str | None = None) -> ActionPage:
        return audit.page(await self._run_script("actions", audit.page_args(limit, cursor)))

    # Event messages.

    async def watched(self) -> bool:
        self._check_open()
        return await event_channel.watched(self._link, self._keys.events)

    async def publish(self, events: Sequence[str]) -> None:
        self._check_open()
        await event_channel.publish(self._link, self._keys.events, events)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[str]]:
        self._check_open()
        subscription = Subscription(self._link, self._keys.events, event_channel.decode)
        self._watching.add(subscription)
        try:
            await subscription.listen()
            yield subscription.messages()
        finally:
            self._watching.discard(subscription)
            await subscription.close()

    # Scripts.

    async def _run_script(self, script: str, args: Sequence[ScriptArg]) -> Any:
        self._check_open()
        if not self._opened:
            await self.open()
        try:
            reply = await self._link.run_script(scripts[script], self._args(*args))
        except FORBIDDEN:
            self._opened = False  # so that rights are probed before anything else is sent
            raise
        answer, consequences = reading.split_reply(reply)
        if consequences and self.on_consequences is not None:
            self.on_consequences(consequences)
        return answer

    def _args(self, *args: ScriptArg) -> tuple[ScriptArg, ...]:
        return ("" if self._clock is None else repr(self._clock.wall()), *args)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"the store at {self._address} has been closed")


def _decoded(names: Sequence[bytes]) -> list[str]:
    return [name.decode() for name in names]


def _request(request: LeaseRequest) -> list[ScriptArg]:
    queues = tuple(dict.fromkeys(request.queues))
    args = (request.worker, repr(request.ttl), nonce_text(request.nonce), request.limit, int(request.solo))
    tasks = (_packed(names) if names else b"" for names in (request.isolated, request.skip_tasks))
    return [*args, *tasks, "" if request.at_most is None else repr(request.at_most), len(queues), *queues]


@lru_cache(100)
def _packed(names: tuple[str, ...]) -> bytes:
    return msgspec.msgpack.encode(names)


def _leased(request: LeaseRequest, reply: Sequence[Any]) -> Leased:
    refs, stored, records, edges, attributes, time_, suspect_waiting, due_in, something_in_inbox, left, moved = reply
    results, given, now, ttl = dict(edges), dict(attributes), float(time_), request.length(None)
    ready = dict(moved or ())
    return Leased(
        [
            decode_lease(
                ref, new, record, results.get(index, ()), given.get(index, ()), ready.get(index), request, now, ttl
            )
            for index, (ref, new, record) in enumerate(zip(refs, stored, records, strict=True))
        ],
        suspect_waiting=bool(suspect_waiting),
        due_in=None if due_in is None else float(due_in),
        inbox=bool(something_in_inbox),
        passed_over=tuple(task for task in request.skip_tasks if task.encode() in left) if left else (),
    )


def _reaped(reply: Sequence[Any]) -> list[Reaped]:
    return [
        Reaped(id_of(ref), queue.decode(), task.decode(), worker.decode(), losses, failed=bool(failed))
        for ref, queue, task, worker, losses, failed in reply
    ]


def _retention(retention: Retention) -> tuple[ScriptArg, ...]:
    return (repr(retention.succeeded), repr(retention.failed), retention.count)
