"""The pages of events, audit and health: what they show, and what they ask of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tenure import App, Retention
from tenure.jobs.audit import note
from tenure.stores.values import Action
from tenure.web import OPEN, dashboard
from tenure.web.pages.audit import link_of
from tenure.web.site import Dashboard
from tenure.web.tail import KEPT, EventTail

HOSTILE = "<script>alert(1)</script>"


@asynccontextmanager
async def opened(app: App) -> AsyncIterator[tuple[httpx.AsyncClient, Dashboard]]:
    site = dashboard(app, auth=OPEN)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=site), base_url="http://localhost") as client:
        try:
            yield client, site
        finally:
            await site.aclose()
            await app.aclose()


@pytest.fixture
def app(tmp_path: Path) -> App:
    made = App(f"sqlite:///{tmp_path / 'shop.db'}", keep={"*": Retention(succeeded=7200), "mail": Retention(count=17)})

    @made.task(queue="mail")
    async def send(order: int) -> None: ...

    return made


async def until(client: httpx.AsyncClient, path: str, words: str) -> str:
    """The page once it has these words."""
    for _ in range(200):
        text = (await client.get(path)).text
        if words in text:
            return text
        await asyncio.sleep(0.02)
    raise AssertionError(text)


# Events.


async def test_events_are_shown_as_they_happen(app: App) -> None:
    async with opened(app) as (client, site):
        assert "begins to watch" in (await client.get("/events")).text
        await until(client, "/events", "Nothing has happened yet")
        job = await app.tasks["send"].aenqueue(1)
        text = await until(client, "/events", job.id)
        other = (await client.get("/events?kind=failed")).text
        by_job = (await client.get(f"/events?job={job.id}&queue=mail&task=send&kind=enqueued")).text
        assert site.site.tail.since is not None

    assert "enqueued" in text
    assert "costs workers a little" in text
    assert job.id not in other
    assert "Only what fits the filters" in other
    assert f"/jobs/{job.id}" in by_job


@pytest.mark.parametrize("query", ["kind=odd", "queue=%20bad%20", "kind=failed,odd"])
async def test_a_filter_that_means_nothing_is_refused(app: App, query: str) -> None:
    async with opened(app) as (client, _):
        assert (await client.get(f"/events?{query}")).status_code == 400


async def test_all_viewers_share_one_subscription_that_ends_after_the_last(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.web.tail.LOOKED_AT", 0.5)
    async with opened(app) as (client, site):
        tail = site.site.tail
        await asyncio.gather(*(client.get(f"/events?queue=q{number}") for number in range(10)))
        await until(client, "/events", "Nothing has happened yet")
        watching = [task for task in asyncio.all_tasks() if task.get_name() == "tenure-tail-reader"]
        assert len(watching) == 1
        assert await site.site.store.watched()
        for _ in range(200):
            if tail.since is None:
                break
            await asyncio.sleep(0.02)
        assert tail.since is None
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "tenure-tail-reader"]


async def test_a_time_in_which_the_store_was_not_watched_is_a_line(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.web.tail.LOOKED_AT", 0.3)
    async with opened(app) as (client, site):
        await until(client, "/events", "Nothing has happened yet")
        job = await app.tasks["send"].aenqueue(1)
        await until(client, "/events", job.id)
        while site.site.tail.since is not None:
            await asyncio.sleep(0.02)
        text = await until(client, "/events", "are missing, in which the store was not watched")

    assert job.id in text


async def test_the_latest_events_are_kept(app: App) -> None:
    async with opened(app) as (client, site):
        await until(client, "/events", "Nothing has happened yet")
        tail: EventTail = site.site.tail
        for number in range(KEPT + 50):
            tail._add(None, f"gap {number}")
        text = (await client.get("/events")).text
        assert len(tuple(tail.look(away=False))) == KEPT

    assert f"gap {KEPT + 49}" in text
    assert text.count('class="gap"') == 100
    assert f'data-previous="{KEPT + 50 - 100}"' in text
    assert len(text) < 64_000


async def test_events_of_a_store_that_is_away_are_503() -> None:
    async with opened(App("redis://127.0.0.1:1/0")) as (client, _):
        assert (await client.get("/events")).status_code == 503


async def test_an_outage_of_the_store_is_a_line(app: App) -> None:
    async with opened(app) as (client, site):
        await until(client, "/events", "Nothing has happened yet")
        site.site.tail.look(away=True)
        text = await until(client, "/events", "did not answer for")

    assert "may be missing" in text


# The audit.


async def test_the_audit_shows_who_did_what(app: App) -> None:
    async with opened(app) as (client, site):
        empty = (await client.get("/audit")).text
        for number in range(60):
            await note(site.site.store, who=HOSTILE, by="api", what="retry", target=f"job-{number}", count=number)
        await note(site.site.store, who="ann", by="dashboard", what="delete", target="state=failed queue=mail")
        first = (await client.get("/audit")).text
        older = first.rpartition('rel="next"')[0].rpartition('href="')[2].partition('"')[0].replace("&amp;", "&")
        second = (await client.get(older)).text

    assert "No operator has changed anything yet" in empty
    assert HOSTILE not in first
    assert "&lt;script&gt;" in first
    assert "JSON API" in first
    assert "/jobs?state=failed&amp;queue=mail" in first
    assert "began" in first
    assert "job-0<" in second
    assert "job-59<" not in second


@pytest.mark.parametrize(
    ("what", "target", "link"),
    [
        ("retry", "0198c1f6", "/jobs/0198c1f6"),
        ("pause", "a b/c".replace(" ", ""), "/queues/ab%2Fc"),
        ("order quiet", "web-3:1:a", "/workers/web-3%3A1%3Aa"),
        ("schedule pause", "nightly", "/schedules/nightly"),
        ("delete", "state=failed queue=mail", "/jobs?state=failed&queue=mail"),
        ("trigger", "state=waiting scheduled=True", "/jobs?state=scheduled"),
        ("retry", "one two", ""),
        ("retry", "text=with a space", ""),
        ("mark", "1.4.2", ""),
        ("delete", "all", "/jobs/all"),
    ],
)
def test_an_action_links_to_what_it_was_done_to(what: str, target: str, link: str) -> None:
    assert link_of(Action(who="ann", by="cli", what=what, target=target)) == link


# Health.


async def test_health_shows_what_doctor_knows(app: App) -> None:
    async with opened(app) as (client, site):
        text = (await client.get("/health")).text
        at = (await site.site.examinations.latest()).at
        await client.get("/health")
        again = (await site.site.examinations.latest()).at

    assert "The store is well" in text
    assert "durability" in text
    assert "round trip" in text
    assert "the newest that this Tenure knows" in text
    assert "every other queue" in text
    assert ">17<" in text
    assert again == at


async def test_health_of_a_store_that_is_away_is_503() -> None:
    async with opened(App("redis://127.0.0.1:1/0")) as (client, _):
        assert (await client.get("/health")).status_code == 503


async def test_health_without_an_app_says_that_these_are_the_defaults() -> None:
    async with opened(App("memory://")) as (client, _):
        text = (await client.get("/health")).text

    assert "The defaults" in text
