"""Forms for JSON that an operator writes: `again` runs a job again with changes, `complete` ends it with a value."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.core.job import new_id
from tenure.core.redaction import HIDDEN, redacted
from tenure.web.page import Address, Page, Region
from tenure.web.written import Refused, obstacle, record_of, written_call

if TYPE_CHECKING:
    from tenure.core.job import JobRecord
    from tenure.web.site import Site

__all__ = ["again", "complete"]

LONGEST = 100_000
"""Characters of a call that can be changed in a form."""


class WrittenView(msgspec.Struct, frozen=True, kw_only=True):
    """A form with one text."""

    id: str
    task: str
    queue: str
    text: str
    signature: str
    """Signature of the task, if its code is here, so that the text is checked by it; else empty."""

    new: str = ""
    """Id of the job that will be enqueued."""

    obstacle: str = ""
    """Why it cannot be done, as a sentence."""


async def again(site: Site, at: Address) -> Page:
    """The call of a job, to be changed and enqueued as a new job."""
    record = await _found(site, at)
    if record is None:
        return _missing()
    why = obstacle(record, site.show)
    text = "" if why else site.take_draft(at.viewer, at.path) or written_call(record, site.naming(record.task))
    if len(text) > LONGEST:
        why, text = f"its arguments have {len(text):,} characters, which is too much for a form", ""
    view = _view(site, record, text, new=new_id(), obstacle=why)
    region = Region("written", "written/again.html", view)
    return Page(title=f"Run {record.task} again", kind="jobs", every=0.0, regions=(region,))


async def complete(site: Site, at: Address) -> Page:
    """A value that ends a job, as if its function had returned it."""
    record = await _found(site, at)
    if record is None:
        return _missing()
    why = f"it is {record.state} already" if record.state.final else ""
    view = _view(site, record, site.take_draft(at.viewer, at.path) or "null", obstacle=why)
    region = Region("written", "written/complete.html", view)
    return Page(title=f"Complete {record.task}", kind="jobs", every=0.0, regions=(region,))


async def _found(site: Site, at: Address) -> JobRecord | None:
    try:
        return await record_of(site, at.names["id"])
    except Refused:
        return None


def _missing() -> Page:
    return Page(
        title="No such job", kind="jobs", every=0.0, status=404, regions=(Region("written", "written/gone.html", None),)
    )


def _view(site: Site, record: JobRecord, text: str, **more: Any) -> WrittenView:
    task = site.app.tasks.get(record.task)
    signature = "" if task is None else f"{record.task}{_shown(task._signature.call)}"
    return WrittenView(id=record.id, task=record.task, queue=record.queue, text=text, signature=signature, **more)


def _shown(call: inspect.Signature) -> inspect.Signature:
    """The signature with the defaults of parameters that may be secrets hidden."""
    return call.replace(
        parameters=[
            each.replace(default=HIDDEN) if each.default is not each.empty and redacted(each.name) else each
            for each in call.parameters.values()
        ]
    )
