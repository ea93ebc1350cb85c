"""`perform` does what an operator asks for, and enters it in the audit. `ACTIONS` lists what can be asked for."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tenure.core.checks import name as checked_name
from tenure.jobs.audit import note
from tenure.stores.base import BATCH
from tenure.stores.values import Order, Reaped, Verdict, VerdictKind
from tenure.web.written import Refused, complete, record_of, run_again

if TYPE_CHECKING:
    from tenure.web.access import Identity
    from tenure.web.site import Site

__all__ = ["ACTIONS", "Form", "Refused", "perform", "perform_one"]

Form = Mapping[str, Sequence[str]]
"""The values of a form by name."""


PURGE_SECONDS = 20.0
"""Seconds after which a purge stops, so that its request ends; what is left can be purged again."""


class Done(tuple[str, str | Sequence[str], int]):
    """What was done, as a sentence; to what; and how many were changed."""

    __slots__ = ()


Action = Callable[["Site", Form], Awaitable[Done]]


async def perform(site: Site, viewer: Identity, action: str, form: Form) -> str:
    """Do an action and note it. Returns what was done, as a sentence. `Refused` if it cannot be done."""
    if "operation" in form:
        return await _operate(site, viewer, action, form)
    said, _, _ = await perform_one(site, viewer, action, form, by="dashboard")
    return said


async def perform_one(site: Site, viewer: Identity, action: str, form: Form, *, by: str) -> Done:
    """Do an action and note that it was done with `by`. `Refused` if it cannot be done."""
    what = NOTED_AS.get(action, action)
    if action in LONG:
        await note(site.store, who=viewer.name, by=by, what=what, target=LONG[action](form))
    try:
        done = await ACTIONS[action](site, form)
    finally:
        site.changed()
    _, target, count = done
    await note(site.store, who=viewer.name, by=by, what=what, target=target, count=count)
    return done


def one(form: Form, name: str) -> str:
    """The value of a field. `Refused` if the form has none."""
    values = form.get(name) or [""]
    if not values[0]:
        raise Refused(f"the form says no {name}")
    return values[0]


# Jobs.


def _on_jobs(operation: str, done: str) -> Action:
    """An action on the jobs with the ids in the form."""

    async def act(site: Site, form: Form) -> Done:
        ids = [checked_name("job", each) for each in form.get("id", ())][:BATCH]
        if not ids:
            raise Refused("no job is selected")
        verdicts: list[Verdict] = await getattr(site.store, operation)(ids)
        count = sum(verdict.kind is VerdictKind.OK for verdict in verdicts)
        if count == 0:
            why = next((verdict.reason for verdict in verdicts if verdict.reason), "it does not exist any more")
            raise Refused(f"{'the job was' if len(ids) == 1 else 'no job was'} not {done}: {why}")
        return Done((_said(count, len(ids), done), ids, count))

    return act


async def _delete(site: Site, form: Form) -> Done:
    ids = [checked_name("job", each) for each in form.get("id", ())][:BATCH]
    if not ids:
        raise Refused("no job is selected")
    deleted = await site.store.delete(ids, cascade=bool(form.get("cascade")))
    return Done((_said(len(deleted), len(ids), "deleted"), ids, len(deleted)))


def _said(count: int, asked: int, done: str) -> str:
    rest = f", {asked - count:,} were not" if count < asked else ""
    return f"{count:,} {'job' if count == 1 else 'jobs'} {done}{rest}"


# All jobs that fit.


async def _operate(site: Site, viewer: Identity, action: str, form: Form) -> str:
    """Start or stop the operation that the form names. It notes itself in the audit."""
    operation = site.operations.get(one(form, "operation"))
    if operation is None or operation.action != action:
        raise Refused("this count is too old: count again")
    if "stop" in form:
        site.operations.stop(operation)
        return f"it stops after this batch, {operation.done:,} are done"
    await site.operations.start(operation, viewer.name)
    return f"the {action} of all that fit has begun"


# A job, with a value that the operator writes.


async def _run_again(site: Site, form: Form) -> Done:
    record = await record_of(site, one(form, "id"))
    job = await run_again(site, record, one(form, "written"), checked_name("job", one(form, "new")))
    return Done((f"job {record.id} runs again, with what you wrote, as job {job}", [record.id, job], 1))


async def _complete(site: Site, form: Form) -> Done:
    record = await record_of(site, one(form, "id"))
    await complete(site, record, one(form, "written"))
    return Done((f"{record.task} is completed", [record.id], 1))


# Queues.


async def _pause(site: Site, form: Form) -> Done:
    queue = checked_name("queue", one(form, "queue"))
    changed = await site.store.pause(queue)
    return Done((f"queue {queue} is paused", [queue], int(changed)))


async def _resume(site: Site, form: Form) -> Done:
    queue = checked_name("queue", one(form, "queue"))
    changed = await site.store.resume(queue)
    return Done((f"queue {queue} is resumed", [queue], int(changed)))


def _purged(form: Form) -> str:
    """What is purged, as the audit shows it. `Refused` if the operator has not typed its name."""
    queue = checked_name("queue", one(form, "queue"))
    _typed(form, queue, "queue")
    return f"queue={queue}"


async def _purge(site: Site, form: Form) -> Done:
    queue, target = one(form, "queue"), [_purged(form)]
    deadline, purged = time.monotonic() + PURGE_SECONDS, 0
    while batch := await site.store.purge(queue):
        purged += batch
        if time.monotonic() > deadline:
            said = f"{_said(purged, purged, 'deleted')} from queue {queue}; some are left, so purge it again"
            return Done((said, target, purged))
    return Done((f"{_said(purged, purged, 'deleted')} from queue {queue}", target, purged))


def _typed(form: Form, name: str, kind: str) -> None:
    """Refuse unless the operator has typed this name."""
    if (form.get("typed") or [""])[0].strip() != name:
        raise Refused(f"nothing was done: type the name of the {kind}, {name}, to confirm")


# Workers.


def _ordered(order: Order, sentence: str) -> Action:
    """An order to a worker. `sentence` says what it does from its next beat on."""

    async def act(site: Site, form: Form) -> Done:
        worker = checked_name("worker", one(form, "worker"))
        if not await site.store.order(worker, order):
            raise Refused(f"worker {worker} is not registered any more")
        return Done((f"worker {worker} {sentence}", [worker], 1))

    return act


async def _retire(site: Site, form: Form) -> Done:
    worker = checked_name("worker", one(form, "worker"))
    if not any(each.id == worker and each.missing for each in await site.store.workers()):
        _typed(form, worker, "worker")  # it may be alive, and then loses its jobs
    taken: list[Reaped] = []
    while True:
        batch = await site.store.retire(worker, reason="retired by an operator")
        taken += batch
        # Stop here: if the worker is alive, another call would take the jobs that it has just leased.
        if len(batch) < BATCH:
            break
    failed = sum(each.failed for each in taken)
    lost = f", {failed:,} failed as lost" if failed else ""
    back = len(taken) - failed
    said = f"worker {worker} is retired, {back:,} {'job' if back == 1 else 'jobs'} went back to the front{lost}"
    return Done((said, [worker], 1))


async def _mark(site: Site, form: Form) -> Done:
    label = one(form, "label")
    if not label.strip() or len(label) > 100:
        raise Refused("a mark has a label of 1 to 100 characters")
    await site.store.mark(label)
    return Done((f"this moment is marked {label}", label, 1))


ACTIONS: dict[str, Action] = {
    "cancel": _on_jobs("cancel", "cancelled"),
    "retry": _on_jobs("retry", "put back in line"),
    "trigger": _on_jobs("trigger", "put in line"),
    "release": _on_jobs("release", "released"),
    "delete": _delete,
    "run again": _run_again,
    "complete": _complete,
    "pause": _pause,
    "resume": _resume,
    "purge": _purge,
    "quiet": _ordered(Order.QUIET, "takes no more jobs, and finishes those that it holds"),
    "go_on": _ordered(Order.GO_ON, "takes jobs again"),
    "stop": _ordered(Order.STOP, "finishes its jobs, then stops"),
    "retire": _retire,
    "mark": _mark,
}
"""What an operator can do, by the name that the audit shows."""

NOTED_AS = {"quiet": "order quiet", "go_on": "order go-on", "stop": "order stop"}
"""Names of actions that the audit shows otherwise: as `tenure audit` shows those of the command line."""

LONG: dict[str, Callable[[Form], str]] = {"purge": _purged}
"""Actions that may take long, which the audit notes before they begin too. Each with what checks the form and names its target."""
