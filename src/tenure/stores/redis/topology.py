"""Which server has the jobs of a namespace. Its keys share a hash tag, hence a slot: it is one server, the master of that slot.

A plain URL names it. Sentinels and the nodes of a cluster know it, and who it was before is no help after a failover, so it
is asked for again whenever the server of the last answer fails or says that it is not the one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from redis.crc import key_slot
from redis.exceptions import MovedError

from tenure.errors import StoreError, StoreUnavailable
from tenure.stores.redis.address import Address, Kind, Node
from tenure.stores.redis.wire import Refusal, Wire, packed

__all__ = ["Topology"]


class Topology:
    """Where the master was when we last heard of it, and whom to ask."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._guides = address.nodes
        self._master: Node | None = None

    @property
    def fixed(self) -> bool:
        """Whether there is nobody to ask: the URL names the server itself."""
        return self._address.kind is Kind.SERVER

    async def master(self, connect: Callable[[Address, Node], Wire]) -> Node:
        """The server to talk to; `StoreUnavailable` if nobody knows it."""
        if self._master is None:
            self._master = self._guides[0] if self.fixed else await self._ask(connect)
        return self._master

    def moved(self, refusal: Refusal) -> None:
        """Take a server's word for who has the slot now."""
        if isinstance(refusal, MovedError) and self._master is not None:
            self._master = Node(refusal.host or self._master.host, refusal.port)

    def doubt(self, node: Node) -> None:
        """Ask again before the next use, unless that has been done since."""
        if self._master == node:
            self._master = None

    async def has_left(self, node: Node, connect: Callable[[Address, Node], Wire]) -> bool:
        """Whether somebody knows another master than this one by now; for those who ask it nothing, and so are never refused."""
        try:
            found = node if self.fixed else await self._ask(connect)
        except StoreUnavailable:
            return False
        if found != node and self._master == node:
            self._master = found
        return found != node

    async def _ask(self, connect: Callable[[Address, Node], Wire]) -> Node:
        reasons = []
        for guide in self._guides:
            try:
                answer = await self._answer_of(guide, connect)
            except (StoreError, Refusal) as error:
                reasons.append(str(error))
                continue
            found = self._read(answer, guide)
            if found is not None:
                return found
            reasons.append(f"{guide} does not know it")
        raise StoreUnavailable(f"nobody tells where {self._wanted} is: {'; '.join(reasons)}")

    async def _answer_of(self, guide: Node, connect: Callable[[Address, Node], Wire]) -> Any:
        if self._address.kind is Kind.SENTINEL:
            question = packed("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.master)
            to = msgspec.structs.replace(
                self._address, user=self._address.sentinel_user, password=self._address.sentinel_password, db=0
            )
        else:
            question = packed("CLUSTER", "SLOTS")
            to = self._address
        wire = connect(to, guide)
        try:
            await wire.open()
            return await wire.ask(question, self._address.timeout)
        finally:
            await wire.drop()

    def _read(self, answer: Any, guide: Node) -> Node | None:
        if self._address.kind is Kind.SENTINEL:
            return None if answer is None else Node(answer[0].decode(), int(answer[1]))
        # Each range of slots: its first, its last, the master, replicas; a node without a host is the one that was asked.
        slots = [
            (first, last, [Node((node[0] or b"").decode() or guide.host, node[1]) for node in nodes])
            for first, last, *nodes in answer
        ]
        everybody = [node for _, _, nodes in slots for node in nodes]
        self._guides = tuple(dict.fromkeys((*self._address.nodes, *everybody)))
        wanted = key_slot(f"{{{self._address.namespace}}}".encode())
        return next((nodes[0] for first, last, nodes in slots if first <= wanted <= last), None)

    @property
    def _wanted(self) -> str:
        if self._address.kind is Kind.SENTINEL:
            return f"the master {self._address.master!r}"
        return f"the master of namespace {self._address.namespace!r}"
