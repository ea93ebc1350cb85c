"""Jobs and runs on their way into the store, and the handles that learn what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tenure.after import Bound, Coming
from tenure.errors import InvalidOption
from tenure.handle import Handle, Job
from tenure.job import NewJob
from tenure.stores.guests import Guest, guest
from tenure.stores.values import Enqueued

if TYPE_CHECKING:
    from tenure.flow import Start
    from tenure.run import FlowRun
    from tenure.task import Call

__all__ = ["Pending", "guest_of", "pending_of", "tell"]

Pending = tuple[NewJob, Handle | None]
"""A job on its way into the store, and the handle that learns what became of it; None if nobody has asked for one."""


def pending_of(
    calls: Sequence[Call[Any] | Start],
) -> tuple[list[Job[Any] | FlowRun], list[Pending], Sequence[Bound]]:
    """The handles of these calls; what is to be stored, in an order in which it can be; and the calls which that is."""
    if not any(call.after for call in calls):
        plain = [(new := call.new_job(), call.handle(new)) for call in calls]
        return [handle for _, handle in plain], list(plain), calls
    coming = Coming()
    jobs = [coming.add(call) for call in calls]
    handles = {new.id: call.handle(new) for call, new in zip(calls, jobs, strict=True)}
    return list(handles.values()), [(new, handles.get(new.id)) for new in coming.jobs], coming.calls


def tell(pending: Sequence[Pending], answers: Sequence[Enqueued]) -> None:
    """Let the handles know what became of their jobs."""
    for (_, handle), answer in zip(pending, answers, strict=True):
        if handle is not None:
            handle.enqueued(answer)


def guest_of(calls: Sequence[Bound], connection: object) -> Guest | None:
    """The connection that these calls are to go through, if one is given for all of them or for some."""
    given = [connection, *(call.connection for call in calls)]
    found = {id(each): each for each in given if each is not None}
    if len(found) > 1:
        raise InvalidOption("calls that are enqueued together go through one connection=, and these have several")
    return guest(*found.values()) if found else None
