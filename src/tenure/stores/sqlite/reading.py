"""Reads jobs, listings, queues and workers."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import eq, itemgetter
from typing import NamedTuple

import msgspec

from tenure.core.job import FINAL, JobRecord, State, shortened
from tenure.stores.base import AHEAD
from tenure.stores.cursors import numbers_of
from tenure.stores.sqlite.attempts import histories
from tenure.stores.sqlite.rows import RECORD_COLUMNS, dumps, error_of, loads, records, totals
from tenure.stores.sqlite.transaction import Row, Transaction
from tenure.stores.values import LOOK, PRIORITIES, EdgeInfo, Order, Page, Pulse, QueueInfo, Search, WorkerInfo

__all__ = ["blockers", "busy", "edges", "get", "ids", "queues", "search", "wait", "workers"]

_pulse = msgspec.json.Decoder(Pulse).decode

AFTER_ANY_ID = "\x7f"
"""Sorts after every character that an id may contain."""


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
    """List jobs. A page scans indexes in order, from where the page before it ended, and applies the filters to each row.

    With filters it scans only the columns that they need, and then reads the rows that pass. So the payloads of the others are not read.
    """
    filters = _filters(search)
    look = min(search.look, LOOK)
    if filters:
        columns = ", ".join(("n", *(column for each in filters for column in each.columns)))
    else:
        columns = _record_columns(search)
    found: list[Row] = []
    scanned = 0
    key: CursorKey | None = None
    last: CursorKey | None = None
    for key, row in _scan(tx, search, columns, look if filters else min(look, search.limit)):
        if len(found) == search.limit or scanned == look:
            break
        scanned += 1
        last = key
        if not filters or _passes(filters, row[1:]):
            found.append(row)
    else:
        key = None
    rows = _read_numbers(tx, search, [row[0] for row in found]) if filters else found
    jobs = [shortened(job, search.brief) for job in records(tx, rows)]
    return Page(jobs, dumps(last) if key and last else None, scanned)


def _record_columns(search: Search) -> str:
    """The columns of records. If the search wants them brief, SQLite cuts what may be long, so that it is not copied."""
    if search.brief is None:
        return RECORD_COLUMNS
    most = max(search.brief, 0)
    payload = RECORD_COLUMNS.replace("CAST(payload AS BLOB)", f"substr(CAST(payload AS BLOB), 1, {most:d})")
    return payload.replace(" result,", f" substr(result, 1, {most:d}),")


def _read_numbers(tx: Transaction, search: Search, numbers: Sequence[int]) -> list[Row]:
    """The rows with these numbers, in this order."""
    wanted = "(SELECT key AS place, value AS number FROM json_each(?))"
    statement = f"SELECT {_record_columns(search)} FROM {wanted} CROSS JOIN tenure_jobs ON n = number ORDER BY place"
    return list(tx.select(statement, (dumps(numbers),)))


class _Filter(NamedTuple):
    """A filter that no index applies: the columns that it needs, and whether a row with these values passes."""

    columns: tuple[str, ...]
    passes: Callable[..., bool]


def _filters(search: Search) -> list[_Filter]:
    by_task = _by_task(search)
    equal = {
        "queue": search.queue if search.state is None or by_task else None,
        "task": None if by_task else search.task,
        "worker": search.worker,
    }
    found = [_Filter((column,), partial(eq, wanted)) for column, wanted in equal.items() if wanted is not None]
    if search.tag is not None:
        found.append(_Filter(("tags",), partial(_has_tag, search.tag)))
    if search.error is not None:
        found.append(_Filter(("error",), partial(_has_error, _as_json(search.error), search.error)))
    if search.text is not None:
        contains = partial(_contains, search.text.encode(), _as_json(search.text), search.text)
        found.append(_Filter(("CAST(payload AS BLOB)", "error"), contains))
    return found


def _passes(filters: Sequence[_Filter], values: Row) -> bool:
    start = 0
    for columns, passes in filters:
        end = start + len(columns)
        if not passes(*values[start:end]):
            return False
        start = end
    return True


def _as_json(text: str) -> str:
    """The text as it appears inside JSON: a column that does not contain this does not contain the text."""
    return dumps(text)[1:-1]


def _has_tag(tag: str, tags: str | None) -> bool:
    return tags is not None and tag in loads(tags)


def _has_error(as_json: str, type_: str, column: str | None) -> bool:
    # The error is decoded only if it can match, because its traceback may be long.
    if column is None or as_json not in column:
        return False
    error = error_of(column)
    return error is not None and error.type == type_


def _contains(as_bytes: bytes, as_json: str, text: str, payload: bytes, column: str | None) -> bool:
    if as_bytes in payload:
        return True
    if column is None or as_json not in column:
        return False
    error = error_of(column)
    return error is not None and (text in error.type or text in error.message)


def _by_task(search: Search) -> bool:
    """Whether the search uses the index of failed jobs by task."""
    return search.state is State.FAILED and search.task is not None


def _begin(search: Search) -> CursorKey | None:
    """The key after which the page begins; None: at the first row."""
    after = numbers_of(search.cursor, 2 if search.state is None else 3) if search.cursor else None
    if search.before is None or search.state not in FINAL:
        return after
    before = (0.0, -search.before, -math.inf)  # that of a row before all those that ended at this time
    return before if after is None else max(after, before)


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


def _scan(tx: Transaction, search: Search, columns: str, most: int) -> Scan:
    """Scan up to `most` rows and one more, in the order of the listing."""
    after = _begin(search)
    if search.state is None:
        yield from _rows(tx, columns, most, 0, "1", (), ("-n",), after)
    elif _by_task(search):
        where = "state = 'failed' AND task = ?"
        yield from _rows(tx, columns, most, 0, where, (search.task,), ("-ended_at", "-n"), after)
    else:
        ended = _IndexScan(
            (f"ended_at IS NOT NULL AND queue = ? AND state = '{search.state.value}'",), ("-ended_at", "-n")
        )
        queues = [search.queue] if search.queue is not None else [row[0] for row in tx.all("list_queues")]
        for number, scan in enumerate(_SCANS.get(search.state, (ended,))):
            if search.state is State.WAITING and search.scheduled is (number == 0):
                continue
            if after is None or number >= after[0]:
                rest = after if after is not None and number == after[0] else None
                scans = [
                    _rows(tx, columns, most, number, part, (queue,), scan.keys, rest)
                    for queue in queues
                    for part in scan.parts
                ]
                yield from heapq.merge(*scans, key=itemgetter(0))


def _rows(
    tx: Transaction,
    columns: str,
    most: int,
    number: int,
    where: str,
    values: Row,
    keys: tuple[str, ...],
    after: CursorKey | None,
) -> Scan:
    """Scan up to `most` rows and one more in order of their keys, starting after the keys in `after`."""
    sign = -1 if keys[0].startswith("-") else 1
    names = [key.lstrip("-") for key in keys]
    if after is not None:
        where += f" AND ({', '.join(names)}) {'<' if sign < 0 else '>'} ({', '.join('?' * len(names))})"
        values += tuple(sign * key for key in after[1:])
    order = ", ".join(f"{name} DESC" if sign < 0 else name for name in names)
    statement = f"SELECT {', '.join(names)}, {columns} FROM tenure_jobs WHERE {where} ORDER BY {order} LIMIT ?"
    for row in tx.select(statement, (*values, most + 1)):
        yield (number, *(sign * key for key in row[: len(names)])), row[len(names) :]
