"""Unwraps the entries of Rails: the call that ActiveJob has put into an entry of Resque."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenure.bridges.resque.call import Call
from tenure.errors import PayloadError

__all__ = ["WRAPPER", "unwrapped"]

WRAPPER = "ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper"
"""The class of all entries of Rails."""

KEYWORDS = "_aj_ruby2_keywords"
SYMBOLS = "_aj_symbol_keys"
MARKS = frozenset({KEYWORDS, SYMBOLS, "_aj_hash_with_indifferent_access"})
"""Members that say what kind of hash an object was in Ruby."""

SERIALIZED = "_aj_serialized"


def unwrapped(args: Sequence[Any]) -> Call:
    """The call in the arguments of a wrapper. `PayloadError` if there is none.

    Keyword arguments are the last argument, if Rails marks it as keywords or if all its keys are symbols. Times are text and durations
    are seconds. A GlobalID stays the object that it is.
    """
    job = args[0] if args else None
    if not isinstance(job, dict) or not isinstance(job.get("job_class"), str):
        raise PayloadError("the entry of ActiveJob has no job_class")
    arguments = job.get("arguments")
    if not isinstance(arguments, list):
        raise PayloadError("the entry of ActiveJob has no list of arguments")
    if arguments and _is_keywords(arguments[-1]):
        return Call(job["job_class"], [_plain(each) for each in arguments[:-1]], _plain(arguments[-1]))
    return Call(job["job_class"], [_plain(each) for each in arguments])


def _is_keywords(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if KEYWORDS in value:
        return True
    # Before Ruby 3 this is how keywords look; with a key that is text it was a hash.
    symbols = value.get(SYMBOLS)
    return isinstance(symbols, list) and bool(symbols) and value.keys() - MARKS == set(map(str, symbols))


def _plain(value: Any) -> Any:
    """A value without the marks of Rails, all the way down."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    if SERIALIZED in value and "value" in value:
        return _plain(value["value"])
    return {key: _plain(each) for key, each in value.items() if key not in MARKS}
