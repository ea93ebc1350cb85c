"""The way to one Redis: a script runs, once, or the error says whether it may have run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from tenure.core.after_fork import abandon, forget_after_fork
from tenure.core.jitter import full_jitter
from tenure.errors import StoreError, StoreUnavailable
from tenure.stores.redis.address import Address, Kind
from tenure.stores.redis.pool import Pool, ScriptMissing, meaning
from tenure.stores.redis.topology import Topology
from tenure.stores.redis.wire import BlockingWire, LoopWire, Refusal, Word, at_once, packed

__all__ = ["Link", "Script"]

SILENCE = 15.0
"""Seconds after which a silent channel is asked whether it still lives, and after as many again is taken for dead."""


class Script(Protocol):
    """What runs in the server, as one step."""

    @property
    def sha(self) -> str: ...
    @property
    def source(self) -> str: ...


class Link:
    """Belongs to one event loop, `run_now` alone to every thread. Nothing is connected before the first use.

    `StoreUnavailable` means surely not done, `OutcomeUnknown` perhaps, `StoreFull` not done for want of memory, any other
    `StoreError` that the server refused. Every wait is bounded. A cancelled call may have been done.
    """

    def __init__(self, address: Address, keys: Sequence[str]) -> None:
        """`keys` are those that every script declares."""
        self.address = address
        self._keys = tuple(keys)
        if address.kind is Kind.CLUSTER:
            # While a slot moves, its old master runs a script only if it still has all the keys that the script names. It has
            # never had this one: so none runs while a part of the jobs has left.
            self._keys += (f"{keys[0]}:absent",)
        self._closed = False
        self._connect()
        forget_after_fork(self)

    def _connect(self) -> None:
        topology = Topology(self.address)
        self._room = asyncio.Semaphore(self.address.connections)
        self._calls = Pool(self.address, topology, LoopWire)
        self._blocking = Pool(self.address, topology, BlockingWire)
        self._waiting = Pool(self.address, topology, LoopWire)

    async def run(self, script: Script, args: Sequence[Word]) -> Any:
        """Run a script with these arguments; its answer as Redis gives it: bytes, int, None, or a list of them."""
        self._refuse_if_closed()
        async with self._room:
            return await self._run(self._calls, script, args)

    def run_now(self, script: Script, args: Sequence[Word]) -> Any:
        """As `run`, on a thread without an event loop, and done before it returns."""
        # Threads wait for nobody: an interrupt could strike between taking a place and the duty to give it back.
        self._refuse_if_closed()
        return at_once(self._run(self._blocking, script, args))

    async def command(self, *words: Word) -> Any:
        """Have the server do one command."""
        self._refuse_if_closed()
        async with self._room:
            return await self._calls.ask(packed(*words), self.address.timeout)

    async def pop(self, keys: Sequence[str], timeout: float) -> bytes | None:
        """Wait until one of these lists has an element, and take its first: which it is, or None after so many seconds.

        Whoever cancels it may have taken an element and never know.
        """
        self._refuse_if_closed()
        request = packed("BLPOP", *keys, max(timeout, 0.001))  # 0 would be for ever
        try:
            answer = await self._waiting.ask(request, timeout + self.address.timeout)
        except StoreError:
            if self._closed:
                return None
            raise
        return None if answer is None else bytes(answer[1])

    async def listen(self, channel: str) -> AsyncIterator[bytes | None]:
        """Hear what is published on a channel, connecting again by itself; ends when the link is closed.

        None whenever it begins to hear: what was published before then is not heard.
        """
        tries = 0
        while not self._closed:
            try:
                async for heard in self._hear(channel):
                    tries = 0
                    yield heard
            except StoreError:
                tries += 1
                await asyncio.sleep(full_jitter(tries, first=0.05, longest=5.0))

    async def close(self) -> None:
        """Let calls under way end, and then go of all connections; who waits in `pop` or `listen` waits no longer."""
        if self._closed:
            return
        self._closed = True
        await self._waiting.close()
        for _ in range(self.address.connections):
            await self._room.acquire()
        await self._calls.close()
        await self._blocking.drop_idle()

    async def _run(self, pool: Pool[Any], script: Script, args: Sequence[Word]) -> Any:
        rest = (len(self._keys), *self._keys, *args)
        try:
            return await pool.ask(packed("EVALSHA", script.sha, *rest), self.address.timeout)
        except ScriptMissing:
            return await pool.ask(packed("EVAL", script.source, *rest), self.address.timeout)

    async def _hear(self, channel: str) -> AsyncIterator[bytes | None]:
        wire, _ = await self._waiting.take()
        try:
            await wire.ask(packed("SUBSCRIBE", channel), self.address.timeout)
            yield None
            asked = False
            while True:
                said = await wire.hear(SILENCE)
                if said is None and asked:
                    raise StoreUnavailable(f"Redis at {wire.node} has said nothing for a while, not even when asked")
                if asked := said is None:
                    if await self._waiting.is_left(wire):
                        raise StoreUnavailable(f"Redis at {wire.node} is no longer the master")
                    await wire.tell(packed("PING"))
                elif said[0] == b"message":
                    yield said[2]
        except Refusal as refusal:
            raise meaning(refusal) from refusal
        finally:
            await self._waiting.drop(wire)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"the store at {self.address} has been closed")

    def forget(self) -> None:
        """In a forked child: leave the connections to the parent, without closing them, and make others."""
        abandon(self._calls, self._blocking, self._waiting)
        self._connect()
