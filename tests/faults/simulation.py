"""A few workers and producers at play with one store, step by step, by chance; some of them forgetful, some of them dead."""

from __future__ import annotations

import random

import msgspec

from tenure.core.job import RunStep, State
from tenure.core.lease import Lease
from tenure.core.lifecycle import RELEASE, Finish, Requeue, Transition
from tenure.stores.base import Store
from tenure.stores.values import Renewal
from tenure.testing.clock import ManualClock

from .clients import a_job, take
from .recording import Recorder

__all__ = ["Ticking", "play", "play_flows"]

TTL = 10.0

STEPS: list[Transition] = [
    Finish(State.SUCCEEDED, "null"),
    Finish(State.SUCCEEDED, "null"),
    Finish(State.FAILED),
    RELEASE,
    Requeue(),
    Requeue(delay=3.0),
]


class Ticking(ManualClock):
    """A clock that moves on by itself whenever it is read for the record, so that no two lines have the same time."""

    def tick(self) -> float:
        self.advance(0.001)
        return self.boot()


async def play(store: Store, recorder: Recorder, clock: Ticking, chance: random.Random, steps: int) -> None:
    """Play, then heal and drain: everything is reaped, everything is finished."""
    held: list[Lease] = []
    let_go: list[tuple[Lease, Transition]] = []
    for _ in range(steps):
        match chance.choice(
            ["enqueue", "lease", "lease", "settle", "settle", "settle", "stale", "renew", "die", "time", "reap"]
        ):
            case "enqueue":
                await store.enqueue([a_job() for _ in range(chance.randint(1, 3))])
            case "lease":
                leases = await take(store, limit=chance.randint(1, 3), ttl=TTL, solo=chance.random() < 0.3)
                for lease in leases:
                    recorder.start(lease)
                held += leases
            case "settle" if held:
                settlement = (held.pop(chance.randrange(len(held))), chance.choice(STEPS))
                await store.settle([settlement])
                let_go.append(settlement)
            case "stale" if let_go:
                # What was settled is settled again in the same way, what was not for the first time.
                lease, step = chance.choice(let_go)
                await store.settle([(lease, step)])
                await store.renew([Renewal(lease, TTL)])
            case "renew" if held:
                await store.renew([Renewal(lease, TTL) for lease in chance.sample(held, chance.randint(1, len(held)))])
            case "die" if held:
                # It says no more; or, perhaps, comes back from wherever it was and settles after all.
                let_go.append((held.pop(chance.randrange(len(held))), chance.choice(STEPS)))
            case "time":
                clock.advance(chance.choice([0.5, 4.0, 11.0]))
            case "reap":
                await store.reap(["q"])
    await _drain(store, recorder, clock)


async def play_flows(store: Store, recorder: Recorder, clock: Ticking, chance: random.Random, steps: int) -> None:
    """The same with runs alone: they start, hand over, fan out and join; holders die, and settle when it is too late."""
    let_go: list[tuple[Lease, Transition]] = []
    for _ in range(steps):
        match chance.choice(["start", "work", "work", "work", "stale", "die", "reap"]):
            case "start":
                new = a_job()
                await store.enqueue([msgspec.structs.replace(new, step=RunStep(run_id=new.id, flow="f"))])
            case "stale" if let_go:
                await store.settle([chance.choice(let_go)])
            case "work" | "die" as what:
                for lease in await take(store, limit=chance.randint(1, 3), ttl=TTL, solo=chance.random() < 0.3):
                    recorder.start(lease)
                    let_go.append((lease, _hand_over(lease, chance)))
                    if what == "work":
                        await store.settle(let_go[-1:])
            case "reap":
                clock.advance(TTL + 1)
                await store.reap(["q"])
    await _drain(store, recorder, clock)


def _hand_over(lease: Lease, chance: random.Random) -> Finish:
    run_id = lease.job.run_id
    if run_id is None or chance.random() < 0.2:
        return Finish(State.SUCCEEDED, "null")
    children = tuple(a_job() for _ in range(chance.choice([0, 0, 1, 3])))
    step = RunStep(run_id=run_id, flow="f")
    successor = msgspec.structs.replace(a_job(), step=step, after=tuple(child.id for child in children))
    return Finish(State.SUCCEEDED, "null", children=children, successor=successor)


async def _drain(store: Store, recorder: Recorder, clock: Ticking) -> None:
    while True:
        clock.advance(TTL + 1)
        await store.reap(["q"])
        leases = await take(store, limit=100, ttl=TTL, solo=True)
        for lease in leases:
            recorder.start(lease)
        await store.settle([(lease, Finish(State.SUCCEEDED, "null")) for lease in leases])
        if not any(queue.waiting + queue.scheduled + queue.running for queue in await store.queues()):
            return
