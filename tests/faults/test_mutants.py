"""The checker finds nothing wrong with the store, and something with each way in which it could be wrong."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from tenure.core.job import NewJob, new_id
from tenure.core.lease import Lease, Token
from tenure.core.lifecycle import Finish, Requeue
from tenure.stores.base import BATCH
from tenure.stores.sqlite.store import SqliteStore
from tenure.stores.values import OK, Enqueued, Leased, LeaseRequest, Reaped, Renewal, Settlement, Verdict, VerdictKind
from tests.inspection import rows, run

from .checker import check
from .clients import a_job
from .history import Violation
from .recording import Recorder, history_of, recorded
from .scale import lengths
from .simulation import Ticking, play, play_flows


class Mutant(SqliteStore):
    """A store that does something else than it should, by the back door of its file."""

    def _run(self, statement: str, ids: Sequence[str]) -> None:
        for id_ in ids:
            run(Path(self._engine.path), statement, id_)

    def _holding(self, lease: Lease) -> Lease:
        """The lease, with whatever token is current."""
        [(fence, nonce)] = rows(
            Path(self._engine.path), "SELECT fence, nonce FROM tenure_jobs WHERE id = ?", lease.job.id
        )
        return msgspec.structs.replace(lease, token=Token(fence, nonce or 0))


class TakesAnyToken(Mutant):
    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        return await super().settle([(self._holding(lease), step) for lease, step in settlements])


class RenewsAnyToken(Mutant):
    async def renew(self, renewals: Sequence[Renewal]) -> list[None]:  # type: ignore[override]
        await super().renew(renewals)
        return [None] * len(renewals)


class SaysYesToTheStale(Mutant):
    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        await super().settle(settlements)
        return [OK] * len(settlements)


class GivesTheFenceBack(Mutant):
    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        verdicts = await super().settle(settlements)
        released = [
            lease.job.id
            for (lease, step), verdict in zip(settlements, verdicts, strict=True)
            if verdict is OK and isinstance(step, Requeue) and step.front
        ]
        self._run("UPDATE tenure_jobs SET fence = fence - 1 WHERE id = ?", released)
        return verdicts


class ReapsWhatLives(Mutant):
    async def reap(self, queues: Sequence[str], limit: int = BATCH) -> list[Reaped]:
        run(Path(self._engine.path), "UPDATE tenure_jobs SET lease_until = 0 WHERE state = 'running'")
        return await super().reap(queues, limit)


class GivesAJobToTwo(Mutant):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._left = 20

    async def lease(self, request: LeaseRequest) -> Leased:
        leased = await super().lease(request)
        if leased.leases and self._left:
            self._left -= 1
            again = "UPDATE tenure_jobs SET state = 'waiting', lease_until = NULL WHERE id = ?"
            self._run(again, [leased.leases[0].job.id])
            run(Path(self._engine.path), "UPDATE tenure_queues SET waiting = waiting + 1, running = running - 1")
        return leased


class ReleasesToTheBack(Mutant):
    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        return await super().settle(
            [
                (lease, msgspec.structs.replace(step, front=False) if isinstance(step, Requeue) else step)
                for lease, step in settlements
            ]
        )


class RetriesToTheFront(Mutant):
    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        return await super().settle(
            [
                (
                    lease,
                    msgspec.structs.replace(step, front=True) if isinstance(step, Requeue) and not step.delay else step,
                )
                for lease, step in settlements
            ]
        )


class ReapsToTheBack(Mutant):
    async def reap(self, queues: Sequence[str], limit: int = BATCH) -> list[Reaped]:
        reaped = await super().reap(queues, limit)
        back = "UPDATE tenure_jobs SET seq = (SELECT max(seq) + 1 FROM tenure_jobs) WHERE id = ?"
        self._run(back, [job.id for job in reaped])
        return reaped


class IsLastInFirstOut(Mutant):
    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        answers = await super().enqueue(jobs)
        self._run("UPDATE tenure_jobs SET seq = -seq WHERE id = ?", [job.id for job in jobs])
        return answers


class ForgetsToCommit(Mutant):
    numbers = count(1)

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        answers = await super().enqueue(jobs)
        if next(self.numbers) % 5 == 0:
            await SqliteStore.delete(self, [job.id for job in jobs])
        return answers


class MakesJobsUp(Mutant):
    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        answers = await super().enqueue([*jobs, a_job()])
        return answers[: len(jobs)]


class ForgetsAnEnd(Mutant):
    numbers = count(1)

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        verdicts = await super().settle(settlements)
        ended = [
            lease.job.id
            for (lease, step), verdict in zip(settlements, verdicts, strict=True)
            if verdict is OK and isinstance(step, Finish)
        ]
        if next(self.numbers) % 5 == 0:
            await SqliteStore.retry(self, ended)
        return verdicts


class DoesNotCountLosses(Mutant):
    async def reap(self, queues: Sequence[str], limit: int = BATCH) -> list[Reaped]:
        reaped = await super().reap(queues, limit)
        self._run("UPDATE tenure_jobs SET losses = losses - 1 WHERE id = ?", [job.id for job in reaped])
        return reaped


class CountsReleases(Mutant):
    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        return await super().settle(
            [
                (lease, msgspec.structs.replace(step, counts=True) if isinstance(step, Requeue) else step)
                for lease, step in settlements
            ]
        )


class HandsOverLater(Mutant):
    """Ends a step and enqueues the next one afterwards, if it still lives by then."""

    numbers = count(1)

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        verdicts = []
        for lease, step in settlements:
            if not isinstance(step, Finish) or step.successor is None or next(self.numbers) % 5:
                verdicts += await super().settle([(lease, step)])
            else:
                verdicts += await super().settle([(lease, msgspec.structs.replace(step, successor=None))])
        return verdicts


class HandsOverThoughStale(Mutant):
    """Hands over whatever the token, and only then looks at it."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        verdicts = await super().settle(settlements)
        for (_, step), verdict in zip(settlements, verdicts, strict=True):
            if isinstance(step, Finish) and step.successor is not None and verdict.kind is VerdictKind.LEASE_LOST:
                await SqliteStore.enqueue(self, [*step.children, step.successor])
        return verdicts


class HandsOverAgain(Mutant):
    """Makes a second successor when the winning settle is repeated."""

    settled: ClassVar[set[str]] = set()

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        verdicts = await super().settle(settlements)
        for (lease, step), verdict in zip(settlements, verdicts, strict=True):
            if isinstance(step, Finish) and step.successor is not None and verdict is OK:
                if lease.job.id in self.settled:
                    await SqliteStore.enqueue(self, [msgspec.structs.replace(step.successor, id=new_id(), after=())])
                self.settled.add(lease.job.id)
        return verdicts


class JoinsTooEarly(Mutant):
    """Lets a step go that waits for several as soon as it is there."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        loose = [
            (lease, msgspec.structs.replace(step, successor=msgspec.structs.replace(step.successor, after=())))
            if isinstance(step, Finish) and step.successor is not None
            else (lease, step)
            for lease, step in settlements
        ]
        return await super().settle(loose)


FLOW_MUTANTS = (HandsOverLater, HandsOverThoughStale, HandsOverAgain, JoinsTooEarly)
"""Each violates I13."""

MUTANTS: dict[type[Mutant], set[str]] = {
    TakesAnyToken: {"I5", "I6"},
    RenewsAnyToken: {"I5"},
    SaysYesToTheStale: {"I5"},
    GivesTheFenceBack: {"I3"},
    ReapsWhatLives: {"I4"},
    GivesAJobToTwo: {"I4"},
    ReleasesToTheBack: {"I9"},
    RetriesToTheFront: {"I8", "I9"},
    ReapsToTheBack: {"I9"},
    IsLastInFirstOut: {"I8"},
    ForgetsToCommit: {"I1"},
    MakesJobsUp: {"I2"},
    ForgetsAnEnd: {"I6"},
    DoesNotCountLosses: {"I7"},
    CountsReleases: {"I7"},
}
"""What each of them violates: one of these at least must be found."""


async def violations(
    kind: type[SqliteStore], folder: Path, seed: int, steps: int, game: Callable[..., Awaitable[None]] = play
) -> list[Violation]:
    """What the checker finds after a play."""
    clock = Ticking()
    recorder = Recorder(folder, clock.tick)
    store = recorded(kind(folder / f"{seed}.db", clock=clock), recorder)
    try:
        await game(store, recorder, clock, random.Random(seed), steps)
        return check(await history_of(store, folder))
    finally:
        await store.close()


@pytest.mark.parametrize("plays", lengths(5, 500))
async def test_nothing_is_found_in_a_true_store(tmp_path: Path, plays: int) -> None:  # I1-I9
    for seed in range(plays):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert await violations(SqliteStore, folder, seed, 400) == []


@pytest.mark.parametrize("plays", lengths(3, 300))
async def test_nothing_is_found_in_the_flows_of_a_true_store(tmp_path: Path, plays: int) -> None:  # I13
    for seed in range(plays):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert await violations(SqliteStore, folder, seed, 150, play_flows) == []


@pytest.mark.parametrize("mutant", MUTANTS)
async def test_a_mutant_is_found(tmp_path: Path, mutant: type[Mutant]) -> None:
    found = {violation.invariant for violation in await violations(mutant, tmp_path, 1, 400)}

    assert found & MUTANTS[mutant]


@pytest.mark.parametrize("mutant", FLOW_MUTANTS)
async def test_a_mutant_of_flows_is_found(tmp_path: Path, mutant: type[Mutant]) -> None:  # I13
    assert "I13" in {violation.invariant for violation in await violations(mutant, tmp_path, 1, 150, play_flows)}
