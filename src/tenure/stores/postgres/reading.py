"""Statements that read jobs, and functions that make a page, queue info or worker info of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.core.job import State, shortened
from tenure.stores.cursors import numbers_of
from tenure.stores.postgres.records import dumps, record, totals
from tenure.stores.values import LOOK, Order, Page, Pulse, QueueInfo, Search, WorkerInfo

__all__ = [
    "GET",
    "IDS",
    "LAST",
    "LEASES",
    "SEARCH",
    "SEARCH_SHORTENED",
    "WATCH",
    "page",
    "queue_info",
    "search_arguments",
    "worker_info",
]

_loads = msgspec.json.Decoder().decode
_pulse = msgspec.json.Decoder(Pulse).decode

LAST = "\x7f"
"""A character that sorts after every character of an id."""

IDS = "SELECT id FROM {schema}.jobs WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3"
GET = "SELECT (w.job).*, w.attempts, {schema}.clock($1) AS now FROM {schema}.get_with_attempts($2) AS w"
LEASES = "SELECT h.*, {schema}.clock($1) AS now FROM {schema}.leases_of($2) AS h"
# Tables are read only inside operations, which have the planner settings; this statement joins two short lists.
SEARCH = """
WITH w AS MATERIALIZED (SELECT * FROM {schema}.walk_jobs($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16))
SELECT r.*, w.looked_at, w.place, {schema}.clock($1) AS now
FROM w LEFT JOIN {schema}.get_by_number(ARRAY(SELECT n FROM w WHERE n IS NOT NULL)) AS r ON r.n = w.n
ORDER BY w.looked_at, w.n NULLS LAST
"""
SEARCH_SHORTENED = SEARCH.replace(
    "get_by_number(ARRAY(SELECT n FROM w WHERE n IS NOT NULL))",
    "get_shortened(ARRAY(SELECT n FROM w WHERE n IS NOT NULL), $17)",
)
WATCH = """
WITH w AS MATERIALIZED (SELECT * FROM {schema}.watch_jobs($1, $2))
SELECT r.*, w.asked FROM w LEFT JOIN {schema}.get_by_number(ARRAY(SELECT final FROM w WHERE final IS NOT NULL)) AS r ON r.n = w.final
"""


def decode_cursor(cursor: str | None) -> tuple[float, ...] | None:
    """The position that a cursor encodes; None for the first page."""
    return None if cursor is None else numbers_of(cursor, 3)


def search_arguments(search: Search) -> list[Any]:
    """The arguments of `SEARCH` after the time; those of `SEARCH_SHORTENED` have `brief` too."""
    type_, text = search.error, search.text
    return [
        search.state,
        search.queue,
        search.task,
        search.tag,
        search.scheduled,
        None if type_ is None else type_.replace("\0", _NO_NUL),
        None if type_ is None else f'{{"type":{dumps(type_)},',
        None if text is None else text.replace("\0", _NO_NUL),
        None if text is None else dumps(text)[1:-1],
        None if text is None else text.encode(),
        None if search.worker is None else search.worker.replace("\0", _NO_NUL),
        search.before,
        min(search.look, LOOK),
        search.limit,
        decode_cursor(search.cursor),
        *(() if search.brief is None else (search.brief,)),
    ]


_NO_NUL = "\ufffd"
"""Stands for NUL, which PostgreSQL refuses in a text."""


def page(rows: Sequence[Any], brief: int | None) -> Page:
    """A page of a listing of jobs, each `shortened` to `brief` characters."""
    *found, last = rows
    # A job may have been deleted between the two operations.
    jobs = [shortened(record(row, row["now"]), brief) for row in found if row["id"] is not None]
    return Page(jobs, None if last["place"] is None else dumps(last["place"]), last["looked_at"])


_COUNTERS = ("waiting", "scheduled", *(state.value for state in State if state is not State.WAITING))


def queue_info(name: str, paused: bool, counters: str, oldest: float | None) -> QueueInfo:
    numbers = _loads(counters)
    counts = {counter: numbers.get(counter, 0) for counter in _COUNTERS}
    return QueueInfo(name=name, paused=paused, **counts, totals=totals(numbers), oldest=oldest)


def worker_info(*row: Any) -> WorkerInfo:
    id_, host, pid, queues, tasks, concurrency, lanes, pulse, started_at, silent_for, counters, release, order = row
    return WorkerInfo(
        id=id_,
        host=host,
        pid=pid,
        queues=tuple(queues),
        tasks=tuple(tasks),
        concurrency=concurrency,
        lanes=tuple(lanes),
        release=release,
        order=Order(order),
        started_at=started_at,
        silent_for=silent_for,
        totals=totals(_loads(counters) if counters else {}),
    ).beating(_pulse(pulse))
