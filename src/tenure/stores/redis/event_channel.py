"""Publishes event messages to all programs that watch a namespace, over one Redis channel."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tenure.stores.redis.link import Link

__all__ = ["decode", "publish", "watched"]

BATCH = 100
"""Event messages in one Redis message: far below the output buffer that a server allows a slow subscriber."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[str]).decode


async def publish(link: Link, channel: str, messages: Sequence[str]) -> None:
    """Publish event messages on the channel."""
    for begin in range(0, len(messages), BATCH):
        await link.command("PUBLISH", channel, _pack(messages[begin : begin + BATCH]))


def decode(message: bytes) -> list[str]:
    """The event messages in a Redis message; none if its format is unknown."""
    try:
        return _unpack(message)
    except msgspec.DecodeError:
        return []


async def watched(link: Link, channel: str) -> bool:
    """Whether the channel has subscribers, at the server that has the jobs: every watcher subscribes there."""
    _, listeners = await link.command("PUBSUB", "NUMSUB", channel)
    return bool(listeners)
