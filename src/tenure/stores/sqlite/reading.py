"""Reads jobs, listings, queues and workers."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import msgspec

from tenure.core.job import JobRecord, State
from tenure.errors import InvalidOption
from tenure.stores.base import AHEAD
from tenure.stores.sqlite.attempts import histories
from tenure.stores.sqlite.rows import RECORD_COLUMNS, dumps, loads, records, totals
from tenure.stores.sqlite.transaction import Row, Transaction
from tenure.stores.values import PRIORITIES, EdgeInfo, Order, Page, Pulse, QueueInfo, Search, WorkerInfo

__all__ = ["blockers", "busy", "edges", "get", "ids", "queues", "search", "wait", "workers"]

_pulse = msgspec.json.Decoder(Pulse).decode
_decode_key = msgspec.json.Decoder(tuple[float, ...]).decode

AFTER_ANY_ID = "\x7f"
"""Sorts after every character that an id may contain."""

SCAN_LIMIT = 2000
"""Rows that one page of a listing scans at most."""


def get(tx: Transaction, ids: Sequence[str]) -> list[JobRecord | None]:
    """Read jobs with their attempts. None for ids that do not exist."""
    found = _read(tx, ids)
    for id_, attempts in histories(tx, ids).items():
        found[id_] = msgspec.structs.replace(found[id_], attempts=tuple(attempts))
    return [found.get(id_) for id_ in ids]


def _read(tx: Transaction, ids: Sequence[str]) -> dict[str, JobRecord]:
    return {job.id: job for job in records(tx, tx.all("get_jobs", dumps(ids)))}


def ids(tx: Transaction, prefix: str, limit: int) -> list[str]:
    """Up to `limit` ids that begin with `prefix`."""
    return [job_id for (job_id,) in tx.all("ids_with_prefix", prefix, f"{prefix}{AFTER_ANY_ID}", limit)]


def blockers(tx: Transaction, job_id: str, limit: int) -> list[str]:
    """Up to `limit` blockers that a blocked job still waits for."""
    return [blocker for (blocker,) in tx.all("open_blockers", job_id, limit)]


def edges(tx: Transaction, job_id: str, limit: int) -> list[EdgeInfo]:
    """The first `limit` blockers that a job was told to wait for, in the order of `after`."""
    return [EdgeInfo(blocker, bool(open_)) for blocker, open_ in tx.all("edges_of", job_id, limit)]


def wait(tx: Transaction, ids: Sequence[str], bell: str) -> dict[str, JobRecord | None]:
    """The records of those jobs that are final (None: deleted). The doorbell is rung when one of the others ends."""
    ended: dict[str, JobRecord | None] = {}
    for id_, job in zip(ids, _resolve(tx, ids), strict=True):
        if job is None or job.state.final:
            ended[id_] = job
        else:
            tx.run("add_waiter", id_, bell)
            tx.run("mark_waited", id_)
    return ended


def _resolve(tx: Transaction, ids: Sequence[str]) -> list[JobRecord | None]:
    """Read the jobs with these ids; for the id of a run, its current step."""
    jobs = _read(tx, ids)
    last: dict[str, str] = {}
    if passed := [job.id for job in jobs.values() if job.successor is not None and job.run_id == job.id]:
        last = dict(tx.all("current_steps", dumps(passed)))
        jobs |= _read(tx, list(last.values()))
    return [jobs.get(last.get(id_, id_)) for id_ in ids]


def queues(tx: Transaction, after: str, limit: int | None) -> list[QueueInfo]:
    """The queues whose names come after `after`, by name."""
    return [
        QueueInfo(
            name=row[0],
            paused=bool(row[1]),
            waiting=row[2],
            scheduled=row[3],
            blocked=row[4],
            running=row[5],
            succeeded=row[6],
            failed=row[7],
            cancelled=row[8],
            broken=row[9],
            totals=totals(row[10:17]),
            oldest=None if row[17] is None else max(tx.wall - row[17], 0.0),
        )
        for row in tx.all("queues_with_oldest", after, -1 if limit is None else limit, PRIORITIES)
    ]


def busy(tx: Transaction) -> list[Row]:
    """Queues that have something to do, each with whether a lease has expired there or a parked job is overdue."""
    return tx.all("busy_queues", tx.wall + AHEAD, tx.boot + AHEAD, tx.wall, tx.boot)


def workers(tx: Transaction) -> list[WorkerInfo]:
    """All registered workers, by start."""
    return [
        WorkerInfo(
            id=row[0],
            host=row[1],
            pid=row[2],
            queues=tuple(loads(row[3])),
            tasks=tuple(loads(row[4])),
            concurrency=row[5],
            lanes=tuple(loads(row[6])),
            started_at=row[8],
            silent_for=max(tx.boot - row[9], 0.0),
            totals=totals(row[10:17]),
            release=row[17],
            order=Order(row[18]),
        ).beating(_pulse(row[7]))
        for row in tx.all("list_workers")
    ]


def search(tx: Transaction, search: Search) -> Page:
    """List jobs. A page scans indexes in order, from where the page before it ended, and applies the filters to each row."""
    after = _cursor_key(search.cursor) if search.cursor else None
    found: list[Row] = []
    scanned = 0
    key: CursorKey | None = None
    for key, row in _scan(tx, search, after):
        if len(found) == search.limit or scanned == SCAN_LIMIT:
            break
        scanned += 1
        last = key
        if _matches(search, row):
            found.append(row)
    else:
        key = None
    return Page(records(tx, found), dumps(last) if key else None, scanned)


def _cursor_key(cursor: str) -> Sequence[float]:
    try:
        return _decode_key(cursor)
    except msgspec.DecodeError:
        raise InvalidOption(f"{cursor!r:.80} is no cursor: take the one that came with the page before") from None


CursorKey = tuple[float, ...]
"""Place of a row in a listing: the number of the scan, then the row's keys in it. Later rows have greater values."""

Scan = Iterator[tuple[CursorKey, Row]]


class _IndexScan(NamedTuple):
    """Rows in one order: the conditions of the indexes that contain them, and the sort keys (a minus sign: descending)."""

    parts: tuple[str, ...]
    keys: tuple[str, ...]


_IN_LINE = "state = 'waiting' AND run_at IS NULL AND queue = ? AND suspect = "
_SCANS = {
    State.WAITING: (
        _IndexScan((_IN_LINE + "0", _IN_LINE + "1"), ("priority", "seq")),
        _IndexScan(("state = 'waiting' AND run_at IS NOT NULL AND queue = ?",), ("run_at", "seq")),
    ),
    State.BLOCKED: (_IndexScan(("state = 'blocked' AND queue = ?",), ("priority", "seq")),),
    State.RUNNING: (_IndexScan(("state = 'running' AND queue = ?",), ("started_at", "n")),),
}


def _scan(tx: Transaction, search: Search, after: Sequence[float] | None) -> Scan:
    if search.state is None:
        yield from _rows(tx, 0, "1", (), ("-n",), after)
    elif search.state is State.FAILED and search.task is not None:
        yield from _rows(tx, 0, "state = 'failed' AND task = ?", (search.task,), ("-ended_at", "-n"), after)
    else:
        ended = _IndexScan(
            (f"ended_at IS NOT NULL AND queue = ? AND state = '{search.state.value}'",), ("-ended_at", "-n")
        )
        queues = [search.queue] if search.queue is not None else [row[0] for row in tx.all("list_queues")]
        for number, scan in enumerate(_SCANS.get(search.state, (ended,))):
            if after is None or number >= after[0]:
                rest = after if after is not None and number == after[0] else None
                scans = [_rows(tx, number, part, (queue,), scan.keys, rest) for queue in queues for part in scan.parts]
                yield from heapq.merge(*scans, key=itemgetter(0))


def _rows(
    tx: Transaction, number: int, where: str, values: Row, keys: tuple[str, ...], after: Sequence[float] | None
) -> Scan:
    """Scan rows in order of their keys, starting after the keys in `after`."""
    sign = -1 if keys[0].startswith("-") else 1
    columns = [key.lstrip("-") for key in keys]
    if after is not None:
        where += f" AND ({', '.join(columns)}) {'<' if sign < 0 else '>'} ({', '.join('?' * len(columns))})"
        values += tuple(sign * key for key in after[1:])
    order = ", ".join(f"{column} DESC" if sign < 0 else column for column in columns)
    statement = f"SELECT {', '.join(columns)}, {RECORD_COLUMNS} FROM tenure_jobs WHERE {where} ORDER BY {order}"
    for row in tx.select(statement, values):
        yield (number, *(sign * key for key in row[: len(columns)])), row[len(columns) :]


def _matches(search: Search, row: Row) -> bool:
    return (
        (search.queue is None or row[2] == search.queue)
        and (search.task is None or row[1] == search.task)
        and (search.tag is None or (row[19] is not None and search.tag in loads(row[19])))
    )
