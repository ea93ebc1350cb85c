"""`complete_step` ends the current step of a run with a value that an operator gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.core.outcome import Done, Next
from tenure.errors import InvalidOption, PayloadError

if TYPE_CHECKING:
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
        await run.acomplete(_value(given), step=step or None)
    except TypeError as error:
        raise PayloadError(str(error)) from None
    following = f"it goes on with {run.step}" if not run.done else "the run has ended"
    return f"step {step} of run {run_id} is completed, {following}", [run_id], 1


def _value(given: Mapping[str, str]) -> Any:
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
        return Next(then.removeprefix("next:"), **(value or {}))
    return value
