"""Open pages share their looks at the store, and no message is older than the page that it changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tenure.errors import StoreUnavailable
from tenure.web.rendering import Renderer
from tenure.web.topics import STREAMS, Rendered, TooMany, Topics


class Rendering:
    """A page whose number is that of the look."""

    def __init__(self, every: float = 0.05) -> None:
        self.every = every
        self.looks = 0
        self.fails = False
        self.regions = ("table",)
        self.took = 0.0

    async def __call__(self) -> Rendered:
        self.looks += 1
        number = self.looks
        await asyncio.sleep(self.took)
        if self.fails:
            raise StoreUnavailable("the store is gone")
        return Rendered("Jobs", dict.fromkeys(self.regions, f"<p>{number}</p>"), self.every)


async def patch(stream: AsyncIterator[str]) -> dict[str, Any]:
    """The next message of a stream."""
    async with asyncio.timeout(5):
        async for text in stream:
            if "event: patch" in text:
                lines = dict(line.split(": ", 1) for line in text.strip().splitlines())
                return {**json.loads(lines["data"]), "id": lines["id"]}
    raise AssertionError("the stream has ended")


async def test_ten_viewers_cost_as_much_as_one() -> None:
    looks = []
    for viewers in (1, 10):
        topics, render = Topics(), Rendering()
        streams = [topics.stream(topics.open("key", render), "", str) for _ in range(viewers)]
        for _ in range(4):
            messages = await asyncio.gather(*map(patch, streams))
            assert len({message["id"] for message in messages}) == 1
        looks.append(render.looks)
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]
        assert topics.viewers == 0
        after = render.looks
        await asyncio.sleep(0.15)
        assert render.looks == after  # nobody looks: nothing is asked
    assert looks[1] <= looks[0] + 1


async def test_the_first_message_is_not_older_than_the_stream() -> None:
    topics, render = Topics(), Rendering()
    render.took = 0.1
    topic = topics.open("key", render)
    first = topics.stream(topic, "", str)
    await patch(first)
    looks = render.looks
    second = topics.stream(topic, "", str)
    message = await patch(second)
    assert int(message["regions"]["table"][3:-4]) > looks


async def test_who_comes_back_gets_what_has_changed_since() -> None:
    topics, render = Topics(), Rendering(every=60)
    topic = topics.open("key", render)
    first = topics.stream(topic, "", str)
    message = await patch(first)
    again = await topics.poll(topic, message["id"], str)
    assert json.loads(again)["regions"] == {}
    assert json.loads(await Topics().poll(topic, message["id"], str))["regions"]  # another process knows nothing of it


async def test_a_store_that_fails_is_said_and_what_was_shown_stays() -> None:
    topics, render = Topics(), Rendering()
    stream = topics.stream(topics.open("key", render), "", str)
    await patch(stream)
    render.fails = True
    message = await patch(stream)
    while not message["away"]:
        message = await patch(stream)
    assert message["away"] == "the store is gone"
    assert message["names"] == ["table"]
    render.fails = False
    assert (await patch(stream))["away"] == ""


async def test_a_message_names_the_regions_that_there_are() -> None:
    topics, render = Topics(), Rendering()
    stream = topics.stream(topics.open("key", render), "", str)
    assert (await patch(stream))["names"] == ["table"]
    render.regions = ("problem",)
    message = await patch(stream)
    while message["names"] == ["table"]:
        message = await patch(stream)
    assert (message["names"], list(message["regions"])) == (["problem"], ["problem"])


async def test_polls_share_a_look() -> None:
    topics, render = Topics(), Rendering(every=1)
    topic = topics.open("key", render)
    answers = await asyncio.gather(*(topics.poll(topic, "", str) for _ in range(10)))
    assert len(set(answers)) == 1
    assert render.looks == 1


async def test_too_many_viewers_are_refused() -> None:
    topics, render = Topics(), Rendering()
    topic = topics.open("key", render)
    topic.viewers = STREAMS
    with pytest.raises(TooMany):
        topics.open("key", render)


def test_scripts_and_styles_are_light() -> None:
    files = Renderer("a title").static
    scripts = sum(len(text) for name, text in files.items() if name.endswith(".js"))
    assert scripts <= 30_000
    assert scripts + len(files["style.css"]) <= 75_000  # a page with 50 rows has as much again
