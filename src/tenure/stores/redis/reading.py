"""What everybody reads, from what the scripts tell: listings, queues, workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tenure.errors import InvalidOption
from tenure.stores.base import Page, Pulse, QueueInfo, Search, Totals, WorkerInfo
from tenure.stores.redis.records import STATES, Word, described

__all__ = ["page", "queue_info", "search_words", "worker_info"]

_worker = msgspec.json.Decoder(WorkerInfo).decode
_pulse = msgspec.json.Decoder(Pulse).decode


def search_words(search: Search) -> list[Word]:
    """A search as the script reads it; a cursor that is none raises `InvalidOption`."""
    state = -1 if search.state is None else STATES.index(search.state)
    tag = "" if search.tag is None else f"={search.tag}"
    place = ("", "", "") if search.cursor is None else _place(search.cursor)
    return [state, search.queue or "", search.task or "", tag, search.limit, *place]


def page(told: Sequence[Any]) -> Page:
    jobs, cursor, looked_at = told
    found = [job for each in jobs if (job := described(each)) is not None]
    return Page(found, None if cursor is None else cursor.decode(), looked_at)


def _place(cursor: str) -> tuple[str, str, str]:
    match cursor.split(" "):
        case [group, score, seq] if group.isdigit() and seq.isdigit() and _is_number(score):
            return group, score, seq
        case _:
            raise InvalidOption(f"{cursor!r:.80} is no cursor: take the one that came with the page before")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def queue_info(name: bytes, paused: int, *told: Any) -> QueueInfo:
    *counts, totals = told
    waiting, scheduled, blocked, running, succeeded, failed, cancelled, broken = counts
    return QueueInfo(
        name=name.decode(),
        paused=bool(paused),
        waiting=waiting,
        scheduled=scheduled,
        blocked=blocked,
        running=running,
        succeeded=succeeded,
        failed=failed,
        cancelled=cancelled,
        broken=broken,
        totals=_totals(_pairs(totals)),
    )


def worker_info(_name: bytes, silent_for: bytes, told: Sequence[bytes]) -> WorkerInfo:
    fields = _pairs(told)
    worker = _worker(fields["info"])
    return msgspec.structs.replace(
        worker.beating(_pulse(fields["pulse"])) if "pulse" in fields else worker,
        started_at=float(fields["started"]),
        silent_for=float(silent_for),
        totals=_totals(fields),
    )


def _pairs(told: Sequence[bytes]) -> dict[str, bytes]:
    return {name.decode(): value for name, value in zip(told[::2], told[1::2], strict=True)}


def _totals(fields: Mapping[str, bytes]) -> Totals:
    return Totals(**{name: int(fields.get(name, 0)) for name in Totals.__struct_fields__})
