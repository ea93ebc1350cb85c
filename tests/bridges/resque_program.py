"""A worker process of a bridge to Resque, for tests that kill it or send it signals: `python -m tests.bridges.resque_program`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import redis

from tenure import App
from tenure.bridges import Resque

ROOT = Path(__file__).parents[2]


def make_app(store: str, there: str, **options: Any) -> tuple[App, Resque]:
    """The app of such a process, and of the test that looks at what became of its jobs."""
    app = App(store, lease=1, missing_after=1.5, **options)
    resque = Resque(app, there)

    @app.task
    def add(first: int, second: int) -> int:
        return first + second

    @app.task
    def note(text: object) -> None:
        """Leave a text, and who ran it, in a list there."""
        with redis.Redis.from_url(there) as client:
            client.rpush("noted", json.dumps([text, os.getpid()]))

    @app.task(aliases=["Slow"])
    def slow(key: str) -> None:
        """Say that it has begun, and wait until the test says `go`."""
        with redis.Redis.from_url(there) as client:
            client.rpush("begun", key)
            while not client.exists("go"):
                time.sleep(0.01)
            client.rpush("noted", json.dumps([key, os.getpid()]))

    @app.task(isolation="process")
    def isolated(key: str) -> None:
        with redis.Redis.from_url(there) as client:
            client.rpush("begun", key)
        time.sleep(3600)

    @app.task
    def boom(text: str) -> None:
        raise ValueError(f"no: {text}")

    if "DIE_AFTER_PUSH" in os.environ:

        @app.middleware
        async def die(ctx: Any, call_next: Any) -> Any:
            await call_next()
            os.kill(os.getpid(), signal.SIGKILL)

    return app, resque


class Program:
    """Such a process, which ends with its test."""

    def __init__(
        self, store: str, there: str, queues: str, *, env: dict[str, str] | None = None, **options: Any
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.bridges.resque_program", store, there, queues, json.dumps(options)],
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def send(self, signum: int) -> None:
        self.process.send_signal(signum)

    def kill(self) -> None:
        """End it at once, with its children."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


if __name__ == "__main__":
    store, there, queues, options = sys.argv[1:]
    app, resque = make_app(store, there, log=False)
    resque.worker(queues.split(","), **{"beat": 0.5, **json.loads(options)}).run()
