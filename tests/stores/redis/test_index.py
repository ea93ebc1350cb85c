"""The index of queues that have something to do, beside programs that know nothing of it."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase

import pytest
import redis

from tenure import App
from tenure.core.patterns import serves
from tenure.stores.redis.encoding import lua_expressions
from tenure.stores.redis.store import RedisStore
from tenure.testing.conformance.scene import a_job, lease


@pytest.fixture
def index(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url.partition("?")[0])


def forget_index(redis_url: str, index: redis.Redis) -> None:
    """Leave the namespace as a program of an earlier version does, which has no index."""
    prefix = f"tenure:{{{redis_url.partition('namespace=')[2]}}}:"
    calls = list(index.scan_iter(match=f"{prefix}calls:*"))
    index.delete(f"{prefix}ready", f"{prefix}timed", *calls)


async def test_what_an_earlier_version_enqueues_is_found_by_workers_with_patterns(
    redis_url: str, index: redis.Redis
) -> None:
    ran = asyncio.Event()
    app = App(redis_url)

    @app.task(queue="mail")
    async def send() -> None:
        ran.set()

    await send.aenqueue()
    forget_index(redis_url, index)
    async with app.worker(["m*"]), asyncio.timeout(20):
        await ran.wait()
    await app.aclose()


async def test_what_an_earlier_version_holds_is_reaped_by_workers_with_patterns(
    redis_url: str, index: redis.Redis
) -> None:
    store = RedisStore.from_url(redis_url)
    await store.enqueue([a_job(), a_job(queue="due", delay=0.01)])
    await lease(store, "q", ttl=0.01)
    await asyncio.sleep(0.02)
    forget_index(redis_url, index)

    async with asyncio.timeout(20):
        while (await store.busy_queues(("*",))).overdue != ("q",):
            await asyncio.sleep(0.05)
    assert set((await store.busy_queues(("*",))).queues) == {"due", "q"}
    await store.close()


async def test_a_user_who_may_not_scan_finds_all_but_inboxes_that_nobody_has_named(
    redis_url: str, index: redis.Redis
) -> None:
    namespace = redis_url.partition("namespace=")[2]
    rights = ["on", ">secret", "allkeys", "allchannels", "+@all", "-scan"]
    index.execute_command("ACL", "SETUSER", namespace, *rights)  # type: ignore[no-untyped-call]
    store = RedisStore.from_url(redis_url.replace("redis://", f"redis://{namespace}:secret@"))
    try:
        await store.enqueue([a_job()])
        assert (await store.busy_queues(("*",))).queues == ("q",)
    finally:
        await store.close()
        index.execute_command("ACL", "DELUSER", namespace)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("pattern", ["*", "a*", "a?c", "[ab]*", "[!ab]*", "a-b.c:d_e", "[", "a[", "[a-c]1", "*1*"])
def test_the_server_matches_patterns_as_workers_do(pattern: str, index: redis.Redis) -> None:
    [expression] = lua_expressions([pattern]).split()
    for name in ("a", "abc", "a-b.c:d_e", "axb", "b1", "c1", "d1", "1", "Z-1"):
        found = index.eval("return string.find(ARGV[1], ARGV[2]) and 1 or 0", 0, name, expression[1:])
        assert bool(found) == fnmatchcase(name, pattern) == serves([pattern], name)
