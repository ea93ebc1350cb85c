"""The pages of queues, tasks and workers, their actions, and the rail."""

from __future__ import annotations

import asyncio
import html
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenure import App
from tenure.core.job import ErrorInfo, NewJob, Progress, State, new_id
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish
from tenure.core.measures import HistoryWrite
from tenure.jobs.snapshot import Snapshot
from tenure.stores.base import Store
from tenure.stores.values import LeaseRequest, Order, Pulse, QueueInfo, Renewal, Search, WorkerInfo
from tenure.web import dashboard
from tenure.web.rail import rail_of
from tenure.web.recent import Recent
from tenure.web.site import Dashboard

OPERATE, READ = "operate-operate-operate", "read-read-read-read-read"
LONG = "archive-of-everything-that-has-ever-happened-in-the-shop-2026"
HOSTILE = "<img src=x onerror=alert(1)>"

COUNTS = {
    "succeeded": 90.0,
    "failed": 10.0,
    "retried": 5.0,
    "error:ConnectionError": 15.0,
    f"error:{HOSTILE}": 1.0,
    "run": 9.0,
    "run:-6": 80.0,
    "run:-4": 20.0,
    "wait": 9.0,
    "wait:2": 100.0,
}


class Shop:
    """A dashboard of a store in a file, and a client of it."""

    def __init__(self, board: Dashboard) -> None:
        self.board = board
        transport = httpx.ASGITransport(app=board)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://test")

    @property
    def store(self) -> Store:
        return self.board.site.store

    async def get(self, path: str, status: int = 200, token: str = OPERATE) -> str:
        answer = await self._client.get(path, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == status, answer.text
        return answer.text

    async def post(self, action: str, status: int = 303, token: str = OPERATE, **form: str) -> str:
        """What the dashboard says about an action."""
        headers = {"Authorization": f"Bearer {token}"}
        answer = await self._client.post(f"/actions/{action}", data=form, headers=headers)
        assert answer.status_code == status, answer.text
        if status != 303:
            return answer.text
        page = await self.get("/jobs")  # the next page says it
        return html.unescape(page.partition('role="status">')[2].partition("</p>")[0])

    async def enqueue(self, *queues: str, task: str = "send") -> list[str]:
        jobs = [NewJob(id=new_id(), task=task, queue=queue) for queue in queues]
        for begin in range(0, len(jobs), 1000):
            await self.store.enqueue(jobs[begin : begin + 1000])
        return [job.id for job in jobs]

    async def lease(self, queue: str, worker: str = "w1", limit: int = 1) -> list[Lease]:
        request = LeaseRequest(queues=(queue,), limit=limit, worker=worker, ttl=60.0, nonce=1)
        return (await self.store.lease(request)).leases

    async def fail(self, queue: str, error: str) -> str:
        [lease] = await self.lease(queue)
        await self.store.settle([(lease, Finish(State.FAILED, error=ErrorInfo(error, "refused")))])
        return lease.job.id

    async def register(self, id_: str, **values: Any) -> None:
        given: dict[str, Any] = {
            "queues": ("mail", "!x*"),
            "tasks": ("send",),
            "concurrency": 4,
            "lanes": ("loop", "thread"),
        }
        given |= values
        await self.store.register(WorkerInfo(id=id_, host="web-3", pid=47, **given))

    async def audit(self) -> list[tuple[str, str, int | None]]:
        """What was done to what and how often, the latest first."""
        return [(each.what, each.target, each.count) for each in (await self.store.actions()).actions]


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}")
    board = dashboard(app, tokens={"operate": OPERATE, "read": READ})
    await board.site.store.open()
    await board.site.store.migrate()
    yield Shop(board)
    await board.aclose()
    await app.aclose()


# The rail.


def test_the_rail_has_the_pages_that_exist_with_counts_of_what_is_wrong() -> None:
    gone = WorkerInfo(id="w", host="h", pid=1, queues=("*",), tasks=(), concurrency=1, silent_for=99.0)
    entries = rail_of(Snapshot(store="", queues=(QueueInfo(name="mail", failed=12),), workers=(gone,)))
    by_label = {entry.label: entry for entry in entries}
    assert [label for label in by_label if label in {"Overview", "Jobs", "Queues", "Tasks", "Workers"}] == [
        "Overview",
        "Jobs",
        "Queues",
        "Tasks",
        "Workers",
    ]
    assert by_label["Workers"].count == 1
    assert [entry.count for entry in rail_of(None)] == [0] * len(entries)


async def test_the_rail_marks_the_page_and_counts_missing_workers(shop: Shop) -> None:
    await shop.register("dead", missing_after=0.001)
    await asyncio.sleep(0.05)
    page = await shop.get("/queues")
    assert '<a href="/queues" aria-current="page">Queues' in page
    assert '<span class="rail-count state-missing">1<' in page


# Queues.


async def test_an_empty_store_says_how_each_place_is_filled(shop: Shop) -> None:
    assert "No queue has had a job yet." in await shop.get("/queues")
    assert "No live worker knows a task" in await shop.get("/tasks")
    assert "No worker is registered." in await shop.get("/workers")
    assert "tenure enqueue" in await shop.get("/queues")


async def test_queues_that_need_attention_come_first(shop: Shop) -> None:
    await shop.enqueue("mail", LONG)
    await shop.store.pause("zoo")
    await shop.enqueue("zoo")
    await shop.register("w1", queues=("mail", LONG))
    page = await shop.get("/queues")
    assert page.index('id="queue-zoo"') < page.index(f'id="queue-{LONG}"') < page.index('id="queue-mail"')
    assert "‖</span> paused" in page
    assert f'href="/queues/{LONG}"' in page


async def test_pages_of_queues_go_on_beyond_the_snapshot(shop: Shop) -> None:
    names = [f"q{number:04}" for number in range(1150)]
    await shop.enqueue(*names)
    await shop.register("w1", queues=("*",))
    first = await shop.get("/queues")
    assert "1 to 100 of 1,000" in first
    assert 'href="/queues?page=2"' in first
    assert "1,000 and more" in first
    tenth = await shop.get("/queues?page=10")
    assert "/queues?after=q0999" in tenth
    beyond = await shop.get("/queues?after=q0999")
    assert 'id="queue-q1000"' in beyond
    assert 'id="queue-q1099"' in beyond
    assert 'id="queue-q1100"' not in beyond
    assert "/queues?after=q1099" in beyond
    assert 'id="queue-q1149"' in await shop.get("/queues?after=q1099")
    assert "q1149</span>" in await shop.get("/queues/q1149"), "also a queue that the snapshot does not have"


async def test_a_queue_shows_its_line_its_workers_its_tasks_and_its_failures(shop: Shop) -> None:
    ids = await shop.enqueue("mail", "mail", "mail", "mailing")
    failed = await shop.fail("mail", "ConnectionError")
    await shop.register("web-3:47:aa")
    await shop.store.record_history([HistoryWrite("mail", "", COUNTS), HistoryWrite("mail", "send", COUNTS)])
    page = await shop.get("/queues/mail")
    assert f'href="/jobs/{failed}"' in page
    assert f'href="/jobs/{ids[1]}"' in page
    assert f'href="/jobs/{ids[3]}"' not in page
    assert 'href="/workers/web-3:47:aa"' in page.replace("%3A", ":")
    assert ">10 %</span>" in page, "the share of failed jobs of the task"
    assert "ConnectionError" in page
    assert HOSTILE not in page
    assert "&lt;img src=x" in page
    for span in ("24h", "30d"):
        assert 'aria-current="true"' in await shop.get(f"/queues/mail?span={span}")
    await shop.get("/queues/mail?span=5y", 400)


async def test_a_queue_without_a_worker_says_how_to_start_one(shop: Shop) -> None:
    await shop.enqueue("mail")
    assert "tenure work module:app -q mail" in await shop.get("/queues/mail")


async def test_places_that_do_not_exist(shop: Shop) -> None:
    assert "No queue nowhere" in await shop.get("/queues/nowhere", 404)
    assert "No worker web-9:1:ff" in await shop.get("/workers/web-9:1:ff", 404)
    assert "the history has nothing about it" in await shop.get("/tasks/unknown")
    for path in (
        "/queues/mail?span=10m",
        "/queues/%3Cscript%3E",
        "/tasks/%3Cscript%3E",
        "/workers/%3Cscript%3E",
        "/queues?after=%00",
        "/tasks?page=0",
    ):
        assert "<script>" not in await shop.get(path, 400)


async def test_a_queue_is_paused_resumed_and_purged_once_its_name_is_typed(shop: Shop) -> None:
    await shop.enqueue("mail", "mail", "other")
    assert await shop.post("pause", queue="mail") == "Queue mail is paused."
    assert "paused" in await shop.get("/queues/mail")
    await shop.post("resume", queue="mail")
    assert "type the name of the queue, mail" in await shop.post("purge", queue="mail", typed="other")
    assert [what for what, _, _ in await shop.audit()] == ["resume", "pause"]
    assert await shop.post("purge", queue="mail", typed=" mail ") == "2 jobs deleted from queue mail."
    assert (await shop.audit())[:2] == [("purge", "queue=mail", 2), ("purge", "queue=mail", None)]
    assert [queue.waiting for queue in await shop.store.queues()] == [0, 1]


async def test_what_was_done_is_on_the_next_page(shop: Shop) -> None:
    await shop.enqueue("mail")
    assert 'action="/actions/pause"' in await shop.get("/queues")
    await shop.post("pause", queue="mail")
    assert 'action="/actions/resume"' in await shop.get("/queues")


async def test_a_reader_sees_disabled_buttons_and_is_refused(shop: Shop) -> None:
    await shop.enqueue("mail")
    await shop.register("w1")
    for path in ("/queues", "/queues/mail", "/workers", "/workers/w1"):
        page = await shop.get(path, token=READ)
        assert "disabled title=" in page
        assert 'name="typed"' not in page
    for action in ("pause", "purge", "quiet", "stop", "retire"):
        await shop.post(action, 403, READ, queue="mail", worker="w1", typed="mail")


# Tasks.


async def test_tasks_of_workers_and_of_the_history(shop: Shop) -> None:
    await shop.register("w1", tasks=("send", "never_run"))
    await shop.store.record_history([HistoryWrite("mail", "send", COUNTS), HistoryWrite("mail", "retired", COUNTS)])
    page = await shop.get("/tasks")
    assert page.index('id="task-retired"') < page.index('id="task-send"') < page.index('id="task-never_run"')
    row = page[page.index('id="task-retired"') : page.index('id="task-send"')]
    assert ">none</span>" in row, "no live worker knows it"
    assert "ConnectionError" in row
    assert "<rect" in row
    assert HOSTILE not in page


async def test_a_task_shows_its_charts_errors_queues_and_failures(shop: Shop) -> None:
    await shop.enqueue("mail", "bulk")
    failed = await shop.fail("mail", HOSTILE)
    await shop.register("w1")
    await shop.store.record_history([HistoryWrite("mail", "send", COUNTS), HistoryWrite("bulk", "send", COUNTS)])
    page = await shop.get("/tasks/send")
    assert f'href="/jobs/{failed}"' in page
    assert 'id="queue-bulk"' in page
    assert 'id="queue-mail"' in page
    assert "88ms to 125ms: 160" in page, "a column of the distribution, of both queues together"
    assert HOSTILE not in page
    for span in ("24h", "30d"):
        assert "88ms to 125ms: 160" in await shop.get(f"/tasks/send?span={span}")


# Workers.


async def test_a_worker_shows_what_it_runs_and_how_far_that_is(shop: Shop) -> None:
    [id_, other] = await shop.enqueue("mail", "mail")
    [lease] = await shop.lease("mail")
    await shop.store.renew([Renewal(lease, progress=Progress(30, 50, HOSTILE))])
    await shop.register("w1", release="1.4.2")
    await shop.store.beat("w1", Pulse(held=1, jobs=(id_, other, "gone"), memory=45_000_000))
    for path in ("/workers", "/workers/w1"):
        page = await shop.get(path)
        assert 'value="60"' in page
        assert "1.4.2" in page
        assert "45 MB" in page
        assert f'href="/jobs/{id_}"' in page
        assert f'href="/jobs/{other}"' not in page, "it does not run that one any more"
        assert HOSTILE not in page
    assert 'href="/tasks/send"' in await shop.get("/workers/w1")


async def test_orders_to_a_worker(shop: Shop) -> None:
    await shop.register("w1")

    async def order() -> Order:
        return (await shop.store.workers())[0].order

    page = await shop.get("/workers/w1")
    assert "/actions/quiet" in page
    assert "/actions/go_on" not in page
    assert "takes no more jobs" in await shop.post("quiet", worker="w1")
    assert await order() is Order.QUIET
    page = await shop.get("/workers/w1")
    assert "/actions/go_on" in page
    assert "quiet</span>" in page
    await shop.post("go_on", worker="w1")
    assert await order() is Order.GO_ON
    await shop.post("stop", worker="w1")
    assert await order() is Order.STOP
    page = await shop.get("/workers/w1")
    assert "stopping</span>" in page
    assert "/actions/quiet" not in page
    assert "/actions/stop" not in page
    assert "not registered" in await shop.post("quiet", worker="w2")
    assert [what for what, _, _ in await shop.audit()] == ["order stop", "order go-on", "order quiet"]


async def test_a_live_worker_is_retired_only_once_its_id_is_typed(shop: Shop) -> None:
    await shop.enqueue("mail")
    await shop.register("w1")
    await shop.lease("mail")
    assert 'name="typed"' in await shop.get("/workers/w1")
    assert "type the name of the worker, w1" in await shop.post("retire", worker="w1")
    said = await shop.post("retire", worker="w1", typed="w1")
    assert said == "Worker w1 is retired, 1 job went back to the front."
    assert await shop.store.workers() == []
    assert await shop.audit() == [("retire", "w1", 1)]


async def test_a_missing_worker_is_retired_with_one_button(shop: Shop) -> None:
    [id_] = await shop.enqueue("mail")
    await shop.register("w1")
    await shop.lease("mail")
    await shop.store.beat("w1", Pulse(held=1, jobs=(id_,), missing_after=0.001))
    await asyncio.sleep(0.05)
    page = await shop.get("/workers")
    assert page.index("missing</span>") < page.index("/actions/retire")
    page = await shop.get("/workers/w1")
    assert "Last heard" in page
    assert "The leases of its jobs end" in page
    assert f'href="/jobs/{id_}"' in page
    assert 'name="typed"' not in page
    assert "is retired" in await shop.post("retire", worker="w1")


async def test_a_worker_in_trouble_says_what_it_is(shop: Shop) -> None:
    await shop.register("w1")
    await shop.store.beat("w1", Pulse(trouble=f"its start hook failed {HOSTILE}", strays=2))
    for path in ("/workers", "/workers/w1"):
        page = await shop.get(path)
        assert "troubled</span>" in page
        assert "ts start hook failed &lt;img" in page


# What it costs.


class Counting:
    """Counts the calls of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._store, name)


@pytest.mark.parametrize(
    ("path", "each", "once"),
    [
        ("/queues", 0, 0),
        ("/queues/mail", 1, 5),
        ("/tasks", 0, 2),
        ("/tasks/send", 0, 4),
        ("/workers", 1, 1),
        ("/workers/w1", 1, 1),
    ],
)
async def test_a_page_that_is_looked_at_again_makes_few_calls(shop: Shop, path: str, each: int, once: int) -> None:
    [id_] = await shop.enqueue("mail")
    await shop.lease("mail")
    await shop.register("w1")
    await shop.store.beat("w1", Pulse(held=1, jobs=(id_,)))
    await shop.store.record_history([HistoryWrite("mail", "send", COUNTS)])
    counting = Counting(shop.store)
    await shop.get("/jobs")  # the snapshot is read
    shop.board.site._store = counting  # type: ignore[assignment]
    for _ in range(3):
        await shop.get(path)
    assert len(counting.calls) <= 3 * each + once, counting.calls


async def test_pages_share_what_was_read_lately() -> None:
    recent, calls = Recent(), 0

    async def call() -> int:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.01)
        return calls

    assert await asyncio.gather(*(recent.get("key", 60.0, call) for _ in range(5))) == [1] * 5
    assert await recent.get("other", 60.0, call) == 2
    recent.forget()
    assert await recent.get("key", 60.0, call) == 3
    assert await recent.get("key", 0.0, call) == 4


async def test_the_latest_failures_of_a_task_are_looked_for_in_one_call(shop: Shop) -> None:
    await shop.enqueue("mail")
    await shop.fail("mail", "KeyError")
    found = await shop.store.search(Search(state=State.FAILED, task="send", look=500, limit=10))
    assert len(found.jobs) == 1
    assert "No failed job" not in await shop.get("/tasks/send")
