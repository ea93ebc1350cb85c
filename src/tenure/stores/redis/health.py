"""Examines a Redis server: version, durability, eviction, memory, role and latency."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tenure.errors import StoreError
from tenure.stores.redis.link import Link
from tenure.stores.redis.pool import Forbidden
from tenure.stores.values import Fact, Health

__all__ = ["examine", "facts"]

PINGS = 10
"""Round trips that are measured; the median is reported."""

SLOW = 5.0
"""Milliseconds of a round trip above which it gets a warning."""


async def examine(link: Link) -> list[Fact]:
    """Examine the server of this link."""
    try:
        text = (await link.command("INFO")).decode(errors="replace")
    except Forbidden:
        return [
            Fact("rights", "this user may not run INFO", Health.WARN, "allow +info, so that the server can be examined")
        ]
    info = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    trips = []
    for _ in range(PINGS):
        begun = time.perf_counter()
        await link.command("PING")
        trips.append(time.perf_counter() - begun)
    return facts(info, await _appendfsync(link), sorted(trips)[PINGS // 2] * 1000)


async def _appendfsync(link: Link) -> str | None:
    """The server's `appendfsync` setting; None if this user may not read it."""
    try:
        found = await link.command("CONFIG", "GET", "appendfsync")
    except StoreError:
        return None
    pair = next(iter(found.items())) if isinstance(found, dict) and found else found
    return bytes(pair[1]).decode() if pair else None


def facts(info: Mapping[str, str], appendfsync: str | None, round_trip: float) -> list[Fact]:
    """The facts that follow from the fields of INFO, the setting of `appendfsync` and a round trip in milliseconds."""
    return [
        _version(info),
        _durability(info, appendfsync),
        _eviction(info),
        _memory(info),
        _role(info),
        _latency(round_trip),
    ]


def _version(info: Mapping[str, str]) -> Fact:
    if "valkey_version" in info:
        return Fact("version", f"Valkey {info['valkey_version']}")
    version = info.get("redis_version", "0")
    if tuple(map(int, version.split(".")[:2])) < (6, 2):
        return Fact("version", f"Redis {version}", Health.BAD, "use Redis 6.2 or newer, or Valkey")
    return Fact("version", f"Redis {version}")


def _durability(info: Mapping[str, str], appendfsync: str | None) -> Fact:
    if info.get("aof_enabled") == "1":
        match appendfsync:
            case "always":
                value = "append-only file, synced before each answer: a crash loses nothing that was acknowledged"
            case "everysec":
                value = "append-only file, synced every second: a crash may lose the last second or two"
            case "no":
                value = "append-only file, synced when the operating system decides: a crash may lose half a minute"
                return Fact("durability", value, Health.WARN, "set appendfsync to everysec or always")
            case _:
                value = "append-only file, synced as appendfsync says, which this user may not read"
        return Fact("durability", value)
    value = "snapshots only: a crash loses what came after the latest one"
    if info.get("rdb_last_bgsave_time_sec", "-1") == "-1":
        value = "no append-only file, and no snapshot since the start: a crash may lose every job"
    return Fact("durability", value, Health.WARN, "set appendonly to yes, so that acknowledged jobs survive a crash")


def _eviction(info: Mapping[str, str]) -> Fact:
    policy = info.get("maxmemory_policy", "unknown")
    if policy == "noeviction":
        return Fact("eviction", "none: a full memory refuses new jobs")
    return Fact("eviction", policy, Health.BAD, "set maxmemory-policy to noeviction: any other may delete jobs")


def _memory(info: Mapping[str, str]) -> Fact:
    used, most = int(info.get("used_memory", "0")), int(info.get("maxmemory", "0"))
    if not most:
        advice = "set maxmemory below what the machine has, so that enqueueing fails before the machine does"
        return Fact("memory", f"{_mib(used)} used, no maximum", Health.WARN, advice)
    value = f"{_mib(used)} of {_mib(most)} used"
    if used > 0.9 * most:
        return Fact("memory", value, Health.WARN, "let workers catch up, shorten the retention, or raise maxmemory")
    return Fact("memory", value)


def _mib(number: int) -> str:
    return f"{number / 2**20:,.1f} MiB"


def _role(info: Mapping[str, str]) -> Fact:
    role = info.get("role", "unknown")
    if role != "master":
        return Fact("role", role, Health.BAD, "point the URL at the master: a replica accepts no writes")
    return Fact("role", f"master with {info.get('connected_slaves', '0')} replica(s)")


def _latency(round_trip: float) -> Fact:
    value = f"{round_trip:.2f} ms a round trip"
    if round_trip > SLOW:
        return Fact("latency", value, Health.WARN, "run workers closer to the server: each call is a round trip")
    return Fact("latency", value)
