"""Reads the traces of other systems' clients, replays them, and compares what a bridge writes with them."""

from __future__ import annotations

import re
import socket
from base64 import b64decode
from codecs import escape_decode
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import redis

from .traces import lines_by_scene

__all__ = ["Monitor", "Scene", "There", "keys_of", "replay", "scenes_of"]

There: TypeAlias = Any
"""A client of the other system's Redis: `redis.Redis`, whose annotations do not say that it answers with bytes."""

Command = list[str]
Keys = dict[str, Any]


@dataclass
class Scene:
    """A step of a trace."""

    commands: list[Command] = field(default_factory=list)
    """Each begins with who sent it: a client, `lua` (inside a script), or `t` (what Tenure is to do)."""

    keys: Keys = field(default_factory=dict)
    """All keys at its end; empty if the trace does not say."""

    def of(self, *who: str) -> list[Command]:
        """The words of the commands of these senders, without transactions."""
        return [words for sender, *words in self.commands if sender in who and words[0] not in ("MULTI", "EXEC")]


def scenes_of(trace: str) -> dict[str, Scene]:
    """The scenes of a trace by name. tests/bridges/traces has the files."""
    return {
        name: Scene(
            [line for line in lines if isinstance(line, list)],
            {line["key"]: _value(line["type"], line["value"]) for line in lines if isinstance(line, dict)},
        )
        for name, lines in lines_by_scene(trace).items()
    }


def replay(client: There, commands: list[Command]) -> None:
    """Send these commands, except for scripts and what only the sender of a transaction needs."""
    for words in commands:
        if words[0] not in ("EVAL", "WATCH", "SUBSCRIBE"):
            client.execute_command(*words)


def keys_of(client: There) -> Keys:
    """All keys, as `Scene.keys` has them, without those that only bridges read."""
    found = {}
    for key in client.scan_iter():
        if b":tenure:" not in key:
            kind = client.type(key).decode()
            found[key.decode()] = _value(kind, _texts(_read(client, kind, key)))
    return found


class Monitor:
    """Hears the commands that a server runs, those inside scripts too."""

    def __init__(self, port: int) -> None:
        self._port = port

    def __enter__(self) -> Self:
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=10)
        self._lines = self._socket.makefile("rb")
        self._socket.sendall(b"MONITOR\r\n")
        assert self._lines.readline() == b"+OK\r\n"
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._socket.close()

    def writes(self) -> list[Command]:
        """The commands inside scripts, and pushes, since the last call, that change keys of the other system or publish."""
        with redis.Redis(port=self._port) as client:
            client.echo("so far")
        heard: list[Command] = []
        while True:
            line = self._lines.readline().decode("latin-1")
            words = [
                escape_decode(word.encode("latin-1"))[0].decode() for word in re.findall(r'"((?:\\.|[^"\\])*)"', line)
            ]
            if words[0].upper() == "ECHO":
                return heard
            if words[0] in _WRITES and ":tenure:" not in words[1]:
                heard.append(words)


_WRITES = {
    "DEL", "HDEL", "HSET", "LMOVE", "LPUSH", "LREM", "LTRIM", "PUBLISH", "RPOP", "RPOPLPUSH", "RPUSH", "SADD", "SET", "SREM",
}  # fmt: skip


def _read(client: There, kind: str, key: bytes) -> Any:
    match kind:
        case "list":
            return client.lrange(key, 0, -1)
        case "set":
            return list(client.smembers(key))
        case "hash":
            return client.hgetall(key)
        case _:
            return client.get(key)


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key.decode(): _texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_texts(each) for each in value]
    return value.decode()


def _value(kind: str, value: Any) -> Any:
    if isinstance(value, dict) and "b64" in value:
        return b64decode(value["b64"])
    return sorted(value) if kind == "set" else value
