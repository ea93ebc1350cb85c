"""Statements that read jobs, and functions that make a page, queue info or worker info of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.core.job import State
from tenure.errors import InvalidOption
from tenure.stores.postgres.records import dumps, record, totals
from tenure.stores.values import Page, Pulse, QueueInfo, WorkerInfo

__all__ = ["GET", "IDS", "LAST", "LEASES", "SEARCH", "WATCH", "decode_cursor", "page", "queue_info", "worker_info"]

_loads = msgspec.json.Decoder().decode
_cursor = msgspec.json.Decoder(tuple[float, float, float]).decode
_pulse = msgspec.json.Decoder(Pulse).decode

LAST = "\x7f"
"""A character that sorts after every character of an id."""

IDS = "SELECT id FROM {schema}.jobs WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3"
GET = "SELECT (w.job).*, w.attempts, {schema}.clock($1) AS now FROM {schema}.get_with_attempts($2) AS w"
LEASES = "SELECT h.*, {schema}.clock($1) AS now FROM {schema}.leases_of($2) AS h"
# Tables are read only inside operations, which have the planner settings; this statement joins two short lists.
SEARCH = """
WITH w AS MATERIALIZED (SELECT * FROM {schema}.walk($2, $3, $4, $5, $6, $7))
SELECT r.*, w.looked_at, w.place, {schema}.clock($1) AS now
FROM w LEFT JOIN {schema}.get_by_number(ARRAY(SELECT n FROM w WHERE n IS NOT NULL)) AS r ON r.n = w.n
ORDER BY w.looked_at, w.n NULLS LAST
"""
WATCH = """
WITH w AS MATERIALIZED (SELECT * FROM {schema}.watch_jobs($1, $2))
SELECT r.*, w.asked FROM w LEFT JOIN {schema}.get_by_number(ARRAY(SELECT final FROM w WHERE final IS NOT NULL)) AS r ON r.n = w.final
"""


def decode_cursor(cursor: str | None) -> tuple[float, ...] | None:
    """The position that a cursor encodes; None for the first page."""
    if cursor is None:
        return None
    try:
        return _cursor(cursor)
    except msgspec.DecodeError:
        raise InvalidOption(f"{cursor!r:.80} is no cursor: take the one that came with the page before") from None


def page(rows: Sequence[Any]) -> Page:
    """A page of a listing of jobs."""
    *found, last = rows
    # A job may have been deleted between the two operations.
    jobs = [record(row, row["now"]) for row in found if row["id"] is not None]
    return Page(jobs, None if last["place"] is None else dumps(last["place"]), last["looked_at"])


_COUNTERS = ("waiting", "scheduled", *(state.value for state in State if state is not State.WAITING))


def queue_info(name: str, paused: bool, counters: str, oldest: float | None) -> QueueInfo:
    numbers = _loads(counters)
    counts = {counter: numbers.get(counter, 0) for counter in _COUNTERS}
    return QueueInfo(name=name, paused=paused, **counts, totals=totals(numbers), oldest=oldest)


def worker_info(*row: Any) -> WorkerInfo:
    id_, host, pid, queues, tasks, concurrency, lanes, pulse, started_at, silent_for, counters, release = row
    return WorkerInfo(
        id=id_,
        host=host,
        pid=pid,
        queues=tuple(queues),
        tasks=tuple(tasks),
        concurrency=concurrency,
        lanes=tuple(lanes),
        release=release,
        started_at=started_at,
        silent_for=silent_for,
        totals=totals(_loads(counters) if counters else {}),
    ).beating(_pulse(pulse))
