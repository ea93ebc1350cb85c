"""The way to a Redis server: who is let in, what is run there, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenure.errors import OutcomeUnknown, StoreError, StoreFull, StoreUnavailable
from tenure.stores.redis.address import Address
from tenure.stores.redis.link import Link
from tests.servers.certificates import Certificates
from tests.servers.proxy import proxied
from tests.servers.server import Server
from tests.servers.topologies import eventually

from .conftest import MakeLink, clients
from .scripts import COUNT, ECHO, FILL, a_script

# Scripts.


async def test_answers_come_as_redis_gives_them(link: Link) -> None:
    script = a_script("return {1, 'text', ARGV[1], false, {ARGV[2]}}")

    assert await link.run_script(script, [b"\x00\xff", 2]) == [1, b"text", b"\x00\xff", None, [b"2"]]
    assert await link.command("ECHO", "ü") == "ü".encode()


async def test_a_script_is_sent_once_and_then_named(link: Link, server: Server) -> None:
    server.do("CONFIG", "RESETSTAT")

    for number in range(5):
        assert await link.run_script(COUNT, []) == number + 1

    with server.client() as client:
        calls = client.info("commandstats")
    assert calls["cmdstat_eval"]["calls"] == 1
    assert calls["cmdstat_evalsha"]["calls"] == 5


async def test_scripts_that_the_server_has_forgotten_are_sent_again(link: Link, server: Server) -> None:  # F13
    await link.run_script(COUNT, [])
    server.do("SCRIPT", "FLUSH")

    assert await link.run_script(COUNT, []) == 2
    assert await asyncio.to_thread(link.run_script_now, COUNT, []) == 3


async def test_threads_without_a_loop_run_scripts_too(make_link: MakeLink, server: Server) -> None:
    link = make_link(connections=3)

    def work() -> list[Any]:
        return [link.run_script_now(COUNT, []) for _ in range(20)]

    counts = await asyncio.gather(*(asyncio.to_thread(work) for _ in range(8)))

    assert sorted(number for part in counts for number in part) == list(range(1, 161))
    assert len(clients(server)) <= 3


async def test_more_callers_than_connections_wait_for_each_other(make_link: MakeLink, server: Server) -> None:
    link = make_link(connections=2)

    answers = await asyncio.gather(*(link.run_script(ECHO, [number]) for number in range(50)))

    assert answers == [str(number).encode() for number in range(50)]
    assert len(clients(server)) == 2


async def test_links_of_several_loops_do_not_meet(server: Server) -> None:
    async def use() -> list[bytes]:
        link = Link(Address.from_url(server.url), ["counter"])
        answers = await asyncio.gather(*(link.run_script(ECHO, [number]) for number in range(20)))
        await link.close()
        return answers

    found = await asyncio.gather(*(asyncio.to_thread(asyncio.run, use()) for _ in range(4)))

    assert found == [[str(number).encode() for number in range(20)]] * 4


# What a server refuses.


async def test_what_a_script_cannot_do_is_an_error_and_the_connection_goes_on(link: Link, server: Server) -> None:
    with pytest.raises(StoreError, match="no such thing") as error:
        await link.run_script(a_script("return redis.error_reply('ERR no such thing')"), [])

    assert type(error.value) is StoreError
    assert await link.run_script(ECHO, ["x"]) == b"x"
    assert len(clients(server)) == 1


async def test_a_full_server_says_so_and_still_answers(link: Link, server: Server) -> None:  # F13
    server.do("CONFIG", "SET", "maxmemory", "3mb")

    with pytest.raises(StoreFull, match="maxmemory"):
        for _ in range(100):
            await link.run_script(FILL, [b"x" * 100_000])

    assert await link.run_script(ECHO, ["x"]) == b"x"


async def test_a_replica_is_not_written_to(link: Link, server: Server, tmp_path: Path) -> None:
    await link.run_script(COUNT, [])
    server.do("REPLICAOF", "127.0.0.1", "1")

    with pytest.raises(StoreUnavailable, match="READONLY"):
        await link.run_script(COUNT, [])

    server.do("REPLICAOF", "NO", "ONE")
    assert await link.run_script(COUNT, []) == 2


async def test_a_server_that_runs_somebodys_endless_script_is_unavailable(server: Server, make_link: MakeLink) -> None:
    link = make_link()
    server.do("CONFIG", "SET", "lua-time-limit", "20")
    endless = asyncio.create_task(make_link().run_script(a_script("while true do end"), []))
    async with asyncio.timeout(10):
        while True:
            try:
                await link.run_script(COUNT, [])
            except StoreUnavailable as error:
                assert "BUSY" in str(error)
                break

    server.do("SCRIPT", "KILL")
    with pytest.raises(StoreError, match="killed"):
        await endless
    assert await link.run_script(ECHO, ["x"]) == b"x"


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
                    await link.run_script(COUNT, [])
                except StoreUnavailable as error:
                    if "loading" in str(error).lower():
                        break
                await asyncio.sleep(0.01)
    finally:
        await link.close()
        server.kill()


# Ways in.


async def test_a_user_a_password_and_a_database_may_be_needed(server: Server, make_link: MakeLink) -> None:
    server.do("ACL", "SETUSER", "alice", "on", ">se/cr@et", "~*", "+@all")
    link = make_link(f"redis://alice:se%2Fcr%40et@127.0.0.1:{server.port}/3")

    await link.run_script(COUNT, [])

    assert await link.command("ACL", "WHOAMI") == b"alice"
    assert await asyncio.to_thread(link.run_script_now, COUNT, []) == 2
    with server.client() as client:
        client.execute_command("SELECT", 3)
    assert server.do("EXISTS", "counter") == 0


async def test_a_wrong_password_is_told_with_what_to_do_and_not_shown(server: Server, make_link: MakeLink) -> None:
    link = make_link(f"redis://alice:wrong@127.0.0.1:{server.port}")

    for call in (link.run_script(COUNT, []), asyncio.to_thread(link.run_script_now, COUNT, [])):
        with pytest.raises(StoreUnavailable, match=r"invalid username.*correct the user and the password") as error:
            await call
        assert "wrong" not in str(error.value)


@pytest.mark.parametrize("arguments", [0, 30], ids=["short", "long"])
async def test_a_missing_password_is_told_with_what_to_do(server: Server, make_link: MakeLink, arguments: int) -> None:
    server.do("ACL", "SETUSER", "default", "resetpass", ">secret")
    link = make_link(f"redis://127.0.0.1:{server.port}")

    with pytest.raises(StoreUnavailable, match=r"(?i)authenticat.*correct the user and the password"):
        await link.run_script(COUNT, ["x"] * arguments)


async def test_what_a_user_may_not_do_is_refused(server: Server, make_link: MakeLink) -> None:
    server.do("ACL", "SETUSER", "bob", "on", ">bob", "~other", "+@all")
    link = make_link(f"redis://bob:bob@127.0.0.1:{server.port}")

    with pytest.raises(StoreUnavailable, match=r"o permissions to access.*give this user the rights"):
        await link.run_script(COUNT, [])
    server.do("ACL", "SETUSER", "bob", "allkeys")
    assert await link.run_script(COUNT, []) == 1


async def test_a_script_that_is_refused_in_its_middle_may_be_half_done(server: Server, make_link: MakeLink) -> None:
    server.do("ACL", "SETUSER", "carol", "on", ">carol", "~*", "+@all", "-incr")
    link = make_link(f"redis://carol:carol@127.0.0.1:{server.port}")

    with pytest.raises(OutcomeUnknown, match=r"midway.*give this user the rights"):
        await link.run_script(COUNT, [])


async def test_a_socket_in_the_file_system_is_a_way_too(tmp_path: Path, make_link: MakeLink) -> None:
    path = tmp_path / "socket"
    server = Server(tmp_path / "other", "--unixsocket", str(path)).start()
    link = make_link(f"unix://{path}", db=2)

    assert await link.run_script(COUNT, []) == 1
    assert await asyncio.to_thread(link.run_script_now, COUNT, []) == 2
    assert server.do("EXISTS", "counter") == 0
    await link.close()
    server.kill()


async def test_a_secure_server_must_be_who_it_says(
    server: Server, certificates: Certificates, make_link: MakeLink
) -> None:
    with proxied(server.port, certificates.server()) as secure:
        trusting = make_link(f"rediss://localhost:{secure.port}", ca=certificates.authority)
        assert await trusting.run_script(COUNT, []) == 1
        assert await asyncio.to_thread(trusting.run_script_now, COUNT, []) == 2
        careless = make_link(f"rediss://127.0.0.1:{secure.port}", verify="false")
        assert await careless.run_script(COUNT, []) == 3

        of_another_name = make_link(f"rediss://127.0.0.1:{secure.port}", ca=certificates.authority)
        of_nobody_known = make_link(f"rediss://localhost:{secure.port}")
        for link in (of_another_name, of_nobody_known):
            with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
                await link.run_script(COUNT, [])


async def test_a_secure_server_may_ask_who_we_are(
    server: Server, certificates: Certificates, make_link: MakeLink
) -> None:
    with proxied(server.port, certificates.server(ask_clients=True)) as secure:
        url = f"rediss://localhost:{secure.port}"
        known = make_link(url, ca=certificates.authority, cert=certificates.client)
        unknown = make_link(url, ca=certificates.authority)

        assert await known.run_script(COUNT, []) == 1
        with pytest.raises(StoreUnavailable):
            await unknown.run_script(COUNT, [])
