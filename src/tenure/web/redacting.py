"""`shown_job`, `shown_run` and `shown_schedule` hide secrets in JSON documents, as the pages do."""

from __future__ import annotations

import base64
from typing import Any

from tenure.documents import json_value
from tenure.web.arguments import Naming, hidden, unnamed

__all__ = ["shown_job", "shown_run", "shown_schedule"]

Document = dict[str, Any]


def shown_job(document: Document, show: str, naming: Naming = unnamed) -> Document:
    """The document of a job as it may be shown: without secrets, or without payload and result if `show` is `hidden`."""
    if show == "hidden":
        return document | {"payload": None, "payload_base64": None, "result": None}
    payload, encoded = _shown_call(document["payload"], naming), document["payload_base64"]
    if encoded is not None:
        readable, value = json_value(base64.b64decode(encoded))
        if readable and hidden("", value) != value:  # raw bytes that are JSON with a secret
            payload, encoded = hidden("", value), None
    return document | {"payload": payload, "payload_base64": encoded, "result": hidden("", document["result"])}


def _shown_call(call: Any, naming: Naming) -> Any:
    """The call without secrets, as it was made; positional arguments have names only to find secrets among them."""
    shown = hidden("", naming(call))
    return shown if shown != naming(call) else call


def shown_run(document: Document, show: str) -> Document:
    """The document of a run, with or without its attributes, likewise."""
    shown = document | {"result": None if show == "hidden" else hidden("", document["result"])}
    if "attributes" in document:
        shown["attributes"] = {} if show == "hidden" else hidden("", document["attributes"])
    return shown


def shown_schedule(document: Document, show: str, naming: Naming = unnamed) -> Document:
    """The document of a whole schedule, likewise."""
    if show == "hidden":
        return document | {"payload": None, "attributes": None}
    return document | {
        "payload": _shown_call(document["payload"], naming),
        "attributes": hidden("", document["attributes"]),
    }
