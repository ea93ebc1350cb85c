"""The JSON Schema of an entry of an inbox, docs/inbox.schema.json, made from where entries are declared and checked.

`python -m tests.inbox_schema` writes it; a test fails when the file has another.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from tenure.core import checks
from tenure.core.inbox import Entry
from tenure.core.origin import RESERVED_TAG

FILE = Path(__file__).parent.parent / "docs/inbox.schema.json"
PAGE = FILE.with_name("inbox.md")

NAME = {"pattern": f"^{checks._NAME.pattern}$"}
DATE, HOUR, SIXTY = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])", "([01][0-9]|2[0-3])", "[0-5][0-9]"
DURATION = {"minimum": 0}
TEXT = {"pattern": r"^[^\x00]*$"}

MORE: dict[str, dict[str, Any]] = {
    "task": NAME,
    "version": {"minimum": 1},
    "id": NAME,
    "priority": {"minimum": -checks._LARGEST - 1, "maximum": checks._LARGEST},
    "delay": DURATION,
    "run_at": {"format": "date-time", "pattern": f"^{DATE}T{HOUR}:{SIXTY}:{SIXTY}(\\.[0-9]+)?(Z|[+-]{HOUR}:{SIXTY})$"},
    "expires": DURATION,
    "unique": {**TEXT, "minLength": 1, "maxLength": 500},
    "window": DURATION,
    "tags": {"items": {"type": "string", **NAME, "not": {"pattern": f"^{RESERVED_TAG}"}}},
    "keep": DURATION,
    "max_attempts": {"minimum": 1, "maximum": checks._LARGEST},
    "headers": {
        "propertyNames": {"pattern": f"^{checks._HEADER.pattern}$"},
        "additionalProperties": {"type": "string", **TEXT},
        "maxProperties": checks.HEADERS,
    },
}
"""What the checks of `core/checks.py` ask of a field beyond its type. A keyword says nothing about null or another type."""

TOGETHER: dict[str, Any] = {
    "not": {"required": ["delay", "run_at"]},
    "if": {"required": ["window"], "properties": {"window": {"type": "number", "exclusiveMinimum": 0}}},
    "then": {"required": ["unique"], "properties": {"unique": {"type": "string"}}},
}
"""What they ask of two fields."""


def schema() -> dict[str, Any]:
    [entry] = msgspec.json.schema(Entry)["$defs"].values()
    meanings = documented()
    fields = {
        field: {"description": meanings[field], **flat(types), **MORE.get(field, {})}
        for field, types in entry["properties"].items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An entry of an inbox of Tenure",
        "type": "object",
        "properties": fields,
        "required": entry["required"],
        "additionalProperties": entry["additionalProperties"],
        **TOGETHER,
    }


def flat(types: dict[str, Any]) -> dict[str, Any]:
    """The same types as one list, to which keywords can be added."""
    if "anyOf" not in types:
        return types
    either = {key: value for each in types["anyOf"] for key, value in each.items() if key != "type"}
    return {"type": [each["type"] for each in types["anyOf"]], **either}


def documented() -> dict[str, str]:
    """The meaning of each field, from the table in the page, without its links."""
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    return {field: re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", meaning) for field, meaning in rows}


def written() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(written())
