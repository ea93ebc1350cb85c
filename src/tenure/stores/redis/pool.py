"""Pools connections to the master, and retries requests that were surely not done."""

from __future__ import annotations

import re
from typing import Any, Final, Generic, TypeVar

from tenure.errors import OutcomeUnknown, StoreError, StoreFull, StoreUnavailable
from tenure.stores.redis.address import Address
from tenure.stores.redis.topology import Topology
from tenure.stores.redis.wire import CREDENTIALS_HINT, ErrorReply, Wire

__all__ = ["FORBIDDEN", "Forbidden", "Pool", "ScriptMissing", "error_from"]

W = TypeVar("W", bound=Wire)

RETRY_DELAYS: Final = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Seconds before each retry of a request, during which the master may move. Enough for a moving slot; a failover takes
longer, and callers retry that themselves."""


_FORBIDDEN_IN_SCRIPT: Final = re.compile("ACL failure in script:|The user executing the script can't")
"""How Redis 7 and Valkey report a forbidden command inside a script."""

_RIGHTS_HINT: Final = "give this user the rights that docs/redis.md lists"


class ScriptMissing(StoreError):
    """The server does not know the script of this digest."""


class Forbidden(StoreUnavailable):
    """The user may not run the command; nothing was done. Retrying on another server would not help."""


class ForbiddenInScript(OutcomeUnknown):
    """The user may not run a command inside a script. What the script did before that command stays done."""


FORBIDDEN: Final = (Forbidden, ForbiddenInScript)
"""After either of them the user's rights are probed before anything else is sent."""


class Pool(Generic[W]):
    """Connections of one kind. Each serves one caller at a time; idle ones are reused."""

    def __init__(self, address: Address, topology: Topology, kind: type[W]) -> None:
        self._address = address
        self._topology = topology
        self._kind = kind
        self._idle: list[W] = []
        self._busy: set[W] = set()
        self._closed = False

    async def execute(self, request: bytes, timeout: float) -> Any:
        """Send a request to the master and return its reply, waiting up to `timeout` seconds per try."""
        for delay in RETRY_DELAYS:
            try:
                return await self._execute_once(request, timeout)
            except Forbidden:
                raise
            except StoreUnavailable:  # surely not done, so another server may be tried
                if self._topology.fixed:
                    raise
            await self._kind.sleep(delay)
        return await self._execute_once(request, timeout)

    async def acquire(self) -> tuple[W, bool]:
        """A connection to the master, and whether it is new. The caller must `release` or `drop` it."""
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
        """Whether the server of this connection is no longer the master, though it still answers."""
        return await self._topology.has_moved(wire.node, self._kind)

    async def release(self, wire: W) -> None:
        """Return a connection whose last reply has been read to the pool; close it if the pool is full."""
        self._busy.discard(wire)
        if len(self._idle) < self._address.connections:
            self._idle.append(wire)
        else:
            await wire.drop()

    async def drop(self, wire: W) -> None:
        """Close a connection that has failed, or whose reply is still outstanding."""
        self._busy.discard(wire)
        await wire.drop()

    async def drop_idle(self) -> None:
        while self._idle:
            await self._idle.pop().drop()

    async def close(self) -> None:
        """Close every connection. Callers that use one or wait for one get an error."""
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
            # Cancellation too: an unread reply must not be taken for the reply to the next request.
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
        # An idle connection was stale, because the server closed it or changed its role: the other idle ones are no
        # better.
        await self.drop_idle()
        return await self._execute_once(request, timeout)


def error_from(reply: ErrorReply) -> StoreError:
    """The store error that an error reply means."""
    text = str(reply)
    code = reply.status_code or text.partition(" ")[0]
    # Redis 6 gives the code of an error inside a script in the middle of the text.
    inner_code = re.search(r" -([A-Z]+) ", text) if code == "ERR" else None
    if _FORBIDDEN_IN_SCRIPT.search(text):
        code = "NOPERM"
    match inner_code[1] if inner_code else code:
        case "NOSCRIPT":
            return ScriptMissing(text)
        case "OOM":
            return StoreFull(f"Redis has used all the memory that its maxmemory allows: {text}")
        case "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "READONLY" | "BUSY" | "UNBLOCKED":
            return StoreUnavailable(f"Redis cannot run the command now: {code} {text.removeprefix(code).lstrip()}")
        case "MISCONF" | "NOREPLICAS":
            return StoreUnavailable(f"Redis accepts no writes: {text}")
        case "NOPERM" if inner_code or "script:" in text:
            # Redis does not roll a script back: what it did before the refusal stays done.
            return ForbiddenInScript(f"Redis stopped a script midway: NOPERM {text}: {_RIGHTS_HINT}")
        case "NOPERM":
            return Forbidden(f"Redis refused: {text}: {_RIGHTS_HINT}")
        case _ if "unauthenticated" in text:  # to a long request; a short one gets NOAUTH
            return StoreUnavailable(f"Redis refused: {text}: {CREDENTIALS_HINT}")
        case _:
            return StoreError(f"Redis refused: {text}")
