"""Reads and writes the attributes of Guild's jobs: fields of a hash, each with a JSON text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.bridges.custody import End
from tenure.core.codec import reason
from tenure.core.job import State
from tenure.errors import PayloadError

__all__ = ["GuildJob", "failure_texts", "lookup_values", "read_text", "result_texts", "written_text"]

FLAGS = frozenset({"done", "failed"})
"""Attributes that Guild's monitor sets to the text "true", and its workers to true."""


class GuildJob(msgspec.Struct, frozen=True):
    """A job of a Guild flow as it is in Redis, read by `guild.job` or `guild.find`. It expires there a day after its creation."""

    id: str
    attributes: dict[str, Any]
    """What the job was created with, and what its queues have added, by name."""

    @property
    def done(self) -> bool:
        """Whether the job has gone through its last queue, or has failed."""
        return self.attributes.get("done") is True

    @property
    def failed(self) -> bool:
        """Whether a queue has failed; `error` says why."""
        return self.attributes.get("failed") is True

    @property
    def error(self) -> str | None:
        """Why the job failed."""
        message = self.attributes.get("failedErrorMsg")
        return None if message is None else str(message)

    @property
    def completed_queue(self) -> str | None:
        """The queue that was completed last; None if none was."""
        return self.attributes.get("completed-queue")


def read_text(name: str, text: bytes | None) -> Any:
    """The value of an attribute; None if the hash has none of this name. `PayloadError` if its text is not JSON."""
    if text is None:
        return None
    try:
        value = msgspec.json.decode(text)
    except Exception as error:
        raise PayloadError(f"attribute {name!r} is not JSON: {reason(error)}") from error
    return True if name in FLAGS and value == "true" else value


def read_job(job_id: bytes | str, texts: Sequence[bytes]) -> GuildJob:
    """The job of this id. `texts` are its fields as Redis lists them: a name, its text, and so on."""
    names = (name.decode() for name in texts[::2])
    attributes = {name: read_text(name, text) for name, text in zip(names, texts[1::2], strict=True)}
    return GuildJob(job_id if isinstance(job_id, str) else job_id.decode(), attributes)


def written_text(name: str, value: object) -> bytes:
    """The text of an attribute. `PayloadError` if the value is not JSON."""
    try:
        return msgspec.json.encode(value)
    except Exception as error:
        raise PayloadError(f"attribute {name!r} cannot be written as JSON: {reason(error)}") from error


def lookup_values(text: bytes) -> list[str]:
    """The values by which an attribute with this text is found, as JavaScript writes them: that of a text or number, or those of a list."""
    value = msgspec.json.decode(text)
    if isinstance(value, list):
        return [_shown(each) for each in value if not isinstance(each, list | dict)]
    return [_shown(value)] if isinstance(value, str | int | float) and not isinstance(value, bool) else []


def _shown(value: str | float | None) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return msgspec.json.encode(value).decode()


def result_texts(result: str | None) -> tuple[str, dict[str, bytes]]:
    """The queue that a result names as the next, or an empty text, and the texts of its attributes.

    `TypeError` if it is no result of a queue.
    """
    if result is None or result == "null":
        return "", {}
    if not result.startswith("{"):
        raise TypeError(f"a queue of Guild returns a mapping of attributes, or None, not {result:.80}")
    found = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
    following = found.pop("nextQueue", None)
    named = None if following is None else msgspec.json.decode(following)
    if named is not None and not isinstance(named, str):
        raise TypeError(f"nextQueue must be the name of a queue, not {named!r:.80}")
    return named or "", {name: bytes(text) for name, text in found.items()}


def failure_texts(end: End) -> dict[str, bytes]:
    """What the hash of a job says after this end, which is no success. The script adds the name of the queue."""
    if end.error is not None:
        message = end.error.message or end.error.type
    else:
        message = "the job was cancelled" if end.state is State.CANCELLED else f"the job is {end.state}"
    return {"done": b"true", "failed": b"true", "failedErrorMsg": msgspec.json.encode(message)}
