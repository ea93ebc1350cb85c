"""Reads and writes the entries of Resque's queues, as its Ruby, Node and Python clients write them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tenure.bridges.resque.active_job import WRAPPER, unwrapped
from tenure.bridges.resque.call import Call
from tenure.core.codec import ANY_DECODER, MAX_DEPTH, check_limits, reason, written
from tenure.errors import PayloadError

__all__ = ["Call", "Client", "payload_of", "read_entry", "written_entry"]

Client = Literal["ruby", "node"]
"""The client whose bytes an entry has."""


def read_entry(entry: bytes) -> Call:
    """The call of an entry, of whichever client. `PayloadError` if it is none.

    Members that it does not know are ignored. Arguments that are no list are one argument; without any there are none.
    """
    try:
        found = msgspec.json.decode(entry)
    except Exception as error:
        raise PayloadError(f"the entry is not JSON: {reason(error)}") from error
    if not isinstance(found, dict) or not isinstance(found.get("class"), str):
        raise PayloadError("the entry is no JSON object with a class")
    args = found.get("args")
    arguments = args if isinstance(args, list) else [] if args is None else [args]
    check_limits(arguments, MAX_DEPTH + 1)
    if found["class"] == WRAPPER:
        return unwrapped(arguments)
    return Call(found["class"], arguments)


def payload_of(entry: bytes) -> bytes:
    """What the list of failures shows of an entry: the entry, or an object with its text if it is no JSON object with a class."""
    try:
        msgspec.json.decode(entry, type=_Classed)
    except Exception:  # noqa: BLE001  (not JSON, or no text)
        return msgspec.json.encode({"class": "(unreadable)", "args": [entry.decode(errors="backslashreplace")]})
    return entry


def written_entry(
    name: str, args: tuple[Any, ...], *, queue: str, client: Client = "ruby", delayed: bool = False
) -> bytes:
    """An entry as this client writes it. `PayloadError` if JSON cannot hold an argument.

    Node removes an entry by its exact bytes, and its own have the queue between class and arguments. A delayed entry always has the
    queue, which a scheduler needs.
    """
    data = msgspec.Raw(written(list(args), ANY_DECODER, f"the arguments of {name!r}"))
    if client == "node":
        return msgspec.json.encode({"class": name, "queue": queue, "args": data})
    if delayed:
        return msgspec.json.encode({"class": name, "args": data, "queue": queue})
    return msgspec.json.encode({"class": name, "args": data})


class _Classed(msgspec.Struct):
    name: str = msgspec.field(name="class")
