"""The pages of flows and runs, with the code of the flow and without it."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenure import App, Context, Next, Wait
from tenure.tasks.flow import Flow
from tenure.web import Identity, dashboard

HOSTILE = "<script>alert(1)</script>\"'\u202e"


class Viewer:
    """A browser without scripts, at a dashboard."""

    def __init__(self, app: App, role: Any = "operate", **options: Any) -> None:
        self.made = dashboard(app, auth=lambda _: Identity("ann", role), **options)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.made), base_url="http://testserver")

    async def page(self, path: str, status: int = 200) -> str:
        answer = await self.client.get(path)
        assert answer.status_code == status, answer.text
        assert "<script>alert" not in answer.text
        assert "\u202e" not in answer.text
        return answer.text

    async def text(self, path: str, status: int = 200) -> str:
        """The text of the page, without its markup."""
        page = (await self.page(path, status)).partition("<main")[2]
        return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())

    async def said(self, action: str, at: str, **fields: str) -> str:
        """Send a form of the page at this path; what the next page says about it."""
        csrf = re.search(r'name="csrf" value="(\w+)"', await self.page(at))
        assert csrf is not None
        answer = await self.client.post(
            f"/actions/{action}",
            data={"csrf": csrf[1], "back": at, **fields},
            headers={"Sec-Fetch-Site": "same-origin"},
        )
        assert answer.status_code == 303, answer.text
        self.at = answer.headers["location"]
        toast = re.search(r'<p class="toast[^>]*>([^<]*)', await self.page(self.at))
        return html.unescape(toast[1]) if toast else ""

    async def aclose(self) -> None:
        await self.client.aclose()
        await self.made.aclose()


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


def order_of(app: App) -> Flow:
    """A flow that branches, waits for five jobs, and waits to be approved."""
    resize = app.remote("resize", queue="images")
    order = app.flow("order", lookup=["customer", "card"])

    @order.step(then="check")
    def reserve(customer: str, card: str = "") -> dict[str, int]:
        del customer, card
        return {"weight": 3}

    @order.step(next=["ship", "approve", "check"])
    def check(ctx: Context, customer: str, checks: int = 0) -> Next:
        del ctx
        if customer == "loops":
            return Next("check" if checks < 6 else "ship", checks=checks + 1)
        if customer == "waits":
            return Next("ship").using(after=[resize.bind(number) for number in range(5)])
        return Next("approve" if customer == "big" else "ship")

    @order.step(then="ship")
    def approve(customer: str) -> Wait:
        del customer
        return Wait()

    @order.step(max_attempts=1)
    def ship(customer: str) -> str:
        if customer == "fails":
            raise ValueError(f"no address {HOSTILE}")
        return f"shipped to {customer}"

    return order


async def worked(app: App) -> None:
    """Run everything that can be run in the queue of the steps."""
    await asyncio.to_thread(app.worker(["default"], poll=0.05).run, until_empty=True)


# The listing.


async def test_without_flows_the_page_says_how_to_begin(viewer: Viewer) -> None:
    assert "No flow has run yet" in await viewer.text("/flows")


async def test_flows_of_the_code_are_listed_before_they_run(app: App, viewer: Viewer) -> None:
    order_of(app)
    text = await viewer.text("/flows")
    assert "order reserve, check, approve, ship customer, card" in text
    assert "No run." in text


async def test_runs_are_listed_newest_first_and_filtered(app: App, viewer: Viewer) -> None:
    order = order_of(app)
    runs = [await order.astart(customer=name) for name in ("c1", "fails", "c2")]
    await worked(app)

    page = await viewer.page("/flows")
    assert [page.index(f"run-{run.id}") for run in reversed(runs)] == sorted(
        page.index(f"run-{run.id}") for run in runs
    )
    failed = await viewer.page("/flows?state=failed")
    assert f"run-{runs[1].id}" in failed
    assert f"run-{runs[0].id}" not in failed
    found = await viewer.page("/flows?flow=order&find=customer%3Dc2")
    assert f"run-{runs[2].id}" in found
    assert f"run-{runs[0].id}" not in found
    assert "No run of order with customer=nobody" in await viewer.text("/flows?flow=order&find=customer%3Dnobody")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("state=odd", "state must be one of"),
        ("find=customer%3Dc1", "a lookup needs a flow"),
        ("flow=order&find=customer", "a name and a value"),
        ("flow=order&find=card%3D4111", "hidden on this dashboard"),
        ("flow=%3Cscript%3Ealert(1)%3C/script%3E", "is not a valid"),
    ],
)
async def test_wrong_filters_are_refused(viewer: Viewer, query: str, sentence: str) -> None:
    text = await viewer.text(f"/flows?{query}", 400)
    assert sentence in text or "name" in text


async def test_runs_come_in_pages(app: App, viewer: Viewer) -> None:
    order = order_of(app)
    await order.astart_many([{"customer": f"c{number}"} for number in range(60)])

    first = await viewer.page("/flows?flow=order")
    older = re.search(r'href="([^"]+)" rel="next"', first)
    assert older is not None
    second = await viewer.page(html.unescape(older[1]))
    assert (first.count("data-row"), second.count("data-row")) == (50, 10)


# One flow.


async def test_a_flow_shows_its_declared_routes_and_its_runs(app: App, viewer: Viewer) -> None:
    order = order_of(app)
    run = await order.astart(customer="c1")
    await worked(app)

    page, text = await viewer.page("/flows/order"), await viewer.text("/flows/order")
    assert page.count('<g class="node') == 4
    assert "<title>check to approve</title>" in page
    assert "<title>check to check</title>" in page
    assert "check default ship, approve, check" in text
    assert f"/runs/{run.id}" in page
    assert (await viewer.client.get("/flows/order?span=24h")).status_code == 200
    assert "span must be" in await viewer.text("/flows/order?span=1y", 400)


async def test_an_unknown_flow_is_said_to_be_unknown(viewer: Viewer) -> None:
    assert "No such flow" in await viewer.text("/flows/gone", 404)


# One run.


async def test_a_run_shows_its_path_steps_attributes_and_result(app: App, viewer: Viewer) -> None:
    order = order_of(app)
    run = await order.astart(customer="c1", card="4111")
    await worked(app)

    page, text = await viewer.page(f"/runs/{run.id}"), await viewer.text(f"/runs/{run.id}")
    assert page.count('class="route bold"') == 2
    assert page.count('class="node faint"') == 1
    assert "order in ship ✓ succeeded" in text
    assert "weight 3" in text
    assert "shipped to c1" in text
    assert "4111" not in page
    assert "/flows?flow=order&amp;find=customer%3Dc1" in page
    for step in await run.asteps():
        assert f"/jobs/{step.id}" in page


async def test_five_alike_are_one_row(app: App, viewer: Viewer) -> None:
    order = order_of(app)
    run = await order.astart(customer="loops")
    await worked(app)

    text = await viewer.text(f"/runs/{run.id}")
    assert "check × 7 ✓ succeeded" in text
    assert "7 times" in text


async def test_what_it_waits_for_is_grouped_from_five_on(app: App, viewer: Viewer) -> None:
    order = order_of(app)
    run = await order.astart(customer="waits")
    await worked(app)

    text = await viewer.text(f"/runs/{run.id}")
    assert "Waits for resize × 5 ○ waiting 5" in text
    assert "It waits for" in text


async def test_a_failed_run_says_why_and_can_be_retried(app: App, viewer: Viewer) -> None:
    order = order_of(app)
    run = await order.astart(customer="fails")
    await worked(app)

    assert "ValueError: no address <script>" in await viewer.text(f"/runs/{run.id}")
    assert "1 job put back in line" in (await viewer.said("retry", f"/runs/{run.id}", id=run.id)).lower()
    assert (await run.arefresh()).state == "waiting"
    assert "1 job cancelled" in (await viewer.said("cancel", f"/runs/{run.id}", id=run.id)).lower()


async def test_a_parked_step_is_completed_with_a_value(app: App, viewer: Viewer) -> None:
    order = order_of(app)
    run = await order.astart(customer="big")
    await worked(app)
    at = f"/runs/{run.id}"
    assert "Complete step approve" in await viewer.text(at)

    fields = {"run": run.id, "step": "approve"}
    assert "no JSON" in await viewer.said("complete", at, **fields, value="{", then="return")
    assert "JSON object" in await viewer.said("complete", at, **fields, value="1", then="next:ship")
    assert "no step 'gone'" in await viewer.said("complete", at, **fields, value="", then="next:gone")
    assert "current step is 'approve'" in await viewer.said(
        "complete", at, run=run.id, step="ship", value="", then="return"
    )
    said = await viewer.said("complete", at, **fields, value='{"approved": true}', then="return")
    assert "it goes on with ship" in said
    assert (await run.aattributes())["approved"] is True
    [action] = (await app.aactions()).actions
    assert (action.who, action.by, action.what, action.target, action.count) == (
        "ann",
        "dashboard",
        "complete",
        run.id,
        1,
    )
    assert "has ended" in await viewer.said("complete", at, run=run.id, step="ship", value="7", then="done")


async def test_a_run_that_is_gone_is_said_to_be_gone(viewer: Viewer) -> None:
    assert "There is no run gone" in await viewer.text("/runs/gone", 404)


async def test_a_reader_may_not_complete(app: App) -> None:
    order = order_of(app)
    run = await order.astart(customer="big")
    reader = Viewer(app, "read")
    page = await reader.page(f"/runs/{run.id}")
    assert "You may look, not complete" in page
    assert "You may look, not cancel" in page
    await reader.aclose()


async def test_attributes_can_be_hidden(app: App) -> None:
    order = order_of(app)
    run = await order.astart(customer="c1")
    blind = Viewer(app, show="hidden")
    text = await blind.text(f"/runs/{run.id}")
    assert "Attributes are hidden" in text
    assert "c1" not in text
    assert "hidden on this dashboard" in await blind.text("/flows?flow=order&find=customer%3Dc1", 400)
    await blind.aclose()


# Without code.


async def test_without_code_the_graph_is_the_chain_of_steps_seen(app: App) -> None:
    order = order_of(app)
    run = await order.astart(customer="c1")
    await worked(app)
    if app.url.startswith("memory:"):
        return  # another app cannot see it
    other = App(app.url, log=False)
    viewer = Viewer(other)
    page = await viewer.page(f"/runs/{run.id}")
    assert page.count('class="node state-succeeded"') == 3
    assert "the steps seen" in page
    assert "its code is not here" in await viewer.text("/flows")
    flow = await viewer.page("/flows/order")
    assert flow.count('<g class="node') == 3
    assert "<title>reserve to check</title>" in flow
    await viewer.aclose()
    await other.aclose()


async def test_details_are_read_every_five_seconds_and_when_the_step_changes(app: App, viewer: Viewer) -> None:
    order = order_of(app)
    run = await order.astart(customer="big")
    store = viewer.made.site.store
    calls: list[str] = []
    original = store.steps

    async def counted(run_id: str, limit: int = 50, cursor: str | None = None) -> Any:
        calls.append(run_id)
        return await original(run_id, limit, cursor)

    store.steps = counted  # type: ignore[method-assign]
    await viewer.page(f"/runs/{run.id}")
    await viewer.page(f"/runs/{run.id}")
    assert len(calls) == 1
    await worked(app)
    assert "approve" in await viewer.text(f"/runs/{run.id}")
    assert len(calls) == 2
