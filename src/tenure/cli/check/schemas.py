"""`schema_of` describes an annotation as JSON; `accepts` says whether one reads all that was written by another."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tenure.core.annotations import UntypedDecoder, decoder_of, to_msgspec

__all__ = ["accepts", "annotation_text", "schema_of"]

Schema = Mapping[str, Any]

SILENT = frozenset({"title", "description", "default", "$defs", "examples"})
"""Members of a schema that say nothing about which values fit."""

DEEPEST = 50
"""Levels of nested schemas that are compared; what is deeper counts as different."""


def annotation_text(annotation: Any) -> str:
    """An annotation as people write it."""
    return "Any" if annotation is Any else inspect.formatannotation(annotation)


def schema_of(annotation: Any) -> Schema:
    """The JSON schema of an annotation; {} if it reads every value.

    A class that is added with `add_type` is described by its name alone, and a pydantic model by the schema of the model.
    """
    if isinstance(decoder_of(annotation), UntypedDecoder):
        return {}  # an annotation that cannot be used counts as Any
    try:
        made: Schema = msgspec.json.schema(to_msgspec(annotation), schema_hook=_described)
        msgspec.json.encode(made)
    except Exception:  # noqa: BLE001 - a type that has no schema, or values that JSON lacks
        return {"x-annotation": annotation_text(annotation)}
    return made


def _described(kind: type) -> dict[str, Any]:
    if hasattr(kind, "model_json_schema"):
        return {"x-model": kind.model_json_schema()}
    members = getattr(kind, "members", ())
    return {"x-class": [annotation_text(each) for each in members] or f"{kind.__module__}.{kind.__qualname__}"}


def accepts(new: Schema, old: Schema) -> bool:
    """Whether `new` surely reads all values that were written by `old`. False if the schemas alone do not decide it."""
    return _accepts(new, old, new.get("$defs", {}), old.get("$defs", {}), DEEPEST)


def _accepts(new: Any, old: Any, new_defs: Schema, old_defs: Schema, depth: int) -> bool:
    if not depth or not isinstance(new, Mapping) or not isinstance(old, Mapping):
        return False
    new, old = _resolved(new, new_defs), _resolved(old, old_defs)
    if not new:
        return True

    def inner(ours: Any, theirs: Any) -> bool:
        return _accepts(ours, theirs, new_defs, old_defs, depth - 1)

    if "anyOf" in old:
        return old.keys() == {"anyOf"} and all(inner(new, each) for each in old["anyOf"])
    if "anyOf" in new:
        return new.keys() == {"anyOf"} and any(inner(each, old) for each in new["anyOf"])
    if new == {"type": "number"} and old == {"type": "integer"}:
        return True
    if "enum" in new and new.keys() == old.keys() == {"enum"}:
        return all(any(type(a) is type(b) and a == b for b in new["enum"]) for a in old["enum"])
    if new.get("type") != old.get("type") or new.keys() != old.keys():
        return False
    return all(_member_accepts(key, new[key], old[key], inner) for key in new)


def _member_accepts(key: str, new: Any, old: Any, inner: Any) -> bool:
    if key in {"items", "additionalProperties"} and isinstance(new, Mapping) and isinstance(old, Mapping):
        return bool(inner(new, old))
    if key == "prefixItems":
        return len(new) == len(old) and all(map(inner, new, old))
    if key == "properties":
        return new.keys() >= old.keys() and all(inner(new[name], old[name]) for name in old)
    if key == "required":
        return set(new) <= set(old)
    return bool(new == old)


def _resolved(schema: Schema, defs: Schema) -> Schema:
    """The schema without references and without members that say nothing."""
    for _ in range(DEEPEST):
        if (where := schema.get("$ref")) is None:
            break
        schema = defs.get(re.sub(r"^#/\$defs/", "", str(where)), {"x-unknown": where})
    return {key: value for key, value in schema.items() if key not in SILENT}
