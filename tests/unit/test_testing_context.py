"""Calling a function that takes a context, with one made for the test."""

from __future__ import annotations

import asyncio

import pytest

from tenure import AbortReason, App, Context
from tenure.errors import InvalidOption
from tenure.testing import context

app = App("memory://")


@app.task
def resize(ctx: Context, name: str) -> str:
    ctx.progress(1, 2, "half")
    ctx.log.info("resizing %s", name)
    if ctx.attempt > 1:
        ctx.enqueue(resize.bind(name))
    return "stopped" if ctx.signal.aborted else f"{name} {ctx.results}"


def test_a_function_is_called_with_a_context_made_for_the_test() -> None:
    with context(attempt=2, results=[1, {"a": 2}]) as ctx:
        assert resize("a.png") == "a.png [1, {'a': 2}]"

    assert ctx.said is not None
    assert ctx.said.note == "half"
    assert [job.task for job in ctx.children] == [resize.name]


def test_a_test_can_tell_the_function_to_stop() -> None:
    with context() as ctx:
        ctx.signal.abort(AbortReason.CANCELLED)

        assert resize("a.png") == "stopped"


def test_what_needs_a_worker_says_so() -> None:
    async def complete() -> None:
        with context() as ctx:
            async with ctx.complete():
                pass

    with pytest.raises(InvalidOption, match="needs a worker"):
        asyncio.run(complete())
