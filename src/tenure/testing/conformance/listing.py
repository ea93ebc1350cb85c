"""Tests of reading: jobs, listings, queues and their counts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tenure.core.job import ErrorInfo, State
from tenure.core.lifecycle import Finish, Requeue
from tenure.stores.base import Store
from tenure.stores.values import QueueInfo, Search
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    BOOM,
    FAIL,
    RETRY,
    SUCCEED,
    a_job,
    assert_counters_equal_a_recount,
    counts,
    enqueue,
    everything,
    lease,
    lease_one,
    settle,
)

__all__ = ["Listing"]


class Listing:
    async def test_get_answers_for_each_id_in_order(self, store: Store) -> None:
        first, second = await enqueue(store, a_job(), a_job())

        found = await store.get([second, "missing", first, second])

        assert [job and job.id for job in found] == [second, None, first, second]
        assert await store.get([]) == []

    async def test_get_takes_a_thousand_ids_and_more(self, store: Store) -> None:
        ids = await enqueue(store, *[a_job() for _ in range(1100)])

        assert [job and job.id for job in await store.get(ids)] == ids

    async def test_ids_are_found_by_how_they_begin(self, store: Store) -> None:
        # Includes characters that have a meaning in the patterns of a server.
        uuids = ["2a3f5b5c-5d2d-7abc-8000-000000000001", "2a3f5b5c-5d2e-7abd-8000-000000000002"]
        texts = ["2a3f5b", "2a3f5c-by-hand", "order:7_x.1", "ff3f5b5c-5d2d-7000-8000-000000000003"]
        await enqueue(store, *[a_job(id=each) for each in (*uuids, *texts)])

        for each in (*uuids, *texts):
            for length in range(1, len(each) + 1):
                begins = each[:length]
                fitting = {other for other in (*uuids, *texts) if other.startswith(begins)}
                assert set(await store.ids(begins, 10)) == fitting, begins
        for none in ("2a3f5b5d", "2a3f5b5c5d", "2A3F5B", "order_", "*", "2a3f5b5c-5d2d-7abc-8000-0000000000011", "3"):
            assert await store.ids(none, 10) == []

    async def test_no_more_ids_are_given_than_were_asked_for(self, store: Store) -> None:
        ids = await enqueue(store, *[a_job(id=f"batch-{number}") for number in range(30)])

        found = await store.ids("batch-", 7)

        assert len(found) == len(set(found)) == 7
        assert set(found) <= set(ids)
        assert sorted(await store.ids("batch-", 100)) == sorted(ids)

    async def test_ids_are_found_among_many(self, store: Store) -> None:
        made = await enqueue(store, *[a_job() for _ in range(1000)])

        assert [await store.ids(each, 2) for each in made[::100]] == [[each] for each in made[::100]]

    # Orders.

    async def test_everything_is_listed_newest_first(self, store: Store, clock: ManualClock) -> None:  # H24
        ids = await enqueue(store, a_job(priority=9), a_job(queue="other"), a_job(delay=60.0))
        clock.advance(1)
        ids += await enqueue(store)
        await settle(store, await lease_one(store), RETRY)

        assert [job.id for job in await everything(store)] == ids[::-1]

    async def test_waiting_jobs_are_listed_in_the_order_in_which_they_will_be_leased(
        self, store: Store, clock: ManualClock
    ) -> None:  # R11, W34
        low, normal, high = await enqueue(store, a_job(priority=1), a_job(), a_job(priority=-1))
        [retried] = await enqueue(store, a_job(priority=-2))
        await settle(store, await lease_one(store), Requeue())

        listed = [job.id for job in await everything(store, state=State.WAITING, queue="q")]

        assert listed == [retried, high, normal, low]
        assert [leased.job.id for leased in await lease(store)] == listed

    async def test_scheduled_jobs_are_listed_by_their_time_after_those_in_line(self, store: Store) -> None:
        late, early, now = await enqueue(store, a_job(delay=60.0), a_job(delay=30.0), a_job(priority=9))

        assert [job.id for job in await everything(store, state=State.WAITING, queue="q")] == [now, early, late]

    async def test_blocked_jobs_are_listed_in_the_order_of_their_place(self, store: Store) -> None:
        [blocker] = await enqueue(store, a_job(queue="b"))
        ids = await enqueue(store, *[a_job(id=id_, after=(blocker,)) for id_ in ("z", "m", "a")])

        assert [job.id for job in await everything(store, state=State.BLOCKED, queue="q")] == ids

    async def test_running_jobs_are_listed_by_their_start(self, store: Store, clock: ManualClock) -> None:
        low, high = await enqueue(store, a_job(priority=1), a_job())
        for _ in range(2):
            await lease_one(store)
            clock.advance(1)

        assert [job.id for job in await everything(store, state=State.RUNNING)] == [high, low]

    @pytest.mark.parametrize("end", [State.SUCCEEDED, State.FAILED, State.BROKEN, State.CANCELLED])
    async def test_finished_jobs_are_listed_newest_end_first_over_all_queues(
        self, store: Store, clock: ManualClock, end: State
    ) -> None:
        ids = await enqueue(store, a_job(), a_job(queue="other"), a_job())
        ended = []
        for queue in ("other", "q", "q"):
            clock.advance(1)
            leased = await lease_one(store, queue)
            ended.append(leased.job.id)
            if end is State.CANCELLED:
                await store.cancel([leased.job.id])
            else:
                await settle(store, leased, Finish(end, error=BOOM))

        listed = await everything(store, state=end)

        assert [job.id for job in listed] == ended[::-1]
        assert sorted(ended) == sorted(ids)
        assert [job.id for job in await everything(store, state=end, queue="q")] == ended[:0:-1]

    # Filters and pages.

    async def test_filters_are_joined(self, store: Store) -> None:
        wanted = a_job(task="a", queue="x", tags=("red", "big"))
        await store.enqueue(
            [
                wanted,
                a_job(task="b", queue="x", tags=("red",)),
                a_job(task="a", queue="y", tags=("red",)),
                a_job(task="a", queue="x", tags=("redder", "Red")),
                a_job(task="a", queue="x"),
            ]
        )

        for more in ({}, {"state": State.WAITING}):
            found = await everything(store, task="a", queue="x", tag="red", **more)
            assert [job.id for job in found] == [wanted.id]
        assert await everything(store, task="a", queue="x", tag="red", state=State.FAILED) == []
        assert await everything(store, tag="re") == []
        assert await everything(store, queue="never seen") == []

    async def test_failed_jobs_are_found_by_their_task(self, store: Store, clock: ManualClock) -> None:
        ids = await enqueue(store, a_job(task="a"), a_job(task="b"), a_job(task="a"))
        for _ in ids:
            clock.advance(1)
            await settle(store, await lease_one(store), FAIL)

        assert [job.id for job in await everything(store, state=State.FAILED, task="a")] == [ids[2], ids[0]]

    @pytest.mark.parametrize("state", [None, State.WAITING, State.SUCCEEDED, State.RUNNING, State.BLOCKED])
    async def test_pages_follow_each_other_without_gap_or_repetition(
        self, store: Store, clock: ManualClock, state: State | None
    ) -> None:  # Q63
        [blocker] = await enqueue(store, a_job(queue="b"))
        after = (blocker,) if state is State.BLOCKED else ()
        ids = await enqueue(
            store, *[a_job(queue="q" if n % 3 else "other", after=after, delay=n % 2) for n in range(25)]
        )
        clock.advance(1)
        if state in {State.SUCCEEDED, State.RUNNING}:
            leases = await lease(store, "q", "other")
            if state is State.SUCCEEDED:
                await store.settle([(each, SUCCEED) for each in leases])

        found: list[str] = []
        cursor, pages = None, 0
        while True:
            page = await store.search(Search(state=state, limit=4, cursor=cursor))
            assert len(page.jobs) <= 4
            assert page.searched >= len(page.jobs)
            found += [job.id for job in page.jobs]
            cursor, pages = page.cursor, pages + 1
            if cursor is None:
                break

        assert len(found) == len(set(found))
        assert set(found) - {blocker} == set(ids)
        assert pages >= 7
        assert found == [job.id for job in await everything(store, state=state)]

    async def test_a_page_that_ends_with_the_listing_has_no_cursor(self, store: Store) -> None:
        await enqueue(store, a_job(), a_job())

        page = await store.search(Search(limit=10))

        assert (len(page.jobs), page.cursor) == (2, None)
        assert await store.search(Search(queue="never seen")) == await store.search(
            Search(task="never seen", queue="x")
        )

    async def test_a_listing_goes_on_where_it_was_although_jobs_come_and_go(self, store: Store) -> None:
        ids = await enqueue(store, *[a_job() for _ in range(6)])
        page = await store.search(Search(limit=2))
        await enqueue(store)
        await store.delete([ids[3], ids[4]])

        rest = await store.search(Search(cursor=page.cursor))

        assert [job.id for job in rest.jobs] == [ids[2], ids[1], ids[0]]

    async def test_one_call_looks_at_two_thousand_rows_at_most(self, store: Store) -> None:
        await enqueue(store, a_job(tags=("rare",), payload=b"[1]"))
        await enqueue(store, *[a_job() for _ in range(4500)])

        searched, calls, cursor = 0, 0, None
        while True:
            page = await store.search(Search(tag="rare", cursor=cursor))
            assert page.searched <= 2000
            searched, calls, cursor = searched + page.searched, calls + 1, page.cursor
            if cursor is None:
                break

        assert (searched, calls) == (4501, 3)
        assert (await store.search(Search(tag="rare", look=3000))).searched == 2000
        assert [job.payload for job in page.jobs] == [b"[1]"]

    async def test_waiting_jobs_are_listed_by_parts(self, store: Store, clock: ManualClock) -> None:
        late, early, low, high = await enqueue(
            store, a_job(delay=60.0), a_job(delay=30.0, queue="x"), a_job(priority=9), a_job(queue="x")
        )

        async def part(*, scheduled: bool, **more: Any) -> list[str]:
            return [job.id for job in await everything(store, state=State.WAITING, scheduled=scheduled, **more)]

        for pages in (1, 500):
            assert await part(scheduled=True, limit=pages) == [early, late]
            assert await part(scheduled=True, queue="q", limit=pages) == [late]
            assert await part(scheduled=False, limit=pages) == [high, low]
            assert await part(scheduled=False, queue="q", limit=pages) == [low]
        clock.advance(60)  # a job that is due is scheduled until a lease puts it in line
        assert await part(scheduled=True) == [early, late]
        assert await part(scheduled=False) == [high, low]

    async def test_jobs_are_found_by_the_type_of_their_error(self, store: Store) -> None:
        failed, retried, other, without = await enqueue(store, *[a_job() for _ in range(4)])
        [job] = [await lease_one(store)]
        await settle(store, job, FAIL)
        await settle(store, await lease_one(store), Requeue(60.0, error=BOOM))
        await settle(store, await lease_one(store), Finish(State.FAILED, error=ErrorInfo("ValueErrors", "ValueError")))

        assert [each.id for each in await everything(store, error="ValueError")] == [retried, failed]
        assert [each.id for each in await everything(store, error="ValueError", state=State.FAILED)] == [failed]
        assert [each.id for each in await everything(store, error="ValueErrors", state=State.FAILED)] == [other]
        assert await everything(store, error="Value", state=State.FAILED) == []
        assert without not in [each.id for each in await everything(store, error="ValueError")]

    async def test_jobs_are_found_by_their_worker(self, store: Store) -> None:
        done, held, _ = await enqueue(store, *[a_job() for _ in range(3)])
        await settle(store, await lease_one(store, worker="one"), FAIL)
        await lease_one(store, worker="one")
        third = await lease_one(store, worker="two")

        assert [each.id for each in await everything(store, worker="one")] == [held, done]
        assert [each.id for each in await everything(store, worker="one", state=State.RUNNING)] == [held]
        assert [each.id for each in await everything(store, worker="one", state=State.FAILED)] == [done]
        assert await everything(store, worker="on") == []
        await settle(store, third, Requeue(60.0, error=BOOM))
        assert [each.id for each in await everything(store, worker="two", state=State.WAITING)] == [third.job.id]

    @pytest.mark.parametrize("state", [None, State.FAILED])
    async def test_jobs_are_found_by_a_text(self, store: Store, state: State | None) -> None:
        payload, message, kind, neither, result = await enqueue(
            store, a_job(payload=b'{"args":["ann@example.org"]}'), *[a_job() for _ in range(4)]
        )
        errors = [BOOM, ErrorInfo("KeyError", "no ann@example.org"), ErrorInfo("ann@example.orgError", "x"), BOOM]
        for error in errors:
            await settle(store, await lease_one(store), Finish(State.FAILED, error=error))
        await settle(store, await lease_one(store), Finish(State.FAILED, '"ann@example.org"', error=BOOM))

        found = await everything(store, text="ann@example.org", state=state)

        assert {each.id for each in found} == {payload, message, kind}
        assert {each.id for each in await everything(store, text="boom", state=state)} == {payload, neither, result}
        assert await everything(store, text="Ann@example.org", state=state) == []
        assert await everything(store, text="Traceback", state=state) == []

    @pytest.mark.parametrize(
        "text", ["Zoë", 'a "quoted"', "back\\slash", "100%_*[a-z]?", "new\nline", "tab\t", "日本", "'", "😀"]
    )
    async def test_a_text_is_found_byte_for_byte(self, store: Store, text: str) -> None:
        payload, error, _ = await enqueue(
            store, a_job(payload=b"\xff" + text.encode(), raw=True), a_job(), a_job(payload=b"other", raw=True)
        )
        other, failing = await lease(store, limit=2)
        await settle(store, other, Finish(State.FAILED, error=ErrorInfo("E", "nothing of that")))
        await settle(store, failing, Finish(State.FAILED, error=ErrorInfo("E", f"before {text} behind")))

        for state in (None, State.FAILED):
            assert [each.id for each in await everything(store, text=text, state=state)] == [error, payload]

    async def test_final_jobs_are_listed_from_an_end_on(self, store: Store, clock: ManualClock) -> None:
        ids, ends = await enqueue(store, *[a_job(queue="q" if n % 2 else "x") for n in range(6)]), []
        for number in range(6):
            clock.advance(1)
            leased = await lease_one(store, "q" if number % 2 else "x")
            await settle(store, leased, FAIL if number < 4 else SUCCEED)
            ends.append(clock.wall())

        async def listed(before: float, **more: Any) -> list[str]:
            return [job.id for job in await everything(store, state=State.FAILED, before=before, **more)]

        for pages in (1, 500):
            assert await listed(ends[2], limit=pages) == [ids[2], ids[1], ids[0]]
            assert await listed(ends[2] - 0.5, limit=pages) == [ids[1], ids[0]]
            assert await listed(ends[2], queue="q", limit=pages) == [ids[1]]
            assert await listed(ends[5], limit=pages) == [ids[3], ids[2], ids[1], ids[0]]
            assert await listed(ends[0] - 1, limit=pages) == []
        assert (await store.search(Search(state=State.FAILED, before=ends[0]))).searched == 1

    async def test_a_call_looks_at_as_many_rows_as_it_is_told(self, store: Store) -> None:
        await enqueue(store, *[a_job() for _ in range(25)])

        for state in (None, State.WAITING):
            page = await store.search(Search(state=state, tag="rare", look=10))
            assert (page.jobs, page.searched) == ([], 10)
            rest = await store.search(Search(state=state, tag="rare", look=100, cursor=page.cursor))
            assert (rest.jobs, rest.searched, rest.cursor) == ([], 15, None)

    async def test_jobs_are_listed_in_brief(self, store: Store) -> None:
        long = b"x" + "é".encode() * 50
        await enqueue(store, a_job(payload=long, headers={"tenant": "t1"}), a_job(payload=b"short"))
        first, second = await lease(store)
        await settle(store, first, Finish(State.SUCCEEDED, '"' + "é" * 100 + '"'))
        await settle(store, second, Finish(State.FAILED, error=ErrorInfo("E" * 20, "ä" * 100, "Traceback …", "output")))

        failed, succeeded = await everything(store, brief=10)

        assert (succeeded.payload, succeeded.result, succeeded.error) == (long[:10], '"' + "é" * 9, None)
        assert (failed.payload, failed.result, failed.error) == (b"short", None, ErrorInfo("E" * 10, "ä" * 10))
        assert succeeded.headers == {"tenant": "t1"}
        whole = await everything(store)
        assert [(len(each.payload), each.error and each.error.traceback) for each in whole] == [
            (5, "Traceback …"),
            (101, None),
        ]

    # Queues.

    async def test_queues_are_counted_by_where_their_jobs_are(self, store: Store, clock: ManualClock) -> None:
        # T20, R11, W34
        [blocker] = await enqueue(store, a_job(queue="a"))
        await enqueue(store, *[a_job() for _ in range(7)], a_job(delay=5.0), a_job(after=(blocker,)))
        first, second, third, fourth, _ = await lease(store, limit=5)
        await store.settle(
            [(first, SUCCEED), (second, FAIL), (third, Finish(State.BROKEN, error=BOOM)), (fourth, Requeue(9.0))]
        )
        [cancelled] = await enqueue(store)
        await store.cancel([cancelled])

        assert replace(await counts(store), oldest=None) == QueueInfo(
            name="q",
            waiting=2,
            scheduled=2,
            blocked=1,
            running=1,
            succeeded=1,
            failed=1,
            broken=1,
            cancelled=1,
            totals=(await counts(store)).totals,
        )
        assert [queue.name for queue in await store.queues()] == ["a", "q"]
        await assert_counters_equal_a_recount(store)

    async def test_a_due_job_counts_as_scheduled_until_a_lease_promotes_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        await enqueue(store, a_job(delay=1.0), a_job(delay=1.0))
        clock.advance(1)
        assert ((await counts(store)).waiting, (await counts(store)).scheduled) == (0, 2)

        await lease_one(store)

        assert ((await counts(store)).waiting, (await counts(store)).scheduled) == (1, 0)

    async def test_a_queue_is_listed_after_its_last_job_has_gone(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        await store.delete([job_id])

        assert await store.queues() == [QueueInfo(name="q")]
