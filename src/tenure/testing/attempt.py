"""`context` makes the context in which a test can call the function of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import time
from typing import Any

import msgspec

from tenure.core.job import JobRecord, NewJob, Progress, State, new_id
from tenure.core.lease import Lease, Token, new_nonce
from tenure.core.running import running
from tenure.tasks.context import AbortSignal, Context

__all__ = ["AttemptContext", "context"]


class AttemptContext(Context):
    """A context of a job that is in no store. It shows what the function did with it."""

    @property
    def said(self) -> Progress | None:
        """The progress that the function reported last."""
        return self._progress

    @property
    def children(self) -> tuple[NewJob, ...]:
        """The jobs that the function passed to `ctx.enqueue`."""
        return self._children


@contextmanager
def context(
    task: str = "test",
    *,
    attempt: int = 1,
    queue: str = "default",
    payload: object = None,
    tags: Sequence[str] = (),
    results: Sequence[Any] = (),
    attributes: Mapping[str, Any] | None = None,
) -> Iterator[AttemptContext]:
    """Make a context current inside a block of a test, so that a task that takes one can be called there.

    `with context(attempt=2) as ctx: resize("a.png")`. The job of the context is in no store: `ctx.children` has the
    jobs that `ctx.enqueue` was called with, `ctx.said` the latest progress, and `ctx.signal.abort(…)` asks the function
    to stop. `ctx.prepare` and `ctx.complete` need a worker.
    """
    job = JobRecord(
        id=new_id(), task=task, queue=queue, state=State.RUNNING, payload=msgspec.json.encode(payload),
        created_at=time(), started_at=time(), attempt=attempt, fence=attempt, max_attempts=25, worker="test",
        tags=tuple(tags), results=tuple(msgspec.json.encode(result).decode() for result in results),
        attributes=None if attributes is None else {n: msgspec.json.encode(v).decode() for n, v in attributes.items()},
    )  # fmt: skip
    ctx = AttemptContext(Lease(job, Token(attempt, new_nonce()), 30.0), "test", AbortSignal())
    outside = running.set(ctx)
    try:
        yield ctx
    finally:
        running.reset(outside)
