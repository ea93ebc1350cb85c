"""Inserts or updates many rows with few statements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from tenure.stores.sqlite.queries import sql
from tenure.stores.sqlite.transaction import Row, Transaction

__all__ = ["BulkInsert"]


class BulkInsert:
    """An INSERT of `queries/`, or an UPDATE from VALUES, in three sizes: its group of values is repeated for 100 rows, 10 rows or one row."""

    def __init__(self, query: str, columns: int) -> None:
        group = "(" + ", ".join("?" * columns) + ")"
        assert group in sql[query]
        self._statements = {size: sql[query].replace(group, ", ".join([group] * size)) for size in (100, 10, 1)}

    def insert(self, tx: Transaction, rows: Sequence[Row]) -> int:
        """Insert these rows, or update from them. Returns how many were inserted or changed."""
        changed = 0
        start = 0
        for size, statement in self._statements.items():
            while len(rows) - start >= size:
                changed += tx.execute(statement, list(chain.from_iterable(rows[start : start + size])))
                start += size
        return changed
