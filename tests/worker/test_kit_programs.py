"""The test kit does what a real worker does: random programs end the same under both, on every store."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any, get_args

import pytest

from tenure import App, Backoff, Context, Fail, Job, Reschedule, Retry, Wait
from tenure.sync import run
from tenure.testing import kit
from tenure.testing.kits import Stores

PROGRAMS = [
    pytest.param(50, id="50"),
    pytest.param(500, id="500", marks=[pytest.mark.long, pytest.mark.timeout(600)]),
]

Snapshot = dict[str, tuple[Any, ...]]


class Machine:
    """Runs random programs: each job has a list of what its attempts do, one after the other."""

    def __init__(self, store: str) -> None:
        self.app = App(store, log=False, retry=Backoff(initial=0.002, maximum=0.004, jitter=0), payload_limit=20_000)
        self._calls: Counter[str] = Counter()
        self.blocking = self.app.task(name="blocking")(self._blocking)
        self.awaited = self.app.task(name="awaited")(self._awaited)
        self.chain = self.app.flow("chain")
        self.first = self.chain.step(name="first", then="second")(self._first)
        self.second = self.chain.step(name="second")(self._second)

    def _blocking(self, ctx: Context, key: str, script: list[Any]) -> str:
        return self._act(ctx, key, script)

    async def _awaited(self, ctx: Context, key: str, script: list[Any]) -> str:
        await asyncio.sleep(0)
        return self._act(ctx, key, script)

    def _first(self, ctx: Context, key: str, script: list[Any]) -> dict[str, Any]:
        return {"said": self._act(ctx, key, script)}

    async def _second(self, ctx: Context, key: str, said: str, more: list[Any]) -> str:
        return said + self._act(ctx, f"{key}+", more)

    def _act(self, ctx: Context, key: str, script: list[Any]) -> str:
        number = self._calls[key]
        self._calls[key] += 1
        what, *given = script[min(number, len(script) - 1)]
        match what:
            case "raise":
                raise ValueError(f"{key} {number}")
            case "answer":
                answers = {"retry": Retry("again"), "fail": Fail("no"), "later": Reschedule(after=0.002)}
                raise answers.get(given[0]) or Wait(timeout=0.01)
            case "wrong":
                return object()  # type: ignore[return-value]
            case "child":
                ctx.enqueue(self.call(f"{key}.{number}", given[0]))
        return f"{key} {number}"

    def call(self, key: str, program: dict[str, Any]) -> Any:
        """The bound call, or start, of a program."""
        after = [self.call(f"{key}<{place}", each) for place, each in enumerate(program["after"])]
        options = {**program["options"], "tags": [key.replace("<", "_").replace("+", "-")]}
        if after:
            options["after"] = after
        if program["task"] == "chain":
            return self.chain.using(**options).bind(key=key, script=program["script"], more=program["script"][::-1])
        task = self.blocking if program["task"] == "blocking" else self.awaited
        return task.using(**options).bind(key, program["script"])

    async def snapshot(self) -> Snapshot:
        """What became of every job, by its key."""
        jobs: list[Job[Any]] = []
        cursor: str | None = None
        while True:
            page = await self.app.ajobs(limit=1000, cursor=cursor)
            jobs += page
            if (cursor := page.cursor) is None:
                break
        found: Snapshot = {}
        for job in jobs:
            ends = [each.outcome for each in await job.aattempts()]
            record = job.record
            assert record is not None
            error = None if record.error is None else (record.error.type, record.error.message.split(" ")[-1][:5])
            found[f"{record.tags[0]} {record.task}"] = (
                record.state, ends, record.result, error, record.attempt, record.losses, len(record.results),
            )  # fmt: skip
        return found


def a_program(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    kinds = ["return"] * 4 + ["raise"] * 3 + ["retry", "fail", "later", "wait", "wrong", "child", "child"]
    script: list[Any] = []
    for _ in range(rng.randint(1, 5)):
        kind = rng.choice(kinds)
        if kind in ("retry", "fail", "later", "wait"):
            script.append(["answer", kind])
        elif kind == "child" and depth < 2:
            script.append(["child", a_program(rng, depth + 1)])
        else:
            script.append([kind if kind != "child" else "return"])
    script[-1] = rng.choice([["return"], ["raise"], script[-1]]) if script[-1] != ["answer", "later"] else ["return"]
    options: dict[str, Any] = {"max_attempts": rng.randint(1, 4), "queue": rng.choice(["a", "b"])}
    if rng.random() < 0.3:
        options["delay"] = 0.003
    if rng.random() < 0.3:
        options["priority"] = rng.randint(-2, 2)
    after: list[Any] = []
    if depth == 0 and rng.random() < 0.4:
        after = [a_program(rng, 2) for _ in range(rng.randint(1, 3))]
        options["if_blocker_fails"] = rng.choice(["fail", "proceed"])
    task = rng.choice(["blocking", "awaited", "chain"])
    if task == "chain" or depth:
        script = [each for each in script if each != ["answer", "later"]] or [["return"]]
    return {"task": task, "script": script, "options": options, "after": after}


def by_the_kit(programs: list[Any], store: Stores) -> Snapshot:
    machine = Machine("memory://")
    with kit(machine.app, store=store) as jobs:
        for number, program in enumerate(programs):
            machine.app.enqueue(machine.call(f"p{number}", program))
        jobs.run_until_idle(skip=True, limit=1_000_000)
        return run(machine.snapshot())


async def by_a_worker(programs: list[Any], url: str) -> Snapshot:
    machine = Machine(url)
    try:
        for number, program in enumerate(programs):
            await machine.app.aenqueue(machine.call(f"p{number}", program))
        async with machine.app.worker(concurrency=20):
            # In one call: a job that goes from running to waiting between two would be seen by neither.
            while any(
                each.waiting + each.scheduled + each.blocked + each.running for each in await machine.app.aqueues()
            ):
                await asyncio.sleep(0.05)
        return await machine.snapshot()
    finally:
        await machine.app.aclose()


@pytest.mark.parametrize("count", PROGRAMS)
async def test_random_programs_end_as_under_a_real_worker(url: str, count: int) -> None:
    rng = random.Random(f"kit {count}")
    programs = [a_program(rng) for _ in range(count)]

    real = await by_a_worker(programs, url)

    for store in get_args(Stores) if url.startswith("memory") else ("memory",):
        in_kit = await asyncio.to_thread(by_the_kit, programs, store)
        assert {
            key: (in_kit.get(key), real.get(key)) for key in in_kit.keys() | real if in_kit.get(key) != real.get(key)
        } == {}
    assert len(real) > count
    assert {end for _, ends, *_ in real.values() for end in ends} >= {"retried", "failed", "succeeded"}
