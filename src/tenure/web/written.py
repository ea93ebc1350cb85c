"""`run_again` and `complete` act on a job with JSON that an operator writes into a form, or raise `Refused`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tenure.core.job import JobRecord, NewJob
from tenure.core.origin import user_tags
from tenure.core.redaction import HIDDEN, redacted
from tenure.errors import TenureError
from tenure.tasks.task import Call
from tenure.web.arguments import Naming, arguments_of, hidden, pretty

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["Refused", "complete", "obstacle", "record_of", "run_again", "written_call"]


class Refused(Exception):
    """The action was not done; the message says why, as a sentence."""


async def record_of(site: Site, job_id: str) -> JobRecord:
    """The job of this id. `Refused` if there is none."""
    [record] = await site.read(site.store.get([job_id]))
    if record is None:
        raise Refused("the job does not exist any more")
    return record


# Running a job again with changes.


def obstacle(record: JobRecord, show: str) -> str:
    """Why the job cannot be run again with changes, as a sentence; empty if it can."""
    if show == "hidden":
        return "this dashboard shows no arguments, so that they cannot be changed"
    if record.run_id is not None:
        return "it is a step of a flow, and a step cannot be enqueued by itself"
    if record.raw:
        return "its payload is raw bytes, which cannot be written as JSON"
    return ""


def written_call(record: JobRecord, naming: Naming) -> str:
    """The call as JSON, as it is offered for changes: secrets are hidden, and stay as they are unless they are written anew."""
    try:
        return pretty(hidden("", naming(msgspec.json.decode(record.payload))))
    except (msgspec.MsgspecError, RecursionError):
        return pretty({"args": [], "kwargs": {}})


async def run_again(site: Site, record: JobRecord, text: str, new_id: str) -> str:
    """Enqueue a new job of the same task, queue, priority, tags and headers with the call that was written. Returns its id.

    The call must fit the task's signature if its code is in the app. `new_id` was drawn with the form, so that a form that is sent
    twice makes one job.
    """
    if why := obstacle(record, site.show):
        raise Refused(why)
    call = _restored(_json(text), site.naming(record.task)(_decoded(record.payload)), "")
    payload = msgspec.json.encode(call)
    if HIDDEN.encode() in payload:
        raise Refused(f"write a value in place of {HIDDEN}, which stands where nothing was hidden")
    if not isinstance(call, dict) or call.keys() - {"args", "kwargs"} or arguments_of(payload, raw=False) is None:
        raise Refused('a call is an object with a list "args" and an object "kwargs", either of which may be left out')
    bound = _Again(_caller(site, record, payload), payload, new_id)
    try:
        [job] = await site.app.aenqueue(bound)
    except TypeError as error:
        raise Refused(str(error)) from None
    if job.duplicate:
        raise Refused(f"job {job.id} owns the unique key already, so nothing was enqueued")
    return job.id


def _caller(site: Site, record: JobRecord, payload: bytes) -> Any:
    """The caller of the job's task with the job's options. `Refused` if its code is here and the payload does not fit."""
    task = site.app.tasks.get(record.task)
    if task is not None:
        try:
            task._call_arguments(payload, None)
        except (TenureError, TypeError) as error:
            raise Refused(f"that does not fit the task: {error}") from None
    caller = site.app.remote(record.task) if task is None else task
    return caller.using(
        queue=record.queue,
        priority=record.priority,
        tags=list(user_tags(record.tags)),
        headers=record.headers or {},
    )


class _Again(Call[Any]):
    """A call whose job has an id that was drawn before."""

    __slots__ = ("_id",)

    def __init__(self, caller: Any, payload: bytes, new_id: str) -> None:
        super().__init__(caller, payload)
        self._id = new_id

    def new_job(self) -> NewJob:
        return replace(super().new_job(), id=self._id)


def _restored(new: Any, old: Any, name: str) -> Any:
    """The new value, with the old one wherever that was hidden and still is."""
    if new == HIDDEN and redacted(name):
        return old
    if isinstance(new, dict) and isinstance(old, dict):
        return {key: _restored(value, old.get(key, value), key) for key, value in new.items()}
    if isinstance(new, list) and isinstance(old, list):
        return [_restored(value, old[at] if at < len(old) else value, "") for at, value in enumerate(new)]
    return new


# Completing a job.


async def complete(site: Site, record: JobRecord, text: str) -> None:
    """End a job that is not final, or the current step of a run, as if its function had returned this JSON value."""
    value = site.app.internals.converted(record, _json(text))
    try:
        await site.app.internals.job_of(record).acomplete(value)
    except TypeError as error:
        raise Refused(str(error)) from None


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Refused(f"that is no JSON: {error}") from None


def _decoded(payload: bytes) -> Any:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.MsgspecError, RecursionError):
        return None
