"""`Call`: the call of a task that an entry stands for."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Call"]


class Call(msgspec.Struct, frozen=True):
    """The name of a class with the arguments of its job."""

    name: str
    """The class, which a task has as its name or alias."""

    args: list[Any]
    kwargs: dict[str, Any] = {}

    @property
    def payload(self) -> bytes:
        """The arguments as the payload of a job."""
        members = {"args": self.args, "kwargs": self.kwargs}
        return msgspec.json.encode({name: value for name, value in members.items() if value})
