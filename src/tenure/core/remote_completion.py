"""Finishes a step of a run in a program that lacks the flow's code: a worker that has the code decides what follows.

Only the code of the flow knows what a value means for the run: which step is next, which attributes are written. So a
program without the code ends the step and, in the same transition, adds a job of the same step: a *decision*, whose
payload is the value. The worker that leases the decision does not call the function; it ends the job as if the function
had returned the value. `Done` needs no code and ends the run at once.
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
    """Whether this job is a decision: its step was completed in another program."""
    return job.run_id is not None and job.payload.startswith(BEGIN)


def finish_elsewhere(job: JobRecord, flow: str, value: Any, results: ResultCodec) -> Finish:
    """The transition that ends this step and adds a decision about the value; `PayloadError` if JSON cannot hold it."""
    if isinstance(value, Done):
        return Finish(State.SUCCEEDED, results.encode(value.value))
    if isinstance(value, Next):
        if value.fields or value.after:
            raise InvalidOption(
                f"Next({value.step!r:.80}).using(…) needs the code of flow {flow!r}, which this program lacks: "
                "give Next(step, **attributes), or complete it where the code is"
            )
        content: dict[str, Any] = {"next": value.step, "attributes": dict(value.attributes)}
    elif isinstance(value, Answer):
        raise TypeError(
            f"a step cannot be completed with {type(value).__name__}: give a value, Next(step) or Done(value)"
        )
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
    """The content of a decision: the name of the next step and its attributes, or None and the value."""
    content = msgspec.json.decode(job.payload)[KEY]
    return (content["next"], content["attributes"]) if "next" in content else (None, content["value"])
