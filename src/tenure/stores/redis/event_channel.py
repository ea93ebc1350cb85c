"""Notes between those who meet in a Redis, over one channel that all who watch listen to."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tenure.stores.redis.link import Link

__all__ = ["decode", "publish", "watched"]

BATCH = 100
"""Notes in one message: far less than what a server lets pile up for a slow listener."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[str]).decode


async def publish(link: Link, channel: str, messages: Sequence[str]) -> None:
    """Let all who listen to the channel hear these."""
    for begin in range(0, len(messages), BATCH):
        await link.command("PUBLISH", channel, _pack(messages[begin : begin + BATCH]))


def decode(message: bytes) -> list[str]:
    """The event messages of one message; none if it is somebody else's."""
    try:
        return _unpack(message)
    except msgspec.DecodeError:
        return []


async def watched(link: Link, channel: str) -> bool:
    """Whether anybody listens to it, at the server that has the jobs: all do that there."""
    _, listeners = await link.command("PUBSUB", "NUMSUB", channel)
    return bool(listeners)
