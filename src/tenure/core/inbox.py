"""Reads entries of an inbox: jobs that programs in any language put into a queue without a client library.

An entry is one JSON object in UTF-8:

    {"task": "send_welcome", "args": [42], "kwargs": {"language": "de"}, "delay": 60, "unique": "user:42"}

| field | meaning |
|---|---|
| `task` | name of the task; the only required field |
| `version` | version of the task that the arguments are for. Default: 1 |
| `args`, `kwargs` | positional and named arguments; stored byte for byte |
| `id` | an id that the producer chooses: pushing it again is the same job. Default: a new id |
| `priority` | lower comes first |
| `delay` | seconds until it is due, from the moment at which the entry is read |
| `run_at` | when it is due, instead of `delay`: ISO 8601 with time zone, `"2027-01-01T08:00:00Z"` |
| `expires` | seconds, from the moment at which the entry is read, after which it is cancelled if it has not started |
| `unique`, `window` | a key that one job of the task owns at a time: until it is final, or for `window` seconds |
| `tags` | names by which it can be found |
| `keep` | seconds that its record is kept once it is final |
| `max_attempts` | attempts after which an error fails it; null: no limit |
| `headers` | an object of short texts that travel with it |

The fields mean what they mean for `using(...)`, and the same rules check them. Any other field makes the entry
unreadable, and so does a value that a producer in Python could not give. Otherwise a typing error would run as a job that
does something else than meant.

The inbox of a queue can be raw instead: `@app.task(raw=True, queue=…, inbox="raw")`. Then an entry is the payload of the
task, with no fields.
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
"""The default limit of an entry, in bytes; the same as that of a payload."""

NO_RAW: Mapping[str, NewJob] = MappingProxyType({})
"""For callers that have no raw inboxes."""

UNREAD = "(inbox)"
"""The task of a job made of an unreadable entry; no task can have this name. A retry reads the entry again."""


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """A readable entry; a field that was not given is UNSET."""

    task: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    version: int = 1
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
    headers: dict[str, str] | UnsetType | None = UNSET


OPTIONS = Entry.__struct_fields__[5:]


class EntryArguments(msgspec.Struct):
    """The arguments of an entry as its producer wrote them: a number may have more digits than Python would print."""

    args: msgspec.Raw = msgspec.Raw()
    kwargs: msgspec.Raw = msgspec.Raw()


_entry = msgspec.json.Decoder(Entry).decode
_arguments = msgspec.json.Decoder(EntryArguments).decode


def read(
    queue: str, entry: bytes, limit: int = ENTRY_LIMIT, raw: NewJob | None = None
) -> tuple[NewJob, ErrorInfo | None]:
    """Make a job of an entry in this queue; the error is None if the entry could be read.

    If the entry cannot be read, the job has the bytes of the entry as its payload, and the store marks it broken with this
    error in the operation that adds it. If the inbox is raw, `raw` is a job of its task: the entry is not read, and becomes
    the payload of a new job like `raw`.
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
        raise PayloadError(f"the entry is not a call of a task: {reason(error)}") from error
    if entry.version < 1:
        raise PayloadError(f"version must be an integer of at least 1, got {entry.version}")
    # One level more: the list or object of arguments is not the user's nesting.
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
    members = [] if entry.version == 1 else [b'"v":%d' % entry.version]
    if entry.args:
        members.append(b'"args":' + bytes(given.args))
    if entry.kwargs:
        members.append(b'"kwargs":' + bytes(given.kwargs))
    return b"{" + b",".join(members) + b"}"
