"""The store for many machines: Redis or Valkey, whose scripts are the steps."""

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
from tenure.core.options import Retention
from tenure.core.patterns import expand, has_patterns, literal_prefix, serves
from tenure.errors import HasDependents, LayoutTooNew, StoreError, StoreUnavailable
from tenure.stores.base import BATCH, NAMED, QUIET, Store, busy_queues_of
from tenure.stores.joining import Joiner
from tenure.stores.redis import enqueueing, event_channel, health, reading, settling
from tenure.stores.redis.address import Address
from tenure.stores.redis.encoding import Word, lua_expressions, new_words, nonce_word, token_word
from tenure.stores.redis.keys import Keys, rights
from tenure.stores.redis.link import Link
from tenure.stores.redis.pool import FORBIDDEN, Forbidden
from tenure.stores.redis.records import described, error_word, id_of, leased, ref_of, ref_patterns, whole
from tenure.stores.redis.scripts import scripts
from tenure.stores.redis.subscription import Subscription
from tenure.stores.values import (
    Announcement,
    BusyQueues,
    Enqueued,
    Fact,
    Layout,
    Leased,
    LeaseRequest,
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
"""The newest version of `keys.py` and `records.py` that this Tenure knows."""

REASONS = {-1: AbortReason.NOT_FOUND, 5: AbortReason.CANCELLED, 3: AbortReason.COMPLETED, 4: AbortReason.COMPLETED, 6: AbortReason.COMPLETED}  # fmt: skip
"""Why a holder must let its job go, by the state that the job is in now; in any other it is taken."""

PAGES = 100
"""Pages of fifty queues that one call prunes."""

LOOKS = 40
"""Times that one call of `busy_queues` goes on to look at a hundred queues more whose time has come, at most."""

OVERDUE = 100
"""Overdue queues after which `busy_queues` looks no further: first they are reaped."""

PEEK = 100
"""Entries of an inbox that are looked at together."""

_dumps = msgspec.json.Encoder().encode


class RedisStore(Store):
    """Jobs in one namespace of a Redis or Valkey, cluster and sentinels included. Every method is one script."""

    def __init__(self, address: Address, *, clock: Clock | None = None) -> None:
        """A store object; a clock, which tests have, takes the place of the server's."""
        self._address = address
        self._keys = Keys(address.namespace)
        self._link = Link(address, self._keys.fixed)
        self._clock = clock
        self._opened = False
        self._closed = False
        self._pruned_to = "0"
        """Where to go on pruning, among the queues."""

        self._joiner = Joiner(self._enqueue)
        self._channel = secrets.token_hex(8)
        self._subscription = Subscription(self._link, self._keys.channel(self._channel), reading.signals)
        self._watching: set[Subscription[str]] = set()

    @classmethod
    def from_url(cls, url: str) -> RedisStore:
        """The store that a `redis://` URL or one of its kin names; `address.py` says what they may hold."""
        return cls(Address.from_url(url))

    # Opening and closing.

    async def open(self) -> None:
        self._check(await self._link.run(scripts["open"], self._words(LAYOUT)))

    def _check(self, told: Sequence[Any]) -> None:
        """Refuse a store that cannot be trusted with jobs, by this Tenure or by any."""
        layout, policy, refused = told
        if layout is None:
            raise Forbidden(
                f"Redis refused: NOPERM the user {self._address.user or 'default'!r} of {self._address} may not use "
                f"{', '.join(sorted(command.decode() for command in refused))}, so nothing was done: give it the rights of "
                f"docs/redis.md, by ACL SETUSER {self._address.user or 'default'} {rights(self._address.namespace)}"
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
        at: Word = "0"
        beats = leases = 0
        while True:
            more_beats, more_leases, at = await self._run("ahead", (at,))
            beats, leases = beats + more_beats, leases + more_leases
            if at == b"0":
                break
        return [*await health.examine(self._link), clock_fact(beats, leases)]

    async def mend(self, *, dry_run: bool = False) -> int:
        parts = [("jobs", ""), *(("queue", queue.name) for queue in await self.queues())]
        parts += [(part, "") for part in ("records", "uniques", "kept", "holding")]
        found = 0
        for part, name in parts:
            cursor: Word = b"0"
            while True:
                cursor, number = await self._run("mend", (int(not dry_run), part, name, cursor))
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
        return enqueueing.answers(jobs, await self._run("enqueue", enqueueing.words(jobs)))

    def enqueue_now(self, jobs: Sequence[NewJob]) -> list[Enqueued] | None:
        self._check_open()
        if self.on_consequences is not None and any(job.after for job in jobs):
            return None  # whose blockers may have failed: that is told on the loop
        if not self._opened:
            self._check(self._link.run_now(scripts["open"], self._words(LAYOUT)))
        try:
            told = self._link.run_now(scripts["enqueue"], self._words(*enqueueing.words(jobs)))
        except FORBIDDEN:
            self._opened = False  # so that rights are probed before anything else is sent
            raise
        return enqueueing.answers(jobs, reading.answer(told)[0])

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
            while taken < limit and (entries := await self._peek(queue, min(limit - taken, PEEK))):
                words: list[Word] = [queue, len(entries)]
                for entry in entries:
                    new, error = inbox.read(queue, entry, entry_limit, raw.get(queue))
                    words += (entry, error_word(error) or "", *new_words(new))
                # Fewer than were seen if another has been quicker.
                taken += await self._run("take_in", words)
        return taken

    async def _peek(self, queue: str, number: int) -> list[bytes]:
        self._check_open()
        found: list[bytes] = await self._link.command("LRANGE", self._keys.inbox(queue), 0, number - 1)
        return found

    # Workers.

    async def lease(self, request: LeaseRequest) -> Leased:
        if not request.queues:
            self._check_open()
            return Leased([])
        return _leased(request, await self._run("lease", _request(request)))

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        if not settlements:
            self._check_open()
            return []
        return settling.verdicts(settlements, await self._run("settle", settling.words(settlements)))

    async def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        if not request.queues:
            return await self.settle(settlements), Leased([])
        words = settling.words(settlements) + _request(request)
        verdicts, told = await self._run("settle_and_lease", words)
        return settling.verdicts(settlements, verdicts), _leased(request, told)

    async def leases_of(self, request: LeaseRequest) -> list[Lease]:
        found = await self._run("held", (nonce_word(request.nonce),))
        return [request.given(job) for told in found if (job := described(told)) is not None]

    async def renew(self, renewals: Sequence[Renewal]) -> list[AbortReason | None]:
        words: list[Word] = [len(renewals)]
        for renewal in renewals:
            job, ttl, progress = renewal.lease.job, renewal.ttl, renewal.progress
            words += (ref_of(job.id), token_word(renewal.lease.token), job.queue)
            words += ("" if ttl is None else repr(ttl), b"" if progress is None else _dumps(progress))
        states = await self._run("renew", words)
        return [None if state is None else REASONS.get(state, AbortReason.TAKEN) for state in states]

    async def reap(self, queues: Sequence[str], limit: int = BATCH) -> list[Reaped]:
        return _reaped(await self._run("reap", (limit, *dict.fromkeys(queues))))

    async def busy_queues(self, patterns: Sequence[str]) -> BusyQueues:
        told, soon, overdue, turn, passed, before = await self._run("busy_queues", (NAMED, 0, ""))
        # Leases that have ended long ago are in the index until it is looked at: thousands, after a burst over as many queues.
        for _ in range(LOOKS):
            if passed is None or len(overdue) >= OVERDUE:
                break
            _, more_soon, more_overdue, more_turn, passed, _ = await self._run("busy_queues", (0, passed, before))
            soon, overdue, turn = soon + more_soon, overdue + more_overdue, turn or more_turn
        if turn:
            await self._run("survey", ())
        ready, names = _decoded(told), _decoded(soon)
        if len(ready) < NAMED:
            names += ready
        else:
            for pattern in patterns:
                if has_patterns([pattern]) and not pattern.startswith("!"):
                    names += await self._ready(pattern, patterns, ready)
        return busy_queues_of(patterns, names, _decoded(overdue))

    async def _ready(self, pattern: str, patterns: Sequence[str], first: list[str]) -> list[str]:
        """The first of the queues in the index of those that are ready that one pattern of a list serves, page by page.

        `first` is the first page of the index, which need not be asked for again.
        """
        prefix = literal_prefix(pattern)
        found: list[str] = []
        page = first if not prefix else await self._page(f"[{prefix}", prefix)
        while True:
            found += [name for name in page if fnmatchcase(name, pattern) and serves(patterns, name)]
            if len(found) >= NAMED or len(page) < NAMED:
                return found
            page = await self._page(f"({page[-1]}", prefix)

    async def _page(self, after: str, prefix: str) -> list[str]:
        last = f"[{prefix}\xff".encode("latin-1")
        return _decoded(await self._link.command("ZRANGEBYLEX", self._keys.ready, after, last, "LIMIT", 0, NAMED))

    async def nudge(self, workers: Sequence[str]) -> None:
        await self._run("nudge", workers)

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
        called = await self._run("listen", (listed, lua_expressions(patterns)))
        if called is None:
            called = await self._link.pop([self._keys.calls(listed)], timeout)
        return None if called is None else bytes(called).decode(errors="replace")

    # The registry.

    async def register(self, worker: WorkerInfo) -> None:
        await self._listen()
        await self._run("register", (worker.id, _dumps(worker), self._channel))

    async def beat(self, worker_id: str, pulse: Pulse) -> bool:
        return bool(await self._run("beat", (worker_id, _dumps(pulse))))

    async def leave(self, worker_id: str) -> None:
        await self._run("leave", (worker_id,))

    async def retire(self, worker_id: str, limit: int = BATCH, reason: str | None = None) -> list[Reaped]:
        return _reaped(await self._run("retire", (worker_id, limit, kept_reason(reason))))

    async def forget(self, silences: Mapping[str, float]) -> list[str]:
        words: list[Word] = [word for worker, silence in silences.items() for word in (worker, repr(silence))]
        return [worker.decode() for worker in await self._run("forget", words)]

    async def claim_chore(self, chore: str, interval: float) -> bool:
        return bool(await self._run("turn", (chore, repr(interval))))

    async def workers(self) -> list[WorkerInfo]:
        return [reading.worker_info(*told) for told in await self._run("workers", ())]

    # Operators.

    async def cancel(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operated(await self._run("cancel", [ref_of(id_) for id_ in ids]))

    async def complete(self, job_id: str, step: Finish) -> Verdict:
        return settling.completed(step, await self._run("complete", settling.completion_words(job_id, step)))

    async def retry(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operated(await self._run("retry", [ref_of(id_) for id_ in ids]))

    async def trigger(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operated(await self._run("trigger", [ref_of(id_) for id_ in ids]))

    async def release(self, ids: Sequence[str]) -> list[Verdict]:
        return settling.operated(await self._run("release", [ref_of(id_) for id_ in ids]))

    async def delete(self, ids: Sequence[str], *, cascade: bool = False) -> list[str]:
        gone, *refusal = await self._run("delete", (int(cascade), *map(ref_of, ids)))
        if refusal:
            blocker, dependents = refusal
            raise HasDependents(id_of(blocker), map(id_of, dependents))
        return [id_of(ref) for ref in gone]

    async def pause(self, queue: str) -> bool:
        return bool(await self._run("pause", (queue,)))

    async def resume(self, queue: str) -> bool:
        return bool(await self._run("resume", (queue,)))

    async def purge(self, queue: str, limit: int = BATCH) -> int:
        purged: int = await self._run("purge", (queue, limit))
        return purged

    async def prune(self, default: Retention, queues: Mapping[str, Retention], limit: int = BATCH) -> int:
        words: list[Word] = [*_retention(default)]
        for queue, retention in queues.items():
            words += (queue, *_retention(retention))
        pruned = 0
        for _ in range(PAGES):
            more = 1
            while more and pruned < limit:
                went, more, at = await self._run("prune", (self._pruned_to, limit - pruned, repr(QUIET), *words))
                pruned += went
                self._pruned_to = at.decode()
            if pruned >= limit or self._pruned_to == "0":
                break
        return pruned

    # Readers.

    async def get(self, ids: Sequence[str]) -> list[JobRecord | None]:
        told, histories = await self._run("get", [ref_of(id_) for id_ in ids])
        return list(map(whole, told, histories))

    async def search(self, search: Search) -> Page:
        return reading.page(await self._run("search", reading.search_words(search)))

    async def run(self, run_id: str) -> RunRecord | None:
        told = await self._run("run", (ref_of(run_id),))
        return None if told is None else reading.run_record(*told)

    async def runs(self, search: RunSearch) -> RunPage:
        return reading.run_page(await self._run("runs", reading.runs_words(search)))

    async def steps(self, run_id: str, limit: int = 50, cursor: str | None = None) -> Page:
        return reading.steps_page(await self._run("steps", reading.steps_words(run_id, limit, cursor)))

    async def attributes(self, run_id: str, names: Sequence[str] | None = None) -> dict[str, str]:
        self._check_open()
        key = self._keys.attributes(ref_of(run_id))
        if names is None:
            return reading.attributes(await self._link.command("HGETALL", key))
        found = await self._link.command("HMGET", key, *names) if names else ()
        return reading.attributes([word for pair in zip(names, found, strict=True) for word in pair])

    async def ids(self, prefix: str, limit: int) -> list[str]:
        found: dict[str, None] = {}  # a scan may come by the same job twice
        words = ref_patterns(prefix)
        cursor: Word = "0"
        while True:
            cursor, refs = await self._run("ids", (cursor, *words))
            found |= dict.fromkeys(map(id_of, refs))
            if len(found) >= limit or int(cursor) == 0:
                return list(found)[:limit]

    async def blockers(self, job_id: str, limit: int = 50) -> list[str]:
        return [id_of(ref) for ref in await self._run("blockers", (ref_of(job_id), limit))]

    async def queues(self) -> list[QueueInfo]:
        found: dict[str, QueueInfo] = {}
        at = b"0"
        while True:
            at, page = await self._run("queues", (at,))
            found |= {queue.name: queue for told in page if (queue := reading.queue_info(*told))}
            if at == b"0":
                return [found[name] for name in sorted(found)]

    async def wait(self, ids: Sequence[str]) -> dict[str, JobRecord | None]:
        await self._listen()
        told = await self._run("wait", (self._channel, *map(ref_of, ids)))
        return {id_: described(each) for id_, each in zip(ids, told, strict=True) if each != 0}

    @property
    def announcement_epoch(self) -> int:
        return self._subscription.begun

    async def announcements(self) -> AsyncIterator[Announcement]:
        await self._listen()
        async for signal in self._subscription.heard():
            yield signal

    async def _listen(self) -> None:
        """Let this object's channel be open, so that what happens from now on is heard."""
        self._check_open()
        await self._subscription.listen()

    # Telling others.

    async def watched(self) -> bool:
        self._check_open()
        return await event_channel.watched(self._link, self._keys.notes)

    async def publish(self, notes: Sequence[str]) -> None:
        self._check_open()
        await event_channel.publish(self._link, self._keys.notes, notes)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[str]]:
        self._check_open()
        subscription = Subscription(self._link, self._keys.notes, event_channel.read)
        self._watching.add(subscription)
        try:
            await subscription.listen()
            yield subscription.heard()
        finally:
            self._watching.discard(subscription)
            await subscription.close()

    # Scripts.

    async def _run(self, script: str, words: Sequence[Word]) -> Any:
        self._check_open()
        if not self._opened:
            await self.open()
        try:
            told = await self._link.run(scripts[script], self._words(*words))
        except FORBIDDEN:
            self._opened = False  # so that rights are probed before anything else is sent
            raise
        answer, consequences = reading.answer(told)
        if consequences and self.on_consequences is not None:
            self.on_consequences(consequences)
        return answer

    def _words(self, *words: Word) -> tuple[Word, ...]:
        return ("" if self._clock is None else repr(self._clock.wall()), *words)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"the store at {self._address} has been closed")


def _decoded(names: Sequence[bytes]) -> list[str]:
    return [name.decode() for name in names]


def _request(request: LeaseRequest) -> list[Word]:
    queues = tuple(dict.fromkeys(request.queues))
    words = (request.worker, repr(request.ttl), nonce_word(request.nonce), request.limit, int(request.solo))
    tasks = (_packed(names) if names else b"" for names in (request.isolated, request.skip_tasks))
    return [*words, *tasks, "" if request.at_most is None else repr(request.at_most), len(queues), *queues]


@lru_cache(100)
def _packed(names: tuple[str, ...]) -> bytes:
    return msgspec.msgpack.encode(names)


def _leased(request: LeaseRequest, told: Sequence[Any]) -> Leased:
    refs, stored, records, edges, attributes, time_, suspect_waiting, due_in, something_in_inbox, left = told
    results, given, now, ttl = dict(edges), dict(attributes), float(time_), request.length(None)
    return Leased(
        [
            leased(ref, new, record, results.get(index, ()), given.get(index, ()), request, now, ttl)
            for index, (ref, new, record) in enumerate(zip(refs, stored, records, strict=True))
        ],
        suspect_waiting=bool(suspect_waiting),
        due_in=None if due_in is None else float(due_in),
        inbox=bool(something_in_inbox),
        passed_over=tuple(task for task in request.skip_tasks if task.encode() in left) if left else (),
    )


def _reaped(told: Sequence[Any]) -> list[Reaped]:
    return [
        Reaped(id_of(ref), queue.decode(), task.decode(), worker.decode(), losses, failed=bool(failed))
        for ref, queue, task, worker, losses, failed in told
    ]


def _retention(retention: Retention) -> tuple[Word, ...]:
    return (repr(retention.succeeded), repr(retention.failed), retention.count)
