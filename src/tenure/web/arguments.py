"""`arguments_of` shows what a job was called with, with secrets hidden; `text_is_shown` searches in what is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.core.job import JobRecord
from tenure.core.redaction import HIDDEN, redacted

if TYPE_CHECKING:
    from tenure.tasks.task import Task

__all__ = ["Naming", "arguments_of", "brief", "hidden", "naming_of", "pretty", "text_is_shown", "unnamed"]

BRIEF = 120
"""Characters of the arguments in a row of a listing."""


Naming = Callable[[Any], Any]
"""Gives the positional arguments of a call their names, as far as they are known."""


def unnamed(call: Any) -> Any:
    """The call as it is, because the code of its task is not here."""
    return call


def naming_of(task: Task[..., Any] | None) -> Naming:
    """How to name the positional arguments of calls of this task; None: its code is not here."""
    if task is None or task.options.raw:
        return unnamed
    parameters = task._signature.call.parameters.values()
    names = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    if any(each.kind is each.POSITIONAL_ONLY for each in parameters):
        return unnamed  # a call cannot name these
    version = task.options.version

    def named(call: Any) -> Any:
        args, kwargs = (call.get("args", []), call.get("kwargs", {})) if isinstance(call, dict) else ([], {})
        if not isinstance(args, list) or not isinstance(kwargs, dict) or not 0 < len(args) <= len(names):
            return call
        if call.get("v", 1) != version:
            return call  # other parameters may have stood there
        rest = {key: value for key, value in call.items() if key not in {"args", "kwargs"}}
        return {**rest, "kwargs": {**dict(zip(names, args, strict=False)), **kwargs}}

    return named


def arguments_of(payload: bytes, *, raw: bool, naming: Naming = unnamed) -> list[tuple[str, Any]] | None:
    """The arguments by name, positional ones without a known name under their number; None if the payload is no call."""
    if raw:
        return None
    try:
        call = naming(msgspec.json.decode(payload))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    if not isinstance(call, dict):
        return None
    args, kwargs = call.get("args", []), call.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        return None
    return [*((str(number), value) for number, value in enumerate(args)), *kwargs.items()]


def hidden(name: str, value: Any) -> Any:
    """The value as it may be shown under this name: secrets in it, at any depth, are hidden."""
    if redacted(name):
        return HIDDEN
    if isinstance(value, dict):
        return {key: hidden(key, each) for key, each in value.items()}
    if isinstance(value, list):
        return [hidden("", each) for each in value]
    return value


def brief(job: JobRecord, show: str, naming: Naming = unnamed) -> str:
    """The arguments in one line, cut to `BRIEF` characters."""
    if show == "hidden":
        return ""
    call = arguments_of(job.payload, raw=job.raw, naming=naming)
    if call is None:
        # A payload that was cut for the listing is no JSON any more, and what cannot be read cannot be searched for secrets.
        return job.payload[:BRIEF].decode("utf-8", "replace") if job.raw else "…"
    parts = [
        _short(hidden(name, value)) if name.isdigit() else f"{name}={_short(hidden(name, value))}"
        for name, value in call
    ]
    text = ", ".join(parts)
    return text if len(text) <= BRIEF else text[: BRIEF - 1] + "…"


def text_is_shown(job: JobRecord, text: str, naming: Naming = unnamed) -> bool:
    """Whether the job's arguments, as far as they are not hidden, or its error contain this text.

    A store searches in whole payloads. Its answer must be checked with this, because otherwise a viewer could find out a hidden value
    letter by letter. A payload that is cut cannot be checked, and counts as not shown.
    """
    error = job.error
    if error is not None and (text in error.type or text in error.message):
        return True
    if job.raw:
        return text in job.payload.decode("utf-8", "replace")
    if arguments_of(job.payload, raw=False) is None:
        return False
    try:
        shown = hidden("", naming(msgspec.json.decode(job.payload)))
        # Producers write JSON with and without spaces between its parts.
        return text in msgspec.json.encode(shown).decode() or text in json.dumps(shown, ensure_ascii=False)
    except RecursionError:
        return False


def pretty(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
