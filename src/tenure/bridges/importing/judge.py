"""`Judge`: decides whether an entry of another system becomes a job, and which. No I/O."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from tenure.bridges.importing.origin import Origin
from tenure.bridges.importing.values import Call, Entry, LeftBehind
from tenure.bridges.names import native_queue_name
from tenure.core.codec import MAX_DEPTH, check_limits
from tenure.core.job import NewJob
from tenure.core.patterns import serves
from tenure.core.units import LAST_DAY
from tenure.errors import PayloadError, UnknownTask

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.tasks.task import Task

__all__ = ["Judge", "Judgement", "Moves", "NotAskedFor", "Stays"]

KEEP = 600.0
"""Seconds that the record of a job is kept at least, so that an import that was killed does not make it again."""

_RANDOM_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.ASCII)
"""Version 4. Other ids may be used again for another call, which would then be taken for the one that the store has."""


class Moves(NamedTuple):
    """The entry becomes this job."""

    queue: str
    """The queue over there."""

    task: str
    """The name over there."""

    job: NewJob


class Stays(NamedTuple):
    """The entry cannot become a job."""

    queue: str
    task: str
    reason: str


class NotAskedFor(NamedTuple):
    """The entry is of a queue that the user has not named, or scheduled for later and that is not asked for."""


Judgement = Moves | Stays | NotAskedFor


class Judge:
    """Reads entries, and finds the task of each. Nothing is imported by name: what no task has as name or alias stays."""

    def __init__(
        self, app: App, origin: Origin, queues: Sequence[str], to: Mapping[str, str], *, scheduled: bool = True
    ) -> None:
        """`queues` are names and patterns of queues over there; `to` gives queues another name here.

        `scheduled`: whether what is scheduled for later is asked for.
        """
        self._app = app
        self._origin = origin
        self._queues = queues
        self._to = to
        self._scheduled = scheduled

    def asks_for(self, queue: str) -> bool:
        """Whether the user has asked for this queue."""
        return serves(self._queues, queue)

    def judge(self, entry: Entry) -> Judgement:
        """What becomes of an entry."""
        queue, name = entry.queue, ""
        try:
            call = self._origin.read(entry)
            queue, name = entry.queue if call.queue is None else call.queue, call.task
            if not self.asks_for(queue) or (call.run_at is not None and not self._scheduled):
                return NotAskedFor()
            job = self._job_of(entry, call, queue)
        except LeftBehind as left:
            queue = queue if left.queue is None else left.queue
            return Stays(queue, left.task or name, left.reason) if self.asks_for(queue) else NotAskedFor()
        except Exception as error:  # noqa: BLE001 - one odd entry must not stop the others
            return Stays(queue, name, f"it cannot be read: {type(error).__name__}: {error!s:.200}")
        return Moves(queue, name, job)

    def _job_of(self, entry: Entry, call: Call, queue: str) -> NewJob:
        task = self._app.tasks.get(call.task)
        if task is None:
            raise LeftBehind(str(UnknownTask(call.task, self._app.tasks)))
        if call.run_at is not None and not 0 <= call.run_at < LAST_DAY:
            raise LeftBehind(f"its time, {call.run_at:g} seconds since 1970, is none")
        keep = task._template.keep
        job = replace(
            task._template,
            id=call.id if call.id is not None and _RANDOM_UUID.fullmatch(call.id) else entry.id,
            queue=self._to[queue] if queue in self._to else native_queue_name(queue),
            payload=_payload_of(task, call),
            run_at=call.run_at,
            keep=None if keep is None else max(keep, KEEP),
        )
        if call.priority is not None:
            job = replace(job, priority=call.priority)
        if call.expires_at is not None:
            left = call.expires_at - time.time()
            if left <= 0:
                raise LeftBehind(
                    f"it expired on {datetime.fromtimestamp(call.expires_at, UTC):%Y-%m-%d at %H:%M:%S} UTC"
                )
            job = replace(job, expires=left)
        return job


def _payload_of(task: Task[..., Any], call: Call) -> bytes:
    """The payload of a call, which the task can read. `LeftBehind` if the arguments do not fit it."""
    if task._is_step:
        raise LeftBehind(
            f"{task.name!r} is a step of a flow, which no entry can start: start a run of the flow instead"
        )
    if task.options.raw:
        raise LeftBehind(f"task {task.name!r} takes raw bytes, and the entry has arguments")
    args, kwargs = call.args, call.kwargs
    try:
        if not (_is_plain(args) and _is_plain(kwargs)):
            # Values such as dates, which the task must have in its annotations to get them back as they were.
            return task.bind(*args, **kwargs).payload
        check_limits([args, kwargs], MAX_DEPTH + 2)
        payload = msgspec.json.encode({**({"args": args} if args else {}), **({"kwargs": kwargs} if kwargs else {})})
        if len(payload) > (limit := task.app.options.payload_limit):
            raise LeftBehind(f"its arguments have {len(payload):,} bytes, more than the limit of {limit:,}")
        task._call_arguments(payload, None)
    except (PayloadError, TypeError, RecursionError, UnicodeEncodeError) as error:
        raise LeftBehind(f"its arguments do not fit task {task.name!r}: {error}") from error
    return payload


def _is_plain(value: object) -> bool:
    """Whether a value is the same in JSON, so that the annotation of its parameter decides what the task gets."""
    match value:
        case None | bool() | int() | str():
            return True
        case float():
            return math.isfinite(value)
        case list() | tuple():
            return all(map(_is_plain, value))
        case dict():
            return all(type(key) is str for key in value) and all(map(_is_plain, value.values()))
        case _:
            return False
