"""`dashboard` makes the ASGI app. `Site` is what its pages share: the store, the snapshot of it, and the renderer."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.types import ASGIApp

from tenure.errors import InvalidOption, StoreUnavailable
from tenure.jobs.snapshot import Snapshot
from tenure.jobs.snapshot_reader import SnapshotReader
from tenure.stores import masked
from tenure.stores.base import Store
from tenure.web.access import Access, Auth, Identity, Open, Role
from tenure.web.arguments import Naming, naming_of
from tenure.web.examination import Examinations
from tenure.web.guard import Guard
from tenure.web.operations import Operations
from tenure.web.recent import Recent
from tenure.web.rendering import Renderer
from tenure.web.rows import row_of
from tenure.web.tail import EventTail
from tenure.web.topics import Topics
from tenure.web.walking import Walks

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Site", "dashboard"]

T = TypeVar("T")
Show = Literal["redacted", "hidden"]
Live = Literal["auto", "poll"]

READ_TIMEOUT = 2.0
"""Seconds that one read of the store may take."""

SNAPSHOT_PAUSE = 2.0
"""Seconds between two reads of the shared snapshot."""

LOOKED_AT = 10.0
"""Seconds after the last request for which the snapshot is kept up to date."""

DRAFTS, DRAFT = 20, 100_000
"""Texts of refused forms that are kept, and the characters of each, at most."""


def dashboard(
    app: App,
    *,
    auth: Auth | Open | None = None,
    tokens: Mapping[Role, str] | None = None,
    allowed_hosts: Collection[str] = (),
    title: str | None = None,
    show: Show = "redacted",
    slow_after: float = 60.0,
    live: Live = "auto",
) -> Dashboard:
    """Make the dashboard of an app's store, as an ASGI app that can be mounted under any path.

    `auth`: a function, sync or async, that takes the request and returns an `Identity`, or None if that viewer may not look;
    `OPEN` if something else guards the address. `tokens`: a token for each role instead, with a login form. `InvalidOption` if neither
    is given. `allowed_hosts`: names that it answers to; empty: all. `title`: name in the head; None: made from the URL of the
    store. `show`: `redacted` hides values whose names sound secret, `hidden` shows no arguments at all. `slow_after`: age in
    seconds of the oldest job in line from which on its queue needs attention. `live`: `auto` keeps open pages up to date with a
    stream, and polls where streams do not come through; `poll` polls every 2 seconds, for servers that hold a thread for each stream.
    """
    if show not in {"redacted", "hidden"}:
        raise InvalidOption(f'show must be "redacted" or "hidden", not {show!r:.80}')
    if live not in {"auto", "poll"}:
        raise InvalidOption(f'live must be "auto" or "poll", not {live!r:.80}')
    access = Access(auth, tokens, store=app.url)
    site = Site(app, access, title or _title_of(app), show=show, slow_after=slow_after, live=live)
    return Dashboard(site, allowed_hosts)


class Dashboard:
    """The dashboard as an ASGI app. `aclose` closes its connections; a server that runs it as its own app does so at the end."""

    def __init__(self, site: Site, allowed_hosts: Collection[str]) -> None:
        from tenure.web.routes import routes_of

        self.site = site
        application = Starlette(routes=routes_of(site))
        self._app: ASGIApp = Guard(application, allowed_hosts)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def aclose(self) -> None:
        """Stop reading, and close the connections to the store."""
        await self.site.aclose()


class Site:
    """What the pages of one dashboard share. Belongs to one event loop, that of its first request."""

    def __init__(self, app: App, access: Access, title: str, *, show: Show, slow_after: float, live: Live) -> None:
        self.app = app
        self.access = access
        self.title = title
        self.show = show
        self.slow_after = slow_after
        self.live = live
        self.renderer = Renderer(title, logout=access.has_tokens)
        self.topics = Topics()
        self.tail = EventTail(self)
        self.examinations = Examinations(self)
        self.operations = Operations(self)
        self.walks = Walks(lambda job: row_of(job, show, self.naming(job.task)))
        self._drafts: dict[tuple[str, str], str] = {}
        self.recent = Recent()
        self.placeholder = f"csrf-{secrets.token_hex(16)}"
        """Stands in shared HTML where each viewer's own form token goes."""

        self._store: Store | None = None
        self._reader: SnapshotReader | None = None
        self._reading: asyncio.Task[None] | None = None
        self._asked_at = 0.0
        self._changed = False
        self._first = asyncio.Lock()

    @property
    def store(self) -> Store:
        """The dashboard's own store object."""
        if self._store is None:
            self._store = self.app.internals.new_store()
        return self._store

    def naming(self, task: str) -> Naming:
        """How to name the positional arguments of calls of this task, by its code if that is here."""
        return naming_of(self.app.tasks.get(task))

    async def read(self, call: Awaitable[T]) -> T:
        """Await a read of the store. `StoreUnavailable` if it takes too long."""
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                return await call
        except TimeoutError:
            raise StoreUnavailable(f"the store has not answered within {READ_TIMEOUT:g} seconds") from None

    async def snapshot(self) -> Snapshot:
        """What was last read of queues, workers, history and schedules; it is kept up to date while a page is open.

        `StoreUnavailable` if it cannot be kept up to date, because an old snapshot must not be shown as live.
        """
        self._asked_at = time.monotonic()
        async with self._first:
            if self._reader is None:
                self._reader = SnapshotReader(
                    self.store, self.app.url, pause=SNAPSHOT_PAUSE, slow_after=self.slow_after
                )
            if self._reading is None or self._reading.done():
                await self.read(self._reader.read_all())
                self._reading = asyncio.create_task(self._keep_reading(self._reader), name="tenure-snapshot")
            elif self._changed:
                await self.read(self._reader.read("queues", "workers"))
            self._changed = False
        if self._reader.failure:
            raise StoreUnavailable(self._reader.failure)
        return self._reader.snapshot

    def changed(self) -> None:
        """Show what an action has changed on the next page, instead of what was read before it."""
        self._changed = True
        self.recent.forget()

    def now(self) -> float:
        """The time of the store, as far as it is known."""
        return time.time() if self._reader is None else self._reader.snapshot.now

    async def _keep_reading(self, reader: SnapshotReader) -> None:
        reading = asyncio.create_task(reader.run(lambda _: None))
        try:
            while time.monotonic() - self._asked_at < LOOKED_AT or self.topics.viewers:  # noqa: ASYNC110
                await asyncio.sleep(1.0)
        finally:
            reading.cancel()

    def keep_draft(self, viewer: Identity, path: str, text: str) -> None:
        """Keep what was written into a form that was refused, so that it is not lost when the form at this path is shown again."""
        self._drafts[viewer.name, path] = text[:DRAFT].replace("\r\n", "\n")  # browsers send CRLF
        while len(self._drafts) > DRAFTS:
            del self._drafts[next(iter(self._drafts))]

    def take_draft(self, viewer: Identity, path: str) -> str | None:
        """What `keep_draft` has kept, once; None if there is nothing."""
        return self._drafts.pop((viewer.name, path), None)

    async def aclose(self) -> None:
        self.tail.aclose()
        if self._reading is not None:
            self._reading.cancel()
        await self.operations.aclose()
        if self._store is not None:
            await self._store.close()


def _title_of(app: App) -> str:
    """The name of the store's file or database; its host, if the name says nothing."""
    whole = masked(app.url).partition("?")[0].rstrip("/")
    name = whole.rpartition("/")[2].rstrip(":")
    return (urlsplit(whole).hostname or "tenure") if name.isdigit() or name in {"", "postgres"} else name
