"""Queuert's tables as its trace describes them, and rows of it to compare with."""

from __future__ import annotations

import json
import re
import secrets
import uuid
from typing import Any

import psycopg
from psycopg import sql

from .traces import lines_by_scene

__all__ = ["QueuertTables", "Scene", "normal", "scenes"]

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIMES = ("created_at", "scheduled_at", "completed_at", "last_attempt_at", "leased_until")


class Scene:
    """A scene of the trace: what was announced, and the rows at its end."""

    def __init__(self, told: list[Any]) -> None:
        self.announced = [
            (channel, payload) for _, channel, payload in (each for each in told if isinstance(each, list))
        ]
        self.facts: list[dict[str, Any]] = [each for each in told if isinstance(each, dict)]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [each["row"] for each in self.facts if each.get("table") == "queuert_job"]


def scenes() -> dict[str, Scene]:
    """The scenes of the trace, by name."""
    return {name: Scene(lines) for name, lines in lines_by_scene("queuert-postgres").items()}


def normal(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with ids and times replaced by their order, and names of workers and stack traces by what they are."""
    rows = sorted(rows, key=lambda row: (row["created_at"], row["chain_index"], row["type_name"]))
    times = sorted({row[column] for row in rows for column in TIMES if row[column] is not None})
    ids: dict[str, str] = {}
    found = []
    for row in rows:
        plain = dict(row)
        for column in ("id", "chain_id"):
            plain[column] = ids.setdefault(row[column], f"id {len(ids)}")
        for column in TIMES:
            plain[column] = None if row[column] is None else f"time {times.index(row[column])}"
        for column in ("leased_by", "completed_by"):
            plain[column] = None if row[column] is None else "a worker"
        if row["last_attempt_error"] is not None:
            plain["last_attempt_error"] = type(row["last_attempt_error"]).__name__
        found.append(plain)
    return found


class QueuertTables:
    """A schema with Queuert's tables, made from the columns and indexes in the trace."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.schema = f"q{secrets.token_hex(8)}"
        self.connection = psycopg.connect(url, autocommit=True)
        self.do(f'CREATE SCHEMA "{self.schema}"')
        self.do(f'SET search_path TO "{self.schema}"')
        self.do("CREATE TYPE queuert_job_status AS ENUM ('pending', 'blocked', 'running', 'completed')")
        made = scenes()["migrate"]
        columns: dict[str, list[str]] = {}
        for fact in made.facts:
            if (column := fact.get("column")) is not None:
                default = f" DEFAULT {column['column_default']}" if column["column_default"] else ""
                null = "" if column["is_nullable"] == "YES" else " NOT NULL"
                definition = f'"{column["column_name"]}" {column["udt_name"]}{null}{default}'
                columns.setdefault(column["table_name"], []).append(definition)
        for table, definitions in columns.items():
            self.do(f"CREATE TABLE {table} ({', '.join(definitions)})")
        for fact in made.facts:
            if (index := fact.get("index")) is not None:
                table = next(each for each in ("job_blocker", "migration", "job") if each in index or each == "job")
                unique, _, about = fact["about"].rpartition("btree ")
                self.do(f"CREATE {unique} INDEX {index} ON queuert_{table} USING btree {about}")
            elif fact.get("table") == "queuert_migration":
                self.do("INSERT INTO queuert_migration (name) VALUES (%s)", fact["row"]["name"])
        self._ears = psycopg.connect(url, autocommit=True)
        for channel in ("queuert_sched", "queuert_chainc", "queuert_owls"):
            self._ears.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))

    def do(self, statement: str, *values: Any) -> Any:
        return self.connection.execute(statement.encode(), values)

    def insert(self, type_name: str, given: Any = None, *, status: str = "pending", after: tuple[str, ...] = ()) -> str:
        """A row as Queuert's client writes it, which waits for the chains `after`."""
        row = str(uuid.uuid4())
        self.do(
            "INSERT INTO queuert_job (id, type_name, chain_id, chain_type_name, chain_index, input, status) "
            "VALUES (%s, %s, %s, %s, 0, %s, %s)",
            *(row, type_name, row, type_name, None if given is None else json.dumps(given)),
            "blocked" if after else status,
        )
        for index, chain in enumerate(after):
            self.do("INSERT INTO queuert_job_blocker VALUES (%s, %s, %s)", row, chain, index)
        return row

    def rows(self) -> list[dict[str, Any]]:
        return [row for (row,) in self.do("SELECT to_jsonb(j) FROM queuert_job j").fetchall()]

    def row(self, row: str) -> dict[str, Any]:
        [found] = [each for each in self.rows() if each["id"] == row]
        return found

    def announced(self) -> list[tuple[str, str]]:
        """What was announced since the last call, about the rows of these tables."""
        ours = {row["id"] for row in self.rows()} | {row["type_name"] for row in self.rows()}
        return [(each.channel, each.payload) for each in self._ears.notifies(timeout=0.05) if each.payload in ours]

    def empty(self) -> None:
        self.do("TRUNCATE queuert_job, queuert_job_blocker")
        self.announced()

    def remove(self) -> None:
        self._ears.close()
        self.do(f'DROP SCHEMA "{self.schema}" CASCADE')
        self.connection.close()
