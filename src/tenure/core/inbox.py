"""What lies in the inbox of a queue: jobs as programs in other languages write them, without a client of ours.

An entry is one JSON object in UTF-8:

    {"task": "send_welcome", "args": [42], "kwargs": {"language": "de"}, "delay": 60, "unique": "user:42"}

| field | meaning |
|---|---|
| `task` | name of the task; the only field that must be there |
| `args`, `kwargs` | positional and named arguments; kept byte for byte |
| `id` | a name of the producer's own making: pushing it again is the same job. Else the taker makes one |
| `priority` | lower comes first |
| `delay` | seconds from taking in until it is due |
| `run_at` | when it is due instead: ISO 8601 with its time zone, `"2027-01-01T08:00:00Z"` |
| `expires` | seconds from taking in after which it is cancelled if it has not started |
| `unique`, `window` | a key that one job of the task holds at a time: until it is final, or for so many seconds |
| `tags` | names to find it by |
| `keep` | seconds that its record is kept once it is final |
| `max_attempts` | attempts before it fails for errors; null: for ever |

They mean what they mean for `using(...)`, and are checked by the same rules. Any other field makes the entry unreadable, as
does whatever a producer in Python would have been refused: a slip must not pass for a job that runs otherwise than meant.

The inbox of a queue can be raw instead: `@app.task(raw=True, queue=…, inbox="raw")`. Then an entry is the bytes that the task is
called with, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tenure.core.checks import job_options, name
from tenure.core.codec import MAX_DEPTH, check_limits, reason
from tenure.core.job import ErrorInfo, NewJob, new_id
from tenure.errors import PayloadError, PayloadTooLarge, TenureError

__all__ = ["ENTRY_LIMIT", "NO_RAW", "UNREAD", "read"]

ENTRY_LIMIT = 1 << 20
"""Bytes that an entry may have unless the caller says otherwise, as many as a payload may."""

NO_RAW: Mapping[str, NewJob] = MappingProxyType({})
"""No inbox is raw."""

UNREAD = "(inbox)"
"""The task of a job made of an entry that cannot be read. No task has such a name: after an operator's retry the entry is read again."""


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """An entry as it should be; what is not given is UNSET."""

    task: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    id: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    delay: float | UnsetType = UNSET
    run_at: datetime | UnsetType = UNSET
    expires: float | UnsetType | None = UNSET
    unique: str | UnsetType | None = UNSET
    window: float | UnsetType | None = UNSET
    tags: list[str] | UnsetType = UNSET
    keep: float | UnsetType | None = UNSET
    max_attempts: int | UnsetType | None = UNSET


OPTIONS = Entry.__struct_fields__[4:]


class EntryArguments(msgspec.Struct):
    """The arguments of an entry as they are written there: a number may have more digits than ours would."""

    args: msgspec.Raw = msgspec.Raw()
    kwargs: msgspec.Raw = msgspec.Raw()


_entry = msgspec.json.Decoder(Entry).decode
_arguments = msgspec.json.Decoder(EntryArguments).decode


def read(
    queue: str, entry: bytes, limit: int = ENTRY_LIMIT, raw: NewJob | None = None
) -> tuple[NewJob, ErrorInfo | None]:
    """The job that an entry makes in this queue, and what is wrong if it cannot be read.

    If the inbox is raw, `raw` is a job of the task that its entries are for: then an entry is the payload of another one like it,
    and not read at all. What is wrong is None or an error: then the job has the entry's bytes for its payload and is to be broken,
    with this error, in the same step.
    """
    try:
        return (_job(queue, entry, limit) if raw is None else _raw_job(queue, entry, limit, raw)), None
    except TenureError as error:
        broken = NewJob(id=new_id(), task=UNREAD, queue=queue, payload=entry, raw=True)
        return broken, ErrorInfo(type(error).__name__, str(error))


def _raw_job(queue: str, data: bytes, limit: int, like: NewJob) -> NewJob:
    if len(data) > limit:
        raise PayloadTooLarge(len(data), limit)
    return msgspec.structs.replace(like, id=new_id(), queue=queue, payload=data)


def _job(queue: str, data: bytes, limit: int) -> NewJob:
    if len(data) > limit:
        raise PayloadTooLarge(len(data), limit)
    try:
        entry = _entry(data)
    except Exception as error:
        raise PayloadError(f"the entry is no call of a task: {reason(error)}") from error
    # The list or object of arguments is no part of the user's nesting.
    check_limits(entry.args, MAX_DEPTH + 1)
    check_limits(entry.kwargs, MAX_DEPTH + 1)
    options = {option: value for option in OPTIONS if (value := getattr(entry, option)) is not UNSET}
    return NewJob(
        id=new_id() if entry.id is UNSET else name("job", entry.id),
        task=name("task", entry.task),
        queue=queue,
        payload=_payload(data, entry),
        **job_options(options),
    )


def _payload(data: bytes, entry: Entry) -> bytes:
    given = _arguments(data)
    members = []
    if entry.args:
        members.append(b'"args":' + bytes(given.args))
    if entry.kwargs:
        members.append(b'"kwargs":' + bytes(given.kwargs))
    return b"{" + b",".join(members) + b"}"
