"""What type checkers must accept and must refuse of lifespans in web frameworks; as `producing.py`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import assert_type

from fastapi import FastAPI
from litestar import Litestar
from starlette.applications import Starlette

from tenure import App
from tenure.worker.lifespan import Lifespan

jobs = App("memory://")
assert_type(jobs.lifespan(), Lifespan)
FastAPI(lifespan=jobs.lifespan(concurrency=10))
Starlette(lifespan=jobs.lifespan(grace=timedelta(seconds=5), queues=["mail"]))
Litestar(lifespan=[jobs.lifespan(worker=False), jobs.lifespan()()])
a_manager: AbstractAsyncContextManager[None] = jobs.lifespan()(object())
jobs.lifespan(threads=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
jobs.lifespan(concurrency="10")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
jobs.lifespan(grace="10 s")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
FastAPI(lifespan=jobs.lifespan)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def used_by_hand() -> None:
    async with jobs.lifespan()() as nothing:
        assert_type(nothing, None)
