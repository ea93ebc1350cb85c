"""`arguments_of` shows what a job was called with, with secrets hidden; `text_is_shown` searches in what is shown."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tenure.core.job import JobRecord
from tenure.core.redaction import HIDDEN, redacted

__all__ = ["arguments_of", "brief", "hidden", "pretty", "text_is_shown"]

BRIEF = 120
"""Characters of the arguments in a row of a listing."""


def arguments_of(payload: bytes, *, raw: bool) -> list[tuple[str, Any]] | None:
    """The arguments by name, positional ones under their number; None if the payload cannot be read as a call."""
    if raw:
        return None
    try:
        call = msgspec.json.decode(payload)
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


def brief(job: JobRecord, show: str) -> str:
    """The arguments in one line, cut to `BRIEF` characters."""
    if show == "hidden":
        return ""
    call = arguments_of(job.payload, raw=job.raw)
    if call is None:
        # A payload that was cut for the listing is no JSON any more, and what cannot be read cannot be searched for secrets.
        return job.payload[:BRIEF].decode("utf-8", "replace") if job.raw else "…"
    parts = [
        _short(hidden(name, value)) if name.isdigit() else f"{name}={_short(hidden(name, value))}"
        for name, value in call
    ]
    text = ", ".join(parts)
    return text if len(text) <= BRIEF else text[: BRIEF - 1] + "…"


def text_is_shown(job: JobRecord, text: str) -> bool:
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
        shown = hidden("", msgspec.json.decode(job.payload))
        # Producers write JSON with and without spaces between its parts.
        return text in msgspec.json.encode(shown).decode() or text in json.dumps(shown, ensure_ascii=False)
    except RecursionError:
        return False


def pretty(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
