"""CallerWork: what the store does inside a caller's transaction, as statements that every driver can execute.

Each statement calls one operation with one text parameter, JSON with the payloads in base64, and returns one text.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from tenure.core.job import JobRecord, NewJob
from tenure.errors import InvalidOption
from tenure.stores.callers import PostgresWork
from tenure.stores.postgres import settling
from tenure.stores.postgres.records import (
    check_first_steps,
    dumps,
    enqueued,
    is_special,
    new_fields,
    record_of_json,
)
from tenure.stores.values import Enqueued, Settlement, Verdict

__all__ = ["CallerWork"]

T = TypeVar("T")

_loads = msgspec.json.Decoder().decode


GET = """
SELECT CASE WHEN EXISTS (SELECT FROM {schema}.layout AS l WHERE l.identity = _call.identity)
    THEN json_build_array({schema}.clock(_call.now), found.jobs)::text ELSE 'elsewhere' END
FROM json_to_record({place}::json) AS _call (identity uuid, now float8, ids text[]), LATERAL (
    SELECT json_agg(json_build_array(w.job, encode((w.job).payload, 'base64'), w.attempts)) AS jobs
    FROM {schema}.get_with_attempts(_call.ids) AS w
) AS found
"""
"""Reads jobs as JSON. It is built on an operation of the server and is none itself, so it needs no migration."""


class CallerWork:
    """Builds the statements of one store. `identity` tells its schema from one of the same name in another database."""

    def __init__(self, schema: str, identity: str, now: Callable[[], float | None]) -> None:
        self._schema = schema
        self._identity = identity
        self._now = now

    def enqueueing(self, jobs: Sequence[NewJob]) -> PostgresWork[list[Enqueued]]:
        """Work that enqueues these jobs. Reading its answer raises what `Store.enqueue` raises."""
        check_first_steps(jobs)

        def read(answer: str | None) -> list[Enqueued]:
            found = () if answer is None else _loads(answer)
            if isinstance(found, dict):
                raise settling.refusal(found["refused"])
            return enqueued(jobs, found)

        call = {
            "jobs": [new_fields(job) for job in jobs],
            "payloads": [job.payload for job in jobs],
            "special": is_special(jobs),
            "starts": any(job.step is not None for job in jobs),
        }
        return self._work("enqueue_inside", call, read)

    def settling(self, settlement: Settlement) -> PostgresWork[Verdict]:
        """Work that settles a lease."""

        def read(answer: str | None) -> Verdict:
            [verdict] = settling.verdicts([settlement], None if answer is None else [answer])
            return verdict

        *each, payloads = settling.settle_arguments([settlement], known=True)
        [n, id_, fence, nonce, state, result, error, transition] = [value for [value] in each]
        call = {
            "n": n,
            "id": id_,
            "fence": fence,
            "nonce": nonce,
            "state": state,
            "result": result,
            "error": error,
            "step": None if transition is None else msgspec.Raw(transition.encode()),
            "payloads": payloads,
        }
        return self._work("settle_inside", call, read)

    def getting(self, ids: Sequence[str]) -> PostgresWork[list[JobRecord | None]]:
        """Work that reads these jobs."""

        def read(answer: str | None) -> list[JobRecord | None]:
            now, rows = _loads(answer or "[0,null]")
            jobs = (
                record_of_json(row, base64.b64decode(payload), attempts, now) for row, payload, attempts in rows or ()
            )
            found = {job.id: job for job in jobs}
            return [found.get(id_) for id_ in ids]

        call = {"ids": ["" if "\0" in id_ else id_ for id_ in ids]}
        return self._statement(GET.format(schema=self._schema, place="{}"), call, read)

    def _work(self, operation: str, call: dict[str, Any], read: Callable[[str | None], T]) -> PostgresWork[T]:
        return self._statement(f"SELECT {self._schema}.{operation}({{}})", call, read)

    def _statement(self, statement: str, call: dict[str, Any], read: Callable[[str | None], T]) -> PostgresWork[T]:
        def checked(answer: str | None) -> T:
            if answer == "elsewhere":
                raise InvalidOption(
                    f"connection= must be to the store's own database: this one has another {self._schema}"
                )
            return read(answer)

        value = dumps({"identity": self._identity, "now": self._now(), **call})
        return PostgresWork(statement, value, checked)
