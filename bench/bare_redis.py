"""Redis: the bare engine through redis-py, hiredis and uvloop, one script per operation."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
import redis.asyncio
import uvloop
from engine import Engine, other_process
from tests.servers.server import Server

from tenure.core.job import new_id

ENQUEUE = """
local fields, places, seq = {}, {}, redis.call('INCRBY', KEYS[4], #ARGV)
for i = 1, #ARGV do
  fields[2 * i - 1], fields[2 * i] = ARGV[i], '{}'
  places[2 * i - 1], places[2 * i] = seq + i, ARGV[i]
end
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('ZADD', KEYS[2], unpack(places))
return redis.call('RPUSH', KEYS[5], 1)
"""
SETTLE_AND_LEASE = """
if #ARGV > 2 then
  redis.call('ZREM', KEYS[3], unpack(ARGV, 3))
  redis.call('HDEL', KEYS[1], unpack(ARGV, 3))
end
local popped = redis.call('ZPOPMIN', KEYS[2], ARGV[1])
local ids, held = {}, {}
for i = 1, #popped, 2 do
  ids[#ids + 1] = popped[i]
  held[i], held[i + 1] = ARGV[2], popped[i]
end
if #ids == 0 then return {ids, ids} end
redis.call('ZADD', KEYS[3], unpack(held))
return {ids, redis.call('HMGET', KEYS[1], unpack(ids))}
"""
KEYS = ("jobs", "line", "held", "seq", "wake")


class Redis(Engine):
    """Databases of a server that the benchmark starts, without persistence."""

    name = "Redis"
    bars = {  # noqa: RUF012
        "aenqueue": "≥ 75 % of bare",
        "together": "≥ 8×",
        "bulk": "≥ 30 % of bare",
        "drain": "≥ 35 % of bare",
        "two": "≥ 1.15×, or both cores ≥ 90 % busy",
        "p50": "≤ 1.5×",
        "p99": "≤ 3×",
        "idle": "≤ 0.3 %",
        "memory": "≤ 45 MB",
        "calls": "≤ 3",
        "waiting": "≤ 339",
    }

    def __init__(self, folder: Path) -> None:
        self._server = Server(folder / "redis").start()
        self._client = self._server.client()
        self._stores = 0
        version = self._client.info("server")
        self.name = f"{'Valkey' if 'valkey_version' in version else 'Redis'} {version.get('valkey_version', version['redis_version'])}"

    @contextmanager
    def watched(self) -> Iterator[dict[str, float]]:
        found = {"another client waits": 0.0}
        over = threading.Event()

        def ping() -> None:
            with self._server.client() as client:
                while not over.wait(0.001):
                    begun = time.perf_counter()
                    client.ping()
                    found["another client waits"] = max(found["another client waits"], time.perf_counter() - begun)

        self._client.config_set("slowlog-log-slower-than", 1000)
        self._client.config_set("slowlog-max-len", 100_000)
        self._client.slowlog_reset()
        thread = threading.Thread(target=ping)
        thread.start()
        try:
            yield found
        finally:
            over.set()
            thread.join()
            slow = [entry["duration"] / 1e6 for entry in self._client.slowlog_get(100_000)]
            found["one script takes"] = max(slow, default=0.0)
            self._client.config_set("slowlog-log-slower-than", 10_000)

    def fresh(self) -> str:
        self._client.flushall()
        self._stores += 1
        return f"{self._server.url}?namespace=bench-{self._stores}"

    def enqueue(self, number: int) -> float:
        self._client.flushall()
        script = self._client.register_script(ENQUEUE)
        begun = time.perf_counter()
        for _ in range(number):
            script(KEYS, [new_id()])
        return number / (time.perf_counter() - begun)

    async def aenqueue(self, number: int) -> float:
        async with redis.asyncio.Redis(port=self._server.port) as client:
            await client.flushall()
            script = client.register_script(ENQUEUE)
            await script(KEYS, [new_id()])
            begun = time.perf_counter()
            for _ in range(number):
                await script(KEYS, [new_id()])
            return number / (time.perf_counter() - begun)

    def enqueue_bulk(self, number: int) -> float:
        self._client.flushall()
        script = self._client.register_script(ENQUEUE)
        begun = time.perf_counter()
        for _ in range(number // 1000):
            script(KEYS, [new_id() for _ in range(1000)])
        return number / (time.perf_counter() - begun)

    def drain(self, number: int) -> float:
        self.enqueue_bulk(number)

        async def noop() -> None:
            return None

        async def work() -> float:
            async with redis.asyncio.Redis(port=self._server.port) as client:
                script = client.register_script(SETTLE_AND_LEASE)
                held: list[Any] = []
                begun = time.perf_counter()
                while True:
                    held, payloads = await script(KEYS, [self.batch, time.time() + 30, *held])
                    if not held:
                        return number / (time.perf_counter() - begun)
                    for payload in payloads:
                        json.loads(payload)
                        await noop()

        return uvloop.run(work())

    def floor(self, number: int) -> list[float]:
        """An enqueue script that pushes to a list on which the other process blocks."""
        self._client.flushall()
        script = self._client.register_script(ENQUEUE)
        spent = []
        with other_process("floor_redis.py", str(self._server.port)) as next_line:
            for _ in range(number):
                begun = time.monotonic()
                script(KEYS, [new_id()])
                spent.append(float(next_line()) - begun)
                time.sleep(0.01)
        return spent

    def cpu(self) -> float:
        used = self._client.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def calls(self) -> int | None:
        # Not the total, because that includes the commands that scripts call.
        stats = self._client.info("commandstats")
        return sum(
            int(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for name in ("evalsha", "eval", "blpop", "ping")
        )

    def bytes_used(self, url: str) -> int:  # noqa: ARG002
        return int(self._client.info("memory")["used_memory"])

    def close(self) -> None:
        self._client.close()
        self._server.kill()
