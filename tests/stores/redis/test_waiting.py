"""Waiting at a Redis server: for an element of a list, for what is said in a channel, and until somebody closes the link."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

import pytest

from tenure.errors import OutcomeUnknown, StoreUnavailable
from tenure.stores.redis import link as link_module
from tenure.stores.redis.link import Link
from tests.servers.proxy import Proxy
from tests.servers.server import Server
from tests.servers.topologies import eventually

from .conftest import MakeLink, clients
from .scripts import COUNT, ECHO

# Waiting.


async def test_pop_takes_the_first_element_of_one_of_the_lists(link: Link, server: Server) -> None:
    server.do("RPUSH", "second", "1", "2")

    assert await link.pop(["first", "second"], 5) == b"1"
    assert server.do("LLEN", "second") == 1


async def test_a_move_keeps_the_order_of_the_list(link: Link, server: Server) -> None:
    server.do("RPUSH", "from", "1", "2", "3")

    assert [await link.move("from", "to", 1) for _ in range(2)] == [b"1", b"2"]
    assert await link.move("from", "back", 1, end="RIGHT") == b"3"
    assert await link.move("from", "to", 0.05) is None

    assert server.do("LRANGE", "to", 0, -1) == [b"1", b"2"]
    assert server.do("LRANGE", "back", 0, -1) == [b"3"]


async def test_pop_waits_for_an_element_and_no_longer_than_told(link: Link, server: Server) -> None:
    assert await link.pop(["list"], 0.05) is None
    waiting = asyncio.create_task(link.pop(["list"], 30))
    await asyncio.to_thread(
        eventually, lambda: any(each["flags"] == "b" for each in clients(server)), "a blocked client"
    )

    server.do("RPUSH", "list", "1")

    assert await waiting == b"1"
    assert await link.pop(["list"], 0.05) is None
    assert len(clients(server)) == 1  # the same connection each time


async def test_many_may_wait_beside_the_calls(make_link: MakeLink, server: Server) -> None:
    link = make_link(connections=1)
    waiting = [asyncio.create_task(link.pop([f"list {number}"], 30)) for number in range(20)]
    await asyncio.to_thread(
        eventually, lambda: sum(each["flags"] == "b" for each in clients(server)) == 20, "twenty blocked clients"
    )

    assert await link.run_script(ECHO, ["x"]) == b"x"
    for number in range(20):
        await link.command("RPUSH", f"list {number}", number)

    assert await asyncio.gather(*waiting) == [f"{number}".encode() for number in range(20)]


async def test_a_cancelled_pop_takes_nothing_later(link: Link, server: Server) -> None:
    waiting = asyncio.create_task(link.pop(["list"], 30))
    await asyncio.to_thread(eventually, lambda: clients(server), "a blocked client")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.to_thread(
        eventually, lambda: not any(each["flags"] == "b" for each in clients(server)), "nobody blocked"
    )

    server.do("RPUSH", "list", "1")

    assert await link.pop(["list"], 5) == b"1"


async def test_a_pop_into_silence_ends(hasty_link: Link, proxy: Proxy) -> None:  # F16
    await hasty_link.pop(["list"], 0.01)
    proxy.blackhole()
    began = time.monotonic()

    with pytest.raises(OutcomeUnknown):
        await hasty_link.pop(["list"], 0.3)

    assert 1.2 < time.monotonic() - began < 20


async def test_a_pop_whose_connection_is_killed_says_so(link: Link, server: Server) -> None:  # F13
    waiting = asyncio.create_task(link.pop(["list"], 30))
    await asyncio.to_thread(
        eventually, lambda: any(each["flags"] == "b" for each in clients(server)), "a blocked client"
    )

    server.do("CLIENT", "KILL", "TYPE", "normal")

    with pytest.raises(OutcomeUnknown):
        await waiting


async def test_a_wait_for_an_element_leaves_the_list_as_it_is(link: Link, server: Server) -> None:
    assert not await link.has_element("list", 0.05)
    waiting = asyncio.create_task(link.has_element("list", 30))
    await asyncio.to_thread(
        eventually, lambda: any(each["flags"] == "b" for each in clients(server)), "a blocked client"
    )

    server.do("RPUSH", "list", "1", "2")

    assert await waiting
    assert await link.has_element("list", 30)
    assert server.do("LRANGE", "list", 0, -1) == [b"1", b"2"]


async def test_a_wait_for_an_element_ends_with_its_link(link: Link, server: Server) -> None:
    waiting = asyncio.create_task(link.has_element("list", 30))
    await asyncio.to_thread(
        eventually, lambda: any(each["flags"] == "b" for each in clients(server)), "a blocked client"
    )

    await link.close()

    assert not await waiting


# Listening.


class Subscription:
    """Someone who listens, and what was heard."""

    def __init__(self, link: Link) -> None:
        self._heard: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.task = asyncio.create_task(self._listen(link))

    async def _listen(self, link: Link) -> None:
        async for message in link.listen("channel"):
            self._heard.put_nowait(message)

    async def hears(self) -> bytes | None:
        async with asyncio.timeout(10):
            return await self._heard.get()


async def test_a_listener_hears_what_is_said_once_it_listens(link: Link, server: Server) -> None:
    subscription = Subscription(link)
    assert await subscription.hears() is None

    for word in ("one", "two"):
        server.do("PUBLISH", "channel", word)

    assert [await subscription.hears(), await subscription.hears()] == [b"one", b"two"]


async def test_one_connection_listens_to_several_channels(link: Link, server: Server) -> None:
    heard = link.listen_to(["one", "two", "three"])
    async with asyncio.timeout(10), aclosing(heard):
        assert await anext(heard) is None
        for channel in ("three", "one"):
            server.do("PUBLISH", channel, "word")

        assert [await anext(heard), await anext(heard)] == [(b"three", b"word"), (b"one", b"word")]


async def test_a_listener_listens_again_by_itself(link: Link, server: Server) -> None:  # F13
    subscription = Subscription(link)
    await subscription.hears()

    server.do("CLIENT", "KILL", "TYPE", "pubsub")
    assert await subscription.hears() is None
    server.do("PUBLISH", "channel", "after the kill")
    assert await subscription.hears() == b"after the kill"

    server.kill()
    await asyncio.sleep(0.2)
    server.start()
    assert await subscription.hears() is None
    server.do("PUBLISH", "channel", "after the restart")
    assert await subscription.hears() == b"after the restart"


async def test_a_listener_that_may_not_listen_waits_until_it_may(server: Server, make_link: MakeLink) -> None:
    server.do("ACL", "SETUSER", "deaf", "on", ">deaf", "~*", "+@all", "resetchannels")
    subscription = Subscription(make_link(f"redis://deaf:deaf@127.0.0.1:{server.port}"))
    await asyncio.sleep(0.2)
    assert not subscription.task.done()

    server.do("ACL", "SETUSER", "deaf", "allchannels")

    assert await subscription.hears() is None


async def test_a_listener_notices_silence(
    weak_link: Link, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:  # F16
    monkeypatch.setattr(link_module, "PING_AFTER", 1.0)
    subscription = Subscription(weak_link)
    await subscription.hears()
    said, tries = proxy.passed, proxy.tries
    asked = 2 * len("*1\r\n$4\r\nPING\r\n" + "*2\r\n$4\r\npong\r\n$0\r\n\r\n")
    await asyncio.to_thread(eventually, lambda: proxy.passed >= said + asked, "a question after an answer")
    assert subscription._heard.empty()  # a quiet channel is not a dead one
    assert proxy.tries == tries

    proxy.blackhole()
    await asyncio.to_thread(eventually, lambda: proxy.tries > tries, "another connection")
    proxy.heal()

    assert await subscription.hears() is None


# The end.


async def test_close_lets_calls_end_and_wakes_who_waits(server: Server, make_link: MakeLink) -> None:
    link = make_link()
    subscription = Subscription(link)
    await subscription.hears()
    waiting = asyncio.create_task(link.pop(["list"], 30))
    await asyncio.to_thread(
        eventually, lambda: any(each["flags"] == "b" for each in clients(server)), "a blocked client"
    )
    server.do("CLIENT", "PAUSE", "300", "WRITE")
    calls = [asyncio.create_task(link.run_script(COUNT, [])) for _ in range(20)]
    await asyncio.sleep(0.05)

    async with asyncio.timeout(20):
        await link.close()

    assert sorted(await asyncio.gather(*calls)) == list(range(1, 21))
    assert await waiting is None
    await subscription.task
    await asyncio.to_thread(eventually, lambda: not clients(server) + clients(server, "pubsub"), "no connection left")
    for call in (link.run_script(COUNT, []), link.command("PING"), link.pop(["list"], 5)):
        with pytest.raises(StoreUnavailable, match="closed"):
            await call
    await link.close()
