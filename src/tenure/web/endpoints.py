"""`ENDPOINTS` lists what the JSON API can be asked, each with its schemas and the function that answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from tenure.core.checks import name as checked_name
from tenure.core.measures import HistorySearch, slot_of
from tenure.core.schedule import ScheduleSearch
from tenure.documents import (
    attention_document,
    audit_document,
    explanation_document,
    history_document,
    instant,
    job_document,
    queues_document,
    run_document,
    schedule_document,
    snapshot_document,
    tasks_document,
    whole_job_document,
    whole_run_document,
    whole_schedule_document,
    worker_document,
)
from tenure.errors import InvalidOption, JobNotFound, ScheduleNotFound
from tenure.explain import explain_by
from tenure.jobs.bulk import search_of
from tenure.jobs.history import history_of
from tenure.jobs.run import StepInfo, StepPage
from tenure.jobs.schedules import Schedule, history_states
from tenure.stores.values import QueueInfo, RunSearch, Search
from tenure.web import schemas
from tenure.web.access import Identity
from tenure.web.actions import perform_one
from tenure.web.arguments import text_is_shown
from tenure.web.moments import instant_of
from tenure.web.operations import Operation, search_for_text
from tenure.web.pages.health import retention_of
from tenure.web.pages.jobs import ALLOWED, LOOK, known_count
from tenure.web.redacting import shown_job, shown_run, shown_schedule

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["ENDPOINTS", "Accepted", "Asked", "Endpoint", "NotAllowed", "NotFound", "TooManyFit"]

QUEUES_READ = 2000
"""Queues that are read to find one by its name, at most."""

COUNTING = 20.0
"""Seconds that a request with `expect` waits for the count."""

EDGES = 200
"""Blockers in the document of a job."""


class Asked(NamedTuple):
    """A request, as it was read."""

    site: Site
    viewer: Identity
    names: dict[str, str]
    """The variable parts of the path."""

    query: Any
    body: Any


class Accepted(NamedTuple):
    """An answer to what goes on after it: 202, with the path where it can be followed."""

    document: dict[str, Any]
    location: str


class NotFound(Exception):
    """There is nothing of this name; the message says so."""


class NotAllowed(Exception):
    """The viewer may not do that; the message says so."""


class TooManyFit(Exception):
    """More jobs fit than the caller expects."""

    def __init__(self, sentence: str, count: int) -> None:
        super().__init__(sentence)
        self.count = count


Handler = Callable[[Asked], Awaitable[Any]]


class Endpoint(NamedTuple):
    """One operation of the API."""

    method: str
    path: str
    """Below `/api/v1`, such as `/jobs/{id}`."""

    handle: Handler
    answer: type
    query: type = schemas.NoQuery
    body: type | None = None
    accepted: type | None = None
    """What it answers with status 202, if it does."""

    @property
    def summary(self) -> str:
        """What it does, as a sentence."""
        return (self.handle.__doc__ or "").partition("\n")[0]

    @property
    def id(self) -> str:
        return self.handle.__name__


ENDPOINTS: list[Endpoint] = []
"""All operations."""


def endpoint(method: str, path: str, answer: type, **more: Any) -> Callable[[Handler], Handler]:
    """Enter a function in `ENDPOINTS`; its docstring is the description."""

    def enter(handle: Handler) -> Handler:
        ENDPOINTS.append(Endpoint(method, path, handle, answer, **more))
        return handle

    return enter


# The store as a whole.


@endpoint("GET", "/overview", schemas.OverviewDocument)
async def overview(asked: Asked) -> Any:
    """Figures of the store, what needs attention, queues and workers."""
    document = snapshot_document(await asked.site.snapshot())
    # A dashboard does not read the latest jobs for everyone; `/jobs` lists them.
    return {name: value for name, value in document.items() if name not in {"running", "failed"}}


@endpoint("GET", "/health", schemas.HealthDocument)
async def health(asked: Asked) -> Any:
    """What an examination of the store found, which is a minute old at most, and what needs attention."""
    found = await asked.site.examinations.latest()
    snapshot = await asked.site.snapshot()
    retention = {
        queue: {"succeeded": each.succeeded, "failed": each.failed, "count": each.count}
        for queue, each in retention_of(asked.site.app).items()
    }
    return {
        "examined_at": instant(found.at),
        "facts": msgspec.to_builtins(found.facts),
        "layout": msgspec.to_builtins(found.layout),
        "round_trip": found.round_trip,
        "retention": retention,
        "history": asked.site.app.options.history,
        "attention": [attention_document(each) for each in snapshot.attention or ()],
    }


@endpoint("GET", "/history", schemas.HistoryDocument, query=schemas.HistoryQuery)
async def history(asked: Asked) -> Any:
    """What happened over a time: rates, lengths, ages, waits and runs, of all jobs, a queue, a task, or both."""
    queue = None if asked.query.queue is None else checked_name("queue", asked.query.queue)
    task = None if asked.query.task is None else checked_name("task", asked.query.task)
    found = await asked.site.read(history_of(asked.site.store, queue, task, asked.query.span))
    return history_document(found, asked.query.span)


@endpoint("GET", "/audit", schemas.AuditDocument, query=schemas.PageQuery)
async def audit(asked: Asked) -> Any:
    """What operators have done, the latest first."""
    return audit_document(await asked.site.read(asked.site.store.actions(asked.query.limit, asked.query.cursor)))


@endpoint("POST", "/marks", schemas.ActedDocument, body=schemas.MarkBody)
async def mark(asked: Asked) -> Any:
    """Mark this moment in the history, such as a deploy."""
    return await _act(asked, "mark", label=asked.body.label)


# Jobs.


@endpoint("GET", "/jobs", schemas.JobsDocument, query=schemas.JobsQuery)
async def jobs(asked: Asked) -> Any:
    """List jobs, a page at a time."""
    site = asked.site
    search = replace(_search(asked, asked.query), limit=asked.query.limit, cursor=asked.query.cursor, look=LOOK)
    page = await site.read(site.store.search(replace(search_for_text(search), brief=None)))
    found = [job for job in page.jobs if search.text is None or text_is_shown(job, search.text, site.naming(job.task))]
    documents = [shown_job(job_document(job), site.show, site.naming(job.task)) for job in found]
    return {"jobs": documents, "cursor": page.cursor, "searched": page.searched}


def _search(asked: Asked, given: Any) -> Search:
    filters = {name: getattr(given, name) for name in schemas.JobFilter.__struct_fields__}
    if filters["text"] is not None and asked.site.show == "hidden":
        raise InvalidOption("this dashboard shows no arguments, so that jobs cannot be found by a text in them")
    if filters["before"] is not None:
        filters["before"] = instant_of(filters["before"])
    return search_of(filters)


@endpoint("GET", "/jobs/{id}", schemas.WholeJobDocument)
async def job(asked: Asked) -> Any:
    """Everything about one job."""
    store, job_id = asked.site.store, checked_name("job", asked.names["id"])
    [record] = await asked.site.read(store.get([job_id]))
    if record is None:
        raise JobNotFound(job_id)
    edges = await asked.site.read(store.edges(record.id, EDGES))
    return shown_job(whole_job_document(record, edges), asked.site.show, asked.site.naming(record.task))


@endpoint("GET", "/jobs/{id}/explain", schemas.ExplanationDocument)
async def explain(asked: Asked) -> Any:
    """Why a job does not run, or how it ended."""
    site, job_id = asked.site, checked_name("job", asked.names["id"])
    snapshot = await site.snapshot()
    found = await site.read(explain_by(site.app, site.store, job_id, snapshot.queues, snapshot.workers))
    if found.state is None:
        raise JobNotFound(job_id)
    return explanation_document(found)


@endpoint("POST", "/jobs/{id}/complete", schemas.ActedDocument, body=schemas.CompleteBody)
async def complete(asked: Asked) -> Any:
    """Complete a job, or the current step of a run, as if its function had returned `value`."""
    job_id = checked_name("job", asked.names["id"])
    _check_may(asked, "complete")
    [record] = await asked.site.read(asked.site.store.get([job_id]))
    if record is None:
        raise JobNotFound(job_id)
    return await _act(asked, "complete", id=job_id, written=msgspec.json.encode(asked.body.value).decode())


@endpoint(
    "POST",
    "/jobs/actions",
    schemas.ActedDocument,
    body=schemas.JobActionBody,
    accepted=schemas.OperationDocument,
)
async def act_on_jobs(asked: Asked) -> Any:
    """Retry, cancel, trigger, release or delete jobs: those with these ids, or in the background all that match a filter."""
    body = asked.body
    if (body.ids is None) == (body.filter is None):
        raise InvalidOption("say which jobs: give either ids or a filter")
    _check_may(asked, body.action)
    if body.filter is not None:
        return await _operate(asked)
    if body.expect is not None:
        raise InvalidOption("expect goes with a filter, not with ids")
    form = {"id": [checked_name("job", each) for each in body.ids], "cascade": ["1"] if body.cascade else []}
    said, _, count = await perform_one(asked.site, asked.viewer, body.action, form, by="api")
    return {"done": said, "count": count}


# All jobs that fit.


async def _operate(asked: Asked) -> Accepted:
    """Begin to act on all jobs that match the filter. `TooManyFit` if they are more than expected."""
    body, site = asked.body, asked.site
    state = "scheduled" if body.filter.scheduled else body.filter.state or ""
    if body.cascade or body.action not in ALLOWED.get(state, ()):
        states = ", ".join(each for each, actions in ALLOWED.items() if body.action in actions)
        raise InvalidOption(
            f"to {body.action} all that fit, give a state in the filter, one of {states}, and no cascade"
        )
    filters = {
        name: str(value)
        for name, value in asdict(body.filter).items()
        if value is not None and name not in {"scheduled", "state"}
    } | {"state": str(state)}
    search = _search(asked, body.filter)
    snapshot = await site.snapshot()
    # Of waiting jobs, the pages count those in line only.
    known = None if state == "waiting" else known_count(filters, snapshot.queues, more=snapshot.more)
    operation = await site.operations.count(body.action, search, filters, known)
    if body.expect is not None:
        await _compare(operation, body.expect)
    await site.operations.start(operation, asked.viewer.name, by="api")
    return Accepted(_operation_document(operation), f"/operations/{operation.id}")


async def _compare(operation: Operation, expect: int) -> None:
    deadline = time.monotonic() + COUNTING
    while operation.status == "counting" and operation.found <= expect:
        if time.monotonic() > deadline:
            sentence = f"the jobs that fit are still being counted, {operation.found:,} so far: send this again"
            raise TooManyFit(sentence, operation.found)
        operation.asked_at = time.monotonic()
        await asyncio.sleep(0.05)
    if operation.found > expect or not (operation.exact or operation.status == "counting"):
        raise TooManyFit(f"{operation.found:,} jobs fit by now, more than {expect:,}", operation.found)


def _operation_document(operation: Operation) -> dict[str, Any]:
    return {
        "id": operation.id,
        "action": operation.action,
        "filter": operation.described,
        "status": operation.status,
        "who": operation.who,
        "found": operation.found,
        "exact": operation.exact,
        "done": operation.done,
        "refused": operation.refused,
        "passed": operation.passed,
        "why": operation.why,
        "problem": operation.problem,
        "seconds": operation.seconds,
    }


def _operation(asked: Asked) -> Operation:
    found = asked.site.operations.get(asked.names["id"])
    if found is None:
        raise NotFound(f"there is no operation {asked.names['id']!r:.80} any more")
    return found


@endpoint("GET", "/operations/{id}", schemas.OperationDocument)
async def operation(asked: Asked) -> Any:
    """How far an action on all jobs that fit is."""
    return _operation_document(_operation(asked))


@endpoint("DELETE", "/operations/{id}", schemas.OperationDocument)
async def stop_operation(asked: Asked) -> Any:
    """Stop an action on all jobs that fit, after the batch that it is at."""
    found = _operation(asked)
    _check_may(asked, found.action)
    asked.site.operations.stop(found)
    return _operation_document(found)


# Runs.


@endpoint("GET", "/runs", schemas.RunsDocument, query=schemas.RunsQuery)
async def runs(asked: Asked) -> Any:
    """List runs of flows, the newest first."""
    query, site = asked.query, asked.site
    flow = None if query.flow is None else checked_name("flow", query.flow)
    search = RunSearch(flow=flow, state=query.state, limit=query.limit, cursor=query.cursor)
    page = await site.read(site.store.runs(search))
    found = [site.app.internals.run_of(each) for each in page.runs]
    return {"runs": [shown_run(run_document(run), site.show) for run in found], "cursor": page.cursor}


@endpoint("GET", "/runs/{id}", schemas.WholeRunDocument, query=schemas.PageQuery)
async def run(asked: Asked) -> Any:
    """Everything about one run: its attributes, and a page of its steps."""
    site, run_id = asked.site, checked_name("run", asked.names["id"])
    record = await site.read(site.store.run(run_id))
    if record is None:
        raise JobNotFound(run_id, "run")
    attributes = await site.read(site.store.attributes(run_id))
    page = await site.read(site.store.steps(run_id, asked.query.limit, asked.query.cursor))
    steps = StepPage(StepInfo.of(each, record.flow) for each in page.jobs)
    steps.cursor = page.cursor
    values = {name: msgspec.json.decode(value) for name, value in attributes.items()}
    return shown_run(whole_run_document(site.app.internals.run_of(record), values, steps), site.show)


# Queues.


@endpoint("GET", "/queues", schemas.QueuesDocument, query=schemas.PageQuery)
async def queues(asked: Asked) -> Any:
    """List queues by name, with their counts of jobs."""
    limit = asked.query.limit
    found = await asked.site.read(asked.site.store.queues(asked.query.cursor or "", limit))
    return {**queues_document(found), "cursor": found[-1].name if len(found) == limit else None}


@endpoint("GET", "/queues/{name}", schemas.QueueDocument)
async def queue(asked: Asked) -> Any:
    """One queue, with its counts of jobs."""
    name = checked_name("queue", asked.names["name"])
    found = await asked.site.read(_queue_named(asked.site, name))
    if found is None:
        raise NotFound(f"there is no queue {name!r}")
    return msgspec.to_builtins(found)


async def _queue_named(site: Site, name: str) -> QueueInfo | None:
    after = name[:-1]  # names that begin with this come later, in the order of all stores
    for _ in range(QUEUES_READ // 100):
        page = await site.store.queues(after, 100)
        found = next((each for each in page if each.name == name), None)
        if found is not None or len(page) < 100:
            return found
        after = page[-1].name
    return None


@endpoint("POST", "/queues/{name}/pause", schemas.ActedDocument, body=schemas.EmptyBody)
async def pause(asked: Asked) -> Any:
    """Hand out no more jobs of a queue."""
    return await _act(asked, "pause", queue=asked.names["name"])


@endpoint("POST", "/queues/{name}/resume", schemas.ActedDocument, body=schemas.EmptyBody)
async def resume(asked: Asked) -> Any:
    """Hand out jobs of a queue again."""
    return await _act(asked, "resume", queue=asked.names["name"])


@endpoint("POST", "/queues/{name}/purge", schemas.ActedDocument, body=schemas.PurgeBody)
async def purge(asked: Asked) -> Any:
    """Delete every job of a queue that has not started."""
    return await _act(asked, "purge", queue=asked.names["name"], typed=asked.body.confirm)


# Tasks and workers.


@endpoint("GET", "/tasks", schemas.TasksDocument)
async def tasks(asked: Asked) -> Any:
    """Tasks that live workers know or that ran in the last hour, with their figures of that hour."""
    site = asked.site
    snapshot = await site.snapshot()
    search = HistorySearch(resolution=300, since=slot_of(300, snapshot.now - 3600), rows="tasks")
    return tasks_document(snapshot.workers, await site.read(site.store.history(search)))


@endpoint("GET", "/workers", schemas.WorkersDocument)
async def workers(asked: Asked) -> Any:
    """List the workers in the registry."""
    found = await asked.site.read(asked.site.store.workers())
    return {"workers": [worker_document(each) for each in found]}


@endpoint("GET", "/workers/{id}", schemas.WorkerDocument)
async def worker(asked: Asked) -> Any:
    """One worker in the registry."""
    for each in await asked.site.read(asked.site.store.workers()):
        if each.id == asked.names["id"]:
            return worker_document(each)
    raise NotFound(f"there is no worker {asked.names['id']!r:.200} in the registry")


@endpoint("POST", "/workers/{id}/quiet", schemas.ActedDocument, body=schemas.EmptyBody)
async def quiet(asked: Asked) -> Any:
    """Tell a worker to lease no more jobs."""
    await worker(asked)
    return await _act(asked, "quiet", worker=asked.names["id"])


@endpoint("POST", "/workers/{id}/go_on", schemas.ActedDocument, body=schemas.EmptyBody)
async def go_on(asked: Asked) -> Any:
    """Tell a worker to lease jobs again."""
    await worker(asked)
    return await _act(asked, "go_on", worker=asked.names["id"])


@endpoint("POST", "/workers/{id}/stop", schemas.ActedDocument, body=schemas.EmptyBody)
async def stop(asked: Asked) -> Any:
    """Tell a worker to finish its jobs and stop."""
    await worker(asked)
    return await _act(asked, "stop", worker=asked.names["id"])


@endpoint("POST", "/workers/{id}/retire", schemas.ActedDocument, body=schemas.RetireBody)
async def retire(asked: Asked) -> Any:
    """Give the jobs of a dead worker to others at once."""
    return await _act(asked, "retire", worker=asked.names["id"], typed=asked.body.confirm or "")


# Schedules.


@endpoint("GET", "/schedules", schemas.SchedulesDocument, query=schemas.PageQuery)
async def schedules(asked: Asked) -> Any:
    """List schedules by name."""
    site, limit = asked.site, asked.query.limit
    page = await site.read(site.store.schedules(ScheduleSearch(after=asked.query.cursor or "", limit=limit)))
    found = [Schedule(site.app, record) for record in page.schedules]
    cursor = found[-1].name if len(found) == limit else None
    return {"schedules": [schedule_document(each) for each in found], "cursor": cursor}


@endpoint("GET", "/schedules/{name}", schemas.WholeScheduleDocument)
async def schedule(asked: Asked) -> Any:
    """Everything about one schedule: what it enqueues, its next ticks, and its last ones."""
    site, name = asked.site, checked_name("schedule", asked.names["name"])
    page = await site.read(site.store.schedules(ScheduleSearch(names=(name,))))
    if not page.schedules:
        raise ScheduleNotFound(name, [])
    found = Schedule(site.app, page.schedules[0])
    if found.unreadable is not None:
        raise NotFound(found.unreadable)
    states = await site.read(history_states(site.store, found))
    return shown_schedule(whole_schedule_document(found, states), site.show, site.naming(found.task))


# Acting.


def _check_may(asked: Asked, action: str) -> None:
    if not asked.viewer.may(action):
        raise NotAllowed(f"{asked.viewer.name} may not {action}: ask for the role operate")


async def _act(asked: Asked, action: str, **fields: str) -> dict[str, Any]:
    """Do what a form with these fields would do, and note that it was done with the API."""
    _check_may(asked, action)
    form = {name: [value] for name, value in fields.items()}
    said, _, count = await perform_one(asked.site, asked.viewer, action, form, by="api")
    return {"done": said, "count": count}
