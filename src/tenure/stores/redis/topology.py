"""`Topology` finds the master that has the keys of a namespace.

All keys of a namespace share a hash tag, hence one slot and one server. A plain URL names that server. Otherwise
sentinels or cluster nodes are asked, again after each failure of the last known master, and when it replies that it is
not the master.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from redis.crc import key_slot
from redis.exceptions import MovedError

from tenure.errors import StoreError, StoreUnavailable
from tenure.stores.redis.address import Address, Kind, Node
from tenure.stores.redis.wire import ErrorReply, Wire, pack_command

__all__ = ["Topology"]


class Topology:
    """The last known master, and the nodes to ask for it."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._nodes = address.nodes
        self._master: Node | None = None

    @property
    def fixed(self) -> bool:
        """Whether the URL names the server itself, so that there is no node to ask."""
        return self._address.kind is Kind.SERVER

    async def master(self, connect: Callable[[Address, Node], Wire]) -> Node:
        """The master; `StoreUnavailable` if no node knows it."""
        if self._master is None:
            self._master = self._nodes[0] if self.fixed else await self._find_master(connect)
        return self._master

    def follow_redirect(self, reply: ErrorReply) -> None:
        """Follow a MOVED reply to the server that has the slot now."""
        if isinstance(reply, MovedError) and self._master is not None:
            self._master = Node(reply.host or self._master.host, reply.port)

    def forget(self, node: Node) -> None:
        """Look the master up again before the next use, unless another one has been found since."""
        if self._master == node:
            self._master = None

    async def has_moved(self, node: Node, connect: Callable[[Address, Node], Wire]) -> bool:
        """Whether the nodes know another master than `node`.

        For connections that only receive, because they get no error reply that would say so.
        """
        try:
            found = node if self.fixed else await self._find_master(connect)
        except StoreUnavailable:
            return False
        if found != node and self._master == node:
            self._master = found
        return found != node

    async def _find_master(self, connect: Callable[[Address, Node], Wire]) -> Node:
        reasons = []
        for node_asked in self._nodes:
            try:
                answer = await self._query(node_asked, connect)
            except (StoreError, ErrorReply) as error:
                reasons.append(str(error))
                continue
            found = self._read(answer, node_asked)
            if found is not None:
                return found
            reasons.append(f"{node_asked} does not know it")
        raise StoreUnavailable(f"no node knows where {self._master_name} is: {'; '.join(reasons)}")

    async def _query(self, node_asked: Node, connect: Callable[[Address, Node], Wire]) -> Any:
        if self._address.kind is Kind.SENTINEL:
            request = pack_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.master)
            to = msgspec.structs.replace(
                self._address, user=self._address.sentinel_user, password=self._address.sentinel_password, db=0
            )
        else:
            request = pack_command("CLUSTER", "SLOTS")
            to = self._address
        wire = connect(to, node_asked)
        try:
            await wire.open()
            return await wire.execute(request, self._address.timeout)
        finally:
            await wire.drop()

    def _read(self, answer: Any, node_asked: Node) -> Node | None:
        if self._address.kind is Kind.SENTINEL:
            return None if answer is None else Node(answer[0].decode(), int(answer[1]))
        # Each range of slots is: first, last, master, replicas. A node without a host is the node that was asked.
        slots = [
            (first, last, [Node((node[0] or b"").decode() or node_asked.host, node[1]) for node in nodes])
            for first, last, *nodes in answer
        ]
        known = [node for _, _, nodes in slots for node in nodes]
        self._nodes = tuple(dict.fromkeys((*self._address.nodes, *known)))
        wanted = key_slot(f"{{{self._address.namespace}}}".encode())
        return next((nodes[0] for first, last, nodes in slots if first <= wanted <= last), None)

    @property
    def _master_name(self) -> str:
        if self._address.kind is Kind.SENTINEL:
            return f"the master {self._address.master!r}"
        return f"the master of namespace {self._address.namespace!r}"
