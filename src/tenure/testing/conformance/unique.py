"""Tests of unique keys: one owner at a time, free in the operation that ends its claim."""

from __future__ import annotations

import asyncio

import pytest

from tenure.core.job import State
from tenure.core.lifecycle import Finish, Park, Requeue
from tenure.core.options import Retention
from tenure.errors import BlockerNotFound, UniqueConflict
from tenure.stores.base import Store
from tenure.stores.values import (
    OK,
    Enqueued,
    UniqueHeld,
    refused,
)
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    BOOM,
    FAIL,
    RELEASE,
    RETRY,
    SUCCEED,
    MakeStore,
    a_job,
    counts,
    enqueue,
    lease,
    lease_one,
    line,
    settle,
    success,
)

__all__ = ["Unique"]


async def is_held(store: Store, holder: str) -> bool:
    """Whether this job owns the key `k`; fails if another one does. Leaves the store as it was."""
    probe = a_job(unique="k", queue="probe")
    [answer] = await store.enqueue([probe])
    if answer.duplicate:
        assert answer.id == holder
        return True
    await store.delete([probe.id])
    return False


class Unique:
    async def test_a_duplicate_is_not_stored_and_names_the_owner(self, store: Store) -> None:  # Q56, W35, T12, I14
        [holder] = await enqueue(store, a_job(unique="k"))
        duplicate = a_job(unique="k", payload=b"[2]", queue="other")

        assert await store.enqueue([duplicate]) == [Enqueued(holder, State.WAITING, duplicate=True)]

        assert await store.get([duplicate.id]) == [None]
        assert [queue.name for queue in await store.queues()] == ["q"]

    @pytest.mark.parametrize("raises", [True, False])
    async def test_a_child_may_take_the_key_of_a_job_that_the_end_of_its_parent_has_ended(
        self, store: Store, raises: bool
    ) -> None:  # I14
        [parent] = await enqueue(store)
        [dependent] = await enqueue(store, a_job(after=(parent,)))
        [last] = await enqueue(store, a_job(after=(dependent,), unique="k"))
        [other] = await enqueue(store, a_job(after=(dependent,), unique="w", window=60.0))
        children = (a_job(unique="k", unique_raises=raises), a_job(unique="w"))

        verdict = await settle(store, await lease_one(store), Finish(State.FAILED, children=children))

        assert verdict == OK
        found = [job and job.state for job in await store.get([dependent, last, other, children[0].id, children[1].id])]
        assert found == [State.FAILED, State.FAILED, State.FAILED, State.WAITING, None]

    async def test_a_duplicate_may_raise_instead(self, store: Store) -> None:  # W35
        [holder] = await enqueue(store, a_job(unique="k"))

        with pytest.raises(UniqueConflict) as raised:
            await store.enqueue([a_job(unique="k", unique_raises=True)])

        assert raised.value.holder == holder

    async def test_the_scope_of_a_key_is_the_task(self, store: Store) -> None:  # Q56
        await enqueue(store, a_job(unique="k", task="a"), a_job(unique="k", task="b"), a_job(unique="K", task="a"))

        assert (await counts(store)).waiting == 3

    async def test_jobs_without_a_key_are_never_duplicates(self, store: Store) -> None:  # W35, H22
        await enqueue(store, a_job(unique="k"), a_job(), a_job())

        assert (await counts(store)).waiting == 3

    async def test_duplicates_in_one_call_are_found_too(self, store: Store) -> None:  # Q56
        first, second = a_job(unique="k"), a_job(unique="k")

        assert await store.enqueue([first, second]) == [
            Enqueued(first.id, State.WAITING),
            Enqueued(first.id, State.WAITING, duplicate=True),
        ]
        with pytest.raises(UniqueConflict):
            await store.enqueue([a_job(unique="n"), a_job(unique="n", unique_raises=True)])
        assert (await counts(store)).waiting == 1

    async def test_concurrent_enqueues_store_one_job(self, store: Store, make_store: MakeStore) -> None:
        # I14; Q, W: concurrent dedup inserts twice
        other = make_store()

        answers = await asyncio.gather(*[each.enqueue([a_job(unique="k")]) for each in (store, other) * 10])

        assert sum(not answer.duplicate for [answer] in answers) == 1
        assert len({answer.id for [answer] in answers}) == 1

    async def test_the_owner_enqueued_again_is_no_duplicate_of_itself(self, store: Store) -> None:  # I2
        new = a_job(unique="k", unique_raises=True)
        await store.enqueue([new])

        assert await store.enqueue([new]) == [Enqueued(new.id, State.WAITING)]

    @pytest.mark.parametrize("transition", [RETRY, RELEASE, Park()], ids=["retry", "release", "park"])
    async def test_the_key_is_held_through_every_attempt(
        self, store: Store, clock: ManualClock, transition: Requeue | Park
    ) -> None:
        # W35: until it ends, not only until it is leased
        [holder] = await enqueue(store, a_job(unique="k", max_losses=0))
        leased = await lease_one(store)
        assert await is_held(store, holder)
        clock.advance(30)
        await store.reap(["q"])
        assert await is_held(store, holder)
        leased = await lease_one(store)
        await settle(store, leased, transition)

        assert await is_held(store, holder)

    @pytest.mark.parametrize(
        "end", ["succeeded", "failed", "broken", "cancelled", "completed", "lost", "deleted", "purged"]
    )
    async def test_the_key_is_free_as_soon_as_the_job_has_ended(
        self, store: Store, clock: ManualClock, end: str
    ) -> None:  # I14, F26; W: uniqueness not released on cancel
        [holder] = await enqueue(store, a_job(unique="k", max_losses=1))
        if end != "purged":
            leased = await lease_one(store)
        assert await is_held(store, holder)

        match end:
            case "succeeded":
                await settle(store, leased, SUCCEED)
            case "failed":
                await settle(store, leased, FAIL)
            case "broken":
                await settle(store, leased, Finish(State.BROKEN, error=BOOM))
            case "cancelled":
                await store.cancel([holder])
            case "completed":
                await store.complete(holder, success("1"))
            case "lost":
                clock.advance(30)
                await store.reap(["q"])
            case "deleted":
                await store.delete([holder])
            case "purged":
                await store.purge("q")

        assert not await is_held(store, holder)

    async def test_the_key_of_an_expired_job_and_of_one_with_a_failed_blocker_is_free(
        self, store: Store, clock: ManualClock
    ) -> None:  # F26
        [expiring] = await enqueue(store, a_job(unique="k", expires=1.0))
        clock.advance(1)
        await lease(store)
        assert not await is_held(store, expiring)
        [blocker] = await enqueue(store, a_job(queue="b"))
        [dependent] = await enqueue(store, a_job(unique="k", after=(blocker,)))
        assert await is_held(store, dependent)

        await store.cancel([blocker])

        assert not await is_held(store, dependent)

    async def test_a_scheduled_or_blocked_job_holds_its_key(self, store: Store) -> None:
        [blocker] = await enqueue(store, a_job(queue="b"))
        [scheduled] = await enqueue(store, a_job(unique="k", delay=60.0))
        assert await is_held(store, scheduled)
        await store.cancel([scheduled])
        [blocked] = await enqueue(store, a_job(unique="k", after=(blocker,)))

        assert await is_held(store, blocked)

    async def test_a_blocker_that_is_a_duplicate_stands_for_the_owner(self, store: Store) -> None:
        [holder] = await enqueue(store, a_job(unique="k", queue="b"))
        duplicate = a_job(unique="k")
        _, dependent = await enqueue(store, duplicate, a_job(after=(duplicate.id,)))

        await settle(store, await lease_one(store, "b"), SUCCEED)

        assert await line(store) == [dependent]
        assert (await lease_one(store)).job.results == ("42",)
        assert holder != duplicate.id

    async def test_a_blocker_that_comes_later_in_the_call_is_none_although_it_is_a_duplicate(
        self, store: Store
    ) -> None:
        await enqueue(store, a_job(unique="k"))
        duplicate = a_job(unique="k")

        with pytest.raises(BlockerNotFound):
            await store.enqueue([a_job(after=(duplicate.id,)), duplicate])

        assert (await counts(store)).blocked == 0

    # Windows.

    @pytest.mark.parametrize("transition", [SUCCEED, FAIL], ids=["success", "failure"])
    async def test_a_window_outlasts_the_end_of_the_job(
        self, store: Store, clock: ManualClock, transition: Finish
    ) -> None:
        # Q56, T12
        [holder] = await enqueue(store, a_job(unique="k", window=60.0))
        await settle(store, await lease_one(store), transition)
        clock.advance(59)
        assert await is_held(store, holder)
        clock.advance(1)

        assert not await is_held(store, holder)

    async def test_a_window_ends_while_the_job_still_waits(self, store: Store, clock: ManualClock) -> None:
        [first] = await enqueue(store, a_job(unique="k", window=60.0))
        clock.advance(60)
        [second] = await enqueue(store, a_job(unique="k"))
        assert second != first

        await settle(store, await lease_one(store), SUCCEED)
        await store.delete([first])

        assert await is_held(store, second)

    @pytest.mark.parametrize("how", ["cancel", "delete"])
    async def test_cancel_and_delete_end_a_window(self, store: Store, how: str) -> None:
        [holder] = await enqueue(store, a_job(unique="k", window=60.0))
        if how == "cancel":
            await store.cancel([holder])
        else:
            await store.delete([holder])

        assert not await is_held(store, holder)

    async def test_a_record_is_kept_while_its_window_runs(self, store: Store, clock: ManualClock) -> None:  # I14
        await enqueue(store, a_job(unique="k", window=60.0, keep=0.0), a_job(unique="l", window=60.0))
        first, second = await lease(store)
        await store.settle([(first, SUCCEED), (second, SUCCEED)])
        nothing = Retention(succeeded=0.0, failed=0.0, count=0)
        assert await store.prune(nothing, {}) == 0
        assert await is_held(store, first.job.id)
        clock.advance(60)

        assert await store.prune(nothing, {}) == 2
        assert not await is_held(store, first.job.id)

    @pytest.mark.parametrize("raises", [True, False])
    async def test_a_child_gets_no_key_that_a_later_item_of_the_call_frees(self, store: Store, raises: bool) -> None:
        await enqueue(store, a_job(id="parent"), a_job(id="owner", unique="k"))
        parent, owner = await lease(store)
        child = a_job(id="child", unique="k", unique_raises=raises)

        verdicts = await store.settle([(parent, success("1", children=(child,))), (owner, SUCCEED)])

        assert [verdict.kind for verdict in verdicts] == ["refused" if raises else "ok", "ok"]
        assert await store.get(["child"]) == [None]

    async def test_a_child_gets_the_key_that_an_earlier_item_of_the_call_has_freed(self, store: Store) -> None:
        await enqueue(store, a_job(id="owner", unique="k"), a_job(id="parent"))
        owner, parent = await lease(store)
        child = a_job(id="child", unique="k", unique_raises=True)

        verdicts = await store.settle([(owner, SUCCEED), (parent, success("1", children=(child,)))])

        assert [verdict.kind for verdict in verdicts] == ["ok", "ok"]
        assert await is_held(store, "child")

    # Retries by an operator.

    async def test_a_retried_job_takes_its_key_again(self, store: Store) -> None:
        [holder] = await enqueue(store, a_job(unique="k"))
        await settle(store, await lease_one(store), FAIL)
        assert not await is_held(store, holder)

        assert await store.retry([holder]) == [OK]

        assert await is_held(store, holder)

    async def test_a_retry_is_refused_while_another_holds_the_key(self, store: Store) -> None:
        [first] = await enqueue(store, a_job(unique="k"))
        await settle(store, await lease_one(store), FAIL)
        [second] = await enqueue(store, a_job(unique="k"))

        [verdict] = await store.retry([first])

        assert verdict == refused(UniqueHeld(second), state=State.FAILED)
        assert await line(store) == [second]
        await store.cancel([second])
        assert await store.retry([first]) == [OK]

    async def test_of_two_retried_with_one_key_the_first_wins(self, store: Store) -> None:
        [first] = await enqueue(store, a_job(unique="k"))
        await store.cancel([first])
        [second] = await enqueue(store, a_job(unique="k"))
        await store.cancel([second])

        verdicts = await store.retry([second, first])

        assert [verdict.kind for verdict in verdicts] == ["ok", "refused"]
        assert verdicts[1].refusal == UniqueHeld(second)

    async def test_a_retry_after_the_window_needs_no_key(self, store: Store, clock: ManualClock) -> None:
        [first] = await enqueue(store, a_job(unique="k", window=60.0))
        await settle(store, await lease_one(store), FAIL)
        clock.advance(60)
        [second] = await enqueue(store, a_job(unique="k"))

        assert await store.retry([first]) == [OK]

        assert await is_held(store, second)
