"""Encodes searches and decodes the replies of reading scripts: listings, runs, queues, workers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tenure.core.job import State, shortened
from tenure.stores.cursors import no_cursor, number_of
from tenure.stores.redis.encoding import ScriptArg
from tenure.stores.redis.records import NUMBERS, decode_job, error_templates, id_of, ref_of
from tenure.stores.values import (
    LOOK,
    Announcement,
    AnnouncementKind,
    Change,
    Consequence,
    EdgeInfo,
    Order,
    Page,
    Pulse,
    QueueInfo,
    RunPage,
    RunRecord,
    RunSearch,
    Search,
    Totals,
    WorkerInfo,
)

__all__ = [
    "attributes",
    "decode_announcement",
    "edges",
    "page",
    "queue_info",
    "run_page",
    "run_record",
    "runs_args",
    "search_args",
    "split_reply",
    "steps_args",
    "steps_page",
    "worker_info",
]

_worker = msgspec.json.Decoder(WorkerInfo).decode
_pulse = msgspec.json.Decoder(Pulse).decode
_json = msgspec.json.Encoder().encode
_ERROR_TEMPLATES = error_templates()


_WITH_CONSEQUENCES = b"\0consequences"


def split_reply(reply: Any) -> tuple[Any, Sequence[Consequence]]:
    """The answer of a script, and its consequences: changes of jobs that the caller did not name."""
    if type(reply) is not list or len(reply) != 3 or reply[0] != _WITH_CONSEQUENCES:
        return reply, ()
    _, answer, consequences = reply
    each = zip(consequences[::4], consequences[1::4], consequences[2::4], consequences[3::4], strict=True)
    return answer, [
        Consequence(Change(how.decode()), id_of(ref), task.decode(), queue.decode()) for how, ref, task, queue in each
    ]


def decode_announcement(message: bytes) -> list[Announcement]:
    """The announcement in a message on the channel of a store object."""
    kind, _, ref = message.partition(b" ")
    return [
        Announcement(AnnouncementKind(kind.decode()), id_of(ref)) if ref else Announcement(AnnouncementKind.WORK, "")
    ]


_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII).fullmatch
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]+)?(e[+-]?[0-9]{1,2})?", re.ASCII).fullmatch


def search_args(search: Search) -> list[ScriptArg]:
    """The arguments of a search; `InvalidOption` for an invalid cursor."""
    state = -1 if search.state is None else NUMBERS[search.state]
    tag = "" if search.tag is None else f"={search.tag}"
    position = ("", "", "") if search.cursor is None else _cursor_position(search.cursor)
    part = "" if search.scheduled is None else int(search.scheduled)
    before = "" if search.before is None else repr(search.before)
    brief = "" if search.brief is None else search.brief
    look = min(search.look, LOOK)
    return [
        state, search.queue or "", search.task or "", tag, search.limit, *position, part, before, look, brief,
        _filter(search),
    ]  # fmt: skip


def _filter(search: Search) -> bytes:
    """What `parts/filtering.lua` compares jobs with; empty if the search has no such filter."""
    if search.worker is None and search.error is None and search.text is None:
        return b""
    wanted: dict[str, object] = {"templates": _ERROR_TEMPLATES}
    if search.worker is not None:
        wanted["worker"] = search.worker
    if search.error is not None:
        wanted |= {"error": search.error, "error_json": _json(search.error).decode()}
    if search.text is not None:
        wanted |= {"text": search.text, "text_json": _json(search.text).decode()[1:-1]}
    return msgspec.msgpack.encode(wanted)


def page(search: Search, reply: Sequence[Any]) -> Page:
    jobs, cursor, looked_at = reply
    found = [shortened(job, search.brief) for each in jobs if (job := decode_job(each)) is not None]
    return Page(found, None if cursor is None else cursor.decode(), looked_at)


def _cursor_position(cursor: str) -> tuple[str, str, str]:
    match cursor.split(" "):
        case [group, score, seq] if _WHOLE(group) and _WHOLE(seq) and _NUMBER(score):
            return group, score, seq
        case _:
            raise no_cursor(cursor)


def edges(reply: Sequence[tuple[bytes | None, int]]) -> list[EdgeInfo]:
    return [EdgeInfo(None if ref is None else id_of(ref), bool(is_open)) for ref, is_open in reply]


# Runs.


def runs_args(search: RunSearch) -> list[ScriptArg]:
    """The arguments of a search for runs; `InvalidOption` for an invalid cursor."""
    state = -1 if search.state is None else NUMBERS[search.state]
    lookup = () if search.lookup is None else search.lookup
    cursor = "" if search.cursor is None else number_of(search.cursor)
    return [search.flow or "", state, search.limit, cursor, *lookup]


def run_page(reply: Sequence[Any]) -> RunPage:
    runs, cursor, looked_at = reply
    return RunPage([run_record(*each) for each in runs], None if cursor is None else cursor.decode(), looked_at)


def run_record(
    ref: bytes, flow: bytes, created_at: bytes, queue_before: bytes | None, reply: Sequence[Any]
) -> RunRecord:
    step = decode_job(reply)
    assert step is not None
    before = None if queue_before is None else queue_before.decode()
    completed = step.queue if step.state is State.SUCCEEDED else before
    return RunRecord(id_of(ref), flow.decode(), float(created_at), step, completed)


def steps_args(run_id: str, limit: int, cursor: str | None) -> list[ScriptArg]:
    """The arguments for a page of a run's steps. The cursor is the id of the first step of the page."""
    return [ref_of(run_id), limit, *(() if cursor is None else (ref_of(cursor),))]


def steps_page(reply: Sequence[Any]) -> Page:
    steps, behind = reply
    found = [job for each in steps if (job := decode_job(each)) is not None]
    return Page(found, None if behind is None else id_of(behind), len(found))


def attributes(reply: Sequence[Any]) -> dict[str, str]:
    """Attributes from names and values in turn; those without a value are left out."""
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return {name if isinstance(name, str) else name.decode(): text.decode() for name, text in pairs if text is not None}


# Queues and workers.


def queue_info(name: bytes, paused: int, oldest: bytes | None, *reply: Any) -> QueueInfo:
    *counts, totals = reply
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
        oldest=None if oldest is None else float(oldest),
    )


def worker_info(_name: bytes, silent_for: bytes, reply: Sequence[bytes]) -> WorkerInfo:
    fields = _pairs(reply)
    worker = _worker(fields["info"])
    return msgspec.structs.replace(
        worker.beating(_pulse(fields["pulse"])) if "pulse" in fields else worker,
        started_at=float(fields["started"]),
        order=Order(fields["order"].decode()) if "order" in fields else Order.GO_ON,
        silent_for=float(silent_for),
        totals=_totals(fields),
    )


def _pairs(reply: Sequence[bytes]) -> dict[str, bytes]:
    return {name.decode(): value for name, value in zip(reply[::2], reply[1::2], strict=True)}


def _totals(fields: Mapping[str, bytes]) -> Totals:
    return Totals(**{name: int(fields.get(name, 0)) for name in Totals.__struct_fields__})
