"""The JSON API: every operation that its OpenAPI document describes, who may call it, and how it refuses."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from jsonschema import validate as check_schema  # type: ignore[import-untyped]
from openapi_spec_validator import validate

from tenure import App, Every, Wait
from tenure.core.job import State
from tenure.jobs.history import SPANS
from tenure.web import OPEN, Identity, api, dashboard
from tenure.web.access import Role
from tenure.web.endpoints import ENDPOINTS
from tenure.web.schemas import HistoryQuery

TOKENS: dict[Role, str] = {"read": "r" * 24, "operate": "o" * 24}
SECRET = "hunter2hunter2"


def shop(url: str) -> App:
    app = App(url, release="1.0")

    @app.task(max_attempts=1)
    async def charge(order: int, password: str = SECRET, nested: dict[str, Any] | None = None) -> dict[str, str]:
        if order < 0:
            raise ConnectionError("refused")
        return {"api_key": SECRET, "receipt": f"r{order}"}

    flow = app.flow("parcel")

    @flow.step
    async def pack(item: str, card: str) -> Wait:
        return Wait()

    app.schedule("often", charge.bind(1), Every(3600))
    return app


class Shop:
    """A store with something of every kind in it, and a client of its dashboard."""

    def __init__(self, app: App, client: httpx.AsyncClient) -> None:
        self.app = app
        self.client = client
        self.headers = {"Authorization": f"Bearer {TOKENS['operate']}"}

    async def call(self, method: str, path: str, status: int = 200, **more: Any) -> Any:
        headers = more.pop("headers", self.headers)
        answer = await self.client.request(method, f"/api/v1{path}", headers=headers, **more)
        assert answer.status_code == status, answer.text
        problem = status >= 400
        assert answer.headers["content-type"] == ("application/problem+json" if problem else "application/json")
        return answer.json()

    async def problem(self, method: str, path: str, status: int, **more: Any) -> str:
        document = await self.call(method, path, status, **more)
        assert document["status"] == status
        assert document["title"]
        return str(document["detail"])


@asynccontextmanager
async def opened(app: App, **options: Any) -> AsyncIterator[Shop]:
    options = options or {"tokens": TOKENS}
    site = dashboard(app, **options)
    transport = httpx.ASGITransport(app=site, client=("10.0.0.9", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://jobs.example.org") as client:
        try:
            yield Shop(app, client)
        finally:
            await site.aclose()
            await app.aclose()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    yield shop(f"sqlite:///{tmp_path / 'shop.db'}")


async def fill(app: App) -> dict[str, str]:
    """Run some jobs; the ids by what became of them."""
    charge = app.tasks["charge"]
    good = await charge.aenqueue(1)
    bad = await charge.aenqueue(-1)
    run = await app.internals.flows["parcel"].astart(item="lamp", card="4111")
    async with app.worker(concurrency=2) as worker:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            await asyncio.gather(good.arefresh(), bad.arefresh(), run.arefresh())
            parked = run.record is not None and run.record.parked
            if good.state is State.SUCCEEDED and bad.state is State.FAILED and parked:
                break
            await asyncio.sleep(0.02)
        else:
            raise AssertionError((good.state, bad.state, run.state))
        del worker
    waiting = await charge.aenqueue(2)
    later = await charge.using(delay=3600).aenqueue(3)
    return {"good": good.id, "bad": bad.id, "run": run.id, "waiting": waiting.id, "later": later.id}


# What the document says.


async def test_the_document_is_valid_openapi(app: App) -> None:
    async with opened(app) as shop:
        answer = await shop.client.get("/api/openapi.json", headers=shop.headers)
        document = answer.json()

    validate(document)
    assert document["openapi"].startswith("3.1")
    assert document["servers"] == [{"url": "/api/v1"}]
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert described == {(each.method, each.path) for each in ENDPOINTS}
    assert len({each.id for each in ENDPOINTS}) == len(ENDPOINTS)


async def test_every_operation_answers_as_the_document_says(app: App) -> None:
    """Each operation is called, and its answer fits its schema, which allows no other fields."""
    ids = await fill(app)
    worker = app.worker(concurrency=1)
    async with opened(app) as shop, worker:
        document = (await shop.client.get("/api/openapi.json", headers=shop.headers)).json()
        while not (found := (await shop.call("GET", "/workers"))["workers"]):
            await asyncio.sleep(0.02)
        alive = found[0]
        started = await shop.call("POST", "/jobs/actions", 202, json={"action": "retry", "filter": {"state": "failed"}})
        names = {"jobs": ids["good"], "runs": ids["run"], "queues": "default", "schedules": "often",
                 "workers": alive["id"], "operations": started["id"]}  # fmt: skip
        bodies: dict[str, Any] = {
            "/jobs/actions": {"action": "retry", "ids": [ids["good"]]},
            "/jobs/{id}/complete": {"value": {"api_key": "x", "receipt": "y"}},
            "/queues/{name}/purge": {"confirm": "default"},
            "/workers/{id}/retire": {"confirm": alive["id"]},
            "/marks": {"label": "deploy 17"},
        }
        called = 0
        for path, item in document["paths"].items():
            for method, operation in item.items():
                place = names.get(path.split("/")[1], "")
                target = ids["later"] if path.endswith("/complete") else place
                body = bodies.get(path, {}) if "requestBody" in operation else None
                answer = await shop.call(method.upper(), re.sub(r"{\w+}", target, path), json=body)
                schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
                check_schema(answer, {**schema, "components": document["components"]})
                called += 1

    assert called == len(ENDPOINTS)


def test_spans_are_those_of_the_history() -> None:
    assert set(msgspec.json.schema(HistoryQuery)["$defs"]["HistoryQuery"]["properties"]["span"]["enum"]) == set(SPANS)


def test_the_table_in_the_module_names_every_operation() -> None:
    rows = [line for line in (api.__doc__ or "").splitlines() if line.startswith("| `/")]
    named = {
        (method.strip(), path)
        for row in rows
        for path in re.findall(r"`([^`]+)`", row)
        for method in row.strip("| ").rpartition("|")[2].split(",")
    }

    assert named == {(each.method, each.path) for each in ENDPOINTS}


# Reading.


async def test_jobs_are_filtered_and_listed_by_pages(app: App) -> None:
    ids = await fill(app)
    async with opened(app) as shop:
        failed = await shop.call("GET", "/jobs?state=failed&error=ConnectionError&task=charge")
        scheduled = await shop.call("GET", "/jobs?state=waiting&scheduled=true")
        first = await shop.call("GET", "/jobs?limit=2")
        second = await shop.call("GET", "/jobs", params={"limit": 2, "cursor": first["cursor"]})

    assert [job["id"] for job in failed["jobs"]] == [ids["bad"]]
    assert [job["id"] for job in scheduled["jobs"]] == [ids["later"]]
    assert len(first["jobs"]) == 2
    assert not {job["id"] for job in first["jobs"]} & {job["id"] for job in second["jobs"]}


async def test_secrets_are_hidden_and_cannot_be_searched_for(app: App) -> None:
    ids = await fill(app)
    await app.tasks["charge"].aenqueue(9, nested={"token": SECRET})
    async with opened(app) as shop:
        whole = await shop.call("GET", f"/jobs/{ids['good']}")
        everything = await shop.client.get("/api/v1/jobs?limit=200", headers=shop.headers)
        run = await shop.call("GET", f"/runs/{ids['run']}")
        found = await shop.call("GET", f"/jobs?text={SECRET[:6]}")
        visible = await shop.call("GET", "/jobs?text=order")

    assert whole["result"] == {"api_key": "•••", "receipt": "r1"}
    assert SECRET not in everything.text
    assert run["attributes"]["item"] == "lamp"
    assert run["attributes"]["card"] == "•••"
    assert found["jobs"] == []
    assert visible["searched"] == found["searched"]


async def test_a_dashboard_that_hides_arguments_gives_no_payloads(app: App) -> None:
    ids = await fill(app)
    async with opened(app, tokens=TOKENS, show="hidden") as shop:
        whole = await shop.call("GET", f"/jobs/{ids['good']}")
        schedule = await shop.call("GET", "/schedules/often")
        run = await shop.call("GET", f"/runs/{ids['run']}")
        sentence = await shop.problem("GET", "/jobs?text=order", 400)

    assert (whole["payload"], whole["payload_base64"], whole["result"]) == (None, None, None)
    assert schedule["payload"] is None
    assert run["attributes"] == {}
    assert "no arguments" in sentence


# Acting.


async def test_an_action_is_in_the_audit_as_done_with_the_api(app: App) -> None:
    ids = await fill(app)
    async with opened(app) as shop:
        done = await shop.call("POST", "/jobs/actions", json={"action": "retry", "ids": [ids["bad"]]})
        await shop.call("POST", "/queues/mail/pause")
        listed = (await shop.call("GET", "/audit"))["actions"]

    assert done == {"done": "1 job put back in line", "count": 1}
    assert [(each["who"], each["by"], each["what"], each["target"]) for each in listed] == [
        ("operate token", "api", "pause", "mail"),
        ("operate token", "api", "retry", ids["bad"]),
    ]


async def test_all_that_fit_are_acted_on_in_the_background(app: App) -> None:
    await fill(app)
    async with opened(app) as shop:
        body = {"action": "delete", "filter": {"state": "failed"}, "expect": 1}
        answer = await shop.client.post("/api/v1/jobs/actions", json=body, headers=shop.headers)
        assert answer.status_code == 202
        place = answer.headers["location"].removeprefix("/api/v1")
        for _ in range(200):
            operation = await shop.call("GET", place)
            if operation["status"] == "ended":
                break
            await asyncio.sleep(0.02)
        left = await shop.call("GET", "/jobs?state=failed")
        listed = (await shop.call("GET", "/audit"))["actions"]

    assert (operation["status"], operation["done"], operation["who"]) == ("ended", 1, "operate token")
    assert left["jobs"] == []
    assert [(each["by"], each["count"]) for each in listed] == [("api", 1), ("api", None)]


async def test_more_jobs_than_expected_are_left_alone(app: App) -> None:
    await fill(app)
    async with opened(app) as shop:
        for filters in ({"state": "failed"}, {"state": "failed", "task": "charge"}):
            body = {"action": "delete", "filter": filters, "expect": 0}
            refused = await shop.call("POST", "/jobs/actions", 409, json=body)
            assert refused["count"] == 1
            assert "more than 0" in refused["detail"]
        assert len((await shop.call("GET", "/jobs?state=failed"))["jobs"]) == 1


# Refusals.


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("GET", "/jobs?limit=1000", None, 400, "limit"),
        ("GET", "/jobs?limit=x", None, 400, "limit"),
        ("GET", "/jobs?state=odd", None, 400, "state"),
        ("GET", "/jobs?sort=id", None, 400, "sort"),
        ("GET", "/jobs?before=soon&state=failed", None, 400, "before"),
        ("GET", "/history?span=2y", None, 400, "span"),
        ("GET", "/jobs/nothing", None, 404, "nothing"),
        ("GET", "/jobs/nothing/explain", None, 404, "nothing"),
        ("GET", "/runs/nothing", None, 404, "nothing"),
        ("GET", "/queues/nothing", None, 404, "nothing"),
        ("GET", "/workers/nothing", None, 404, "nothing"),
        ("GET", "/schedules/nothing", None, 404, "nothing"),
        ("GET", "/operations/nothing", None, 404, "nothing"),
        ("GET", "/nothing", None, 404, "nothing"),
        ("PUT", "/jobs", None, 405, "GET"),
        ("POST", "/jobs/actions", {"action": "explode", "ids": ["a"]}, 400, "explode"),
        ("POST", "/jobs/actions", {"action": "retry"}, 400, "ids or a filter"),
        ("POST", "/jobs/actions", {"action": "retry", "ids": []}, 400, "ids"),
        ("POST", "/jobs/actions", {"action": "retry", "ids": ["a"], "all": True}, 400, "all"),
        ("POST", "/jobs/actions", {"action": "delete", "filter": {}}, 400, "give a state"),
        ("POST", "/jobs/actions", {"action": "delete", "filter": {"state": "running"}}, 400, "give a state"),
        ("POST", "/jobs/actions", {"action": "retry", "ids": ["nothing"]}, 409, "not put back in line"),
        ("POST", "/jobs/nothing/complete", {"value": 1}, 404, "nothing"),
        ("POST", "/queues/mail/purge", {"confirm": "other"}, 409, "type the name"),
        ("POST", "/workers/nothing/quiet", None, 404, "nothing"),
        ("POST", "/marks", {"label": ""}, 400, "label"),
    ],
)  # fmt: skip
async def test_what_cannot_be_done_is_a_problem_with_a_sentence(
    app: App, method: str, path: str, body: Any, status: int, words: str
) -> None:
    async with opened(app) as shop:
        sentence = await shop.problem(method, path, status, json=body)

    assert words in sentence


async def test_only_those_who_may_can_look_or_act(app: App) -> None:
    reader = {"Authorization": f"Bearer {TOKENS['read']}"}
    body = {"action": "retry", "ids": ["a"]}
    async with opened(app) as shop:
        assert "Bearer" in await shop.problem("GET", "/jobs", 401, headers={})
        await shop.call("GET", "/jobs", headers=reader)
        assert "may not retry" in await shop.problem("POST", "/jobs/actions", 403, json=body, headers=reader)
        assert "may not mark" in await shop.problem("POST", "/marks", 403, json={"label": "x"}, headers=reader)
        for _ in range(5):
            await shop.problem("GET", "/jobs", 401, headers={"Authorization": "Bearer wrong"})
        assert "wait" in await shop.problem("GET", "/jobs", 429, headers={"Authorization": "Bearer wrong"})


async def test_an_operator_whose_actions_are_narrowed_does_no_others(app: App) -> None:
    async with opened(app, auth=lambda _: Identity("ann", "operate", ("pause",))) as shop:
        await shop.call("POST", "/queues/mail/pause")
        assert "may not resume" in await shop.problem("POST", "/queues/mail/resume", 403)


async def test_a_session_without_a_token_in_its_head_needs_that_of_a_form(app: App) -> None:
    same = {"Sec-Fetch-Site": "same-origin"}
    async with opened(app, auth=OPEN) as shop:
        await app.apause("mail")
        page = await shop.client.get("/queues", headers={"Accept": "text/html"})
        csrf = page.text.partition('name="csrf" value="')[2].partition('"')[0]
        assert csrf
        await shop.problem("POST", "/queues/mail/pause", 403, headers={})
        await shop.problem("POST", "/queues/mail/pause", 403, headers=same)
        await shop.problem("POST", "/queues/mail/pause", 403, headers={"X-CSRF-Token": csrf})
        await shop.problem(
            "POST", "/queues/mail/pause", 403, headers={"X-CSRF-Token": csrf, "Sec-Fetch-Site": "cross-site"}
        )
        await shop.call("POST", "/queues/mail/pause", headers={**same, "X-CSRF-Token": csrf})


async def test_a_body_that_is_too_large_is_refused(app: App) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100_000

    async with opened(app) as shop:
        assert "too large" in await shop.problem("POST", "/marks", 413, content=b"x" * 2_000_000)
        assert "too large" in await shop.problem("POST", "/marks", 413, content=endless())
        assert "JSON" in await shop.problem("POST", "/marks", 400, content=b"{")


async def test_a_store_that_is_away_is_503(tmp_path: Path) -> None:
    async with opened(App("redis://127.0.0.1:1/0")) as shop:
        for path in ("/overview", "/jobs", "/health", "/audit"):
            assert await shop.problem("GET", path, 503)


async def test_the_api_is_below_the_root_of_the_dashboard(app: App) -> None:
    site = dashboard(app, tokens=TOKENS)
    transport = httpx.ASGITransport(app=site, root_path="/ops")
    headers = {"Authorization": f"Bearer {TOKENS['operate']}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers) as client:
        document = (await client.get("/ops/api/openapi.json")).json()
        listed = await client.get("/ops/api/v1/queues")
    await site.aclose()
    await app.aclose()

    assert document["servers"] == [{"url": "/ops/api/v1"}]
    assert listed.status_code == 200
