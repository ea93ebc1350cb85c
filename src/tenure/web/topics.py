"""`Topics` keeps open pages up to date: all viewers of a page share one look at the store and one rendering."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tenure.errors import StoreError, TenureError

__all__ = ["TOPICS", "Rendered", "TooMany", "Topic", "Topics"]

log = logging.getLogger("tenure.web")

TOPICS, STREAMS = 200, 500
"""Pages that are kept up to date at a time, and viewers of them, at most."""

DUTY = 20
"""A look that took t seconds is followed by a pause of at least this many times t."""

AGAIN = 1.0
"""Seconds after which a store that does not answer is asked again."""

ALIVE = 3.0
"""Seconds after which an idle stream says how old the page is. It also keeps proxies from closing the stream."""

LARGEST = 1_000_000
"""Characters of a message, at most; a page that changes more is loaded anew. 200 rows with long errors stay below it."""

RECENT = 1.0
"""Seconds for which one look serves all viewers that poll."""


class Rendered(NamedTuple):
    """A page as HTML, by its regions."""

    title: str
    regions: dict[str, str]
    every: float
    summary: str = ""
    """The store in a few words, for screen readers."""


class TooMany(Exception):
    """More pages or viewers than the dashboard keeps up to date."""


class Topic:
    """An open page: what was last sent of it, and which revision changed each region."""

    def __init__(self, render: Callable[[], Awaitable[Rendered]]) -> None:
        self._render = render
        self.revision = 0
        self.title = ""
        self.summary = ""
        self.regions: dict[str, str] = {}
        self.changed: dict[str, int] = {}
        """The revision in which each region was last changed."""

        self.away: str = ""
        """Why the store cannot be read, as a sentence; empty if it can."""

        self.looked_at = time.time()
        """When the store was last read, by the clock of this machine."""

        self.viewers = 0
        self._began_at = float("-inf")
        """When the last look that is over began, by the monotonic clock."""

        self._pause = 0.0
        self._looking = asyncio.Lock()
        self._wakeup = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def viewed(self) -> Iterator[None]:
        """Keep it up to date inside the block."""
        self.viewers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._refresh(), name="tenure-topic")
        try:
            yield
        finally:
            self.viewers -= 1
            if not self.viewers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def changes(self, seen: int, timeout: float) -> bool:
        """Wait until there is something newer than this revision; False if there is not after `timeout` seconds."""
        return await self._holds(lambda: self.revision > seen, timeout)

    async def looked_since(self, since: float, timeout: float) -> bool:
        """Wait for the end of a look that began later than this; False if there is none after `timeout` seconds.

        What was rendered before a page was loaded may be older than the page.
        """
        return await self._holds(lambda: self._began_at > since, timeout)

    async def look(self) -> None:
        """Look at the store now, unless it was just looked at; for viewers that poll."""
        async with self._looking:
            if time.monotonic() - self._began_at > max(RECENT, self._pause if self.revision else 0.0):
                await self._look()

    def message(self, seen: int) -> dict[str, object]:
        """What has changed since this revision, and how old that is, in seconds."""
        return {
            "title": self.title,
            "regions": {name: html for name, html in self.regions.items() if self.changed[name] > seen},
            "names": list(self.regions),
            "away": self.away,
            "summary": self.summary,
            "age": round(time.time() - self.looked_at, 1),
        }

    async def _holds(self, condition: Callable[[], bool], timeout: float) -> bool:
        try:
            async with asyncio.timeout(timeout):
                while not condition():
                    await self._wakeup.wait()
        except TimeoutError:
            return condition()
        return True

    async def _refresh(self) -> None:
        while True:
            async with self._looking:
                await self._look()
            await asyncio.sleep(self._pause)

    async def _look(self) -> None:
        """Render the page once, and say how long to pause after it."""
        began, self._pause = time.monotonic(), AGAIN
        try:
            rendered = await self._render()
        except StoreError as error:
            self._set_away(str(error) or "the store does not answer")
        except TenureError as error:
            self._set_away(str(error))
        except Exception:
            log.exception("a page cannot be kept up to date; trying again")
            self._set_away("an internal error, see the log of the dashboard")
            self._pause = 5.0
        else:
            # The first look may have read the shared snapshot too, which the next ones do not.
            spent = time.monotonic() - began if self.regions else 0.0
            self._update(rendered)
            self._pause = max(rendered.every, DUTY * spent)
        self._began_at = began
        self._wake()

    def _update(self, rendered: Rendered) -> None:
        self.looked_at = time.time()
        self.summary = rendered.summary
        fresh = {name: html for name, html in rendered.regions.items() if self.regions.get(name) != html}
        if not fresh and not self.away and rendered.title == self.title and self.revision:
            return
        self.away, self.title = "", rendered.title
        self.regions = rendered.regions
        self._next_revision(fresh)

    def _set_away(self, why: str) -> None:
        if self.away != why:
            self.away = why
            self._next_revision({})

    def _next_revision(self, fresh: dict[str, str]) -> None:
        self.revision += 1
        self.changed |= dict.fromkeys(fresh, self.revision)

    def _wake(self) -> None:
        wakeup, self._wakeup = self._wakeup, asyncio.Event()
        wakeup.set()


class Topics:
    """The open pages of a dashboard, by address and by what their viewers may do."""

    def __init__(self) -> None:
        self._topics: dict[object, Topic] = {}
        self._epoch = secrets.token_hex(4)
        """Changes with every start, so that a browser that reconnects to a new process gets the whole page."""

    @property
    def viewers(self) -> int:
        return sum(topic.viewers for topic in self._topics.values())

    def open(self, key: object, render: Callable[[], Awaitable[Rendered]]) -> Topic:
        """The topic of this key. `TooMany` if there are too many, or too many viewers."""
        topic = self._topics.get(key)
        if self.viewers >= STREAMS or (topic is None and len(self._topics) >= TOPICS):
            self._forget_unviewed()
            if self.viewers >= STREAMS or (topic is None and len(self._topics) >= TOPICS):
                raise TooMany
        if topic is None:
            topic = self._topics[key] = Topic(render)
        return topic

    def _forget_unviewed(self) -> None:
        self._topics = {key: topic for key, topic in self._topics.items() if topic.viewers}

    async def stream(self, topic: Topic, last_id: str, finish: Callable[[str], str]) -> AsyncIterator[str]:
        """Server-sent events for one viewer. `finish` puts what only this viewer may see into the HTML."""
        seen, opened_at = self._seen(last_id), time.monotonic()
        with topic.viewed():
            yield "retry: 1000\n\n"
            while not seen and not await topic.looked_since(opened_at, ALIVE):
                yield _alive(topic)
            while True:
                if not await topic.changes(seen, ALIVE):
                    yield _alive(topic)
                    continue
                text, seen = self._text(topic, seen, finish), topic.revision
                yield f"id: {self._epoch}-{seen}\nevent: patch\ndata: {text}\n\n"

    async def poll(self, topic: Topic, last_id: str, finish: Callable[[str], str]) -> str:
        """One answer for a viewer that polls: a message with its id, as JSON."""
        await topic.look()
        return self._text(topic, self._seen(last_id), finish, id=f"{self._epoch}-{topic.revision}")

    def _seen(self, last_id: str) -> int:
        """The revision that a browser has; 0 if it is not of this process."""
        epoch, _, revision = last_id.partition("-")
        return int(revision) if epoch == self._epoch and revision.isdecimal() else 0

    @staticmethod
    def _text(topic: Topic, seen: int, finish: Callable[[str], str], **more: str) -> str:
        text = finish(json.dumps(topic.message(seen) | more))
        return text if len(text) <= LARGEST else json.dumps({"reload": True})


def _alive(topic: Topic) -> str:
    return f"event: alive\ndata: {time.time() - topic.looked_at:.1f}\n\n"
