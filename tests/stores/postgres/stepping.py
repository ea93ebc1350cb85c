"""Calls of several stores that are let go one statement at a time, so that every order of two of them can be tried.

Each racer is a store object with one connection, whose calls stop before each statement that writes, inside the steps too, and
once more before they commit. They stop at advisory locks, by triggers on the tables that know a racer by the name of its
connection; the steps are those of every store. Whether one waits for another is read from the locks of the server.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from tenure.stores.postgres.store import PostgresStore

from .soundness import unsound

__all__ = ["STOPS", "TABLES", "Call", "Race", "calling"]

Call = Callable[[PostgresStore], Awaitable[Any]]

MOST_STEPS = 60
"""Stops that a call may have."""

MOST_RACERS = 3

AT_LAST = 0.5
"""Seconds after which all who wait do so for each other: before the server undoes one of them."""

TABLES = (
    "jobs", "live", "ended", "edges", "uniques", "waiters", "workers", "tallies", "counters", "inbox", "attributes", "lookups",
    "schedules", "measures", "marks", "actions",
)  # fmt: skip
"""Those that steps write to."""

STOPS = f"""
CREATE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    _racer integer := substring(current_setting('application_name') FROM '^racer-(\\d+)$');
    _at integer := coalesce(nullif(current_setting('race.at', true), ''), '0');
BEGIN
    IF _racer IS NULL OR current_setting('race.commits', true) = 'yes' THEN
        RETURN NULL;
    END IF;
    PERFORM set_config('race.at', (_at + 1)::text, true), set_config('race.commits', CASE TG_LEVEL WHEN 'ROW' THEN 'yes' ELSE '' END, true);
    PERFORM pg_advisory_xact_lock_shared(_racer, _at);
    RETURN NULL;
END
$$;
{
    "".join(
        f'''
CREATE TRIGGER stop_before BEFORE INSERT OR UPDATE OR DELETE ON {table} EXECUTE FUNCTION stop_here();
CREATE CONSTRAINT TRIGGER stop_at_commit AFTER INSERT OR UPDATE OR DELETE ON {table} DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION stop_here();
ALTER TABLE {table} SET (autovacuum_enabled = false);
'''
        for table in TABLES
    )
}"""
"""Run in the schema of a store, it makes the calls of racers stop; nobody else notices. And no vacuum comes by, to be waited for."""

_WAITING = """
SELECT array_position($1, a.application_name) - 1, a.pid, l.locktype = 'advisory', l.objid::integer
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE NOT l.granted AND a.application_name = ANY ($1)
"""


def calling(function: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Call:
    """What calls a function with the store of whoever does it, and with these."""
    return lambda store: function(store, *arguments, **named)


class Race:
    """Calls of several racers, and who goes next."""

    def __init__(self, sql: Any, store: PostgresStore, racer: Callable[[str], PostgresStore], number: int) -> None:
        """`store` is for whoever does not race, `racer` makes the store of one by the name that its connection has to have;
        `number` says how many orders are tried at random, after those by plan.
        """
        self.store = store
        self.waited: set[int] = set()
        """Who of the last run had to wait for another."""

        self.steps: list[int] = []
        """How many steps each of the last run took."""

        self._sql = sql
        self._number = number
        # Others may have races in the same database.
        self._keys = range(first := random.randrange(2**30), first + MOST_RACERS)
        self._names = [f"racer-{key}" for key in self._keys]
        self._racers = [racer(name) for name in self._names]
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._stopped: dict[int, int] = {}
        self._told = ""
        self._all_wait_since: float | None = None

    async def orders(self, racers: int = 2) -> AsyncIterator[list[int]]:
        """Who goes next, in every order in which all that the others do falls into one gap of the first; then at random.

        What is in the tables must be sound afterwards.
        """
        for first, *others in itertools.permutations(range(racers)):
            self.steps = [MOST_STEPS] * racers
            taken = 0
            while self.steps[first] > taken:
                taken += 1
                yield [first] * taken + [other for other in others for _ in range(MOST_STEPS)]
        for seed in range(self._number):
            yield random.Random(seed).choices(range(racers), k=MOST_STEPS)
        assert await unsound(self._sql) == []

    async def run(self, order: Sequence[int], *calls: Call) -> list[Any]:
        """Let a call of each racer go in this order, and then to their end; what each has answered or raised."""
        self._told = f"in the order {order}"
        await self._begin(len(calls))
        for racer in order:
            await self._step(racer, calls)
        while not all(racer in self._tasks and self._tasks[racer].done() for racer in range(len(calls))):
            for racer in range(len(calls)):
                await self._step(racer, calls)
        return await asyncio.gather(*(self._tasks[racer] for racer in range(len(calls))), return_exceptions=True)

    async def die(self, call: Call, after: int) -> bool:
        """Let a call take so many steps and end its connection there; whether it was still under way."""
        await self._begin(1)
        for _ in range(after):
            await self._step(0, [call])
        if self._tasks[0].done():
            await self._tasks[0]
            return False
        [[_, pid, *_]] = await self._waiting()
        await self._sql.execute("SELECT pg_terminate_backend($1)", pid)
        await asyncio.gather(self._tasks[0], return_exceptions=True)
        return True

    async def _begin(self, number: int) -> None:
        self._tasks.clear()
        self._stopped.clear()
        self.waited = set()
        self.steps = [0] * number
        await self._sql.execute(
            "SELECT pg_advisory_unlock_all(); "
            f"SELECT pg_advisory_lock(racer, at) FROM generate_series({self._keys[0]}, {self._keys[number - 1]}) AS racer, "
            f"generate_series(0, {MOST_STEPS}) AS at"
        )

    async def _step(self, racer: int, calls: Sequence[Call]) -> None:
        """Let a racer go to its next stop, unless it has ended or waits for another."""
        if racer not in self._tasks:
            self._tasks[racer] = asyncio.ensure_future(calls[racer](self._racers[racer]))
        elif racer in self._stopped:
            await self._sql.execute("SELECT pg_advisory_unlock($1, $2)", self._keys[racer], self._stopped.pop(racer))
        else:
            return
        self.steps[racer] += 1
        async with asyncio.timeout(10):
            while not await self._all_stand():
                await asyncio.sleep(0)

    async def _all_stand(self) -> bool:
        """Whether everybody has ended, has stopped, or waits for another."""
        under_way = {racer for racer, task in self._tasks.items() if not task.done()}
        waiting = await self._waiting()
        for racer, _, stands, at in waiting:
            if stands:
                self._stopped[racer] = at
            else:
                self.waited.add(racer)
            under_way.discard(racer)
        if under_way:
            self._all_wait_since = None
            return False
        if self._stopped or not waiting:
            self._all_wait_since = None
            return True
        if any(task.done() for task in self._tasks.values()):
            return False  # for one that has just ended, and will be told so
        # Or for something that the server does by itself, which goes out of the way.
        self._all_wait_since = self._all_wait_since or time.monotonic()
        assert time.monotonic() - self._all_wait_since < AT_LAST, f"they wait for each other {self._told}"
        return False

    async def _waiting(self) -> list[Any]:
        found: list[Any] = await self._sql.fetch(_WAITING, self._names)
        return found
