"""`QueuertForeign`: the steps of the hand-over in Queuert's tables, where a row that we lease is the custody."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tenure.bridges.custody import Begun, End, Look, Stopped, Taken
from tenure.bridges.foreign import Cancel, Foreign, ForeignError
from tenure.bridges.queuert.entries import Again, Complete, custody_of, verdict_of
from tenure.bridges.queuert.sql import load
from tenure.core.job import ErrorInfo, State
from tenure.errors import STORE_OUTAGE, StoreError
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.link import ISOLATION, Connection, Link
from tenure.stores.postgres.subscription import Subscription

if TYPE_CHECKING:
    from tenure.worker.chores import Chore

__all__ = ["MIGRATIONS", "QueuertForeign", "Tables", "refusal"]

T = TypeVar("T")

MIGRATIONS = (
    "20240101000000_initial_schema",
    "20240102000000_vacuum_tuning",
    "20260430000000_rename_chain_indexes",
    "20260517000000_drop_job_id_default",
)
"""The migrations of Queuert 0.14.1. With any other set the columns may mean something else."""

REAP_EVERY = 5.0
"""Seconds between two looks for rows whose worker is gone."""

_ABSENT = {"3F000", "42P01", "42703"}
"""SQLSTATEs of a missing schema, table and column."""


class Tables:
    """Where the tables of one Queuert are, and the names of its channels."""

    def __init__(self, address: Address, schema: str, prefix: str, channels: str) -> None:
        self.address = address
        self.schema = schema
        self.prefix = prefix
        self.channels = channels

    def __str__(self) -> str:
        return f"{self.schema}.{self.prefix}*"

    def statement(self, name: str) -> str:
        """The text of a statement for these tables."""
        return load(name, self.schema, self.prefix)

    def channel(self, name: str) -> str:
        """The name of a channel: `sched`, `chainc` or `owls`."""
        return f"{self.channels}_{name}"

    def absent(self) -> str:
        """The error message about tables that are not there."""
        return (
            f"PostgreSQL at {self.address} has no tables {self} of Queuert: "
            "let Queuert make its schema first, or correct schema= and prefix="
        )


def refusal(tables: Tables, names: Sequence[str]) -> str | None:
    """Why Tenure must not touch tables with these migrations, in a sentence; None if it knows them."""
    if unknown := [name for name in names if name not in MIGRATIONS]:
        return f"Queuert's tables {tables} have the migration {unknown[0]}, which this Tenure does not know: update Tenure first"
    if missing := [name for name in MIGRATIONS if name not in names]:
        return f"Queuert's tables {tables} lack the migration {missing[0]}: let Queuert migrate them first"
    return None


class Refused(ForeignError):
    """PostgreSQL refused a value; another try would not help."""


class QueuertForeign(Foreign):
    """A connection to Queuert's tables. It takes jobs of the types in `served`, and looks after those of all `types`.

    Both map a type to the seconds of its leases.
    """

    custody_is_hold = True

    def __init__(self, tables: Tables, types: Mapping[str, float], served: Sequence[str] = ()) -> None:
        self._tables = tables
        self._served = {each: types[each] for each in served}
        self._types, self._holds = list(types), list(types.values())
        self._link = Link(tables.address)
        self._known = False
        self._scheduled = asyncio.Event()
        self._listening = _Listening(self._link, tables.channel("sched"), self._hear)
        self.renew_every = min(self._holds, default=60.0) / 3

    # Workers leave no records.

    async def enter(self, owner: str, slots: int) -> None:  # noqa: ARG002
        await self._call(_nothing)

    async def leave(self, owner: str) -> None:
        pass

    # Taking.

    async def take(self, owner: str, ids: Sequence[str]) -> list[Taken]:
        self._scheduled.clear()
        if not self._served or not ids:
            return []
        found = await self._fetch("take", list(self._served), list(self._served.values()), owner, list(ids))
        return [custody_of(*row).taken for row in found]

    async def wait(self, timeout: float) -> None:
        await self._listening.open()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._scheduled.wait()

    def _hear(self, type_name: str) -> None:
        if type_name in self._served:
            self._scheduled.set()

    # Writing ends.

    async def record(
        self,
        owner: str,
        ends: Sequence[End],
        begun: Sequence[Begun],  # noqa: ARG002
        stopped: Sequence[Stopped],  # noqa: ARG002
    ) -> None:
        if not ends:
            return
        try:
            await self._end(ends)
        except Refused as error:
            if len(ends) > 1:
                for end in ends:
                    await self.record(owner, [end], (), ())
                return
            # Such as an output with the character 0, which its type does not hold.
            await self._end([End(ends[0].id, State.FAILED, error=ErrorInfo(type(error).__name__, str(error)))])

    async def _end(self, ends: Sequence[End]) -> None:
        verdicts = [verdict_of(end) for end in ends]
        complete = [each for each in verdicts if isinstance(each, Complete)]
        again = [each for each in verdicts if isinstance(each, Again)]

        async def write(connection: Connection) -> None:
            async with connection.transaction(isolation=ISOLATION):
                if complete:
                    await self._complete(connection, complete)
                if again:
                    await self._execute(connection, "try_again", self._types, *_columns(again))

        await self._call(write)

    async def _complete(self, connection: Connection, ends: Sequence[Complete]) -> None:
        ended = await self._execute(connection, "complete", self._types, *_columns(ends))
        finished = [chain for chain, following in ended if following is None]
        scheduled = [following for _, following in ended if following is not None]
        if finished and (dependants := await self._execute(connection, "lock_dependants", finished)):
            unblocked = await self._execute(connection, "unblock", [row for (row,) in dependants])
            scheduled += [type_name for (type_name,) in unblocked]
        await self._notify(connection, "chainc", [str(chain) for chain in finished])
        await self._notify(connection, "sched", scheduled)

    # Holding.

    async def renew(self, owner: str, ids: Sequence[str]) -> list[str]:  # noqa: ARG002
        if not ids:
            return []
        renewed = {job_id for (job_id,) in await self._fetch("renew", self._types, list(ids), self._holds)}
        return [each for each in ids if each not in renewed]

    async def look(self) -> Look:
        entries = [custody_of(*row) for row in await self._fetch("look", self._types)]
        return Look(entries, frozenset(entry.owner for entry in entries))

    async def alive(self, owners: Sequence[str]) -> frozenset[str]:
        holders = {holder.partition(":")[2][:-37] for (holder,) in await self._fetch("alive", self._types)}
        return frozenset(holders.intersection(owners))

    async def held_there(self, ids: Sequence[str]) -> list[bool]:
        held = {job_id for (job_id,) in await self._fetch("held_there", self._types, list(ids))}
        return [each in held for each in ids]

    async def adopt(self, job_id: str, owner: str, adopter: str) -> bool:
        return bool(await self._fetch("adopt", self._types, [job_id], self._holds, owner, adopter))

    async def mark_returning(self, ids: Sequence[str]) -> None:
        await self._fetch("mark_returning", self._types, list(ids))

    async def give_back(self, ids: Sequence[str]) -> None:
        async def give(connection: Connection) -> None:
            async with connection.transaction(isolation=ISOLATION):
                returned = await self._execute(connection, "give_back", self._types, list(ids))
                await self._notify(connection, "sched", [type_name for (type_name,) in returned])

        await self._call(give)

    async def let_go(self, ids: Sequence[str]) -> None:
        """Nothing: the row was the custody."""

    # For Queuert's own workers.

    def chores(self, cancel: Cancel) -> Mapping[str, Chore]:  # noqa: ARG002
        return {"reap": self._reap}

    async def _reap(self) -> float:
        async def reap(connection: Connection) -> None:
            async with connection.transaction(isolation=ISOLATION):
                reaped = await self._execute(connection, "reap", self._types)
                await self._notify(connection, "sched", [type_name for _, type_name in reaped])
                await self._notify(connection, "owls", [row for row, _ in reaped])

        await self._call(reap)
        return REAP_EVERY

    async def close(self) -> None:
        await self._listening.close()
        await self._link.close()

    # Calls.

    async def _fetch(self, name: str, *values: object) -> list[Any]:
        return await self._call(lambda connection: self._execute(connection, name, *values))

    async def _execute(self, connection: Connection, name: str, *values: object) -> list[Any]:
        rows: list[Any] = await connection.fetch(self._tables.statement(name), *values)
        return rows

    async def _notify(self, connection: Connection, channel: str, payloads: Sequence[str]) -> None:
        if payloads:
            await self._execute(connection, "notify", self._tables.channel(channel), list(dict.fromkeys(payloads)))

    async def _call(self, action: Callable[[Connection], Awaitable[T]]) -> T:
        """Run an action on a connection, the first time after a check of the tables. Its errors are `ForeignError`."""
        try:
            if not self._known:
                await self._check()
            return await self._link.use(action, self._tables.address.timeout)
        except ForeignError:
            raise
        except STORE_OUTAGE as error:
            absent = getattr(error.__cause__, "sqlstate", None) in _ABSENT
            raise ForeignError(self._tables.absent() if absent else str(error)) from error
        except StoreError as error:
            raise Refused(str(error)) from error

    async def _check(self) -> None:
        found = await self._link.fetch(self._tables.statement("migrations"))
        if (refused := refusal(self._tables, [name for (name,) in found])) is not None:
            raise ForeignError(refused)
        self._known = True


class _Listening(Subscription):
    """Listens to Queuert's announcements. It does not try them out with one to itself, which Queuert's workers would hear."""

    async def _probe(self) -> None:
        self.epoch += 1
        self._probed.set()
        self._decided.set()


async def _nothing(_connection: Connection) -> None:
    """Only the check before the first call is wanted."""


def _columns(rows: Sequence[Sequence[object]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]
