"""Memory stores that each break one rule about headers, edges, orders to workers, searches, or the audit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tenure.core.inbox import read
from tenure.core.job import ErrorInfo, JobRecord, NewJob, State, shortened
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish, Requeue
from tenure.stores.memory import MemoryStore, audit, enqueueing, inbox, leasing, operating, reading, schedules, settling
from tenure.stores.memory.data import Data
from tenure.stores.memory.jobs import StoredJob
from tenure.stores.values import LOOK, ActionPage, EdgeInfo, Order, Page, Pulse, Search, Verdict, WorkerInfo
from tests.stores.mutants import mutant

# Headers.


@mutant("test_headers_come_back_with_every_record", machine="long")
def a_retry_loses_the_headers(patch: pytest.MonkeyPatch) -> None:
    original = settling.requeue

    def requeue(data: Data, job: StoredJob, transition: Requeue) -> None:
        original(data, job, transition)
        if transition.counts:
            job.new = replace(job.new, headers=None)

    patch.setattr(settling, "requeue", requeue)


@mutant("test_headers_come_back_with_every_record", machine="long")
def an_operators_retry_loses_the_headers(patch: pytest.MonkeyPatch) -> None:
    original = operating._retry

    def retry(data: Data, job: StoredJob) -> Verdict:
        job.new = replace(job.new, headers=None)
        return original(data, job)

    patch.setattr(operating, "_retry", retry)


@mutant("test_headers_come_back_with_every_record", machine="long")
def leases_have_no_headers(patch: pytest.MonkeyPatch) -> None:
    original = leasing._lease

    def lease(*given: Any, **more: Any) -> Lease:
        leased = original(*given, **more)
        return replace(leased, job=replace(leased.job, headers=None))

    patch.setattr(leasing, "_lease", lease)


def _record(patch: pytest.MonkeyPatch, shown: Callable[[JobRecord], JobRecord]) -> None:
    original = StoredJob.record
    patch.setattr(StoredJob, "record", lambda job, boot: shown(original(job, boot)))


@mutant("test_a_job_without_headers_has_none", machine="long")
def no_headers_are_an_empty_mapping(patch: pytest.MonkeyPatch) -> None:
    _record(patch, lambda job: replace(job, headers=job.headers or {}))


@mutant("test_headers_are_kept_as_they_were_given", machine="long")
def empty_headers_are_dropped(patch: pytest.MonkeyPatch) -> None:
    def shown(job: JobRecord) -> JobRecord:
        return replace(job, headers={name: text for name, text in (job.headers or {}).items() if text} or None)

    _record(patch, shown)


@mutant("test_headers_are_part_of_no_unique_key", machine="long")
def headers_are_part_of_the_unique_key(patch: pytest.MonkeyPatch) -> None:
    original = enqueueing.enqueue

    def enqueue(data: Data, jobs: Sequence[NewJob]) -> Any:
        keyed = [job if job.unique is None else replace(job, unique=f"{job.unique}{job.headers or ''}") for job in jobs]
        return original(data, keyed)

    patch.setattr(enqueueing, "enqueue", enqueue)


@mutant("test_an_entry_of_an_inbox_may_have_headers", machine="long")
def entries_lose_their_headers(patch: pytest.MonkeyPatch) -> None:
    def without(*entry: Any) -> tuple[NewJob, ErrorInfo | None]:
        new, error = read(*entry)
        return replace(new, headers=None), error

    patch.setattr(inbox, "read", without)


@mutant("test_children_and_successors_have_the_headers_that_they_were_given", machine="long")
def a_successor_has_the_headers_of_the_step_before(patch: pytest.MonkeyPatch) -> None:
    original = settling._finish

    def finish(data: Data, job: StoredJob, transition: Finish) -> Verdict:
        if transition.successor is not None:
            transition = replace(transition, successor=replace(transition.successor, headers=job.new.headers))
        return original(data, job, transition)

    patch.setattr(settling, "_finish", finish)


@mutant("test_jobs_of_schedules_have_the_headers_of_their_schedule", machine="long")
def what_a_schedule_enqueues_has_no_headers(patch: pytest.MonkeyPatch) -> None:
    original = enqueueing.enqueue
    patch.setattr(schedules, "enqueue", lambda data, jobs: original(data, [replace(job, headers=None) for job in jobs]))


# Edges.


def _edges(patch: pytest.MonkeyPatch, listed: Callable[[Data, StoredJob], list[EdgeInfo]]) -> None:
    def edges(data: Data, job_id: str, limit: int) -> list[EdgeInfo]:
        return listed(data, data.jobs[job_id])[:limit] if job_id in data.jobs else []

    patch.setattr(reading, "edges", edges)


def _all_edges(job: StoredJob) -> list[EdgeInfo]:
    return [EdgeInfo(edge.blocker, edge.open) for edge in job.edges]


@mutant("test_a_job_knows_what_it_was_told_to_wait_for", machine="long")
def closed_edges_are_not_listed(patch: pytest.MonkeyPatch) -> None:
    _edges(patch, lambda _, job: [edge for edge in _all_edges(job) if edge.open])


@mutant("test_a_job_knows_what_it_was_told_to_wait_for", machine="long")
def edges_of_a_final_job_are_closed(patch: pytest.MonkeyPatch) -> None:
    _edges(patch, lambda _, job: [EdgeInfo(edge.blocker, edge.open and not job.state.final) for edge in job.edges])


@mutant("test_a_job_knows_what_it_was_told_to_wait_for", machine="long")
def a_blocker_that_was_named_twice_is_listed_once(patch: pytest.MonkeyPatch) -> None:
    _edges(patch, lambda _, job: list({edge.blocker: edge for edge in _all_edges(job)}.values()))


@mutant("test_edges_are_known_after_the_blocker_has_gone", keep=0.0, machine="long")
def edges_go_with_their_blocker(patch: pytest.MonkeyPatch) -> None:
    _edges(patch, lambda data, job: [edge for edge in _all_edges(job) if edge.blocker in data.jobs])


@mutant("test_no_more_edges_are_given_than_were_asked_for", machine="never")
def all_edges_are_given(patch: pytest.MonkeyPatch) -> None:
    original = reading.edges
    patch.setattr(reading, "edges", lambda data, job_id, limit: original(data, job_id, sys.maxsize))


# Orders to workers.


@mutant("test_an_order_comes_back_with_every_beat", machine="long")
def an_order_is_given_once(patch: pytest.MonkeyPatch) -> None:
    original = MemoryStore.beat

    async def beat(store: MemoryStore, worker_id: str, pulse: Pulse) -> Order | None:
        order = await original(store, worker_id, pulse)
        await store.order(worker_id, Order.GO_ON)
        return order

    patch.setattr(MemoryStore, "beat", beat)


@mutant("test_an_order_comes_back_with_every_beat", machine="long")
def an_order_is_for_all_workers(patch: pytest.MonkeyPatch) -> None:
    original = MemoryStore.order

    async def order(store: MemoryStore, worker_id: str, order: Order) -> bool:
        for worker in await store.workers():
            await original(store, worker.id, order)
        return await original(store, worker_id, order)

    patch.setattr(MemoryStore, "order", order)


@mutant("test_an_order_to_an_unknown_worker_is_refused", machine="long")
def an_order_to_an_unknown_worker_is_accepted(patch: pytest.MonkeyPatch) -> None:
    original = MemoryStore.order

    async def order(store: MemoryStore, worker_id: str, order: Order) -> bool:
        await original(store, worker_id, order)
        return True

    patch.setattr(MemoryStore, "order", order)


@mutant("test_a_worker_that_registers_again_has_no_order", machine="long")
def an_order_survives_the_registration(patch: pytest.MonkeyPatch) -> None:
    original = MemoryStore.register

    async def register(store: MemoryStore, worker: WorkerInfo) -> None:
        before = [each.order for each in await store.workers() if each.id == worker.id]
        await original(store, worker)
        await store.order(worker.id, *before or [Order.GO_ON])

    patch.setattr(MemoryStore, "register", register)


@mutant("test_a_worker_that_registers_again_has_no_order", machine="never")
def a_worker_registers_with_an_order(patch: pytest.MonkeyPatch) -> None:
    original = MemoryStore.register

    async def register(store: MemoryStore, worker: WorkerInfo) -> None:
        await original(store, worker)
        await store.order(worker.id, worker.order)

    patch.setattr(MemoryStore, "register", register)


# Searches.


def _search(patch: pytest.MonkeyPatch, changed: Callable[[Search], Search]) -> None:
    original = reading.search
    patch.setattr(reading, "search", lambda data, search: original(data, changed(search)))


def _wanted(patch: pytest.MonkeyPatch, wanted: Callable[[StoredJob, Search], bool], **without: None) -> None:
    """Let a search use `wanted` in place of the filters that `without` leaves out."""
    original = reading._wanted
    patch.setattr(
        reading, "_wanted", lambda job, search: original(job, replace(search, **without)) and wanted(job, search)
    )


@mutant("test_waiting_jobs_are_listed_by_parts", machine="long")
def scheduled_jobs_are_listed_with_those_in_line(patch: pytest.MonkeyPatch) -> None:
    _search(patch, lambda search: replace(search, scheduled=search.scheduled or None))


@mutant("test_waiting_jobs_are_listed_by_parts", machine="long")
def jobs_in_line_are_listed_with_scheduled_ones(patch: pytest.MonkeyPatch) -> None:
    _search(patch, lambda search: replace(search, scheduled=None if search.scheduled else search.scheduled))


@mutant("test_waiting_jobs_are_listed_by_parts", machine="long")
def jobs_that_are_due_are_listed_with_those_in_line(patch: pytest.MonkeyPatch) -> None:
    original = reading.search

    def search(data: Data, search: Search) -> Page:
        if search.scheduled is not None:
            for queue in data.queues.values():
                leasing._promote(data, queue)
        return original(data, search)

    patch.setattr(reading, "search", search)


@mutant("test_jobs_are_found_by_the_type_of_their_error", machine="long")
def the_type_of_an_error_is_compared_by_its_beginning(patch: pytest.MonkeyPatch) -> None:
    def wanted(job: StoredJob, search: Search) -> bool:
        return search.error is None or (job.error is not None and job.error.type.startswith(search.error))

    _wanted(patch, wanted, error=None)


@mutant("test_jobs_are_found_by_the_type_of_their_error", machine="long")
def errors_are_those_of_failed_jobs(patch: pytest.MonkeyPatch) -> None:
    _wanted(patch, lambda job, search: search.error is None or job.state is State.FAILED)


@mutant("test_jobs_are_found_by_their_worker", machine="long")
def only_running_jobs_have_a_worker(patch: pytest.MonkeyPatch) -> None:
    _wanted(patch, lambda job, search: search.worker is None or job.state is State.RUNNING)


@mutant("test_jobs_are_found_by_their_worker", machine="long")
def waiting_jobs_have_no_worker(patch: pytest.MonkeyPatch) -> None:
    _wanted(patch, lambda job, search: search.worker is None or job.state is not State.WAITING)


def _contains(patch: pytest.MonkeyPatch, texts: Callable[[StoredJob, ErrorInfo], Sequence[str | bytes]]) -> None:
    """Let a search look for a text in these parts of a job."""

    def contains(job: StoredJob, text: str) -> bool:
        parts = texts(job, job.error or ErrorInfo("", ""))
        return any(text.encode() in (part.encode() if isinstance(part, str) else part) for part in parts)

    patch.setattr(reading, "_contains", contains)


@mutant("test_jobs_are_found_by_a_text", state=None, machine="long")
def a_text_is_not_looked_for_in_payloads(patch: pytest.MonkeyPatch) -> None:
    _contains(patch, lambda job, error: (error.type, error.message))


@mutant("test_jobs_are_found_by_a_text", state=None, machine="long")
def a_text_is_not_looked_for_in_types(patch: pytest.MonkeyPatch) -> None:
    _contains(patch, lambda job, error: (job.new.payload, error.message))


@mutant("test_jobs_are_found_by_a_text", state=State.FAILED, machine="long")
def a_text_is_looked_for_in_tracebacks(patch: pytest.MonkeyPatch) -> None:
    _contains(patch, lambda job, error: (job.new.payload, error.type, error.message, error.traceback or ""))


@mutant("test_jobs_are_found_by_a_text", state=None, machine="never")
def a_text_is_looked_for_in_results(patch: pytest.MonkeyPatch) -> None:
    _contains(patch, lambda job, error: (job.new.payload, error.type, error.message, job.result or ""))


@mutant("test_jobs_are_found_by_a_text", state=None, machine="long")
def a_text_is_found_in_any_case(patch: pytest.MonkeyPatch) -> None:
    original = reading._contains

    def contains(job: StoredJob, text: str) -> bool:
        return original(job, text) or original(job, text.lower())

    patch.setattr(reading, "_contains", contains)


@mutant("test_a_text_is_found_byte_for_byte", text="Zoë", machine="long")
def payloads_that_are_not_text_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    _contains(patch, lambda job, error: (job.new.payload.decode("ascii", "ignore"), error.type, error.message))


@mutant("test_final_jobs_are_listed_from_an_end_on", machine="long")
def the_end_to_begin_with_is_left_out(patch: pytest.MonkeyPatch) -> None:
    original = reading._listed

    def listed(job: StoredJob, search: Search) -> bool:
        return original(job, search) and (search.before is None or job.ended_at != search.before)

    patch.setattr(reading, "_listed", listed)


@mutant("test_final_jobs_are_listed_from_an_end_on", machine="long")
def a_listing_begins_with_the_latest_end(patch: pytest.MonkeyPatch) -> None:
    _search(patch, lambda search: replace(search, before=None))


@mutant("test_final_jobs_are_listed_from_an_end_on", machine="never")
def a_listing_looks_at_the_ends_that_it_leaves_out(patch: pytest.MonkeyPatch) -> None:
    listed, wanted = reading._listed, reading._wanted

    def ended(job: StoredJob, search: Search) -> bool:
        return search.before is None or (job.ended_at is not None and job.ended_at <= search.before)

    patch.setattr(reading, "_listed", lambda job, search: listed(job, replace(search, before=None)))
    patch.setattr(reading, "_wanted", lambda job, search: wanted(job, search) and ended(job, search))


@mutant("test_a_call_looks_at_as_many_rows_as_it_is_told", machine="long")
def a_search_looks_at_all_rows(patch: pytest.MonkeyPatch) -> None:
    _search(patch, lambda search: replace(search, look=LOOK))


@mutant("test_one_call_looks_at_two_thousand_rows_at_most", machine="never")
def a_search_may_look_at_any_number_of_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "LOOK", sys.maxsize)


def _shortened(patch: pytest.MonkeyPatch, restored: Callable[[JobRecord, JobRecord], JobRecord]) -> None:
    """Let a listing in brief give back something that it must cut."""
    patch.setattr(reading, "shortened", lambda job, most: job if most is None else restored(shortened(job, most), job))


@mutant("test_jobs_are_listed_in_brief", machine="long")
def payloads_are_not_cut(patch: pytest.MonkeyPatch) -> None:
    _shortened(patch, lambda brief, whole: replace(brief, payload=whole.payload))


@mutant("test_jobs_are_listed_in_brief", machine="never")
def payloads_are_cut_by_characters(patch: pytest.MonkeyPatch) -> None:
    _shortened(patch, lambda brief, whole: replace(brief, payload=whole.payload.decode()[:10].encode()))


@mutant("test_jobs_are_listed_in_brief", machine="long")
def results_are_not_cut(patch: pytest.MonkeyPatch) -> None:
    _shortened(patch, lambda brief, whole: replace(brief, result=whole.result))


@mutant("test_jobs_are_listed_in_brief", machine="long")
def errors_are_not_cut(patch: pytest.MonkeyPatch) -> None:
    _shortened(patch, lambda brief, whole: replace(brief, error=whole.error))


@mutant("test_jobs_are_listed_in_brief", machine="long")
def tracebacks_are_listed_in_brief(patch: pytest.MonkeyPatch) -> None:
    def restored(brief: JobRecord, whole: JobRecord) -> JobRecord:
        if brief.error is None or whole.error is None:
            return brief
        return replace(brief, error=replace(brief.error, traceback=whole.error.traceback))

    _shortened(patch, restored)


@mutant("test_jobs_are_listed_in_brief", machine="long")
def headers_are_not_listed_in_brief(patch: pytest.MonkeyPatch) -> None:
    _shortened(patch, lambda brief, whole: replace(brief, headers=None))


# The audit.


@mutant("test_what_operators_do_is_listed_latest_first", machine="long")
def the_audit_is_listed_oldest_first(patch: pytest.MonkeyPatch) -> None:
    original = audit.actions

    def actions(data: Data, limit: int, cursor: str | None) -> ActionPage:
        page = original(data, limit, cursor)
        return replace(page, actions=page.actions[::-1])

    patch.setattr(audit, "actions", actions)


@mutant("test_what_operators_do_is_listed_latest_first", machine="long")
def actions_of_one_call_are_listed_first_to_last(patch: pytest.MonkeyPatch) -> None:
    original = audit.note
    patch.setattr(audit, "note", lambda data, actions: original(data, actions[::-1]))


@mutant("test_what_operators_do_is_listed_latest_first", machine="long")
def an_action_has_the_time_that_it_says(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(audit, "replace", lambda action, at: action)
    patch.setattr(audit, "_kept", lambda *_: True)


@mutant("test_what_operators_do_is_listed_latest_first", machine="long")
def an_action_may_have_another_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(audit, "replace", lambda action, at: replace(action, at=action.at or at))
    patch.setattr(audit, "_kept", lambda *_: True)


@mutant("test_the_audit_is_read_a_page_at_a_time", machine="never")
def a_full_page_of_the_audit_has_a_cursor(patch: pytest.MonkeyPatch) -> None:
    original = audit.actions

    def actions(data: Data, limit: int, cursor: str | None) -> ActionPage:
        page = original(data, limit, cursor)
        return replace(page, cursor="1") if page.cursor is None and len(page.actions) == limit else page

    patch.setattr(audit, "actions", actions)


@mutant("test_the_audit_is_read_a_page_at_a_time", machine="long")
def the_audit_has_one_page(patch: pytest.MonkeyPatch) -> None:
    original = audit.actions
    patch.setattr(audit, "actions", lambda data, *page: replace(original(data, *page), cursor=None))


@mutant("test_the_audit_is_read_a_page_at_a_time", machine="never")
def pages_of_the_audit_are_counted_from_the_latest(patch: pytest.MonkeyPatch) -> None:
    def actions(data: Data, limit: int, cursor: str | None) -> ActionPage:
        end = int(cursor or 0) + limit
        found = [action for _, action in data.actions]
        return ActionPage(found[end - limit : end], str(end) if end < len(found) else None)

    patch.setattr(audit, "actions", actions)


@mutant("test_the_audit_is_bounded", machine="never")
def actions_are_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(audit, "ACTIONS", sys.maxsize)


@mutant("test_old_actions_are_gone", machine="never")
def old_actions_are_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(audit, "_kept", lambda *_: True)
