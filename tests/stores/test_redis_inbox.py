"""The inbox of a Redis queue, filled by the programs that docs/inbox.md shows: no client of ours."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from tenure import App

Push = Callable[[str, str], Awaitable[None]]

NODE = """
const [host, port, ...words] = process.argv.slice(1);
const socket = require("node:net").connect(Number(port), host);
socket.write(`*${words.length}\\r\\n` + words.map(word => `$${Buffer.byteLength(word)}\\r\\n${word}\\r\\n`).join(""));
socket.on("data", reply => { process.stdout.write(reply); socket.end(); });
"""

PYTHON = """
import socket, sys
host, port, *words = sys.argv[1:]
with socket.create_connection((host, int(port))) as connection:
    sent = [word.encode() for word in words]
    connection.sendall(b"*%d\\r\\n" % len(sent) + b"".join(b"$%d\\r\\n%b\\r\\n" % (len(word), word) for word in sent))
    sys.stdout.write(connection.recv(100).decode())
"""

PROGRAMS: dict[str, Callable[[str, str], list[str]]] = {
    "python": lambda host, port: [sys.executable, "-c", PYTHON, host, port],
    "node": lambda host, port: ["node", "-e", NODE, host, port],
    "redis-cli": lambda host, port: ["redis-cli", "-h", host, "-p", port],
}


# Whatever is on this machine: the first always is.
@pytest.fixture(params=[name for name in PROGRAMS if name == "python" or shutil.which(name)])
def push(request: pytest.FixtureRequest, redis_url: str) -> Push:
    """Push a value onto a list of the namespace, by another program."""
    url = urlsplit(redis_url)
    host, port = url.hostname or "localhost", str(url.port or 6379)
    [namespace] = parse_qs(url.query)["namespace"]
    start = PROGRAMS[request.param](host, port)

    async def push(name: str, value: str) -> None:
        words = ["RPUSH", f"tenure:{{{namespace}}}:{name}", value]
        process = await asyncio.create_subprocess_exec(*start, *words, stdout=subprocess.PIPE)
        reply, _ = await process.communicate()
        assert int(reply.decode().strip().removeprefix(":")) >= 1

    return push


@pytest.fixture
async def app(redis_url: str) -> AsyncIterator[App]:
    app = App(redis_url)
    yield app
    await app.aclose()


async def test_what_another_program_has_pushed_runs_within_the_poll_interval(app: App, push: Push) -> None:  # H1
    ran = asyncio.Queue[tuple[int, str]]()

    @app.task(queue="mail")
    async def send(user: int, greeting: str) -> None:
        await ran.put((user, greeting))

    entry = json.dumps({"task": "send", "args": [42], "kwargs": {"greeting": "Grüß 'Gott'"}}, ensure_ascii=False)
    async with app.worker(["mail"], poll=0.5), asyncio.timeout(20):
        for _ in range(2):  # equal payloads are distinct jobs
            await push("inbox:mail", entry)
        assert [await ran.get() for _ in range(2)] == [(42, "Grüß 'Gott'")] * 2


async def test_a_producer_may_wake_an_idle_worker(app: App, push: Push) -> None:
    ran = asyncio.Event()

    @app.task(queue="mail")
    async def send() -> None:
        ran.set()

    async with app.worker(["mail"], poll=60), asyncio.timeout(20):
        await asyncio.sleep(0.2)  # until it is idle
        await push("inbox:mail", '{"task": "send"}')
        await push("marker:mail", "1")
        await ran.wait()


async def test_a_producer_may_wake_a_worker_that_serves_patterns(app: App, push: Push) -> None:
    ran = asyncio.Event()

    @app.task(queue="mail")
    async def send() -> None:
        ran.set()

    async with app.worker(["mail", "news-*"], poll=60), asyncio.timeout(20):
        await asyncio.sleep(0.2)  # until it is idle
        await push("inbox:news-1", '{"task": "send"}')
        await push("calls:mail,news-*", "news-1")
        await ran.wait()


async def test_a_queue_that_exists_is_served_by_its_pattern(app: App, push: Push) -> None:
    ran = asyncio.Event()

    @app.task(queue="mail")
    async def send() -> None:
        ran.set()

    await app.apause("mail")
    await app.aresume("mail")
    async with app.worker(["*"], poll=0.5), asyncio.timeout(20):
        await push("inbox:mail", '{"task": "send"}')
        await ran.wait()
