"""`SCHEDULE_ACTIONS`: what an operator can do to schedules, by the name that the audit shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from tenure.core.schedule_words import obstacle_words
from tenure.core.when import words
from tenure.errors import InvalidSchedule
from tenure.jobs.plans import checked_options
from tenure.jobs.schedules import Schedule, create_schedule, find_schedule
from tenure.web.schedule_form import FIELDS, ScheduleForm

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["SCHEDULE_ACTIONS", "pages_of_form"]

Form = Mapping[str, Sequence[str]]
Done = tuple[str, Sequence[str], int]
"""What was done, as a sentence; to what; and how many were changed."""


class FormPages(NamedTuple):
    """The pages around an action that has a form."""

    form: str
    """Path of the form."""

    after: str
    """Path of the page that is shown once the action is done."""

    sent: str
    """What was typed in, so that the form can be shown again with it."""


def pages_of_form(action: str, form: Form) -> FormPages | None:
    """The pages around this action; None if it has no form."""
    # Browsers send line breaks as CRLF, and a page makes the CR visible.
    fields = {name: form[name][0].replace("\r\n", "\n") for name in FIELDS if form.get(name)}
    sent = urlencode(fields)
    if action == "schedule add":
        return FormPages("/schedules/+new", "/schedules", sent)
    if action == "schedule change" and not form.get("clear"):
        page = f"/schedules/{quote(fields.get('name', ''), safe='')}"
        return FormPages(f"{page}/change", page, sent)
    return None


async def _found(site: Site, form: Form) -> Schedule:
    return await find_schedule(site.app, (form.get("name") or [""])[0], site.store)


def _form(site: Site, form: Form) -> ScheduleForm:
    return ScheduleForm(site.app, {name: values[0] for name, values in form.items() if values})


async def _add(site: Site, form: Form) -> Done:
    given = _form(site, form)
    made = await create_schedule(site.app, given.name, given.plan(), site.store)
    return f"schedule {made.name} is added: {words(made.when)}", [made.name], 1


async def _change(site: Site, form: Form) -> Done:
    found = await _found(site, form)
    if form.get("clear"):
        if not await found.aclear():
            raise InvalidSchedule(f"schedule {found.name} has no changes to clear")
        return f"the changes of schedule {found.name} are cleared: {found.words}", [found.name], 1
    given = _form(site, form)
    when = given.when if given.has_when else None
    call = given.call
    options = {
        name: value for name, value in checked_options(given.options).items()  # type: ignore[arg-type]
        if value != getattr(found, name)
    }  # fmt: skip
    when = None if when == found.when else when
    if not await found.achange(when, call=call, **options):  # type: ignore[arg-type]
        raise InvalidSchedule(f"schedule {found.name} is like that already")
    return f"schedule {found.name} is changed: {found.words}", [found.name], 1


async def _pause(site: Site, form: Form) -> Done:
    found = await _found(site, form)
    if not await found.apause():
        raise InvalidSchedule(f"schedule {found.name} is paused already")
    return f"schedule {found.name} is paused", [found.name], 1


async def _resume(site: Site, form: Form) -> Done:
    found = await _found(site, form)
    if not await found.aresume():
        raise InvalidSchedule(f"schedule {found.name} is not paused")
    return f"schedule {found.name} is resumed from its next tick on", [found.name], 1


async def _trigger(site: Site, form: Form) -> Done:
    found = await _found(site, form)
    fired = await found.atrigger()
    kind = "job" if found.flow is None else "run"
    if not fired.enqueued:
        why = obstacle_words(fired.end, f"{kind} {fired.job_id}", found.overlap)
        raise InvalidSchedule(f"schedule {found.name} has enqueued nothing, because {why}")
    cancelled = "" if fired.replaced is None else f", {fired.replaced} is cancelled"
    return f"schedule {found.name} has enqueued {kind} {fired.job_id}{cancelled}", [found.name], 1


async def _delete(site: Site, form: Form) -> Done:
    found = await _found(site, form)
    await found.adelete()
    return f"schedule {found.name} is deleted; its jobs stay", [found.name], 1


SCHEDULE_ACTIONS: dict[str, Callable[[Site, Form], Awaitable[Done]]] = {
    "schedule add": _add,
    "schedule change": _change,
    "schedule pause": _pause,
    "schedule resume": _resume,
    "schedule trigger": _trigger,
    "schedule delete": _delete,
}
