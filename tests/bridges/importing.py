"""What the tests of imports share: a Redis of another system, and an app whose jobs can be read."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from typing import Any

import redis

from tenure import App
from tenure.bridges.importing import origin_of
from tenure.bridges.importing.engine import Import
from tenure.bridges.importing.values import Account

__all__ = ["Foreign", "import_and_kill", "imported", "jobs_of"]


class Foreign:
    """The Redis of another system, empty at first."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = redis.Redis.from_url(url)
        self.client.flushdb()

    def keys(self) -> list[bytes]:
        found: list[bytes] = sorted(self.client.keys())  # type: ignore[arg-type]
        return found

    def push(self, queue: str, name: str, *args: object) -> bytes:
        """Enqueue to Resque, as Ruby does."""
        entry = json.dumps({"class": name, "args": args}, separators=(",", ":")).encode()
        self.client.sadd("resque:queues", queue)
        self.client.rpush(f"resque:queue:{queue}", entry)
        return entry

    def delay(self, second: int, queue: str, name: str, *args: object) -> bytes:
        """Enqueue to Resque for later, as Node does."""
        entry = json.dumps({"class": name, "queue": queue, "args": args}, separators=(",", ":")).encode()
        self.client.rpush(f"resque:delayed:{second}", entry)
        self.client.sadd(b"resque:timestamps:" + entry, f"delayed:{second}")
        self.client.zadd("resque:delayed_queue_schedule", {str(second): second})
        return entry

    def waiting(self, queue: str) -> list[bytes]:
        found: list[bytes] = self.client.lrange(f"resque:queue:{queue}", 0, -1)  # type: ignore[assignment]
        return found


async def imported(
    app: App, kind: str, url: str, *, prefix: str | None = None, look: bool = False, **options: Any
) -> Account:
    """Import everything, or only look."""
    origin = origin_of(kind, url, prefix, options.get("queues", ()))
    importing = Import(app, origin, **options)
    try:
        return await (importing.look() if look else importing.move())
    finally:
        await origin.close()


async def jobs_of(app: App) -> list[tuple[str, str, list[Any], dict[str, Any], float | None]]:
    """Queue, task, arguments and time of all jobs: what waits in its order, then what is scheduled in its order."""
    found, cursor = [], None
    while True:
        page = await app.ajobs(limit=1000, cursor=cursor)
        found += [job.record for job in page if job.record is not None]
        if (cursor := page.cursor) is None:
            break
    found.sort(key=lambda job: (job.run_at or 0, job.seq))
    payloads = [json.loads(job.payload) for job in found]
    return [
        (job.queue, job.task, payload.get("args", []), payload.get("kwargs", {}), job.run_at)
        for job, payload in zip(found, payloads, strict=True)
    ]


PROGRAM = """
import asyncio, sys
from tenure import App
from tenure.bridges.importing import origin_of
from tenure.bridges.importing.engine import Import

app = App(sys.argv[2])

@app.task(aliases=["peer.add"])
def add(a: int, b: int) -> int: ...

async def main() -> None:
    origin = origin_of(sys.argv[1], sys.argv[3])
    account = await Import(app, origin, batch=int(sys.argv[4])).move(lambda number: print(number, flush=True))
    await origin.close()
    await app.aclose()

asyncio.run(main())
"""


def import_and_kill(kind: str, url: str, foreign_url: str, *, kills: int, batch: int) -> None:
    """Import to this store with a process that is killed this often, each time a moment after its first batch; then to the end."""
    command = [sys.executable, "-c", PROGRAM, kind, url, foreign_url, str(batch)]
    chance, killed = random.Random(7), 0
    for _ in range(kills):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(chance.random() * 0.03)
            process.kill()
            killed += process.wait() < 0
    assert killed, "every import had ended before it was killed"
    ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    assert ended.returncode == 0, ended.stderr
