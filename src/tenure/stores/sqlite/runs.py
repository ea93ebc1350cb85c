"""Writes and reads runs of flows: their attributes, lookups, steps and listings."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tenure.core.job import JobRecord, NewJob, State, Writes
from tenure.errors import MissingAttribute
from tenure.stores.cursors import number_of
from tenure.stores.sqlite.bulk_insert import BulkInsert
from tenure.stores.sqlite.rows import RECORD_COLUMNS, dumps, records
from tenure.stores.sqlite.transaction import Row, Transaction
from tenure.stores.values import Page, RunPage, RunRecord, RunSearch

__all__ = ["attributes", "missing_attribute", "require_attributes", "run", "runs", "steps", "write"]

SCAN_LIMIT = 2000
"""Runs that one page of a listing scans at most."""

_attributes = BulkInsert("write_attributes", 3)


def write(tx: Transaction, writes: Iterable[tuple[str | None, Writes | None]], *, new: bool = False) -> None:
    """Write attributes and lookups to runs, replacing earlier values. `new` runs have no earlier values."""
    rows: list[Row] = []
    lookups: list[tuple[str, str, tuple[str, ...]]] = []
    for run_id, each in writes:
        if run_id is not None and each is not None:
            rows += [(run_id, name, value) for name, value in each.attributes.items()]
            lookups += [(run_id, name, values) for name, values in each.lookups.items()]
    _attributes.insert(tx, rows)
    if lookups:
        if not new:
            tx.run("clear_lookups", dumps(lookups))
        tx.run("write_lookups", dumps([(run_id, name, value) for run_id, name, values in lookups for value in values]))


def require_attributes(tx: Transaction, jobs: Iterable[NewJob], written: Mapping[str, Collection[str]]) -> None:
    """Raise `MissingAttribute` if `missing_attribute` finds one."""
    if (found := missing_attribute(tx, jobs, written)) is not None:
        raise MissingAttribute(*found)


def missing_attribute(
    tx: Transaction, jobs: Iterable[NewJob], written: Mapping[str, Collection[str]]
) -> tuple[str, str] | None:
    """The task of a step and the name of an attribute that it needs, but that neither its run nor `written` has; None if there is none."""
    wanted = [
        (job.step.run_id, name, job.task)
        for job in jobs
        if job.step is not None
        for name in job.step.needs
        if name not in written.get(job.step.run_id, ())
        and (job.step.writes is None or name not in job.step.writes.attributes)
    ]
    row = tx.one("missing_attributes", dumps(wanted)) if wanted else None
    if row is None:
        return None
    _, name, task = wanted[row[0]]
    return task, name


def attributes(tx: Transaction, run_id: str, names: Sequence[str] | None) -> dict[str, str]:
    """Read attributes of a run; all of them if `names` is None."""
    return dict(tx.all("run_attributes", run_id, None if names is None else dumps(names)))


def steps(tx: Transaction, run_id: str, limit: int, cursor: str | None) -> Page:
    """List the steps of a run in order."""
    rows = _select(tx, "run_id = ? AND n > ? ORDER BY n", (run_id, _number(cursor, -1)), limit + 1)
    found = rows[:limit]
    page = records(tx, [row[1:] for row in found])
    return Page(page, str(found[-1][0]) if len(rows) > limit else None, len(found))


def run(tx: Transaction, run_id: str) -> RunRecord | None:
    """Read a run."""
    row = tx.one("get_run", run_id)
    return None if row is None else _records(tx, [row])[0]


def runs(tx: Transaction, search: RunSearch) -> RunPage:
    """List runs, the newest first. A page scans an index, from where the page before it ended."""
    found: list[Row] = []
    scanned = 0
    number: int | None = None
    for row in _scan(tx, search, _number(search.cursor, None)):
        if len(found) == search.limit or scanned == SCAN_LIMIT:
            break
        scanned += 1
        number = row[0]
        if search.state is None or row[5] == search.state:
            found.append(row)
    else:
        number = None
    return RunPage(_records(tx, found), None if number is None else str(number), scanned)


def _number(cursor: str | None, begin: int | None) -> int | None:
    return begin if cursor is None else number_of(cursor)


_RUN = (
    "SELECT f.n, f.id, f.flow, f.created_at, last.id, last.state, last.n FROM {} JOIN tenure_jobs AS last ON last.n = ("
    "SELECT n FROM tenure_jobs AS j WHERE j.run_id = f.id ORDER BY j.n DESC LIMIT 1) WHERE {} ORDER BY {} DESC"
)


def _scan(tx: Transaction, search: RunSearch, before: int | None) -> Iterator[Row]:
    bound = 1 << 62 if before is None else before
    if search.lookup is not None:
        source = "tenure_lookups AS l JOIN tenure_jobs AS f ON f.id = l.run_id"
        where = "l.flow = ? AND l.name = ? AND l.value = ? AND l.n < ?"
        yield from tx.select(_RUN.format(source, where, "l.n"), (search.flow, *search.lookup, bound))
        return
    flows = [search.flow] if search.flow is not None else [row[0] for row in tx.all("list_flows")]
    statement = _RUN.format("tenure_jobs AS f", "f.flow = ? AND f.n < ?", "f.n")
    yield from heapq.merge(*(tx.select(statement, (flow, bound)) for flow in flows), key=lambda row: -row[0])


def _records(tx: Transaction, rows: Sequence[Row]) -> list[RunRecord]:
    last = {record.id: record for record in _read(tx, [row[4] for row in rows])}
    return [
        RunRecord(id_, flow, created_at, last[current], _completed_queue(tx, id_, last[current], number))
        for _, id_, flow, created_at, current, _, number in rows
        if current in last
    ]


def _completed_queue(tx: Transaction, run_id: str, last: JobRecord, number: int) -> str | None:
    if last.state is State.SUCCEEDED:
        return last.queue
    row = tx.one("queue_of_previous_step", run_id, number)
    return None if row is None else str(row[0])


def _read(tx: Transaction, ids: Sequence[str]) -> list[JobRecord]:
    return records(tx, tx.all("get_jobs", dumps(ids)))


def _select(tx: Transaction, rest: str, values: Row, limit: int) -> list[Row]:
    statement = f"SELECT n, {RECORD_COLUMNS} FROM tenure_jobs WHERE {rest} LIMIT ?"
    return list(tx.select(statement, (*values, limit)))
