"""`pickled`: the data of a pickle that an entry has, read without unpickling it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tenure.bridges.importing.inert import InertError, read_pickle
from tenure.bridges.importing.values import LeftBehind

__all__ = ["arguments_of", "pickled"]


def pickled(data: bytes, records: Collection[str] = ()) -> Any:
    """The value of a pickle. `LeftBehind` if it is more than plain data."""
    try:
        return read_pickle(data, records)
    except InertError as error:
        raise LeftBehind(f"{error}; pickles are never run") from error


def arguments_of(args: Any, kwargs: Any, task: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call. `LeftBehind` if they are none."""
    if (
        not isinstance(args, list | tuple)
        or not isinstance(kwargs, dict)
        or not all(type(each) is str for each in kwargs)
    ):
        raise LeftBehind("its arguments are not those of a call", task)
    return list(args), kwargs
