"""Encodes searches, puts and firings of schedules as arguments of the scripts, and decodes pages and fired ticks."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from tenure.core.job import BlockerPolicy, NewJob
from tenure.core.schedule import (
    Firing,
    Overlap,
    SchedulePage,
    SchedulePut,
    ScheduleRecord,
    ScheduleSearch,
    TickEnd,
    TickRecord,
)
from tenure.stores.redis.encoding import ScriptArg, new_job_args
from tenure.stores.redis.records import as_text, from_text, id_of, ref_of

__all__ = ["fire_args", "fired_ticks", "page", "put_args", "search_args"]

_NIL = msgspec.Raw(b"\xc0")

_pack = msgspec.msgpack.Encoder().encode


class _Entry(msgspec.Struct, array_like=True):
    """An entry of a history as `parts/schedules.lua` packs it."""

    tick: float
    end: TickEnd
    at: float
    job: msgspec.Raw
    replaced: msgspec.Raw
    until: float | None


class _Record(msgspec.Struct, array_like=True):
    """A record as `parts/schedules.lua` describes it."""

    version: int
    active: bool
    next: float | None
    tick: float | None
    last: msgspec.Raw
    seen_at: float
    history: msgspec.Raw
    settings: str
    name: str


_entries = msgspec.msgpack.Decoder(list[_Entry]).decode
_record = msgspec.msgpack.Decoder(_Record).decode


def search_args(search: ScheduleSearch) -> list[ScriptArg]:
    """The arguments of a search."""
    if search.names is not None:
        return ["names", *search.names]
    return ["due", search.skip, search.limit] if search.due else ["all", search.after, search.limit]


def page(reply: tuple[Sequence[bytes], bytes, bytes | None]) -> SchedulePage:
    """The answer to a search."""
    records, time, soonest = reply
    now = float(time)
    return SchedulePage([*map(_schedule, records)], now, None if soonest is None else float(soonest) - now)


def put_args(puts: Sequence[SchedulePut]) -> list[ScriptArg]:
    """The arguments of puts: their number, then each put."""
    found: list[ScriptArg] = [len(puts)]
    for put in puts:
        found.append(_pack((put.name, put.if_version, put.next, put.active, put.seen)))
        found.append(b"" if put.settings is None else _pack(put.settings) + _pack(put.name))
    return found


def fire_args(firings: Sequence[Firing]) -> list[ScriptArg]:
    """The arguments of firings: their number, then each firing with its jobs."""
    found: list[ScriptArg] = [len(firings)]
    for firing in firings:
        ticks = [tick for tick, _ in firing.jobs]
        entries = [(each.tick, each.end, _ref(each.job_id), _ref(each.replaced), each.until) for each in firing.entries]
        found.append(
            _pack((firing.name, firing.version, firing.overlap, firing.end, firing.tick, firing.next, ticks, entries))
        )
        for _, job in firing.jobs:
            found += new_job_args(job)
            if firing.overlap is Overlap.WAIT:
                found += new_job_args(_waiting(job))
    return found


def _waiting(job: NewJob) -> NewJob:
    """The job with one blocker, to be enqueued if the last job is not final. The script puts in the id of the last job."""
    return replace(job, after=("",), if_blocker_fails=BlockerPolicy.PROCEED)


def fired_ticks(reply: Sequence[bytes | None]) -> list[tuple[TickRecord, ...] | None]:
    """What became of the jobs of each firing; None if the firing was refused."""
    return [None if entries is None else _history(entries) for entries in reply]


def _schedule(reply: bytes) -> ScheduleRecord:
    record = _record(reply)
    return ScheduleRecord(
        name=record.name,
        settings=record.settings,
        version=record.version,
        next=record.next,
        active=record.active,
        tick=record.tick,
        last=_id(record.last),
        seen_at=record.seen_at,
        history=_history(from_text(bytes(record.history))),
    )


def _history(entries: bytes) -> tuple[TickRecord, ...]:
    return tuple(
        TickRecord(each.tick, each.end, each.at, _id(each.job), _id(each.replaced), each.until)
        for each in _entries(entries)
    )


def _ref(job_id: str | None) -> msgspec.Raw:
    return _NIL if job_id is None else as_text(ref_of(job_id))


def _id(ref: msgspec.Raw) -> str | None:
    packed = bytes(ref)
    return None if packed == b"\xc0" else id_of(from_text(packed))
