"""Reads recorded traces of other systems' clients, and gives a server the keys that it had after a scene."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

__all__ = ["lines_by_scene", "restore", "scene_keys"]

FOLDER = Path(__file__).parent / "traces"


def lines_by_scene(trace: str) -> dict[str, list[Any]]:
    """The JSON lines of a trace by the name of their scene: lists are commands, objects are keys or rows.

    What comes before the first scene, or stands in a trace without scenes, has the name "".
    """
    found: dict[str, list[Any]] = {"": []}
    scene = ""
    for line in (FOLDER / f"{trace}.trace").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            scene = line[3:].partition(":")[0].strip()
            found[scene] = []
        elif line.startswith(("[", "{")):
            found[scene].append(json.loads(line))
    return found


def scene_keys(trace: str, scene: str = "") -> Iterator[dict[str, Any]]:
    """The keys that the server had after this scene of a trace; a trace without scenes has them at its end."""
    yield from (line for line in lines_by_scene(trace)[scene] if isinstance(line, dict))


def restore(client: redis.Redis, trace: str, scene: str = "") -> None:
    """Give a server the keys of a scene."""
    keys = list(scene_keys(trace, scene))
    assert keys, f"{trace} has no scene {scene!r} with keys"
    for found in keys:
        key, value = _bytes(found["key"]), found["value"]
        match found["type"]:
            case "string":
                client.set(key, _bytes(value))
            case "list":
                client.rpush(key, *map(_bytes, value))
            case "set":
                client.sadd(key, *map(_bytes, value))
            case "zset":
                client.zadd(key, {_bytes(member): float(score) for member, score in value})
            case "hash":
                pairs = value.items() if isinstance(value, dict) else value
                client.hset(key, mapping={_bytes(name): _bytes(each) for name, each in pairs})
            case other:
                raise AssertionError(f"a key of type {other}")


def _bytes(value: Any) -> bytes:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else str(value).encode()
