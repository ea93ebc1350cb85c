"""`Link` runs scripts and commands on one Redis, each once; an error says whether it may have run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Literal

from tenure.core.after_fork import abandon, forget_after_fork
from tenure.core.jitter import full_jitter
from tenure.errors import StoreError, StoreUnavailable
from tenure.stores.redis.address import Address, Kind
from tenure.stores.redis.pool import Pool, ScriptMissing, error_from
from tenure.stores.redis.scripts import Script
from tenure.stores.redis.topology import Topology
from tenure.stores.redis.wire import BlockingWire, CommandArg, ErrorReply, LoopWire, pack_command, run_without_loop

__all__ = ["Link"]

PING_AFTER = 15.0
"""Seconds of silence after which a subscription is pinged. After the same time without a reply it counts as dead."""


class Link:
    """The connection of a store to its Redis. It connects on first use.

    It belongs to one event loop, except that `run_script_now` works on any thread. `StoreUnavailable` means that
    nothing was done, `OutcomeUnknown` that it may have been done, `StoreFull` that the server has no memory left, any
    other `StoreError` that the server refused. Every wait is bounded. A cancelled call may have been done.
    """

    def __init__(self, address: Address, keys: Sequence[str]) -> None:
        """`keys` are declared by every script."""
        self.address = address
        self._keys = tuple(keys)
        if address.kind is Kind.CLUSTER:
            # While a slot moves, its old master runs a script only if it still has all keys that the script declares.
            # This key never exists, so no script runs while some of the jobs have moved.
            self._keys += (f"{keys[0]}:absent",)
        self._closed = False
        self._connect()
        forget_after_fork(self)

    def _connect(self) -> None:
        topology = Topology(self.address)
        self._slots = asyncio.Semaphore(self.address.connections)
        self._loop_pool = Pool(self.address, topology, LoopWire)
        self._thread_pool = Pool(self.address, topology, BlockingWire)
        self._waiting_pool = Pool(self.address, topology, LoopWire)

    async def run_script(self, script: Script, args: Sequence[CommandArg]) -> Any:
        """Run a script and return its reply as Redis gives it: bytes, int, None, or a list of these."""
        self._refuse_if_closed()
        async with self._slots:
            return await self._run_script(self._loop_pool, script, args)

    def run_script_now(self, script: Script, args: Sequence[CommandArg]) -> Any:
        """As `run_script`, for a thread without an event loop: blocks until it is done."""
        # Threads do not wait for a slot: an interrupt between taking and releasing it would lose the slot.
        self._refuse_if_closed()
        return run_without_loop(self._run_script(self._thread_pool, script, args))

    async def command(self, *args: CommandArg) -> Any:
        """Run one command."""
        self._refuse_if_closed()
        async with self._slots:
            return await self._loop_pool.execute(pack_command(*args), self.address.timeout)

    async def pop(self, keys: Sequence[str], timeout: float) -> bytes | None:
        """Pop the first element of one of these lists, waiting up to `timeout` seconds; None if none came.

        A cancelled call may have removed an element.
        """
        self._refuse_if_closed()
        request = pack_command("BLPOP", *keys, max(timeout, 0.001))  # 0 would wait forever
        try:
            answer = await self._waiting_pool.execute(request, timeout + self.address.timeout)
        except StoreError:
            if self._closed:
                return None
            raise
        return None if answer is None else bytes(answer[1])

    async def move(
        self, source: str, target: str, timeout: float, *, end: Literal["LEFT", "RIGHT"] = "LEFT"
    ) -> bytes | None:
        """Move an element from this end of a list to the other end of another, waiting up to `timeout` seconds for one.

        Returns the element; None if none came. Popped from `end`, the elements of `target` are in the order of `source`. A cancelled
        call may have moved one.
        """
        self._refuse_if_closed()
        other = "RIGHT" if end == "LEFT" else "LEFT"
        request = pack_command("BLMOVE", source, target, end, other, max(timeout, 0.001))  # 0 would wait forever
        try:
            answer = await self._waiting_pool.execute(request, timeout + self.address.timeout)
        except StoreError:
            if self._closed:
                return None
            raise
        return None if answer is None else bytes(answer)

    async def has_element(self, key: str, timeout: float) -> bool:
        """Whether this list has an element, waiting up to `timeout` seconds for one. Changes nothing."""
        self._refuse_if_closed()
        # Moved from the end to the same end, so that nothing is lost with a connection that breaks.
        request = pack_command("BLMOVE", key, key, "RIGHT", "RIGHT", max(timeout, 0.001))  # 0 would wait forever
        try:
            return await self._waiting_pool.execute(request, timeout + self.address.timeout) is not None
        except StoreError:
            if self._closed:
                return False
            raise

    async def listen(self, channel: str) -> AsyncIterator[bytes | None]:
        """Subscribe to a channel and yield its messages, reconnecting as needed, until the link is closed.

        Yields None after each (re)connect: messages published before it may have been missed.
        """
        async with aclosing(self.listen_to((channel,))) as heard:
            async for message in heard:
                yield None if message is None else message[1]

    async def listen_to(self, channels: Sequence[str]) -> AsyncGenerator[tuple[bytes, bytes] | None, None]:
        """As `listen`, to several channels over one connection. Yields the channel and the message."""
        tries = 0
        while not self._closed:
            try:
                async for message in self._subscribe(channels):
                    tries = 0
                    yield message
            except StoreError:
                tries += 1
                await asyncio.sleep(full_jitter(tries, first=0.05, longest=5.0))

    async def close(self) -> None:
        """Wait for calls in progress, then close all connections. Ends waits in `pop`, `move` and `listen`."""
        if self._closed:
            return
        self._closed = True
        await self._waiting_pool.close()
        for _ in range(self.address.connections):
            await self._slots.acquire()
        await self._loop_pool.close()
        await self._thread_pool.drop_idle()

    async def _run_script(self, pool: Pool[Any], script: Script, args: Sequence[CommandArg]) -> Any:
        keys_and_args = (len(self._keys), *self._keys, *args)
        try:
            return await pool.execute(pack_command("EVALSHA", script.sha, *keys_and_args), self.address.timeout)
        except ScriptMissing:
            return await pool.execute(pack_command("EVAL", script.source, *keys_and_args), self.address.timeout)

    async def _subscribe(self, channels: Sequence[str]) -> AsyncIterator[tuple[bytes, bytes] | None]:
        wire, _ = await self._waiting_pool.acquire()
        try:
            await wire.execute(pack_command("SUBSCRIBE", *channels), self.address.timeout)
            for _ in channels[1:]:
                if await wire.receive(self.address.timeout) is None:
                    raise StoreUnavailable(f"Redis at {wire.node} has not answered a subscription")
            yield None
            pinged = False
            while True:
                message = await wire.receive(PING_AFTER)
                if message is None and pinged:
                    raise StoreUnavailable(f"Redis at {wire.node} has not answered a ping on its subscription")
                if pinged := message is None:
                    if await self._waiting_pool.master_has_moved(wire):
                        raise StoreUnavailable(f"Redis at {wire.node} is no longer the master")
                    await wire.send(pack_command("PING"))
                elif message[0] == b"message":
                    yield message[1], message[2]
        except ErrorReply as reply:
            raise error_from(reply) from reply
        finally:
            await self._waiting_pool.drop(wire)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"the store at {self.address} has been closed")

    def forget(self) -> None:
        """After a fork, in the child: leave the connections to the parent, without closing them, and make new ones."""
        abandon(self._loop_pool, self._thread_pool, self._waiting_pool)
        self._connect()
