"""The pages Failed and Broken, running a job again with changes, and completing one."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tenure import App, Job
from tenure.core.job import ErrorInfo, JobRecord, State
from tenure.core.measures import HistoryRow, HistoryWrite, slot_of
from tenure.core.redaction import HIDDEN
from tenure.web import Identity, dashboard
from tenure.web.pages.failed import groups_of, hex_rows
from tenure.web.rendering import sentence

from .test_bulk import Shop, end_all, failed_jobs

NOW = 1_800_000_000.0


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def app(url: str) -> Iterator[App]:
    app = App(url, log=False)

    @app.task(queue="mail")
    def pay(order: int, card: str = "") -> int:
        return order

    @app.task
    def approve(results: list[Any]) -> str:
        return "ok"

    with app:
        yield app


@pytest.fixture
def shop(app: App) -> Iterator[Shop]:
    with TestClient(dashboard(app, auth=lambda _: Identity("ann", "operate"))) as client:
        yield Shop(app, client)


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))


# Groups.


def failed(task: str, error: str, at: float) -> JobRecord:
    return JobRecord(
        id=f"{task}-{at}",
        task=task,
        queue="q",
        state=State.FAILED,
        payload=b"{}",
        ended_at=at,
        error=ErrorInfo(error, "no"),
    )


def test_groups_join_the_history_and_the_jobs_that_are_kept() -> None:
    slot = slot_of(300, NOW)
    hour = [
        HistoryRow(slot, "q", "send", {"failed": 2, "retried": 3, "error:ValueError": 4, "error:KeyError": 1}),
        HistoryRow(slot - 600, "other", "send", {"failed": 1, "error:ValueError": 1}),
    ]
    day = [HistoryRow(slot_of(3600, NOW), "q", "send", {"failed": 9, "error:ValueError": 9, "error:KeyError": 1})]
    jobs = [
        failed("send", "ValueError", NOW - 5),
        failed("send", "ValueError", NOW - 3),
        failed("old", "OSError", NOW - 90000),
    ]
    first, second, third = groups_of(State.FAILED, hour, day, jobs, NOW)
    assert (first.task, first.error, first.hour, first.day, first.kept, first.last) == (
        "send",
        "ValueError",
        5,
        9,
        2,
        NOW - 3,
    )
    assert (second.task, second.error, second.hour, second.day, second.kept) == ("old", "OSError", 0, 0, 1)
    assert (third.error, third.kept, third.last) == ("KeyError", 0, None)
    assert first.listing == "state=failed&task=send&error=ValueError"
    assert len(first.spark) == 2


def test_errors_of_broken_jobs_are_no_failures() -> None:
    rows = [
        HistoryRow(
            slot_of(300, NOW), "q", "send", {"retried": 1, "broken": 2, "error:PayloadError": 2, "error:OSError": 1}
        )
    ]
    assert [group.error for group in groups_of(State.FAILED, rows, rows, [], NOW)] == ["OSError"]
    assert groups_of(State.BROKEN, rows, rows, [], NOW) == []


def test_the_page_leads_from_a_group_to_its_jobs_and_actions(shop: Shop, url: str) -> None:
    failed_jobs(url, 3, task="pay", error="ValueError")
    asyncio.run(counted(url))
    page = shop.page("/failed")
    assert "<title>(3) Failed" in page
    assert "/jobs?state=failed&task=pay&error=ValueError" in page
    assert "/bulk?action=retry&state=failed&task=pay&error=ValueError" in page
    assert "pay ValueError it did not work 7 7 3 " in text_of(page)
    assert 'href="/failed" aria-current="page"' in page
    assert shop.page("/jobs?state=failed&task=pay&error=ValueError").count("data-row") == 3


async def counted(url: str) -> None:
    async with App(url, log=False) as app:
        counts = {"failed": 3.0, "retried": 4.0, "error:ValueError": 7.0}
        await app.internals.session.store.record_history([HistoryWrite("mail", "pay", counts)])


def test_the_pages_say_when_there_is_nothing(shop: Shop) -> None:
    assert "none has been enqueued" in shop.page("/failed")
    assert "No job is broken" in shop.page("/broken")


# Broken jobs.


def test_broken_jobs_show_their_bytes_and_are_read_again(shop: Shop, url: str) -> None:
    with App(url, log=False) as other:
        other.remote("pay", queue="mail", raw=True).enqueue(b"\x00\xff<b>no JSON")
        other.remote("pay", queue="mail").enqueue(order="x", card="4111")
    asyncio.run(end_all(url, "mail", State.BROKEN, ErrorInfo("PayloadError", "it cannot be read")))
    answer = shop.client.get("/broken").text
    assert "00 ff 3c 62 3e 6e 6f 20 4a 53 4f 4e" in answer
    assert "··&lt;b&gt;no JSON" in answer
    assert "4111" not in answer
    assert HIDDEN in answer
    assert "read again" in answer
    found, csrf = re.search(r'name="id" value="([^"]+)"', answer), re.search(r'name="csrf" value="(\w+)"', answer)
    assert found
    assert csrf
    assert sent(shop, "retry", {"id": found[1], "csrf": csrf[1], "back": "/broken"}) == (
        "/broken",
        "1 job put back in line.",
    )


def test_bytes_are_shown_as_numbers_and_text() -> None:
    rows = hex_rows(bytes(range(20)) + b"A" * 300)
    assert rows[0] == ("0000", "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f", "·" * 16)
    assert rows[1][2] == "····AAAAAAAAAAAA"
    assert len(rows) == 12


# Running a job again with changes.


def form_at(shop: Shop, path: str) -> dict[str, str]:
    """The hidden fields and the text of the form at this path."""
    page = shop.client.get(path).text
    form = page.partition('class="written"')[2].partition("</form>")[0]
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    text = re.search(r"<textarea[^>]*>(.*?)</textarea>", form, re.DOTALL)
    return {
        **{name: html.unescape(value) for name, value in fields.items()},
        "written": html.unescape(text[1]) if text else "",
    }


def sent(shop: Shop, action: str, fields: dict[str, str]) -> tuple[str, str]:
    """Send a form; where it leads, and what is said there."""
    answer = shop.client.post(
        f"/actions/{action}", data=fields, headers={"Sec-Fetch-Site": "same-origin"}, follow_redirects=False
    )
    assert answer.status_code == 303, answer.text
    page = shop.client.get(answer.headers["location"]).text
    toast = re.search(r'<p class="toast[^>]*>([^<]*)', page)
    return answer.headers["location"], html.unescape(toast[1]) if toast else ""


def a_failed_payment(app: App, url: str) -> Job[Any]:
    task = app.tasks["pay"].using(priority=-3, tags=["spring", "vip"], headers={"tenant": "t1"})
    job = task.enqueue(order=42, card="4111")
    asyncio.run(end_all(url, "mail", State.FAILED, ErrorInfo("ValueError", "no")))
    return job


def test_a_job_runs_again_with_changes_and_its_secrets_stay(shop: Shop, app: App, url: str) -> None:
    job = a_failed_payment(app, url)
    assert f"/jobs/{job.id}/again" in shop.page(f"/jobs/{job.id}")
    fields = form_at(shop, f"/jobs/{job.id}/again")
    assert json.loads(fields["written"]) == {"kwargs": {"order": 42, "card": HIDDEN}}
    fields["written"] = json.dumps({"kwargs": {"order": 43, "card": HIDDEN}})
    where, said = sent(shop, "run again", fields)
    assert said.startswith(f"Job {job.id} runs again")
    sent(shop, "run again", fields)  # the same form twice is the same job
    [new] = app.jobs(state="waiting")
    assert where == f"/jobs/{new.id}"
    record = new.record
    assert record is not None
    assert json.loads(record.payload) == {"kwargs": {"order": 43, "card": "4111"}}
    assert (record.queue, record.priority, record.headers) == ("mail", -3, {"tenant": "t1"})
    assert sorted(record.tags) == ["spring", "vip"]
    job.refresh()
    assert job.state == State.FAILED
    entry = app.actions().actions[0]
    assert (entry.who, entry.what, entry.target) == ("ann", "run again", f"{job.id} {new.id}")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('{"kwargs": {"order": "many"}}', "does not fit the task"),
        ('{"kwargs": {"order": 1, "shop": 2}}', "does not fit the task"),
        ('{"kwargs": {"order"', "no JSON"),
        ('{"kwarg": {}}', "call is an object"),
        ("[1]", "call is an object"),
        ('{"args": [1, "•••"]}', "where nothing was hidden"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_and_not_lost(
    shop: Shop, app: App, url: str, written: str, said: str
) -> None:
    job = a_failed_payment(app, url)
    fields = {**form_at(shop, f"/jobs/{job.id}/again"), "written": written}
    answer = shop.client.post(
        "/actions/run again", data=fields, headers={"Sec-Fetch-Site": "same-origin"}, follow_redirects=False
    )
    assert answer.headers["location"] == f"/jobs/{job.id}/again"
    page = html.unescape(shop.client.get(answer.headers["location"]).text)
    assert said in page
    assert f">{written}</textarea>" in page, "what was written is there again"
    assert app.jobs(state="waiting") == []


def test_the_signature_hides_defaults_that_may_be_secrets(shop: Shop, app: App) -> None:
    @app.task(name="log_in")
    def log_in(user: str = "ann", password: str = "hunter2") -> None: ...

    page = html.unescape(shop.page(f"/jobs/{log_in.enqueue().id}/again"))
    assert "= 'ann'" in page
    assert f"= '{HIDDEN}'" in page
    assert "hunter2" not in page


def test_without_code_a_call_needs_no_signature(url: str) -> None:
    failed_jobs(url, 1, task="elsewhere")
    with App(url, log=False) as app, TestClient(dashboard(app, auth=lambda _: Identity("ann", "operate"))) as client:
        shop = Shop(app, client)
        [job] = app.jobs(state="failed")
        fields = {**form_at(shop, f"/jobs/{job.id}/again"), "written": '{"args": ["whatever"]}'}
        sent(shop, "run again", fields)
        [new] = app.jobs(state="waiting")
        assert new.record is not None
        assert (new.task, new.queue, json.loads(new.record.payload)) == ("elsewhere", "mail", {"args": ["whatever"]})


def test_hidden_arguments_cannot_be_changed(app: App, url: str) -> None:
    job = a_failed_payment(app, url)
    made = dashboard(app, auth=lambda _: Identity("ann", "operate"), show="hidden")
    with TestClient(made) as client:
        shop = Shop(app, client)
        assert "/again" not in shop.page(f"/jobs/{job.id}")
        page = shop.page(f"/jobs/{job.id}/again")
        assert "shows no arguments" in page
        assert "textarea" not in page


def test_a_gone_job_has_no_forms(shop: Shop) -> None:
    assert shop.client.get("/jobs/gone/again").status_code == 404
    assert shop.client.get("/jobs/gone/complete").status_code == 404


# Completing.


def test_a_blocked_job_is_completed_with_a_value(shop: Shop, app: App) -> None:
    first = app.tasks["pay"].using(delay=3600).enqueue(1)
    job = app.tasks["approve"].using(after=[first]).enqueue()
    assert f"/jobs/{job.id}/complete" in shop.page(f"/jobs/{job.id}")
    fields = form_at(shop, f"/jobs/{job.id}/complete")
    assert fields["written"] == "null"
    where, said = sent(shop, "complete", {**fields, "written": '"by hand'})
    assert where == f"/jobs/{job.id}/complete"
    assert "no JSON" in said
    where, said = sent(shop, "complete", {**fields, "written": '"by hand"'})
    assert (where, said) == (f"/jobs/{job.id}", "Approve is completed.")
    assert job.result(timeout=1) == "by hand"
    assert app.actions().actions[0].what == "complete"
    assert "succeeded already" in shop.page(f"/jobs/{job.id}/complete")


def test_a_step_of_a_flow_is_completed_and_hands_over(url: str) -> None:
    app = App(url, log=False)
    flow = app.flow("parcel")

    @flow.step(then="ship")
    def pack(item: str) -> dict[str, float]:
        return {"weight": 1.0}

    @flow.step
    def ship(weight: float) -> None: ...

    with app, TestClient(dashboard(app, auth=lambda _: Identity("ann", "operate"))) as client:
        shop = Shop(app, client)
        run = flow.using(delay=3600).start(item="lamp")
        fields = form_at(shop, f"/jobs/{run.id}/complete")
        _, said = sent(shop, "complete", {**fields, "written": '{"weight": 2.5}'})
        assert "is completed" in said
        run.refresh()
        assert run.step == "ship"
        assert run.attributes()["weight"] == 2.5


def test_a_group_without_jobs_among_the_latest_can_be_looked_for(shop: Shop, url: str) -> None:
    failed_jobs(url, 1, task="pay", error="ValueError")
    asyncio.run(counted(url))
    failed_jobs(url, 1001, task="other", error="OSError")
    page = text_of(shop.page("/failed"))
    assert "pay ValueError 7 7 – – look for them" in page
    assert "other OSError it did not work 0 0 1 000+" in page


@pytest.mark.parametrize(
    ("text", "shown"), [("tenure retry 1", "tenure retry 1"), ("fix the cause", "Fix the cause"), ("", "")]
)
def test_a_command_is_shown_as_it_is_typed(text: str, shown: str) -> None:
    assert sentence(text) == shown
