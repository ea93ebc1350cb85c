"""`complete_step` ends the current step of a run with a value that an operator gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.core.outcome import Done, Next
from tenure.errors import InvalidOption, PayloadError

if TYPE_CHECKING:
    from tenure.jobs.run import FlowRun
    from tenure.web.site import Site

__all__ = ["complete_step"]


async def complete_step(site: Site, form: Mapping[str, Sequence[str]]) -> tuple[str, Sequence[str], int]:
    """Complete the step `step` of the run `run` with the JSON in `value`; `then` says how the run goes on.

    `WrongState` if the run is in another step by now.
    """
    given = {name: values[0] for name, values in form.items() if values}
    step, run_id = given.get("step", ""), given.get("run", "")
    try:
        run = await site.app.arun(run_id)
        await run.acomplete(_value(site, run, given), step=step or None)
    except TypeError as error:
        raise PayloadError(str(error)) from None
    following = f"it goes on with {run.step}" if not run.done else "the run has ended"
    return f"step {step} of run {run_id} is completed, {following}", [run_id], 1


def _value(site: Site, run: FlowRun, given: Mapping[str, str]) -> Any:
    """What the step is completed with; attributes and results are converted by the annotations of the flow, if it is here."""
    text, then = given.get("value", "").strip(), given.get("then", "return")
    try:
        value = msgspec.json.decode(text) if text else None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidOption(f"the value is no JSON: {error}") from None
    if then == "done":
        return Done(value)
    if then.startswith("next:"):
        if value is not None and not isinstance(value, dict):
            raise InvalidOption(
                'to go on with a step, the value is a JSON object of attributes, such as {"approved": true}'
            )
        flow = site.app.internals.flows.get(run.flow)
        return Next(then.removeprefix("next:"), **((value or {}) if flow is None else flow._converted(value or {})))
    record = run.record
    return value if value is None or record is None else site.app.internals.converted(record, value)
