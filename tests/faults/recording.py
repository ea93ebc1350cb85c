"""A store that writes down what is asked of it and what it answers, as lines of a history."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec

from tenure.core.job import JobRecord, NewJob
from tenure.core.lease import AbortReason, Lease
from tenure.core.lifecycle import Finish, Park, Requeue, Transition
from tenure.errors import OutcomeUnknown, TenureError
from tenure.stores import open_store
from tenure.stores.base import BATCH, Store
from tenure.stores.values import (
    Enqueued,
    Leased,
    LeaseRequest,
    Reaped,
    Renewal,
    Search,
    Settlement,
    Unchanged,
    Verdict,
    VerdictKind,
)

from .history import Answer, Ask, Ended, History, Item, Line, Start, read

if TYPE_CHECKING:
    from tenure.tasks.context import Context

__all__ = ["RecordedStore", "Recorder", "history_of", "recorded", "records_of"]


class Recorder:
    """Appends lines to a file of this process, each in one write, so that a kill loses none that was written."""

    def __init__(self, folder: str | os.PathLike[str], now: Callable[[], float] = time.monotonic) -> None:
        self.process = str(os.getpid())
        self._now = now
        file = Path(folder) / f"{self.process}.history"
        self._descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._numbers = itertools.count()

    def ask(self, operation: str, items: Sequence[Item] = ()) -> int:
        number = next(self._numbers)
        self._write(Ask(self.process, number, operation, self._now(), list(items)))
        return number

    def answer(self, number: int, outcome: str, items: Sequence[Item] = ()) -> None:
        self._write(Answer(self.process, number, outcome, self._now(), list(items)))

    def start(self, held: Context | Lease) -> None:
        """Note that a function has begun; the first line of every task."""
        self._write(Start(self.process, self._now(), held.job.id, held.token.fence, held.token.nonce))

    def _write(self, line: Line) -> None:
        os.write(self._descriptor, msgspec.json.encode(line) + b"\n")


class RecordedStore:
    """A store, with every call of a producer, a worker or an operator on record."""

    def __init__(self, store: Store, recorder: Recorder) -> None:
        self._store = store
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        number = self._recorder.ask("enqueue", [_new(job) for job in jobs])
        with _Outcome(self._recorder, number) as outcome:
            answers = await self._store.enqueue(jobs)
            outcome.items = [Item(id=answer.id, duplicate=answer.duplicate) for answer in answers]
        return answers

    def enqueue_now(self, jobs: Sequence[NewJob]) -> list[Enqueued] | None:
        number = self._recorder.ask("enqueue", [_new(job) for job in jobs])
        with _Outcome(self._recorder, number) as outcome:
            answers = self._store.enqueue_now(jobs)
            if answers is None:
                outcome.word = "fail"  # it cannot: nothing was done, and another way is taken
            else:
                outcome.items = [Item(id=answer.id, duplicate=answer.duplicate) for answer in answers]
        return answers

    async def lease(self, request: LeaseRequest) -> Leased:
        with _Outcome(self._recorder, self._recorder.ask("lease")) as outcome:
            leased = await self._store.lease(request)
            outcome.items = [_held(lease) for lease in leased.leases]
        return leased

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        number = self._recorder.ask("settle", [_settled(*settlement) for settlement in settlements])
        coming = self._ask_coming(settlements)
        with _Outcome(self._recorder, number) as outcome:
            verdicts = await self._store.settle(settlements)
            outcome.items = _verdicts(settlements, verdicts)
        self._answer_coming(coming, verdicts)
        return verdicts

    async def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        settle = self._recorder.ask("settle", [_settled(*settlement) for settlement in settlements])
        coming = self._ask_coming(settlements)
        lease = self._recorder.ask("lease")
        with _Outcome(self._recorder, settle) as settled, _Outcome(self._recorder, lease) as outcome:
            verdicts, leased = await self._store.settle_and_lease(settlements, request)
            settled.items = _verdicts(settlements, verdicts)
            outcome.items = [_held(lease) for lease in leased.leases]
        self._answer_coming(coming, verdicts)
        return verdicts, leased

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[AbortReason | Unchanged | None]:
        asked = [
            Item(id=each.lease.job.id, fence=each.lease.token.fence, nonce=each.lease.token.nonce, ttl=each.ttl)
            for each in renewals
        ]
        with _Outcome(self._recorder, self._recorder.ask("renew", asked)) as outcome:
            reasons = await self._store.renew(renewals)
            outcome.items = [
                Item(id=item.id, verdict=reason or "ok") for item, reason in zip(asked, reasons, strict=True)
            ]
        return reasons

    async def reap(self, queues: Sequence[str], limit: int = BATCH) -> list[Reaped]:
        with _Outcome(self._recorder, self._recorder.ask("reap")) as outcome:
            reaped = await self._store.reap(queues, limit)
            outcome.items = [_lost(job) for job in reaped]
        return reaped

    async def retire(self, worker_id: str, limit: int = BATCH, reason: str | None = None) -> list[Reaped]:
        with _Outcome(self._recorder, self._recorder.ask("retire")) as outcome:
            reaped = await self._store.retire(worker_id, limit, reason)
            outcome.items = [_lost(job) for job in reaped]
        return reaped

    async def cancel(self, ids: Sequence[str]) -> list[Verdict]:
        with _Outcome(self._recorder, self._recorder.ask("cancel", [Item(id=id_) for id_ in ids])) as outcome:
            verdicts = await self._store.cancel(ids)
            outcome.items = [Item(id=id_, verdict=verdict.kind) for id_, verdict in zip(ids, verdicts, strict=True)]
        return verdicts

    async def complete(self, job_id: str, step: Finish) -> Verdict:
        number = self._recorder.ask("complete", [Item(id=job_id, successor=_successor(step))])
        coming = {0: self._recorder.ask("enqueue", _coming(step))} if _coming(step) else {}
        with _Outcome(self._recorder, number) as outcome:
            verdict = await self._store.complete(job_id, step)
            outcome.items = [Item(id=job_id, verdict=verdict.kind)]
        self._answer_coming(coming, [verdict])
        return verdict

    async def retry(self, ids: Sequence[str]) -> list[Verdict]:
        with _Outcome(self._recorder, self._recorder.ask("retry", [Item(id=id_) for id_ in ids])) as outcome:
            verdicts = await self._store.retry(ids)
            outcome.items = [Item(id=id_, verdict=verdict.kind) for id_, verdict in zip(ids, verdicts, strict=True)]
        return verdicts

    async def trigger(self, ids: Sequence[str]) -> list[Verdict]:
        with _Outcome(self._recorder, self._recorder.ask("trigger", [Item(id=id_) for id_ in ids])) as outcome:
            verdicts = await self._store.trigger(ids)
            outcome.items = [Item(id=id_, verdict=verdict.kind) for id_, verdict in zip(ids, verdicts, strict=True)]
        return verdicts

    async def release(self, ids: Sequence[str]) -> list[Verdict]:
        with _Outcome(self._recorder, self._recorder.ask("release", [Item(id=id_) for id_ in ids])) as outcome:
            verdicts = await self._store.release(ids)
            outcome.items = [Item(id=id_, verdict=verdict.kind) for id_, verdict in zip(ids, verdicts, strict=True)]
        return verdicts

    async def delete(self, ids: Sequence[str], *, cascade: bool = False) -> list[str]:
        with _Outcome(self._recorder, self._recorder.ask("delete", [Item(id=id_) for id_ in ids])) as outcome:
            deleted = await self._store.delete(ids, cascade=cascade)
            outcome.items = [Item(id=id_, verdict="ok" if id_ in deleted else "not_found") for id_ in ids]
        return deleted

    def _ask_coming(self, settlements: Sequence[Settlement]) -> dict[int, int]:
        return {
            n: self._recorder.ask("enqueue", coming)
            for n, (_, step) in enumerate(settlements)
            if (coming := _coming(step))
        }

    def _answer_coming(self, coming: dict[int, int], verdicts: Sequence[Verdict]) -> None:
        for n, number in coming.items():
            self._recorder.answer(number, "ok" if verdicts[n].kind is VerdictKind.OK else "fail")


class _Outcome:
    """Writes the answer of a call, whatever it is."""

    def __init__(self, recorder: Recorder, number: int) -> None:
        self._recorder = recorder
        self._number = number
        self.word = "ok"
        self.items: list[Item] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._recorder.answer(self._number, self.word, self.items)
        elif isinstance(error, TenureError) and not isinstance(error, OutcomeUnknown):
            self._recorder.answer(self._number, "fail")
        # Anything else, a cancelled wait above all, leaves the outcome unknown.


def recorded(store: Store | str, recorder: Recorder) -> Store:
    """A store, or that of a URL, on record."""
    return cast("Store", RecordedStore(open_store(store) if isinstance(store, str) else store, recorder))


async def history_of(store: Store, folder: Path) -> History:
    """Everything that the processes wrote down, and what the store holds now."""
    calls, starts = read(folder.glob("*.history"))
    return History(calls, starts, [Ended.of(record) for record in await records_of(store)])


async def records_of(store: Store) -> list[JobRecord]:
    """All jobs of a store."""
    records: list[JobRecord] = []
    cursor = None
    while True:
        page = await store.search(Search(limit=BATCH, cursor=cursor))
        records += page.jobs
        cursor = page.cursor
        if cursor is None:
            return records


def _new(job: NewJob) -> Item:
    in_line = job.delay <= 0 and job.run_at is None and not job.after
    return Item(
        id=job.id,
        queue=job.queue,
        priority=job.priority,
        in_line=in_line,
        after=job.after,
        unique=job.unique or "",
    )


def _held(lease: Lease) -> Item:
    job, token = lease.job, lease.token
    return Item(id=job.id, fence=token.fence, nonce=token.nonce, ttl=lease.ttl, attempt=job.attempt, suspect=lease.solo)


def _settled(lease: Lease, step: Transition) -> Item:
    counts = not isinstance(step, Park) and (isinstance(step, Finish) or step.counts)
    fence, nonce = lease.token.fence, lease.token.nonce
    return Item(id=lease.job.id, fence=fence, nonce=nonce, step=_step(step), counts=counts, successor=_successor(step))


def _successor(step: Transition) -> str:
    return step.successor.id if isinstance(step, Finish) and step.successor else ""


def _coming(step: Transition) -> list[Item]:
    """The jobs that come with the end of another."""
    if not isinstance(step, Finish):
        return []
    return [_new(job) for job in (*step.children, *([step.successor] if step.successor else []))]


def _step(step: Transition) -> str:
    match step:
        case Finish(state):
            return state.value
        case Requeue(front=True):
            return "release"
        case Requeue(delay=0, run_at=None):
            return "retry"
        case Requeue():
            return "later"
        case Park():
            return "park"


def _verdicts(settlements: Sequence[Settlement], verdicts: Sequence[Verdict]) -> list[Item]:
    return [
        Item(id=lease.job.id, verdict=verdict.kind) for (lease, _), verdict in zip(settlements, verdicts, strict=True)
    ]


def _lost(job: Reaped) -> Item:
    return Item(id=job.id, failed=job.failed, suspect=job.losses >= 2)
