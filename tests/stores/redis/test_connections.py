"""Connections to a Redis server that break, stall or are inherited: what is done is done once, and what may have been done is said to be so."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
import time
from collections.abc import Callable

import pytest

from tenure.errors import OutcomeUnknown, StoreUnavailable
from tenure.stores.redis.address import Address
from tenure.stores.redis.link import Link
from tests.servers.certificates import Certificates
from tests.servers.proxy import Proxy, proxied
from tests.servers.server import Server
from tests.servers.topologies import eventually

from .conftest import MakeLink
from .scripts import COUNT, ECHO, FILL

# What happens to connections.


async def test_without_a_server_nothing_is_done(server: Server, link: Link) -> None:
    server.kill()

    for call in (link.run_script(COUNT, []), link.command("PING"), link.pop(["list"], 5)):
        with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{server.port}"):
            await call
    with pytest.raises(StoreUnavailable):
        await asyncio.to_thread(link.run_script_now, COUNT, [])


async def test_a_server_that_is_killed_and_started_again_is_used_again(server: Server, link: Link) -> None:  # F13
    await asyncio.gather(*(link.run_script(ECHO, [number]) for number in range(5)))
    server.kill()
    await asyncio.sleep(0.05)  # the ends of the connections arrive
    with pytest.raises(StoreUnavailable):
        await link.run_script(COUNT, [])

    server.start()

    assert await link.run_script(COUNT, []) == 1
    assert await asyncio.to_thread(link.run_script_now, COUNT, []) == 2


async def test_idle_connections_that_the_server_has_killed_are_not_noticed(link: Link, server: Server) -> None:  # F13
    for number in range(10):
        answers = await asyncio.gather(*(link.run_script(COUNT, []) for _ in range(3)))
        assert max(answers) == 4 * number + 3
        assert await asyncio.to_thread(link.run_script_now, COUNT, []) == 4 * number + 4
        server.do("CLIENT", "KILL", "TYPE", "normal")
        await asyncio.sleep(0.01)


async def test_a_pause_of_the_server_is_waited_for(link: Link, server: Server) -> None:  # F13
    await link.run_script(COUNT, [])
    began = time.monotonic()
    server.do("CLIENT", "PAUSE", "300")

    assert await link.run_script(COUNT, []) == 2

    assert time.monotonic() - began > 0.29


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_lost_answer_leaves_the_outcome_unknown(
    weak_link: Link, proxy: Proxy, server: Server, *, blocking: bool
) -> None:  # F16
    run = (lambda *words: asyncio.to_thread(weak_link.run_script_now, *words)) if blocking else weak_link.run_script
    await run(COUNT, [])
    proxy.lose_reply(to=b"EVALSHA")

    with pytest.raises(OutcomeUnknown):
        await run(COUNT, [])

    assert server.do("GET", "counter") == b"2"
    assert await run(COUNT, []) == 3


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_silent_network_is_not_waited_for(hasty_link: Link, proxy: Proxy, *, blocking: bool) -> None:  # F16
    run = (lambda *words: asyncio.to_thread(hasty_link.run_script_now, *words)) if blocking else hasty_link.run_script
    await run(COUNT, [])
    proxy.blackhole()
    began = time.monotonic()

    with pytest.raises(OutcomeUnknown):
        await run(COUNT, [])
    with pytest.raises(StoreUnavailable):  # nobody greets a new connection
        await run(COUNT, [])

    assert time.monotonic() - began < 20
    proxy.heal()
    assert await run(ECHO, ["x"]) == b"x"


async def test_a_network_that_crawls_is_not_waited_for(hasty_link: Link, proxy: Proxy) -> None:  # F16
    await hasty_link.run_script(ECHO, ["x"])
    proxy.drip = 0.2
    began = time.monotonic()

    with pytest.raises(OutcomeUnknown):
        await hasty_link.run_script(ECHO, ["a long answer " * 10])

    assert time.monotonic() - began < 20  # of the 28 that it would take


async def test_a_connection_that_is_reset_in_a_call_is_not_used_again(weak_link: Link, proxy: Proxy) -> None:  # F16
    await weak_link.run_script(ECHO, ["x"])
    proxy.drip = 60.0
    said = proxy.passed
    call = asyncio.create_task(weak_link.run_script(ECHO, ["lost"]))
    await asyncio.to_thread(eventually, lambda: proxy.passed > said, "a request under way")

    proxy.cut()

    with pytest.raises(OutcomeUnknown):
        await call
    proxy.heal()
    assert await weak_link.run_script(ECHO, ["y"]) == b"y"


async def test_a_request_too_large_for_the_buffers_is_cut_off_surely_undone(
    weak_link: Link, proxy: Proxy
) -> None:  # F16
    await weak_link.run_script(FILL, ["x"])
    proxy.blackhole()
    call = asyncio.create_task(weak_link.run_script(FILL, [b"x" * 50_000_000]))
    await asyncio.sleep(0.1)

    proxy.cut()

    with pytest.raises(StoreUnavailable):
        await call


async def test_the_answer_of_a_cancelled_call_meets_nobody_else(weak_link: Link, proxy: Proxy) -> None:  # F16
    await weak_link.run_script(ECHO, ["x"])
    proxy.blackhole()
    call = asyncio.create_task(weak_link.run_script(ECHO, ["cancelled"]))
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    proxy.heal()

    assert await weak_link.run_script(ECHO, ["mine"]) == b"mine"


async def test_calls_cancelled_at_any_instant_leave_every_answer_to_its_caller(make_link: MakeLink) -> None:  # F16
    link = make_link(connections=3)
    luck = random.Random(7)

    async def call(number: int) -> None:
        task = asyncio.create_task(link.run_script(ECHO, [number]))
        if luck.random() < 0.5:
            await asyncio.sleep(luck.random() * 0.002)
            task.cancel()
        await asyncio.wait([task])
        answer = None if task.cancelled() else task.result()
        assert answer in {None, str(number).encode()}

    for start in range(0, 600, 20):
        await asyncio.gather(*map(call, range(start, start + 20)))


# Forks.


def in_a_child(action: Callable[[], object]) -> int:
    """Run this in a forked child; its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        action()
        code = 0
    finally:
        os._exit(code)


@pytest.mark.parametrize("secure", [False, True])
def test_a_child_leaves_its_parents_connections_alone(
    server: Server, certificates: Certificates, *, secure: bool
) -> None:  # F22
    with proxied(server.port, certificates.server() if secure else None) as proxy, asyncio.Runner() as runner:
        scheme, query = ("rediss", f"?ca={certificates.authority}") if secure else ("redis", "")
        link = Link(Address.from_url(f"{scheme}://localhost:{proxy.port}{query}"), ["counter"])
        before = runner.run(link.command("CLIENT", "ID"))
        assert link.run_script_now(COUNT, []) == 1

        def child() -> None:
            gc.collect()
            assert link.run_script_now(COUNT, []) == 2
            with asyncio.Runner() as other:
                assert other.run(link.command("CLIENT", "ID")) != before
                gc.collect()
                assert other.run(link.run_script(COUNT, [])) == 3
                other.run(link.close())
            gc.collect()

        assert in_a_child(child) == 0

        assert runner.run(link.command("CLIENT", "ID")) == before
        assert runner.run(link.run_script(COUNT, [])) == 4
        assert link.run_script_now(COUNT, []) == 5
        runner.run(link.close())


def test_a_fork_while_other_threads_call_harms_nobody(server: Server) -> None:  # F22
    link = Link(Address.from_url(f"{server.url}?connections=2"), ["counter"])
    over = threading.Event()
    errors: list[BaseException] = []

    def call() -> None:
        number = 0
        while not over.is_set():
            number += 1
            try:
                assert link.run_script_now(ECHO, [number]) == str(number).encode()
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    codes = [in_a_child(lambda: [link.run_script_now(COUNT, []) for _ in range(3)]) for _ in range(10)]
    over.set()
    for thread in threads:
        thread.join()

    assert codes == [0] * 10
    assert errors == []
    assert server.do("GET", "counter") == b"30"
    asyncio.run(link.close())
