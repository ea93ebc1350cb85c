"""What everybody reads: jobs, listings, queues, workers."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tenure.job import JobRecord, State
from tenure.stores.base import Page, QueueInfo, Search, WorkerInfo
from tenure.stores.sqlite.rows import RECORD_COLUMNS, dumps, loads, records, totals
from tenure.stores.sqlite.transaction import Row, Transaction

__all__ = ["get", "queues", "search", "wait", "workers"]

LOOK_AT = 2000
"""Rows that one page of a listing looks at, at the most."""


def get(tx: Transaction, ids: Sequence[str]) -> list[JobRecord | None]:
    """Read jobs whole."""
    found = {job.id: job for job in records(tx, tx.all("get_jobs", dumps(ids)))}
    return [found.get(id_) for id_ in ids]


def wait(tx: Transaction, ids: Sequence[str], bell: str) -> dict[str, JobRecord | None]:
    """The records of those that are final or gone; this bell is rung for the others."""
    ended: dict[str, JobRecord | None] = {}
    for id_, job in zip(ids, get(tx, ids), strict=True):
        if job is None or job.state.final:
            ended[id_] = job
        else:
            tx.run("wait_for_job", id_, bell)
            tx.run("mark_waited", id_)
    return ended


def queues(tx: Transaction) -> list[QueueInfo]:
    """Every queue, by name."""
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
            totals=totals(row[10:]),
        )
        for row in tx.all("list_queues")
    ]


def workers(tx: Transaction) -> list[WorkerInfo]:
    """The registry, by start."""
    return [
        WorkerInfo(
            id=row[0],
            host=row[1],
            pid=row[2],
            queues=tuple(loads(row[3])),
            tasks=tuple(loads(row[4])),
            concurrency=row[5],
            held=row[6],
            started_at=row[7],
            silent_for=max(tx.boot - row[8], 0.0),
            totals=totals(row[9:]),
        )
        for row in tx.all("list_workers")
    ]


def search(tx: Transaction, search: Search) -> Page:
    """List jobs. A listing walks indexes in their order, from where the page before it ended; filters are applied on the way."""
    after = loads(search.cursor) if search.cursor else None
    found: list[Row] = []
    looked_at = 0
    place: Place | None = None
    for place, row in _walk(tx, search, after):
        if len(found) == search.limit or looked_at == LOOK_AT:
            break
        looked_at += 1
        last = place
        if _matches(search, row):
            found.append(row)
    else:
        place = None
    return Page(records(tx, found), dumps(last) if place else None, looked_at)


Place = tuple[object, ...]
"""Where in a listing a row stands; what comes after it is greater."""

Walk = Iterator[tuple[Place, Row]]


def _walk(tx: Transaction, search: Search, after: Sequence[object] | None) -> Walk:
    match search.state:
        case None:
            return _rows(tx, (), "1", (), ("-n",), after)
        case State.FAILED if search.task is not None:
            return _rows(tx, (), "state = 'failed' AND task = ?", (search.task,), ("-ended_at", "-n"), after)
        case state if state.final:
            where = "ended_at IS NOT NULL AND queue = ? AND state = ?"
            return _merged(
                _rows(tx, (), where, (queue, state), ("-ended_at", "-n"), after) for queue in _queues(tx, search)
            )
        case state:
            return _queue_by_queue(tx, state, _queues(tx, search), after)


def _queue_by_queue(tx: Transaction, state: State, queues: Sequence[str], after: Sequence[object] | None) -> Walk:
    for queue in queues:
        if after is None or queue >= str(after[0]):
            rest = after if after is not None and queue == after[0] else None
            for kind, walk in enumerate(_WALKS[state]):
                if rest is None or kind >= int(str(rest[1])):
                    here = rest if rest is not None and kind == rest[1] else None
                    yield from _merged(
                        _rows(tx, (queue, kind), f"queue = ? AND {where}", (queue,), walk.keys, here)
                        for where in walk.parts
                    )


class _Indexed(NamedTuple):
    """Rows that stand in one order: the conditions of the index walks that make them up, and what orders them."""

    parts: tuple[str, ...]
    keys: tuple[str, ...]


_WALKS = {
    State.WAITING: (
        _Indexed(
            (
                "state = 'waiting' AND run_at IS NULL AND suspect = 0",
                "state = 'waiting' AND run_at IS NULL AND suspect = 1",
            ),
            ("priority", "seq"),
        ),
        _Indexed(("state = 'waiting' AND run_at IS NOT NULL",), ("run_at", "seq")),
    ),
    State.BLOCKED: (_Indexed(("state = 'blocked'",), ("seq",)),),
    State.RUNNING: (_Indexed(("state = 'running'",), ("started_at", "n")),),
}


def _rows(
    tx: Transaction,
    prefix: Place,
    where: str,
    values: Place,
    keys: tuple[str, ...],
    after: Sequence[object] | None,
) -> Walk:
    """Walk rows in order of their keys (a minus: downwards), from behind a place on."""
    bare = [key.lstrip("-") for key in keys]
    downwards = keys[0].startswith("-")
    order = ", ".join(f"{key} DESC" if downwards else key for key in bare)
    if after is not None:
        where += f" AND ({', '.join(bare)}) {'<' if downwards else '>'} ({', '.join('?' * len(bare))})"
        behind = after[len(prefix) :]
        values += tuple(-key if downwards else key for key in behind)  # type: ignore[operator]
    statement = f"SELECT {', '.join(bare)}, {RECORD_COLUMNS} FROM tenure_jobs WHERE {where} ORDER BY {order}"
    for row in tx.select(statement, values):
        place = row[: len(bare)]
        yield (*prefix, *((-key for key in place) if downwards else place)), row[len(bare) :]


def _merged(walks: Iterable[Walk]) -> Walk:
    return heapq.merge(*walks, key=lambda item: item[0])


def _queues(tx: Transaction, search: Search) -> list[str]:
    if search.queue is not None:
        return [search.queue]
    return [row[0] for row in tx.all("list_queues")]


def _matches(search: Search, row: Row) -> bool:
    return (
        (search.queue is None or row[2] == search.queue)
        and (search.task is None or row[1] == search.task)
        and (search.tag is None or (row[18] is not None and search.tag in loads(row[18])))
    )
