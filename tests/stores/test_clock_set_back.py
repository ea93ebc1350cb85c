"""What people see of a worker that has died after the clock of the server was ahead for a moment."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from tenure import App
from tenure.core.reasons import HolderMissing
from tenure.stores.base import Store
from tenure.stores.postgres.address import Address as PostgresAddress
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.redis.address import Address as RedisAddress
from tenure.stores.redis.store import RedisStore
from tenure.stores.values import Health, Reaped
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import a_job, a_worker, lease
from tests.conftest import a_url

YEAR = 365 * 86400.0


@pytest.fixture(params=["redis", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return a_url(request)


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    app = App(url)
    yield app
    await app.aclose()


@pytest.fixture
async def ahead(url: str) -> AsyncIterator[Store]:
    """The store, by the clock that its server has had for a moment."""
    clock = ManualClock(wall=time.time() + YEAR)
    store: Store
    if url.startswith("redis"):
        store = RedisStore(RedisAddress.from_url(url), clock=clock)
    else:
        store = PostgresStore(PostgresAddress.from_url(url), clock=clock)
    yield store
    await store.close()


async def a_dead_holder(ahead: Store) -> str:
    """The id of a job that a worker holds which has died while the clock was ahead."""
    await ahead.register(a_worker("dead", lanes=("loop",)))
    [answer] = await ahead.enqueue([a_job()])
    await lease(ahead, worker="dead", ttl=0.2)
    return answer.id


async def test_its_jobs_go_to_others_after_one_lease(app: App, ahead: Store) -> None:
    job_id = await a_dead_holder(ahead)
    store = app.internals.session.store
    reaped: list[Reaped] = []
    deadline = time.monotonic() + 20

    while not reaped and time.monotonic() < deadline:
        reaped = await store.reap(["q"])

    assert [each.id for each in reaped] == [job_id]
    assert [each.job.id for each in await lease(store)] == [job_id]


async def test_it_is_shown_as_missing(app: App, ahead: Store) -> None:
    job_id = await a_dead_holder(ahead)

    explanation = await app.aexplain(job_id)
    [worker] = await app.aworkers()

    [reason] = explanation.reasons
    assert isinstance(reason, HolderMissing)
    assert reason.left <= 0.2
    assert worker.missing


async def test_the_doctor_warns(app: App, ahead: Store) -> None:
    await a_dead_holder(ahead)

    [clock] = [fact for fact in await app.internals.session.store.examine() if fact.name == "clock"]

    assert clock.health is Health.WARN
    assert "1 beats of workers and 1 leases" in clock.value


async def test_a_clock_that_was_never_set_is_fine(app: App) -> None:
    store = app.internals.session.store
    await store.register(a_worker())
    await store.enqueue([a_job()])
    await lease(store)

    [clock] = [fact for fact in await store.examine() if fact.name == "clock"]

    assert clock.health is Health.OK
