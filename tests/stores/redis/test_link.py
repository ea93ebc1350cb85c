"""The way to a Redis server: what is done is done once, and what may have been done is said to be so."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.errors import OutcomeUnknown, StoreError, StoreFull, StoreUnavailable
from tenure.stores.redis import link as link_module
from tenure.stores.redis.address import Address
from tenure.stores.redis.link import Link
from tenure.stores.redis.scripts import Script
from tests.servers.certificates import Certificates
from tests.servers.proxy import Proxy, proxied
from tests.servers.server import Server
from tests.servers.topologies import eventually


def a_script(source: str) -> Script:
    return Script("test", source, hashlib.sha1(source.encode()).hexdigest())


ECHO = a_script("return ARGV[1]")
COUNT = a_script("return redis.call('INCR', KEYS[1])")
FILL = a_script("return redis.call('APPEND', KEYS[1], ARGV[1])")

MakeLink = Callable[..., Link]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path).start()
    yield server
    server.kill()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with proxied(server.port) as proxy:
        yield proxy


@pytest.fixture
async def make_link(server: Server) -> AsyncIterator[MakeLink]:
    made: list[Link] = []

    def make(url: str | None = None, **options: object) -> Link:
        query = "&".join(f"{name}={value}" for name, value in options.items())
        made.append(Link(Address.from_url(f"{url or server.url}?{query}"), ["counter"]))
        return made[-1]

    yield make
    for link in made:
        await link.close()


@pytest.fixture
def link(make_link: MakeLink) -> Link:
    return make_link()


@pytest.fixture
def weak_link(make_link: MakeLink, proxy: Proxy) -> Link:
    """One that can be cut."""
    return make_link(f"redis://127.0.0.1:{proxy.port}", timeout=20, connect_timeout=2)


@pytest.fixture
def hasty_link(make_link: MakeLink, proxy: Proxy) -> Link:
    """One that can be cut, and waits no longer than a busy machine may take for a round trip."""
    return make_link(f"redis://127.0.0.1:{proxy.port}", timeout=1, connect_timeout=1)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def clients(server: Server, kind: str = "normal") -> list[dict[str, str]]:
    """Who is connected, apart from the one who asks."""
    with server.client() as client:
        mine = client.client_id()
        return [each for each in client.client_list(_type=kind) if int(each["id"]) != mine]


# Scripts.


async def test_answers_come_as_redis_gives_them(link: Link) -> None:
    script = a_script("return {1, 'text', ARGV[1], false, {ARGV[2]}}")

    assert await link.run(script, [b"\x00\xff", 2]) == [1, b"text", b"\x00\xff", None, [b"2"]]
    assert await link.command("ECHO", "ü") == "ü".encode()


async def test_a_script_is_sent_once_and_then_named(link: Link, server: Server) -> None:
    server.do("CONFIG", "RESETSTAT")

    for number in range(5):
        assert await link.run(COUNT, []) == number + 1

    with server.client() as client:
        calls = client.info("commandstats")
    assert calls["cmdstat_eval"]["calls"] == 1
    assert calls["cmdstat_evalsha"]["calls"] == 5


async def test_scripts_that_the_server_has_forgotten_are_sent_again(link: Link, server: Server) -> None:  # F13
    await link.run(COUNT, [])
    server.do("SCRIPT", "FLUSH")

    assert await link.run(COUNT, []) == 2
    assert await asyncio.to_thread(link.run_now, COUNT, []) == 3


async def test_threads_without_a_loop_run_scripts_too(make_link: MakeLink, server: Server) -> None:
    link = make_link(connections=3)

    def work() -> list[Any]:
        return [link.run_now(COUNT, []) for _ in range(20)]

    counts = await asyncio.gather(*(asyncio.to_thread(work) for _ in range(8)))

    assert sorted(number for part in counts for number in part) == list(range(1, 161))
    assert len(clients(server)) <= 3


async def test_more_callers_than_connections_wait_for_each_other(make_link: MakeLink, server: Server) -> None:
    link = make_link(connections=2)

    answers = await asyncio.gather(*(link.run(ECHO, [number]) for number in range(50)))

    assert answers == [str(number).encode() for number in range(50)]
    assert len(clients(server)) == 2


async def test_links_of_several_loops_do_not_meet(server: Server) -> None:
    async def use() -> list[bytes]:
        link = Link(Address.from_url(server.url), ["counter"])
        answers = await asyncio.gather(*(link.run(ECHO, [number]) for number in range(20)))
        await link.close()
        return answers

    found = await asyncio.gather(*(asyncio.to_thread(asyncio.run, use()) for _ in range(4)))

    assert found == [[str(number).encode() for number in range(20)]] * 4


# What a server refuses.


async def test_what_a_script_cannot_do_is_an_error_and_the_connection_goes_on(link: Link, server: Server) -> None:
    with pytest.raises(StoreError, match="no such thing") as error:
        await link.run(a_script("return redis.error_reply('ERR no such thing')"), [])

    assert type(error.value) is StoreError
    assert await link.run(ECHO, ["x"]) == b"x"
    assert len(clients(server)) == 1


async def test_a_full_server_says_so_and_still_answers(link: Link, server: Server) -> None:  # F13
    server.do("CONFIG", "SET", "maxmemory", "3mb")

    with pytest.raises(StoreFull, match="maxmemory"):
        for _ in range(100):
            await link.run(FILL, [b"x" * 100_000])

    assert await link.run(ECHO, ["x"]) == b"x"


async def test_a_replica_is_not_written_to(link: Link, server: Server, tmp_path: Path) -> None:
    await link.run(COUNT, [])
    server.do("REPLICAOF", "127.0.0.1", "1")

    with pytest.raises(StoreUnavailable, match="READONLY"):
        await link.run(COUNT, [])

    server.do("REPLICAOF", "NO", "ONE")
    assert await link.run(COUNT, []) == 2


async def test_a_server_that_runs_somebodys_endless_script_is_unavailable(server: Server, make_link: MakeLink) -> None:
    link = make_link()
    server.do("CONFIG", "SET", "lua-time-limit", "20")
    endless = asyncio.create_task(make_link().run(a_script("while true do end"), []))
    async with asyncio.timeout(10):
        while True:
            try:
                await link.run(COUNT, [])
            except StoreUnavailable as error:
                assert "BUSY" in str(error)
                break

    server.do("SCRIPT", "KILL")
    with pytest.raises(StoreError, match="killed"):
        await endless
    assert await link.run(ECHO, ["x"]) == b"x"


async def test_a_server_that_loads_its_data_is_unavailable(tmp_path: Path) -> None:  # F13
    server = Server(tmp_path / "loading", "--appendonly", "yes", "--appendfsync", "always").start()
    with server.client() as client:
        client.mset({f"key {number}": "x" * 100 for number in range(20_000)})
        client.bgrewriteaof()
        eventually(lambda: not client.info("persistence")["aof_rewrite_in_progress"], "a rewritten log")
    server.kill()
    link = Link(Address.from_url(server.url), ["counter"])
    try:
        server.launch("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
        async with asyncio.timeout(10):
            while True:
                try:
                    await link.run(COUNT, [])
                except StoreUnavailable as error:
                    if "loading" in str(error).lower():
                        break
                await asyncio.sleep(0.01)
    finally:
        await link.close()
        server.kill()


# What happens to connections.


async def test_without_a_server_nothing_is_done(server: Server, link: Link) -> None:
    server.kill()

    for call in (link.run(COUNT, []), link.command("PING"), link.pop(["list"], 5)):
        with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{server.port}"):
            await call
    with pytest.raises(StoreUnavailable):
        await asyncio.to_thread(link.run_now, COUNT, [])


async def test_a_server_that_is_killed_and_started_again_is_used_again(server: Server, link: Link) -> None:  # F13
    await asyncio.gather(*(link.run(ECHO, [number]) for number in range(5)))
    server.kill()
    await asyncio.sleep(0.05)  # the ends of the connections arrive
    with pytest.raises(StoreUnavailable):
        await link.run(COUNT, [])

    server.start()

    assert await link.run(COUNT, []) == 1
    assert await asyncio.to_thread(link.run_now, COUNT, []) == 2


async def test_idle_connections_that_the_server_has_killed_are_not_noticed(link: Link, server: Server) -> None:  # F13
    for number in range(10):
        answers = await asyncio.gather(*(link.run(COUNT, []) for _ in range(3)))
        assert max(answers) == 4 * number + 3
        assert await asyncio.to_thread(link.run_now, COUNT, []) == 4 * number + 4
        server.do("CLIENT", "KILL", "TYPE", "normal")
        await asyncio.sleep(0.01)


async def test_a_pause_of_the_server_is_waited_for(link: Link, server: Server) -> None:  # F13
    await link.run(COUNT, [])
    began = time.monotonic()
    server.do("CLIENT", "PAUSE", "300")

    assert await link.run(COUNT, []) == 2

    assert time.monotonic() - began > 0.29


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_lost_answer_leaves_the_outcome_unknown(
    weak_link: Link, proxy: Proxy, server: Server, *, blocking: bool
) -> None:  # F16
    run = (lambda *words: asyncio.to_thread(weak_link.run_now, *words)) if blocking else weak_link.run
    await run(COUNT, [])
    proxy.lose_reply(to=b"EVALSHA")

    with pytest.raises(OutcomeUnknown):
        await run(COUNT, [])

    assert server.do("GET", "counter") == b"2"
    assert await run(COUNT, []) == 3


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_silent_network_is_not_waited_for(hasty_link: Link, proxy: Proxy, *, blocking: bool) -> None:  # F16
    run = (lambda *words: asyncio.to_thread(hasty_link.run_now, *words)) if blocking else hasty_link.run
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
    await hasty_link.run(ECHO, ["x"])
    proxy.drip = 0.2
    began = time.monotonic()

    with pytest.raises(OutcomeUnknown):
        await hasty_link.run(ECHO, ["a long answer " * 10])

    assert time.monotonic() - began < 20  # of the 28 that it would take


async def test_a_connection_that_is_reset_in_a_call_is_not_used_again(weak_link: Link, proxy: Proxy) -> None:  # F16
    await weak_link.run(ECHO, ["x"])
    proxy.drip = 60.0
    said = proxy.passed
    call = asyncio.create_task(weak_link.run(ECHO, ["lost"]))
    await asyncio.to_thread(eventually, lambda: proxy.passed > said, "a request under way")

    proxy.cut()

    with pytest.raises(OutcomeUnknown):
        await call
    proxy.heal()
    assert await weak_link.run(ECHO, ["y"]) == b"y"


async def test_a_request_too_large_for_the_buffers_is_cut_off_surely_undone(
    weak_link: Link, proxy: Proxy
) -> None:  # F16
    await weak_link.run(FILL, ["x"])
    proxy.blackhole()
    call = asyncio.create_task(weak_link.run(FILL, [b"x" * 50_000_000]))
    await asyncio.sleep(0.1)

    proxy.cut()

    with pytest.raises(StoreUnavailable):
        await call


async def test_the_answer_of_a_cancelled_call_meets_nobody_else(weak_link: Link, proxy: Proxy) -> None:  # F16
    await weak_link.run(ECHO, ["x"])
    proxy.blackhole()
    call = asyncio.create_task(weak_link.run(ECHO, ["cancelled"]))
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    proxy.heal()

    assert await weak_link.run(ECHO, ["mine"]) == b"mine"


async def test_calls_cancelled_at_any_instant_leave_every_answer_to_its_caller(make_link: MakeLink) -> None:  # F16
    link = make_link(connections=3)
    luck = random.Random(7)

    async def call(number: int) -> None:
        task = asyncio.create_task(link.run(ECHO, [number]))
        if luck.random() < 0.5:
            await asyncio.sleep(luck.random() * 0.002)
            task.cancel()
        await asyncio.wait([task])
        answer = None if task.cancelled() else task.result()
        assert answer in {None, str(number).encode()}

    for start in range(0, 600, 20):
        await asyncio.gather(*map(call, range(start, start + 20)))


# Waiting.


async def test_pop_says_which_list_it_took_from(link: Link, server: Server) -> None:
    server.do("RPUSH", "second", "1", "2")

    assert await link.pop(["first", "second"], 5) == b"second"
    assert server.do("LLEN", "second") == 1


async def test_pop_waits_for_an_element_and_no_longer_than_told(link: Link, server: Server) -> None:
    assert await link.pop(["list"], 0.05) is None
    waiting = asyncio.create_task(link.pop(["list"], 30))
    await asyncio.to_thread(
        eventually, lambda: any(each["flags"] == "b" for each in clients(server)), "a blocked client"
    )

    server.do("RPUSH", "list", "1")

    assert await waiting == b"list"
    assert await link.pop(["list"], 0.05) is None
    assert len(clients(server)) == 1  # the same connection each time


async def test_many_may_wait_beside_the_calls(make_link: MakeLink, server: Server) -> None:
    link = make_link(connections=1)
    waiting = [asyncio.create_task(link.pop([f"list {number}"], 30)) for number in range(20)]
    await asyncio.to_thread(
        eventually, lambda: sum(each["flags"] == "b" for each in clients(server)) == 20, "twenty blocked clients"
    )

    assert await link.run(ECHO, ["x"]) == b"x"
    for number in range(20):
        await link.command("RPUSH", f"list {number}", "1")

    assert await asyncio.gather(*waiting) == [f"list {number}".encode() for number in range(20)]


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

    assert await link.pop(["list"], 5) == b"list"


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


# Listening.


class Ear:
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
    ear = Ear(link)
    assert await ear.hears() is None

    for word in ("one", "two"):
        server.do("PUBLISH", "channel", word)

    assert [await ear.hears(), await ear.hears()] == [b"one", b"two"]


async def test_a_listener_listens_again_by_itself(link: Link, server: Server) -> None:  # F13
    ear = Ear(link)
    await ear.hears()

    server.do("CLIENT", "KILL", "TYPE", "pubsub")
    assert await ear.hears() is None
    server.do("PUBLISH", "channel", "after the kill")
    assert await ear.hears() == b"after the kill"

    server.kill()
    await asyncio.sleep(0.2)
    server.start()
    assert await ear.hears() is None
    server.do("PUBLISH", "channel", "after the restart")
    assert await ear.hears() == b"after the restart"


async def test_a_listener_that_may_not_listen_waits_until_it_may(server: Server, make_link: MakeLink) -> None:
    server.do("ACL", "SETUSER", "deaf", "on", ">deaf", "~*", "+@all", "resetchannels")
    ear = Ear(make_link(f"redis://deaf:deaf@127.0.0.1:{server.port}"))
    await asyncio.sleep(0.2)
    assert not ear.task.done()

    server.do("ACL", "SETUSER", "deaf", "allchannels")

    assert await ear.hears() is None


async def test_a_listener_notices_silence(
    weak_link: Link, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:  # F16
    monkeypatch.setattr(link_module, "SILENCE", 1.0)
    ear = Ear(weak_link)
    await ear.hears()
    said, tries = proxy.passed, proxy.tries
    asked = 2 * len("*1\r\n$4\r\nPING\r\n" + "*2\r\n$4\r\npong\r\n$0\r\n\r\n")
    await asyncio.to_thread(eventually, lambda: proxy.passed >= said + asked, "a question after an answer")
    assert ear._heard.empty()  # a quiet channel is not a dead one
    assert proxy.tries == tries

    proxy.blackhole()
    await asyncio.to_thread(eventually, lambda: proxy.tries > tries, "another connection")
    proxy.heal()

    assert await ear.hears() is None


# The end.


async def test_close_lets_calls_end_and_wakes_who_waits(server: Server, make_link: MakeLink) -> None:
    link = make_link()
    ear = Ear(link)
    await ear.hears()
    waiting = asyncio.create_task(link.pop(["list"], 30))
    await asyncio.to_thread(
        eventually, lambda: any(each["flags"] == "b" for each in clients(server)), "a blocked client"
    )
    server.do("CLIENT", "PAUSE", "300", "WRITE")
    calls = [asyncio.create_task(link.run(COUNT, [])) for _ in range(20)]
    await asyncio.sleep(0.05)

    async with asyncio.timeout(20):
        await link.close()

    assert sorted(await asyncio.gather(*calls)) == list(range(1, 21))
    assert await waiting is None
    await ear.task
    await asyncio.to_thread(eventually, lambda: not clients(server) + clients(server, "pubsub"), "no connection left")
    for call in (link.run(COUNT, []), link.command("PING"), link.pop(["list"], 5)):
        with pytest.raises(StoreUnavailable, match="closed"):
            await call
    await link.close()


# Ways in.


async def test_a_user_a_password_and_a_database_may_be_needed(server: Server, make_link: MakeLink) -> None:
    server.do("ACL", "SETUSER", "alice", "on", ">se/cr@et", "~*", "+@all")
    link = make_link(f"redis://alice:se%2Fcr%40et@127.0.0.1:{server.port}/3")

    await link.run(COUNT, [])

    assert await link.command("ACL", "WHOAMI") == b"alice"
    assert await asyncio.to_thread(link.run_now, COUNT, []) == 2
    with server.client() as client:
        client.execute_command("SELECT", 3)
    assert server.do("EXISTS", "counter") == 0


async def test_a_wrong_password_is_no_outage(server: Server, make_link: MakeLink) -> None:
    link = make_link(f"redis://alice:wrong@127.0.0.1:{server.port}")

    for call in (link.run(COUNT, []), asyncio.to_thread(link.run_now, COUNT, [])):
        with pytest.raises(StoreError, match="invalid username") as error:
            await call
        assert type(error.value) is StoreError
        assert "wrong" not in str(error.value)


async def test_what_a_user_may_not_do_is_refused(server: Server, make_link: MakeLink) -> None:
    server.do("ACL", "SETUSER", "bob", "on", ">bob", "~other", "+@all")
    link = make_link(f"redis://bob:bob@127.0.0.1:{server.port}")

    with pytest.raises(StoreError) as error:
        await link.run(COUNT, [])

    assert type(error.value) is StoreError


async def test_a_socket_in_the_file_system_is_a_way_too(tmp_path: Path, make_link: MakeLink) -> None:
    path = tmp_path / "socket"
    server = Server(tmp_path / "other", "--unixsocket", str(path)).start()
    link = make_link(f"unix://{path}", db=2)

    assert await link.run(COUNT, []) == 1
    assert await asyncio.to_thread(link.run_now, COUNT, []) == 2
    assert server.do("EXISTS", "counter") == 0
    await link.close()
    server.kill()


async def test_a_secure_server_must_be_who_it_says(
    server: Server, certificates: Certificates, make_link: MakeLink
) -> None:
    with proxied(server.port, certificates.server()) as secure:
        trusting = make_link(f"rediss://localhost:{secure.port}", ca=certificates.authority)
        assert await trusting.run(COUNT, []) == 1
        assert await asyncio.to_thread(trusting.run_now, COUNT, []) == 2
        careless = make_link(f"rediss://127.0.0.1:{secure.port}", verify="false")
        assert await careless.run(COUNT, []) == 3

        of_another_name = make_link(f"rediss://127.0.0.1:{secure.port}", ca=certificates.authority)
        of_nobody_known = make_link(f"rediss://localhost:{secure.port}")
        for link in (of_another_name, of_nobody_known):
            with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
                await link.run(COUNT, [])


async def test_a_secure_server_may_ask_who_we_are(
    server: Server, certificates: Certificates, make_link: MakeLink
) -> None:
    with proxied(server.port, certificates.server(ask_clients=True)) as secure:
        url = f"rediss://localhost:{secure.port}"
        known = make_link(url, ca=certificates.authority, cert=certificates.client)
        unknown = make_link(url, ca=certificates.authority)

        assert await known.run(COUNT, []) == 1
        with pytest.raises(StoreUnavailable):
            await unknown.run(COUNT, [])


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
        assert link.run_now(COUNT, []) == 1

        def child() -> None:
            gc.collect()
            assert link.run_now(COUNT, []) == 2
            with asyncio.Runner() as other:
                assert other.run(link.command("CLIENT", "ID")) != before
                gc.collect()
                assert other.run(link.run(COUNT, [])) == 3
                other.run(link.close())
            gc.collect()

        assert in_a_child(child) == 0

        assert runner.run(link.command("CLIENT", "ID")) == before
        assert runner.run(link.run(COUNT, [])) == 4
        assert link.run_now(COUNT, []) == 5
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
                assert link.run_now(ECHO, [number]) == str(number).encode()
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    codes = [in_a_child(lambda: [link.run_now(COUNT, []) for _ in range(3)]) for _ in range(10)]
    over.set()
    for thread in threads:
        thread.join()

    assert codes == [0] * 10
    assert errors == []
    assert server.do("GET", "counter") == b"30"
    asyncio.run(link.close())
