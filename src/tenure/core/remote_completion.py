"""Completing a step of a run where its code is not: the value goes to a worker that has the code, which decides what follows.

What a value means for a run (which step is next, which attributes are written) only the code of the flow knows. So a program
without it ends the step and, in the same transition, adds a job of the same step: a *decision*, whose payload is the value. The worker that
leases the decision does not call the function; it ends the job as if the function had given the value. `Done` needs no code and ends the
run at once.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tenure.core.codec import ResultCodec
from tenure.core.job import JobRecord, NewJob, RunStep, State, new_id
from tenure.core.lifecycle import Finish
from tenure.core.outcome import Answer, Done, Next
from tenure.errors import InvalidOption

__all__ = ["decision_of", "finish_elsewhere", "is_decision"]

KEY = "$completed"
BEGIN = f'{{"{KEY}":'.encode()


def is_decision(job: JobRecord) -> bool:
    """Whether this step was completed elsewhere, and is to be decided about."""
    return job.run_id is not None and job.payload.startswith(BEGIN)


def finish_elsewhere(job: JobRecord, flow: str, value: Any, results: ResultCodec) -> Finish:
    """The end of this step with a value whose meaning is not known here; `PayloadError` if JSON cannot hold it."""
    if isinstance(value, Done):
        return Finish(State.SUCCEEDED, results.encode(value.value))
    if isinstance(value, Next):
        if value.fields or value.after:
            raise InvalidOption(
                f"Next({value.step!r:.80}).using(…) needs the code of flow {flow!r}, which is not here: "
                "give Next(step, **attributes), or complete it where the code is"
            )
        content: dict[str, Any] = {"next": value.step, "attributes": dict(value.attributes)}
    elif isinstance(value, Answer):
        raise TypeError(f"a step is not completed with {type(value).__name__}: give a value, Next(step) or Done(value)")
    else:
        content = {"value": value}
    decision = NewJob(
        id=new_id(),
        task=job.task,
        queue=job.queue,
        payload=results.encode({KEY: content}).encode(),
        priority=job.priority,
        tags=job.tags,
        keep=job.keep,
        lease=job.lease,
        max_losses=job.max_losses,
        step=RunStep(run_id=job.run_id or "", flow=flow),
    )
    return Finish(State.SUCCEEDED, "null", successor=decision)


def decision_of(job: JobRecord) -> tuple[str | None, Any]:
    """What a decision is about: the name of the step that is to be next and the attributes for it, or None and the value."""
    content = msgspec.json.decode(job.payload)[KEY]
    return (content["next"], content["attributes"]) if "next" in content else (None, content["value"])
