"""Acting on many jobs: counting, asking, progress, stop, audit, and a dashboard that is killed in the middle."""

from __future__ import annotations

import asyncio
import html
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from tenure import App
from tenure.core.job import ErrorInfo, State
from tenure.core.lease import new_nonce
from tenure.core.lifecycle import Finish
from tenure.stores.base import BATCH
from tenure.stores.values import Action, LeaseRequest, Search
from tenure.web import Identity, dashboard
from tests.conftest import a_url

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


class Shop:
    """An app with jobs that have ended, and a client of its dashboard."""

    def __init__(self, app: App, client: TestClient) -> None:
        self.app = app
        self.client = client

    def page(self, path: str) -> str:
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return html.unescape(answer.text)

    def post(self, action: str, **fields: str) -> httpx.Response:
        csrf = re.search(r'name="csrf" value="(\w+)"', self.page("/jobs?state=failed"))
        fields |= {"csrf": csrf[1] if csrf else ""}
        answer: httpx.Response = self.client.post(
            f"/actions/{action}", data=fields, headers=SAME_ORIGIN, follow_redirects=False
        )
        return answer

    def said(self, action: str, **fields: str) -> str:
        """What the page after an action says about it."""
        page = self.page(self.post(action, **fields).headers["location"])
        toast = re.search(r'<p class="toast[^>]*>([^<]*)', page)
        return toast[1] if toast else ""

    def begin(self, query: str) -> str:
        """Count the jobs that fit, agree to the question, and return the path of the operation."""
        asked = self.until(lambda: self.page(f"/bulk?{query}"), "No, go back")
        operation = re.search(r'name="operation" value="(\w+)"', asked)
        csrf = re.search(r'name="csrf" value="(\w+)"', asked)
        assert operation
        assert csrf
        action = httpx.QueryParams(query)["action"]
        fields = {"operation": operation[1], "csrf": csrf[1], "back": f"/operations/{operation[1]}"}
        answer = self.client.post(f"/actions/{action}", data=fields, headers=SAME_ORIGIN, follow_redirects=False)
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"] == f"/operations/{operation[1]}"
        return f"/operations/{operation[1]}"

    def until(self, look: Callable[[], str], text: str) -> str:
        deadline = time.monotonic() + 20
        while text not in (found := look()):
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
        return found

    def ended(self, path: str) -> str:
        return self.until(lambda: self.page(path), '<span class="heading-count">ended')

    def count(self, **filters: Any) -> int:
        found, cursor = 0, None
        while True:
            page = asyncio.run(search(self.app.url, Search(**filters, limit=BATCH, cursor=cursor)))
            found += len(page.jobs)
            if (cursor := page.cursor) is None:
                return found

    def audit(self) -> list[Action]:
        return asyncio.run(audit(self.app.url))


async def search(url: str, wanted: Search) -> Any:
    async with App(url, log=False) as app:
        return await app.internals.session.store.search(wanted)


async def audit(url: str) -> list[Action]:
    async with App(url, log=False) as app:
        return (await app.internals.session.store.actions()).actions


async def end_all(url: str, queue: str, state: State, error: ErrorInfo | None) -> None:
    """End every job of a queue like this, without a worker."""
    async with App(url, log=False) as app:
        store = app.internals.session.store
        while True:
            leased = await store.lease(
                LeaseRequest(queues=(queue,), limit=BATCH, worker="w", ttl=60.0, nonce=new_nonce())
            )
            if not leased.leases:
                return
            await store.settle([(lease, Finish(state, error=error)) for lease in leased.leases])


def failed_jobs(url: str, number: int, task: str = "send", error: str = "ValueError", queue: str = "mail") -> None:
    """Enqueue jobs and let them fail."""
    with App(url, log=False) as app:
        remote = app.remote(task, queue=queue)
        for start in range(0, number, BATCH):
            calls = [{"order": at, "card": f"4111-{at}"} for at in range(start, min(start + BATCH, number))]
            remote.enqueue_many(calls)
    asyncio.run(end_all(url, queue, State.FAILED, ErrorInfo(error, "it did not work", "Traceback …")))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture(params=["redis", "postgres"])
def server_url(request: pytest.FixtureRequest) -> str:
    return a_url(request)


@pytest.fixture
def shop(url: str) -> Iterator[Shop]:
    app = App(url)

    @app.task(queue="mail")
    def send(order: int, card: str = "") -> None: ...

    with TestClient(dashboard(app, auth=lambda _: Identity("ann", "operate"))) as client:
        yield Shop(app, client)
    app.close()


# All that fit.


def test_all_that_fit_are_counted_and_retried_and_the_audit_has_both_lines(shop: Shop, url: str) -> None:
    failed_jobs(url, 2300)
    failed_jobs(url, 7, error="KeyError")
    ended = shop.ended(shop.begin("action=retry&state=failed&error=ValueError"))
    assert ">2\u2009300<" in ended
    assert shop.count(state=State.FAILED) == 7
    assert shop.count(state=State.WAITING) == 2300
    after, before = shop.audit()
    assert (before.who, before.by, before.what, before.target, before.count) == (
        "ann", "dashboard", "retry", "state=failed error=ValueError", None,
    )  # fmt: skip
    assert (after.what, after.target, after.count) == ("retry", "state=failed error=ValueError", 2300)


def test_what_fails_after_the_count_is_left_alone(shop: Shop, url: str) -> None:
    failed_jobs(url, 20)
    asked = shop.until(lambda: shop.page("/bulk?action=retry&state=failed&task=send"), "Retry 20 jobs")
    failed_jobs(url, 5)
    operation = re.search(r'name="operation" value="(\w+)"', asked)
    assert operation
    assert shop.post("retry", operation=operation[1]).status_code == 303
    assert "newer</dt><dd>5<" in shop.ended(f"/operations/{operation[1]}")
    assert shop.count(state=State.FAILED) == 5
    assert shop.count(state=State.WAITING) == 20


def test_state_and_queue_are_counted_without_a_walk(shop: Shop, url: str) -> None:
    failed_jobs(url, 12)
    assert "Delete 12 jobs" in shop.page("/bulk?action=delete&state=failed&queue=mail")
    shop.ended(shop.begin("action=delete&state=failed&queue=mail"))
    assert shop.count() == 0


def test_waiting_jobs_are_cancelled_and_scheduled_ones_are_put_in_line(shop: Shop, url: str) -> None:
    with App(url, log=False) as app:
        app.remote("send", queue="mail").enqueue_many([(at,) for at in range(30)])
        app.remote("later", queue="mail").using(delay=3600).enqueue_many([(at,) for at in range(8)])
    shop.ended(shop.begin("action=cancel&state=waiting&task=send"))
    assert shop.count(state=State.CANCELLED) == 30
    shop.ended(shop.begin("action=trigger&state=scheduled&task=later"))
    assert shop.count(state=State.WAITING, scheduled=False) == 8


def test_an_operation_can_be_stopped(shop: Shop, url: str) -> None:
    failed_jobs(url, 5000)
    path = shop.begin("action=retry&state=failed&task=send")
    shop.post("retry", operation=path.rpartition("/")[2], stop="1")
    shop.until(lambda: shop.page(path), '<span class="heading-count">stopped')
    left = shop.count(state=State.FAILED)
    assert 0 < left < 5000
    assert left % BATCH == 0, "every batch is done as a whole"
    assert shop.audit()[0].target.endswith("(stopped)")
    assert shop.audit()[0].count == 5000 - left


def test_only_what_the_state_allows_is_offered_and_done(shop: Shop, url: str) -> None:
    failed_jobs(url, 1)
    listing = shop.page("/jobs?state=failed&task=send")
    assert "/bulk?action=retry&state=failed&task=send" in listing
    assert "action=cancel" not in listing
    assert shop.client.get("/bulk?action=cancel&state=failed").status_code == 400
    assert shop.client.get("/bulk?action=retry").status_code == 400
    assert shop.client.get("/bulk?state=failed").status_code == 400
    assert "too old: count again" in shop.said("retry", operation="none")


def test_a_viewer_who_may_only_look_can_count_and_not_act(url: str) -> None:
    failed_jobs(url, 3)
    with App(url, log=False) as app, TestClient(dashboard(app, auth=lambda _: Identity("bob", "read"))) as client:
        shop = Shop(app, client)
        asked = shop.until(lambda: shop.page("/bulk?action=retry&state=failed&task=send"), "Retry 3 jobs")
        assert "You may look, not retry" in asked
        operation = re.search(r'name="operation" value="(\w+)"', asked)
        assert operation
        assert shop.post("retry", operation=operation[1]).status_code == 403
        assert shop.count(state=State.FAILED) == 3


def test_too_many_operations_at_a_time_are_refused(shop: Shop, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failed_jobs(url, 3)
    path = shop.begin("action=retry&state=failed&task=send")
    shop.ended(path)
    assert path in shop.page("/operations")
    monkeypatch.setattr("tenure.web.operations.AT_A_TIME", 0)
    failed_jobs(url, 3)
    asked = shop.until(lambda: shop.page("/bulk?action=delete&state=failed&task=send"), "No, go back")
    operation = re.search(r'name="operation" value="(\w+)"', asked)
    assert operation
    assert "operations are at work" in shop.said("delete", operation=operation[1])
    assert len(shop.audit()) == 2


def test_an_unknown_operation_is_said_to_be_forgotten(shop: Shop) -> None:
    answer = shop.client.get("/operations/0123")
    assert answer.status_code == 404
    assert "No such operation" in answer.text


def test_on_servers_a_text_is_counted_and_what_fits_is_retried_and_deleted(server_url: str) -> None:
    url = server_url
    failed_jobs(url, 1200)
    failed_jobs(url, 30, error="KeyError")
    with App(url, log=False) as app, TestClient(dashboard(app, auth=lambda _: Identity("ann", "operate"))) as client:
        shop = Shop(app, client)
        assert shop.page("/jobs?state=failed&text=4111").count("data-row") == 0
        assert "KeyError" in shop.page("/failed")
        assert "No job is broken" in shop.page("/broken")
        shop.ended(shop.begin('action=retry&state=failed&text="order":1'))  # 1, 10 to 19, 100 to 199, 1000 to 1199
        assert shop.count(state=State.WAITING) == 1 + 10 + 100 + 200 + 11
        shop.ended(shop.begin("action=delete&state=failed&error=KeyError"))
        assert shop.count(state=State.FAILED, error="KeyError") == 0
        assert [entry.what for entry in shop.audit()] == ["delete", "delete", "retry", "retry"]


# Text.


def test_a_text_finds_what_is_shown_and_nothing_that_is_hidden(shop: Shop, url: str) -> None:
    failed_jobs(url, 30)
    assert shop.page('/jobs?state=failed&text="order":7,').count("data-row") == 1
    for probe in ("4111", "4111-7", '"card":"4', "card"):
        rows = shop.page(f"/jobs?state=failed&text={probe}").count("data-row")
        assert rows == (30 if probe == "card" else 0), probe
    asked = shop.until(lambda: shop.page("/bulk?action=retry&state=failed&text=4111"), "No job fits")
    assert "Retry" not in asked.partition("<h1>")[2].partition("</h1>")[2]
    # What the page says of its work does not depend on what is hidden either.
    said = [
        re.findall(r"looked at [^<]*", shop.page(f"/jobs?state=failed&limit=1&text={text}"))
        for text in ("4111", "5222")
    ]
    assert said[0] == said[1]


def test_a_text_is_found_in_an_error(shop: Shop, url: str) -> None:
    failed_jobs(url, 3)
    assert shop.page("/jobs?state=failed&text=did not work").count("data-row") == 3


def test_a_dashboard_that_shows_no_arguments_refuses_a_text(url: str) -> None:
    failed_jobs(url, 3)
    with App(url, log=False) as app:
        made = dashboard(app, auth=lambda _: Identity("ann", "operate"), show="hidden")
        with TestClient(made) as client:
            assert client.get("/jobs?state=failed&text=1").status_code == 400
            assert client.get("/bulk?action=retry&state=failed&text=1").status_code == 400
            assert "4111" not in client.get("/broken").text


def test_a_page_walks_on_until_it_is_full(shop: Shop, url: str) -> None:
    failed_jobs(url, 3, error="Rare")
    time.sleep(0.01)
    failed_jobs(url, 1400)
    page = shop.page("/jobs?state=failed&error=Rare")
    assert page.count("data-row") == 3
    assert "looked at 1\u2009403" in page


def test_a_page_looks_on_by_itself_each_time_it_is_looked_at(shop: Shop, url: str) -> None:
    failed_jobs(url, 3, error="Rare")
    failed_jobs(url, 5000)
    page = shop.page("/jobs?state=failed&error=Rare")
    assert "of about 5\u2009003 jobs, looking on…" in page
    assert ">look on" in page
    page = shop.until(lambda: shop.page("/jobs?state=failed&error=Rare"), "looked at 5\u2009003 jobs<")
    assert page.count("data-row") == 3


def test_a_walk_ends_and_goes_on_by_a_link(shop: Shop, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.web.walking.FARTHEST", 1000)
    failed_jobs(url, 3, error="Rare")
    failed_jobs(url, 5000)
    page = shop.page("/jobs?state=failed&error=Rare")
    looks = 0
    while link := re.search(r'href="([^"]*)" rel="next">look on', page):
        page = shop.page(link[1])
        looks += 1
    assert looks == 5
    assert page.count("data-row") == 3
    assert "looked at 5\u2009003" in page


def test_a_long_walk_begins_anew_and_finds_what_is_new(shop: Shop, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.web.walking.AGAIN", 0.0)
    failed_jobs(url, 4000)
    shop.until(lambda: shop.page("/jobs?state=failed&error=Rare"), "of 4000 that were looked at")
    failed_jobs(url, 2, error="Rare")
    page = shop.until(lambda: shop.page("/jobs?state=failed&error=Rare"), "data-row")
    assert page.count("data-row") == 2


def test_a_dashboard_that_is_shut_down_ends_its_operations(shop: Shop, url: str) -> None:
    failed_jobs(url, 5000)
    with TestClient(dashboard(shop.app, auth=lambda _: Identity("ann", "operate"))) as client:
        Shop(shop.app, client).begin("action=retry&state=failed&task=send")
    left = shop.count(state=State.FAILED)
    assert left % BATCH == 0
    entry = shop.audit()[0]
    assert entry.count == 5000 - left
    assert entry.target.endswith("(stopped)") == bool(left)


# A dashboard that is killed.


@pytest.mark.parametrize("number", [2_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_a_dashboard_that_is_killed_in_the_middle_leaves_nothing_half_done(url: str, number: int) -> None:
    failed_jobs(url, number)
    environment = {**os.environ, "TENURE_URL": url, "TENURE_DASHBOARD_OPERATE_TOKEN": "a-token-of-twenty-chars"}
    command = [sys.executable, "-m", "tenure", "dashboard", "--port", "0"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        base = process.stdout.readline().strip().partition("?")[0].rstrip("/")
        headers = {"Authorization": "Bearer a-token-of-twenty-chars"}
        with httpx.Client(base_url=base, headers=headers, timeout=20, trust_env=False) as client:
            deadline = time.monotonic() + 60
            while not (found := re.search(r'name="operation" value="(\w+)"', (page := client.get(
                "/bulk?action=retry&state=failed&task=send")).text)):  # fmt: skip
                assert time.monotonic() < deadline, page.text
                time.sleep(0.05)
            answer = client.post("/actions/retry", data={"operation": found[1], "back": "/"})
            assert answer.status_code == 303
            while "<dt>done</dt><dd>0<" in client.get(f"/operations/{found[1]}").text:
                assert time.monotonic() < deadline
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    left, waiting = asyncio.run(both(url))
    assert left + waiting == number
    assert waiting % BATCH == 0, "every batch is done as a whole"
    assert waiting > 0
    [begun, *_] = reversed(asyncio.run(audit(url)))
    assert (begun.what, begun.count) == ("retry", None)
    asyncio.run(retried(url))
    assert asyncio.run(both(url)) == (0, number), "what was not reached can be retried as before"


async def both(url: str) -> tuple[int, int]:
    """How many jobs have failed, and how many are in line, as the counters say and as a walk finds them."""
    async with App(url, log=False) as app:
        [queue] = await app.aqueues()
        store, found = app.internals.session.store, []
        for state in (State.FAILED, State.WAITING):
            number, cursor = 0, None
            while True:
                page = await store.search(Search(state=state, limit=BATCH, cursor=cursor))
                number += len(page.jobs)
                if (cursor := page.cursor) is None:
                    break
            found.append(number)
        assert (queue.failed, queue.waiting) == tuple(found)
        return queue.failed, queue.waiting


async def retried(url: str) -> int:
    async with App(url, log=False) as app:
        return await app.aretry(state="failed", task="send")
