"""What type checkers must accept and must refuse of Queuert's processors. Not run: mypy and pyright read it."""

from __future__ import annotations

from typing import assert_type

from tenure import App, Context
from tenure.bridges import Continue, Queuert
from tenure.bridges.queuert.processors import AsyncProcessorTask, ProcessorTask
from tenure.worker.worker import Worker

app = App("memory://")
queuert = Queuert(app, "postgresql://localhost/shop", schema="public", prefix="queuert_")


@queuert.processor("pack", lease=60)
def pack(given: dict[str, str]) -> dict[str, int] | Continue:
    return Continue("ship", {"weight": len(given)})


@queuert.processor("ship", timeout=60, isolation="process")
async def ship(ctx: Context, given: dict[str, int], results: list[int]) -> str:
    return f"{ctx.attempt} {given} {results}"


packed: ProcessorTask[[dict[str, str]], dict[str, int] | Continue] = pack
shipped: AsyncProcessorTask[[dict[str, int], list[int]], str] = ship
assert_type(pack({"item": "lamp"}), dict[str, int] | Continue)
assert_type(queuert.start("pack", {"item": "lamp"}, delay=60), str)
assert_type(queuert.worker(["pack"], concurrency=2, keep=True), Worker)


async def produce() -> None:
    assert_type(await queuert.astart("pack", connection=object()), str)


pack(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
queuert.processor("pack", max_attempts=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
queuert.processor("pack", lease="long")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
queuert.start(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
