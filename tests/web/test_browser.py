"""Every page in a browser: without barriers, light and dark, with scripts off; and what keys and menus do."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Page, expect

from tenure import App

from .conftest import HOSTILE, LONG_QUEUE, READ, Problems, Scene, Serve, Visit, in_one_loop

pytestmark = in_one_loop

RULES: dict[Literal["light", "dark"], dict[str, Any]] = {
    "light": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]},
    "dark": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},  # all else is the same
}


AXE = Axe()


async def barriers(page: Page) -> list[str]:
    """What axe finds on a page that keeps anybody out, light and then dark."""
    await page.evaluate(AXE.axe_script)
    found = []
    for scheme, rules in RULES.items():
        await page.emulate_media(color_scheme=scheme)
        options = {"resultTypes": ["violations"], "runOnly": rules}
        answer: dict[str, Any] = await page.evaluate("options => axe.run(options)", options)
        found += [
            f"{page.url}, {scheme}: {each['id']} ({each['impact']}): {each['help']}: {node['html'][:200]}"
            for each in answer["violations"]
            if each["impact"] in {"serious", "critical"}
            for node in each["nodes"][:3]
        ]
    return found


async def test_no_page_has_barriers(scene: Scene, serve: Serve, visit: Visit) -> None:
    served = await serve(scene.app)
    page = await visit(served, reduced_motion="reduce")
    found = []
    for path in scene.paths():
        await page.goto(served.url + path)
        await expect(page.locator("#live")).to_be_attached()
        found += await barriers(page)
    await page.keyboard.press("?")
    found += await barriers(page)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("width", [1440, 390])
async def test_no_page_scrolls_sideways(scene: Scene, serve: Serve, visit: Visit, width: int) -> None:
    served = await serve(scene.app)
    page = await visit(served, viewport={"width": width, "height": 800})
    wide = []
    for path in scene.paths():
        await page.goto(served.url + path)
        if await page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            wide.append(path)
    assert not wide


async def test_pages_and_actions_work_without_scripts(app: App, serve: Serve, visit: Visit, problems: Problems) -> None:
    await app.tasks["work"].aenqueue()
    job = await app.tasks["boom"].using(delay=600).aenqueue(HOSTILE)
    served = await serve(app)
    page = await visit(served, "/", java_script_enabled=False)
    await expect(page.get_by_text("View", exact=True)).to_be_hidden()
    await page.locator("#queue-default").get_by_role("button", name="pause").click()
    await expect(page.get_by_text("Queue default is paused.")).to_be_visible()
    await expect(page.locator("#queue-default").get_by_role("button", name="resume")).to_be_visible()
    await page.get_by_role("link", name="Jobs", exact=True).click()
    await page.get_by_role("link", name="Scheduled").click()
    await page.locator(f"#job-{job.id} input").check()
    await page.get_by_role("button", name="trigger").click()
    await expect(page.get_by_text("1 job put in line.")).to_be_visible()
    await page.get_by_role("searchbox").or_(page.get_by_role("combobox")).fill("state:waiting queue:mail")
    await page.keyboard.press("Enter")
    await page.locator(f"#job-{job.id} a.id").click()
    await page.get_by_role("button", name="cancel").click()
    await expect(page.get_by_text("1 job cancelled.")).to_be_visible()


async def test_who_may_only_look_sees_disabled_buttons(app: App, serve: Serve, visit: Visit) -> None:
    await app.tasks["work"].aenqueue()
    page = await visit(await serve(app), "/", token=READ)
    await expect(page.get_by_role("button", name="pause", exact=True)).to_be_disabled()
    await page.goto(page.url + "jobs?state=waiting")
    await page.locator("tbody input").check()
    await expect(page.get_by_role("button", name="cancel", exact=True)).to_be_disabled()


async def test_the_keyboard_does_what_the_mouse_does(app: App, serve: Serve, visit: Visit) -> None:
    jobs = [await app.tasks["work"].using(delay=600).aenqueue(number) for number in range(4)]
    served = await serve(app)
    page = await visit(served, "/")
    await page.keyboard.press("g")
    await page.keyboard.press("j")
    await page.wait_for_url("**/jobs")
    await page.goto(served.url + "/jobs?state=scheduled")
    for key in "jxjjX":
        await page.keyboard.press(key)
    await expect(page.locator("[data-selected]")).to_have_text("3 selected")
    await page.keyboard.press("*")
    await expect(page.locator("[data-selected]")).to_have_text("4 selected")
    page.on("dialog", lambda dialog: dialog.accept())
    await page.keyboard.press("c")
    await expect(page.get_by_text("4 jobs cancelled.")).to_be_visible()
    await page.goto(served.url + "/jobs?state=cancelled")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/jobs/*")
    assert page.url.removeprefix(f"{served.url}/jobs/") in {job.id for job in jobs}
    await page.keyboard.press("Escape")
    await page.wait_for_url("**/jobs")
    await page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    await expect(dialog).to_contain_text("light or dark")
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await page.wait_for_timeout(50)
    assert page.url == f"{served.url}/jobs"


async def test_choices_are_kept_and_there_before_the_first_paint(app: App, serve: Serve, visit: Visit) -> None:
    await app.tasks["work"].aenqueue()
    served = await serve(app)
    page = await visit(served, "/jobs", color_scheme="light", timezone_id="Asia/Tokyo")
    shown = page.locator("tbody time")
    await expect(shown).to_contain_text("now")
    await page.get_by_text("View", exact=True).click()
    await page.get_by_role("button", name="Light or dark").click()
    for key in "zu":
        await page.keyboard.press(key)
    await page.reload(wait_until="commit")
    root = page.locator("html")
    await expect(root).to_have_attribute("data-theme", "dark")
    await expect(root).to_have_attribute("data-density", "compact")
    await expect(shown).to_have_text(await shown.evaluate("e => e.dateTime.slice(0, 19).replace('T', ' ') + 'Z'"))
    await expect(shown).to_have_attribute("title", await shown.get_attribute("title") or "")
    assert "UTC" in (await shown.get_attribute("title") or "")
    # The script that sets them stands before the styles, and is no module: those run after the first paint.
    first = page.locator("head script, head link[rel=stylesheet]").first
    assert "theme.js" in (await first.get_attribute("src") or "")
    assert await first.get_attribute("type") is None


async def test_the_search_suggests_what_is_known(scene: Scene, serve: Serve, visit: Visit) -> None:
    page = await visit(await serve(scene.app), "/jobs")
    await page.keyboard.press("/")
    await page.keyboard.type("state:failed que")
    option = page.locator(f'#suggestions option[value="state:failed queue:{LONG_QUEUE}"]')
    await expect(option).to_be_attached()
    await page.locator("#search").fill("task:boom")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/jobs?task=boom")


async def test_a_screen_reader_hears_a_summary_now_and_then(app: App, serve: Serve, visit: Visit) -> None:
    page = await visit(await serve(app), "/jobs")
    await page.clock.install()
    await page.reload()
    await page.clock.resume()
    await app.tasks["work"].aenqueue()
    await expect(page.locator("#filters .tab-count").first).to_have_text("1")
    await expect(page.locator("#announce")).to_be_empty()
    await page.clock.fast_forward(31_000)
    await expect(page.locator("#announce")).to_have_text("0 failed, 1 in line, 0 running")


async def test_hostile_text_is_shown_and_never_run(scene: Scene, serve: Serve, visit: Visit) -> None:
    """The console would say what the content policy has refused, and `visit` looks there."""
    served = await serve(scene.app)
    page = await visit(served, f"/jobs/{scene.ids['succeeded']}")
    await expect(page.locator("main")).to_contain_text("<script>alert(1)</script>")
    await expect(page.locator("main")).to_contain_text("\\u202egnp.exe\\x1b[2J")
    for state in ("failed", "broken", "running", "retrying"):
        await page.goto(f"{served.url}/jobs/{scene.ids[state]}")
        await expect(page.locator("main")).to_contain_text("<script>alert(1)</script>")
        await expect(page.locator("#live")).to_have_attribute("data-live", "on")
    assert await page.locator("main script, main img").count() == 0
