"""A dashboard on a real server, a real browser in front of it, and a store with jobs in every state."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
import uvicorn
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, async_playwright, expect

from tenure import App, Backoff, Context, Every, Next
from tenure.core.job import State, new_id
from tenure.stores.values import Search
from tenure.web import dashboard
from tenure.web.pages import PAGES
from tests.servers.browser import ARGUMENTS, chromium

READ, OPERATE = "a-token-for-those-who-look", "a-token-for-those-who-act"

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202egnp.exe\x1b[2J"
"""Text that must be shown and never obeyed."""

LONG_QUEUE = "archive-of-everything-that-has-ever-happened-in-this-shop"

expect.set_options(timeout=10_000)

in_one_loop = pytest.mark.asyncio(loop_scope="session")
"""For tests with a browser: one event loop for all of them, because the browser belongs to it."""


# The server.


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are pytest's


class Served:
    """A dashboard on a port of this machine, which can be stopped and started again."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._task: asyncio.Task[None] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self.dashboard = self._make()
        config = uvicorn.Config(
            self.dashboard,
            host="127.0.0.1",
            port=self.port,
            log_config=None,
            access_log=False,
            lifespan="on",
            timeout_graceful_shutdown=0,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve())
        while not self._server.started:
            assert not self._task.done(), "the server of the dashboard does not start"
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        if self._task is not None:
            self._server.should_exit = True
            await self._task
            self._task = None


class Serve(Protocol):
    async def __call__(self, app: App, /, **options: Any) -> Served: ...


@pytest_asyncio.fixture(loop_scope="session")
async def serve() -> AsyncIterator[Serve]:
    """Serve the dashboard of an app, until the test ends."""
    running: list[Served] = []

    async def begin(app: App, /, **options: Any) -> Served:
        served = Served(lambda: dashboard(app, **({"tokens": {"read": READ, "operate": OPERATE}} | options)))
        running.append(served)
        await served.start()
        return served

    yield begin
    for each in running:
        await each.stop()


# The browser.


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One browser for each process of a run."""
    path = chromium()
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield started
        await started.close()


class Problems(list[str]):
    """What must not happen on any page: errors on the console, scripts that fail, requests to another host."""

    def __init__(self) -> None:
        super().__init__()
        self.expected: list[str] = []
        """Parts of messages that this test brings about."""

    def watch(self, page: Page, host: str) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.append(f"a script failed: {error}"))
        page.on("request", lambda request: self._request(request, host))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not any(part in message.text for part in self.expected):
            self.append(f"{message.type} on the console: {message.text} ({message.location.get('url')})")

    def _request(self, request: Request, host: str) -> None:
        if urlsplit(request.url).netloc != host:
            self.append(f"a request to another host: {request.url}")


@pytest.fixture
def problems() -> Problems:
    return Problems()


class Visit(Protocol):
    async def __call__(self, served: Served, path: str = "/", /, *, token: str = OPERATE, **options: Any) -> Page: ...


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, problems: Problems) -> AsyncIterator[Visit]:
    """Open a page of a dashboard, logged in; fails the test if anything went wrong on it."""
    contexts: list[BrowserContext] = []

    async def begin(served: Served, path: str = "/", /, *, token: str = OPERATE, **options: Any) -> Page:
        context = await browser.new_context(**({"viewport": {"width": 1440, "height": 900}} | options))
        contexts.append(context)
        context.set_default_timeout(10_000)
        form: dict[str, str | float | bool] = {"token": token, "name": "ann", "back": "/healthz"}
        await context.request.post(f"{served.url}/login", form=form, headers={"Origin": served.url})
        page = await context.new_page()
        problems.watch(page, f"127.0.0.1:{served.port}")
        await page.goto(served.url + path)
        return page

    yield begin
    for each in contexts:
        await each.close()
    assert not problems, "\n".join(problems)


# The stores.


@pytest_asyncio.fixture(loop_scope="session")
async def app() -> AsyncIterator[App]:
    """An app on a new store in memory, with tasks that succeed and fail."""
    app = App(f"memory://{new_id()}", retry=None)
    define(app)
    yield app
    await app.aclose()


def define(app: App) -> None:
    """The tasks of these tests: `work`, `boom` and `sleep`."""

    @app.task(name="work")
    async def work(number: int = 0) -> int:
        return number

    @app.task(name="boom", queue="mail")
    async def boom(text: str = "no") -> None:
        raise ConnectionError(text)

    @app.task(name="sleep")
    async def sleep(ctx: Context, seconds: float = 60.0) -> None:
        ctx.progress(1, 4, HOSTILE)
        await asyncio.sleep(seconds)


class Scene:
    """A store that has everything."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.ids: dict[str, str] = {}
        """A job in each state, by the name of the state; `run` is the id of a run, `worker` that of a worker."""

    def paths(self) -> list[str]:
        """The path of an example of every page that there is."""
        examples = {
            "jobs": self.ids["failed"],
            "queues": LONG_QUEUE,
            "tasks": "boom",
            "workers": self.ids["worker"],
            "flows": "parcel",
            "runs": self.ids["run"],
            "schedules": "often",
        }
        special = {
            "/bulk": "/bulk?action=retry&state=failed",
            "/jobs/{id}/complete": f"/jobs/{self.ids['blocked']}/complete",
            "/operations/{id}": "/operations",  # this store has none, because tests must not change it
        }
        return [
            special.get(path) or re.sub(r"\{.*?\}", lambda _, path=path: examples[path.split("/")[1]], path)
            for path in PAGES
        ]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """A SQLite store with jobs in every state, a flow, schedules, a paused queue and a worker. Tests must not change it."""
    folder: Path = tmp_path_factory.mktemp("scene")
    app = App(f"sqlite:///{folder}/jobs.db", retry=None, release="1.4.2")
    made = Scene(app)
    async with _filled(made, folder):
        yield made
    await app.aclose()


@contextlib.asynccontextmanager
async def _filled(made: Scene, folder: Path) -> AsyncIterator[None]:
    app = made.app
    define(app)
    tasks, ids = app.tasks, made.ids

    @app.task(name="flaky", max_attempts=3, retry=Backoff(initial=3600))
    async def flaky() -> None:
        raise TimeoutError(HOSTILE)

    @app.task(name="charge", queue=LONG_QUEUE)
    async def charge(card: str, note: str) -> dict[str, str]:
        return {"note": note}

    flow = app.flow("parcel", lookup=["customer"])

    @flow.step(then="bill")
    async def pack(customer: str) -> dict[str, Any]:
        return {"weight": 1.6}

    @flow.step
    async def bill(customer: str) -> Next | None:
        return None

    app.schedule("often", tasks["work"].bind(1), Every(3600))
    worker = app.worker(concurrency=8)
    await worker.start()
    try:
        await tasks["work"].aenqueue_many([(number,) for number in range(20)])
        ids["succeeded"] = (
            await charge.using(tags=["spring"], headers={"note": HOSTILE}).aenqueue(HOSTILE, HOSTILE)
        ).id
        ids["failed"] = (await tasks["boom"].using(tags=["spring"]).aenqueue(HOSTILE)).id
        await tasks["boom"].aenqueue_many([("smtp.example.org refused the connection",)] * 5)
        ids["retrying"] = (await flaky.aenqueue()).id
        ids["running"] = (await tasks["sleep"].aenqueue(600)).id
        ids["scheduled"] = (await tasks["work"].using(delay=3600).aenqueue(7)).id
        ids["blocked"] = (await tasks["work"].using(after=[ids["running"]]).aenqueue(8)).id
        ids["run"] = (await flow.astart(customer="c1")).id
        await app.apause("reports")
        ids["waiting"] = (await tasks["work"].using(queue="reports").aenqueue(9)).id
        cancelled = await tasks["work"].using(queue="reports").aenqueue(10)
        await cancelled.acancel()
        ids["cancelled"] = cancelled.id
        store = app.internals.new_store()
        # As a program in another language would; in a process of its own, because SQLite's locks are those of a process.
        insert = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2], sys.argv[3:]); c.commit()"
        )
        statement = "INSERT INTO tenure_inbox (queue, entry) VALUES ('default', CAST(? AS BLOB))"
        entry = '{"id": 1, "no": "task"} ' + HOSTILE
        subprocess.run([sys.executable, "-c", insert, f"{folder}/jobs.db", statement, entry], check=True)
        ends = {State.SUCCEEDED: 20, State.FAILED: 6, State.BROKEN: 1, State.RUNNING: 1}

        async def settled() -> bool:
            found = [len((await store.search(Search(state=state))).jobs) for state in ends]
            return all(number >= least for number, least in zip(found, ends.values(), strict=True))

        await eventually(settled)
        ids["worker"] = (await store.workers())[0].id
        ids["broken"] = (await store.search(Search(state=State.BROKEN))).jobs[0].id
        await store.close()
        yield
    finally:
        await worker.stop(grace=0)


async def eventually(holds: Callable[[], Awaitable[bool]], timeout: float = 10.0) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(timeout):
        while not await holds():
            await asyncio.sleep(0.02)
