"""A web application whose jobs last as long as the environment says; see test_web_servers.py."""

from __future__ import annotations

import asyncio
import os
import time

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tenure import App

QUEUES = os.environ["QUEUES"].split()
SECONDS = float(os.environ["SECONDS"])

jobs = App(lease=float(os.environ.get("LEASE", "30")))


@jobs.task
async def on_the_loop() -> str:
    await asyncio.sleep(SECONDS)
    return "loop"


@jobs.task
def in_a_thread() -> str:
    time.sleep(SECONDS)
    return "thread"


async def enqueue(request: Request) -> PlainTextResponse:
    task = jobs.tasks[request.path_params["task"]]
    job = await task.using(queue=QUEUES[0]).aenqueue()
    return PlainTextResponse(job.id)


api = Starlette(
    routes=[Route("/{task}", enqueue, methods=["POST"])],
    lifespan=jobs.lifespan(queues=QUEUES, concurrency=4, grace=0.5, term_timeout=0.2),
)
