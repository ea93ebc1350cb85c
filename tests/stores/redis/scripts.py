"""Scripts for links to run, of a line each."""

from __future__ import annotations

import hashlib

from tenure.stores.redis.scripts import Script

__all__ = ["COUNT", "ECHO", "FILL", "a_script"]


def a_script(source: str) -> Script:
    return Script("test", source, hashlib.sha1(source.encode()).hexdigest())


ECHO = a_script("return ARGV[1]")
COUNT = a_script("return redis.call('INCR', KEYS[1])")
FILL = a_script("return redis.call('APPEND', KEYS[1], ARGV[1])")
