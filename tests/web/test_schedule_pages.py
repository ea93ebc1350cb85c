"""The pages of schedules: listing, one schedule, its forms and its actions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tenure import App, At, Cron, Every
from tenure.jobs.schedules import Schedule

from .test_flow_pages import HOSTILE, Viewer


@pytest.fixture(params=["memory", "sqlite"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[App]:
    url = f"memory://{tmp_path.name}" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    async with App(url, log=False) as made:
        yield made


@pytest.fixture
async def viewer(app: App) -> AsyncIterator[Viewer]:
    made = Viewer(app)
    yield made
    await made.aclose()


async def nightly(app: App) -> Schedule:
    call = app.remote("report", queue="reports").bind("2027-01", token="s3cret", note=HOSTILE)
    return await app.acreate_schedule("nightly", call, Cron("30 3 * * *", "Europe/Paris"))


async def actions_of(app: App) -> list[str]:
    return [action.what for action in (await app.aactions()).actions]


# Looking.


async def test_without_schedules_the_page_says_how_to_begin(viewer: Viewer) -> None:
    text = await viewer.text("/schedules")
    assert "There are no schedules" in text
    assert "add a schedule" in text


async def test_schedules_are_listed_with_rule_state_and_next_tick(app: App, viewer: Viewer) -> None:
    await nightly(app)
    await app.acreate_schedule("often", app.remote("ping").bind(), Every(60))

    text = await viewer.text("/schedules")
    assert "nightly At 03:30 every day, Europe/Paris time report ✓ active" in text
    assert "often Every minute ping ✓ active" in text
    assert '<time datetime="20' in await viewer.page("/schedules")


async def test_a_schedule_shows_its_ticks_and_hides_secrets(app: App, viewer: Viewer) -> None:
    plan = await nightly(app)
    fired = await plan.atrigger()

    page, text = await viewer.page("/schedules/nightly"), await viewer.text("/schedules/nightly")
    assert text.count("03:30:00 CE") == 5
    assert "allow: enqueues the next job although the last one is not final" in text
    assert "latest: of ticks" in text
    assert "triggered" in text
    assert "○ waiting" in text
    assert f"/jobs/{fired.job_id}" in page
    assert 'token "•••"' in text
    assert "s3cret" not in page


async def test_a_schedule_of_a_flow_leads_to_its_runs(app: App, viewer: Viewer) -> None:
    order = app.flow("order")

    @order.step
    def pack(item: str) -> None: ...

    plan = await app.acreate_schedule("orders", order.bind(item="lamp"), Every(60))
    fired = await plan.atrigger()
    page, text = await viewer.page("/schedules/orders"), await viewer.text("/schedules/orders")
    assert f"/runs/{fired.job_id}" in page
    assert 'Attributes item "lamp"' in text
    assert "flow order" in await viewer.text("/schedules")
    assert "schedule orders" in await viewer.text(f"/runs/{fired.job_id}")


async def test_an_unknown_schedule_is_said_to_be_unknown(viewer: Viewer) -> None:
    assert "There is no schedule gone" in await viewer.text("/schedules/gone", 404)
    assert "There is no schedule gone" in await viewer.text("/schedules/gone/change", 404)


async def test_schedules_come_in_pages(app: App, viewer: Viewer) -> None:
    for number in range(101):
        await app.acreate_schedule(f"s{number:03}", app.remote("ping").bind(), Every(3600))
    assert (await viewer.page("/schedules")).count("data-row") == 100
    assert (await viewer.page("/schedules?cursor=s099")).count("data-row") == 1


async def test_a_reader_may_not_act(app: App) -> None:
    await nightly(app)
    reader = Viewer(app, "read")
    page = await reader.page("/schedules/nightly")
    for action in ("trigger", "pause", "change", "delete"):
        assert f"You may look, not schedule {action}" in page
    await reader.aclose()


# Acting.


async def test_a_schedule_is_paused_resumed_triggered_and_deleted(app: App, viewer: Viewer) -> None:
    plan, at = await nightly(app), "/schedules/nightly"

    assert await viewer.said("schedule pause", at, name="nightly") == "Schedule nightly is paused."
    assert (await plan.arefresh()).paused
    assert "paused already" in await viewer.said("schedule pause", at, name="nightly")
    assert "‖ paused" in await viewer.text(at)
    assert "resumed" in await viewer.said("schedule resume", at, name="nightly")
    assert "has enqueued job" in await viewer.said("schedule trigger", at, name="nightly")
    assert "deleted" in await viewer.said("schedule delete", at, name="nightly", back="/schedules")
    assert await app.aschedules() == []
    assert "there is no schedule" in (await viewer.said("schedule pause", "/schedules/+new", name="nightly")).lower()
    assert await actions_of(app) == ["schedule delete", "schedule trigger", "schedule resume", "schedule pause"]


async def test_a_trigger_that_enqueues_nothing_says_why(app: App, viewer: Viewer) -> None:
    plan = await nightly(app)
    await plan.achange(overlap="skip")
    await plan.atrigger()
    said = await viewer.said("schedule trigger", "/schedules/nightly", name="nightly")
    assert "is not final and its overlap is skip" in said


# The forms.


async def test_the_preview_shows_the_ticks_and_changes_nothing(app: App, viewer: Viewer) -> None:
    fields = {
        "name": "n",
        "kind": "task",
        "target": "report",
        "how": "cron",
        "when": "0 9 * * MON",
        "timezone": "Asia/Tokyo",
    }
    arguments = '{\n "month": "1",\n "more": "' + "x" * 1000 + '"}'
    await viewer.said("schedule add", "/schedules/+new", **fields, arguments=arguments, preview="1")

    assert viewer.at == "/schedules/+new"
    assert await app.aschedules() == []
    assert await actions_of(app) == []


async def previewed(viewer: Viewer, **fields: str) -> str:
    """The form after a preview."""
    found = await viewer.client.get("/schedules/+new")
    csrf = found.text.partition('name="csrf" value="')[2].partition('"')[0]
    await viewer.client.post(
        "/actions/schedule add",
        data={"csrf": csrf, "preview": "1", **fields},
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    return await viewer.page("/schedules/+new")


async def test_a_preview_keeps_what_was_typed(viewer: Viewer) -> None:
    page = await previewed(
        viewer,
        name="n",
        target="report",
        how="cron",
        when="0 9 * * MON",
        timezone="Asia/Tokyo",
        arguments='{"a":\r\n1}',
    )
    assert page.count("Mon 20") == 5
    assert "09:00:00 JST" in page
    assert 'value="0 9 * * MON"' in page
    assert "{&#34;a&#34;:\n1}" in page
    assert "toast-bad" not in page


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"when": "61 * * * *"}, "is no cron text"),
        ({"when": ""}, "say when the schedule fires"),
        ({"timezone": "Mars/Base"}, "there is no time zone"),
        ({"how": "every", "when": "soon"}, "every needs a duration"),
        ({"how": "at", "when": "soon"}, "at needs a time"),
        ({"how": "odd"}, "by cron, every or at"),
        ({"target": ""}, "say what the schedule enqueues"),
        ({"target": "", "arguments": "{}"}, "arguments of what"),
        ({"arguments": "{"}, "no JSON"),
        ({"arguments": "1"}, "JSON object by name"),
        ({"catch_up": "most"}, "catch_up must be"),
        ({"overlap": "odd"}, "overlap must be one of"),
        ({"name": "<script>alert(1)</script>"}, "name"),
        ({"kind": "flow"}, "name the first step"),
        ({"kind": "flow", "arguments": "[]"}, "attributes of a flow"),
    ],
)
async def test_wrong_forms_are_refused_and_come_back(
    app: App, viewer: Viewer, fields: dict[str, str], sentence: str
) -> None:
    right = {"name": "n", "kind": "task", "target": "report", "how": "cron", "when": "@daily", "arguments": "{}"}
    if fields.get("target") == "" and "arguments" not in fields:
        right["arguments"] = ""
    page = await previewed(viewer, **right | fields)
    assert sentence.lower() in page.lower()
    said = await viewer.said("schedule add", "/schedules/+new", **right | fields)
    assert sentence.lower() in said.lower()
    assert viewer.at == "/schedules/+new"
    assert await app.aschedules() == []


async def test_a_schedule_is_added_in_a_form(app: App, viewer: Viewer) -> None:
    said = await viewer.said(
        "schedule add", "/schedules/+new", name="n", kind="task", target="report", how="every", when="15m",
        arguments='{"month": "2027-01"}', queue="reports", overlap="skip", catch_up="3",
    )  # fmt: skip
    assert said == "Schedule n is added: Every 15 minutes."
    assert viewer.at == "/schedules"
    [made] = await app.aschedules()
    assert (made.task, made.queue, made.when, made.overlap, made.catch_up) == (
        "report",
        "reports",
        Every(900),
        "skip",
        3,
    )
    assert await actions_of(app) == ["schedule add"]


async def test_an_instant_without_an_offset_is_in_the_time_zone(app: App, viewer: Viewer) -> None:
    fields = {"name": "n", "target": "report", "how": "at", "when": "2099-03-01T09:00", "timezone": "Asia/Tokyo"}
    assert "once" in await viewer.said("schedule add", "/schedules/+new", **fields)
    [made] = await app.aschedules()
    assert made.when == At(datetime(2099, 3, 1, 0, 0, tzinfo=UTC)) or made.next_at == datetime(2099, 3, 1, tzinfo=UTC)


async def test_with_code_the_form_is_checked_by_it(app: App, viewer: Viewer) -> None:
    @app.task(queue="reports")
    def report(month: int) -> None: ...

    order = app.flow("order")

    @order.step
    def pack(item: str) -> None: ...

    fields = {"name": "n", "kind": "task", "how": "every", "when": "1h"}
    at = "/schedules/+new"
    assert "No task named 'repor'" in await viewer.said("schedule add", at, **fields, target="repor")
    assert "month" in await viewer.said("schedule add", at, **fields, target="report", arguments='{"month": "x"}')
    assert "is a step" in await viewer.said("schedule add", at, **fields, target="order.pack")
    flow = fields | {"kind": "flow", "target": "order"}
    assert "item" in await viewer.said("schedule add", at, **flow)
    assert "The app has no flow" in await viewer.said("schedule add", at, **flow | {"target": "odd"})
    assert "added" in await viewer.said("schedule add", at, **flow, arguments='{"item": "lamp"}')
    assert "added" in await viewer.said("schedule add", at, **fields | {"name": "m"}, target="report", arguments="[7]")
    assert [(made.name, made.queue) for made in await app.aschedules()] == [("m", "reports"), ("n", "default")]


async def test_a_schedule_is_changed_and_keeps_what_the_form_leaves_empty(app: App, viewer: Viewer) -> None:
    plan, at = await nightly(app), "/schedules/nightly/change"
    page = await viewer.page(at)
    assert 'value="30 3 * * *"' in page
    assert "s3cret" not in page
    before = plan._settings.effective.job

    said = await viewer.said(
        "schedule change", at, name="nightly", kind="task", how="cron", when="0 4 * * *", timezone="UTC", overlap="wait"
    )
    assert said == "Schedule nightly is changed: At 04:00 every day, UTC time."
    assert viewer.at == "/schedules/nightly"
    await plan.arefresh()
    assert (plan.when, plan.overlap, plan._settings.effective.job) == (Cron("0 4 * * *"), "wait", before)
    again = {"name": "nightly", "how": "cron", "when": "0 4 * * *", "overlap": "wait"}
    assert "is like that already" in await viewer.said("schedule change", at, **again)
    assert await actions_of(app) == ["schedule change"]


async def test_changes_of_a_declared_schedule_are_cleared(app: App, viewer: Viewer) -> None:
    @app.task
    def report() -> None: ...

    app.schedule("daily", report.bind(), Cron("@daily"))
    worker = app.worker()
    await worker.start()
    async with asyncio.timeout(10):
        while not await app.aschedules():
            await asyncio.sleep(0.01)
    await worker.stop(grace=5)
    at = "/schedules/daily"
    assert "it is declared in code" in (await viewer.page(at)).lower()

    await viewer.said("schedule change", f"{at}/change", name="daily", how="every", when="2h")
    text = await viewer.text(at)
    assert "Every 2 hours" in text
    assert "when (declared: @daily)" in text
    assert "cleared" in await viewer.said("schedule change", at, name="daily", clear="1")
    assert "no changes to clear" in await viewer.said("schedule change", at, name="daily", clear="1")
    assert "declared in code" in await viewer.said("schedule delete", at, name="daily")
