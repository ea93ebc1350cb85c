"""Encodes puts and firings of schedules as arguments of the operations, and makes records of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from tenure.core.schedule import (
    HISTORY_LENGTH,
    Firing,
    SchedulePage,
    SchedulePut,
    ScheduleRecord,
    ScheduleSearch,
    TickRecord,
)
from tenure.stores.postgres.records import dumps, is_special, new_fields

__all__ = ["FIND", "fire_arguments", "fired", "put_arguments", "schedule_page", "search_arguments", "valid_names"]

FIND = "SELECT (f.schedule).*, f.now, f.due_in FROM {schema}.find_schedules($1, $2, $3, $4, $5, $6) AS f"

_decode_ticks = msgspec.json.Decoder(tuple[TickRecord, ...]).decode


def valid_names(names: Sequence[str]) -> list[str]:
    """Names without NUL, which PostgreSQL refuses. A name with one becomes empty, which is no schedule's name either."""
    return ["" if "\0" in name else name for name in names]


def search_arguments(search: ScheduleSearch) -> list[Any]:
    """The arguments of `find_schedules` after the time."""
    names = None if search.names is None else valid_names(search.names)
    # No name has a NUL, so those after "a\0b" are those after "a".
    return [names, search.due, search.skip, search.after.partition("\0")[0], search.limit]


def schedule_page(rows: Sequence[Any]) -> SchedulePage:
    """The answer of `find_schedules`."""
    *found, last = rows
    return SchedulePage([_schedule_record(row) for row in found], last["now"], last["due_in"])


def _schedule_record(row: Any) -> ScheduleRecord:
    name, settings, version, next_, active, tick, last, seen_at, history = row[:9]
    return ScheduleRecord(
        name=name,
        settings=settings,
        version=version,
        next=next_,
        active=active,
        tick=tick,
        last=last,
        seen_at=seen_at,
        history=_ticks(history),
    )


def _ticks(texts: Sequence[str]) -> tuple[TickRecord, ...]:
    return _decode_ticks(f"[{','.join(texts)}]")


def put_arguments(puts: Sequence[SchedulePut]) -> list[Any]:
    """The arguments of `put_schedules` after the time: one array for each of its parameters."""
    return [
        [put.name for put in puts],
        [put.if_version for put in puts],
        [put.settings for put in puts],
        [put.next for put in puts],
        [put.active for put in puts],
        [put.seen for put in puts],
    ]


def fire_arguments(firings: Sequence[Firing]) -> list[Any]:
    """The arguments of `fire` after the time."""
    jobs = [job for firing in firings for _, job in firing.jobs]
    return [
        dumps(_encode_firings(firings)),
        [job.id for job in jobs],
        [dumps(new_fields(job)) for job in jobs],
        [job.payload for job in jobs],
        [is_special([job]) for job in jobs],
        HISTORY_LENGTH,
    ]


def _encode_firings(firings: Sequence[Firing]) -> list[dict[str, Any]]:
    encoded, first = [], 1
    for firing, name in zip(firings, valid_names([firing.name for firing in firings]), strict=True):
        fields: dict[str, Any] = {
            "name": name,
            "version": firing.version,
            "overlap": firing.overlap,
            "ends_as": firing.end,
            "tick": firing.tick,
            "next": firing.next,
            "first": first,
            "ticks": [tick for tick, _ in firing.jobs],
        }
        if firing.entries:
            fields["entries"] = [_entry_fields(entry) for entry in firing.entries]
        encoded.append(fields)
        first += len(firing.jobs)
    return encoded


def _entry_fields(entry: TickRecord) -> dict[str, Any]:
    """An entry without `at`, which `fire` sets."""
    return {name: value for name, value in asdict(entry).items() if name != "at" and value is not None}


def fired(firings: Sequence[Firing], answers: Sequence[Any]) -> list[tuple[TickRecord, ...] | None]:
    """What became of each firing. One that the answer of `fire` does not name was refused."""
    known: dict[int, list[str]] = dict(answers)
    return [_ticks(known[at]) if at in known else None for at in range(1, len(firings) + 1)]
