"""Open pages keep up: with the store, through restarts and outages, and without disturbing whoever looks."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from playwright.async_api import Locator, Page, Route, expect

from tenure import App
from tenure.errors import StoreUnavailable
from tenure.stores.base import Store
from tenure.web import routes, site, topics

from .conftest import Problems, Serve, Visit, in_one_loop

pytestmark = in_one_loop

OFFLINE = "net::ERR_"
"""What the console says while the server is away."""


async def worked_off(app: App) -> None:
    """Run all jobs that are due."""
    store = app.internals.new_store()
    async with app.worker(), asyncio.timeout(10):
        while any(queue.waiting + queue.running for queue in await store.queues()):
            await asyncio.sleep(0.005)


def row(page: Page, job_id: str) -> Locator:
    return page.locator(f"#job-{job_id}")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are looked at, the snapshot is read, and changes are sent, twenty times a second."""
    rendered = routes._rendered

    async def often(*args: Any) -> topics.Rendered:
        return (await rendered(*args))._replace(every=0.05)

    monkeypatch.setattr(routes, "_rendered", often)
    monkeypatch.setattr(topics, "DUTY", 0)
    monkeypatch.setattr(site, "SNAPSHOT_PAUSE", 0.05)


async def test_a_job_that_fails_is_seen_within_a_second(app: App, serve: Serve, visit: Visit) -> None:
    served = await serve(app)
    page = await visit(served, "/jobs?state=failed")
    overview = await visit(served, "/")
    await expect(page.get_by_text("No failed jobs.")).to_be_visible()
    await expect(page.locator("#live")).to_have_attribute("data-live", "on")
    took = []
    for number in range(3):
        job = await app.tasks["boom"].aenqueue()
        await worked_off(app)
        began = time.monotonic()
        if number:
            await page.locator("[data-news]").click()
        await expect(row(page, job.id)).to_be_visible()
        took.append(time.monotonic() - began)
    assert sorted(took)[1] < 1.5, f"they were seen after {took} s"
    await expect(overview.locator("#queue-mail")).to_be_visible()
    await expect(page.locator("#filters [aria-current] .tab-count")).to_have_text("3")


@pytest.mark.usefixtures("quick")
async def test_rows_hold_still_until_new_ones_are_asked_for(app: App, serve: Serve, visit: Visit) -> None:
    waiting = [await app.tasks["work"].aenqueue(number) for number in range(3)]
    page = await visit(await serve(app), "/jobs?state=waiting")
    shown = page.locator("tbody[data-still] tr")
    await expect(shown).to_have_count(3)
    more = [await app.tasks["work"].aenqueue(number) for number in range(2)]
    news = page.locator("[data-news]")
    await expect(news).to_have_text("↑ 2 new")
    await expect(shown).to_have_count(3)
    await waiting[0].acancel()
    await expect(row(page, waiting[0].id)).to_have_attribute("data-my-gone", "")
    await page.keyboard.press("n")
    await expect(shown).to_have_count(4)
    await expect(row(page, more[0].id)).to_be_visible()
    await expect(row(page, waiting[0].id)).to_have_count(0)
    await expect(news).to_be_hidden()
    for job in (*waiting[1:], *more):
        await job.acancel()
    await expect(news).to_have_text("↻ 4 gone")
    await news.click()
    await expect(page.get_by_text("No in line jobs.")).to_be_visible()


async def test_a_page_of_200_rows_is_patched_and_not_loaded_again(app: App, serve: Serve, visit: Visit) -> None:
    await app.tasks["work"].aenqueue_many([(number,) for number in range(199)])
    page = await visit(await serve(app), "/jobs?limit=200")
    loads: list[Page] = []
    page.on("load", lambda page: loads.append(page))
    await app.tasks["work"].aenqueue(199)
    await expect(page.locator("[data-news]")).to_have_text("↑ 1 new")
    assert not loads


async def test_a_page_goes_on_after_a_restart_of_the_server(
    app: App, serve: Serve, visit: Visit, problems: Problems
) -> None:
    problems.expected += [OFFLINE]
    jobs = [await app.tasks["boom"].aenqueue() for _ in range(3)]
    await worked_off(app)
    served = await serve(app)
    page = await visit(served, "/jobs?state=failed")
    await expect(page.locator("#live")).to_have_attribute("data-live", "on")
    await row(page, jobs[1].id).get_by_role("checkbox").check()
    await row(page, jobs[1].id).get_by_role("checkbox").focus()
    await served.stop()
    await asyncio.sleep(0.3)
    await served.start()
    later = await app.tasks["boom"].aenqueue()
    await worked_off(app)
    await expect(page.locator("[data-news]")).to_have_text("↑ 1 new")
    box = row(page, jobs[1].id).get_by_role("checkbox")
    await expect(box).to_be_checked()
    await expect(box).to_be_focused()
    await page.keyboard.press("n")
    await expect(row(page, later.id)).to_be_visible()
    await expect(box).to_be_checked()
    await expect(box).to_be_focused()
    # Its forms still work: the new server knows the session.
    await page.get_by_role("button", name="retry").click()
    await expect(page.get_by_text("1 job put back in line.")).to_be_visible()


class Switched:
    """A store that can be switched off: then every call fails as that of a store that cannot be reached."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.off = False

    def __getattr__(self, name: str) -> Any:
        if self.off and name != "close":
            raise StoreUnavailable("no connection to the store")
        return getattr(self._store, name)


@pytest.mark.usefixtures("quick")
async def test_a_store_that_is_away_leaves_the_page_as_it_was(
    app: App, serve: Serve, visit: Visit, problems: Problems
) -> None:
    problems.expected += ["503 (Service Unavailable)"]
    job = await app.tasks["work"].aenqueue()
    served = await serve(app)
    store = served.dashboard.site._store = Switched(app.internals.new_store())
    page = await visit(served, "/jobs?state=waiting")
    await row(page, job.id).get_by_role("checkbox").check()
    cancel = page.get_by_role("button", name="cancel")
    await expect(cancel).to_be_enabled()
    store.off = True
    await expect(page.locator("#away")).to_contain_text("The store does not answer")
    await expect(row(page, job.id)).to_be_visible()
    await expect(cancel).to_be_disabled()
    another = await page.context.new_page()
    answer = await another.goto(f"{served.url}/jobs")
    assert answer is not None and answer.status == 503
    await expect(another.get_by_role("heading", name="The store does not answer")).to_be_visible()
    store.off = False
    await expect(page.locator("#away")).to_be_hidden()
    await expect(cancel).to_be_enabled()
    await expect(row(page, job.id).get_by_role("checkbox")).to_be_checked()
    await expect(another.get_by_role("row")).to_have_count(2)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("path", ["/", "/queues", "/workers", "/tasks"])
async def test_a_page_of_the_snapshot_says_that_the_store_is_away(
    app: App, serve: Serve, visit: Visit, path: str
) -> None:
    await app.tasks["work"].aenqueue()
    served = await serve(app)
    store = served.dashboard.site._store = Switched(app.internals.new_store())
    page = await visit(served, path)
    await expect(page.locator("#live")).to_have_attribute("data-live", "on")
    store.off = True
    await expect(page.locator("#away")).to_contain_text("no connection to the store")
    store.off = False
    await expect(page.locator("#away")).to_be_hidden()


@pytest.mark.usefixtures("quick")
async def test_a_page_that_says_the_store_is_away_is_not_loaded_again_and_again(
    app: App, serve: Serve, visit: Visit, problems: Problems
) -> None:
    problems.expected += ["503 (Service Unavailable)"]
    served = await serve(app)
    store = served.dashboard.site._store = Switched(app.internals.new_store())
    page = await visit(served, "/queues")
    await expect(page.locator("#live")).to_have_attribute("data-live", "on")
    store.off = True
    await expect(page.locator("#away")).to_be_visible()
    another = await page.context.new_page()
    await another.clock.install()
    await another.goto(f"{served.url}/queues")
    await another.clock.resume()
    await another.evaluate("window.first = true")
    for _ in range(3):  # long enough for a stream that is opened again to bring the page, and then for a reload
        await asyncio.sleep(0.3)
        await another.clock.fast_forward(2_000)
    assert await another.evaluate("window.first") is True
    store.off = False
    await expect(another.get_by_role("heading", name="Queues")).to_be_visible()


@pytest.mark.usefixtures("quick")
async def test_patches_do_not_disturb(app: App, serve: Serve, visit: Visit) -> None:
    failed = await app.tasks["boom"].aenqueue("something long enough to be selected")
    await worked_off(app)
    page = await visit(await serve(app), f"/jobs/{failed.id}")
    await page.locator("summary", has_text="traceback").click()
    overview = await visit(await serve(app), "/")
    await overview.locator("#queue-mail th a").focus()
    await overview.locator("#search").fill("state:fai")
    await overview.locator("#queue-mail th a").select_text()
    selected = "getSelection().toString()"
    patched = "document.addEventListener('patched', () => { window.patches = (window.patches ?? 0) + 1 })"
    await overview.evaluate(patched)
    for number in range(10):
        await app.tasks["work"].aenqueue(number)
        await asyncio.sleep(0.1)
    assert await overview.evaluate(selected) == "mail"
    await expect(overview.locator("#live .live-text")).to_have_text("waits for you")
    assert not await overview.evaluate("window.patches")
    await overview.evaluate("getSelection().removeAllRanges()")
    await expect(overview.locator("#queue-default")).to_be_visible()
    await expect(overview.locator("#search")).to_have_value("state:fai")
    await expect(page.locator(".attempt details[open] pre")).to_be_visible()


@pytest.mark.usefixtures("quick")
async def test_what_is_typed_checked_and_open_survives_patches(app: App, serve: Serve, visit: Visit) -> None:
    jobs = [await app.tasks["sleep"].aenqueue(number) for number in range(3)]
    page = await visit(await serve(app), "/jobs?state=waiting")
    await page.evaluate("document.addEventListener('patched', () => { window.patches = (window.patches ?? 0) + 1 })")
    await row(page, jobs[0].id).get_by_role("checkbox").check()
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await page.locator(".add-filter summary").click()
    typing = asyncio.create_task(page.get_by_label("task").press_sequentially("send_receipt", delay=80))
    for number in range(10):
        await app.tasks["work"].using(priority=-1).aenqueue(number)
        await asyncio.sleep(0.1)
    await typing
    assert await page.evaluate("window.patches") >= 5
    await expect(page.get_by_label("task")).to_have_value("send_receipt")
    await expect(page.get_by_label("task")).to_be_focused()
    await expect(row(page, jobs[0].id).get_by_role("checkbox")).to_be_checked()
    await expect(row(page, jobs[1].id)).to_have_attribute("data-my-current", "")
    await expect(page.locator("[data-selected]")).to_have_text("1 selected")


async def test_pause_and_going_on(app: App, serve: Serve, visit: Visit) -> None:
    served = await serve(app)
    page = await visit(served, "/jobs?state=waiting")
    await expect(page.locator("#live")).to_have_attribute("data-live", "on")
    await page.keyboard.press("p")
    await expect(page.locator("#live .live-text")).to_have_text("paused")
    job = await app.tasks["work"].aenqueue()
    await asyncio.sleep(1.2)
    await expect(row(page, job.id)).to_have_count(0)
    await page.locator("#live").click()
    await expect(row(page, job.id)).to_be_visible()


async def test_a_hidden_page_closes_its_stream(app: App, serve: Serve, visit: Visit) -> None:
    served = await serve(app)
    page = await visit(served)
    topics = served.dashboard.site.topics
    await expect(page.locator("#live")).to_have_attribute("data-live", "on")
    await page.clock.install()
    await page.reload()
    await page.clock.resume()
    await expect(page.locator("#live")).to_have_attribute("data-live", "on")
    assert topics.viewers == 1
    hide = "Object.defineProperty(document, 'hidden', {get: () => %s, configurable: true});"
    changed = "document.dispatchEvent(new Event('visibilitychange'))"
    await page.evaluate(hide % "true" + changed)
    await page.clock.fast_forward(5_000)
    await asyncio.sleep(0.1)
    assert topics.viewers == 1
    await page.clock.fast_forward(7_000)
    async with asyncio.timeout(5):
        while topics.viewers:
            await asyncio.sleep(0.02)
    await page.evaluate(hide % "false" + changed)
    async with asyncio.timeout(5):
        while not topics.viewers:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("live", ["poll", "auto"])
async def test_polling(app: App, serve: Serve, visit: Visit, live: str) -> None:
    """As it was asked for, or because a proxy holds streams back."""
    served = await serve(app, live=live)
    page = await visit(served, "/jobs?state=waiting")
    if live == "auto":

        async def hold_streams(route: Route) -> None:
            if "poll=1" in route.request.url:
                await route.continue_()

        await page.route("**/live?*", hold_streams)
        await page.clock.install()
        await page.reload()
        await page.clock.resume()
        await page.clock.fast_forward(5_000)
    job = await app.tasks["work"].aenqueue()
    await expect(row(page, job.id)).to_be_visible()
    assert served.dashboard.site.topics.viewers == 0
    await expect(page.locator("#live")).to_have_attribute("data-live", "on")


async def test_the_end_of_a_session_is_said(app: App, serve: Serve, visit: Visit, problems: Problems) -> None:
    problems.expected += ["401 (Unauthorized)", OFFLINE]
    served = await serve(app)
    page = await visit(served)
    await page.context.clear_cookies()
    await served.stop()
    await served.start()
    await expect(page.locator("#away")).to_contain_text("You are logged out")
