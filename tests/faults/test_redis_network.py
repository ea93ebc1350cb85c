"""A network that fails between Tenure and a Redis: answers that are lost, connections that are silent, cut or slow (F16)."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tenure import App
from tenure.errors import OutcomeUnknown
from tenure.job import State
from tenure.lease import Lease, new_nonce
from tenure.options import Retention
from tenure.stores.base import LeaseRequest, Renewal, Search, Store
from tenure.stores.redis.keys import Keys
from tenure.stores.redis.scripts import scripts
from tenure.testing.conformance.scene import (
    FAIL,
    SUCCEED,
    a_job,
    a_worker,
    assert_counters_equal_a_recount,
    enqueue,
    everything,
    lease,
    lease_one,
    record,
)
from tests.servers.proxy import Proxy, proxied
from tests.servers.server import Server

from .cluster import Cluster
from .processes import Processes, eventually
from .scale import lengths


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "redis").start()
    yield server
    server.kill()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with proxied(server.port) as proxy:
        yield proxy


@pytest.fixture
def url(proxy: Proxy) -> str:
    """The store behind the network, which is not waited for long."""
    return f"redis://127.0.0.1:{proxy.port}?timeout=1&connect_timeout=1"


class Scene(NamedTuple):
    """A store that has been used for all that follows, and what is in it."""

    store: Store
    held: Lease


@pytest.fixture
async def scene(store: Store, server: Server) -> Scene:
    for script in scripts.values():
        server.do("SCRIPT", "LOAD", script.source)
    await store.register(a_worker())
    await enqueue(store, a_job(id="held"), a_job(id="fail"))
    held = await lease_one(store)
    [fail] = await lease(store, limit=1)
    await store.settle([(fail, FAIL)])
    await enqueue(store, a_job(id="waiting"), a_job(id="scheduled", delay=3600))
    server.do("RPUSH", Keys("tenure").inbox("q"), b'{"task": "t", "id": "foreign"}')
    return Scene(store, held)


def a_request(**changes: Any) -> LeaseRequest:
    usual: dict[str, Any] = {"queues": ("q",), "limit": 10, "worker": "w", "ttl": 30.0, "nonce": new_nonce()}
    return LeaseRequest(**usual | changes)


async def states(scene: Scene) -> dict[str, State]:
    return {job.id: job.state for job in await everything(scene.store)}


class Call(NamedTuple):
    """A call whose answer is lost, made once more with the answer, and what is then in the store."""

    ask: Callable[[Scene], Awaitable[Any]]
    again: Callable[[Any], bool]
    changed: dict[str, State | None] = {}
    """States that differ from those before."""


def kinds(*wanted: str) -> Callable[[Any], bool]:
    return lambda verdicts: [verdict.kind for verdict in verdicts] == [*wanted]


CALLS = {
    "enqueue": Call(
        lambda scene: scene.store.enqueue([a_job(id="new")]),
        lambda answers: [answer.id for answer in answers] == ["new"],
        {"new": State.WAITING},
    ),
    "enqueue that may be refused": Call(
        lambda scene: scene.store.enqueue([a_job(id="new", after=("waiting",))]),
        lambda answers: [answer.state for answer in answers] == ["blocked"],
        {"new": State.BLOCKED},
    ),
    "enqueue_now": Call(
        lambda scene: asyncio.to_thread(scene.store.enqueue_now, [a_job(id="new")]),
        lambda answers: [answer.id for answer in answers] == ["new"],
        {"new": State.WAITING},
    ),
    "lease": Call(
        lambda scene: scene.store.lease(a_request()), lambda leased: leased.leases == [], {"waiting": State.RUNNING}
    ),
    "settle": Call(lambda scene: scene.store.settle([(scene.held, SUCCEED)]), kinds("ok"), {"held": State.SUCCEEDED}),
    "settle_and_lease": Call(
        lambda scene: scene.store.settle_and_lease([(scene.held, SUCCEED)], a_request()),
        lambda answer: kinds("ok")(answer[0]) and answer[1].leases == [],
        {"held": State.SUCCEEDED, "waiting": State.RUNNING},
    ),
    "renew": Call(lambda scene: scene.store.renew([Renewal(scene.held, ttl=60)]), lambda reasons: reasons == [None]),
    "reap": Call(lambda scene: scene.store.reap(["q"]), lambda reaped: reaped == []),
    "retire": Call(lambda scene: scene.store.retire("w"), lambda reaped: reaped == [], {"held": State.WAITING}),
    "register": Call(lambda scene: scene.store.register(a_worker("x")), lambda nothing: nothing is None),
    "beat": Call(lambda scene: scene.store.beat("w", 1), lambda known: known is True),
    "leave": Call(lambda scene: scene.store.leave("w"), lambda nothing: nothing is None),
    "cancel": Call(lambda scene: scene.store.cancel(["held"]), kinds("refused"), {"held": State.CANCELLED}),
    "complete": Call(
        lambda scene: scene.store.complete("held", "1"),
        lambda verdict: verdict.kind == "refused",
        {"held": State.SUCCEEDED},
    ),
    "retry": Call(lambda scene: scene.store.retry(["fail"]), kinds("refused"), {"fail": State.WAITING}),
    "trigger": Call(lambda scene: scene.store.trigger(["scheduled"]), kinds("refused")),
    "delete": Call(lambda scene: scene.store.delete(["held"]), lambda gone: gone == [], {"held": None}),
    "pause": Call(lambda scene: scene.store.pause("q"), lambda changed: changed is False),
    "resume": Call(lambda scene: scene.store.resume("q"), lambda changed: changed is False),
    "purge": Call(lambda scene: scene.store.purge("q"), lambda gone: gone == 0, {"waiting": None, "scheduled": None}),
    "prune": Call(lambda scene: scene.store.prune(Retention(failed=0), {}), lambda gone: gone == 0, {"fail": None}),
    "take_in": Call(lambda scene: scene.store.take_in(["q"]), lambda taken: taken == 0, {"foreign": State.WAITING}),
    "get": Call(lambda scene: scene.store.get(["held"]), lambda jobs: jobs[0].state == "running"),
    "search": Call(lambda scene: scene.store.search(Search()), lambda page: len(page.jobs) == 4),
    "queues": Call(lambda scene: scene.store.queues(), lambda queues: queues[0].running == 1),
    "workers": Call(lambda scene: scene.store.workers(), lambda workers: len(workers) == 1),
    "wait": Call(lambda scene: scene.store.wait(["fail"]), lambda found: found["fail"].state == "failed"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_whose_answer_is_lost_may_be_made_again(scene: Scene, proxy: Proxy, name: str) -> None:  # F16
    call, before = CALLS[name], await states(scene)
    proxy.lose_reply(to=b"EVALSHA")

    try:
        answer = await call.ask(scene)
    except OutcomeUnknown:
        answer = await call.ask(scene)
    else:
        assert name.startswith("enqueue"), "nobody else makes a call again unasked"

    assert proxy.lost.is_set()
    assert call.again(answer)
    expected = {id_: state for id_, state in (before | call.changed).items() if state is not None}
    assert await states(scene) == expected
    await assert_counters_equal_a_recount(scene.store)


async def test_a_job_whose_lease_was_lost_on_the_way_comes_back(scene: Scene, proxy: Proxy) -> None:  # F16, I4, I7
    proxy.lose_reply(to=b"EVALSHA")
    with pytest.raises(OutcomeUnknown):
        await scene.store.lease(a_request(ttl=0.1))

    async with asyncio.timeout(5):
        while not await scene.store.reap(["q"]):
            await asyncio.sleep(0.02)

    again = await lease_one(scene.store)
    assert (again.job.id, again.token.fence) == ("waiting", 2)
    assert (await record(scene.store, "waiting")).losses == 1


def test_work_that_comes_while_all_connections_are_silent_is_found(
    cluster: Cluster, server: Server, proxy: Proxy
) -> None:  # F16, I11
    cluster.enqueue("quick", 1)
    cluster.worker()
    cluster.wait_for_end()
    eventually(lambda: b" cmd=blpop " in server.do("CLIENT", "LIST"), "a worker that waits for work")

    proxy.deafen()
    began = time.monotonic()
    with App(server.url) as past_the_network:
        job = past_the_network.remote("quick").enqueue(7)
        assert job.result(timeout=20) == 7

    assert time.monotonic() - began < 6, "a timeout, a pause and a look"


async def test_a_waiting_call_notices_that_nobody_is_there(store: Store, proxy: Proxy) -> None:  # F16
    await store.wait_for_work(["q"], 0.01)
    proxy.blackhole()
    began = time.monotonic()

    with pytest.raises(OutcomeUnknown):
        await store.wait_for_work(["q"], 0.5)

    assert time.monotonic() - began < 4


@pytest.mark.parametrize("seconds", lengths(4, 60))
def test_a_network_that_fails_all_the_time_costs_time_and_nothing_else(
    cluster: Cluster, proxy: Proxy, processes: Processes, seconds: int
) -> None:  # F16, I1, I2, I5, I6
    chance = random.Random(seconds)
    over = threading.Event()

    def fail() -> None:
        while not over.wait(chance.uniform(0, 0.1)):
            match chance.choice(["lose", "lose", "lose", "cut", "deafen", "drip"]):
                case "lose":
                    proxy.lose_reply(to=b"EVALSHA")
                case "cut":
                    proxy.cut()
                case "deafen" if chance.random() < 0.3:
                    proxy.deafen()
                case _:
                    proxy.drip = 0.001
                    over.wait(0.05)
                    proxy.drip = None

    failing = threading.Thread(target=fail)
    for _ in range(2):
        cluster.worker("-c", "3")
    failing.start()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            cluster.enqueue("quick", 1, number=10)
            cluster.enqueue("nap", 0.01, number=3)
        except OutcomeUnknown:
            pass  # it is on record
        time.sleep(0.1)  # retention keeps ten thousand finished jobs, and all of these must be there in the end
    over.set()
    failing.join()
    proxy.heal()
    cluster.wait_for_answers()

    records = cluster.wait_for_end(timeout=60)

    assert len(records) > 20 * seconds
    assert {each.state for each in records.values()} <= {"succeeded", "failed"}
    assert cluster.violations() == []
