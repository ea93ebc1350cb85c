"""Connections to the master, wherever it is: a request is done once, or the error says whether it may have been."""

from __future__ import annotations

import re
from typing import Any, Final, Generic, TypeVar

from tenure.errors import OutcomeUnknown, StoreError, StoreFull, StoreUnavailable
from tenure.stores.redis.address import Address
from tenure.stores.redis.topology import Topology
from tenure.stores.redis.wire import ErrorReply, Wire

__all__ = ["FORBIDDEN", "Forbidden", "Pool", "ScriptMissing", "error_from"]

W = TypeVar("W", bound=Wire)

RETRY_DELAYS: Final = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Seconds before each further look for a master that may be another by now. Enough for a slot that moves; a failover takes
longer, and callers have more patience."""


_FORBIDDEN_IN_SCRIPT: Final = re.compile("ACL failure in script:|The user executing the script can't")
"""How Redis 7 and Valkey say that a command inside a script is not allowed."""

_RIGHTS_HINT: Final = "give this user the rights that docs/redis.md lists"


class ScriptMissing(StoreError):
    """The server does not have the script of this digest."""


class Forbidden(StoreUnavailable):
    """The server answers, and does not let this user run the command; surely not done. Another server would say the same."""


class ForbiddenInScript(OutcomeUnknown):
    """The server did not let this user run a command inside a script: what the script did before stays."""


FORBIDDEN: Final = (Forbidden, ForbiddenInScript)
"""Either way the rights of this user are to be probed before anything else is sent."""


class Pool(Generic[W]):
    """Connections of one kind. Each is used by one caller at a time; those not in use wait for the next."""

    def __init__(self, address: Address, topology: Topology, kind: type[W]) -> None:
        self._address = address
        self._topology = topology
        self._kind = kind
        self._idle: list[W] = []
        self._busy: set[W] = set()
        self._closed = False

    async def execute(self, request: bytes, timeout: float) -> Any:
        """Have the master do something within so many seconds, and give its answer."""
        for delay in RETRY_DELAYS:
            try:
                return await self._execute_once(request, timeout)
            except Forbidden:
                raise
            except StoreUnavailable:  # surely not done, so it may be done by another
                if self._topology.fixed:
                    raise
            await self._kind.sleep(delay)
        return await self._execute_once(request, timeout)

    async def acquire(self) -> tuple[W, bool]:
        """A connection to the master, for one caller who gives it back or drops it; and whether it is new."""
        node = await self._topology.master(self._kind)
        while self._idle:
            wire = self._idle.pop()
            self._busy.add(wire)
            if wire.node == node and await wire.is_alive():
                return wire, False
            await self.drop(wire)
        wire = self._kind(self._address, node)
        self._busy.add(wire)
        try:
            await wire.open()
            if self._closed:
                raise StoreUnavailable(f"the connections to {node} have been closed")
        except BaseException:
            self._topology.forget(node)
            await self.drop(wire)
            raise
        return wire, True

    async def master_has_moved(self, wire: W) -> bool:
        """Whether the server of a connection, which still answers, is no longer the master."""
        return await self._topology.has_moved(wire.node, self._kind)

    async def release(self, wire: W) -> None:
        """Keep a connection whose last answer has been read for the next caller, or drop it if there are enough."""
        self._busy.discard(wire)
        if len(self._idle) < self._address.connections:
            self._idle.append(wire)
        else:
            await wire.drop()

    async def drop(self, wire: W) -> None:
        """Let go of a connection that has failed, or that may still have something to say."""
        self._busy.discard(wire)
        await wire.drop()

    async def drop_idle(self) -> None:
        while self._idle:
            await self._idle.pop().drop()

    async def close(self) -> None:
        """Let go of every connection; whoever waits at one, or for one, gets an error."""
        self._closed = True
        await self.drop_idle()
        for wire in tuple(self._busy):
            await self.drop(wire)

    async def _execute_once(self, request: bytes, timeout: float) -> Any:
        wire, new = await self.acquire()
        try:
            answer = await wire.execute(request, timeout)
        except ErrorReply as reply:
            error = error_from(reply)
            if isinstance(error, Forbidden) or not isinstance(error, StoreUnavailable):
                await self.release(wire)
                raise error from reply
            self._topology.follow_redirect(reply)
        except StoreUnavailable as unavailable:
            error = unavailable
        except BaseException as unknown:
            # Cancelled, too: an answer that nobody has read must not meet the next request.
            await self.drop(wire)
            if isinstance(unknown, OutcomeUnknown):
                self._topology.forget(wire.node)
            raise
        else:
            await self.release(wire)
            return answer
        self._topology.forget(wire.node)
        await self.drop(wire)
        if new:
            raise error
        # It had waited for a while, and the other side has gone or changed in the meantime: those beside it are no better.
        await self.drop_idle()
        return await self._execute_once(request, timeout)


def error_from(reply: ErrorReply) -> StoreError:
    """What a server's refusal is to us."""
    text = str(reply)
    code = reply.status_code or text.partition(" ")[0]
    # Redis 6 tells the code of a call inside a script in the middle of the text.
    inner_code = re.search(r" -([A-Z]+) ", text) if code == "ERR" else None
    if _FORBIDDEN_IN_SCRIPT.search(text):
        code = "NOPERM"
    match inner_code[1] if inner_code else code:
        case "NOSCRIPT":
            return ScriptMissing(text)
        case "OOM":
            return StoreFull(f"Redis has used all the memory that its maxmemory allows: {text}")
        case "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "READONLY" | "BUSY" | "UNBLOCKED":
            return StoreUnavailable(f"Redis cannot do it now: {code} {text.removeprefix(code).lstrip()}")
        case "MISCONF" | "NOREPLICAS":
            return StoreUnavailable(f"Redis takes no writes: {text}")
        case "NOPERM" if inner_code or "script:" in text:
            # A script is not undone: what it did before it met the refusal stays.
            return ForbiddenInScript(f"Redis stopped a script in its middle: NOPERM {text}: {_RIGHTS_HINT}")
        case "NOPERM":
            return Forbidden(f"Redis refused: {text}: {_RIGHTS_HINT}")
        case _:
            return StoreError(f"Redis refused: {text}")
