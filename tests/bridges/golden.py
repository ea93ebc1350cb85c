"""Traces of Resque's clients: their scenes, and the keys of a server in the same form, with what varies made equal."""

from __future__ import annotations

import os
import re
import socket
from typing import Any, NamedTuple

from .traces import lines_by_scene

__all__ = ["Golden", "alike", "commands", "golden", "keys", "replay"]


class Golden(NamedTuple):
    """What a scene of a trace holds."""

    commands: list[list[str]]
    """Each begins with the connection that sent it."""

    keys: dict[str, Any]
    """All keys at its end."""


def golden(trace: str, scene: str) -> Golden:
    """One scene of a trace. `AssertionError` if there is no such scene."""
    scenes = lines_by_scene(trace)
    assert scene in scenes, f"{trace} has no scene {scene}"
    lines = scenes[scene]
    shown = {line["key"]: line["value"] for line in lines if isinstance(line, dict)}
    return Golden([line for line in lines if isinstance(line, list)], shown)


def commands(trace: str) -> list[list[str]]:
    """All commands of a trace, each without its sender."""
    return [line[1:] for lines in lines_by_scene(trace).values() for line in lines if isinstance(line, list)]


def replay(client: Any, scene: Golden, *senders: str) -> None:
    """Send the commands of these senders again."""
    for sender, *words in scene.commands:
        if sender in senders:
            client.execute_command(*words)


def keys(client: Any) -> dict[str, Any]:
    """All keys of the server in the form of a trace, without those that only bridges read."""
    found: dict[str, Any] = {}
    for key in sorted(client.scan_iter()):
        if b":tenure:" in key:
            continue
        match client.type(key):
            case b"list":
                value: Any = [each.decode() for each in client.lrange(key, 0, -1)]
            case b"set":
                value = sorted(each.decode() for each in client.smembers(key))
            case b"hash":
                value = {name.decode(): each.decode() for name, each in client.hgetall(key).items()}
            case b"zset":
                value = [[name.decode(), f"{score:g}"] for name, score in client.zrange(key, 0, -1, withscores=True)]
            case _:
                value = client.get(key).decode()
        found[key.decode()] = value
    return found


def alike(value: Any) -> Any:
    """Keys with what varies from run to run made equal: times, host and process, and places in files."""
    if isinstance(value, dict):
        return {alike(key): alike(each) for key, each in value.items()}
    if isinstance(value, list):
        return [alike(each) for each in value]
    text = value.replace(f"{socket.gethostname()}.tenure:{os.getpid()}+", "hostt.tenure:4711+")
    text = re.sub(r"\d{4}([-/])\d\d[-/]\d\d(.)\d\d:\d\d:\d\d", r"YYYY\1MM\1DD\2TIME", text)
    text = re.sub(r'"time":\d+', '"time":0', text)
    return re.sub(r'File \\"[^"]*\\", line \d+, in \w+', "FRAME", text)
