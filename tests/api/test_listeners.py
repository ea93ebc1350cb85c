"""Listeners: they hear what they asked for, slow nobody and break nothing, and without any no event is made."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from tenure import App, events
from tenure.core.job import new_id
from tenure.errors import InvalidOption
from tenure.events import Event
from tenure.observe import audience, listeners
from tenure.testing.conformance.scene import lease

from .stage import Heard


async def test_a_listener_hears_the_kinds_that_it_asked_for() -> None:
    app = App(f"memory://{new_id()}")
    of_queues: list[Event] = []
    of_two: list[str] = []
    app.listen(events.QueueEvent)(of_queues.append)

    @app.listen("enqueued", events.Cancelled)
    def two(event: Event) -> None:
        of_two.append(event.kind)

    job = await app.remote("t").aenqueue()
    await job.acancel()
    await app.apause("q")
    await app.aclose()
    assert of_two == ["enqueued", "cancelled"]
    assert [event.kind for event in of_queues] == ["queue_paused"]


async def test_a_listener_that_raises_is_logged_once_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    app = App(f"memory://{new_id()}")
    heard = Heard(app)
    calls: list[Event] = []

    @app.listen
    def bad(event: Event) -> None:
        calls.append(event)
        raise (ValueError if len(calls) < 3 else SystemExit)("no")

    task = app.remote("t")
    for _ in range(4):
        await task.aenqueue()
    await app.aclose()
    assert len(calls) == len(heard.all) == 4
    logged = [message for message in caplog.messages if "bad failed" in message]
    assert [message.partition(" on ")[0].rpartition(" ")[2] for message in logged] == ["'ValueError'", "'SystemExit'"]


async def test_a_listener_that_hangs_slows_nobody_and_loses_only_events(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listeners, "BACKLOG", 100)
    monkeypatch.setattr(listeners, "FLUSH_TIMEOUT", 0.1)
    app = App(f"memory://{new_id()}")
    hanging = threading.Event()
    heard: list[Event] = []

    @app.listen
    def slow(event: Event) -> None:
        hanging.wait(20)
        heard.append(event)

    task = app.task(name="t")(lambda: None)
    jobs = await task.aenqueue_many([()] * 50)
    async with app.worker(concurrency=10):
        for job in jobs:
            await job.aresult(timeout=10)
    assert heard == []
    assert app.internals.audience.listeners.dropped > 0
    hanging.set()
    await app.internals.audience.listeners.aflush(10)
    assert 0 < len(heard) <= 100
    assert len([message for message in caplog.messages if "some events are dropped" in message]) == 1


async def test_an_async_listener_is_refused() -> None:
    async def listener(event: Event) -> None: ...

    app = App(f"memory://{new_id()}")
    with pytest.raises(InvalidOption, match="is async"):
        app.listen(listener)
    with pytest.raises(InvalidOption, match="no kind of event named 'sucess'"):
        app.listen("sucess")
    with pytest.raises(InvalidOption, match="function of one event"):
        App(listeners=[3])  # type: ignore[list-item]


async def test_events_are_derived_only_while_somebody_wants_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With nothing registered, and the store having said that nobody watches, no event is made."""
    # So that it is not time to ask again, however long this takes.
    monkeypatch.setattr(audience, "CHECK_INTERVAL", 60.0)
    caplog.set_level(logging.WARNING)
    app = App(f"memory://{new_id()}", log=False)
    await app.remote("t").aenqueue()
    async with asyncio.timeout(10):
        while app.internals.audience.wants:
            await asyncio.sleep(0.005)
    assert app.internals.audience.check_at > 0
    before = app.internals.audience.check_at
    store = app.internals.session.store
    assert await lease(store, "default")
    assert app.internals.audience.check_at == before
    assert store.on_consequences is None
    await app.aclose()
