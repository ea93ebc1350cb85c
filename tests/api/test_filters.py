"""Filters: which jobs `app.jobs`, `app.cancel`, `app.retry` and `app.delete` mean, and which filters they refuse."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from tenure import App, State
from tenure.core.job import ErrorInfo
from tenure.core.keywords import Filters
from tenure.core.lease import new_nonce
from tenure.core.lifecycle import Finish, Requeue, Transition
from tenure.errors import InvalidName, InvalidOption
from tenure.stores.base import Store
from tenure.stores.values import LeaseRequest

from .conftest import Do, Timed, whatever_the_store

BOOM = ErrorInfo("ValueError", "boom")
FAIL = Finish(State.FAILED, error=BOOM)

Names = dict[str, str]
"""The name that a test has for each job, by its id."""


async def add(app: App, *, task: str = "mail", argument: str = "", **options: Any) -> str:
    return (await app.remote(task, queue="q").using(**options).aenqueue(argument)).id


async def lease(store: Store, transition: Transition | None = None, *, worker: str = "w", queue: str = "q") -> None:
    """Lease the first job in line, and settle it if there is a transition."""
    request = LeaseRequest(queues=(queue,), limit=1, worker=worker, ttl=3600, nonce=new_nonce())
    [leased] = (await store.lease(request)).leases
    if transition is not None:
        await store.settle([(leased, transition)])


async def unfinished(app: App) -> Names:
    """One job for each filter, that differs from the others in what the filter is about."""
    store, names = app.internals.session.store, {}
    names[await add(app)] = "running"
    await lease(store)
    names[await add(app)] = "worker"
    await lease(store, worker="w2")
    names[await add(app)] = "error"
    await lease(store, Requeue(3600.0, error=ErrorInfo("KeyError", "a")))
    names[await add(app, queue="x")] = "queue"
    names[await add(app, task="news")] = "task"
    names[await add(app, tags=["red"])] = "tag"
    names[await add(app, delay=3600)] = "scheduled"
    names[await add(app, argument="ann@example.org")] = "text"
    names[await add(app)] = "in line"
    return names


CANCELS: list[tuple[Filters, str]] = [
    ({"queue": "x"}, "queue"),
    ({"task": "news"}, "task"),
    ({"tag": "red"}, "tag"),
    ({"error": "KeyError"}, "error"),
    ({"text": "ann@example"}, "text"),
    ({"worker": "w2"}, "worker"),
    ({"scheduled": True, "queue": "q"}, "scheduled"),
    ({"scheduled": False}, "in line"),
    ({"state": "running"}, "running"),
]
"""Filters, and the only unfinished job that matches them once those of the rows before are gone."""


async def finished(timed: Timed) -> Names:
    """One job for each filter, as `unfinished`; they end a second after each other, and the filter `before` means the first two."""
    app, clock = timed
    store, names = app.internals.session.store, {}

    async def end(name: str, transition: Transition = FAIL, *, worker: str = "w", **options: Any) -> None:
        clock.advance(1)
        names[await add(app, **options)] = name
        await lease(store, transition, worker=worker, queue=options.get("queue", "q"))

    await end("before", Finish(State.CANCELLED))
    await end("before", Finish(State.CANCELLED))
    await end("cancelled", Finish(State.CANCELLED))
    await end("queue", queue="x")
    await end("task", task="news")
    await end("tag", tags=["red"])
    await end("error", Finish(State.FAILED, error=ErrorInfo("KeyError", "a")))
    await end("text", Finish(State.FAILED, error=ErrorInfo("ValueError", "no ann@example.org")))
    await end("worker", worker="w2")
    await end("broken", Finish(State.BROKEN, error=BOOM))
    await end("failed")
    return names


def finished_rows(start: float) -> list[tuple[Filters, list[str]]]:
    """Filters, and the finished jobs that match them once those of the rows before are gone."""
    return [
        ({"queue": "x"}, ["queue"]),
        ({"task": "news"}, ["task"]),
        ({"tag": "red"}, ["tag"]),
        ({"error": "KeyError"}, ["error"]),
        ({"text": "ann@example"}, ["text"]),
        ({"worker": "w2"}, ["worker"]),
        ({"state": "cancelled", "before": datetime.fromtimestamp(start + 2.5, UTC)}, ["before", "before"]),
        ({"state": State.CANCELLED}, ["cancelled"]),
        ({"state": "broken"}, ["broken"]),
        ({"state": "failed", "error": "ValueError", "queue": "q", "task": "mail"}, ["failed"]),
    ]


def test_every_filter_is_in_the_tables_of_this_module() -> None:
    given = {name for filters, _ in [*CANCELS, *finished_rows(0)] for name in filters}

    assert given == Filters.__annotations__.keys()


async def listed(app: App, do: Do, names: Names, filters: Filters) -> list[str]:
    return [names[job.id] for job in await do(app.jobs, **filters)]


async def test_jobs_are_listed_by_each_filter(timed: Timed, do: Do) -> None:
    app, start = timed.app, timed.clock.wall()
    names, before = await finished(timed), set[str]()
    for filters, meant in finished_rows(start):
        assert [name for name in await listed(app, do, names, filters) if name not in before] == meant, filters
        before.update(meant)
    names |= await unfinished(app)

    assert await listed(app, do, names, {"state": "waiting", "error": "KeyError"}) == ["error"]
    assert await listed(app, do, names, {"error": "KeyError"}) == ["error", "error"]
    assert await listed(app, do, names, {"worker": "w2", "state": "running"}) == ["worker"]
    assert await listed(app, do, names, {"text": "ann@example"}) == ["text", "text"]
    assert sorted(await listed(app, do, names, {"scheduled": True})) == ["error", "scheduled"]
    assert sorted(await listed(app, do, names, {"scheduled": False})) == ["in line", "queue", "tag", "task", "text"]
    assert await listed(app, do, names, {"text": "ann@example", "worker": "w2"}) == []
    for filters, _ in finished_rows(start):
        given = dict.fromkeys(Filters.__annotations__) | dict(filters)
        assert await listed(app, do, names, given) == await listed(app, do, names, filters)  # type: ignore[arg-type]


async def test_jobs_are_cancelled_by_each_filter(app: App, do: Do) -> None:
    names = await unfinished(app)

    for filters, meant in CANCELS:
        assert await do(app.cancel, **filters) == 1, filters
        assert names[(await app.ajobs(state="cancelled"))[0].id] == meant


async def test_jobs_are_retried_by_each_filter(timed: Timed, do: Do) -> None:
    app, start = timed.app, timed.clock.wall()
    names = await finished(timed)

    done: set[str] = set()
    for filters, meant in finished_rows(start):
        assert await do(app.retry, **filters) == len(meant), filters
        waiting = {job.id for job in await app.ajobs(state="waiting")}
        assert sorted(names[each] for each in waiting - done) == meant
        done = waiting
    assert done == names.keys()


async def test_jobs_are_deleted_by_each_filter(timed: Timed, do: Do) -> None:
    app, start = timed.app, timed.clock.wall()
    names = await finished(timed)
    waiting = await add(app)

    for filters, meant in finished_rows(start):
        assert await do(app.delete, **filters) == len(meant), filters
        left = {job.id for job in await app.ajobs()}
        assert [name for each, name in names.items() if each not in left] == meant
        names = {each: name for each, name in names.items() if each in left}
    assert [job.id for job in await app.ajobs()] == [waiting]


# What is refused, before the store is asked.


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        ({"scheduled": True, "state": "failed"}, "scheduled divides the jobs that are waiting, not those that are failed"),
        ({"scheduled": False, "state": "blocked"}, "scheduled divides the jobs that are waiting, not those that are blocked"),
        ({"scheduled": "yes"}, "scheduled must be True or False, not 'yes'"),
        ({"before": datetime(2026, 1, 1, tzinfo=UTC)}, "before is about the end of jobs: give a state too, one of broken, cancelled, failed, succeeded"),
        ({"before": datetime(2026, 1, 1, tzinfo=UTC), "state": "waiting"}, "before is about the end of jobs: give a state too"),
        ({"before": datetime(2026, 1, 1), "state": "failed"}, "before must have a time zone, got the naive 2026-01-01T00:00:00"),
        ({"before": 3.5, "state": "failed"}, "before must be a datetime, not 3.5"),
        ({"text": ""}, "text must be a text of 1 to 200 characters, not ''"),
        ({"text": "x" * 201}, "text must be a text of 1 to 200 characters"),
        ({"text": "a\0b"}, "text must be a text of 1 to 200 characters"),
        ({"text": b"x"}, "text must be a text of 1 to 200 characters"),
        ({"error": ""}, "error must be a text of 1 to 200 characters, not ''"),
        ({"error": KeyError}, "error must be a text of 1 to 200 characters"),
        ({"state": "done"}, "there is no state 'done': it is one of"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("call", ["jobs", "cancel", "retry", "delete"])
async def test_filters_that_can_mean_no_job_are_refused(
    no_store: App, do: Do, call: str, filters: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidOption, match=re.escape(says)):
        await do(getattr(no_store, call), **filters)


@pytest.mark.parametrize("call", ["jobs", "cancel", "retry", "delete"])
@pytest.mark.parametrize("name", ["queue", "task", "tag", "worker"])
async def test_a_name_that_no_job_can_have_is_refused(no_store: App, do: Do, call: str, name: str) -> None:
    for wrong in ("", "a b", 3):
        with pytest.raises(InvalidName, match=f"is not a valid {name} name"):
            await do(getattr(no_store, call), **{name: wrong})


@pytest.mark.parametrize("call", ["jobs", "cancel", "retry", "delete"])
@pytest.mark.parametrize("value", ["mail", None])
async def test_an_unknown_filter_is_refused(no_store: App, do: Do, call: str, value: str | None) -> None:
    with pytest.raises(TypeError, match="there is no filter 'qeue': use state, queue, task, tag, scheduled, error, "):
        await do(getattr(no_store, call), qeue=value)


@whatever_the_store
async def test_states_that_a_call_does_not_act_on_are_refused(app: App, do: Do) -> None:
    with pytest.raises(InvalidOption, match="a job that is failed has ended"):
        await do(app.cancel, state="failed", error="KeyError")
    for call in (app.retry, app.delete):
        with pytest.raises(InvalidOption, match="a job that is waiting has not ended"):
            await do(call, scheduled=True)


@whatever_the_store
async def test_jobs_and_filters_together_are_refused(app: App, do: Do) -> None:
    job = await app.ajob(await add(app))

    for filters in ({"error": "KeyError"}, {"worker": "w"}, {"text": "x"}, {"scheduled": False}):
        with pytest.raises(InvalidOption, match="give either jobs to cancel, or"):
            await do(app.cancel, job, **filters)
        if "scheduled" not in filters:
            for call in (app.retry, app.delete):
                with pytest.raises(InvalidOption, match=r"say which jobs to .* either by themselves or by queue"):
                    await do(call, job, **filters)
    assert (await job.arefresh()).state == "waiting"


@whatever_the_store
async def test_a_call_without_filters_acts_on_nothing(app: App, do: Do) -> None:
    await unfinished(app)

    for call in (app.cancel, app.retry, app.delete):
        assert await do(call) == 0
        assert await do(call, queue=None, text=None) == 0
    assert len(await app.ajobs()) == 9
