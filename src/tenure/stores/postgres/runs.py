"""Statements that read runs of flows and their steps, and functions that make a run record or page of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenure.stores.cursors import number_of
from tenure.stores.postgres.records import record
from tenure.stores.values import Page, RunPage, RunRecord

__all__ = ["RUN", "RUNS", "STEPS", "decode_cursor", "run_page", "run_record", "steps_page"]

# As for jobs, tables are read only inside operations; these statements join two short lists.
_RECORDS = """
SELECT r.*, w.run_id AS of_run, w.flow, w.began_at, w.completed_queue, w.looked_at, w.place, {schema}.clock($1) AS now
FROM w LEFT JOIN {schema}.get_by_number(ARRAY(SELECT step FROM w WHERE step IS NOT NULL)) AS r ON r.n = w.step
ORDER BY w.looked_at, w.run NULLS LAST
"""
RUN = "WITH w AS MATERIALIZED (SELECT * FROM {schema}.find_run($2))" + _RECORDS
RUNS = "WITH w AS MATERIALIZED (SELECT * FROM {schema}.walk_runs($2, $3, $4, $5, $6, $7))" + _RECORDS
STEPS = """
WITH w AS MATERIALIZED (SELECT * FROM {schema}.walk_steps($2, $3, $4))
SELECT r.*, w.looked_at, w.place, {schema}.clock($1) AS now
FROM w LEFT JOIN {schema}.get_by_number(ARRAY(SELECT n FROM w WHERE n IS NOT NULL)) AS r ON r.n = w.n
ORDER BY w.looked_at, w.n NULLS LAST
"""


def run_record(row: Any) -> RunRecord:
    """The run record of a row."""
    return RunRecord(row["of_run"], row["flow"], row["began_at"], record(row, row["now"]), row["completed_queue"])


def run_page(rows: Sequence[Any]) -> RunPage:
    """A page of a listing of runs."""
    *found, last = rows
    # A step may have been deleted between the two operations.
    runs = [run_record(row) for row in found if row["id"] is not None]
    return RunPage(runs, None if last["place"] is None else str(last["place"]), last["looked_at"])


def steps_page(rows: Sequence[Any]) -> Page:
    """A page of the steps of a run."""
    *found, last = rows
    jobs = [record(row, row["now"]) for row in found if row["id"] is not None]
    return Page(jobs, None if last["place"] is None else f"{last['place'][0]:.0f}", last["looked_at"])


def decode_cursor(cursor: str | None) -> int | None:
    """The number that a cursor encodes; None for the first page."""
    return None if cursor is None else number_of(cursor)
