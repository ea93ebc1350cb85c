"""What type checkers must accept and must refuse of the bridge to Guild queues; as `producing.py`."""

from __future__ import annotations

from typing import assert_type

from tenure import App, Context, Retry
from tenure.bridges import Guild
from tenure.bridges.guild.attributes import GuildJob
from tenure.bridges.guild.queue_task import AsyncQueueTask, QueueTask
from tenure.worker.worker import Worker

guild = Guild(App("memory://"), "redis://localhost", flow="access", lookup=["user"])
Guild(App("memory://"), "redis://localhost")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@guild.queue("checking", then="granting", lock=60, max_attempts=3, reads={"user": "userId"})
async def checking(user: int) -> dict[str, int] | Retry:
    return {"user": user}


@guild.queue("granting")
def granting(ctx: Context, user: int) -> None: ...


one: AsyncQueueTask[[int], dict[str, int] | Retry] = checking
other: QueueTask[[int], None] = granting
guild.queue("other", queue="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
guild.queue(name="other")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

assert_type(guild.start(user=7, roles=["reader"]), str)
assert_type(guild.find(user=7), list[GuildJob])
assert_type(guild.job("id"), GuildJob | None)
assert_type(guild.worker(["checking"], concurrency=4), Worker)


async def asynchronously() -> None:
    assert_type(await checking(7), dict[str, int] | Retry)
    await checking("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(await guild.astart(user=7), str)
    assert_type(await guild.afind(user=7), list[GuildJob])
    assert_type(await guild.ajob("id"), GuildJob | None)
