"""Schedules: reads, writes and fires them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from tenure.core.job import BlockerPolicy, NewJob
from tenure.core.schedule import (
    HISTORY_LENGTH,
    Firing,
    Overlap,
    SchedulePage,
    SchedulePut,
    ScheduleRecord,
    ScheduleSearch,
    TickEnd,
    TickRecord,
)
from tenure.stores.sqlite import operating
from tenure.stores.sqlite.bulk_insert import BulkInsert
from tenure.stores.sqlite.enqueueing import enqueue
from tenure.stores.sqlite.rows import dumps
from tenure.stores.sqlite.transaction import Row, Transaction

__all__ = ["confirm", "fire", "put", "search"]

Named = TypeVar("Named", SchedulePut, Firing)

_history = msgspec.json.Decoder(tuple[TickRecord, ...])
_raw = msgspec.json.Decoder(list[msgspec.Raw])

_create = BulkInsert("create_schedules", 6)
_change = BulkInsert("change_schedules", 5)
_move = BulkInsert("move_schedules", 5)


def search(tx: Transaction, wanted: ScheduleSearch) -> SchedulePage:
    """The schedules of a search. It looks at one entry of an index if those that are due are wanted and none is."""
    if wanted.names is not None:
        found = {row[0]: _record(row) for row in tx.all("get_schedules", dumps(wanted.names))}
        return SchedulePage([found[name] for name in wanted.names if name in found], tx.wall)
    if not wanted.due:
        return _page(tx, tx.all("list_schedules", wanted.after, wanted.limit))
    soonest = tx.one("next_schedule")
    if soonest is None:
        return _page(tx, [])
    due_in = soonest[0] - tx.wall
    due = tx.all("due_schedules", tx.wall, wanted.limit, wanted.skip) if due_in <= 0 else []
    return _page(tx, due, due_in)


def _page(tx: Transaction, rows: Sequence[Row], due_in: float | None = None) -> SchedulePage:
    return SchedulePage([_record(row) for row in rows], tx.wall, due_in)


def _record(row: Row) -> ScheduleRecord:
    name, settings, version, next_, active, tick, last, seen_at, history = row
    return ScheduleRecord(
        name=name,
        settings=settings,
        version=version,
        next=next_,
        active=bool(active),
        tick=tick,
        last=last,
        seen_at=seen_at,
        history=_history.decode(history),
    )


def put(tx: Transaction, puts: Sequence[SchedulePut]) -> list[bool]:
    """Write each schedule that has the version which its put names."""
    return [written for part in _parts(puts) for written in _put(tx, part)]


def _put(tx: Transaction, puts: Sequence[SchedulePut]) -> list[bool]:
    versions = dict(tx.array("schedule_versions", dumps([each.name for each in puts])))
    current = [each for each in puts if versions.get(each.name, 0) == each.if_version]
    deleted = [each.name for each in current if each.settings is None]
    if deleted:
        tx.run("delete_schedules", dumps(deleted))
    kept = [each for each in current if each.settings is not None]
    _create.insert(
        tx,
        [(each.name, each.settings, 1, each.next, each.active, tx.wall) for each in kept if each.name not in versions],
    )
    _change.insert(
        tx,
        [
            (each.name, each.settings, each.next, each.active, tx.wall if each.seen else None)
            for each in kept
            if each.name in versions
        ],
    )
    return [versions.get(each.name, 0) == each.if_version for each in puts]


def confirm(tx: Transaction, names: Sequence[str]) -> list[bool]:
    """Set `seen_at` of these schedules to now."""
    found = dict(tx.array("schedule_versions", dumps(names)))
    tx.run("confirm_schedules", dumps(list(found)), tx.wall)
    return [name in found for name in names]


def fire(tx: Transaction, firings: Sequence[Firing]) -> list[tuple[TickRecord, ...] | None]:
    """Carry out each firing that was computed from the current version of its schedule."""
    return [fired for part in _parts(firings) for fired in _fire(tx, part)]


def _parts(items: Sequence[Named]) -> Iterator[Sequence[Named]]:
    """Split a call into parts that name a schedule once each, because an item must see what those before it have written."""
    start, names = 0, set[str]()
    for position, item in enumerate(items):
        if item.name in names:
            yield items[start:position]
            start, names = position, set()
        names.add(item.name)
    if start < len(items):
        yield items[start:]


class _Schedule(NamedTuple):
    """The columns of the query `schedules_to_fire`."""

    name: str
    version: int
    last: str | None
    history: str


def _fire(tx: Transaction, firings: Sequence[Firing]) -> list[tuple[TickRecord, ...] | None]:
    rows = tx.array("schedules_to_fire", dumps([firing.name for firing in firings]))
    schedules = {row[0]: _Schedule(*row) for row in rows}
    current = [
        (firing, schedule)
        for firing in firings
        if (schedule := schedules.get(firing.name)) is not None and schedule.version == firing.version
    ]
    entries = iter(_enqueue(tx, current))
    fired = {firing.name: tuple(islice(entries, len(firing.jobs))) for firing, _ in current}
    _move.insert(tx, [_moved(tx, firing, schedule, fired[firing.name]) for firing, schedule in current])
    return [fired.get(firing.name) for firing in firings]


def _moved(tx: Transaction, firing: Firing, schedule: _Schedule, fired: Sequence[TickRecord]) -> Row:
    last = next((entry.job_id for entry in reversed(fired) if entry.enqueued), schedule.last)
    # Older entries are copied undecoded: that is cheaper, and keeps what a newer program may have written.
    history = [*_raw.decode(schedule.history), *(replace(entry, at=tx.wall) for entry in firing.entries), *fired]
    return firing.name, firing.next, firing.tick, last, dumps(history[-HISTORY_LENGTH:])


def _enqueue(tx: Transaction, firings: Sequence[tuple[Firing, _Schedule]]) -> list[TickRecord]:
    """Enqueue the jobs of these firings, or not, by the states of the last jobs. Returns an entry for each, in order."""
    ticks = _Ticks(tx, [schedule.last for firing, schedule in firings if firing.overlap is not Overlap.ALLOW])
    for firing, schedule in firings:
        for tick, job in firing.jobs:
            ticks.decide(firing, tick, job, schedule.last)
    ticks.enqueue()
    return ticks.entries


class _Ticks:
    """Decides on ticks in order, and enqueues their jobs together.

    The outcome is that of enqueueing them one by one, because only a cancellation changes what a later tick or job depends on. So
    the jobs before a cancellation are enqueued before it.
    """

    def __init__(self, tx: Transaction, lasts: Iterable[str | None]) -> None:
        self._tx = tx
        self._unfinished = _unfinished(tx, [last for last in lasts if last is not None])
        self._cancelled = False
        self._jobs: list[tuple[int, NewJob]] = []
        """Jobs to enqueue, each with the place of its entry."""

        self.entries: list[TickRecord] = []
        """One for each tick. It has no job id until its job is enqueued."""

    def decide(self, firing: Firing, tick: float, job: NewJob, last: str | None) -> None:
        """Decide on the job of a tick by the state of the last job."""
        entry = TickRecord(tick, firing.end, self._tx.wall)
        if last is not None and firing.overlap is not Overlap.ALLOW and (previous := self._previous(last)) is not None:
            current, fence = previous
            not_begun = current == last and fence == 0
            if firing.overlap is Overlap.SKIP or (firing.overlap is Overlap.WAIT and not_begun):
                self.entries.append(TickRecord(tick, TickEnd.SKIPPED, self._tx.wall, last))
                return
            if firing.overlap is Overlap.WAIT:
                job = replace(job, after=(last,), if_blocker_fails=BlockerPolicy.PROCEED)
            if firing.overlap is Overlap.REPLACE:
                # Jobs of earlier ticks come first: one may want the unique key that the cancelled job still owns.
                self.enqueue()
                operating.cancel(self._tx, [current])
                self._cancelled = True
                entry = replace(entry, replaced=current)
        self._jobs.append((len(self.entries), job))
        self.entries.append(entry)

    def _previous(self, last: str) -> tuple[str, int] | None:
        found = self._unfinished.get(last)
        if found is not None and self._cancelled:
            # Looked up again, because it may have depended on a job that was cancelled, and have failed.
            return _unfinished(self._tx, [last]).get(last)
        return found

    def enqueue(self) -> None:
        """Enqueue the jobs that were decided on since the last call."""
        answers = enqueue(self._tx, [job for _, job in self._jobs]) if self._jobs else []
        for (place, _), answer in zip(self._jobs, answers, strict=True):
            entry = self.entries[place]
            end = TickEnd.DUPLICATE if answer.duplicate else entry.end
            self.entries[place] = replace(entry, end=end, job_id=answer.id)
        self._jobs.clear()


def _unfinished(tx: Transaction, ids: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Those of these jobs and runs that are not final: for each, the id and the fence of the job, or of the current step of the run."""
    rows = tx.array("unfinished_jobs", dumps(ids)) if ids else ()
    return {id_: (current, fence) for id_, current, fence in rows}
