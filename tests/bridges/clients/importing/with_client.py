"""`tenure import` from five systems as PyPI has them: what they enqueue is moved exactly, their live workers are seen."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenure import App
from tenure.bridges.importing import origin_of
from tests.bridges.importing import Foreign, import_and_kill, jobs_of

PACKAGES = {
    "celery": "celery[redis]==5.7.0",
    "rq": "rq==2.12.0",
    "arq": "arq==0.28.0",
    "huey": "huey[redis]==3.5.4",
    "dramatiq": "dramatiq[redis]==2.2.1",
}
"""Each in an environment of its own: Celery and arq need different versions of redis-py."""

LATER = 1_900_000_000

MODULES = {
    "celery": """
import datetime, os
from celery import Celery
app = Celery("peer", broker=os.environ["PEER_URL"])
later = datetime.datetime.fromtimestamp({later}, datetime.timezone.utc)

@app.task(name="add")
def add(a, b): ...

@app.task(name="unknown")
def unknown(a): ...

def enqueue(count):
    for number in range(count):
        if number % 100 == 0:
            unknown.delay(number)
        add.delay(number, 0)
        add.apply_async((number, 1), eta=later + datetime.timedelta(seconds=number), queue="mail")
""",
    "rq": """
import datetime, os
from redis import Redis
from rq import Queue
queue = Queue("celery", connection=Redis.from_url(os.environ["PEER_URL"]))
later = datetime.datetime.fromtimestamp({later}, datetime.timezone.utc)

def enqueue(count):
    for number in range(count):
        if number % 100 == 0:
            queue.enqueue("unknown", number)
        queue.enqueue("add", number, b=0)
        queue.enqueue_at(later + datetime.timedelta(seconds=number), "add", number, 1)
""",
    "arq": """
import asyncio, datetime, os
from arq import create_pool
from arq.connections import RedisSettings
later = datetime.datetime.fromtimestamp({later}, datetime.timezone.utc)

async def add(ctx, a, b): ...

class WorkerSettings:
    functions = [add]
    redis_settings = RedisSettings.from_dsn(os.environ["PEER_URL"])

async def enqueue_all(count):
    pool = await create_pool(RedisSettings.from_dsn(os.environ["PEER_URL"]))
    base = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
    for number in range(count):
        # arq orders by time in milliseconds: each gets one of its own.
        due = base + datetime.timedelta(seconds=number)
        if number % 100 == 0:
            await pool.enqueue_job("unknown", number, _defer_until=due)
        await pool.enqueue_job("add", number, b=0, _defer_until=due)
        await pool.enqueue_job("add", number, 1, _defer_until=later + datetime.timedelta(seconds=number))

def enqueue(count):
    asyncio.run(enqueue_all(count))
""",
}
MODULES |= {
    "huey": """
import datetime, os
from huey import RedisHuey
huey = RedisHuey("shop", url=os.environ["PEER_URL"])
later = datetime.datetime.fromtimestamp({later}, datetime.timezone.utc)

@huey.task(name="add")
def add(a, b): ...

@huey.task(name="unknown")
def unknown(a): ...

def enqueue(count):
    for number in range(count):
        if number % 100 == 0:
            unknown(number)
        add(number, b=0)
        add.schedule((number, 1), eta=later + datetime.timedelta(seconds=number))
""",
    "dramatiq": """
import os, time
import dramatiq
from dramatiq.brokers.redis import RedisBroker
dramatiq.set_broker(RedisBroker(url=os.environ["PEER_URL"]))

@dramatiq.actor(queue_name="mail")
def add(a, b): ...

@dramatiq.actor(queue_name="mail")
def unknown(a): ...

def enqueue(count):
    for number in range(count):
        if number % 100 == 0:
            unknown.send(number)
        add.send(number, b=0)
        add.send_with_options(args=(number, 1), delay=round(({later} + number - time.time()) * 1000))
""",
}

WORKERS = {
    "celery": ["celery", "-A", "peer", "worker", "-c", "1", "-Q", "nothing"],
    "rq": ["rq", "worker", "nothing", "--url"],
    "arq": ["arq", "peer.WorkerSettings"],
    "huey": ["huey_consumer", "peer.huey"],
    "dramatiq": ["dramatiq", "peer", "-p", "1", "-t", "1"],
}


class Peer:
    """Another system, installed in an environment of its own."""

    def __init__(self, kind: str, folder: Path, url: str) -> None:
        self.kind = kind
        self._folder = folder
        self._environment = {**os.environ, "PEER_URL": url, "PYTHONPATH": str(folder), "PYTHONWARNINGS": "ignore"}
        self._bin = _installed(kind)
        self._url = url
        (folder / "peer.py").write_text(MODULES[kind].replace("{later}", str(LATER)))

    def enqueue(self, count: int) -> None:
        program = f"import peer; peer.enqueue({count})"
        subprocess.run([self._bin / "python", "-c", program], env=self._environment, cwd=self._folder, check=True)

    @contextmanager
    def worker(self) -> Iterator[None]:
        """A worker of its own, which is killed at the end."""
        program, *words = WORKERS[self.kind]
        command = [str(self._bin / program), *words, *([self._url] if self.kind == "rq" else [])]
        with subprocess.Popen(
            command,
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                yield
            finally:
                os.killpg(process.pid, 9)


def _installed(kind: str) -> Path:
    """The folder of the programs of this package, which is installed once."""
    folder = Path(os.environ.get("TEST_IMPORT_CLIENTS", f"{sys.prefix}/import-clients")) / kind
    if not (folder / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", PACKAGES[kind]], check=True)
        (folder / "done").touch()
    return folder / "bin"


@pytest.fixture(params=PACKAGES)
def peer(request: pytest.FixtureRequest, tmp_path: Path, foreign: Foreign) -> Peer:
    return Peer(request.param, tmp_path, foreign.url)


def workers(kind: str, url: str) -> list[str]:
    async def ask() -> list[str]:
        origin = origin_of(kind, url)
        try:
            return await origin.workers()
        finally:
            await origin.close()

    return asyncio.run(ask())


@pytest.mark.timeout(300)
def test_a_thousand_of_which_half_are_scheduled_are_moved_exactly_though_the_import_is_killed(
    peer: Peer, foreign: Foreign, tmp_path: Path
) -> None:
    peer.enqueue(500)
    url = f"sqlite:///{tmp_path}/jobs.db"

    import_and_kill(peer.kind, url, foreign.url, kills=10, batch=20)

    app = App(url)
    jobs = asyncio.run(jobs_of(app))
    app.close()
    given = [([*args, *kwargs.values()], run_at) for _, _, args, kwargs, run_at in jobs]
    assert given[:500] == [([number, 0], None) for number in range(500)]
    # Dramatiq takes a delay, so that its times are some milliseconds off.
    assert [(args, run_at and round(run_at)) for args, run_at in given[500:]] == [
        ([number, 1], LATER + number) for number in range(500)
    ]
    assert left(peer.kind, foreign) == 5
    assert list(foreign.client.scan_iter("*tenure:importing")) == []


def left(kind: str, foreign: Foreign) -> int:
    """How many jobs of tasks that are not known here are still there."""
    match kind:
        case "celery":
            return int(foreign.client.llen("celery"))
        case "rq":
            return int(foreign.client.llen("rq:queue:celery"))
        case "huey":
            return int(foreign.client.llen("huey.redis.shop"))
        case "dramatiq":
            return int(foreign.client.llen("dramatiq:mail"))
        case _:
            return int(foreign.client.zcard("arq:queue"))


@pytest.mark.timeout(300)
def test_a_live_worker_is_seen(peer: Peer, foreign: Foreign) -> None:
    assert workers(peer.kind, foreign.url) == []
    with peer.worker():
        deadline = time.monotonic() + 60
        while not workers(peer.kind, foreign.url):
            assert time.monotonic() < deadline, "no worker was seen"
            time.sleep(0.2)
    if peer.kind in ("celery", "huey"):  # the others leave a key that only time removes
        time.sleep(1)
        assert workers(peer.kind, foreign.url) == []
