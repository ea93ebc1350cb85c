"""Which queues a worker with patterns asks for."""

from __future__ import annotations

from tenure.stores.memory import MemoryStore
from tenure.testing.conformance.scene import a_job, lease
from tenure.worker.queues import MOST, Queues

NAMES = [f"q{number:03}" for number in range(2 * MOST + 10)]


def ignored() -> None: ...


async def test_one_lease_asks_for_some_of_the_queues_and_the_next_for_the_next() -> None:
    store = MemoryStore()
    await store.enqueue([a_job(queue=queue) for queue in NAMES])
    queues = Queues(["first", "q*"], store, ignored)
    await queues.refresh()

    asked = [queues.names]
    while queues.advance():
        asked.append(queues.names)

    assert [names[0] for names in asked] == ["first"] * 3  # which is named, so that it always comes first
    assert [queue for names in asked for queue in names[1:]] == NAMES
    assert max(map(len, asked)) <= MOST + 1
    assert queues.truncated
    await queues.refresh()
    assert queues.names == asked[0]
    await store.close()


async def test_a_queue_that_work_was_announced_for_is_asked_for_at_once() -> None:
    store = MemoryStore()
    await store.enqueue([a_job(queue=queue) for queue in NAMES])
    queues = Queues(["*"], store, ignored)
    await queues.refresh()

    queues.add("z")

    assert "z" in queues.names
    assert len(queues.names) <= MOST
    await store.close()


async def test_few_queues_are_asked_for_all_at_once() -> None:
    store = MemoryStore()
    await store.enqueue([a_job(queue=queue) for queue in NAMES])
    await lease(store, *NAMES[3:], limit=1000)
    queues = Queues(["*"], store, ignored)
    await queues.refresh()

    assert queues.names == tuple(NAMES[:3])
    assert not queues.truncated
    assert not queues.advance()
    await store.close()
