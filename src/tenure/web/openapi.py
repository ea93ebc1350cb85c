"""`description` describes the JSON API as an OpenAPI 3.1 document, made of its endpoints and their schemas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.web.schemas import Problem

if TYPE_CHECKING:
    from tenure.web.endpoints import Endpoint

__all__ = ["description"]

REFERENCE = "#/components/schemas/{name}"


def description(endpoints: Sequence[Endpoint], server: str) -> dict[str, Any]:
    """The OpenAPI document of these endpoints below the path `server`."""
    types: list[type] = [Problem]
    for each in endpoints:
        types += [kind for kind in (each.answer, each.query, each.body, each.accepted) if kind is not None]
    unique = list(dict.fromkeys(types))
    made, components = msgspec.json.schema_components(unique, ref_template=REFERENCE)
    schemas = dict(zip(unique, made, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schemas, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tenure dashboard",
            "version": version("tenure"),
            "description": "What the dashboard shows and does, for programs. Values whose names sound secret are hidden.",
        },
        "servers": [{"url": server}],
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "X-CSRF-Token",
                    "description": "With the cookie of a session, for everything but GET: the token of any form of the dashboard.",
                },
            },
        },
    }


def _operation(each: Endpoint, schemas: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    responses = {
        "200": _response("The answer.", schemas[each.answer]),
        "default": _response("Why it was refused.", schemas[Problem], "application/problem+json"),
    }
    if each.accepted is not None:
        responses["202"] = _response("It goes on in the background.", schemas[each.accepted])
    operation: dict[str, Any] = {
        "operationId": each.id,
        "summary": each.summary,
        "parameters": [*_path_parameters(each.path), *_query_parameters(components[each.query.__name__])],
        "responses": responses,
    }
    if each.body is not None:
        required = bool(components[each.body.__name__].get("required"))
        content = {"application/json": {"schema": schemas[each.body]}}
        operation["requestBody"] = {"required": required, "content": content}
    return operation


def _response(text: str, schema: dict[str, Any], media: str = "application/json") -> dict[str, Any]:
    return {"description": text, "content": {media: {"schema": schema}}}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": each}
        for name, each in schema["properties"].items()
    ]
